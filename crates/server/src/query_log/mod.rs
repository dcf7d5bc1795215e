//! The query log of the running server: what its thread shares with others, and the texts behind
//! the numbers of entries.
//!
//! ```text
//! worker ──ring──┐
//! worker ──ring──┼──> thread "query-log": texts by revision, privacy ──> files <── "log-upkeep"
//!                                       \──> followers (`avocet log tail`)
//! control clients ── orders ──> the same thread
//! ```
//! No worker waits for the thread: if it is slow, or the disk is, entries are lost and counted. A
//! search reads the files, on the thread of its client.

pub(crate) mod files;
pub(crate) mod filter;
pub(crate) mod followers;
pub(crate) mod shown;
pub(crate) mod states;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use followers::Followers;

/// The state of the query log that its thread shares.
#[derive(Default)]
pub(crate) struct QueryLog {
    is_closed: Mutex<bool>,
    closing: Condvar,
    /// The clients that follow the log.
    pub(crate) followers: Followers,
    /// The counts of the log.
    pub(crate) counts: LogCounts,
    /// The directory whose files are open; `None` while nothing is written.
    pub(crate) directory: Mutex<Option<PathBuf>>,
}

/// Counts of the query log since the start.
#[derive(Default)]
pub(crate) struct LogCounts {
    /// Entries that passed the thread.
    pub(crate) taken: AtomicU64,
    /// Entries lost: the ring of a worker was full.
    pub(crate) dropped: AtomicU64,
    /// Entries written to files.
    pub(crate) written: AtomicU64,
    /// Entries lost: they could not be written.
    pub(crate) lost: AtomicU64,
    /// Octets written to files.
    pub(crate) octets: AtomicU64,
}

impl LogCounts {
    /// Adds to a count.
    pub(crate) fn add(count: &AtomicU64, n: u64) {
        count.fetch_add(n, Ordering::Relaxed);
    }
}

impl QueryLog {
    /// Ends the thread, after it has written what the workers left.
    pub(crate) fn close(&self) {
        *self.lock() = true;
        self.closing.notify_all();
    }

    /// Waits for this long. Returns false if the thread must end.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let waited = self.closing.wait_timeout_while(self.lock(), time, |is_closed| !*is_closed);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
