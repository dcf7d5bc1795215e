//! The choice of the next server to query.

use super::endpoint::Strategy;
use super::server::{Server, Servers};
use super::{Candidates, Exchange, rtt};

/// The order in which servers with a closed breaker are queried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerOrder {
    /// The configured order.
    Written,
    /// The servers in turn (round robin). Holds the counter that selects the first server.
    Turn(u32),
    /// A random server.
    Random,
    /// The server with the best score first. A server that was never queried has the best score of
    /// all.
    Fastest,
    /// The fastest of the measured servers. If an unmeasured server may be faster, a random
    /// unmeasured server.
    Measured,
    /// A random unmeasured server; without one, the fastest server.
    Unmeasured,
}

/// When a server with an open breaker is probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Probing {
    /// As soon as a probe is due. The probe is sent together with another query, so that the
    /// question does not wait for the probe.
    Aside,
    /// In place of an ordinary query, when the server is the next server to query and a probe is
    /// due. Recursion probes in this way, because it queries too many different servers to send
    /// each an additional query.
    InTurn,
}

/// One pass over the servers of an exchange (a round), and the servers that may be queried in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) number: u32,
    pub(crate) tried: u64,
    /// The servers that were not queried in this round yet.
    pub(crate) left: u64,
}

impl Round {
    /// Begins this round, or continues it, with a query to this server.
    pub(crate) fn enter(self, exchange: &mut Exchange, place: u8) {
        (exchange.tried, exchange.round) = (self.tried | 1 << place, self.number);
    }
}

/// The servers of an exchange, with their present records.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) servers: &'a Servers,
    pub(crate) candidates: Candidates<'a>,
    /// The indices of servers that are queried only if the others fail.
    pub(crate) reserves: u64,
    pub(crate) order: ServerOrder,
    pub(crate) probing: Probing,
    /// A random number, for random choices.
    pub(crate) luck: u32,
    pub(crate) now_ms: u64,
}

impl<'a> Choice<'a> {
    /// Returns what is known about the server with this index; `None` if nothing is known.
    pub(crate) fn at(&self, place: u8) -> Option<&'a Server> {
        self.candidates.known(self.servers, place)
    }

    /// Returns the round in which the next of the `allowed` servers is queried: the present round
    /// if one of them was not queried in it yet. Skips servers that are considered dead if there is
    /// another server.
    pub(crate) fn round(&self, exchange: &Exchange, allowed: u64) -> Round {
        let is_healthy = |server: &Server| match self.probing {
            Probing::Aside => !server.is_open(),
            Probing::InTurn => !server.is_shunned(self.now_ms),
        };
        let usable = self.prefer(allowed & !exchange.failed, is_healthy);
        let (mut tried, mut number) = (exchange.tried, exchange.round);
        if usable & !tried == 0 {
            (tried, number) = (tried & !usable, number + 1);
        }
        // In each round, reserves come after all other servers that may answer.
        let left = usable & !tried;
        let ordinary = left & !self.reserves;
        Round { number, tried, left: if ordinary == 0 { left } else { ordinary } }
    }

    /// Returns the servers of a set that pass the test or have no record yet. Returns the whole set
    /// if there are no such servers.
    pub(crate) fn prefer(&self, set: u64, applies: impl Fn(&Server) -> bool) -> u64 {
        match collect(places(set).filter(|&place| self.at(place).is_none_or(&applies))) {
            0 => set,
            preferred => preferred,
        }
    }

    /// Returns the server of a set that is queried first according to the order.
    pub(crate) fn best(&self, set: u64) -> Option<u8> {
        // A single server needs no comparison.
        if set.is_power_of_two() {
            return places(set).next();
        }
        let score = |place: &u8| self.at(*place).map_or(0, |server| server.rtt.score(self.now_ms));
        let is_open = |place: u8| self.at(place).is_some_and(Server::is_open);
        if self.probing == Probing::Aside && places(set).all(is_open) {
            let probe_at_ms = |place: &u8| self.at(*place).map(|at| at.breaker.probe_at_ms());
            return places(set).min_by_key(probe_at_ms);
        }
        match self.order {
            ServerOrder::Written => places(set).next(),
            ServerOrder::Turn(turn) => {
                let count = self.candidates.len().max(1) as u32;
                places(set).min_by_key(|&place| (u32::from(place) + count - turn % count) % count)
            }
            ServerOrder::Random => self.any(set),
            ServerOrder::Fastest => places(set).min_by_key(score),
            ServerOrder::Measured | ServerOrder::Unmeasured => {
                let explores = self.order == ServerOrder::Unmeasured;
                let best = places(set).filter(|&place| self.is_measured(place)).min_by_key(score);
                let unknown = collect(places(set).filter(|&place| !self.is_measured(place)));
                // A score of 0 means that the server was never queried and has no penalty.
                let fresh = collect(places(unknown).filter(|place| score(place) == 0));
                let is_slow = |best: &u8| fresh != 0 && score(best) > rtt::MOST_UNKNOWN;
                match best {
                    Some(best) if unknown == 0 || !explores && !is_slow(&best) => Some(best),
                    _ => self.any(if fresh == 0 { unknown } else { fresh }),
                }
            }
        }
    }

    /// Returns whether the server with this index is queried only if the others fail.
    pub(crate) fn is_reserve(&self, place: u8) -> bool {
        self.reserves & 1 << place != 0
    }

    /// Returns a random server of a set.
    pub(crate) fn any(&self, set: u64) -> Option<u8> {
        places(set).nth(self.luck as usize % set.count_ones().max(1) as usize)
    }

    /// Returns a server of a set whose breaker is open and whose probe is due.
    pub(crate) fn due_for_probe(&self, set: u64) -> Option<u8> {
        let is_due =
            |server: &Server| server.is_open() && server.breaker.probe_at_ms() <= self.now_ms;
        places(set).find(|&place| self.at(place).is_some_and(is_due))
    }

    /// Returns the servers of a set with a closed breaker.
    pub(crate) fn closed(&self, set: u64) -> u64 {
        collect(places(set).filter(|&place| !self.at(place).is_some_and(Server::is_open)))
    }

    /// Returns whether the round-trip time of the server with this index is known.
    pub(crate) fn is_measured(&self, place: u8) -> bool {
        self.at(place).is_some_and(|server| server.rtt.smoothed_ms().is_some())
    }

    /// Returns whether any server of the exchange passes the test.
    pub(crate) fn any_is(&self, applies: impl Fn(&Server) -> bool) -> bool {
        places(self.candidates.all()).any(|place| self.at(place).is_some_and(&applies))
    }
}

/// Returns the order in which forwarding queries the servers of a rule.
pub(crate) fn order_of_rule(strategy: Strategy, turn: u32) -> ServerOrder {
    match strategy {
        Strategy::Ordered => ServerOrder::Written,
        Strategy::RoundRobin => ServerOrder::Turn(turn),
        Strategy::Fastest | Strategy::Race(_) => ServerOrder::Fastest,
    }
}

/// Returns the order in which recursion queries servers. Recursion meets most servers by chance, so
/// it replaces round robin with a random choice. One in `one_of` fetches queries an unmeasured
/// server, in order to measure it.
pub(crate) fn order_of_walk(strategy: Strategy, luck: u32, one_of: u32) -> ServerOrder {
    match strategy {
        Strategy::Ordered => ServerOrder::Written,
        Strategy::RoundRobin => ServerOrder::Random,
        Strategy::Fastest | Strategy::Race(_) if luck.is_multiple_of(one_of) => {
            ServerOrder::Unmeasured
        }
        Strategy::Fastest | Strategy::Race(_) => ServerOrder::Measured,
    }
}

/// Returns the set of these indices.
pub(crate) fn collect(places: impl Iterator<Item = u8>) -> u64 {
    places.fold(0, |set, place| set | 1 << place)
}

/// Returns the indices of a set.
pub(crate) fn places(set: u64) -> impl Iterator<Item = u8> + Clone {
    let mut left = set;
    std::iter::from_fn(move || {
        let place = (left != 0).then(|| left.trailing_zeros() as u8)?;
        left &= left - 1;
        Some(place)
    })
}
