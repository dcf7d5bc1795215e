//! Transfers of hosted zones to other servers: AXFR (RFC 5936) and IXFR (RFC 1995).
//!
//! The reply to this query is the first message of the transfer. The later messages are in the
//! worker's memory ([`Scratch::take_transfer`](super::scratch::Scratch)), and are sent as the
//! client reads them. IXFR gets the changes since the client's version, or the whole zone if the
//! changes are no longer stored, or are longer than the zone (RFC 1995 §4).

use avocet_config::transfer::{AliasTransfer, TransferClient};
use avocet_wire::header::{HEADER_LEN, Header};
use avocet_wire::view::{MessageView, RecordSection};
use avocet_wire::{Ede, QueryView, Rcode, Rtype};
use avocet_zone::{HostedQuestion, HostedZone, MAX_TSIG, OutboundTransfer, Proofs, is_newer};

use super::asked::Transport;
use super::context::{Arrival, Client, Query, QueryContext};
use super::decision::Stage;
use super::finding::{Finding, Offer};
use super::respond::{Draft, draft_empty};
use crate::transfers::{ServerEvent, TransferRest};

/// Number of octets that are reserved for an OPT record with a cookie.
const OPT_ROOM: usize = 64;

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

/// The reason why there is no transfer: stage, RCODE, extended error and its text.
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
    // TLS 1.3 or later is required (RFC 9103 §7.2).
    let is_encrypted = client.transport == Transport::Tls && !client.is_tls12;
    let asking = TransferClient { ip: client.ip, key, is_encrypted };
    let zones = cx.state.zones_of(query.profile);
    let id = zones.id_of(apex);
    let mut configured = cx.state.config.zones.iter();
    let config = configured.find(|zone| zone.is(&id));
    if config.is_none_or(|zone| !zone.may_transfer(&asking)) {
        ledger.count(ServerEvent::Refused);
        let text = "this client may not transfer this zone";
        return Err((Stage::Refused, Rcode::REFUSED, Some(Ede::PROHIBITED), text));
    }
    if !is_stream && view.qtype == Rtype::AXFR {
        // AXFR is not defined over UDP (RFC 5936 §4.2).
        return Err((Stage::Malformed, Rcode::FORMERR, None, ""));
    }
    let Some(Some(zone)) = zones.get(apex) else {
        let text = "no version of the zone is loaded";
        return Err((Stage::Hosted, Rcode::SERVFAIL, Some(Ede::NOT_READY), text));
    };
    check_aliases(config.map(|config| config.transfer_alias), zone).inspect_err(|reason| {
        if reason.0 == Stage::Refused {
            ledger.count(ServerEvent::Refused);
        }
    })?;
    let begun = OutboundTransfer::new(zone.clone(), view.header(), view.question());
    let serial = serial_of(view).filter(|_| view.qtype == Rtype::IXFR);
    if serial.is_some_and(|serial| !is_newer(zone.serial(), serial)) {
        return Ok(soa_alone(cx, query, out));
    }
    let changes = serial.and_then(|serial| zone.changes_since(serial));
    if view.qtype == Rtype::IXFR && !is_stream {
        let len =
            changes.and_then(|changes| in_datagram(cx, query, begun.of_changes(changes), out));
        return Ok(len.map_or_else(|| soa_alone(cx, query, out), whole));
    }
    let mut messages = match changes {
        Some(changes) => begun.of_changes(changes),
        None => begun,
    };
    let Some(permit) = ledger.permit(client.ip) else {
        ledger.count(ServerEvent::Limited);
        let text = "too many transfers in progress";
        return Err((Stage::Shed, Rcode::SERVFAIL, Some(Ede::NOT_READY), text));
    };
    let mut first = Vec::new();
    let written = messages.next(&mut first);
    let place = out.get_mut(..first.len()).filter(|_| written.is_ok());
    let Some(place) = place else {
        return Err((Stage::Hosted, Rcode::SERVFAIL, None, ""));
    };
    place.copy_from_slice(&first);
    cx.scratch.put_transfer(Box::new(TransferRest::new(messages, permit)));
    Ok(whole(first.len()))
}

/// Checks that the ALIAS records of a zone do not prevent its transfer.
fn check_aliases(treatment: Option<AliasTransfer>, zone: &HostedZone) -> Result<(), NoTransfer> {
    match treatment {
        Some(AliasTransfer::Refuse) if zone.first_alias().is_some() => {
            let text = "the zone has ALIAS records: transfer-alias";
            Err((Stage::Refused, Rcode::REFUSED, Some(Ede::NOT_SUPPORTED), text))
        }
        Some(AliasTransfer::Addresses) if zone.holds_transfers() => {
            let text = "the addresses behind the ALIAS records are not known yet";
            Err((Stage::Hosted, Rcode::SERVFAIL, Some(Ede::NOT_READY), text))
        }
        _ => Ok(()),
    }
}

/// Returns the draft of a message that is already written.
const fn whole(len: usize) -> Draft {
    Draft { len, rcode: Rcode::NOERROR, ede: None, note: 0 }
}

/// Writes the changes of an IXFR into one message if it fits into a datagram (RFC 1995 §2). Returns
/// the length of the message.
fn in_datagram(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    mut messages: OutboundTransfer,
    out: &mut [u8],
) -> Option<usize> {
    let of_signature = cx.scratch.signer().map_or(0, |_| MAX_TSIG);
    let limit = usize::from(query.asked.limit).checked_sub(OPT_ROOM + of_signature)?;
    let mut only = Vec::new();
    messages.next(&mut only).ok()?;
    let is_short = messages.is_done() && only.len() <= limit;
    out.get_mut(..only.len()).filter(|_| is_short)?.copy_from_slice(&only);
    cx.shared.transfers.count(ServerEvent::Sent);
    Some(only.len())
}

/// Returns the serial of the zone version that the client has (RFC 1995 §3).
fn serial_of(view: &QueryView<'_>) -> Option<u32> {
    let message = MessageView::new(view.octets()).ok()?;
    let mut records = message.section(RecordSection::Authority).ok()?;
    let soa = records.find_map(|record| record.ok().filter(|one| one.rtype == Rtype::SOA))?;
    let rdata = soa.rdata();
    let serial = rdata.get(rdata.len().checked_sub(20)?..)?.first_chunk()?;
    Some(u32::from_be_bytes(*serial))
}

/// Answers with the SOA record only, because the client has the latest version, or must repeat the
/// query over TCP.
fn soa_alone(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> Draft {
    let question = HostedQuestion {
        qname: query.key.qname(),
        qtype: Rtype::SOA,
        proofs: Proofs::Omitted,
        limit: usize::from(query.asked.limit),
    };
    let answer = avocet_zone::answer(cx.state.zones_of(query.profile), &question, out);
    let (len, rcode) = answer.map_or((HEADER_LEN, Rcode::SERVFAIL), |one| (one.len, one.rcode));
    let qtype_at = HEADER_LEN + query.key.qname().len();
    if let Some(place) = out.get_mut(qtype_at..qtype_at + 2) {
        place.copy_from_slice(&Rtype::IXFR.0.to_be_bytes());
    }
    // Only the header, the question and the SOA record are sent.
    let len = only_answer(&mut out[..len]).unwrap_or(len);
    Draft { len, rcode, ede: None, note: 0 }
}

/// Removes everything after the answer section. Returns the length.
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
