//! Sends queries for the owner of an exchange: to the next server, to several servers at once, or
//! to the same server in another form. Ends the exchange if there is no server left.

use super::choose::Pick;
use super::{Context, Resolver};
use crate::exchange::endpoint::{Carrier, EndpointId, SocketSlot};
use crate::exchange::pending::{Closing, Owner};
use crate::exchange::send::{Sent, Weight};
use crate::exchange::{Candidates, Exchange, Exchanges};
use crate::failure::Failure;
use crate::trace::Step;

/// The change to a query that is sent to the same server again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    ByTcp,
    WithoutCookie,
    WithoutEdns,
    LowerCase,
    Again,
}

/// The number of queries that are sent at the same time.
#[derive(Clone, Copy)]
pub(super) struct AtOnce {
    /// Number of different servers that are queried at the same time.
    pub(super) race: u32,
    /// Number of additional copies. They go to the next servers, or to the same servers if there
    /// are no others.
    pub(super) copies: u32,
}

impl AtOnce {
    pub(super) const ONE: Self = Self { race: 1, copies: 1 };
}

impl<W> Resolver<W> {
    /// Calls a function with the exchange of this owner and the servers that the exchange may
    /// query. Returns `None` if the owner has ended.
    pub(super) fn with_exchange<R>(
        &mut self,
        owner: Owner,
        act: impl FnOnce(&mut Exchanges, &mut Exchange, Candidates<'_>) -> R,
    ) -> Option<R> {
        match owner {
            Owner::Nobody => None,
            Owner::Task(at) => {
                let task = &mut self.tasks[at];
                let bound = task.bound.as_ref()?;
                let candidates = Candidates::Pinned(bound.servers(task.route));
                Some(act(&mut self.exchanges, &mut task.exchange, candidates))
            }
            Owner::Fetch(at) => {
                let fetch = self.fetches.get_mut(at)?;
                let candidates = Candidates::Found(&fetch.inquiry.servers);
                Some(act(&mut self.exchanges, &mut fetch.exchange, candidates))
            }
        }
    }

    /// Continues after a query failed or was not answered in time. Queries the next server, unless
    /// another query may still be answered in time.
    pub(super) fn advance(&mut self, owner: Owner, cx: &mut Context<'_, W>) {
        let is_in_time =
            self.with_exchange(owner, |exchanges, exchange, _| exchanges.is_in_time(exchange));
        match is_in_time {
            None => {}
            Some(true) => self.rearm(owner),
            Some(false) if self.ask_next(owner, cx) => self.rearm(owner),
            Some(false) => self.end_of_servers(owner, cx),
        }
    }

    /// Ends an exchange that has no further servers, unless its owner waits for late replies.
    fn end_of_servers(&mut self, owner: Owner, cx: &mut Context<'_, W>) {
        match owner {
            Owner::Nobody => {}
            Owner::Task(at) if self.ask_in_lower_case(at, cx) => self.rearm(owner),
            Owner::Task(at) if self.tasks[at].exchange.queries.is_empty() => self.fail(at, cx),
            // The exchange waits, because a late reply is still accepted.
            Owner::Task(_) => self.rearm(owner),
            Owner::Fetch(at) if self.waits_for_late_replies(at) => self.rearm(owner),
            Owner::Fetch(at) => self.complete_in_vain(at, cx),
        }
    }

    /// Queries the next server, or several servers at once. Returns `false` if there is no server
    /// left, or if a limit is reached.
    pub(super) fn ask_next(&mut self, owner: Owner, cx: &mut Context<'_, W>) -> bool {
        let Some(place) = self.choose(owner, Pick::Next, cx.now_ms) else { return false };
        let AtOnce { race, copies } = self.at_once(owner, cx.now_ms);
        let mut sent = self.ask(owner, place, Weight::Counts, cx);
        for number in 1..race.max(copies) {
            let pick = if number < copies { Pick::Copy } else { Pick::Further };
            let Some(place) = self.choose(owner, pick, cx.now_ms) else { break };
            sent |= self.ask(owner, place, Weight::Counts, cx);
        }
        sent
    }

    /// Sends a query to the server with this index. Returns `false` if the owner has reached its
    /// limit on queries.
    pub(super) fn ask(
        &mut self,
        owner: Owner,
        place: u8,
        weight: Weight,
        cx: &mut Context<'_, W>,
    ) -> bool {
        let sent = match owner {
            Owner::Nobody => None,
            Owner::Task(at) => self.send_for_task(at, (place, weight), cx),
            Owner::Fetch(at) => self.send_for_fetch(at, place, cx),
        };
        let Some((server, sent)) = sent else { return false };
        self.count_sent(owner, server, &sent);
        let server = self.exchanges.servers[server].endpoint.addr;
        let Sent { carrier, with_edns, with_proxy_header, .. } = sent;
        let step = |zone, name, rtype| Step::Sent {
            server,
            zone,
            name,
            rtype,
            carrier,
            with_edns,
            with_proxy_header,
        };
        match owner {
            Owner::Fetch(at) => {
                if let Some(fetch) = self.fetches.get(at) {
                    let (zone, name) = (fetch.inquiry.zone.clone(), fetch.inquiry.qname.clone());
                    let step = step(Some(zone), Some(name), fetch.inquiry.qtype);
                    self.record_for_fetch(at, cx.now_ms, &step);
                }
            }
            Owner::Task(at) => {
                let task = &mut self.tasks[at];
                let rtype = task.target_type();
                task.record(cx.now_ms, step(None, None, rtype));
            }
            Owner::Nobody => {}
        }
        true
    }

    fn count_sent(&mut self, owner: Owner, server: EndpointId, sent: &Sent) {
        let counters = &mut self.counters;
        if let Owner::Fetch(_) = owner {
            counters.sent += 1;
            counters.sent_by_tcp += u64::from(sent.carrier.is_stream());
            counters.sent_encrypted += u64::from(sent.carrier.is_encrypted());
            return;
        }
        if let Some(counters) = self.exchanges.servers[server].counters() {
            counters.queries += 1;
            counters.tcp += u64::from(sent.carrier == Carrier::Tcp);
            counters.tls += u64::from(sent.carrier.is_encrypted());
            counters.introduced += u64::from(sent.with_proxy_header);
        }
        let is_single = matches!(sent.socket.slot, SocketSlot::Single(_));
        counters.fresh_sockets += u64::from(is_single);
        counters.renewals += u64::from(sent.socket.renew);
        counters.min_bits_seen = counters.min_bits_seen.min(sent.socket.bits);
    }

    /// Queries the same server again in another form, for example over TCP or without EDNS. If this
    /// form was already tried with this server, ends the query without another one.
    pub(super) fn repeat(&mut self, query_at: u32, how: Repeat, cx: &mut Context<'_, W>) {
        let query = &self.exchanges.pending[query_at];
        let (owner, place) = (query.owner, query.place);
        // After a reply with other letter case, the genuine reply may still arrive.
        let closing = if how == Repeat::ByTcp { Closing::Unanswered } else { Closing::Answered };
        let is_repeated = self.with_exchange(owner, |exchanges, exchange, _| {
            let set = match how {
                Repeat::ByTcp => &mut exchange.by_tcp,
                Repeat::WithoutCookie => &mut exchange.without_cookie,
                Repeat::WithoutEdns => &mut exchange.plain,
                Repeat::LowerCase => &mut exchange.lower_case,
                Repeat::Again => &mut 0,
            };
            let is_repeated = *set & 1 << place != 0;
            *set |= 1 << place;
            exchanges.end(exchange, query_at, closing, cx.actions);
            is_repeated
        });
        match is_repeated {
            None => {}
            Some(false) if self.ask(owner, place, Weight::Counts, cx) => self.rearm(owner),
            Some(_) => self.advance(owner, cx),
        }
    }

    /// Ends a query without repeating it, and queries the next server.
    pub(super) fn give_up(&mut self, query_at: u32, failure: Failure, cx: &mut Context<'_, W>) {
        if self.refuse(query_at, cx) {
            return;
        }
        let query = &self.exchanges.pending[query_at];
        let (owner, place, server) = (query.owner, query.place, query.server());
        if let Owner::Task(at) = owner {
            self.tasks[at].note(failure);
            if failure == Failure::Unusable
                && let Some(counters) = self.exchanges.servers[server].counters()
            {
                counters.unusable += 1;
            }
        }
        self.with_exchange(owner, |exchanges, exchange, _| {
            exchanges.end(exchange, query_at, Closing::Answered, cx.actions);
            exchange.failed |= 1 << place;
            match failure {
                Failure::Network => exchange.any_unreachable = true,
                Failure::Tls(fault) => exchange.tls_fault = Some(fault),
                _ => exchange.any_unusable = true,
            }
        });
        self.advance(owner, cx);
    }
}
