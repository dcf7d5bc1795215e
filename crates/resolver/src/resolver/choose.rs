//! Chooses the next server of an exchange, within the limits on the cost of one question.

use chacha20::rand_core::Rng;

use super::Resolver;
use super::send::AtOnce;
use crate::exchange::Candidates;
use crate::exchange::choose::{
    Choice, Probing, ServerOrder, collect, order_of_rule, order_of_walk,
};
use crate::exchange::endpoint::{Endpoint, Strategy};
use crate::exchange::loss::Level;
use crate::exchange::pending::Owner;
use crate::exchange::server::Server;
use crate::failure::Failure;
use crate::iterate::fetch::{Inquiry, Patience};
use crate::iterate::fetches::Fetch;
use crate::plan::Rule;
use crate::task::Task;

/// Maximum number of queries for one target if an upstream is alive but many packets are lost. If
/// half of all datagrams are lost in each direction, 99 % of questions are still answered.
const MAX_SENDS_ALIVE: u32 = 24;
/// Maximum number of queries for one target if there are only a few upstreams, and none of them
/// answers.
const MAX_SENDS_FEW: u32 = 4;
/// The limit that replaces [`MAX_SENDS_FEW`] for several upstreams, or if an upstream answered
/// recently. With a probe, there are 8 queries.
const MAX_SENDS_AGAIN: u32 = 7;
/// Maximum number of queries to servers of a zone if none of them answers. It suffices for one
/// query to each server that a delegation may have.
const MAX_SENDS_SILENT: u32 = 13;
/// The limit that replaces [`MAX_SENDS_SILENT`] for configured servers.
const MAX_SENDS_LISTED: u32 = 8;
/// The limit that replaces [`MAX_SENDS_SILENT`] for a shortened name, if one of the servers has
/// answered before.
const MAX_SENDS_SHORTENED: u32 = 2;
/// Maximum number of queries of one fetch if the network, or the path to one of the servers, loses
/// many packets.
const MAX_SENDS_LOSSY: u32 = 24;
/// The limit that replaces [`MAX_SENDS_LOSSY`] if half of all datagrams may be lost in each
/// direction. About one fetch in ten thousand then fails.
const MAX_SENDS_LOSING_MOST: u32 = 32;
/// Number of queries to each of a few servers before another server is looked up, if the network
/// loses many packets.
const LOSSY_ROUNDS: u32 = 6;
/// One in this number of fetches first queries a server that was not queried for a long time, or
/// never.
const EXPLORE_ONE_OF: u32 = 16;
/// With [`Strategy::Fastest`], one in this number of forwarded questions is also sent to another
/// upstream, in order to detect that it has become faster.
const EXPLORE_ASIDE_ONE_OF: u32 = 64;
/// After this number of queries without a reply, a fetch sends two queries at once, if the last
/// query waited for at least [`LONG_WAIT_MS`].
const SINGLE_SENDS: u32 = 2;
/// The wait for a reply, in ms, after which two queries may be sent at once: see [`SINGLE_SENDS`].
/// If servers reply faster, one query at a time suffices.
const LONG_WAIT_MS: u64 = 400;

/// The server to choose next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// The next server: a server that was not queried in this round, or else a server of a new
    /// round.
    Next,
    /// The next server for an additional query. It is not a reserve, because an earlier query may
    /// still be answered.
    Copy,
    /// Another server of the same round that is not a reserve.
    Further,
}

impl<W> Resolver<W> {
    /// Chooses a server that was not queried in this round. If there is none, begins another round.
    pub(super) fn choose(&mut self, owner: Owner, pick: Pick, now_ms: u64) -> Option<u8> {
        match owner {
            Owner::Nobody => None,
            Owner::Task(at) => self.choose_for_task(at, pick, now_ms),
            Owner::Fetch(at) => self.choose_for_fetch(at, pick, now_ms),
        }
    }

    fn choose_for_task(&mut self, at: u32, pick: Pick, now_ms: u64) -> Option<u8> {
        let task = &mut self.tasks[at];
        if !task.may_ask() {
            task.note(Failure::TooManyQueries);
            return None;
        }
        let task = &self.tasks[at];
        let (choice, _) = self.upstreams_of(task, now_ms)?;
        // A question that an upstream sent back is sent only once, if there is no other server.
        let sends = task.exchange.sends;
        if sends > 0 && (task.looped || sends >= most_sends_of(&choice)) {
            return None;
        }
        let round = choice.round(&task.exchange, choice.candidates.all());
        if pick == Pick::Further && round.number > task.exchange.round {
            return None;
        }
        let place = choice.best(round.left)?;
        if pick != Pick::Next && choice.is_reserve(place) {
            return None;
        }
        round.enter(&mut self.tasks[at].exchange, place);
        Some(place)
    }

    /// Returns the servers of a task's rule.
    fn upstreams_of<'a>(
        &'a self,
        task: &'a Task<W>,
        now_ms: u64,
    ) -> Option<(Choice<'a>, &'a Rule)> {
        let bound = task.bound.as_ref()?;
        let rule = bound.plan.rule(task.route);
        let choice = Choice {
            servers: &self.exchanges.servers,
            candidates: Candidates::Pinned(bound.servers(task.route)),
            reserves: u64::MAX.checked_shl(rule.ordinary as u32).unwrap_or(0),
            order: order_of_rule(rule.strategy, self.exchanges.turn),
            probing: Probing::Aside,
            luck: 0,
            now_ms,
        };
        Some((choice, rule))
    }

    /// Chooses a server for an additional query that tests the server: a server with an open
    /// breaker whose probe is due or, occasionally, a server that is not the fastest.
    pub(super) fn choose_aside(&mut self, at: u32, now_ms: u64) -> Option<u8> {
        let task = &self.tasks[at];
        let (choice, rule) = self.upstreams_of(task, now_ms)?;
        let left = choice.candidates.all() & !task.exchange.tried & !choice.reserves;
        if choice.candidates.len() == 1 || left == 0 {
            return None;
        }
        if let Some(due) = choice.due_for_probe(left) {
            return Some(due);
        }
        let (closed, strategy) = (choice.closed(left), rule.strategy);
        let rng = &mut self.exchanges.rng;
        if strategy != Strategy::Fastest || !rng.next_u32().is_multiple_of(EXPLORE_ASIDE_ONE_OF) {
            return None;
        }
        let luck = rng.next_u32();
        let (choice, _) = self.upstreams_of(&self.tasks[at], now_ms)?;
        Choice { luck, ..choice }.any(closed)
    }

    fn choose_for_fetch(&mut self, at: u32, pick: Pick, now_ms: u64) -> Option<u8> {
        let explores = self.exchanges.rng.next_u32();
        let luck = self.exchanges.rng.next_u32();
        let fetch = self.fetches.get(at)?;
        let waits = |&at: &u32| self.tasks[at].may_ask();
        let most = self.most_sends(fetch, now_ms);
        if fetch.exchange.sends >= most || !fetch.waiters.iter().any(waits) {
            return None;
        }
        let Inquiry { zone, manner, servers, .. } = &fetch.inquiry;
        let order = order_of_walk(manner.strategy, explores, EXPLORE_ONE_OF);
        let choice = Choice { order, luck, ..self.servers_of(fetch, now_ms) };
        let has_room = |server: &Server| fetch.is_free || !self.owes_much(server);
        let with_room = choice.prefer(choice.candidates.all(), has_room);
        if !fetch.is_free && servers.iter().all(|server| self.is_crowded(*server)) {
            return None;
        }
        let round = choice.round(&fetch.exchange, with_room);
        let rounds = if self.loss_of(fetch, now_ms) >= Level::Heavy { LOSSY_ROUNDS } else { 1 };
        let is_past = round.number >= rounds && self.gives_up(fetch, now_ms);
        if is_past || pick == Pick::Further && round.number > fetch.exchange.round {
            return None;
        }
        let gives = |server: &Server| server.gives_signatures(zone.view(), now_ms);
        let left = if manner.is_signed { choice.prefer(round.left, gives) } else { round.left };
        let place = choice.best(left)?;
        if pick != Pick::Next && choice.is_reserve(place) {
            return None;
        }
        round.enter(&mut self.fetches.get_mut(at)?.exchange, place);
        Some(place)
    }

    /// Returns the servers of a fetch.
    fn servers_of<'a>(&'a self, fetch: &'a Fetch, now_ms: u64) -> Choice<'a> {
        Choice {
            servers: &self.exchanges.servers,
            candidates: Candidates::Found(&fetch.inquiry.servers),
            reserves: self.reserves_of(&fetch.inquiry),
            order: ServerOrder::Written,
            probing: Probing::InTurn,
            luck: 0,
            now_ms,
        }
    }

    /// Returns the indices of the reserves among the servers of an inquiry.
    fn reserves_of(&self, inquiry: &Inquiry) -> u64 {
        let plan = &self.bound.plan;
        if !inquiry.are_listed || !plan.has_reserves() {
            return 0;
        }
        let is_reserve =
            |server: &Endpoint| plan.reserves(inquiry.zone.view()).any(|other| other == *server);
        collect((0..).zip(&inquiry.servers).filter(|(_, one)| is_reserve(one)).map(|(at, _)| at))
    }

    /// Returns the number of queries to send at the same time.
    pub(super) fn at_once(&self, owner: Owner, now_ms: u64) -> AtOnce {
        let race = |strategy| if let Strategy::Race(count) = strategy { count.into() } else { 1 };
        match owner {
            Owner::Task(at) if self.tasks[at].exchange.sends == 0 => {
                let task = &self.tasks[at];
                let rule = task.bound.as_ref().map(|bound| bound.plan.rule(task.route));
                AtOnce { race: rule.map_or(1, |rule| race(rule.strategy)), copies: 1 }
            }
            Owner::Fetch(at) => self.fetches.get(at).map_or(AtOnce::ONE, |fetch| {
                let exchange = &fetch.exchange;
                let copies = self.loss_of(fetch, now_ms).copies(exchange.sends);
                let is_first = exchange.round == 0 && exchange.sends == 0;
                let is_long = exchange.sends >= SINGLE_SENDS && exchange.waited_ms >= LONG_WAIT_MS;
                AtOnce {
                    race: if is_first { race(fetch.inquiry.manner.strategy) } else { 1 },
                    copies: if is_long { copies.max(2) } else { copies },
                }
            }),
            Owner::Task(_) | Owner::Nobody => AtOnce::ONE,
        }
    }

    /// Returns whether the fetch ends after its first round (more rounds under heavy loss), in
    /// which each server is queried at most once.
    fn gives_up(&self, fetch: &Fetch, now_ms: u64) -> bool {
        let is_known =
            self.servers_of(fetch, now_ms).any_is(|server| server.rtt.smoothed_ms().is_some());
        match fetch.inquiry.patience {
            Patience::All => false,
            Patience::OneRound => true,
            Patience::WhileKnown => !is_known,
            Patience::Shortened => !is_known || fetch.exchange.sends >= MAX_SENDS_SHORTENED,
        }
    }

    /// Returns whether the server has reached its limit of outstanding queries.
    pub(super) fn is_crowded(&self, endpoint: Endpoint) -> bool {
        self.exchanges.servers.known(endpoint).is_some_and(|server| self.owes_much(server))
    }

    fn owes_much(&self, server: &Server) -> bool {
        server.outstanding >= self.bound.plan.fetch_limits.per_server
    }

    /// Returns the maximum number of queries of a fetch. It is higher if replies were probably
    /// lost.
    fn most_sends(&self, fetch: &Fetch, now_ms: u64) -> u32 {
        let most = if fetch.inquiry.are_listed { MAX_SENDS_LISTED } else { MAX_SENDS_SILENT };
        match self.loss_of(fetch, now_ms) {
            Level::Most => MAX_SENDS_LOSING_MOST,
            Level::Heavy => MAX_SENDS_LOSSY,
            Level::Little => most.saturating_sub(fetch.inquiry.unanswered),
        }
    }

    /// Returns the loss on the path to the servers of a fetch: the loss of the network, or of the
    /// path to one of the servers.
    pub(super) fn loss_of(&self, fetch: &Fetch, now_ms: u64) -> Level {
        let choice = self.servers_of(fetch, now_ms);
        let of_network = self.exchanges.loss.level(now_ms);
        if of_network == Level::Most || choice.any_is(|server| server.rtt.loses_most()) {
            return Level::Most;
        }
        let is_lossy = choice.any_is(|server| server.rtt.is_lossy());
        if is_lossy { Level::Heavy } else { of_network }
    }
}

/// Returns the maximum number of queries for one target of a task.
fn most_sends_of(choice: &Choice<'_>) -> u32 {
    let count = choice.candidates.len() as u32;
    let silent = (count + 1).clamp(MAX_SENDS_FEW, MAX_SENDS_AGAIN).max(count);
    match choice.any_is(|server| server.is_alive(choice.now_ms)) {
        true if choice.any_is(|server| server.rtt.is_lossy()) => MAX_SENDS_ALIVE.max(silent),
        true => MAX_SENDS_AGAIN.max(silent),
        false => silent,
    }
}
