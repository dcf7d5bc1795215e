//! Which upstream of a rule is asked next.

use chacha20::ChaCha12Rng;
use chacha20::rand_core::Rng;

use crate::bound::Bound;
use crate::endpoint::Strategy;
use crate::plan::Rule;
use crate::task::Task;
use crate::upstream::Upstream;

/// With [`Strategy::Fastest`], one query of so many goes to another upstream as well, so that
/// one that became faster is found.
const EXPLORE_ONE_OF: u32 = 64;

/// The upstreams of a rule as they are now.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) bound: &'a Bound,
    pub(crate) rule: &'a Rule,
    pub(crate) upstreams: &'a [Upstream],
    pub(crate) now_ms: u64,
    /// With [`Strategy::RoundRobin`], whose turn it is.
    pub(crate) turn: u32,
}

impl Choice<'_> {
    fn at(&self, place: u8) -> &Upstream {
        &self.upstreams[self.bound.id(self.rule, place)]
    }

    fn all(&self) -> u64 {
        u64::MAX >> (64 - self.rule.upstreams.len())
    }

    /// Those of `set` whose breaker is closed, or all of them if none is.
    fn usable(&self, set: u64) -> u64 {
        match places(set)
            .filter(|&place| !self.at(place).is_open())
            .fold(0, |set, place| set | 1 << place)
        {
            0 => set,
            closed => closed,
        }
    }

    /// The one to be asked next, in the first round in which one is left. None if none is to be
    /// asked for this target any more.
    pub(crate) fn next<W>(&self, task: &mut Task<W>) -> Option<u8> {
        let usable = self.usable(self.all() & !task.failed);
        if usable & !task.tried == 0 {
            task.tried &= !usable;
            task.round += 1;
        }
        let left = usable & !task.tried;
        let chosen = self.best(left)?;
        task.tried |= 1 << chosen;
        Some(chosen)
    }

    /// The further ones to be asked at once when a target is begun.
    pub(crate) fn further<W>(&self, task: &mut Task<W>) -> Option<u8> {
        let chosen = self.best(self.usable(self.all() & !task.failed) & !task.tried)?;
        task.tried |= 1 << chosen;
        Some(chosen)
    }

    fn best(&self, set: u64) -> Option<u8> {
        if places(set).all(|place| self.at(place).is_open()) {
            return places(set).min_by_key(|&place| self.at(place).breaker.probe_at_ms());
        }
        match self.rule.strategy {
            Strategy::Ordered => places(set).next(),
            Strategy::RoundRobin => {
                let count = self.rule.upstreams.len() as u32;
                places(set)
                    .min_by_key(|&place| (u32::from(place) + count - self.turn % count) % count)
            }
            Strategy::Fastest | Strategy::Race(_) => {
                places(set).min_by_key(|&place| self.at(place).rtt.score(self.now_ms))
            }
        }
    }

    /// How many are asked at once when a target is begun.
    pub(crate) fn at_once(&self) -> u8 {
        if let Strategy::Race(count) = self.rule.strategy { count } else { 1 }
    }

    /// One that is asked beside the others to learn about it: an open one that is due for a
    /// probe, or now and then one that is not the fastest.
    pub(crate) fn aside<W>(&self, task: &Task<W>, rng: &mut ChaCha12Rng) -> Option<u8> {
        let left = self.all() & !task.tried;
        if left == 0 {
            return None;
        }
        let open = places(left).filter(|&place| self.at(place).is_open());
        if let Some(due) =
            open.clone().find(|&place| self.at(place).breaker.probe_at_ms() <= self.now_ms)
        {
            return Some(due);
        }
        if self.rule.strategy != Strategy::Fastest || !rng.next_u32().is_multiple_of(EXPLORE_ONE_OF)
        {
            return None;
        }
        let closed = places(left).filter(|&place| !self.at(place).is_open());
        let count = closed.clone().count() as u32;
        closed.clone().nth(rng.next_u32().checked_rem(count)? as usize)
    }

    /// Returns whether much is lost on the way to any of the upstreams.
    pub(crate) fn any_lossy(&self) -> bool {
        places(self.all()).any(|place| self.at(place).rtt.is_lossy())
    }

    /// Has any of the upstreams answered anything lately?
    pub(crate) fn any_alive(&self) -> bool {
        places(self.all()).any(|place| self.at(place).is_alive(self.now_ms))
    }
}

fn places(set: u64) -> impl Iterator<Item = u8> + Clone {
    let mut left = set;
    std::iter::from_fn(move || {
        let place = (left != 0).then(|| left.trailing_zeros() as u8)?;
        left &= left - 1;
        Some(place)
    })
}
