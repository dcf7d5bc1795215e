//! The positions of head and tail in one byte ring: entries are written at the head and freed at
//! the tail. No entry extends over the end of the ring.
//!
//! ```text
//! in one piece:   [ free | tail ... head | free ]
//! wrapped:        [ ... head | free | tail ... wrap | lost ]
//! ```
//! If head and tail are equal, a wrapped ring is full, and a ring in one piece is empty. The unused
//! words after `wrap` are available again in the next lap (round).

use super::slot::Spot;

#[derive(Debug)]
pub(super) struct Ring {
    base: usize,
    capacity: usize,
    head: usize,
    tail: usize,
    wrap: Option<usize>,
    lap: u64,
}

impl Ring {
    /// Creates a ring of `capacity` words that begins at word `base`.
    pub(super) fn new(base: usize, capacity: usize) -> Self {
        Ring { base, capacity, head: 0, tail: 0, wrap: None, lap: 0 }
    }

    pub(super) fn contains(&self, offset: usize) -> bool {
        (self.base..self.base + self.capacity).contains(&offset)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wrap.is_none() && self.head == self.tail
    }

    /// Returns the number of words between tail and head, including those of dead entries.
    pub(super) fn used_words(&self) -> usize {
        match self.wrap {
            Some(wrap) => wrap - self.tail + self.head,
            None => self.head - self.tail,
        }
    }

    /// Returns the offset of the oldest entry. The result has no meaning if the ring is empty.
    pub(super) fn tail_offset(&self) -> usize {
        self.base + self.tail
    }

    /// Allocates `words` words at the head; `None` if there are not enough contiguous free words.
    pub(super) fn take(&mut self, words: usize) -> Option<Spot> {
        match self.wrap {
            Some(_) if self.head + words <= self.tail => {}
            Some(_) => return None,
            None if self.head + words <= self.capacity => {}
            None if words <= self.tail => {
                self.wrap = Some(self.head);
                self.head = 0;
                self.lap += 1;
            }
            None => return None,
        }
        let spot = Spot { offset: self.base + self.head, lap: self.lap };
        self.head += words;
        Some(spot)
    }

    /// Frees the oldest `words`.
    pub(super) fn free_oldest(&mut self, words: usize) {
        self.tail += words;
        if self.wrap == Some(self.tail) {
            self.tail = 0;
            self.wrap = None;
        }
        if self.is_empty() {
            self.head = 0;
            self.tail = 0;
            self.lap += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};

    use super::*;

    #[test]
    fn spots_never_overlap_and_never_repeat() {
        let mut ring = Ring::new(100, 64);
        let mut live: VecDeque<(Spot, usize)> = VecDeque::new();
        let mut seen = HashSet::new();
        let mut random = 1u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let words = 1 + (random >> 33) as usize % 16;
            let spot = loop {
                if let Some(spot) = ring.take(words) {
                    break spot;
                }
                let (_, freed) = live.pop_front().unwrap();
                ring.free_oldest(freed);
                assert_eq!(ring.is_empty(), live.is_empty());
                if let Some((oldest, _)) = live.front() {
                    assert_eq!(ring.tail_offset(), oldest.offset);
                }
            };
            assert!(ring.contains(spot.offset) && spot.offset + words <= 164);
            assert!(seen.insert((spot.offset, spot.lap)), "a place came twice in a lap");
            for (other, length) in &live {
                assert!(
                    spot.offset + words <= other.offset || other.offset + length <= spot.offset
                );
            }
            live.push_back((spot, words));
            assert_eq!(ring.used_words(), live.iter().map(|l| l.1).sum::<usize>());
        }
    }
}
