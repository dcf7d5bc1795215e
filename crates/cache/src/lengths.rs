//! The lengths of names that something was ever stored for: most look-ups at the names above a
//! name end here, without a look at the store.

use avocet_wire::hash::HashKey;

use crate::sync::{AtomicU64, Ordering};

/// Lengths in octets of names, 0 to 255, one bit each. Bits are only ever set.
#[derive(Debug, Default)]
pub(crate) struct LengthsSeen {
    words: [AtomicU64; 4],
}

impl LengthsSeen {
    fn place(name: &[u8]) -> (usize, u64) {
        let len = name.len().min(255);
        (len / 64, 1 << (len % 64))
    }

    /// May something have been stored for a name of this length?
    #[inline]
    pub(crate) fn contain(&self, name: &[u8]) -> bool {
        let (word, bit) = Self::place(name);
        self.words[word].load(Ordering::Relaxed) & bit != 0
    }

    /// Something is stored for a name of this length.
    pub(crate) fn note(&self, name: &[u8]) {
        let (word, bit) = Self::place(name);
        if self.words[word].load(Ordering::Relaxed) & bit == 0 {
            self.words[word].fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// A hash key out of half as many octets of randomness.
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
        for len in [1, 63, 64, 65, 255] {
            assert!(!seen.contain(&name[..len]));
            seen.note(&name[..len]);
            assert!(seen.contain(&name[..len]));
        }
        assert!(!seen.contain(&name[..2]));
    }
}
