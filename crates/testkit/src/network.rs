//! A simulated network with a virtual clock that loses, delays, reorders and duplicates datagrams.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Chance;

/// The faults of a network.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Lost datagrams, in percent.
    pub loss: u32,
    /// Duplicated datagrams, in percent.
    pub duplicate: u32,
    /// Shortest delay in ms.
    pub delay_ms: u64,
    /// Largest random additional delay in ms. If it exceeds the time between two datagrams, they
    /// may be reordered.
    pub jitter_ms: u64,
}

impl Faults {
    /// A network without faults: 10 ms each way.
    pub const NONE: Self = Self { loss: 0, duplicate: 0, delay_ms: 10, jitter_ms: 0 };

    /// Returns [`Faults::NONE`] with this loss in percent.
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

/// A network with datagrams in flight. `T` is the type of a datagram.
#[derive(Debug)]
pub struct Network<T> {
    /// The virtual clock in ms.
    pub now_ms: u64,
    /// Faults for datagrams sent from now on.
    pub faults: Faults,
    /// The source of randomness.
    pub chance: Chance,
    under_way: BinaryHeap<Reverse<Due<T>>>,
    sent: u64,
}

impl<T: Clone> Network<T> {
    /// Creates a network at `now_ms` whose faults follow from the seed.
    #[must_use]
    pub fn new(seed: u64, now_ms: u64, faults: Faults) -> Self {
        Self { now_ms, faults, chance: Chance::new(seed), under_way: BinaryHeap::new(), sent: 0 }
    }

    /// Sends a datagram, subject to the faults, `after_ms` from now.
    pub fn send(&mut self, what: &T, after_ms: u64) {
        let copies = 1 + u32::from(self.chance.percent(self.faults.duplicate));
        for _ in 0..copies {
            if !self.chance.percent(self.faults.loss) {
                let jitter = self.chance.below(self.faults.jitter_ms + 1);
                self.schedule(what.clone(), after_ms + self.faults.delay_ms + jitter);
            }
        }
    }

    /// Schedules an event without faults, `after_ms` from now.
    pub fn schedule(&mut self, what: T, after_ms: u64) {
        self.sent += 1;
        let at_ms = self.now_ms + after_ms;
        self.under_way.push(Reverse(Due { at_ms, order: self.sent, what }));
    }

    /// Returns when the next datagram arrives.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.under_way.peek().map(|Reverse(due)| due.at_ms)
    }

    /// Returns the next datagram that has arrived.
    pub fn arrived(&mut self) -> Option<T> {
        if self.next_ms()? > self.now_ms {
            return None;
        }
        self.under_way.pop().map(|Reverse(due)| due.what)
    }
}
