//! Submits a question. It is answered from a cache, joins an equal task, or becomes a task.

use std::sync::Arc;

use avocet_wire::{Ede, FoldedName, Rcode};

use super::{Context, Resolver, Shed, Submitted};
use crate::action::{Action, AskedFor};
use crate::answer::{self, Gathered};
use crate::configured::Configured;
use crate::exchange::endpoint::EndpointId;
use crate::exchange::pending::Owner;
use crate::exchange::{Exchanges, choose};
use crate::iterate::load::Excess;
use crate::iterate::rrset::knows_delegation;
use crate::plan::{Ask, EcsPolicy, Route};
use crate::task::{Key, Waiting};

/// Maximum number of waiters of one task (Unbound's wait-limit).
const TASK_WAITERS: usize = 1_000;
/// Maximum number of questions in flight that differ only by the client subnet (S7 in
/// tests/SECURITY.md: birthday attacks).
const SUBNETS_IN_FLIGHT: usize = 4;
/// Milliseconds for which a question may be in flight before another question may replace it.
const JOSTLE_MS: u64 = 200;
/// Number of the oldest tasks among which a task without a client is searched.
const PREFETCHES_LOOKED_AT: usize = 16;
/// Milliseconds after a question was sent to an upstream. If the upstream sends an equal question
/// to this server in this time, the two servers forward to each other.
const LOOP_WINDOW_MS: u64 = 100;
/// The time that replaces [`LOOP_WINDOW_MS`] for upstreams on this host, because other clients on
/// this host have the same address.
const LOCAL_LOOP_WINDOW_MS: u64 = 5;

/// Maximum number of actions that may wait to be executed while questions are accepted. Answers
/// without network access are also actions, and have no other limit.
const MAX_ACTIONS: usize = 16_384;

impl<W> Resolver<W> {
    /// Submits a question for `waiter`. Without a waiter, the question is a prefetch for the cache.
    pub fn submit(
        &mut self,
        ask: &Ask<'_>,
        waiter: Option<W>,
        cx: &mut Context<'_, W>,
    ) -> Submitted<W> {
        if cx.actions.list.len() >= MAX_ACTIONS {
            self.counters.shed_actions += 1;
            return Submitted::Shed { reason: Shed::Actions, waiter };
        }
        let is_by_plan = ask.servers.is_empty();
        let recurses = is_by_plan && self.bound.plan.recursion.is_some();
        let Some((route, key)) = self.route_of(ask).map(|route| {
            let passes_ecs = !ask.ecs.is_empty()
                && !recurses
                && self.bound.plan.rule(route).ecs == EcsPolicy::Pass;
            (route, self.key_of(ask, route, if passes_ecs { ask.ecs } else { &[] }))
        }) else {
            return self.unroutable(ask, waiter, cx);
        };
        if let Some(at) = self.tasks.find(&key).filter(|&at| self.is_current(at)) {
            return self.join(at, ask, waiter, cx);
        }
        if is_by_plan && let Some(failure) = cx.failures.lookup(&ask.failure_key(), cx.now_secs()) {
            self.counters.failed_before += 1;
            let text = Ede(failure.ede).meaning();
            return refuse(ask, Rcode::SERVFAIL, (Ede::CACHED_ERROR, text), waiter, cx);
        }
        if waiter.is_some() && self.waiters >= self.bound.plan.settings.waiters {
            self.counters.shed_waiters += 1;
            return Submitted::Shed { reason: Shed::Waiters, waiter };
        }
        if recurses && let Some(reason) = self.excess(ask, cx) {
            return Submitted::Shed { reason, waiter };
        }
        // A prefetch must not replace another question.
        if self.tasks.len() >= self.bound.plan.settings.in_flight
            && (waiter.is_none() || !self.make_room(cx))
        {
            self.counters.shed_tasks += 1;
            return Submitted::Shed { reason: Shed::Tasks, waiter };
        }
        self.counters.started += 1;
        let at = self.tasks.insert(&key, cx.now_ms);
        if let Some(waiter) = waiter {
            self.add_waiter(at, ask, waiter, cx.now_ms);
        }
        if recurses && let Some(client) = ask.client {
            self.loads.count_client(client, cx.now_ms);
            self.tasks[at].client = self.loads.place(ask.client);
        }
        self.start(at, (route, ask), cx);
        Submitted::Started
    }

    /// Rejects a question to which no rule applies.
    #[cold]
    fn unroutable(
        &mut self,
        ask: &Ask<'_>,
        waiter: Option<W>,
        cx: &mut Context<'_, W>,
    ) -> Submitted<W> {
        self.counters.no_rule += 1;
        let ede = (Ede::NOT_AUTHORITATIVE, "no forwarding rule for this name");
        refuse(ask, Rcode::REFUSED, ede, waiter, cx)
    }

    /// Returns the rule for a question; `None` if no rule applies. With recursion, a name without a
    /// rule gets a placeholder, because its walk finds the servers.
    pub(super) fn route_of(&self, ask: &Ask<'_>) -> Option<Route> {
        let plan = &self.bound.plan;
        if !ask.servers.is_empty() {
            return plan.route_to(ask.servers);
        }
        let qname = ask.question.qname();
        plan.route(qname).or(plan.recursion.is_some().then_some(Route { rule: 0, apex_len: 1 }))
    }

    /// Begins to resolve a task's question.
    pub(super) fn start(
        &mut self,
        at: u32,
        (route, ask): (Route, &Ask<'_>),
        cx: &mut Context<'_, W>,
    ) {
        let task = &mut self.tasks[at];
        (task.route, task.bound) = (route, Some(Arc::clone(&self.bound)));
        if ask.servers.is_empty() && self.bound.plan.walks(ask) {
            self.begin_walk(at, cx);
        } else {
            self.spare_asker(at, ask);
            if !self.follow_cached_dname(at, cx) {
                self.begin_target(at, cx);
            }
        }
    }

    /// Returns why this question exceeds the share of its zone or its client; `None` if it does
    /// not. Forwarded zones have no limit.
    fn excess(&mut self, ask: &Ask<'_>, cx: &Context<'_, W>) -> Option<Shed> {
        let (qname, now_ms) = (ask.question.qname(), cx.now_ms);
        let is_forwarded =
            matches!(self.bound.plan.configured(qname), Some(Configured::Forward(_)));
        let limit = self.bound.plan.fetch_limits.per_zone;
        let asked = (qname, self.loads.place(ask.client));
        let found = &mut self.found;
        let is_delegated =
            |zone: FoldedName<'_>| knows_delegation(cx.rrsets, zone, cx.now_secs(), found);
        let of_zone =
            self.loads.excess_of_zone(asked, limit, now_ms, is_delegated).filter(|_| !is_forwarded);
        let of_client = || self.loads.excess_of_client(ask.client?, now_ms);
        let (counter, reason) = match of_zone.or_else(of_client)? {
            Excess::UnderWay => (&mut self.counters.shed_zone, Shed::Zone),
            Excess::Zone => (&mut self.counters.shed_busy_zone, Shed::Zone),
            Excess::Client => (&mut self.counters.shed_busy_client, Shed::Client),
        };
        *counter += 1;
        Some(reason)
    }

    /// Returns the question as it is sent to upstreams. It has the client's subnet only if the rule
    /// permits it, and if few other subnets are in flight.
    pub(super) fn key_of<'a>(&mut self, ask: &'a Ask<'a>, route: Route, ecs: &'a [u8]) -> Key<'a> {
        let key = Key {
            question: ask.question,
            hash: ask.hash,
            dnssec_ok: ask.dnssec_ok,
            checking_disabled: ask.checking_disabled,
            ecs,
            introduced: match self.bound.plan.introduces(route) {
                true => ask.introduced.as_ref(),
                false => None,
            },
            set: (!ask.servers.is_empty()).then_some(route.rule),
        };
        if key.ecs.is_empty() || self.may_have_subnet(&key) {
            return key;
        }
        self.counters.ecs_dropped += 1;
        Key { ecs: &[], ..key }
    }

    /// Returns whether the question may be sent with the client's subnet, because few other subnets
    /// are in flight.
    #[inline(never)]
    fn may_have_subnet(&self, key: &Key<'_>) -> bool {
        // One place is reserved for the question without a subnet.
        self.tasks.find(key).is_some() || self.tasks.same_question(key) + 1 < SUBNETS_IN_FLIGHT
    }

    fn join(
        &mut self,
        at: u32,
        ask: &Ask<'_>,
        waiter: Option<W>,
        cx: &Context<'_, W>,
    ) -> Submitted<W> {
        if self.comes_back(at, ask, cx.now_ms) && !self.tasks[at].looped {
            self.tasks[at].looped = true;
            self.counters.loops += 1;
        }
        let Some(waiter) = waiter else { return Submitted::Joined };
        let full = self.waiters >= self.bound.plan.settings.waiters;
        if full || self.tasks[at].waiters.len() >= TASK_WAITERS {
            self.counters.shed_waiters += 1;
            return Submitted::Shed { reason: Shed::Waiters, waiter: Some(waiter) };
        }
        self.counters.joined += 1;
        self.add_waiter(at, ask, waiter, cx.now_ms);
        self.rearm(Owner::Task(at));
        Submitted::Joined
    }

    /// Returns whether the question comes from the server to which it was just sent.
    fn comes_back(&self, at: u32, ask: &Ask<'_>, now_ms: u64) -> bool {
        let Some(client) = ask.client.map(|client| client.to_canonical()) else { return false };
        let window_ms = if client.is_loopback() { LOCAL_LOOP_WINDOW_MS } else { LOOP_WINDOW_MS };
        let Exchanges { pending, servers, .. } = &self.exchanges;
        self.tasks[at].exchange.queries.iter().any(|&query| {
            let query = &pending[query];
            let server = &servers[query.server()];
            server.endpoint.addr.ip() == client && now_ms <= query.sent_ms + window_ms
        })
    }

    /// Excludes the server that sent the question from the servers to query. If there is no other
    /// server, queries it only once (S25 in tests/SECURITY.md: servers that forward to each other).
    /// All clients on this host have the same address.
    fn spare_asker(&mut self, at: u32, ask: &Ask<'_>) {
        let client =
            ask.client.map(|client| client.to_canonical()).filter(|client| !client.is_loopback());
        let (Some(client), Some(bound)) = (client, self.tasks[at].bound.clone()) else { return };
        let task = &mut self.tasks[at];
        let servers = (0..).zip(bound.servers(task.route));
        let is_asker = |id: EndpointId| self.exchanges.servers[id].endpoint.addr.ip() == client;
        let askers = choose::collect(servers.filter(|(_, id)| is_asker(**id)).map(|(at, _)| at));
        if askers.count_ones() as usize == bound.servers(task.route).len() {
            task.looped = true;
        } else {
            task.exchange.failed |= askers;
        }
    }

    fn add_waiter(&mut self, at: u32, ask: &Ask<'_>, waiter: W, now_ms: u64) {
        let after_ms = u64::from(self.bound.plan.settings.stale_client_ms);
        let overdue_at_ms = if ask.stale_available { now_ms + after_ms } else { u64::MAX };
        let introduced = match self.bound.plan.has_introductions() {
            true => ask.introduced,
            false => None,
        };
        self.tasks[at].waiters.push(Waiting { waiter, overdue_at_ms, introduced });
        self.waiters += 1;
    }

    /// Ends a task so that another task can begin. The ended task has no client, or is the oldest
    /// and is older than [`JOSTLE_MS`]. Quick questions thus succeed even if there are many slow
    /// questions.
    fn make_room(&mut self, cx: &mut Context<'_, W>) -> bool {
        let is_unwanted =
            |at: &u32| self.tasks[*at].waiters.is_empty() && self.tasks[*at].traced.is_none();
        let is_slow = |at: &u32| cx.now_ms >= self.tasks[*at].started_ms + JOSTLE_MS;
        let unwanted = self.tasks.by_age().take(PREFETCHES_LOOKED_AT).find(is_unwanted);
        let Some(at) = unwanted.or_else(|| self.tasks.by_age().next().filter(is_slow)) else {
            return false;
        };
        self.counters.jostled += 1;
        self.end_early(at, cx);
        true
    }
}

/// Answers a question without an attempt to resolve it.
fn refuse<W>(
    ask: &Ask<'_>,
    rcode: Rcode,
    ede: (Ede, &'static str),
    waiter: Option<W>,
    cx: &mut Context<'_, W>,
) -> Submitted<W> {
    let first = cx.actions.waiters.len();
    cx.actions.waiters.extend(waiter);
    let resolved =
        answer::write(&mut cx.actions.answers, ask.question, rcode.low(), &Gathered::default());
    if let Some(mut resolved) = resolved {
        resolved.ede = Some(ede);
        let asked = AskedFor {
            question_len: ask.question.octets().len(),
            hash: ask.hash,
            dnssec_ok: ask.dnssec_ok,
            checking_disabled: ask.checking_disabled,
        };
        cx.actions.list.push(Action::Finish {
            waiters: first..cx.actions.waiters.len(),
            resolved,
            asked,
        });
    }
    Submitted::Answered
}
