//! UPDATE (RFC 2136): a client changes a hosted zone.
//!
//! A worker checks only whether the client may change any record of the zone. Another thread reads
//! and checks the message, writes the change to the disk, puts the change in force, and replies.

use std::sync::Arc;

use avocet_wire::header::{Header, QR};
use avocet_wire::{Ede, NameBuf, Opcode, QueryView, Rcode, Rtype};
use avocet_zone::{TsigKey, TsigSigner};

use super::asked::Asked;
use super::context::{Client, QueryContext};
use super::decision::{Decision, Outgoing, QueryStep, Stage};
use super::miss::Waiter;
use super::octets::Octets;
use crate::transfers::ServerEvent;
use crate::updates::{WaitingUpdate, reply};

/// Returns whether any zone accepts updates. If not, the server answers with NOTIMP.
pub(super) fn are_taken(cx: &QueryContext<'_>) -> bool {
    cx.state.config.zones.iter().any(|zone| !zone.allow_update.is_empty())
}

/// Returns whether a message is an update.
pub(super) fn is_update(octets: &[u8]) -> bool {
    Header::read(octets).is_some_and(|header| !header.has(QR) && header.opcode() == Opcode::UPDATE)
}

/// Refuses an update without a signature.
#[cold]
pub(super) fn unsigned(
    cx: &QueryContext<'_>,
    octets: &[u8],
    client: &Client<'_>,
    out: &mut [u8],
) -> QueryStep {
    cx.shared.transfers.count(ServerEvent::UpdateRefused);
    answered(cx, reply(octets, Rcode::REFUSED), Rcode::REFUSED, (client, out))
}

/// Queues an update with a verified signature. Another thread replies later. An update that is not
/// permitted is refused at once.
#[cold]
pub(super) fn signed(
    cx: &QueryContext<'_>,
    message: &[u8],
    mut signer: TsigSigner,
    client: &Client<'_>,
    out: &mut [u8],
) -> QueryStep {
    let key = signer.key().clone();
    let update = waiting(cx, message, (&key, &signer), client);
    let offer = |update: WaitingUpdate| {
        let zone = update.zone.clone();
        cx.shared.updates.offer(&zone, update)
    };
    let (refusal, event) = match update.map(offer) {
        Ok(true) => return QueryStep::Resolve,
        Ok(false) => (Rcode::SERVFAIL, ServerEvent::UpdateLimited),
        Err(rcode) => (rcode, ServerEvent::UpdateRefused),
    };
    cx.shared.transfers.count(event);
    let mut octets = reply(message, refusal);
    signer.sign(&mut octets, cx.wall_secs);
    answered(cx, octets, refusal, (client, out))
}

/// Returns the update for the queue, if the client may change any record of the zone.
fn waiting(
    cx: &QueryContext<'_>,
    message: &[u8],
    (key, signer): (&Arc<TsigKey>, &TsigSigner),
    client: &Client<'_>,
) -> Result<WaitingUpdate, Rcode> {
    if !are_taken(cx) {
        return Err(Rcode::NOTIMP);
    }
    let header = Header::read(message).ok_or(Rcode::FORMERR)?;
    let question = QueryView::question_behind_header(message).ok_or(Rcode::FORMERR)?;
    let (name, _) = question.split_last_chunk::<4>().ok_or(Rcode::FORMERR)?;
    let name = NameBuf::from_wire(name).map_err(|_| Rcode::FORMERR)?.folded();
    let who = (client.ip, cx.device_of(client));
    let profile = cx.profile_with(who, client.entrance, client.transport);
    let id = cx.state.zones_of(profile).id_of(name.view().wire());
    let mut zones = cx.state.config.zones.iter();
    let zone = zones.find(|zone| zone.is(&id)).ok_or(Rcode::NOTAUTH)?;
    let mut rules = zone.allow_update.iter();
    if !rules.any(|rule| rule.admits(client.ip, key.name().wire())) {
        return Err(Rcode::REFUSED);
    }
    let waiter = Waiter {
        asked: Asked::from_header(header, client.transport),
        folded_hash: None,
        question: Octets::new(question),
        octets: message.len() as u16,
        epoch: cx.state.epoch,
        note: 0,
        allowed_for: None,
        ip: client.ip,
        device: cx.device_of(client),
        entrance: client.entrance,
        route: client.route.kept(),
        since: cx.now,
        is_resumed: false,
        servers: None,
        without_v6: None,
        aliases: Vec::new(),
    };
    let (zone, message) = (id, message.into());
    let worker = cx.scratch.worker() as u16;
    Ok(WaitingUpdate { zone, message, key: key.clone(), signer: signer.clone(), waiter, worker })
}

fn answered(
    cx: &QueryContext<'_>,
    octets: Vec<u8>,
    rcode: Rcode,
    (client, out): (&Client<'_>, &mut [u8]),
) -> QueryStep {
    let len = octets.len().min(out.len());
    out[..len].copy_from_slice(&octets[..len]);
    let at = Decision::at(Stage::Refused, client.transport, cx.state.revision);
    let decision = Decision { qtype: Rtype::SOA, rcode, ede: Some(Ede::PROHIBITED), ..at };
    let is_verified = client.transport.is_stream();
    QueryStep::Reply(Outgoing { len, hash: 0, is_verified, decision })
}
