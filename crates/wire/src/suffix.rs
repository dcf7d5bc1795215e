//! A map that finds the nearest ancestor of a name, used for zones and local names.
//!
//! A look-up goes from the name towards the root, down to the length of the shortest name in the
//! map. It hashes only suffixes whose length some name in the map has, so unrelated names cost a
//! few instructions per label. The look-up of a name with three labels whose parent is one of 64
//! zones takes 140 instructions (`bench/micro`, row "zone lookup").

use crate::hash::HashKey;
use crate::{name, short};

/// A map from folded wire names to values.
///
/// Each map has its own secret, because others may choose the names in it: a catalog of zones does.
///
/// ```
/// use avocet_wire::suffix::SuffixMap;
///
/// let name = |wire: &[u8]| Box::from(wire);
/// let zones: SuffixMap<u8> =
///     [(name(b"\x07example\x00"), 1), (name(b"\x03www\x07example\x00"), 2)].into_iter().collect();
/// let found = zones.nearest(b"\x01a\x04mail\x07example\x00");
/// assert_eq!(found, Some((&b"\x07example\x00"[..], &1)));
/// ```
#[derive(Clone, Debug)]
pub struct SuffixMap<T> {
    key: HashKey,
    /// A hash table with open addressing, at most half full. A slot has the upper half of the hash,
    /// and the index of the entry plus one.
    slots: Box<[u64]>,
    entries: Vec<(Box<[u8]>, T)>,
    /// The lengths in octets that names of the map have, with one bit for each length.
    lengths: [u64; 4],
    /// Length of the shortest name in octets. Larger than any name if the map is empty.
    shortest: usize,
}

impl<T> SuffixMap<T> {
    /// Reports whether the map is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns all names with their values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &T)> {
        self.entries.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns the value of exactly this name.
    #[inline]
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&T> {
        if self.may_have(name) { self.find(name) } else { None }
    }

    /// Returns the longest name of the map that is `name` or an ancestor of it, as a suffix of
    /// `name`, with its value.
    #[inline]
    #[must_use]
    pub fn nearest<'n>(&self, name: &'n [u8]) -> Option<(&'n [u8], &T)> {
        let mut above = name;
        while above.len() >= self.shortest {
            if self.may_have(above)
                && let Some(value) = self.find(above)
            {
                return Some((above, value));
            }
            above = name::parent(above)?;
        }
        None
    }

    /// Calls `show` for all names of the map that are `name` or an ancestor of it, the longest
    /// first.
    #[inline]
    pub fn for_each_above<'n>(&self, name: &'n [u8], mut show: impl FnMut(&'n [u8], &T)) {
        let mut rest = Some(name);
        while let Some(above) = rest.filter(|above| above.len() >= self.shortest) {
            if self.may_have(above)
                && let Some(value) = self.find(above)
            {
                show(above, value);
            }
            rest = name::parent(above);
        }
    }

    /// Reports whether the map has a name of this length.
    #[inline]
    fn may_have(&self, name: &[u8]) -> bool {
        let len = name.len();
        self.lengths[len / 64 % 4] >> (len % 64) & 1 == 1
    }

    #[inline]
    fn find(&self, name: &[u8]) -> Option<&T> {
        self.entry(name, self.key.hash_alone(name)).ok().map(|(_, value)| value)
    }

    /// Returns the entry of a name, or the index of the free slot at which its look-up ends.
    #[inline]
    fn entry(&self, name: &[u8], hash: u64) -> Result<&(Box<[u8]>, T), usize> {
        let mut at = hash as usize;
        loop {
            // The loop ends, because at least half of the slots are free.
            at &= self.slots.len() - 1;
            let slot = self.slots[at];
            if slot == 0 {
                return Err(at);
            }
            if (slot ^ hash) >> 32 == 0
                && let Some(entry) = self.entries.get((slot as u32 - 1) as usize)
                && short::same(&entry.0, name)
            {
                return Ok(entry);
            }
            at += 1;
        }
    }
}

impl<T> FromIterator<(Box<[u8]>, T)> for SuffixMap<T> {
    /// Builds the map with a new secret. The first of several values for a name wins.
    fn from_iter<I: IntoIterator<Item = (Box<[u8]>, T)>>(pairs: I) -> Self {
        let pairs: Vec<_> = pairs.into_iter().collect();
        let slots = vec![0; (2 * pairs.len()).next_power_of_two().max(2)].into_boxed_slice();
        let mut map = Self {
            key: HashKey::draw(),
            slots,
            entries: Vec::with_capacity(pairs.len()),
            lengths: [0; 4],
            shortest: usize::MAX,
        };
        for (name, value) in pairs {
            let hash = map.key.hash_alone(&name);
            if let Err(free) = map.entry(&name, hash) {
                map.lengths[name.len() / 64 % 4] |= 1 << (name.len() % 64);
                map.shortest = map.shortest.min(name.len());
                map.entries.push((name, value));
                map.slots[free] = hash & !0xffff_ffff | map.entries.len() as u64;
            }
        }
        map
    }
}

impl<T> Default for SuffixMap<T> {
    fn default() -> Self {
        std::iter::empty().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wire(text: &str) -> Box<[u8]> {
        let mut out = [0; 255];
        let len = crate::text::name_to_wire(text.as_bytes(), None, &mut out).unwrap();
        out[..len].into()
    }

    #[track_caller]
    fn check(map: &SuffixMap<usize>, name: &str, expected: Option<(&str, usize)>) {
        let name = wire(name);
        let found = map.nearest(&name).map(|(apex, value)| (Box::from(apex), *value));
        assert_eq!(found, expected.map(|(apex, value)| (wire(apex), value)));
    }

    #[test]
    fn the_longest_name_above_is_found() {
        let names = [
            "example.",
            "a-label-of-more-than-sixteen.example.",
            "com.",
            "sub.example.",
            "example.",
        ];
        let map: SuffixMap<usize> =
            names.iter().enumerate().map(|(place, name)| (wire(name), place)).collect();
        check(&map, "example.", Some(("example.", 0)));
        check(&map, "www.example.", Some(("example.", 0)));
        check(&map, "a.sub.example.", Some(("sub.example.", 3)));
        check(
            &map,
            "x.a-label-of-more-than-sixteen.example.",
            Some(("a-label-of-more-than-sixteen.example.", 1)),
        );
        check(&map, "xexample.", None);
        check(&map, ".", None);
        assert_eq!(
            (map.get(&wire("sub.example.")), map.get(&wire("www.sub.example."))),
            (Some(&3), None)
        );
        let of_all: SuffixMap<usize> = [(wire("."), 9)].into_iter().collect();
        check(&of_all, "www.example.", Some((".", 9)));
        let none = SuffixMap::<usize>::default();
        assert!(none.is_empty() && none.get(b"\x00").is_none() && none.nearest(b"\x00").is_none());
    }

    /// The octets after the counter cancel the multiplication of the hash without a secret, so its
    /// result does not depend on the counter.
    #[test]
    fn names_that_collide_without_a_secret_are_spread() {
        let names = (0..10_000).map(|number| {
            let mut name = format!("\x2bx{number:014}").into_bytes();
            name.extend(b"\xd0\x31\x9f\x29\x22\x38\x09\xa4abcdefghijklmnopqrst\x00");
            assert_eq!(name.len(), 45);
            (name.into_boxed_slice(), number)
        });
        let map: SuffixMap<usize> = names.collect();
        let hashes: std::collections::HashSet<u64> =
            map.iter().map(|(name, _)| crate::hash::without_secret(name)).collect();
        assert_eq!(hashes.len(), 1, "the names collide without a secret");
        let longest = map.slots.split(|slot| *slot == 0).map(<[u64]>::len).max();
        assert!(longest < Some(500), "{longest:?} slots in a row are filled");
        assert!(map.iter().all(|(name, number)| map.get(name) == Some(number)));
    }

    #[test]
    fn octets_that_are_no_name_are_looked_up_without_harm() {
        let map: SuffixMap<usize> = [(wire("example."), 0)].into_iter().collect();
        for octets in [&b""[..], b"\x05ab", b"\xc0\x0c", &[1; 300], &[63; 255]] {
            assert_eq!(map.nearest(octets), None);
        }
    }

    proptest! {
        #[test]
        fn a_plain_map_asked_for_each_name_above_says_the_same(
            names in prop::collection::vec("([ab]{1,9}\\.){0,4}", 0..40),
            asked in prop::collection::vec("([ab]{1,9}\\.){0,5}", 20),
        ) {
            let wire = |name: &str| wire(if name.is_empty() { "." } else { name });
            let plain: std::collections::HashMap<Box<[u8]>, usize> =
                names.iter().enumerate().rev().map(|(place, name)| (wire(name), place)).collect();
            let map: SuffixMap<usize> = names.iter().enumerate().map(|(place, name)| (wire(name), place)).collect();
            for name in names.iter().chain(&asked) {
                let name = wire(name);
                let expected: Vec<_> =
                    name::ancestors(&name).filter_map(|above| Some((above, plain.get(above)?))).collect();
                prop_assert_eq!(map.nearest(&name), expected.first().copied());
                let mut found = Vec::new();
                map.for_each_above(&name, |above, value| found.push((above, *value)));
                prop_assert_eq!(found, expected.iter().map(|(above, value)| (*above, **value)).collect::<Vec<_>>());
                prop_assert_eq!(map.get(&name), plain.get(&name));
            }
        }
    }
}
