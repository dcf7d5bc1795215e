//! The queue of clients that must be looked up: from the workers to the thread that looks them up.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of addresses that wait, for each [`Urgency`]. Further addresses are dropped, and
/// their queries are held until the worker gives up.
const MAX_WAITING: usize = 4_096;

/// The certainty that an address belongs to the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// The client has completed a handshake from the address. Such addresses are looked up first.
    Proven,
    /// Only a datagram has this source address, which may be forged.
    Claimed,
}

/// The queue of addresses to look up.
#[derive(Default)]
pub struct StrangerQueue {
    waiting: Mutex<WaitingAddresses>,
    arrived: Condvar,
}

#[derive(Default)]
struct WaitingAddresses {
    proven: VecDeque<IpAddr>,
    claimed: VecDeque<IpAddr>,
    /// Whether the networks on the links may have changed.
    are_links_new: bool,
    is_closed: bool,
}

impl StrangerQueue {
    /// Adds an address.
    pub fn push(&self, ip: IpAddr, urgency: Urgency) {
        let mut waiting = self.lock();
        let queue = match urgency {
            Urgency::Proven => &mut waiting.proven,
            Urgency::Claimed => &mut waiting.claimed,
        };
        if queue.len() < MAX_WAITING {
            queue.push_back(ip.to_canonical());
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Records that the networks on the links may have changed, and wakes the thread.
    pub fn note_new_links(&self) {
        self.lock().are_links_new = true;
        self.arrived.notify_one();
    }

    /// Returns whether the networks on the links may have changed since the last call.
    pub fn take_new_links(&self) -> bool {
        std::mem::take(&mut self.lock().are_links_new)
    }

    /// Takes at most `most` addresses, the proven ones first. Waits for the first address, or for a
    /// change of links, for at most `patience`. Returns `None` if the thread must end.
    pub fn take(&self, most: usize, patience: Duration) -> Option<Vec<IpAddr>> {
        let is_idle = |waiting: &mut WaitingAddresses| {
            let is_empty = waiting.proven.is_empty() && waiting.claimed.is_empty();
            is_empty && !waiting.are_links_new && !waiting.is_closed
        };
        let waited = self.arrived.wait_timeout_while(self.lock(), patience, is_idle);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        if waiting.is_closed {
            return None;
        }
        let proven = waiting.proven.len().min(most);
        let mut taken: Vec<_> = waiting.proven.drain(..proven).collect();
        let claimed = waiting.claimed.len().min(most - proven);
        taken.extend(waiting.claimed.drain(..claimed));
        Some(taken)
    }

    /// Makes the thread that looks up clients end.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, WaitingAddresses> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proven_addresses_come_first_and_both_kinds_are_bounded() {
        let queue = StrangerQueue::default();
        let claimed = |at: u32| IpAddr::from((0x0a00_0000 + at).to_be_bytes());
        (0..MAX_WAITING as u32 + 5).for_each(|at| queue.push(claimed(at), Urgency::Claimed));
        let proven = IpAddr::from([192, 0, 2, 1]);
        queue.push("::ffff:192.0.2.1".parse().unwrap(), Urgency::Proven);
        assert_eq!(queue.take(2, Duration::ZERO).unwrap(), [proven, claimed(0)]);
        assert_eq!(queue.take(usize::MAX, Duration::ZERO).unwrap().len(), MAX_WAITING - 1);
        assert!(queue.take(1, Duration::ZERO).unwrap().is_empty());
        queue.note_new_links();
        assert!(queue.take(1, Duration::MAX).unwrap().is_empty(), "a change of links is enough");
        assert_eq!([queue.take_new_links(), queue.take_new_links()], [true, false]);
        queue.close();
        assert_eq!(queue.take(1, Duration::ZERO), None);
    }
}
