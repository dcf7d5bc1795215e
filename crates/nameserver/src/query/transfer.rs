//! Transfers of hosted zones to other servers: AXFR (RFC 5936) and IXFR (RFC 1995).
//!
//! The reply to this query is the first message of the transfer. Those behind it are in the
//! worker's memory ([`Scratch::take_transfer`](super::scratch::Scratch)), to be sent as the client
//! reads them. No version before the one in force is kept, so IXFR gets the whole zone, which its
//! standard permits (RFC 1995 §4).

use std::sync::Arc;

use avocet_wire::header::{HEADER_LEN, Header};
use avocet_wire::view::{MessageView, RecordSection};
use avocet_wire::{Ede, QueryView, Rcode, Rtype};
use avocet_zone::{HostedQuestion, HostedZone, OutboundTransfer, Proofs, is_newer};

use super::asked::Transport;
use super::context::{Arrival, Client, Query, QueryContext};
use super::decision::Stage;
use super::finding::{Finding, Offer};
use super::respond::{Draft, draft_empty};
use crate::transfers::{ServerEvent, TransferRest};

/// Answers a query for a transfer.
#[cold]
pub(super) fn answer(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> Finding {
    let Arrival::New { view, client } = query.arrival else { return Finding::Nothing };
    let draft = match begin(cx, query, (view, client), out) {
        Ok(draft) => draft,
        Err((stage, rcode, code, text)) => {
            let draft = draft_empty(out, Some(view.question()), rcode);
            let ede = code.map(|code| (code, text));
            return Finding::Answer(Offer::made(stage, Draft { ede, ..draft }));
        }
    };
    Finding::Answer(Offer::made(Stage::Hosted, draft))
}

/// Why there is no transfer: stage, RCODE, extended error and its text.
type NoTransfer = (Stage, Rcode, Option<Ede>, &'static str);

fn begin(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    (view, client): (&QueryView<'_>, &Client<'_>),
    out: &mut [u8],
) -> Result<Draft, NoTransfer> {
    let ledger = &cx.shared.transfers;
    let is_stream = matches!(client.transport, Transport::Tcp | Transport::Tls);
    let apex = query.key.qname().wire();
    let key = cx.scratch.signer();
    let key = key.as_ref().map(|key| key.name().wire());
    let mut configured = cx.state.config.zones.iter();
    let config = configured.find(|zone| *zone.name == *apex);
    if config.is_none_or(|zone| !zone.may_transfer(client.ip, key)) {
        ledger.count(ServerEvent::Refused);
        let text = "this client may not transfer this zone";
        return Err((Stage::Refused, Rcode::REFUSED, Some(Ede::PROHIBITED), text));
    }
    if !is_stream && view.qtype == Rtype::AXFR {
        // Not defined over UDP (RFC 5936 §4.2).
        return Err((Stage::Malformed, Rcode::FORMERR, None, ""));
    }
    let Some(Some(zone)) = cx.state.names.zones.get(apex) else {
        let text = "no version of the zone is loaded";
        return Err((Stage::Hosted, Rcode::SERVFAIL, Some(Ede::NOT_READY), text));
    };
    if view.qtype == Rtype::IXFR && (!is_stream || has_latest(view, zone)) {
        return Ok(soa_alone(cx, query, out));
    }
    let Some(permit) = ledger.permit(client.ip) else {
        ledger.count(ServerEvent::Limited);
        let text = "too many transfers in progress";
        return Err((Stage::Shed, Rcode::SERVFAIL, Some(Ede::NOT_READY), text));
    };
    let mut messages = OutboundTransfer::new(zone.clone(), view.header(), view.question());
    let mut first = Vec::new();
    let written = messages.next(&mut first);
    let place = out.get_mut(..first.len()).filter(|_| written.is_ok());
    let Some(place) = place else {
        return Err((Stage::Hosted, Rcode::SERVFAIL, None, ""));
    };
    place.copy_from_slice(&first);
    cx.scratch.put_transfer(Box::new(TransferRest::new(messages, permit)));
    Ok(Draft { len: first.len(), rcode: Rcode::NOERROR, ede: None, note: 0 })
}

/// Returns whether the client of an IXFR has this version or a later one (RFC 1995 §2).
fn has_latest(view: &QueryView<'_>, zone: &Arc<HostedZone>) -> bool {
    let serial = || {
        let message = MessageView::new(view.octets()).ok()?;
        let mut records = message.section(RecordSection::Authority).ok()?;
        let soa = records.find_map(|record| record.ok().filter(|one| one.rtype == Rtype::SOA))?;
        let rdata = soa.rdata();
        let serial = rdata.get(rdata.len().checked_sub(20)?..)?.first_chunk()?;
        Some(u32::from_be_bytes(*serial))
    };
    serial().is_some_and(|serial| !is_newer(zone.serial(), serial))
}

/// Answers with the SOA record: the client has this version, or must ask over TCP.
fn soa_alone(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> Draft {
    let question = HostedQuestion {
        qname: query.key.qname(),
        qtype: Rtype::SOA,
        proofs: Proofs::Omitted,
        limit: usize::from(query.asked.limit),
    };
    let answer = avocet_zone::answer(&cx.state.names.zones, &question, out);
    let (len, rcode) = answer.map_or((HEADER_LEN, Rcode::SERVFAIL), |one| (one.len, one.rcode));
    let qtype_at = HEADER_LEN + query.key.qname().len();
    if let Some(place) = out.get_mut(qtype_at..qtype_at + 2) {
        place.copy_from_slice(&Rtype::IXFR.0.to_be_bytes());
    }
    // Only the answer is sent: the last record that is kept.
    let len = only_answer(&mut out[..len]).unwrap_or(len);
    Draft { len, rcode, ede: None, note: 0 }
}

/// Removes what is behind the answer section. Returns the length.
fn only_answer(message: &mut [u8]) -> Option<usize> {
    let view = MessageView::new(message).ok()?;
    let mut header: Header = view.header();
    let mut records = view.records().ok()?;
    for _ in 0..header.counts[1] {
        records.next()?.ok()?;
    }
    let len = records.position();
    header.counts = [header.counts[0], header.counts[1], 0, 0];
    header.write(message.first_chunk_mut()?);
    Some(len)
}
