//! A hash index over the entries of a slab: bucket heads and one link per entry, without keys.
//!
//! The caller compares the keys in the slab. Hashes must be keyed, or made from random numbers,
//! because the length of chains is not limited.

/// The index that means no entry.
const NONE: u32 = u32::MAX;

/// A hash index.
#[derive(Debug)]
pub(crate) struct Chains {
    heads: Vec<u32>,
    next: Vec<u32>,
}

impl Chains {
    /// Creates an index for about `expected` entries.
    pub(crate) fn new(expected: usize) -> Self {
        Self { heads: vec![NONE; expected.next_power_of_two()], next: Vec::new() }
    }

    pub(crate) fn insert(&mut self, hash: u64, entry: u32) {
        if self.next.len() <= entry as usize {
            self.next.resize(entry as usize + 1, NONE);
        }
        let bucket = self.bucket(hash);
        self.next[entry as usize] = self.heads[bucket];
        self.heads[bucket] = entry;
    }

    pub(crate) fn remove(&mut self, hash: u64, entry: u32) {
        let bucket = self.bucket(hash);
        let after = self.next[entry as usize];
        if self.heads[bucket] == entry {
            self.heads[bucket] = after;
            return;
        }
        let mut at = self.heads[bucket];
        while at != NONE {
            if self.next[at as usize] == entry {
                self.next[at as usize] = after;
                return;
            }
            at = self.next[at as usize];
        }
    }

    /// Returns the entries with this hash. May also return other entries of the same bucket.
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let first = self.heads[self.bucket(hash)];
        std::iter::successors((first != NONE).then_some(first), |&entry| {
            let next = self.next[entry as usize];
            (next != NONE).then_some(next)
        })
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.heads.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_bucket_are_found_until_removed() {
        let mut chains = Chains::new(2);
        for entry in 0..6 {
            chains.insert(u64::from(entry % 2), entry);
        }
        chains.remove(0, 2);
        chains.remove(0, 4);
        assert_eq!(chains.candidates(0).collect::<Vec<_>>(), [0]);
        chains.insert(0, 2);
        let mut found: Vec<_> = chains.candidates(0).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 2]);
        assert_eq!(chains.candidates(1).count(), 3);
    }
}
