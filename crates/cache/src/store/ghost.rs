//! Fingerprints of keys whose entries were evicted from the small ring without having been read
//! (the ghost queue of S3-FIFO). If such a key is stored again soon, it is stored in the main ring
//! immediately. Each word is a queue of four 16-bit fingerprints. Because of false matches, one
//! entry in several thousand is stored in the main ring too early.

use crate::store::slot::Tag;

const LANES: usize = 4;
const LANE_BITS: usize = 16;

#[derive(Debug)]
pub(super) struct Ghost {
    queues: Box<[u64]>,
}

impl Ghost {
    /// Creates a table with `count` queues.
    pub(super) fn new(count: usize) -> Self {
        Ghost { queues: vec![0; count].into_boxed_slice() }
    }

    /// Records a key. It replaces the oldest key in its queue.
    pub(super) fn remember(&mut self, low: u32, tag: Tag) {
        let mark = fingerprint(low, tag);
        if let Some(queue) = self.queue(low) {
            *queue = (*queue << LANE_BITS) | mark;
        }
    }

    /// Reports whether the key is recorded, and removes it.
    pub(super) fn recall(&mut self, low: u32, tag: Tag) -> bool {
        let mark = fingerprint(low, tag);
        let Some(queue) = self.queue(low) else {
            return false;
        };
        for lane in 0..LANES {
            if (*queue >> (lane * LANE_BITS)) & 0xffff == mark {
                *queue &= !(0xffff << (lane * LANE_BITS));
                return true;
            }
        }
        false
    }

    fn queue(&mut self, low: u32) -> Option<&mut u64> {
        let place = (u64::from(low) * self.queues.len() as u64) >> 32;
        self.queues.get_mut(place as usize)
    }
}

/// Returns a fingerprint of the key. It is never zero, because zero marks free space.
fn fingerprint(low: u32, tag: Tag) -> u64 {
    let mixed = u64::from(low.wrapping_mul(0x85eb_ca6b) >> 16) ^ tag.number();
    mixed.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recalls_once_and_only_the_last_four_of_a_queue() {
        let mut ghost = Ghost::new(1);
        let tag = Tag::of(5 << 32);
        for low in 1..=5u32 {
            ghost.remember(low << 20, tag);
        }
        assert!(!ghost.recall(1 << 20, tag), "the oldest gave way");
        assert!(ghost.recall(3 << 20, tag));
        assert!(!ghost.recall(3 << 20, tag), "recalled once");
        assert!(ghost.recall(5 << 20, tag));
    }
}
