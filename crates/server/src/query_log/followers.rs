//! The clients that follow the query log: each gets all entries, in batches of the thread of the
//! log.
//!
//! A client is woken for a batch, not for an entry, and the entries of a batch are shared: an entry
//! that was converted to JSON for one client is sent to the others as it is.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use avocet_control::log::SharedEntry;

/// Maximum number of entries that wait for one follower. Further entries are skipped.
const MAX_WAITING: usize = 8_192;
/// Maximum number of entries of a batch.
const MAX_BATCH: usize = 256;

/// Maximum number of followers: each takes a thread of the control socket.
const MAX_FOLLOWERS: usize = 32;

/// Entries that followers get together.
pub(crate) type Batch = Arc<[SharedEntry]>;

/// The followers.
#[derive(Default)]
pub(crate) struct Followers(Mutex<Vec<Sending>>);

/// The sending side of a follower's queue, which the log's thread holds.
struct Sending {
    queue: Sender<Batch>,
    load: Arc<QueueLoad>,
}

/// The receiving side of a follower's queue. Dropping it ends the subscription.
pub(crate) struct Following {
    queue: Receiver<Batch>,
    load: Arc<QueueLoad>,
}

/// The counts of a follower's queue.
#[derive(Default)]
struct QueueLoad {
    /// Entries in the queue.
    waiting: AtomicUsize,
    /// Number of entries that were omitted, because the queue was full.
    skipped: AtomicU64,
}

impl Following {
    /// Waits for the next entries.
    pub(crate) fn take(&self, patience: Duration) -> Result<Batch, RecvTimeoutError> {
        let batch = self.queue.recv_timeout(patience)?;
        self.load.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
        Ok(batch)
    }

    /// Returns the number of entries skipped since the last call, because the queue was full.
    pub(crate) fn take_skipped(&self) -> u64 {
        self.load.skipped.swap(0, Ordering::Relaxed)
    }
}

impl Followers {
    /// Adds a follower, which gets all later entries. Returns `None` if there are too many
    /// followers.
    pub(crate) fn follow(&self) -> Option<Following> {
        let mut followers = self.lock();
        if followers.len() >= MAX_FOLLOWERS {
            return None;
        }
        let (sender, queue) = channel();
        let load = Arc::<QueueLoad>::default();
        followers.push(Sending { queue: sender, load: load.clone() });
        Some(Following { queue, load })
    }

    /// Returns the number of followers.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Passes entries to all followers, and removes followers that have closed.
    fn send(&self, batch: &Batch) {
        self.lock().retain(|Sending { queue, load }| {
            // While the queue is full, sending does not show that its reader has gone.
            if Arc::strong_count(load) == 1 {
                return false;
            }
            let waiting = load.waiting.fetch_add(batch.len(), Ordering::Relaxed);
            if waiting + batch.len() <= MAX_WAITING {
                return queue.send(batch.clone()).is_ok();
            }
            load.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
            load.skipped.fetch_add(batch.len() as u64, Ordering::Relaxed);
            true
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Sending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entries of a round of the log's thread, collected for the followers.
pub(crate) struct Collector<'f> {
    followers: &'f Followers,
    is_needed: bool,
    entries: Vec<SharedEntry>,
}

impl<'f> Collector<'f> {
    /// Creates the collector for a round.
    pub(crate) fn new(followers: &'f Followers) -> Self {
        Self { followers, is_needed: followers.count() > 0, entries: Vec::new() }
    }

    /// Adds an entry, if there are followers.
    pub(crate) fn add(&mut self, entry: impl FnOnce() -> SharedEntry) {
        if !self.is_needed {
            return;
        }
        self.entries.push(entry());
        if self.entries.len() >= MAX_BATCH {
            self.send();
        }
    }

    /// Passes the new entries to the followers.
    pub(crate) fn send(&mut self) {
        if !self.entries.is_empty() {
            self.followers.send(&self.entries.drain(..).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> SharedEntry {
        let entry = json!({
            "time-us": 1, "groups": [], "transport": "udp", "name": "a.example.", "type": "A",
            "class": "IN", "flags": [], "outcome": "packet-hit", "kind": "answered",
            "cache": "hit", "validated": "unknown", "lists": [], "revision": 1,
            "query-octets": 40, "reply-octets": 0, "answers": 0, "answer": [],
        });
        serde_json::from_value(entry).unwrap()
    }

    fn send(followers: &Followers, entries: usize) {
        let mut round = Collector::new(followers);
        (0..entries).for_each(|_| round.add(entry));
        round.send();
    }

    #[test]
    fn a_follower_gets_everything_in_bounded_batches() {
        let followers = Followers::default();
        send(&followers, 5);
        let following = followers.follow().unwrap();
        send(&followers, 2 * MAX_BATCH + 1);
        let batches: Vec<usize> =
            std::iter::from_fn(|| Some(following.take(Duration::ZERO).ok()?.len())).collect();
        assert_eq!((batches, following.take_skipped()), (vec![MAX_BATCH, MAX_BATCH, 1], 0));
    }

    #[test]
    fn a_full_queue_skips_entries_until_its_follower_takes_some() {
        let followers = Followers::default();
        let (slow, quick) = (followers.follow().unwrap(), followers.follow().unwrap());
        let mut taken = 0;
        for _ in 0..MAX_WAITING / MAX_BATCH + 2 {
            send(&followers, MAX_BATCH);
            taken += quick.take(Duration::ZERO).unwrap().len();
        }
        assert_eq!((taken, quick.take_skipped()), (MAX_WAITING + 2 * MAX_BATCH, 0));
        assert_eq!((slow.take_skipped(), slow.take_skipped()), (2 * MAX_BATCH as u64, 0));
        slow.take(Duration::ZERO).unwrap();
        send(&followers, 1);
        assert_eq!(slow.take_skipped(), 0);
    }

    #[test]
    fn a_follower_that_is_gone_is_forgotten_even_if_its_queue_was_full() {
        let followers = Followers::default();
        let mut all: Vec<_> = std::iter::from_fn(|| followers.follow()).collect();
        assert_eq!(all.len(), MAX_FOLLOWERS);
        send(&followers, MAX_WAITING + MAX_BATCH);
        all.truncate(1);
        send(&followers, 1);
        assert_eq!(followers.count(), 1);
        drop(all);
        send(&followers, 1);
        assert_eq!(followers.count(), 0);
    }
}
