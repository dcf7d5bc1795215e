//! Asking the servers of a zone one question: the fetches that walks wait for.
//!
//! ```text
//! inquiry ──> joined by an equal one, or: choose a server ──> OpenDatagram / OpenStream
//!                  ^ timeout, error: the next one, in rounds ──┘         │
//! walk <── Fetched or NotFetched <── matched, read <── server_reply <────┘
//! ```
//! Each query has a socket of its own on a port of its own, connected to the server: the kernel
//! matches address and port, and 16 bits of port with 16 of ID make the 32 that are wanted even
//! where the case of letters adds none (RFC 5452 §9).

use std::sync::Arc;

use avocet_wire::header::{CD, HEADER_LEN, QR, RD, TC};
use avocet_wire::{MessageView, Opcode, Rcode, Rtype};

use super::reply::{Match, compare};
use super::send::{UNSENT_WAIT_MS, draw_id, timeout};
use super::{Context, Resolver};
use crate::action::Action;
use crate::endpoint::{Strategy, Transport};
use crate::failure::Failure;
use crate::guess::Guessed;
use crate::ids::SocketId;
use crate::iterate::fetch::{Fetched, Inquiry, Letters, NotFetched, Patience};
use crate::iterate::fetches::{Exchange, Fetch};
use crate::iterate::loss::Level;
use crate::iterate::server::Server;
use crate::query::{self, OptOf};
use crate::read::Reply;
use crate::rtt::Fate;
use crate::trace::{Reaction, Step};

/// Longest wait for one reply over UDP before the next query goes out, in ms.
const MAX_WAIT_MS: u32 = 800;
/// As [`MAX_WAIT_MS`], where the network loses much, as what is late there is lost, and for servers
/// of which nothing is known: most are near.
const MAX_BLIND_WAIT_MS: u32 = 400;
/// After so many queries without a reply, and this long a wait for the last one, two are sent at
/// once.
const SINGLE_SENDS: u32 = 2;
/// See [`SINGLE_SENDS`], in ms: where replies come fast, one after another is soon enough.
const LONG_WAIT_MS: u64 = 400;
/// In which round a server that never spoke EDNS is asked without: it may drop such queries.
const PLAIN_ROUND: u32 = 2;
/// From which round on the letters are lower case: a server may drop queries with others. Port and
/// ID are the 32 bits that nobody can predict.
const LOWER_CASE_ROUND: u32 = 3;
/// Most fetches under way, in one resolver; more than one for each question is rare.
const MAX_FETCHES: usize = 32_768;

impl<W> Resolver<W> {
    /// Begins a fetch for a task's walk, or joins one.
    pub(super) fn begin_fetch(
        &mut self,
        at: u32,
        inquiry: Inquiry,
        cx: &mut Context<'_, W>,
    ) -> Result<u32, NotFetched> {
        if !self.tasks[at].may_ask() {
            self.counters.budget_sends += 1;
            self.tasks[at].note(Failure::TooManyQueries);
            return Err(NotFetched::Exhausted);
        }
        let (joined, patience) = (self.fetches.find(&inquiry), inquiry.patience);
        let fetch_at = match joined {
            Some(fetch_at) => fetch_at,
            None if self.fetches.len() >= MAX_FETCHES => return Err(NotFetched::Exhausted),
            None => self.admit_fetch(inquiry, cx.now_ms)?,
        };
        if let Some(fetch) = self.fetches.get_mut(fetch_at) {
            fetch.inquiry.patience = fetch.inquiry.patience.max(patience);
        }
        if let Some(fetch) = self.fetches.get_mut(fetch_at)
            && !fetch.waiters.contains(&at)
        {
            fetch.waiters.push(at);
        }
        if joined.is_some() {
            self.tasks[at].record(cx.now_ms, Step::Joined);
        }
        if joined.is_some() || self.ask_next(fetch_at, cx) {
            return Ok(fetch_at);
        }
        let unanswered = self.remove_fetch(fetch_at).map_or(0, |fetch| fetch.inquiry.unanswered);
        Err(if unanswered > 0 { NotFetched::Silence(0) } else { NotFetched::NoServers })
    }

    /// Takes an inquiry in, within what its zone and servers may have under way.
    fn admit_fetch(&mut self, inquiry: Inquiry, now_ms: u64) -> Result<u32, NotFetched> {
        // Links of chains of trust are few, and all names of a zone need them.
        let is_link = matches!(inquiry.qtype, Rtype::DS | Rtype::DNSKEY);
        let is_free = is_link || inquiry.manner.recursion_desired;
        let per_zone = if is_free { u32::MAX } else { self.bound.plan.fetch_limits.per_zone };
        if !is_free && inquiry.servers.iter().all(|server| self.is_crowded(server.addr)) {
            self.counters.limit_server += 1;
            return Err(NotFetched::Crowded);
        }
        if !self.loads.enter(&inquiry.zone, per_zone, now_ms) {
            self.counters.limit_zone += 1;
            return Err(NotFetched::Crowded);
        }
        Ok(self.fetches.insert(Fetch { is_free, ..Fetch::new(inquiry) }))
    }

    fn remove_fetch(&mut self, fetch_at: u32) -> Option<Fetch> {
        let fetch = self.fetches.remove(fetch_at)?;
        self.loads.leave(&fetch.inquiry.zone);
        Some(fetch)
    }

    /// The task no longer waits; a fetch that nobody waits for ends.
    pub(super) fn leave_fetch(&mut self, fetch_at: u32, at: u32, cx: &mut Context<'_, W>) {
        let Some(fetch) = self.fetches.get_mut(fetch_at) else { return };
        fetch.waiters.retain(|&waiter| waiter != at);
        if fetch.waiters.is_empty() {
            self.end_exchanges(fetch_at, cx);
            self.remove_fetch(fetch_at);
        }
    }

    fn end_exchanges(&mut self, fetch_at: u32, cx: &mut Context<'_, W>) {
        self.fetch_wheel.clear(fetch_at);
        while let Some(&socket) =
            self.fetches.get(fetch_at).and_then(|fetch| fetch.exchanges.last())
        {
            self.end_exchange(socket, cx);
        }
    }

    fn end_exchange(&mut self, socket: SocketId, cx: &mut Context<'_, W>) {
        let Some(exchange) = self.fetches.end_exchange(socket) else { return };
        self.servers[exchange.server].outstanding -= 1;
        if let Some(fetch) = self.fetches.get_mut(exchange.fetch) {
            fetch.exchanges.retain(|&other| other != socket);
        }
        cx.actions.list.push(match exchange.over_tcp {
            true => Action::CloseStream { stream: socket },
            false => Action::CloseDatagram { socket },
        });
    }

    /// Ends a fetch and lets those who wait for it go on.
    fn complete(
        &mut self,
        fetch_at: u32,
        result: Result<Arc<Fetched>, NotFetched>,
        cx: &mut Context<'_, W>,
    ) {
        self.end_exchanges(fetch_at, cx);
        let Some(fetch) = self.remove_fetch(fetch_at) else { return };
        let result = result.or_else(|why| fetch.denied.ok_or(why));
        for at in fetch.waiters {
            self.fetched(at, fetch_at, result.clone(), cx);
        }
    }

    /// Goes on after a query failed or was not answered in time.
    fn advance_fetch(&mut self, fetch_at: u32, cx: &mut Context<'_, W>) {
        let Some(fetch) = self.fetches.get(fetch_at) else { return };
        let counts = |socket: &SocketId| {
            self.fetches.exchange(*socket).is_some_and(|exchange| !exchange.overdue)
        };
        if fetch.exchanges.iter().any(counts) {
            return self.rearm_fetch(fetch_at);
        }
        if self.ask_next(fetch_at, cx) {
            return;
        }
        let Some(fetch) = self.fetches.get(fetch_at) else { return };
        if !fetch.exchanges.is_empty() && fetch.inquiry.patience == Patience::All {
            // A late reply is still welcome.
            return self.rearm_fetch(fetch_at);
        }
        let why = match fetch {
            fetch if fetch.sends == fetch.unsent => NotFetched::Unsent,
            fetch if fetch.waiters.iter().all(|&at| !self.tasks[at].may_ask()) => {
                NotFetched::Exhausted
            }
            fetch if fetch.any_unusable => NotFetched::Unusable,
            fetch if fetch.any_unreachable => NotFetched::Unreachable,
            fetch => NotFetched::Silence(fetch.sends - fetch.unsent),
        };
        if why == NotFetched::Exhausted {
            fetch.waiters.iter().for_each(|&at| self.tasks[at].note(Failure::TooManyQueries));
        }
        self.complete(fetch_at, Err(why), cx);
    }

    /// Asks the next server. False if there is none, or no more is to be sent.
    fn ask_next(&mut self, fetch_at: u32, cx: &mut Context<'_, W>) -> bool {
        let Some(place) = self.choose_server(fetch_at, cx.now_ms) else { return false };
        let at_once = match self.fetches.get(fetch_at) {
            Some(Fetch { inquiry, round: 0, sends: 0, .. }) => match inquiry.manner.strategy {
                Strategy::Race(count) => count,
                _ => 1,
            },
            Some(fetch) if fetch.sends >= SINGLE_SENDS && fetch.waited_ms >= LONG_WAIT_MS => 2,
            _ => 1,
        };
        let copies = self
            .fetches
            .get(fetch_at)
            .map_or(1, |fetch| self.loss_of(fetch, cx.now_ms).copies(fetch.sends));
        let at_once = at_once.max(copies as u8);
        let mut sent = self.ask_server(fetch_at, place, cx);
        for _ in 1..at_once {
            if let Some(place) = self.choose_server(fetch_at, cx.now_ms) {
                sent |= self.ask_server(fetch_at, place, cx);
            }
        }
        self.rearm_fetch(fetch_at);
        sent
    }

    /// Sends the question to one server. False if no more may be sent.
    fn ask_server(&mut self, fetch_at: u32, place: u8, cx: &mut Context<'_, W>) -> bool {
        let Some(level) = self.fetches.get(fetch_at).map(|fetch| self.loss_of(fetch, cx.now_ms))
        else {
            return false;
        };
        let Some(fetch) = self.fetches.get_mut(fetch_at) else { return false };
        let Some(candidate) = fetch.inquiry.servers.get(usize::from(place)).copied() else {
            return false;
        };
        // Of those who wait, one pays for each query: what is sent once counts once.
        let Some(&payer) = fetch.waiters.iter().find(|at| self.tasks[**at].may_ask()) else {
            return false;
        };
        self.tasks[payer].sends += 1;
        let number = self.servers.number(candidate.addr);
        let server = &mut self.servers[number];
        server.take_probe(cx.now_ms);
        let manner = fetch.inquiry.manner;
        let form = form_of(fetch, place, server, level, cx.now_ms);
        let QueryForm { over_tcp, with_edns, exact_case, wait_ms } = form;
        server.outstanding += 1;
        fetch.sends += 1;
        self.counters.sent += 1;
        self.counters.sent_by_tcp += u64::from(over_tcp);

        let mut question = fetch.inquiry.question();
        let qname_len = question.len() - 4;
        if exact_case {
            query::randomise_case(&mut question[..qname_len], &mut self.rng);
        }
        let (zone, name, rtype) = (
            Some(fetch.inquiry.zone.clone()),
            Some(fetch.inquiry.qname.clone()),
            fetch.inquiry.qtype,
        );
        let step = Step::Sent { server: candidate.addr, zone, name, rtype, over_tcp, with_edns };
        self.record_fetch(fetch_at, cx.now_ms, &step);
        let id = draw_id(&mut self.rng, |_| false);
        let exchange = Exchange {
            fetch: fetch_at,
            server: number,
            place,
            id,
            over_tcp,
            sent_ms: cx.now_ms,
            due_ms: cx.now_ms + u64::from(wait_ms),
            overdue: false,
            unsent: false,
            with_edns,
            exact_case,
            question,
        };
        let octets = self.write_inquiry(&exchange, manner, cx);
        let socket = self.fetches.begin_exchange(exchange);
        if let Some(fetch) = self.fetches.get_mut(fetch_at) {
            fetch.exchanges.push(socket);
        }
        let addr = candidate.addr;
        cx.actions.list.push(match over_tcp {
            true => Action::OpenStream { stream: socket, addr, octets },
            false => Action::OpenDatagram { socket, addr, octets },
        });
        true
    }

    fn write_inquiry(
        &self,
        exchange: &Exchange,
        manner: crate::iterate::fetch::Manner,
        cx: &mut Context<'_, W>,
    ) -> std::ops::Range<usize> {
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        let flags = flag(manner.recursion_desired, RD) | flag(manner.checking_disabled, CD);
        let recursion = self.bound.plan.recursion.as_ref();
        let with_cookie =
            recursion.is_some_and(|recursion| recursion.cookies) && !exchange.over_tcp;
        let cookie = if with_cookie { self.servers[exchange.server].cookie.octets() } else { &[] };
        let udp_size = recursion.map_or(query::UDP_SIZE, |recursion| recursion.udp_size);
        let opt = OptOf { udp_size, dnssec_ok: manner.dnssec_ok, cookie, ecs: &[] };
        let start = cx.actions.octets.len();
        let opt = exchange.with_edns.then_some(&opt);
        query::write(&mut cx.actions.octets, exchange.id, flags, &exchange.question, opt);
        start..cx.actions.octets.len()
    }

    /// Sets the timer of a fetch to what comes next.
    fn rearm_fetch(&mut self, fetch_at: u32) {
        let Some(fetch) = self.fetches.get(fetch_at) else { return };
        let waited = fetch.exchanges.iter().filter_map(|&socket| self.fetches.exchange(socket));
        let due = waited.filter(|exchange| !exchange.overdue).map(|exchange| exchange.due_ms).min();
        match due {
            Some(due_ms) => self.fetch_wheel.set(fetch_at, due_ms),
            // The deadlines of those who wait end it.
            None => self.fetch_wheel.clear(fetch_at),
        }
    }

    pub(super) fn wake_fetch(&mut self, fetch_at: u32, cx: &mut Context<'_, W>) {
        let Some(fetch) = self.fetches.get(fetch_at) else { return };
        for socket in fetch.exchanges.clone() {
            let Some(exchange) = self.fetches.exchange_mut(socket) else { continue };
            if exchange.overdue || exchange.due_ms > cx.now_ms {
                continue;
            }
            if exchange.unsent {
                self.end_exchange(socket, cx);
                if let Some(fetch) = self.fetches.get_mut(fetch_at) {
                    fetch.unsent += 1;
                }
                continue;
            }
            exchange.overdue = true;
            self.counters.timeouts += 1;
            let (server, sent_ms) = (exchange.server, exchange.sent_ms);
            let waited_ms = exchange.due_ms - exchange.sent_ms;
            self.servers[server].failed(cx.now_ms, sent_ms);
            let after_ms = cx.now_ms.saturating_sub(sent_ms) as u32;
            let step = Step::Silent { server: self.servers[server].addr, after_ms };
            self.record_fetch(fetch_at, cx.now_ms, &step);
            if let Some(fetch) = self.fetches.get_mut(fetch_at) {
                fetch.waited_ms = waited_ms;
            }
        }
        self.advance_fetch(fetch_at, cx);
    }

    /// A datagram came on the socket of a query, or a message over its connection.
    pub fn server_reply(&mut self, socket: SocketId, octets: &[u8], cx: &mut Context<'_, W>) {
        let Some(exchange) = self.fetches.exchange(socket) else {
            self.counters.late += 1;
            return;
        };
        let view = MessageView::new(octets).ok();
        let view =
            view.filter(|view| view.header().has(QR) && view.header().opcode() == Opcode::QUERY);
        let Some(view) = view else {
            self.counters.malformed += 1;
            return;
        };
        if view.header().id != exchange.id {
            self.counters.foreign += 1;
            return;
        }
        match compare(&exchange.question, &view) {
            Match::Exact => self.matched_reply(socket, &view, cx),
            Match::OtherCase if !exchange.exact_case => self.matched_reply(socket, &view, cx),
            Match::OtherCase => {
                self.counters.near_misses += 1;
                let server = exchange.server;
                self.record_exchange(socket, Reaction::OtherCase, cx.now_ms);
                self.servers[server].note_folded_case(cx.now_ms);
                self.repeat(socket, Repeat::ByTcp, cx);
            }
            Match::NoQuestion if is_refusal_of_edns(&view) && octets.len() == HEADER_LEN => {
                // Not believed, but minded: a server that knows no EDNS may answer so.
                self.counters.malformed += 1;
                self.record_exchange(
                    socket,
                    Reaction::WithoutEdns(view.header().rcode()),
                    cx.now_ms,
                );
                self.repeat(socket, Repeat::WithoutEdns, cx);
            }
            Match::NoQuestion => self.counters.malformed += 1,
            Match::Other => self.counters.foreign += 1,
        }
    }

    fn matched_reply(&mut self, socket: SocketId, view: &MessageView<'_>, cx: &mut Context<'_, W>) {
        let Some(exchange) = self.fetches.exchange(socket).cloned() else { return };
        let qname = exchange.question[..exchange.question.len() - 4].to_ascii_lowercase();
        if view.header().has(TC) {
            self.note_server_reply(&exchange, cx.now_ms);
            self.record_exchange(socket, Reaction::Truncated, cx.now_ms);
            // Over TCP nothing can bring the rest: the next server is asked (RFC 2181 §9).
            return match exchange.over_tcp {
                true => self.unusable_reply(socket, cx),
                false => self.repeat(socket, Repeat::ByTcp, cx),
            };
        }
        let waiters =
            self.fetches.get(exchange.fetch).map(|fetch| &fetch.waiters[..]).unwrap_or_default();
        for &waiter in waiters {
            self.tasks[waiter].reply_octets += view.octets().len();
        }
        let mut reply = Reply::default();
        if reply.read_well_formed(view, &qname).is_err() {
            self.counters.malformed += 1;
            self.record_exchange(socket, Reaction::Malformed, cx.now_ms);
            return self.unusable_reply(socket, cx);
        }
        let server = &mut self.servers[exchange.server];
        let cookie = &reply.opt().cookie;
        if !cookie.is_empty()
            && exchange.with_edns
            && !exchange.over_tcp
            && !server.cookie.learn(cookie)
        {
            self.counters.near_misses += 1;
            return;
        }
        self.note_server_reply(&exchange, cx.now_ms);
        let rcode = reply.rcode(view);
        let reaction = match rcode {
            Rcode::BADCOOKIE if exchange.with_edns => Reaction::BadCookie,
            Rcode::FORMERR | Rcode::NOTIMP | Rcode::BADVERS if exchange.with_edns => {
                Reaction::WithoutEdns(rcode)
            }
            rcode => Reaction::Message(rcode),
        };
        self.record_exchange(socket, reaction, cx.now_ms);
        match rcode {
            Rcode::BADCOOKIE if exchange.with_edns => return self.bad_server_cookie(socket, cx),
            Rcode::FORMERR | Rcode::NOTIMP | Rcode::BADVERS if exchange.with_edns => {
                return self.repeat(socket, Repeat::WithoutEdns, cx);
            }
            Rcode::NOERROR | Rcode::NXDOMAIN => self.note_edns(&exchange, &reply, cx.now_ms),
            _ => {}
        }
        let addr = self.servers[exchange.server].addr;
        let may_mind_case = self.may_mind_case(&exchange, rcode, cx.now_ms);
        let flags = view.header().flags;
        let fetched = Arc::new(Fetched { reply, rcode, flags, server: addr, may_mind_case });
        if self.doubts_denial(&exchange, &fetched, cx.now_ms) {
            if let Some(fetch) = self.fetches.get_mut(exchange.fetch) {
                fetch.denied = Some(fetched);
            }
            return self.repeat(socket, Repeat::LowerCase, cx);
        }
        self.complete(exchange.fetch, Ok(fetched), cx);
    }

    /// Takes note of how the server looks up names in mixed case. Some find none of them: a denial
    /// without a proof, of one that has not found any so far, is asked for once more in lower case.
    fn doubts_denial(&mut self, exchange: &Exchange, fetched: &Fetched, now_ms: u64) -> bool {
        let server = &mut self.servers[exchange.server];
        let Some(fetch) = self.fetches.get(exchange.fetch) else { return false };
        let is_mixed = exchange.is_mixed();
        let is_denied = fetched.rcode == Rcode::NXDOMAIN;
        if is_mixed && is_denied {
            // The root's servers are known to find all letters.
            let is_open = fetch.inquiry.is_of_client
                && fetch.inquiry.zone.len() > 1
                && fetch.denied.is_none();
            return is_open && !server.finds_any_case && !fetched.has_proof();
        }
        if is_mixed {
            server.finds_any_case |= fetched.rcode == Rcode::NOERROR;
        } else if fetch.lower_case & 1 << exchange.place != 0 {
            // The same in both cases, or else mixed case is of no use here.
            server.finds_any_case |= is_denied;
            if fetched.rcode == Rcode::NOERROR {
                server.note_folded_case(now_ms);
            }
        }
        false
    }

    /// Returns whether this RCODE may be for the mixed case of the name: some servers refuse it, or
    /// fail. Takes note of what such a server says to lower case.
    fn may_mind_case(&mut self, exchange: &Exchange, rcode: Rcode, now_ms: u64) -> bool {
        let server = &mut self.servers[exchange.server];
        let Some(Fetch { inquiry, .. }) = self.fetches.get(exchange.fetch) else { return false };
        let is_error = matches!(rcode, Rcode::REFUSED | Rcode::SERVFAIL | Rcode::FORMERR);
        if inquiry.letters == Letters::Lower {
            match rcode {
                Rcode::NOERROR | Rcode::NXDOMAIN => server.note_minded_case(&inquiry.zone, now_ms),
                _ => server.note_failed_any_case(now_ms),
            }
        }
        is_error && exchange.is_mixed() && server.may_mind_case(now_ms)
    }

    fn record_exchange(&mut self, socket: SocketId, reaction: Reaction, now_ms: u64) {
        let Some(exchange) = self.fetches.exchange(socket) else { return };
        let rtt_ms = now_ms.saturating_sub(exchange.sent_ms) as u32;
        let (fetch_at, server) = (exchange.fetch, self.servers[exchange.server].addr);
        self.record_fetch(fetch_at, now_ms, &Step::Replied { server, rtt_ms, reaction });
    }

    fn note_edns(&mut self, exchange: &Exchange, reply: &Reply, now_ms: u64) {
        let server = &mut self.servers[exchange.server];
        let Some(fetch) = self.fetches.get(exchange.fetch) else { return };
        if exchange.with_edns && reply.has_opt {
            server.note_edns();
        } else if !exchange.with_edns && fetch.plain & 1 << exchange.place != 0 {
            let guessed = if fetch.guessed_plain & 1 << exchange.place == 0 {
                Guessed::No
            } else {
                Guessed::Yes
            };
            server.note_failed_edns(now_ms, guessed);
        }
    }

    fn note_server_reply(&mut self, exchange: &Exchange, now_ms: u64) {
        let server = &mut self.servers[exchange.server];
        server.replied(now_ms, now_ms.saturating_sub(exchange.sent_ms));
        if exchange.over_tcp {
            return;
        }
        // What it did not answer before was lost, unless it may have dropped it for its EDNS
        // (RFC 6891 §7).
        let may_drop_edns = !exchange.with_edns && !server.speaks_edns;
        let others =
            self.fetches.get(exchange.fetch).map(|fetch| &fetch.exchanges[..]).unwrap_or_default();
        let others = others.iter().filter_map(|&other| self.fetches.exchange(other));
        let is_lost = |other: &&Exchange| {
            let is_earlier = other.server == exchange.server && other.sent_ms < exchange.sent_ms;
            is_earlier && other.overdue && !(other.with_edns && may_drop_edns)
        };
        let lost = others.filter(is_lost).count() as u32;
        (0..lost).for_each(|_| server.rtt.note_fate(Fate::Lost));
        server.rtt.note_fate(Fate::Answered);
        self.loss.note_reply(server.addr.ip(), lost, now_ms);
    }

    /// Asks the same server once more, in another way; if that was tried, the next one.
    fn repeat(&mut self, socket: SocketId, how: Repeat, cx: &mut Context<'_, W>) {
        let Some(exchange) = self.fetches.exchange(socket).cloned() else { return };
        let Some(fetch) = self.fetches.get_mut(exchange.fetch) else { return };
        let bit = 1 << exchange.place;
        let set = match how {
            Repeat::ByTcp => &mut fetch.by_tcp,
            Repeat::WithoutEdns => &mut fetch.plain,
            Repeat::LowerCase => &mut fetch.lower_case,
            Repeat::Again => &mut 0,
        };
        let is_repeated = *set & bit != 0;
        *set |= bit;
        if is_repeated {
            return self.unusable_reply(socket, cx);
        }
        self.end_exchange(socket, cx);
        if self.ask_server(exchange.fetch, exchange.place, cx) {
            return self.rearm_fetch(exchange.fetch);
        }
        self.advance_fetch(exchange.fetch, cx);
    }

    /// The server wants its cookie: once again with it, then by TCP, then no more (S11).
    fn bad_server_cookie(&mut self, socket: SocketId, cx: &mut Context<'_, W>) {
        let Some(exchange) = self.fetches.exchange(socket) else { return };
        let Some(fetch) = self.fetches.get_mut(exchange.fetch) else { return };
        fetch.bad_cookies += 1;
        match fetch.bad_cookies {
            1 => self.repeat(socket, Repeat::Again, cx),
            2 => self.repeat(socket, Repeat::ByTcp, cx),
            _ => self.unusable_reply(socket, cx),
        }
    }

    fn unusable_reply(&mut self, socket: SocketId, cx: &mut Context<'_, W>) {
        let Some(exchange) = self.fetches.exchange(socket) else { return };
        let (fetch_at, place) = (exchange.fetch, exchange.place);
        self.end_exchange(socket, cx);
        if let Some(fetch) = self.fetches.get_mut(fetch_at) {
            fetch.failed |= 1 << place;
            fetch.any_unusable = true;
        }
        self.advance_fetch(fetch_at, cx);
    }

    /// A query could not be sent for want of a descriptor or a buffer of our own, which says
    /// nothing of the server: it is asked again a little later, or another one is.
    pub fn server_unsent(&mut self, socket: SocketId, cx: &mut Context<'_, W>) {
        let Some(exchange) = self.fetches.exchange_mut(socket) else { return };
        (exchange.unsent, exchange.due_ms) = (true, cx.now_ms + UNSENT_WAIT_MS);
        let fetch_at = exchange.fetch;
        self.counters.unsent += 1;
        self.rearm_fetch(fetch_at);
    }

    /// A query could not be sent, did not arrive, or its connection ended.
    pub fn server_failed(&mut self, socket: SocketId, cx: &mut Context<'_, W>) {
        let Some(exchange) = self.fetches.exchange(socket) else { return };
        let (fetch_at, place) = (exchange.fetch, exchange.place);
        let (server, sent_ms) = (exchange.server, exchange.sent_ms);
        self.counters.unreachable += 1;
        self.servers[server].failed(cx.now_ms, sent_ms);
        let step = Step::Unreachable(self.servers[server].addr);
        self.record_fetch(fetch_at, cx.now_ms, &step);
        self.end_exchange(socket, cx);
        if let Some(fetch) = self.fetches.get_mut(fetch_at) {
            fetch.failed |= 1 << place;
            fetch.any_unreachable = true;
        }
        self.advance_fetch(fetch_at, cx);
    }
}

/// How a server is asked once more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    ByTcp,
    WithoutEdns,
    LowerCase,
    Again,
}

fn is_refusal_of_edns(view: &MessageView<'_>) -> bool {
    matches!(view.header().rcode(), Rcode::FORMERR | Rcode::NOTIMP)
}

/// How one query to a server is sent.
struct QueryForm {
    over_tcp: bool,
    with_edns: bool,
    exact_case: bool,
    wait_ms: u32,
}

/// Returns how the next query of a fetch to the server at `place` is sent, given what is known of
/// that server and how much it loses.
fn form_of(fetch: &mut Fetch, place: u8, server: &Server, level: Level, now_ms: u64) -> QueryForm {
    let manner = fetch.inquiry.manner;
    let is_link = matches!(fetch.inquiry.qtype, Rtype::DS | Rtype::DNSKEY);
    let loses = level >= Level::Heavy;
    let may_guess = !manner.is_signed && !is_link && !loses;
    if may_guess
        && !server.speaks_edns
        && fetch.round >= PLAIN_ROUND
        && fetch.plain & 1 << place == 0
    {
        fetch.plain |= 1 << place;
        fetch.guessed_plain |= 1 << place;
    }
    let listed = fetch.inquiry.servers[usize::from(place)].transport;
    let over_tcp = listed == Transport::Tcp || fetch.by_tcp & 1 << place != 0;
    let randomises = manner.case_randomisation
        && fetch.inquiry.letters == Letters::Random
        && fetch.round < LOWER_CASE_ROUND
        && fetch.lower_case & 1 << place == 0;
    let transport = if over_tcp { Transport::Tcp } else { Transport::Udp };
    let wait_ms = timeout(&server.rtt, fetch.round, manner.timeout_ms, transport);
    // A late reply is taken all the same.
    let is_measured = server.rtt.smoothed_ms().is_some();
    let longest_ms = if loses || !is_measured { MAX_BLIND_WAIT_MS } else { MAX_WAIT_MS };
    QueryForm {
        over_tcp,
        with_edns: server.takes_edns(now_ms) && fetch.plain & 1 << place == 0,
        exact_case: randomises && !over_tcp && server.keeps_case(now_ms),
        wait_ms: if over_tcp { wait_ms } else { wait_ms.min(longest_ms) },
    }
}
