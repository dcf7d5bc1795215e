//! One word of the index: the identity and location of an entry.
//!
//! ```text
//!  63        49 48    44 43        30 29                     3    2    1       0
//! +------------+--------+------------+------------------------+------+-----------+
//! |  lap  15   | gen 5  |   tag 14   |  offset 27 (in words)  | live | visits  2 |
//! +------------+--------+------------+------------------------+------+-----------+
//! ```
//! `lap` counts the rounds of the ring. `gen` counts how often the entry was overwritten in place
//! within a lap. Offset, lap and generation together identify one version of an entry: if a reader
//! sees the same slot before and after its copy, it has copied this version, unless the ring has
//! made a multiple of 32,768 rounds in between.
//!
//! `visits` counts reads up to three, as S3-FIFO prescribes.
//!
//! States: `empty` (neither live nor visits), `live` (live set), `moving` (visits without live: the
//! writer is changing the words, so readers retry).

const VISITS_MASK: u64 = 3;
const LIVE: u64 = 1 << 2;
const OFFSET_SHIFT: u32 = 3;
const OFFSET_BITS: u32 = 27;
const TAG_SHIFT: u32 = OFFSET_SHIFT + OFFSET_BITS;
const TAG_BITS: u32 = 14;
const TAG_MASK: u64 = ((1 << TAG_BITS) - 1) << TAG_SHIFT;
const GENERATION_SHIFT: u32 = TAG_SHIFT + TAG_BITS;
const GENERATION_MAX: u64 = (1 << 5) - 1;
const GENERATION_MASK: u64 = GENERATION_MAX << GENERATION_SHIFT;
const LAP_SHIFT: u32 = GENERATION_SHIFT + 5;

/// Maximum number of words that the rings of one shard can address.
pub(super) const MAX_RING_WORDS: usize = 1 << OFFSET_BITS;

/// Bits of the hash that the slot compares before the entry is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u64);

impl Tag {
    /// Returns the tag of a key's hash: bits that determine neither shard nor bucket.
    pub(super) fn of(hash: u64) -> Self {
        Tag(((hash >> 32) << TAG_SHIFT) & TAG_MASK)
    }

    /// Returns the tag as an integer.
    pub(super) fn number(self) -> u64 {
        self.0 >> TAG_SHIFT
    }
}

/// A position in a ring during one of its laps (rounds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// The position, in words from the start of the shard's memory.
    pub(super) offset: usize,
    /// The count of laps. Only the low 15 bits are kept.
    pub(super) lap: u64,
}

/// The value of an index cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u64);

impl Slot {
    /// An empty cell.
    pub(super) const EMPTY: Slot = Slot(0);

    /// Creates a slot for a live entry that was not read yet.
    pub(super) fn new(tag: Tag, spot: Spot) -> Self {
        Slot((spot.lap << LAP_SHIFT) | tag.0 | ((spot.offset as u64) << OFFSET_SHIFT) | LIVE)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 & (LIVE | VISITS_MASK) == 0
    }

    pub(super) fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }

    /// Returns how often the entry was read since it was stored or last moved, at most three.
    #[inline]
    pub(super) fn visits(self) -> u64 {
        self.0 & VISITS_MASK
    }

    pub(super) fn tag(self) -> Tag {
        Tag(self.0 & TAG_MASK)
    }

    /// Reports whether this is a live or moving entry with this tag.
    #[inline]
    pub(super) fn has_tag(self, tag: Tag) -> bool {
        self.0 & TAG_MASK == tag.0 && !self.is_empty()
    }

    pub(super) fn offset(self) -> usize {
        ((self.0 >> OFFSET_SHIFT) as usize) & (MAX_RING_WORDS - 1)
    }

    /// Reports whether both slots refer to the same version of an entry. Visits are ignored.
    #[inline]
    pub(super) fn is_same_writing(self, other: Slot) -> bool {
        (self.0 ^ other.0) & !VISITS_MASK == 0
    }

    /// Returns the slot with this number of visits, at most three.
    pub(super) fn with_visits(self, visits: u64) -> Slot {
        Slot((self.0 & !VISITS_MASK) | visits.min(VISITS_MASK))
    }

    /// Returns the slot that readers see while the writer changes the words of the entry.
    pub(super) fn moving(self) -> Slot {
        Slot((self.0 & TAG_MASK) | VISITS_MASK)
    }

    /// Returns the slot of the entry after the words of the entry were overwritten in place.
    /// Returns `None` if the generations of this lap are used up, so that the entry must move.
    pub(super) fn rewritten(self) -> Option<Slot> {
        if self.0 & GENERATION_MASK == GENERATION_MASK {
            return None;
        }
        Some(Slot(self.0 + (1 << GENERATION_SHIFT)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        let tag = Tag::of(u64::MAX);
        let spot = Spot { offset: MAX_RING_WORDS - 1, lap: 0 };
        let slot = Slot::new(tag, spot);
        assert_eq!((slot.offset(), slot.tag()), (MAX_RING_WORDS - 1, tag));
        assert!(slot.is_live() && slot.visits() == 0 && slot.has_tag(tag));
        let lapped = Slot::new(tag, Spot { lap: 0x7fff, ..spot });
        assert_eq!((lapped.offset(), lapped.tag()), (spot.offset, tag));
        assert_eq!((slot.with_visits(9).visits(), slot.with_visits(9).with_visits(0)), (3, slot));
        assert!(!lapped.is_same_writing(slot) && slot.with_visits(9).is_same_writing(slot));
    }

    #[test]
    fn rewrites_differ_until_they_run_out() {
        let mut slot = Slot::new(Tag::of(7 << 32), Spot { offset: 9, lap: 3 });
        let mut seen = vec![slot];
        while let Some(next) = slot.rewritten() {
            assert!(seen.iter().all(|s| !s.is_same_writing(next)));
            assert_eq!((next.offset(), next.tag()), (9, slot.tag()));
            seen.push(next);
            slot = next;
        }
        assert_eq!(seen.len(), 32);
    }

    #[test]
    fn moving_is_neither_empty_nor_live() {
        let slot = Slot::new(Tag::of(0), Spot { offset: 0, lap: 0 });
        let moving = slot.moving();
        assert!(!moving.is_empty() && !moving.is_live() && moving.has_tag(slot.tag()));
        assert!(!Slot::EMPTY.has_tag(slot.tag()));
    }
}
