//! The queue of updates of hosted zones (RFC 2136): from the workers to the threads that apply the
//! updates.
//!
//! Threads take zones in turn, each zone by one thread at a time, with all its waiting updates. A
//! zone thus gets only its share of the queue and of the time, even if it is large or receives many
//! updates.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use avocet_wire::Rcode;
use avocet_wire::header::{HEADER_LEN, Header, QR};
use avocet_zone::{TsigKey, TsigSigner, ZoneId};

use crate::query::miss::Waiter;

/// Maximum number of updates in the queue; each has at most 64 KiB. Updates of clients without a
/// permitted key never wait.
const MAX_WAITING: usize = 256;
/// Maximum number of updates that wait for one zone.
const MAX_WAITING_OF_ZONE: usize = 64;
/// Number of places in the queue that are reserved for zones without a waiting update.
const SPARE_PLACES: usize = 64;
/// The OPCODE bits in the header's flags. A reply repeats them.
const OPCODE: u16 = 0x7800;

/// An update of a client that may update the zone.
pub struct WaitingUpdate {
    /// The zone that the client sees.
    pub zone: ZoneId,
    /// The message without its signature.
    pub message: Box<[u8]>,
    /// The key that signed the message.
    pub key: Arc<TsigKey>,
    /// The signer of the reply.
    pub signer: TsigSigner,
    /// The client that waits for the reply.
    pub waiter: Waiter,
    /// The worker that received the update.
    pub worker: u16,
}

impl WaitingUpdate {
    /// Returns the signed reply with this RCODE.
    #[must_use]
    pub fn reply(&mut self, rcode: Rcode, wall_secs: u64) -> Vec<u8> {
        let mut reply = reply(&self.message, rcode);
        self.signer.sign(&mut reply, wall_secs);
        reply
    }
}

/// Returns the reply to an update: its header alone (RFC 2136 §3.8).
pub(crate) fn reply(message: &[u8], rcode: Rcode) -> Vec<u8> {
    let header = Header::read(message).unwrap_or_default();
    let mut reply = [0; HEADER_LEN];
    let flags = QR | header.flags & OPCODE | rcode.low();
    Header { id: header.id, flags, counts: [0; 4] }.write(&mut reply);
    reply.to_vec()
}

/// The queue of waiting updates. In tests, `T` is another type.
pub struct UpdateQueue<T = WaitingUpdate> {
    queued: Mutex<Queued<T>>,
    /// Signals that a zone can be taken, or that the queue is closed.
    changed: Condvar,
}

struct Queued<T> {
    /// The zones for which updates wait or are applied, in the order of their turns.
    zones: VecDeque<QueuedZone<T>>,
    /// Number of waiting updates.
    count: usize,
    is_closed: bool,
}

struct QueuedZone<T> {
    id: ZoneId,
    /// The waiting updates of the zone, in the order of arrival.
    updates: Vec<T>,
    /// Whether a thread is applying earlier updates of the zone.
    is_taken: bool,
}

impl<T> Default for UpdateQueue<T> {
    fn default() -> Self {
        let queued = Queued { zones: VecDeque::new(), count: 0, is_closed: false };
        Self { queued: Mutex::new(queued), changed: Condvar::new() }
    }
}

impl<T> UpdateQueue<T> {
    /// Adds an update of a zone. Returns whether there was room.
    pub(crate) fn offer(&self, id: &ZoneId, update: T) -> bool {
        let mut queued = self.queued();
        let place = queued.zones.iter().position(|zone| zone.id == *id);
        let own = place.map_or(0, |place| queued.zones[place].updates.len());
        let most = if own == 0 { MAX_WAITING } else { MAX_WAITING - SPARE_PLACES };
        if queued.is_closed || queued.count >= most || own >= MAX_WAITING_OF_ZONE {
            return false;
        }
        queued.count += 1;
        match place {
            Some(place) => queued.zones[place].updates.push(update),
            None => {
                let (id, updates) = (id.clone(), vec![update]);
                queued.zones.push_back(QueuedZone { id, updates, is_taken: false });
            }
        }
        self.changed.notify_one();
        true
    }

    /// Waits for the turn of a zone that can be taken, and takes the waiting updates of this zone.
    /// Returns `None` after [`Self::close`].
    pub fn take(&self) -> Option<TakenUpdates<'_, T>> {
        let is_idle = |queued: &mut Queued<T>| queued.next().is_none() && !queued.is_closed;
        let waited = self.changed.wait_while(self.queued(), is_idle);
        let mut queued = waited.unwrap_or_else(PoisonError::into_inner);
        let place = queued.next()?;
        let zone = &mut queued.zones[place];
        zone.is_taken = true;
        let (id, updates) = (zone.id.clone(), std::mem::take(&mut zone.updates));
        queued.count -= updates.len();
        Some(TakenUpdates { queue: self, id, updates })
    }

    /// Closes the queue, and returns the updates that still wait.
    #[must_use]
    pub fn close(&self) -> Vec<T> {
        let mut queued = self.queued();
        queued.is_closed = true;
        queued.count = 0;
        self.changed.notify_all();
        queued.zones.iter_mut().flat_map(|zone| std::mem::take(&mut zone.updates)).collect()
    }

    /// Ends the work of a thread on a zone, so that the zone can be taken again.
    fn release(&self, id: &ZoneId) {
        let mut queued = self.queued();
        let place = queued.zones.iter().position(|zone| zone.id == *id);
        let Some(zone) = place.and_then(|place| queued.zones.remove(place)) else { return };
        if !zone.updates.is_empty() {
            queued.zones.push_back(QueuedZone { is_taken: false, ..zone });
            self.changed.notify_one();
        }
    }

    fn queued(&self) -> MutexGuard<'_, Queued<T>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Queued<T> {
    /// Returns the index of the next zone that can be taken.
    fn next(&self) -> Option<usize> {
        self.zones.iter().position(|zone| !zone.is_taken && !zone.updates.is_empty())
    }
}

/// The updates of a zone that a thread applies. Until this value is dropped, no other thread gets
/// updates of the zone.
pub struct TakenUpdates<'q, T = WaitingUpdate> {
    queue: &'q UpdateQueue<T>,
    id: ZoneId,
    updates: Vec<T>,
}

impl<T> TakenUpdates<'_, T> {
    /// Takes the updates, in the order in which they arrived. A second call returns none.
    pub fn updates(&mut self) -> Vec<T> {
        std::mem::take(&mut self.updates)
    }
}

impl<T> Drop for TakenUpdates<'_, T> {
    fn drop(&mut self) {
        self.queue.release(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn zone(name: &str) -> ZoneId {
        ZoneId::common(name.as_bytes())
    }

    fn offer_many(queue: &UpdateQueue<usize>, name: &str, many: usize) -> usize {
        (0..many).filter(|number| queue.offer(&zone(name), *number)).count()
    }

    #[test]
    fn a_zone_gets_its_share_and_leaves_places_to_others() {
        let queue = UpdateQueue::default();
        assert_eq!(offer_many(&queue, "a", 300), MAX_WAITING_OF_ZONE);
        assert_eq!(offer_many(&queue, "b", 300), MAX_WAITING_OF_ZONE);
        assert_eq!(offer_many(&queue, "c", 300), MAX_WAITING_OF_ZONE);
        for number in 0..SPARE_PLACES {
            assert_eq!(offer_many(&queue, &format!("other {number}"), 2), 1);
        }
        assert!(!queue.offer(&zone("one too many"), 0));
        // An update that is being applied does not count as waiting.
        let mut taken = queue.take().unwrap();
        assert_eq!(taken.updates(), Vec::from_iter(0..MAX_WAITING_OF_ZONE));
        assert!(queue.offer(&zone("one too many"), 0));
        assert!(queue.offer(&zone("a"), 0));
    }

    #[test]
    fn zones_are_taken_in_turn_and_keep_their_order() {
        let queue = UpdateQueue::default();
        for (name, number) in [("a", 1), ("a", 2), ("b", 3), ("a", 4)] {
            assert!(queue.offer(&zone(name), number));
        }
        let mut first = queue.take().unwrap();
        assert_eq!(first.updates(), [1, 2, 4]);
        // Further updates of this zone wait until the first one is applied, behind other zones.
        assert!(queue.offer(&zone("a"), 5));
        assert!(queue.offer(&zone("a"), 6));
        let mut second = queue.take().unwrap();
        assert_eq!(second.updates(), [3]);
        assert!(queue.offer(&zone("c"), 7));
        drop(second);
        drop(first);
        assert_eq!(queue.take().unwrap().updates(), [7]);
        assert_eq!(queue.take().unwrap().updates(), [5, 6]);
        assert!(queue.queued().zones.is_empty());
    }

    #[test]
    fn one_thread_at_a_time_has_a_zone_even_if_one_panics() {
        let queue = UpdateQueue::default();
        assert!(queue.offer(&zone("a"), 1));
        let taken = queue.take().unwrap();
        assert!(queue.offer(&zone("a"), 2));
        assert_eq!(queue.queued().next(), None);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.take().unwrap().updates());
            let fault = scope.spawn(move || {
                let _taken = taken;
                panic!("a fault while a zone is updated");
            });
            assert!(fault.join().is_err());
            assert_eq!(waiting.join().unwrap(), [2]);
        });
    }

    #[test]
    fn what_waits_at_the_end_is_returned_and_threads_end() {
        let queue = UpdateQueue::default();
        assert!(queue.offer(&zone("a"), 1));
        let taken = queue.take().unwrap();
        thread::scope(|scope| {
            let idle = scope.spawn(|| queue.take().is_none());
            for (name, number) in [("a", 2), ("a", 3)] {
                assert!(queue.offer(&zone(name), number));
            }
            assert_eq!(queue.close(), [2, 3]);
            assert!(idle.join().unwrap());
        });
        assert!(!queue.offer(&zone("b"), 4));
        drop(taken);
        assert!(queue.take().is_none());
        assert!(queue.close().is_empty());
    }
}
