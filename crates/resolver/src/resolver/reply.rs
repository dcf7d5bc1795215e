//! Something came from a server, or will not come: which query it is about, and what it means for
//! the way the question is asked. What the reply says is for the owner of the query.

use avocet_wire::Rcode;

use super::send::Repeat;
use super::{Context, Resolver};
use crate::exchange::endpoint::{SocketFault, SocketId, SocketSlot};
use crate::exchange::pending::{Closing, Owner};
use crate::exchange::receive::{Edns, Received};
use crate::exchange::send::Weight;
use crate::failure::Failure;
use crate::trace::{Reaction, Step};

/// How long it takes until there may be a descriptor or a buffer again, in ms.
const UNSENT_WAIT_MS: u64 = 50;

/// What a reply says of the form of its query.
#[derive(Clone, Copy)]
pub(super) struct ReplyForm {
    pub(super) rcode: Rcode,
    pub(super) has_opt: bool,
    /// Its cookie is ours, or there is none.
    pub(super) has_our_cookie: bool,
}

impl<W> Resolver<W> {
    /// Takes a message that came from a socket or over a connection.
    pub fn received(&mut self, socket: SocketId, octets: &[u8], cx: &mut Context<'_, W>) {
        match self.exchanges.receive(socket, octets, cx.now_ms) {
            Received::Malformed => self.counters.malformed += 1,
            Received::Foreign => self.counters.foreign += 1,
            Received::Late => self.counters.late += 1,
            Received::NoQuestion(query_at, rcode) => self.no_question(query_at, rcode, cx),
            Received::OtherCase(query_at) => self.near_miss(query_at, cx),
            Received::Truncated(query_at) => {
                self.note_reply(query_at, Reaction::Truncated, cx);
                match self.exchanges.pending[query_at].over_tcp() {
                    // Nothing can bring the rest (RFC 2181 §9).
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

    /// Takes note that nothing will come from a socket or over a connection. Sockets are connected,
    /// so that a forged ICMP message must know the port (S3).
    pub fn failed(&mut self, socket: SocketId, fault: SocketFault, cx: &mut Context<'_, W>) {
        match (fault, socket.slot) {
            (SocketFault::Shortage, _) => {
                self.unsent(socket, cx.now_ms);
            }
            (SocketFault::Withdrawn, _) => while self.unsent(socket, cx.now_ms) {},
            (_, SocketSlot::Stream) => self.stream_failed(socket, fault, cx),
            (_, SocketSlot::Single(_) | SocketSlot::SingleStream(_)) => {
                if let Some(query_at) = self.exchanges.pending.on_socket(socket, |_| true) {
                    self.unreachable(query_at, cx);
                }
            }
            (_, SocketSlot::Pooled(_)) => {
                while let Some(query_at) = self.exchanges.pending.on_socket(socket, |_| true) {
                    self.unreachable(query_at, cx);
                }
            }
        }
    }

    /// Takes note of a query that was not sent for lack of something of our own: the server is
    /// asked again a little later, or another one is. Returns whether there was such a query.
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

    /// The connection that is kept to a server ended, or could not be made.
    fn stream_failed(&mut self, socket: SocketId, fault: SocketFault, cx: &mut Context<'_, W>) {
        for (query_at, id) in self.exchanges.pending.on_stream(socket.endpoint) {
            // What was done for one may have ended others.
            if self.exchanges.pending.find(socket, id) != Some(query_at) {
                continue;
            }
            let query = &self.exchanges.pending[query_at];
            let (owner, place) = (query.owner, query.place);
            let is_first = self.with_exchange(owner, |exchanges, exchange, _| {
                let is_first = fault == SocketFault::Closed && !exchange.stream_retried;
                if is_first {
                    // RFC 7766 §6.2.3: a server may close an idle connection just then.
                    exchange.stream_retried = true;
                    exchanges.end(exchange, query_at, Closing::Answered, cx.actions);
                }
                is_first
            });
            match is_first {
                Some(true) if self.ask(owner, place, Weight::Counts, cx) => self.rearm(owner),
                Some(true) => self.advance(owner, cx),
                _ => self.unreachable(query_at, cx),
            }
        }
    }

    /// A query did not reach its server, which is not asked again.
    fn unreachable(&mut self, query_at: u32, cx: &mut Context<'_, W>) {
        let query = &self.exchanges.pending[query_at];
        let (owner, sent_ms) = (query.owner, query.sent_ms);
        let server = &mut self.exchanges.servers[query.server()];
        server.failed(cx.now_ms, sent_ms);
        match owner {
            Owner::Fetch(_) => self.counters.unreachable += 1,
            _ => server.counters().into_iter().for_each(|counters| counters.network_errors += 1),
        }
        let step = Step::Unreachable(server.endpoint.addr);
        self.record(owner, cx.now_ms, step);
        self.give_up(query_at, Failure::Network, cx);
    }

    /// A reply has no question and refuses EDNS: asked without, the server may answer. Where the
    /// letters are part of what nobody can predict, that waits until the server is asked again.
    fn no_question(&mut self, query_at: u32, rcode: Rcode, cx: &mut Context<'_, W>) {
        self.counters.malformed += 1;
        if self.exchanges.is_hard_to_forge(query_at) {
            self.record_reply(query_at, Reaction::WithoutEdns(rcode), cx.now_ms);
            return self.repeat(query_at, Repeat::WithoutEdns, cx);
        }
        let query = &self.exchanges.pending[query_at];
        let (owner, place) = (query.owner, query.place);
        self.with_exchange(owner, |_, exchange, _| exchange.plain |= 1 << place);
    }

    /// The server, or somebody who sees our queries, changed the case of letters: TCP settles it,
    /// and from now on no random case for this server, but sockets of their own.
    fn near_miss(&mut self, query_at: u32, cx: &mut Context<'_, W>) {
        self.counters.near_misses += 1;
        self.record_reply(query_at, Reaction::OtherCase, cx.now_ms);
        let server = self.exchanges.pending[query_at].server();
        self.exchanges.servers[server].note_folded_case(cx.now_ms);
        self.repeat(query_at, Repeat::ByTcp, cx);
    }

    /// Takes what a reply says of the form of its query: cookies and EDNS. Returns the RCODE if it
    /// is for the owner to judge; else the question is asked in another way, or the reply was
    /// forged.
    pub(super) fn settle_form(
        &mut self,
        query_at: u32,
        form: ReplyForm,
        cx: &mut Context<'_, W>,
    ) -> Option<Rcode> {
        let ReplyForm { rcode, has_opt, has_our_cookie } = form;
        if !has_our_cookie {
            self.counters.near_misses += 1;
            return None;
        }
        let query = &self.exchanges.pending[query_at];
        let (owner, server, with_edns) = (query.owner, query.server(), query.with_edns);
        match rcode {
            Rcode::BADCOOKIE if with_edns => {
                self.note_reply(query_at, Reaction::BadCookie, cx);
                self.bad_cookie(query_at, cx);
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

    /// The server wants its cookie: once again with it, then by TCP, then no more (S11).
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

    /// Takes note of a reply: the server answers, and thus what it did not answer before was lost.
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
