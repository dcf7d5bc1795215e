//! The writing side of a shard: insertion, the two rings, eviction (S3-FIFO).
//!
//! ```text
//!            new key                      visited, or room in main
//! insert ------------> small (10 %) -----------------------------> main (90 %) --+
//!    |                      | unvisited                               ^ |   |     | visited:
//!    |                      v                                         | |   +-----+ to the head,
//!    |                    ghost                                       | |           one visit less
//!    |                                                                | | unvisited
//!    +------- key in ghost, or its entry in main ---------------------+ v
//!                                                                    evicted
//! ```
//! Every loop here frees words at a tail, so its length is limited by the number of words that are
//! requested. [`REINSERTED_PER_INSERT`] bounds the entries that main moves to its head in one
//! insertion.

use super::{
    entry::{EntryParts, HEADER_WORDS, Header, Meta, copy_payload, store_entry},
    ghost::Ghost,
    ring::Ring,
    shard::{Geometry, KEY_PREFIX_BYTES, Shard, WAYS},
    slot::{Slot, Spot, Tag},
};
use crate::sync::{AtomicU64, Ordering, fence};

/// Maximum number of entries that the main ring moves to its head in one insertion. Further visited
/// entries are evicted.
const REINSERTED_PER_INSERT: u32 = 64;
/// Maximum number of empty cells in the first bucket of a key at which the key uses the bucket with
/// more empty cells.
const SPARE_CELLS: u32 = 2;
/// Maximum number of entries that are dead, or too old even for stale answers, that the main ring
/// frees to make room for an unvisited entry.
const RECLAIMED_PER_MOVE: u32 = 8;

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The entry is in the cache.
    Stored,
    /// A better entry exists and stays in the cache.
    Kept,
    /// The entry is too long or malformed. If the entry is too long, an older entry with the same
    /// key is removed.
    Refused,
}

/// The counters that the writer of a shard maintains. All counters except `entries` only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShardCounts {
    pub(super) entries: u64,
    pub(super) inserts: u64,
    pub(super) refused: u64,
    pub(super) evicted_unvisited: u64,
    pub(super) evicted_main: u64,
    pub(super) evicted_bucket: u64,
    pub(super) outlived: u64,
    pub(super) walked: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
}

/// The state that the shard's lock protects.
#[derive(Debug)]
pub(super) struct Writer {
    small: Ring,
    main: Ring,
    ghost: Ghost,
    pub(super) counts: ShardCounts,
    bucket_hand: usize,
}

impl Writer {
    pub(super) fn new(geometry: &Geometry) -> Writer {
        Writer {
            small: Ring::new(0, geometry.small_words),
            main: Ring::new(geometry.small_words, geometry.main_words),
            ghost: Ghost::new(geometry.ghost_words),
            counts: ShardCounts::default(),
            bucket_hand: 0,
        }
    }

    /// Returns the ring words between tails and heads.
    pub(super) fn used_words(&self) -> usize {
        self.small.used_words() + self.main.used_words()
    }

    fn ring(&mut self, queue: Queue) -> &mut Ring {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }
}

/// A live entry that the writer has found.
struct LiveEntry<'a> {
    cell: &'a AtomicU64,
    slot: Slot,
    header: Header,
}

/// The time of one insertion, and the number of entries that it may still move to the head of the
/// main ring.
struct Sweep {
    now: u32,
    reinsertions: u32,
}

impl Shard {
    /// Stores `entry`. If there is an entry that `same` accepts, replaces it only if `may_replace`
    /// permits that.
    pub(super) fn insert(
        &self,
        hash: u64,
        entry: &EntryParts<'_>,
        same: impl Fn(&Meta, &[u8]) -> bool,
        may_replace: impl Fn(&Meta) -> bool,
    ) -> Inserted {
        let mut guard = self.lock();
        let writer = &mut *guard;
        let old = self.find(hash, &same);
        if old.as_ref().is_some_and(|old| !may_replace(&old.header.meta)) {
            return Inserted::Kept;
        }
        if entry.words() > self.geometry.max_entry_words()
            || entry.payload_len() > super::MAX_PAYLOAD_BYTES
        {
            writer.counts.refused += 1;
            old.inspect(|old| clear(writer, old.cell));
            return Inserted::Refused;
        }
        writer.counts.inserts += 1;
        if old.as_ref().is_some_and(|old| self.rewrite(old, entry)) {
            return Inserted::Stored;
        }
        let queue = match &old {
            Some(old) if writer.main.contains(old.slot.offset()) => Queue::Main,
            None if writer.ghost.recall(hash as u32, Tag::of(hash)) => Queue::Main,
            _ => Queue::Small,
        };
        let mut sweep = Sweep { now: entry.meta.stored_at, reinsertions: REINSERTED_PER_INSERT };
        let spot = self.reserve(writer, queue, entry.words(), &mut sweep);
        self.write_entry(spot.offset, hash as u32, entry);
        let fresh = Slot::new(Tag::of(hash), spot);
        // To make room, the old entry may have been moved or evicted.
        match old.and_then(|_| self.find(hash, &same)) {
            Some(old) => publish(old.cell, fresh.with_visits(old.slot.visits())),
            None => publish(self.free_cell(writer, hash as u32), fresh),
        }
        Inserted::Stored
    }

    /// Removes the entry that `same` accepts.
    pub(super) fn remove(&self, hash: u64, same: impl Fn(&Meta, &[u8]) -> bool) {
        let mut writer = self.lock();
        if let Some(place) = self.find(hash, &same) {
            clear(&mut writer, place.cell);
        }
    }

    /// Removes the entries of one bucket that `keep` refuses. The caller holds the writer's lock.
    pub(super) fn sweep_bucket(
        &self,
        writer: &mut Writer,
        start: usize,
        scratch: &mut [u8],
        mut keep: impl FnMut(&Meta, &[u8]) -> bool,
    ) {
        for cell in self.bucket(start) {
            let slot = Slot(cell.load(Ordering::Relaxed));
            if !slot.is_empty()
                && let Some(header) = self.header(slot.offset())
            {
                let payload = self.payload(slot, &header, scratch);
                if !keep(&header.meta, payload) {
                    clear(writer, cell);
                }
            }
        }
    }

    fn find(&self, hash: u64, same: &impl Fn(&Meta, &[u8]) -> bool) -> Option<LiveEntry<'_>> {
        let (low, tag) = (hash as u32, Tag::of(hash));
        // The prefix is copied only if the tag matches, which is rare for other keys.
        let is_same = |slot: Slot, header: &Header| {
            let mut prefix = [0; KEY_PREFIX_BYTES];
            same(&header.meta, self.payload(slot, header, &mut prefix))
        };
        for start in self.buckets_of(low) {
            for cell in self.bucket(start) {
                let slot = Slot(cell.load(Ordering::Relaxed));
                if slot.has_tag(tag)
                    && let Some(header) = self.header(slot.offset())
                    && header.low == low
                    && is_same(slot, &header)
                {
                    return Some(LiveEntry { cell, slot, header });
                }
            }
        }
        None
    }

    fn header(&self, offset: usize) -> Option<Header> {
        self.words.get(offset..)?.first_chunk().map(Header::load)
    }

    /// Returns the payload of an entry, truncated to the length of `out`.
    fn payload<'b>(&self, slot: Slot, header: &Header, out: &'b mut [u8]) -> &'b [u8] {
        let start = slot.offset() + HEADER_WORDS;
        let words = self.words.get(start..start + header.payload_words()).unwrap_or_default();
        copy_payload(words, out, header.payload_len());
        let copied = header.payload_len().min(out.len());
        &out[..copied]
    }

    /// Overwrites an entry of equal length in place, so that repeated refreshes of a name do not
    /// fill the ring. Returns `false` if this is not possible.
    fn rewrite(&self, old: &LiveEntry<'_>, entry: &EntryParts<'_>) -> bool {
        let Some(next) = old.slot.rewritten() else {
            return false;
        };
        if old.header.words != entry.words() {
            return false;
        }
        old.cell.store(old.slot.moving().0, Ordering::Relaxed);
        self.write_entry(old.slot.offset(), old.header.low, entry);
        publish(old.cell, next);
        true
    }

    /// Writes an entry. Cells that refer to these words must have been cleared or changed before.
    fn write_entry(&self, offset: usize, low: u32, entry: &EntryParts<'_>) {
        fence(Ordering::Release);
        store_entry(&self.words[offset..offset + entry.words()], low, entry);
    }

    /// Moves words to a position that may be lower and overlap them.
    fn copy_words(&self, from: usize, to: usize, count: usize) {
        fence(Ordering::Release);
        for step in 0..count {
            let value = self.words[from + step].load(Ordering::Relaxed);
            self.words[to + step].store(value, Ordering::Relaxed);
        }
    }

    /// Frees the tail of a ring until `words` fit at its head.
    fn reserve(&self, writer: &mut Writer, queue: Queue, words: usize, sweep: &mut Sweep) -> Spot {
        loop {
            if let Some(spot) = writer.ring(queue).take(words) {
                return spot;
            }
            match queue {
                Queue::Small => self.free_small(writer, sweep),
                Queue::Main => self.free_main(writer, sweep),
            }
        }
    }

    /// Removes the oldest entry from a ring. Returns its cell, if it is live, and its header.
    fn take_oldest(
        &self,
        writer: &mut Writer,
        queue: Queue,
    ) -> (Option<&AtomicU64>, Header, usize) {
        let ring = writer.ring(queue);
        let offset = ring.tail_offset();
        let header = Header::load(
            self.words[offset..].first_chunk().expect("a ring is not empty when it is full"),
        );
        ring.free_oldest(header.words);
        writer.counts.walked += 1;
        (self.cell_of(header.low, offset), header, offset)
    }

    fn cell_of(&self, low: u32, offset: usize) -> Option<&AtomicU64> {
        let cells = self.buckets_of(low).into_iter().flat_map(|start| self.bucket(start));
        cells.into_iter().find(|cell| {
            let slot = Slot(cell.load(Ordering::Relaxed));
            slot.is_live() && slot.offset() == offset
        })
    }

    fn free_small(&self, writer: &mut Writer, sweep: &mut Sweep) {
        let (cell, header, offset) = self.take_oldest(writer, Queue::Small);
        let Some(cell) = cell else { return };
        let slot = Slot(cell.load(Ordering::Relaxed));
        if header.meta.is_outlived(sweep.now, self.keep_secs) {
            writer.counts.outlived += 1;
            return clear(writer, cell);
        }
        let spot = if slot.visits() > 0 {
            Some(self.reserve(writer, Queue::Main, header.words, sweep))
        } else {
            self.spare_room(writer, header.words, sweep.now)
        };
        let Some(spot) = spot else {
            writer.ghost.remember(header.low, slot.tag());
            writer.counts.evicted_unvisited += 1;
            return clear(writer, cell);
        };
        self.copy_words(offset, spot.offset, header.words);
        publish(cell, Slot::new(slot.tag(), spot));
    }

    /// Allocates words in the main ring, if this evicts no live entry. Thus, a cache that is not
    /// full loses no entry.
    fn spare_room(&self, writer: &mut Writer, words: usize, now: u32) -> Option<Spot> {
        for _ in 0..RECLAIMED_PER_MOVE {
            let spot = writer.main.take(words);
            if spot.is_some() || writer.main.is_empty() {
                return spot;
            }
            let offset = writer.main.tail_offset();
            let header = self.header(offset)?;
            let is_dead = self.cell_of(header.low, offset).is_none();
            if !is_dead && !header.meta.is_outlived(now, self.keep_secs) {
                return None;
            }
            if let (Some(cell), ..) = self.take_oldest(writer, Queue::Main) {
                writer.counts.outlived += 1;
                clear(writer, cell);
            }
        }
        None
    }

    fn free_main(&self, writer: &mut Writer, sweep: &mut Sweep) {
        let (cell, header, offset) = self.take_oldest(writer, Queue::Main);
        let Some(cell) = cell else { return };
        let slot = Slot(cell.load(Ordering::Relaxed));
        if header.meta.is_outlived(sweep.now, self.keep_secs) {
            writer.counts.outlived += 1;
            return clear(writer, cell);
        }
        if slot.visits() > 0
            && sweep.reinsertions > 0
            && let Some(spot) = writer.main.take(header.words)
        {
            sweep.reinsertions -= 1;
            cell.store(slot.moving().0, Ordering::Relaxed);
            self.copy_words(offset, spot.offset, header.words);
            return publish(cell, Slot::new(slot.tag(), spot).with_visits(slot.visits() - 1));
        }
        writer.counts.evicted_main += 1;
        clear(writer, cell);
    }

    /// Returns an empty cell in one of the key's buckets, after evicting an entry if necessary.
    /// Unvisited entries are evicted first. Examines only sixteen cells, even if an attacker
    /// chooses the keys.
    fn free_cell(&self, writer: &mut Writer, low: u32) -> &AtomicU64 {
        writer.counts.entries += 1;
        let [first, second] = self.buckets_of(low);
        let cells = || self.bucket(first).iter().chain(self.bucket(second));
        let slot_of = |cell: &AtomicU64| Slot(cell.load(Ordering::Relaxed));
        let (room, mut empty) = empty_cells(self.bucket(first));
        if room <= SPARE_CELLS {
            let (other_room, other) = empty_cells(self.bucket(second));
            empty = if other_room > room { other } else { empty };
        }
        if let Some(empty) = empty {
            return empty;
        }
        writer.bucket_hand = (writer.bucket_hand + 1) % (2 * WAYS);
        let from_hand = || cells().cycle().skip(writer.bucket_hand).take(2 * WAYS);
        let in_small = |cell: &&AtomicU64| writer.small.contains(slot_of(cell).offset());
        let unvisited = |cell: &&AtomicU64| slot_of(cell).visits() == 0;
        let victim = from_hand().find(|cell| in_small(cell) && unvisited(cell));
        let victim = victim.or_else(|| from_hand().find(unvisited)).or_else(|| {
            cells().for_each(|cell| cell.store(slot_of(cell).with_visits(0).0, Ordering::Relaxed));
            from_hand().next()
        });
        let victim = victim.expect("a bucket has cells");
        writer.counts.evicted_bucket += 1;
        clear(writer, victim);
        victim
    }
}

/// Returns the number of empty cells and the first of them, without a branch per cell.
fn empty_cells(bucket: &[AtomicU64]) -> (u32, Option<&AtomicU64>) {
    let is_empty = |cell: &AtomicU64| Slot(cell.load(Ordering::Relaxed)).is_empty();
    let found = bucket
        .iter()
        .enumerate()
        .fold(0u32, |found, (place, cell)| found | u32::from(is_empty(cell)) << place);
    (found.count_ones(), bucket.get(found.trailing_zeros() as usize))
}

fn clear(writer: &mut Writer, cell: &AtomicU64) {
    writer.counts.entries = writer.counts.entries.saturating_sub(1);
    cell.store(Slot::EMPTY.0, Ordering::Relaxed);
}

fn publish(cell: &AtomicU64, slot: Slot) {
    cell.store(slot.0, Ordering::Release);
}
