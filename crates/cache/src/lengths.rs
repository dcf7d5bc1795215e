//! The lengths of all names that were ever stored in a cache. A look-up tries all ancestors of a
//! name. If no stored name has the length of an ancestor, the look-up need not search for this
//! ancestor.

use avocet_wire::hash::HashKey;

use crate::sync::{AtomicU64, Ordering};

/// The lengths of names in octets, 0 to 255, with one bit for each length. Bits are never cleared.
#[derive(Debug, Default)]
pub(crate) struct LengthsSeen {
    words: [AtomicU64; 4],
}

impl LengthsSeen {
    fn place(name: &[u8]) -> (usize, u64) {
        let len = name.len().min(255);
        (len / 64, 1 << (len % 64))
    }

    /// Reports whether an entry may exist for a name of this length.
    #[inline]
    pub(crate) fn contain(&self, name: &[u8]) -> bool {
        let (word, bit) = Self::place(name);
        self.words[word].load(Ordering::Relaxed) & bit != 0
    }

    /// Reports whether no entry was ever recorded.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Records that an entry exists for a name of this length.
    pub(crate) fn note(&self, name: &[u8]) {
        let (word, bit) = Self::place(name);
        if self.words[word].load(Ordering::Relaxed) & bit == 0 {
            self.words[word].fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// Expands 16 octets of randomness to a hash key.
pub(crate) fn hash_key(secret: [u8; 16]) -> HashKey {
    let mut doubled = [0; 32];
    doubled[..16].copy_from_slice(&secret);
    doubled[16..].copy_from_slice(&secret);
    let first = HashKey::new(doubled);
    let mut expanded = [0; 32];
    for (place, word) in expanded.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *word = first.hash(&secret, place as u64).to_le_bytes();
    }
    HashKey::new(expanded)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_lengths_that_were_noted_are_contained() {
        let seen = LengthsSeen::default();
        let name = [0; 255];
        assert!(seen.is_empty());
        for len in [1, 63, 64, 65, 255] {
            assert!(!seen.contain(&name[..len]));
            seen.note(&name[..len]);
            assert!(seen.contain(&name[..len]));
        }
        assert!(!seen.contain(&name[..2]) && !seen.is_empty());
    }
}
