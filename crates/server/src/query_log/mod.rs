//! The query log of the running server: the state that its thread shares with other threads, and
//! the texts for the identifiers in entries.
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
pub(crate) mod list_shares;
pub(crate) mod overview;
pub(crate) mod rates;
pub(crate) mod searches;
pub(crate) mod shown;
pub(crate) mod states;
pub(crate) mod steady;
pub(crate) mod stored;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use avocet_querylog::{Filter, LogError, Pruned, Rollups};

use followers::Followers;
use rates::Rates;
use searches::Searches;

use crate::turns::Turns;

/// Maximum number of dry runs at once: each may compile all lists again.
const MAX_DRY_RUNS: usize = 1;

/// Shares are counted in millionths.
const MILLION: f64 = 1e6;

/// The state of the query log that its threads share.
pub(crate) struct QueryLog {
    orders: Mutex<LogOrders>,
    ordered: Condvar,
    /// The clients that follow the log.
    pub(crate) followers: Followers,
    /// The counts of the log.
    pub(crate) counts: LogCounts,
    /// The present rates.
    pub(crate) rates: Rates,
    /// The searches in the files.
    pub(crate) searches: Searches,
    /// The limit on concurrent dry runs over the files.
    pub(crate) dry_runs: Arc<Turns>,
    /// The open files; `None` while no file is open.
    pub(crate) written: Mutex<Option<WrittenLog>>,
}

/// The log that is being written.
#[derive(Clone)]
pub(crate) struct WrittenLog {
    /// The directory of the log.
    pub(crate) directory: PathBuf,
    /// The roll-ups of the log. The thread of the log needs the lock, so readers must copy them.
    pub(crate) rollups: Arc<Mutex<Rollups>>,
}

/// The orders to the threads of the log.
#[derive(Default)]
struct LogOrders {
    is_closed: bool,
    of_writer: Vec<WriterOrder>,
    of_upkeep: Vec<PruneOrder>,
}

/// An order to the thread that writes.
pub(crate) enum WriterOrder {
    /// Completes the newest file. The reply is the id of the next entry.
    Cut(Sender<Result<u64, LogError>>),
    /// Removes deleted entries from the roll-ups.
    Forget(Filter, Sender<Result<(), LogError>>),
}

/// An order to the upkeep to delete entries.
pub(crate) struct PruneOrder {
    /// The entries.
    pub(crate) filter: Filter,
    /// The id before which all entries are in complete files.
    pub(crate) before_id: u64,
    /// The channel for the result.
    pub(crate) reply: Sender<Result<Pruned, LogError>>,
}

/// Counts of the query log since the start.
#[derive(Default)]
pub(crate) struct LogCounts {
    /// Entries that the thread took from the rings of the workers.
    pub(crate) taken: AtomicU64,
    /// Entries lost because the ring of a worker was full.
    pub(crate) dropped: AtomicU64,
    /// Entries written to files.
    pub(crate) written: AtomicU64,
    /// Entries lost because they could not be written.
    pub(crate) lost: AtomicU64,
    /// Entries lost because their blocks were damaged when the file was sealed.
    pub(crate) damaged: AtomicU64,
    /// Number of octets written to files.
    pub(crate) octets: AtomicU64,
    /// Entries in segments.
    pub(crate) sealed: AtomicU64,
    /// Entries deleted, by retention or by a request.
    pub(crate) deleted: AtomicU64,
    /// Number of octets of all files.
    pub(crate) stored_octets: AtomicU64,
    /// Time in microseconds that the thread has worked on entries.
    pub(crate) work_us: AtomicU64,
    /// The fill level of the fullest ring at the last check, in millionths of its size.
    pub(crate) ring_fill: AtomicU64,
    /// The highest fill level since the start, in the same unit.
    pub(crate) ring_peak: AtomicU64,
}

impl LogCounts {
    /// Adds to a count.
    pub(crate) fn add(count: &AtomicU64, n: u64) {
        count.fetch_add(n, Ordering::Relaxed);
    }

    /// Records the share of the fullest ring that is in use.
    pub(crate) fn note_fill(&self, share: f64) {
        let millionths = (share * MILLION) as u64;
        self.ring_fill.store(millionths, Ordering::Relaxed);
        self.ring_peak.fetch_max(millionths, Ordering::Relaxed);
    }

    /// Returns the fill level at the last check, and the highest one.
    pub(crate) fn fills(&self) -> [f64; 2] {
        [&self.ring_fill, &self.ring_peak]
            .map(|millionths| millionths.load(Ordering::Relaxed) as f64 / MILLION)
    }
}

impl Default for QueryLog {
    fn default() -> Self {
        Self {
            orders: Mutex::default(),
            ordered: Condvar::new(),
            followers: Followers::default(),
            counts: LogCounts::default(),
            rates: Rates::default(),
            searches: Searches::default(),
            dry_runs: Arc::new(Turns::new(MAX_DRY_RUNS)),
            written: Mutex::default(),
        }
    }
}

impl QueryLog {
    /// Ends the threads, after the writer has written the last entries of the workers.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.ordered.notify_all();
    }

    /// Waits for this time. Returns false if the thread must end.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let is_open = |orders: &mut LogOrders| !orders.is_closed;
        let waited = self.ordered.wait_timeout_while(self.lock(), time, is_open);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    /// Waits for this time, or until the upkeep has an order. Returns false if the thread must end.
    pub(crate) fn wait_for_upkeep(&self, time: Duration) -> bool {
        let is_calm = |orders: &mut LogOrders| !orders.is_closed && orders.of_upkeep.is_empty();
        let waited = self.ordered.wait_timeout_while(self.lock(), time, is_calm);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    /// Sends an order to the thread that writes, which checks for orders in each round.
    pub(crate) fn order_writer(&self, order: WriterOrder) {
        self.lock().of_writer.push(order);
    }

    /// Sends an order to the upkeep.
    pub(crate) fn order_upkeep(&self, order: PruneOrder) {
        self.lock().of_upkeep.push(order);
        self.ordered.notify_all();
    }

    /// Returns the orders to the thread that writes, and removes them.
    pub(crate) fn writer_orders(&self) -> Vec<WriterOrder> {
        std::mem::take(&mut self.lock().of_writer)
    }

    /// Returns the orders to the upkeep, and removes them.
    pub(crate) fn upkeep_orders(&self) -> Vec<PruneOrder> {
        std::mem::take(&mut self.lock().of_upkeep)
    }

    /// Returns the log that is being written; `None` while no file is open.
    pub(crate) fn written(&self) -> Option<WrittenLog> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, LogOrders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
