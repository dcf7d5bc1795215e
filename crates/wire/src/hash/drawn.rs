//! A random key for each table.

use std::fmt;
use std::hash::BuildHasher;

use super::{HashKey, NameHasher};

/// A [`HashKey`] that is drawn at random by default. It is for maps of limited size with keys that
/// others choose (docs/decisions/0080).
#[derive(Clone, Copy)]
pub struct DrawnHashKey(HashKey);

impl fmt::Debug for DrawnHashKey {
    /// Omits the key, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DrawnHashKey")
    }
}

impl Default for DrawnHashKey {
    fn default() -> Self {
        Self(HashKey::draw())
    }
}

impl BuildHasher for DrawnHashKey {
    type Hasher = NameHasher;

    #[inline]
    fn build_hasher(&self) -> NameHasher {
        self.0.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn tables_with_a_drawn_key_find_names_and_numbers_and_have_hashes_of_their_own() {
        let mut table: HashMap<(&[u8], u16, u128), u32, DrawnHashKey> = HashMap::default();
        let names: Vec<Vec<u8>> = (0..=255u8).map(|len| vec![len; usize::from(len)]).collect();
        for (number, name) in (0..).zip(&names) {
            table.insert((name, number as u16, u128::MAX - u128::from(number)), number);
        }
        for (number, name) in (0..).zip(&names) {
            let key = |rtype: u32| (&name[..], rtype as u16, u128::MAX - u128::from(number));
            assert_eq!(table.get(&key(number)), Some(&number));
            assert_eq!(table.get(&key(number + 1)), None);
        }
        let one = DrawnHashKey::default();
        assert_ne!(one.hash_one(1_u64), DrawnHashKey::default().hash_one(1_u64));
        // An attacker chooses one half of an IPv6 address, to cancel the other.
        for half in [0, u64::MAX / 5, u64::MAX] {
            let both = |low: u64| {
                let (half, low) = (u128::from(half), u128::from(low));
                [one.hash_one(half << 64 | low), one.hash_one(low << 64 | half)]
            };
            let hashes: HashSet<u64> = (0..10_000).flat_map(both).collect();
            assert!(hashes.len() >= 19_998, "{half:x}: {}", hashes.len());
        }
    }
}
