//! The clients that follow the query log: each gets every entry through a queue of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avocet_control::log::LogEntry;

/// Entries that wait for one follower. Beyond, entries are skipped for it.
const MAX_WAITING: usize = 8_192;

/// Most followers: each takes a thread of the control socket.
const MAX_FOLLOWERS: usize = 32;

/// The followers.
#[derive(Default)]
pub(crate) struct Followers(Mutex<Vec<Sending>>);

/// The side of the log's thread.
struct Sending {
    queue: SyncSender<Arc<LogEntry>>,
    skipped: Arc<AtomicU64>,
}

/// The side of a follower. It stops following when this is dropped.
pub(crate) struct Following {
    /// The entries.
    pub(crate) queue: Receiver<Arc<LogEntry>>,
    skipped: Arc<AtomicU64>,
}

impl Following {
    /// Returns the number of entries skipped since the last call, because the queue was full.
    pub(crate) fn take_skipped(&self) -> u64 {
        self.skipped.swap(0, Ordering::Relaxed)
    }
}

impl Followers {
    /// Adds a follower, which gets the entries from now on. Returns `None` if there are too many.
    pub(crate) fn follow(&self) -> Option<Following> {
        let mut followers = self.lock();
        if followers.len() >= MAX_FOLLOWERS {
            return None;
        }
        let (sender, queue) = sync_channel(MAX_WAITING);
        let skipped = Arc::<AtomicU64>::default();
        followers.push(Sending { queue: sender, skipped: skipped.clone() });
        Some(Following { queue, skipped })
    }

    /// Returns their number.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Passes an entry to all followers, and forgets those that are gone.
    pub(crate) fn send(&self, entry: &Arc<LogEntry>) {
        self.lock().retain(|follower| match follower.queue.try_send(entry.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                follower.skipped.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Sending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
