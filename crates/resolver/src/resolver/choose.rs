//! Which server of a fetch is asked next, and whether one is asked at all.

use std::net::SocketAddr;

use chacha20::rand_core::Rng;

use super::Resolver;
use crate::endpoint::Strategy;
use crate::iterate::fetch::{Inquiry, Patience};
use crate::iterate::fetches::Fetch;
use crate::iterate::loss::Level;
use crate::iterate::server::Server;
use crate::rtt;

/// Most queries to the servers of a zone that keep silent: one for each of those that a delegation
/// may have, or as many to fewer.
const MAX_SENDS_SILENT: u32 = 13;
/// As [`MAX_SENDS_SILENT`], for servers of the configuration.
const MAX_SENDS_LISTED: u32 = 8;
/// As [`MAX_SENDS_SILENT`] for a shortened name, where one of them has answered before.
const MAX_SENDS_SHORTENED: u32 = 2;
/// Most queries of one fetch where the network, or the way to one of the servers, loses much.
const MAX_SENDS_LOSSY: u32 = 24;
/// As [`MAX_SENDS_LOSSY`], where half of all datagrams may be lost each way: one of some ten
/// thousand is in vain.
const MAX_SENDS_LOSING_MOST: u32 = 32;
/// How often each of a few servers is asked before another one is looked for, where the network
/// loses much.
const LOSSY_ROUNDS: u32 = 6;
/// One fetch of so many first asks a server that was never asked, or not for long.
const EXPLORE_ONE_OF: u32 = 16;

impl<W> Resolver<W> {
    /// Chooses a server that was not asked in this round, or begins another one.
    pub(super) fn choose_server(&mut self, fetch_at: u32, now_ms: u64) -> Option<u8> {
        let explores = self.rng.next_u32().is_multiple_of(EXPLORE_ONE_OF);
        let luck = self.rng.next_u32();
        let fetch = self.fetches.get(fetch_at)?;
        let waits = |&at: &u32| self.tasks[at].may_ask();
        if fetch.sends >= self.most_sends(fetch, now_ms) || !fetch.waiters.iter().any(waits) {
            return None;
        }
        let usable = self.usable(fetch, now_ms);
        let (mut tried, mut round) = (fetch.tried, fetch.round);
        if usable & !tried == 0 {
            (tried, round) = (tried & !usable, round + 1);
        }
        let rounds = if self.loss_of(fetch, now_ms) >= Level::Heavy { LOSSY_ROUNDS } else { 1 };
        if round >= rounds && self.gives_up(fetch) {
            return None;
        }
        let left = self.giving_signatures(fetch, usable & !tried, now_ms);
        let chosen = self.pick(fetch, left, (explores, luck), now_ms)?;
        let fetch = self.fetches.get_mut(fetch_at)?;
        (fetch.tried, fetch.round) = (tried | 1 << chosen, round);
        Some(chosen)
    }

    /// Is a server asked no more than once in a round?
    fn gives_up(&self, fetch: &Fetch) -> bool {
        let is_known = places(fetch.all()).any(|place| self.is_measured(fetch, place));
        match fetch.inquiry.patience {
            Patience::All => false,
            Patience::OneRound => true,
            Patience::WhileKnown => !is_known,
            Patience::Shortened => !is_known || fetch.sends >= MAX_SENDS_SHORTENED,
        }
    }

    /// Does the server owe as many replies as it may?
    pub(super) fn is_crowded(&self, addr: SocketAddr) -> bool {
        let limit = self.bound.plan.fetch_limits.per_server;
        self.servers.known(addr).is_some_and(|server| server.outstanding >= limit)
    }

    fn server_at(&self, fetch: &Fetch, place: u8) -> Option<&Server> {
        self.servers.known(fetch.inquiry.servers.get(usize::from(place))?.addr)
    }

    fn is_measured(&self, fetch: &Fetch, place: u8) -> bool {
        self.server_at(fetch, place).is_some_and(|server| server.rtt.smoothed_ms().is_some())
    }

    /// How many queries the fetch may cost: the more, the likelier it is that replies were lost.
    fn most_sends(&self, fetch: &Fetch, now_ms: u64) -> u32 {
        let most = if fetch.inquiry.are_listed { MAX_SENDS_LISTED } else { MAX_SENDS_SILENT };
        match self.loss_of(fetch, now_ms) {
            Level::Most => MAX_SENDS_LOSING_MOST,
            Level::Heavy => MAX_SENDS_LOSSY,
            Level::Little => most.saturating_sub(fetch.inquiry.unanswered),
        }
    }

    /// How much is lost on the way to the servers of a fetch: in the network as a whole, or at one
    /// of them.
    pub(super) fn loss_of(&self, fetch: &Fetch, now_ms: u64) -> Level {
        let of_server = |place: u8| match self.server_at(fetch, place) {
            Some(server) if server.rtt.loses_most() => Level::Most,
            Some(server) if server.rtt.is_lossy() => Level::Heavy,
            _ => Level::Little,
        };
        places(fetch.all()).map(of_server).fold(self.loss.level(now_ms), Level::max)
    }

    /// Servers that did not fail: those that are taken to be dead only if there is no other, and
    /// none that owes too many replies.
    fn usable(&self, fetch: &Fetch, now_ms: u64) -> u64 {
        let has_room = |place: &u8| {
            let candidate = fetch.inquiry.servers.get(usize::from(*place));
            fetch.is_free || candidate.is_some_and(|candidate| !self.is_crowded(candidate.addr))
        };
        let is_healthy = |place: &u8| {
            self.server_at(fetch, *place).is_none_or(|server| !server.is_shunned(now_ms))
        };
        let usable = places(fetch.all() & !fetch.failed).filter(has_room);
        match set(usable.clone().filter(is_healthy)) {
            0 => set(usable),
            healthy => healthy,
        }
    }

    /// Of these servers those that give the signatures of a zone that is signed; all, where none is
    /// known to.
    fn giving_signatures(&self, fetch: &Fetch, left: u64, now_ms: u64) -> u64 {
        let Inquiry { zone, manner, .. } = &fetch.inquiry;
        if !manner.is_signed || left.count_ones() < 2 {
            return left;
        }
        let gives = |server: &Server| server.gives_signatures(zone, now_ms);
        match set(places(left).filter(|&place| self.server_at(fetch, place).is_none_or(gives))) {
            0 => left,
            giving => giving,
        }
    }

    fn pick(
        &self,
        fetch: &Fetch,
        left: u64,
        (explores, luck): (bool, u32),
        now_ms: u64,
    ) -> Option<u8> {
        let any = |set: u64| places(set).nth(luck as usize % set.count_ones().max(1) as usize);
        match fetch.inquiry.manner.strategy {
            Strategy::Ordered => places(left).next(),
            Strategy::RoundRobin => any(left),
            Strategy::Fastest | Strategy::Race(_) => {
                let score = |place: &u8| {
                    self.server_at(fetch, *place).map_or(0, |server| server.rtt.score(now_ms))
                };
                let is_measured = |place: &u8| self.is_measured(fetch, *place);
                let best = places(left).filter(is_measured).min_by_key(score);
                let unknown = set(places(left).filter(|place| !is_measured(place)));
                // Those that were never asked, or not in vain.
                let fresh = set(places(unknown).filter(|place| score(place) == 0));
                let is_slow = |best: &u8| fresh != 0 && score(best) > rtt::MOST_UNKNOWN;
                match best {
                    Some(best) if unknown == 0 || !explores && !is_slow(&best) => Some(best),
                    _ => any(if fresh == 0 { unknown } else { fresh }),
                }
            }
        }
    }
}

fn set(places: impl Iterator<Item = u8>) -> u64 {
    places.fold(0, |set, place| set | 1 << place)
}

fn places(set: u64) -> impl Iterator<Item = u8> + Clone {
    let mut left = set;
    std::iter::from_fn(move || {
        let place = (left != 0).then(|| left.trailing_zeros() as u8)?;
        left &= left - 1;
        Some(place)
    })
}
