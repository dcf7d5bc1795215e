//! NOTIFY (RFC 1996): a primary says that its zone has changed.
//!
//! NOTIFY is accepted only from the primaries of a zone, and from clients that sign with the zone's
//! key. A message only starts a check of the primaries, at most one for each zone at a time. The
//! data of the message is not used.

use avocet_wire::header::{AA, HEADER_LEN, Header, QR};
use avocet_wire::{Class, Ede, NameBuf, Opcode, QueryView, Rcode, Rtype};

use super::context::{Client, QueryContext};
use super::decision::{Decision, Outgoing, QueryStep, Stage};
use super::respond::draft_empty;
use crate::transfers::ServerEvent;

/// Answers a NOTIFY message about an SOA record. Returns `None` for other messages, and for clients
/// that this server does not serve.
#[cold]
pub(super) fn answer(
    cx: &QueryContext<'_>,
    octets: &[u8],
    client: &Client<'_>,
    out: &mut [u8],
) -> Option<QueryStep> {
    let header = Header::read(octets).filter(|header| !header.has(QR))?;
    if header.opcode() != Opcode::NOTIFY {
        return None;
    }
    let question = QueryView::question_behind_header(octets)?;
    let (qname, &[high, low, class_high, class_low]) = question.split_last_chunk()?;
    let name = NameBuf::from_wire(qname).ok()?.folded();
    let is_soa = u16::from_be_bytes([high, low]) == Rtype::SOA.0;
    let is_internet = u16::from_be_bytes([class_high, class_low]) == Class::IN.0;
    if !is_soa || !is_internet {
        return None;
    }
    let mut zones = cx.state.config.zones.iter();
    let zone = zones.find(|zone| zone.is_common() && *zone.name == *name.view().wire());
    let key = cx.scratch.signer();
    let key = key.as_ref().map(|key| key.name().wire());
    let mut lists = cx.state.config.policy.lists.iter();
    let is_heard = zone.is_some_and(|zone| zone.hears(client.ip, key))
        || lists.any(|list| list.hears(name.view().wire(), client.ip, key));
    if !is_heard && !cx.state.allow.admits(client.entrance, client.ip) {
        cx.shared.transfers.count(ServerEvent::NoticeRefused);
        return None;
    }
    let (rcode, flags) = if is_heard {
        cx.shared.transfers.count(ServerEvent::NoticeHeard);
        cx.shared.notices.note(name.view().wire());
        (Rcode::NOERROR, AA)
    } else {
        cx.shared.transfers.count(ServerEvent::NoticeRefused);
        (Rcode::REFUSED, 0)
    };
    let len = draft_empty(out, Some(question), rcode).len;
    let flags = QR | flags | header.flags & 0x7800 | rcode.low();
    Header { id: header.id, flags, counts: [1, 0, 0, 0] }
        .write(out.first_chunk_mut::<HEADER_LEN>()?);
    let stage = if rcode == Rcode::NOERROR { Stage::Hosted } else { Stage::Refused };
    let ede = (rcode == Rcode::REFUSED).then_some(Ede::PROHIBITED);
    let at = Decision::at(stage, client.transport, cx.state.revision);
    let decision = Decision { qtype: Rtype::SOA, rcode, ede, ..at };
    let is_verified = client.transport.is_stream();
    Some(QueryStep::Reply(Outgoing { len, hash: 0, is_verified, decision }))
}
