//! One shard: an index, two rings of words, and the reading side of the slot protocol.
//!
//! A key has two buckets of eight cells; a bucket fills a cache line. A reader
//! 1. loads a cell (acquire) whose tag is the key's,
//! 2. copies the entry's words (relaxed),
//! 3. issues an acquire fence and loads the cell again. If the cell is unchanged except for its
//!    visits, the copy is the entry. If it has changed, the reader discards the copy and restarts
//!    the search.
//!
//! The writer, one at a time under the shard's lock, changes or clears the cell, issues a release
//! fence, writes words (relaxed) and publishes the cell (release). A reader that has seen any of
//! the new words has also seen the fence, and so sees the changed cell in step 3. Readers write
//! nothing except the visits, up to three times, by compare-exchange.
//!
//! The writing side is in [`super::write`].

use std::sync::Arc;

use super::{
    entry::{HEADER_WORDS, Header, Meta, copy_payload},
    slot::{MAX_RING_WORDS, Slot, Tag},
    write::Writer,
};
use crate::memory;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, fence, spin_loop, zeroed_words};

/// Number of cells of a bucket, which fill one cache line.
pub(super) const WAYS: usize = 8;
const CACHE_LINE: usize = 64;
/// Number of words of a cache line.
const LINE_WORDS: usize = CACHE_LINE / size_of::<u64>();
/// Number of cache lines of an entry that are prefetched: header and an answer of one or two
/// records.
const PREFETCHED_LINES: usize = 3;
/// Number of bytes of an index cell together with its share of the ghost table.
const CELL_BYTES: usize = 10;
/// Number of times that a reader starts again because a writer has changed the entry. After that,
/// the look-up reports a miss.
const READ_ATTEMPTS: usize = if cfg!(loom) { 2 } else { 64 };
/// Number of bytes at the start of a payload that include the whole key. The writer passes only
/// these bytes to `same`.
pub(crate) const KEY_PREFIX_BYTES: usize = 288;

/// The sizes of a shard's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) buckets: usize,
    pub(super) ghost_words: usize,
    pub(super) small_words: usize,
    pub(super) main_words: usize,
}

impl Geometry {
    /// Divides `bytes` among the parts of a shard, so that the index is four fifths full when the
    /// rings are full of entries of `mean_entry_bytes`. The small ring gets a tenth of the words of
    /// both rings.
    pub(super) fn within(bytes: usize, mean_entry_bytes: usize) -> Geometry {
        let cells = bytes * 5 / (4 * mean_entry_bytes + 5 * CELL_BYTES);
        let buckets = (cells / WAYS).max(1);
        let ghost_words = buckets * WAYS / 4;
        let fixed = size_of::<Shard>() + (buckets * WAYS + WAYS + ghost_words) * 8;
        let words = (bytes.saturating_sub(fixed) / 8).min(MAX_RING_WORDS);
        Geometry { buckets, ghost_words, small_words: words / 10, main_words: words - words / 10 }
    }

    /// Returns the number of bytes of a shard with these sizes.
    pub(super) fn bytes(&self) -> usize {
        let words =
            self.buckets * WAYS + WAYS + self.ghost_words + self.small_words + self.main_words;
        size_of::<Shard>() + words * 8
    }

    /// Returns the maximum length of an entry in words: half of the small ring. Every entry passes
    /// through that ring, and one insertion must not evict all its entries.
    pub(super) fn max_entry_words(&self) -> usize {
        self.small_words / 2
    }
}

/// A wrapper that keeps data that writers change and data that readers use on different cache
/// lines.
#[repr(align(128))]
pub(super) struct Padded<T>(T);

/// The result of reading an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundEntry {
    pub(crate) meta: Meta,
    /// Number of bytes of the payload. Fewer bytes may have been copied.
    pub(crate) len: usize,
    /// Whether the entry was read since it was stored or last moved.
    pub(crate) visited: bool,
}

enum Copied {
    Entry(Header),
    Other,
    Disturbed,
}

/// A part of the store with its own index, rings and lock.
pub(super) struct Shard {
    /// The indexes of all shards, one after another in one allocation.
    index: Arc<Box<[AtomicU64]>>,
    /// The first cell of this shard's index, which is aligned to a cache line.
    index_start: usize,
    pub(super) words: Box<[AtomicU64]>,
    pub(super) geometry: Geometry,
    /// Seconds for which an entry is kept after its validity, for stale answers.
    pub(super) keep_secs: u32,
    writer: Padded<Mutex<Writer>>,
}

impl Shard {
    /// Creates `count` shards. Their indexes share one allocation, in large pages if possible.
    pub(super) fn several(count: usize, geometry: Geometry, keep_secs: u32) -> Box<[Shard]> {
        let cells = geometry.buckets * WAYS;
        let index = Arc::new(zeroed_words(count * (cells + WAYS)));
        memory::take_large_pages(&index);
        let misaligned = index.as_ptr() as usize % CACHE_LINE;
        let first = (CACHE_LINE - misaligned) % CACHE_LINE / size_of::<u64>();
        let shard = |number| Shard {
            index: Arc::clone(&index),
            index_start: first + number * cells,
            words: zeroed_words(geometry.small_words + geometry.main_words),
            geometry,
            keep_secs,
            writer: Padded(Mutex::new(Writer::new(&geometry))),
        };
        (0..count).map(shard).collect()
    }

    /// Locks the state of the writer. Ignores that a writer has panicked with the lock, because
    /// this leaves at most one unusable entry.
    pub(super) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the index of the first cell of each of the two buckets of a key.
    #[inline]
    pub(super) fn buckets_of(&self, low: u32) -> [usize; 2] {
        let count = self.geometry.buckets as u64;
        let start =
            |hash: u32| self.index_start + ((u64::from(hash) * count) >> 32) as usize * WAYS;
        [start(low), start(low.wrapping_mul(0x9e37_79b1))]
    }

    /// Returns the index of the first cell of each bucket.
    pub(super) fn bucket_starts(&self) -> impl Iterator<Item = usize> + use<> {
        (self.index_start..).step_by(WAYS).take(self.geometry.buckets)
    }

    /// Returns the cells of the bucket whose first cell is `start`.
    #[inline]
    pub(super) fn bucket(&self, start: usize) -> &[AtomicU64] {
        self.index.get(start..start + WAYS).unwrap_or_default()
    }

    /// Prefetches the cache lines of a key's buckets.
    #[inline]
    pub(super) fn prefetch_index(&self, hash: u64) {
        for start in self.buckets_of(hash as u32) {
            self.bucket(start).first().into_iter().for_each(memory::prefetch_line_of);
        }
    }

    /// Prefetches the entry with the key's tag. Returns `false` if there is none.
    #[inline]
    pub(super) fn prefetch_entry(&self, hash: u64) -> bool {
        let tag = Tag::of(hash);
        for start in self.buckets_of(hash as u32) {
            for cell in self.bucket(start) {
                let slot = Slot(cell.load(Ordering::Relaxed));
                if slot.has_tag(tag) {
                    let words = self.words.get(slot.offset()..).unwrap_or_default();
                    words
                        .iter()
                        .step_by(LINE_WORDS)
                        .take(PREFETCHED_LINES)
                        .for_each(memory::prefetch_line_of);
                    return true;
                }
            }
        }
        false
    }

    /// Copies the payload of the entry that `same` accepts into `out`.
    #[inline]
    pub(super) fn read(
        &self,
        hash: u64,
        out: &mut [u8],
        same: impl Fn(&Meta, &[u8]) -> bool,
    ) -> Option<FoundEntry> {
        for _ in 0..READ_ATTEMPTS {
            match self.read_once(hash, out, &same) {
                Ok(found) => return found,
                Err(Disturbed) => spin_loop(),
            }
        }
        None
    }

    #[inline]
    fn read_once(
        &self,
        hash: u64,
        out: &mut [u8],
        same: &impl Fn(&Meta, &[u8]) -> bool,
    ) -> Result<Option<FoundEntry>, Disturbed> {
        let (low, tag) = (hash as u32, Tag::of(hash));
        let [mut start, second] = self.buckets_of(low);
        let mut result = Ok(None);
        // A loop over the array would write the array to memory.
        loop {
            for cell in self.bucket(start) {
                let slot = Slot(cell.load(Ordering::Acquire));
                if !slot.has_tag(tag) {
                    continue;
                }
                match self.copy_entry(cell, slot, low, out) {
                    Copied::Entry(header) => {
                        let len = header.payload_len();
                        if same(&header.meta, &out[..len.min(out.len())]) {
                            count_visit(cell, slot);
                            return Ok(Some(FoundEntry {
                                meta: header.meta,
                                len,
                                visited: slot.visits() > 0,
                            }));
                        }
                    }
                    Copied::Other => {}
                    Copied::Disturbed => result = Err(Disturbed),
                }
            }
            if start == second {
                return result;
            }
            start = second;
        }
    }

    #[inline]
    fn copy_entry(&self, cell: &AtomicU64, slot: Slot, low: u32, out: &mut [u8]) -> Copied {
        if !slot.is_live() {
            return Copied::Disturbed;
        }
        let words = self.words.get(slot.offset()..);
        let Some((head, rest)) = words.and_then(|words| words.split_first_chunk::<HEADER_WORDS>())
        else {
            return Copied::Other;
        };
        let header = Header::load(head);
        if header.low == low
            && let Some(payload) = rest.get(..header.payload_words())
        {
            copy_payload(payload, out, header.payload_len());
        }
        fence(Ordering::Acquire);
        if !Slot(cell.load(Ordering::Relaxed)).is_same_writing(slot) {
            return Copied::Disturbed;
        }
        if header.low == low { Copied::Entry(header) } else { Copied::Other }
    }
}

/// An error: a writer was changing an entry with the same tag as the key.
struct Disturbed;

#[inline]
fn count_visit(cell: &AtomicU64, slot: Slot) {
    let counted = slot.with_visits(slot.visits() + 1);
    if counted != slot {
        // The visit is not counted if the writer or another reader changes the cell at the same
        // time.
        let _ = cell.compare_exchange(slot.0, counted.0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
