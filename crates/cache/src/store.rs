//! The byte store of the caches: a concurrent map from a keyed hash and a key to bytes, in memory
//! of fixed size, with S3-FIFO eviction: new entries are in a small ring, and entries that are read
//! move to a main ring.
//!
//! All memory is reserved at construction as zeroed pages, which cost nothing until they are
//! written. It is divided into shards. Each shard has an index of 8-way buckets, a small and a main
//! ring of words, and a ghost table. Reading takes no lock ([`shard`]); writing locks one shard
//! ([`write`]). The store compares hashes. The caller's function `same` compares keys, because a
//! key is a part of its payload: for example, a message contains its question.

mod entry;
mod ghost;
mod ring;
mod shard;
mod slot;
mod write;

#[cfg(test)]
mod tests;

use std::fmt;

pub use entry::MAX_PAYLOAD_BYTES;
pub(crate) use entry::{EntryParts, Meta};
pub(crate) use shard::FoundEntry;
use shard::{Geometry, Shard};
pub use write::Inserted;

/// Smallest budget of a store, in bytes.
pub(crate) const MIN_BUDGET_BYTES: usize = 64 * 1024;
/// Smallest size of a shard, in bytes, if a store has several shards. A shard has room for several
/// of the longest entries.
const MIN_SHARD_BYTES: usize = 4 * 1024 * 1024;
const MAX_SHARDS: usize = 64;

/// An error: the memory budget is too small for a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetTooSmall {
    /// The given number of bytes.
    pub given: usize,
}

impl fmt::Display for BudgetTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a cache of {} bytes is too small: give it at least {MIN_BUDGET_BYTES}",
            self.given
        )
    }
}

impl std::error::Error for BudgetTooSmall {}

/// The counters that writers maintain, and the memory of a store. Callers count hits and misses
/// themselves, because a shared counter would cost more than a look-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Entries that can be found.
    pub entries: u64,
    /// Entries stored since the start, including those that replaced other entries.
    pub inserts: u64,
    /// Entries too long to store.
    pub refused: u64,
    /// Entries evicted from the small ring without having been read.
    pub evicted_unvisited: u64,
    /// Entries evicted from the main ring.
    pub evicted_main: u64,
    /// Entries evicted because a key had no free cell in its two buckets of the index.
    pub evicted_bucket: u64,
    /// Entries dropped because their validity and the stale window had ended.
    pub outlived: u64,
    /// Entries that writers examined to make room: the work of eviction.
    pub walked: u64,
    /// Bytes in use: the index, the ghost table, and the used parts of the rings.
    pub bytes_used: usize,
    /// The memory budget in bytes. The total memory never exceeds it.
    pub bytes_limit: usize,
}

/// A sharded byte store.
pub(crate) struct Store {
    shards: Box<[Shard]>,
    bytes_limit: usize,
    keep_secs: u32,
}

/// The parameters of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreConfig {
    /// Maximum memory, in bytes.
    pub(crate) bytes: usize,
    /// Expected number of bytes of an entry in a ring, which determines the size of the index.
    pub(crate) mean_entry_bytes: usize,
    /// Seconds for which entries are kept after their validity.
    pub(crate) keep_secs: u32,
}

impl Store {
    pub(crate) fn new(config: StoreConfig) -> Result<Store, BudgetTooSmall> {
        if config.bytes < MIN_BUDGET_BYTES {
            return Err(BudgetTooSmall { given: config.bytes });
        }
        let wanted = (config.bytes / MIN_SHARD_BYTES).clamp(1, MAX_SHARDS);
        let count = 1 << wanted.ilog2();
        let geometry =
            Geometry::within((config.bytes - size_of::<Store>()) / count, config.mean_entry_bytes);
        let shards = Shard::several(count, geometry, config.keep_secs);
        debug_assert!(count * geometry.bytes() + size_of::<Store>() <= config.bytes);
        Ok(Store { shards, bytes_limit: config.bytes, keep_secs: config.keep_secs })
    }

    /// Copies the payload that `same` accepts into `out`, or as much of it as fits. Up to seven
    /// bytes of `out` after the payload may be overwritten.
    #[inline]
    pub(crate) fn read(
        &self,
        hash: u64,
        out: &mut [u8],
        same: impl Fn(&Meta, &[u8]) -> bool,
    ) -> Option<FoundEntry> {
        self.shard(hash).read(hash, out, same)
    }

    /// Prefetches the memory that [`Self::read`] accesses first.
    #[inline]
    pub(crate) fn prefetch_index(&self, hash: u64) {
        self.shard(hash).prefetch_index(hash);
    }

    /// Prefetches the memory that [`Self::read`] accesses second.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) -> bool {
        self.shard(hash).prefetch_entry(hash)
    }

    /// Stores `entry`. If there is a live entry that `same` accepts, replaces it only if
    /// `may_replace` permits that. `same` receives the first [`shard::KEY_PREFIX_BYTES`] of a
    /// payload.
    pub(crate) fn insert(
        &self,
        hash: u64,
        entry: &EntryParts<'_>,
        same: impl Fn(&Meta, &[u8]) -> bool,
        may_replace: impl Fn(&Meta) -> bool,
    ) -> Inserted {
        self.shard(hash).insert(hash, entry, same, may_replace)
    }

    /// Removes the entry that `same` accepts.
    pub(crate) fn remove(&self, hash: u64, same: impl Fn(&Meta, &[u8]) -> bool) {
        self.shard(hash).remove(hash, same);
    }

    /// Reports whether an entry must be dropped: its validity has ended, and so has the time for
    /// which it is kept afterwards.
    pub(crate) fn is_outlived(&self, meta: &Meta, now: u32) -> bool {
        meta.is_outlived(now, self.keep_secs)
    }

    /// Removes the entries that `keep` refuses, and returns their number. Locks a shard only while
    /// it processes one bucket.
    pub(crate) fn retain(&self, mut keep: impl FnMut(&Meta, &[u8]) -> bool) -> usize {
        let mut removed = 0;
        let mut scratch = vec![0; MAX_PAYLOAD_BYTES];
        for shard in &self.shards {
            for start in shard.bucket_starts() {
                let mut writer = shard.lock();
                shard.sweep_bucket(&mut writer, start, &mut scratch, |meta, payload| {
                    let kept = keep(meta, payload);
                    removed += usize::from(!kept);
                    kept
                });
            }
        }
        removed
    }

    /// Calls `visit` with a copy of every entry, bucket by bucket. Holds no lock, so that entries
    /// that are stored at the same time may be missed or, if they are replaced, visited twice.
    pub(crate) fn try_for_each<E>(
        &self,
        mut visit: impl FnMut(&Meta, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut scratch = vec![0; MAX_PAYLOAD_BYTES];
        let mut bucket: Vec<(Meta, Vec<u8>)> = Vec::new();
        for shard in &self.shards {
            for start in shard.bucket_starts() {
                bucket.clear();
                let mut writer = shard.lock();
                shard.sweep_bucket(&mut writer, start, &mut scratch, |meta, payload| {
                    bucket.push((*meta, payload.to_vec()));
                    true
                });
                drop(writer);
                bucket.iter().try_for_each(|(meta, payload)| visit(meta, payload))?;
            }
        }
        Ok(())
    }

    /// Returns the sums of the counters of all shards.
    pub(crate) fn stats(&self) -> StoreStats {
        let mut sum = StoreStats { bytes_limit: self.bytes_limit, ..StoreStats::default() };
        sum.bytes_used = size_of::<Store>();
        for shard in &self.shards {
            let writer = shard.lock();
            let geometry = &shard.geometry;
            let ring_words = geometry.small_words + geometry.main_words;
            sum.bytes_used += geometry.bytes() - (ring_words - writer.used_words()) * 8;
            sum.entries += writer.counts.entries;
            sum.inserts += writer.counts.inserts;
            sum.refused += writer.counts.refused;
            sum.evicted_unvisited += writer.counts.evicted_unvisited;
            sum.evicted_main += writer.counts.evicted_main;
            sum.evicted_bucket += writer.counts.evicted_bucket;
            sum.outlived += writer.counts.outlived;
            sum.walked += writer.counts.walked;
        }
        sum
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        // The number of shards is a power of two. These bits of the hash affect neither the tag nor
        // the bucket.
        &self.shards[(hash >> 48) as usize & (self.shards.len() - 1)]
    }
}
