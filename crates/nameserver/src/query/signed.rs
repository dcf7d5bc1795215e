//! Messages with a transaction signature (TSIG). A signed query is answered only from data of this
//! server.
//!
//! ```text
//! signed message -- verified --> the message without its signature, through the whole path
//!                                reply --> signed
//!                -- not -------> NOTAUTH or FORMERR
//! ```
//! A signed query is not resolved, because a late reply would have to keep the state of its
//! signature.

use std::sync::Arc;

use avocet_wire::edns::Edns;
use avocet_wire::header::{HEADER_LEN, Header, QR, RD, TC};
use avocet_wire::query::QueryError;
use avocet_wire::{Ede, QueryView, Rcode};
use avocet_zone::{TsigError, TsigFault, TsigKey, TsigRecord, append_error, verify_request};

use super::admission;
use super::asked::Transport;
use super::context::{Client, Output, QueryContext};
use super::decision::{Decision, Outgoing, QueryStep, Stage};
use super::path::{self, Incoming};
use super::respond::draft_empty;
use super::{notify, strangers, update};
use crate::transfers::ServerEvent;

/// Maximum length in octets of a UDP reply to a client without EDNS.
const MIN_UDP: usize = 512;
/// The bits of the OPCODE in the flags of the header.
const OPCODE: u16 = 0x7800;

/// Answers a message that is not a plain query, such as a signed query, a NOTIFY message or an
/// update.
#[cold]
pub(super) fn answer(
    cx: &QueryContext<'_>,
    octets: &[u8],
    error: QueryError,
    client: &Client<'_>,
    output: Output<'_>,
) -> QueryStep {
    let is_admitted = cx.state.allow.admits(client.entrance, client.ip);
    let is_ours = is_admitted && error != QueryError::Ignore && !cx.scratch.is_looking();
    match is_ours.then(|| TsigRecord::find(octets)) {
        Some(Err(_)) => {
            cx.shared.transfers.count(ServerEvent::MalformedTsig);
            refuse(cx, octets, Rcode::FORMERR, client, output.message)
        }
        Some(Ok(Some(record))) => signed(cx, octets, &record, client, output),
        Some(Ok(None)) | None => {
            let is_unknown = error == QueryError::NotImplemented;
            if is_unknown && is_ours && update::is_update(octets) && update::are_taken(cx) {
                return update::unsigned(cx, octets, client, output.message);
            }
            if is_unknown && let Some(step) = notify::answer(cx, octets, client, output.message) {
                return step;
            }
            let rejection = admission::malformed(cx, octets, error, client, output.message);
            path::reject(cx, &rejection, client, output.message)
        }
    }
}

/// Verifies a signed message, and answers the query in the message.
fn signed(
    cx: &QueryContext<'_>,
    octets: &[u8],
    record: &TsigRecord<'_>,
    client: &Client<'_>,
    output: Output<'_>,
) -> QueryStep {
    // If the client must be identified first, the query is held. Its signature is verified later.
    if let Ok(view) = QueryView::parse(&record.bare(octets))
        && let Some(step) = strangers::hold(cx, octets, view.qtype, client)
    {
        return step;
    }
    let mut keys = cx.state.config.keys.iter();
    let key = keys.find(|key| key.key.name() == record.name.view()).map(|key| &key.key);
    let mut signer = match verify_request(octets, record, key, cx.wall_secs) {
        Ok(signer) => signer,
        Err(TsigFault::Malformed) => {
            cx.shared.transfers.count(ServerEvent::MalformedTsig);
            return refuse(cx, octets, Rcode::FORMERR, client, output.message);
        }
        Err(TsigFault::NotAuth(error)) => {
            cx.shared.transfers.count(ServerEvent::of_error(error));
            return not_auth(cx, octets, record, (error, key), (client, output.message));
        }
    };
    let bare = record.bare(octets);
    let Output { message, misses } = output;
    if update::is_update(&bare) {
        return update::signed(cx, &bare, signer, client, message);
    }
    let before = misses.len();
    let signed = cx.scratch.signed_by(signer.key().clone());
    let incoming = Incoming { octets: &bare, seen: None };
    let step = path::answer(cx, incoming, client, Output { message: &mut *message, misses });
    drop(signed);
    let step = match step {
        QueryStep::Resolve => {
            misses.truncate(before);
            refuse(cx, &bare, Rcode::REFUSED, client, message)
        }
        step => step,
    };
    let QueryStep::Reply(outgoing) = step else { return step };
    let mut reply = message[..outgoing.len].to_vec();
    signer.sign(&mut reply, cx.wall_secs);
    let limit = match client.transport {
        Transport::Udp => udp_limit(&bare, cx.state.config.server.max_udp_size),
        _ => message.len().min(usize::from(u16::MAX)),
    };
    if let Some(mut transfer) = cx.scratch.take_transfer() {
        transfer.sign_with(signer);
        cx.scratch.put_transfer(transfer);
    } else if reply.len() > limit {
        reply = truncated(&message[..outgoing.len]);
        let mut again = verify_request(octets, record, key, cx.wall_secs);
        if let Ok(signer) = &mut again {
            signer.sign(&mut reply, cx.wall_secs);
        }
    }
    message[..reply.len()].copy_from_slice(&reply);
    QueryStep::Reply(Outgoing { len: reply.len(), ..outgoing })
}

/// Returns the maximum number of octets of a UDP reply to this query; `most` is the limit of the
/// server.
fn udp_limit(query: &[u8], most: u16) -> usize {
    let edns = QueryView::parse(query).ok().and_then(|view| view.edns);
    edns.map_or(MIN_UDP, |Edns { udp_size, .. }| usize::from(udp_size.min(most)).max(MIN_UDP))
}

/// Returns the header and the question of a reply that is too long, with TC.
fn truncated(reply: &[u8]) -> Vec<u8> {
    let Some(header) = Header::read(reply) else { return reply.to_vec() };
    let end = question_end(reply);
    let mut short = reply[..end].to_vec();
    let counts = [u16::from(end > HEADER_LEN), 0, 0, 0];
    if let Some(head) = short.first_chunk_mut() {
        Header { flags: header.flags | TC, counts, ..header }.write(head);
    }
    short
}

/// Returns the offset after the question, if the message has a readable question.
fn question_end(message: &[u8]) -> usize {
    QueryView::question_behind_header(message)
        .map_or(HEADER_LEN, |question| HEADER_LEN + question.len())
}

/// Writes a reply without data: header and question.
fn empty_reply(octets: &[u8], rcode: Rcode, out: &mut [u8]) -> usize {
    let header = Header::read(octets).unwrap_or_default();
    let question = octets.get(HEADER_LEN..question_end(octets)).filter(|one| !one.is_empty());
    let draft = draft_empty(out, question, rcode);
    let counts = [u16::from(question.is_some()), 0, 0, 0];
    let flags = QR | header.flags & (OPCODE | RD) | rcode.low();
    if let Some(head) = out.first_chunk_mut() {
        Header { id: header.id, flags, counts }.write(head);
    }
    draft.len
}

/// Refuses a message with an unusable signature.
fn refuse(
    cx: &QueryContext<'_>,
    octets: &[u8],
    rcode: Rcode,
    client: &Client<'_>,
    out: &mut [u8],
) -> QueryStep {
    let len = empty_reply(octets, rcode, out);
    QueryStep::Reply(outgoing(cx, rcode, client, len))
}

fn outgoing(cx: &QueryContext<'_>, rcode: Rcode, client: &Client<'_>, len: usize) -> Outgoing {
    let stage = if rcode == Rcode::FORMERR { Stage::Malformed } else { Stage::Refused };
    let decision = Decision {
        rcode,
        ede: (stage == Stage::Refused).then_some(Ede::PROHIBITED),
        ..Decision::at(stage, client.transport, cx.state.revision)
    };
    Outgoing { len, hash: 0, is_verified: client.transport.is_stream(), decision }
}

/// Refuses a message with the error of its signature (RFC 8945 §5.3.2).
fn not_auth(
    cx: &QueryContext<'_>,
    octets: &[u8],
    record: &TsigRecord<'_>,
    (error, key): (TsigError, Option<&Arc<TsigKey>>),
    (client, out): (&Client<'_>, &mut [u8]),
) -> QueryStep {
    let len = empty_reply(octets, Rcode::NOTAUTH, out);
    let mut reply = out[..len].to_vec();
    append_error(&mut reply, record, (error, key), cx.wall_secs);
    out[..reply.len()].copy_from_slice(&reply);
    QueryStep::Reply(outgoing(cx, Rcode::NOTAUTH, client, reply.len()))
}
