//! A network that loses, delays, reorders and duplicates what is sent, and knows what time it is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Chance;

/// What happens to datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Lost, in percent.
    pub loss: u32,
    /// Delivered twice, in percent.
    pub duplicate: u32,
    /// Shortest delay in ms.
    pub delay_ms: u64,
    /// Added to it at random, in ms: what differs by more than the time between two datagrams
    /// changes their order.
    pub jitter_ms: u64,
}

impl Faults {
    /// A network without faults: 10 ms each way.
    pub const NONE: Self = Self { loss: 0, duplicate: 0, delay_ms: 10, jitter_ms: 0 };

    /// As [`Faults::NONE`] with so many percent of the datagrams lost.
    #[must_use]
    pub const fn loss(percent: u32) -> Self {
        Self { loss: percent, ..Self::NONE }
    }
}

#[derive(Debug)]
struct Due<T> {
    at_ms: u64,
    order: u64,
    what: T,
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ms, self.order).cmp(&(other.at_ms, other.order))
    }
}

/// Things under way. `T` is whatever the test sends.
#[derive(Debug)]
pub struct Network<T> {
    /// The virtual clock in ms.
    pub now_ms: u64,
    /// What happens to what is sent from now on.
    pub faults: Faults,
    /// The source of all that is random in it.
    pub chance: Chance,
    under_way: BinaryHeap<Reverse<Due<T>>>,
    sent: u64,
}

impl<T: Clone> Network<T> {
    /// A network at `now_ms` whose faults follow from the seed.
    #[must_use]
    pub fn new(seed: u64, now_ms: u64, faults: Faults) -> Self {
        Self { now_ms, faults, chance: Chance::new(seed), under_way: BinaryHeap::new(), sent: 0 }
    }

    /// Sends something that is subject to the faults, `after_ms` from now.
    pub fn send(&mut self, what: &T, after_ms: u64) {
        let copies = 1 + u32::from(self.chance.percent(self.faults.duplicate));
        for _ in 0..copies {
            if !self.chance.percent(self.faults.loss) {
                let jitter = self.chance.below(self.faults.jitter_ms + 1);
                self.schedule(what.clone(), after_ms + self.faults.delay_ms + jitter);
            }
        }
    }

    /// Has something happen for certain, `after_ms` from now.
    pub fn schedule(&mut self, what: T, after_ms: u64) {
        self.sent += 1;
        let at_ms = self.now_ms + after_ms;
        self.under_way.push(Reverse(Due { at_ms, order: self.sent, what }));
    }

    /// When the next thing arrives.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.under_way.peek().map(|Reverse(due)| due.at_ms)
    }

    /// Takes what has arrived by now.
    pub fn arrived(&mut self) -> Option<T> {
        if self.next_ms()? > self.now_ms {
            return None;
        }
        self.under_way.pop().map(|Reverse(due)| due.what)
    }
}
