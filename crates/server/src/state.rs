//! What the threads share: the caches and secrets, and the snapshot of the configuration.
//!
//! A [`Snapshot`] is immutable and is replaced as a whole; workers look once a batch whether a
//! newer one is there. The caches outlive it: `epoch` tells which of their answers still hold.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avocet_cache::{BudgetTooSmall, FailureCache, PacketCache, RrsetCache};
use avocet_wire::hash::HashKey;

use crate::callers::Callers;
use crate::clock::Clock;
use crate::connections::ConnectionCounts;
use crate::mailbox::Mailbox;
use crate::metrics::WorkerMetrics;
use crate::resolver_report::ResolverReport;
use crate::snapshot::{Snapshot, ttl_bounds};

/// Memory of the failure cache in bytes.
const FAILURE_BYTES: usize = 1 << 20;

/// What lives as long as the process.
pub(crate) struct Shared {
    /// Monotonic time.
    pub(crate) clock: Clock,
    /// Secret of all hashes of names.
    pub(crate) key: HashKey,
    /// Final answers.
    pub(crate) packets: PacketCache,
    /// Records.
    pub(crate) rrsets: RrsetCache,
    /// Failed questions.
    pub(crate) failures: FailureCache,
    /// One for each worker.
    pub(crate) metrics: Vec<WorkerMetrics>,
    /// Counts how often what was proven was dropped from the caches: workers forget what follows
    /// from it.
    forgotten: AtomicU64,
    /// One for each worker: what it told of its resolver at its last sweep.
    pub(crate) resolver_reports: Vec<Mutex<ResolverReport>>,
    /// One for each worker.
    pub(crate) mailboxes: Vec<Mailbox>,
    /// For each worker: it drains, and waits for nothing. It may get letters from those that do
    /// not.
    pub(crate) quiet: Vec<AtomicBool>,
    /// One for each worker: who has asked it, where the policy goes by names of clients.
    pub(crate) callers: Vec<Callers>,
    /// TCP connections of all workers.
    pub(crate) connections: ConnectionCounts,
    current: Mutex<Arc<Snapshot>>,
    /// Those of before, until no worker uses them any more.
    retired: Mutex<Vec<Arc<Snapshot>>>,
    revision: AtomicU64,
}

impl Shared {
    /// Allocates the caches as the configuration has them.
    pub(crate) fn new(
        snapshot: Snapshot,
        mailboxes: Vec<Mailbox>,
        secret: [u8; 32],
    ) -> Result<Self, BudgetTooSmall> {
        let cache = &snapshot.config.cache;
        let stale_secs = cache.serve_stale.as_ref().map_or(0, |stale| stale.max_secs);
        let bounds = ttl_bounds(cache);
        let (half_a, half_b) = secret.split_at(16);
        let rrset_key = std::array::from_fn(|at| half_a[at] ^ 0x36);
        let failure_key = std::array::from_fn(|at| half_b[at] ^ 0x5c);
        Ok(Self {
            clock: Clock::start(),
            key: HashKey::new(secret),
            packets: PacketCache::new(cache.packet_bytes, stale_secs)?,
            rrsets: RrsetCache::new(cache.rrset_bytes, stale_secs, bounds, rrset_key)?,
            failures: FailureCache::new(FAILURE_BYTES, failure_key)?,
            metrics: mailboxes.iter().map(|_| WorkerMetrics::default()).collect(),
            resolver_reports: mailboxes.iter().map(|_| Mutex::default()).collect(),
            quiet: mailboxes.iter().map(|_| AtomicBool::new(false)).collect(),
            callers: mailboxes.iter().map(|_| Callers::default()).collect(),
            mailboxes,
            connections: ConnectionCounts::default(),
            revision: AtomicU64::new(1),
            forgotten: AtomicU64::new(0),
            current: Mutex::new(Arc::new(snapshot)),
            retired: Mutex::default(),
        })
    }

    /// The snapshot in force.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts the snapshots put in force; a worker compares it with the one it knows.
    #[inline]
    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Counts the times that workers were told to forget what was proven.
    #[inline]
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Has workers forget keys and gaps between names, as names were dropped from the caches.
    pub(crate) fn forget_proofs(&self) {
        self.forgotten.fetch_add(1, Ordering::Release);
        self.mailboxes.iter().for_each(Mailbox::wake);
    }

    /// Puts a snapshot in force and wakes the workers to take it.
    pub(crate) fn replace(&self, mut snapshot: Snapshot) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if snapshot.config.rate_limit == current.config.rate_limit {
            // Who is over the limit stays so.
            snapshot.rate_limit.clone_from(&current.rate_limit);
        }
        let before = std::mem::replace(&mut *current, Arc::new(snapshot));
        drop(current);
        // A worker is not to be the last to leave it: to free all of a policy takes longer than
        // many answers.
        self.retired().push(before);
        self.revision.fetch_add(1, Ordering::Release);
        for mailbox in &self.mailboxes {
            mailbox.wake();
        }
    }

    /// The snapshots that no worker uses any more, to be freed.
    pub(crate) fn take_retired(&self) -> Vec<Arc<Snapshot>> {
        let mut retired = self.retired();
        let all = std::mem::take(&mut *retired).into_iter();
        let (used, unused) = all.partition(|snapshot| Arc::strong_count(snapshot) > 1);
        *retired = used;
        unused
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Arc<Snapshot>>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
