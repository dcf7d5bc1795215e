//! Messages and errors from servers: finds the query that they belong to, and decides whether the
//! query must be repeated in another form. The query's owner evaluates the contents of a reply.

use avocet_wire::Rcode;

use super::send::Repeat;
use super::{Context, Resolver};
use crate::action::Action;
use crate::exchange::endpoint::{SocketFault, SocketId, SocketSlot};
use crate::exchange::pending::{Closing, Owner};
use crate::exchange::receive::{Edns, Received};
use crate::exchange::send::Weight;
use crate::failure::Failure;
use crate::trace::{Reaction, Step};

/// The expected duration of a lack of file descriptors or buffers, in ms.
const UNSENT_WAIT_MS: u64 = 50;

/// Maximum number of times that a question is sent again after the server closed a connection on
/// which it had answered other questions.
const MAX_STREAM_RETRIES: u8 = 4;

/// The unit of the keepalive option, in ms (RFC 7828 §3.1).
const KEEPALIVE_UNIT_MS: u32 = 100;

/// The parts of a reply that show whether the query must be repeated in another form.
#[derive(Clone, Copy)]
pub(super) struct ReplyForm {
    pub(super) rcode: Rcode,
    pub(super) has_opt: bool,
    /// Whether the reply has our client cookie, or has no cookie.
    pub(super) has_our_cookie: bool,
    /// Time for which the connection may be idle, in units of 100 ms.
    pub(super) keepalive: Option<u16>,
}

impl<W> Resolver<W> {
    /// Processes a message that arrived on a socket or connection.
    pub fn received(&mut self, socket: SocketId, octets: &[u8], cx: &mut Context<'_, W>) {
        let received = self.exchanges.receive(socket, octets, cx.now_ms);
        if socket.slot == SocketSlot::Stream {
            self.heard(socket, (&received, octets), cx);
        }
        match received {
            Received::Malformed => self.counters.malformed += 1,
            Received::Foreign => self.counters.foreign += 1,
            Received::Late => self.counters.late += 1,
            Received::NoQuestion(query_at, rcode) => self.no_question(query_at, rcode, cx),
            Received::OtherCase(query_at) => self.near_miss(query_at, cx),
            Received::Truncated(query_at) => {
                self.note_reply(query_at, Reaction::Truncated, cx);
                match self.exchanges.pending[query_at].over_tcp() {
                    // The reply over TCP is truncated, too. There is no way to get the rest (RFC
                    // 2181 §9).
                    true => self.give_up(query_at, Failure::Unusable, cx),
                    false => self.repeat(query_at, Repeat::ByTcp, cx),
                }
            }
            Received::Reply(query_at, view) => match self.exchanges.pending[query_at].owner {
                Owner::Task(_) => self.read_for_task(query_at, &view, cx),
                Owner::Fetch(_) => self.read_for_fetch(query_at, &view, cx),
                Owner::Nobody => {}
            },
        }
    }

    /// Records that a socket or connection yields no reply. The sockets are connected, so that an
    /// attacker that forges an ICMP message must know the port (S3 in tests/SECURITY.md).
    pub fn failed(&mut self, socket: SocketId, fault: SocketFault, cx: &mut Context<'_, W>) {
        if let SocketFault::Tls(fault) = fault {
            self.exchanges.servers[socket.endpoint].note_tls_fault(fault);
        }
        match (fault, socket.slot) {
            (_, SocketSlot::Stream)
                if self.exchanges.servers[socket.endpoint].encryption.is_some() =>
            {
                self.unproven_failed(socket, fault, cx);
            }
            (SocketFault::Shortage, SocketSlot::Stream) => {
                self.stream_failed(socket, SocketFault::Closed, cx);
            }
            (SocketFault::Shortage, _) => {
                self.unsent(socket, cx.now_ms);
            }
            (SocketFault::Withdrawn, _) => while self.unsent(socket, cx.now_ms) {},
            (_, SocketSlot::Stream) => self.stream_failed(socket, fault, cx),
            (_, SocketSlot::Single(_) | SocketSlot::SingleStream(_)) => {
                if let Some(query_at) = self.exchanges.pending.on_socket(socket, |_| true) {
                    self.unreachable(query_at, fault, cx);
                }
            }
            (_, SocketSlot::Pooled(_)) => {
                while let Some(query_at) = self.exchanges.pending.on_socket(socket, |_| true) {
                    self.unreachable(query_at, fault, cx);
                }
            }
        }
    }

    /// Records that a query was not sent because this host lacks a resource. The same or another
    /// server is queried a little later. Returns whether there was such a query.
    fn unsent(&mut self, socket: SocketId, now_ms: u64) -> bool {
        let pending = &mut self.exchanges.pending;
        let Some(query_at) = pending.on_socket(socket, |query| !query.unsent) else { return false };
        let query = &mut pending[query_at];
        (query.unsent, query.due_ms) = (true, now_ms + UNSENT_WAIT_MS);
        let owner = query.owner;
        self.counters.unsent += 1;
        self.rearm(owner);
        true
    }

    /// Ends the queries of a kept connection that was closed or could not be made.
    fn stream_failed(&mut self, socket: SocketId, fault: SocketFault, cx: &mut Context<'_, W>) {
        let outstanding = self.exchanges.pending.on_stream(socket.endpoint);
        let server = &mut self.exchanges.servers[socket.endpoint];
        let most =
            if server.streams.ended(outstanding.len(), cx.now_ms) { MAX_STREAM_RETRIES } else { 1 };
        for (query_at, id) in outstanding {
            // An earlier iteration of this loop may have ended the query.
            if self.exchanges.pending.find(socket, id) != Some(query_at) {
                continue;
            }
            let query = &self.exchanges.pending[query_at];
            let (owner, place) = (query.owner, query.place);
            let is_retried = self.with_exchange(owner, |exchanges, exchange, _| {
                let is_retried = fault == SocketFault::Closed && exchange.stream_retries < most;
                if is_retried {
                    // A server may close an idle connection just when a query is sent on it (RFC
                    // 7766 §6.2.3).
                    exchange.stream_retries += 1;
                    exchanges.end(exchange, query_at, Closing::Answered, cx.actions);
                }
                is_retried
            });
            match is_retried {
                Some(true) if self.ask(owner, place, Weight::Counts, cx) => self.rearm(owner),
                Some(true) => self.advance(owner, cx),
                _ => self.unreachable(query_at, fault, cx),
            }
        }
    }

    /// Ends a query that did not reach its server, which is not queried again.
    fn unreachable(&mut self, query_at: u32, fault: SocketFault, cx: &mut Context<'_, W>) {
        let query = &self.exchanges.pending[query_at];
        let (owner, sent_ms) = (query.owner, query.sent_ms);
        let server = &mut self.exchanges.servers[query.server()];
        server.failed(cx.now_ms, sent_ms);
        match owner {
            Owner::Fetch(_) => self.counters.unreachable += 1,
            _ => server.counters().into_iter().for_each(|counters| counters.network_errors += 1),
        }
        let (step, failure) = match fault {
            SocketFault::Tls(fault) => {
                (Step::Tls(server.endpoint.addr, fault), Failure::Tls(fault))
            }
            _ => (Step::Unreachable(server.endpoint.addr), Failure::Network),
        };
        self.record(owner, cx.now_ms, step);
        self.give_up(query_at, failure, cx);
    }

    /// Handles a reply without a question that rejects EDNS. Repeats the query without EDNS,
    /// because the server may answer such a query. If the reply is easy to forge, only the next
    /// query to the server is without EDNS.
    fn no_question(&mut self, query_at: u32, rcode: Rcode, cx: &mut Context<'_, W>) {
        self.counters.malformed += 1;
        if self.refuse(query_at, cx) {
            return;
        }
        if self.may_reject_cookie(query_at) && self.exchanges.is_hard_to_forge(query_at) {
            self.record_reply(query_at, Reaction::WithoutCookie(rcode), cx.now_ms);
            return self.repeat(query_at, Repeat::WithoutCookie, cx);
        }
        if self.exchanges.is_hard_to_forge(query_at) {
            self.record_reply(query_at, Reaction::WithoutEdns(rcode), cx.now_ms);
            return self.repeat(query_at, Repeat::WithoutEdns, cx);
        }
        let query = &self.exchanges.pending[query_at];
        let (owner, place) = (query.owner, query.place);
        self.with_exchange(owner, |_, exchange, _| exchange.plain |= 1 << place);
    }

    /// Handles a reply with other letter case, changed by the server or by an attacker that sees
    /// our queries. The question is repeated over TCP. From now on, each query to this server is in
    /// lower case and has its own socket.
    fn near_miss(&mut self, query_at: u32, cx: &mut Context<'_, W>) {
        self.counters.near_misses += 1;
        self.record_reply(query_at, Reaction::OtherCase, cx.now_ms);
        let server = self.exchanges.pending[query_at].server();
        self.exchanges.servers[server].note_folded_case(cx.now_ms);
        self.repeat(query_at, Repeat::ByTcp, cx);
    }

    /// Handles a reply with a client cookie that is not ours. It is forged, or the server has
    /// repeated the cookie of another client. The reply is discarded (RFC 7873 §5.3) and the query
    /// is repeated over TCP, where the connection authenticates the server.
    fn other_cookie(&mut self, query_at: u32, cx: &mut Context<'_, W>) {
        self.counters.near_misses += 1;
        self.record_reply(query_at, Reaction::OtherCookie, cx.now_ms);
        self.repeat(query_at, Repeat::ByTcp, cx);
    }

    /// Evaluates the form of a reply: its cookies and EDNS. Returns the RCODE if the owner must
    /// evaluate the reply. Otherwise, repeats the query in another form and returns `None`.
    pub(super) fn settle_form(
        &mut self,
        query_at: u32,
        form: ReplyForm,
        cx: &mut Context<'_, W>,
    ) -> Option<Rcode> {
        let ReplyForm { rcode, has_opt, has_our_cookie, keepalive } = form;
        if !has_our_cookie {
            self.other_cookie(query_at, cx);
            return None;
        }
        let query = &self.exchanges.pending[query_at];
        let (owner, server, with_edns) = (query.owner, query.server(), query.with_edns);
        if let (SocketSlot::Stream, Some(units)) = (query.socket.slot, keepalive) {
            let idle_ms = u32::from(units) * KEEPALIVE_UNIT_MS;
            cx.actions.list.push(Action::KeepIdle { socket: query.socket, idle_ms });
        }
        match rcode {
            Rcode::BADCOOKIE if with_edns => {
                self.note_reply(query_at, Reaction::BadCookie, cx);
                self.bad_cookie(query_at, cx);
                return None;
            }
            Rcode::FORMERR | Rcode::NOTIMP | Rcode::BADVERS if self.may_reject_cookie(query_at) => {
                self.note_reply(query_at, Reaction::WithoutCookie(rcode), cx);
                self.repeat(query_at, Repeat::WithoutCookie, cx);
                return None;
            }
            Rcode::FORMERR | Rcode::NOTIMP | Rcode::BADVERS if with_edns => {
                self.note_reply(query_at, Reaction::WithoutEdns(rcode), cx);
                if let (Owner::Task(_), Some(counters)) =
                    (owner, self.exchanges.servers[server].counters())
                {
                    counters.without_edns += 1;
                }
                self.repeat(query_at, Repeat::WithoutEdns, cx);
                return None;
            }
            _ => self.note_reply(query_at, Reaction::Message(rcode), cx),
        }
        if matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
            let edns = if has_opt { Edns::Present } else { Edns::Absent };
            self.with_exchange(owner, |exchanges, exchange, _| {
                exchanges.learn_edns(exchange, query_at, edns, cx.now_ms);
            });
        }
        Some(rcode)
    }

    /// Returns whether a query must have EDNS, and has a cookie that its server may reject, because
    /// the server has never sent a cookie. Without EDNS, the reply would have no signatures.
    fn may_reject_cookie(&self, query_at: u32) -> bool {
        let query = &self.exchanges.pending[query_at];
        let Owner::Fetch(fetch_at) = query.owner else { return false };
        let needs_edns =
            self.fetches.get(fetch_at).is_some_and(|fetch| fetch.inquiry.needs_signatures());
        let has_answered = self.exchanges.servers[query.server()].cookie.is_answered();
        needs_edns && query.with_cookie && !has_answered
    }

    /// Handles BADCOOKIE. Repeats the query with the server's cookie, then over TCP, and then gives
    /// up (S11 in tests/SECURITY.md).
    fn bad_cookie(&mut self, query_at: u32, cx: &mut Context<'_, W>) {
        let owner = self.exchanges.pending[query_at].owner;
        let count = self.with_exchange(owner, |_, exchange, _| {
            exchange.bad_cookies += 1;
            exchange.bad_cookies
        });
        match count {
            Some(1) => self.repeat(query_at, Repeat::Again, cx),
            Some(2) => self.repeat(query_at, Repeat::ByTcp, cx),
            _ => self.give_up(query_at, Failure::Unusable, cx),
        }
    }

    /// Records a reply. Earlier queries to the server that were not answered must have been lost.
    pub(super) fn note_reply(
        &mut self,
        query_at: u32,
        reaction: Reaction,
        cx: &mut Context<'_, W>,
    ) {
        let query = &self.exchanges.pending[query_at];
        let (owner, server, sent_ms) = (query.owner, query.server(), query.sent_ms);
        self.with_exchange(owner, |exchanges, exchange, _| {
            exchanges.note_reply(exchange, query_at, cx.now_ms);
        });
        if let (Owner::Task(_), Some(counters)) = (owner, self.exchanges.servers[server].counters())
        {
            counters.reply(cx.now_ms.saturating_sub(sent_ms));
        }
        self.record_reply(query_at, reaction, cx.now_ms);
    }

    pub(super) fn record_reply(&mut self, query_at: u32, reaction: Reaction, now_ms: u64) {
        let query = &self.exchanges.pending[query_at];
        let (owner, rtt_ms) = (query.owner, now_ms.saturating_sub(query.sent_ms) as u32);
        let server = self.exchanges.servers[query.server()].endpoint.addr;
        self.record(owner, now_ms, Step::Replied { server, rtt_ms, reaction });
    }
}
