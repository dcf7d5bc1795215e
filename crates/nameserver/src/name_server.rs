//! The state that all queries share: the caches and secrets, and the snapshot of the configuration.
//!
//! A [`Snapshot`] is immutable and is replaced as a whole; workers check for a newer one once for
//! each batch. The caches outlive a snapshot: its generations determine which cached answers are
//! still valid.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avocet_cache::{BudgetTooSmall, FailureCache, PacketCache, RrsetCache};
use avocet_wire::hash::HashKey;

use crate::callers::Callers;
use crate::clock::Clock;
use crate::identified::Identified;
use crate::notices::NoticeBoard;
use crate::snapshot::{Snapshot, ttl_bounds};
use crate::transfers::TransferLedger;
use crate::updates::UpdateQueue;

/// Memory of the failure cache in bytes.
const FAILURE_BYTES: usize = 1 << 20;

/// The state of the name server that outlives its configuration.
pub struct NameServer {
    /// The clock of monotonic time.
    pub clock: Clock,
    /// The secret key with which names are hashed.
    pub key: HashKey,
    /// The cache of final answers.
    pub packets: PacketCache,
    /// The cache of RRsets.
    pub rrsets: RrsetCache,
    /// The cache of failed questions.
    pub failures: FailureCache,
    /// The recent clients of each worker, noted if the policy uses names of clients.
    pub callers: Vec<Callers>,
    /// The clients whose device or name was looked up, if the policy uses devices or names.
    pub identified: Identified,
    /// The hosted zones that must be checked because their primaries sent NOTIFY, or because their
    /// databases changed.
    pub notices: NoticeBoard,
    /// Transfers of zones between servers.
    pub transfers: Arc<TransferLedger>,
    /// Waiting updates of zones.
    pub updates: UpdateQueue,
    /// Number of times that workers had to forget validated keys and NSEC ranges, because records
    /// were removed from the caches.
    forgotten: AtomicU64,
    current: Mutex<Arc<Snapshot>>,
    /// The previous snapshots that workers may still use.
    retired: Mutex<Vec<Arc<Snapshot>>>,
    revision: AtomicU64,
}

impl NameServer {
    /// Allocates the caches with the configured sizes.
    ///
    /// # Errors
    /// A configured size is too small for a cache.
    pub fn new(
        snapshot: Snapshot,
        workers: usize,
        secret: [u8; 32],
    ) -> Result<Self, BudgetTooSmall> {
        let cache = &snapshot.config.cache;
        let stale_secs = cache.serve_stale.as_ref().map_or(0, |stale| stale.max_secs);
        let bounds = ttl_bounds(cache);
        // A list may test the name servers of cached answers. The delegation of an answer must not
        // be dropped first when the cache is full or saved.
        let rrset_secs = match snapshot.config.policy.lists.is_empty() {
            true => stale_secs,
            false => stale_secs.max(bounds.max),
        };
        let (half_a, half_b) = secret.split_at(16);
        let rrset_key = std::array::from_fn(|at| half_a[at] ^ 0x36);
        let failure_key = std::array::from_fn(|at| half_b[at] ^ 0x5c);
        Ok(Self {
            clock: Clock::start(),
            key: HashKey::new(secret),
            packets: PacketCache::new(cache.packet_bytes, stale_secs)?,
            rrsets: RrsetCache::new(cache.rrset_bytes, rrset_secs, bounds, rrset_key)?,
            failures: FailureCache::new(FAILURE_BYTES, failure_key)?,
            callers: (0..workers).map(|_| Callers::default()).collect(),
            identified: Identified::default(),
            notices: NoticeBoard::default(),
            transfers: Arc::default(),
            updates: UpdateQueue::default(),
            revision: AtomicU64::new(1),
            forgotten: AtomicU64::new(0),
            current: Mutex::new(Arc::new(snapshot)),
            retired: Mutex::default(),
        })
    }

    /// Returns the snapshot in force.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of snapshots put in force so far. A worker compares this number with the
    /// number of its own snapshot.
    #[inline]
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Returns how often workers had to forget validated keys and NSEC ranges.
    #[inline]
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Makes workers forget the keys of zones and NSEC ranges in the next turn of their event loop.
    pub fn forget_proofs(&self) {
        self.forgotten.fetch_add(1, Ordering::Release);
    }

    /// Puts a snapshot in force. Workers use it from the next turn of their event loop on.
    pub fn replace(&self, snapshot: Snapshot) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, Arc::new(snapshot));
        drop(current);
        // The previous snapshot is kept, so that no worker frees it: to free a whole policy takes
        // longer than many answers.
        self.retired().push(before);
        self.revision.fetch_add(1, Ordering::Release);
    }

    /// Removes and returns the snapshots that no worker uses, so that they can be freed.
    pub fn take_retired(&self) -> Vec<Arc<Snapshot>> {
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
