//! The hash table that finds the node of a name. Its hash has a secret, because others may choose
//! the names: those of a transferred zone, and of dynamic updates.

use avocet_wire::hash::HashKey;
use avocet_wire::short;

use crate::tree::Node;

/// The ratio of slots to nodes. A quarter of the slots stays free, as open addressing requires.
const SLOTS: (usize, usize) = (4, 3);

/// The nodes of a block by their names.
pub(crate) struct NodeIndex {
    key: HashKey,
    /// Each slot has the upper half of the hash of a name, and the offset of the node plus one. An
    /// empty slot is 0.
    slots: Box<[u64]>,
}

impl NodeIndex {
    /// Builds the table of the nodes at these offsets of a block.
    pub(crate) fn of(block: &[u8], nodes: &[u32]) -> Self {
        let (filled, of) = SLOTS;
        let key = HashKey::draw();
        let mut slots = vec![0_u64; nodes.len() * filled / of + 1].into_boxed_slice();
        for &at in nodes {
            let node = Node { block, at: at as usize };
            let hash = key.hash_alone(node.name().wire());
            let mut slot = first_slot(hash, slots.len());
            while slots[slot] != 0 {
                slot = if slot + 1 == slots.len() { 0 } else { slot + 1 };
            }
            slots[slot] = hash & !0xffff_ffff | u64::from(at + 1);
        }
        Self { key, slots }
    }

    /// Returns the node of a folded name in the block of the table; `None` if it has no such name.
    #[inline]
    pub(crate) fn find<'b>(&self, block: &'b [u8], name: &[u8]) -> Option<Node<'b>> {
        let hash = self.key.hash_alone(name);
        let mut at = first_slot(hash, self.slots.len());
        loop {
            // The loop ends because a quarter of the slots is free.
            let slot = *self.slots.get(at)?;
            if slot == 0 {
                return None;
            }
            if (slot ^ hash) >> 32 == 0 {
                let node = Node { block, at: (slot as u32 - 1) as usize };
                if short::same(node.name().wire(), name) {
                    return Some(node);
                }
            }
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
    }

    /// Returns the number of octets of the slots.
    pub(crate) fn octets(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

/// Returns the slot at which the search for a hash begins.
#[inline]
fn first_slot(hash: u64, slots: usize) -> usize {
    (((hash & 0xffff_ffff) * slots as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The octets after the counter cancel the multiplication of the hash without a secret, so its
    /// result does not depend on the counter.
    #[test]
    fn names_that_collide_without_a_secret_are_spread() {
        let (mut block, mut nodes) = (Vec::new(), Vec::new());
        for number in 0..10_000 {
            let mut name = format!("\x2bx{number:014}").into_bytes();
            name.extend(b"\xd0\x31\x9f\x29\x22\x38\x09\xa4abcdefghijklmnopqrst\x00");
            nodes.push(block.len() as u32);
            block.extend([0, name.len() as u8]);
            block.extend(name);
            block.extend([0; 5]);
        }
        let nodes_of = |block| nodes.iter().map(move |at| Node { block, at: *at as usize });
        let hashes: std::collections::HashSet<u64> = nodes_of(&*block)
            .map(|node| avocet_wire::hash::without_secret(node.name().wire()))
            .collect();
        assert_eq!(hashes.len(), 1, "the names collide without a secret");
        let index = NodeIndex::of(&block, &nodes);
        let longest = index.slots.split(|slot| *slot == 0).map(<[u64]>::len).max();
        assert!(longest < Some(2_000), "{longest:?} slots in a row are filled");
        for node in nodes_of(&*block) {
            let found = index.find(&block, node.name().wire());
            assert_eq!(found.map(|found| found.at), Some(node.at));
        }
    }
}
