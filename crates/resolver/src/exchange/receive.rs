//! Messages from servers: finds the queries that they answer, and records what they show about the
//! server.

use avocet_wire::hash::eq_folded;
use avocet_wire::header::{HEADER_LEN, QR, TC};
use avocet_wire::{MessageView, Opcode, Rcode};

use super::endpoint::{SocketId, SocketSlot};
use super::pending::PendingQuery;
use super::rtt::Fate;
use super::server::Guessed;
use super::{Exchange, Exchanges};

/// The relation of a received message to the outstanding queries. A message that does not certainly
/// belong to a query is dropped, and the query stays outstanding (S8 in tests/SECURITY.md).
pub(crate) enum Received<'m> {
    /// The message is not a reply.
    Malformed,
    /// The message is a reply, but not to a query of this resolver.
    Foreign,
    /// The message is a reply to a query that has ended.
    Late,
    /// The message is a reply to this query, without a question, that rejects EDNS. Servers without
    /// EDNS may answer like this.
    NoQuestion(u32, Rcode),
    /// The message is a reply to this query, but the question has other letter case.
    OtherCase(u32),
    /// The message is a truncated reply to this query.
    Truncated(u32),
    /// The message is a reply to this query.
    Reply(u32, MessageView<'m>),
}

/// Whether a reply has an OPT record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edns {
    Absent,
    Present,
}

/// The difference between the question of a message and the query with the message's ID.
enum Match {
    Exact,
    /// The names differ only in letter case.
    OtherCase,
    /// The message has no question, or more than one.
    NoQuestion,
    Other,
}

impl Exchanges {
    /// Finds the query that a message from a socket or connection answers.
    pub(crate) fn receive<'m>(
        &mut self,
        socket: SocketId,
        octets: &'m [u8],
        now_ms: u64,
    ) -> Received<'m> {
        let view = MessageView::new(octets).ok();
        let view =
            view.filter(|view| view.header().has(QR) && view.header().opcode() == Opcode::QUERY);
        let Some(view) = view else { return Received::Malformed };
        let id = view.header().id;
        let Some(at) = self.pending.find(socket, id) else {
            return self.unmatched(socket, id, now_ms);
        };
        let query = &self.pending[at];
        if query.id != id {
            return Received::Foreign;
        }
        match compare(&query.question, &view) {
            Match::Exact => {}
            Match::OtherCase if !query.exact_case => {}
            Match::OtherCase => return Received::OtherCase(at),
            Match::Other => return Received::Foreign,
            Match::NoQuestion => {
                // Some servers omit even the question from a truncated reply. If it is forged, the
                // query is only repeated over TCP.
                if view.header().has(TC) && view.header().counts[0] == 0 {
                    return Received::Truncated(at);
                }
                let rcode = view.header().rcode();
                let is_refusal = matches!(rcode, Rcode::FORMERR | Rcode::NOTIMP);
                return match is_refusal && octets.len() == HEADER_LEN {
                    true => Received::NoQuestion(at, rcode),
                    false => Received::Malformed,
                };
            }
        }
        if view.header().has(TC) { Received::Truncated(at) } else { Received::Reply(at, view) }
    }

    fn unmatched<'m>(&mut self, socket: SocketId, id: u16, now_ms: u64) -> Received<'m> {
        if socket.slot.single().is_some() {
            return Received::Late;
        }
        let Some(sent_ms) = self.pending.take_remembered(socket, id) else {
            return Received::Foreign;
        };
        let rtt_ms = now_ms.saturating_sub(sent_ms);
        let server = &mut self.servers[socket.endpoint];
        server.replied(now_ms, rtt_ms);
        if let Some(counters) = server.counters() {
            counters.reply(rtt_ms);
        }
        Received::Late
    }

    /// Records that a server answered a query, so that its earlier unanswered queries must have
    /// been lost.
    pub(crate) fn note_reply(&mut self, exchange: &Exchange, at: u32, now_ms: u64) {
        let query = &self.pending[at];
        let server = &mut self.servers[query.server()];
        server.replied(now_ms, now_ms.saturating_sub(query.sent_ms));
        if query.over_tcp() {
            return;
        }
        // The server may have dropped the query because of EDNS (RFC 6891 §7).
        let may_drop_edns = !query.with_edns && !server.speaks_edns;
        let is_lost = |other: &&PendingQuery| {
            let is_earlier = other.server() == query.server() && other.sent_ms < query.sent_ms;
            is_earlier && other.overdue && !(other.with_edns && may_drop_edns)
        };
        let others = exchange.queries.iter().map(|&other| &self.pending[other]);
        let lost = others.filter(is_lost).count() as u32;
        (0..lost).for_each(|_| server.rtt.note_fate(Fate::Lost));
        server.rtt.note_fate(Fate::Answered);
        self.loss.note_reply(server.endpoint.addr.ip(), lost, now_ms);
    }

    /// Reads the cookies in a reply. Returns `false` if the client cookie is not ours, so that the
    /// reply may be forged (RFC 7873 §5.3). Over TCP, always returns `true`, because the connection
    /// shows that the reply is not forged.
    pub(crate) fn learn_cookie(&mut self, at: u32, cookie: &[u8]) -> bool {
        let query = &self.pending[at];
        if cookie.is_empty() || !query.with_cookie {
            return true;
        }
        self.servers[query.server()].cookie.learn(cookie) || query.over_tcp()
    }

    /// Records what an answer or a denial shows about EDNS and cookies: the server supports EDNS,
    /// or answers only queries without EDNS or without a cookie.
    pub(crate) fn learn_edns(&mut self, exchange: &Exchange, at: u32, edns: Edns, now_ms: u64) {
        let query = &self.pending[at];
        let server = &mut self.servers[query.server()];
        let bit = 1 << query.place;
        if query.with_edns && !query.with_cookie && !server.cookie.is_answered() {
            let is_rejected = exchange.without_cookie & bit != 0;
            if is_rejected || exchange.round > 0 {
                let guessed = if is_rejected { Guessed::No } else { Guessed::Yes };
                server.note_failed_cookie(now_ms, guessed);
            }
        }
        if query.with_edns && edns == Edns::Present {
            server.note_edns();
        } else if !query.with_edns && exchange.plain & bit != 0 {
            let is_guessed = exchange.guessed_plain & bit != 0;
            let guessed = if is_guessed { Guessed::Yes } else { Guessed::No };
            server.note_failed_edns(now_ms, guessed);
        }
    }

    /// Returns whether a message without a question may be used at once. This is the case if the
    /// query had its own socket, because the message then had to match ID and port.
    pub(crate) fn is_hard_to_forge(&self, at: u32) -> bool {
        !matches!(self.pending[at].socket.slot, SocketSlot::Pooled(_))
    }
}

fn compare(sent: &[u8], view: &MessageView<'_>) -> Match {
    if view.header().counts[0] != 1 {
        return Match::NoQuestion;
    }
    let question = view.octets().get(HEADER_LEN..).and_then(|octets| octets.get(..sent.len()));
    let Some((qname, fixed)) = question.and_then(|question| question.split_last_chunk::<4>())
    else {
        return Match::Other;
    };
    match sent.split_last_chunk::<4>() {
        Some((sent_name, sent_fixed)) if sent_fixed == fixed && sent_name == qname => Match::Exact,
        Some((sent_name, sent_fixed)) if sent_fixed == fixed && eq_folded(sent_name, qname) => {
            Match::OtherCase
        }
        _ => Match::Other,
    }
}
