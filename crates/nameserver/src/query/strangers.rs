//! Queries of strangers: clients that the policy identifies by device or name, and that have not
//! been looked up yet. The policy judges these queries after the look-up, so that the first query
//! of an address gets the verdict of its device.

use avocet_policy::client::DeviceClaims;
use avocet_wire::{Ede, Header, QueryView, Rcode, Rtype};

use super::admission::{Rejection, reader};
use super::asked::{Asked, Transport};
use super::context::{Client, QueryContext};
use super::decision::{QueryStep, Stage};
use super::held::HeldQuery;
use super::respond::{Draft, draft_empty, truncated};

/// Returns the client of a held query.
pub(super) fn client_of(held: &HeldQuery) -> Client<'_> {
    let HeldQuery { ip, device, transport, entrance, ref route, .. } = *held;
    let claims = DeviceClaims::of(device);
    // The TLS version only matters for transfers, which are never held.
    Client { ip, transport, is_tls12: false, entrance, claims, route: route.way() }
}

/// Holds the query of a client that must be looked up first (a stranger); returns `None` for other
/// clients. Transfers are not held, because access lists decide about them, not the policy.
#[inline]
pub(super) fn hold(
    cx: &QueryContext<'_>,
    octets: &[u8],
    qtype: Rtype,
    client: &Client<'_>,
) -> Option<QueryStep> {
    if !cx.state.has_strangers || !cx.is_stranger(client.ip) {
        return None;
    }
    hold_stranger(cx, octets, qtype, client)
}

#[cold]
fn hold_stranger(
    cx: &QueryContext<'_>,
    octets: &[u8],
    qtype: Rtype,
    client: &Client<'_>,
) -> Option<QueryStep> {
    if cx.scratch.is_looking() || matches!(qtype, Rtype::AXFR | Rtype::IXFR) {
        return None;
    }
    cx.scratch.hold(HeldQuery {
        octets: octets.into(),
        ip: client.ip,
        device: cx.device_of(client),
        transport: client.transport,
        entrance: client.entrance,
        route: client.route.kept(),
        since: cx.now,
    });
    Some(QueryStep::Resolve)
}

/// Returns the reply to a held query if its client could not be identified in time. Over UDP, the
/// reply has TC and no data. When the kernel sends it, the kernel learns the client's hardware
/// address. The client's next query, over TCP, can thus be judged. Over a stream, the reply is
/// SERVFAIL.
#[cold]
pub(super) fn turned_off<'q>(
    cx: &QueryContext<'_>,
    held: &'q HeldQuery,
    out: &mut [u8],
) -> Rejection<'q> {
    let (client, question) = (client_of(held), held.question());
    let Some(header) = Header::read(&held.octets) else { return Rejection::Silence(Stage::Shed) };
    let (asked, qtype) = match QueryView::parse(&held.octets) {
        Ok(view) => match Asked::read(&view, client.transport, || reader(cx, &client)) {
            Ok(asked) => (asked, view.qtype),
            Err(_) => return Rejection::Silence(Stage::Shed),
        },
        Err(_) => (Asked::from_header(header, client.transport), Rtype(0)),
    };
    let ede = Some((Ede::OTHER, "the device of the client is not known yet"));
    let draft = match client.transport {
        Transport::Udp => truncated(question, out),
        _ => Draft { ede, ..draft_empty(out, Some(question), Rcode::SERVFAIL) },
    };
    Rejection::Reply { draft, asked, question, qtype, stage: Stage::Shed }
}
