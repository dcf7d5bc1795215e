//! The names of triggers, by keyed hashes: what stands at a name, or at the closest encloser where it is not there
//! (RFC 4592 §3.3.1).
//!
//! ```text
//! hashes   | 03.. | 11.. |      | 4a.. | 4b.. | 4b.. |      | ..    ascending; where each would stand if they were
//! stands   | 7    | -    |      | 9 *  | -    | 3    |      | ..    spread evenly, or as near behind as is free
//! ```
//! Above a name that is there, all names are there. So a look-up goes down from the root and ends at the first that is
//! not: for a name of a domain that no trigger is about, with the domain. Names themselves are not kept: of a million
//! triggers one takes a name for another once in 10^12 queries, and nobody without the key can find such a name.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::ControlFlow;

use avocet_wire::hash::{CHAIN_ROOM, HashKey};
use avocet_wire::name::MAX_NAME;

use super::trigger::Covers;

/// Most labels of a name, the root's not counted (RFC 1035 §3.1).
const MAX_LABELS: usize = 127;
/// In a place where nothing stands, and behind the last one.
const FREE: u64 = u64::MAX;
/// Places for each `FILLED` names: more make room, fewer longer ways.
const PLACES: usize = 8;
const FILLED: usize = 7;

/// What stands at a name: the number of a rule in the low bits, and above them for what it holds; for both, where the
/// two numbers are. Zero: nothing but names below.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Stand(u32);

impl Stand {
    const EXACT: u32 = 1 << 30;
    const BELOW: u32 = 2 << 30;
    const BOTH: u32 = 3 << 30;
}

/// Names with the numbers of their rules. Immutable.
pub(super) struct Names {
    key: HashKey,
    /// The rule for names below the root.
    of_root: Option<u32>,
    hashes: Box<[u64]>,
    stands: Box<[Stand]>,
    /// Rules for a name and for those below it.
    both: Box<[(u32, u32)]>,
    /// Places without those behind the last.
    places: u64,
}

impl Names {
    /// Is there no name?
    pub(super) fn is_empty(&self) -> bool {
        self.places == 0 && self.of_root.is_none()
    }

    /// The number of the rule for a folded name, and the owner of its trigger without the asterisk: the name itself,
    /// or the closest encloser.
    #[inline]
    pub(super) fn find<'n>(&self, name: &'n [u8]) -> Option<(u32, &'n [u8])> {
        let (mut nearest, mut depth) = (None, Depth::Whole);
        from_root(&self.key, name, |above, hash| match self.place(hash) {
            Some(place) => {
                nearest = Some((place, above));
                ControlFlow::Continue(())
            }
            None => {
                depth = Depth::Above;
                ControlFlow::Break(())
            }
        });
        let root = name.len().checked_sub(1).map_or(name, |at| &name[at..]);
        match (nearest, depth) {
            (Some((place, _)), Depth::Whole) => self.number(place, Covers::Name).map(|number| (number, name)),
            (Some((place, above)), Depth::Above) => self.number(place, Covers::Below).map(|number| (number, above)),
            (None, Depth::Above) => self.of_root.map(|number| (number, root)),
            (None, Depth::Whole) => None,
        }
    }

    /// The place of a hash; what stands there is read for the last one alone, as it lies in memory of its own.
    #[inline]
    fn place(&self, hash: u64) -> Option<usize> {
        let first = place_of(hash, self.places);
        // What is free is greater than any hash, and there is such a place at the end.
        let (at, found) = (first..).zip(self.hashes.get(first..)?).find(|(_, known)| **known >= hash)?;
        (*found == hash).then_some(at)
    }

    fn number(&self, place: usize, covers: Covers) -> Option<u32> {
        let Stand(stand) = self.stands[place];
        let number = stand & !Stand::BOTH;
        match (stand & Stand::BOTH, covers) {
            (Stand::EXACT, Covers::Name) | (Stand::BELOW, Covers::Below) => Some(number),
            (Stand::BOTH, Covers::Name) => Some(self.both[number as usize].0),
            (Stand::BOTH, Covers::Below) => Some(self.both[number as usize].1),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Depth {
    Whole,
    Above,
}

/// Names while they are read.
pub(super) struct Gathering {
    key: HashKey,
    of_root: Option<u32>,
    names: HashMap<u64, Rules, BuildHasherDefault<AsItIs>>,
}

/// The rules for a name and for those below it.
#[derive(Clone, Copy, Default)]
struct Rules {
    exact: Option<u32>,
    below: Option<u32>,
}

impl Gathering {
    pub(super) fn new(key: HashKey) -> Self {
        Self { key, of_root: None, names: HashMap::default() }
    }

    /// The number of the rule of a trigger, given it now if it has none.
    pub(super) fn entry(&mut self, (covers, name): (Covers, &[u8]), number: u32) -> u32 {
        let mut last = None;
        let (key, names) = (self.key, &mut self.names);
        from_root(&key, name, |_, hash| {
            names.entry(hash).or_default();
            last = Some(hash);
            ControlFlow::Continue(())
        });
        let slot = match (last.and_then(|hash| names.get_mut(&hash)), covers) {
            (Some(rules), Covers::Name) => &mut rules.exact,
            (Some(rules), Covers::Below) => &mut rules.below,
            // The owner is never the zone's own name, so this is `*`.
            (None, _) => &mut self.of_root,
        };
        *slot.get_or_insert(number)
    }

    /// The names as they are looked up.
    pub(super) fn finish(self) -> Names {
        let mut sorted: Vec<(u64, Rules)> = self.names.into_iter().collect();
        sorted.sort_unstable_by_key(|(hash, _)| *hash);
        let places = (sorted.len() * PLACES).div_ceil(FILLED) as u64;
        let mut hashes: Vec<u64> = Vec::with_capacity(places as usize + 1);
        let mut stands: Vec<Stand> = Vec::with_capacity(places as usize + 1);
        let mut both = Vec::new();
        for (hash, rules) in sorted {
            let at = place_of(hash, places).max(hashes.len());
            hashes.resize(at, FREE);
            stands.resize(at, Stand::default());
            hashes.push(hash);
            stands.push(rules.stand(&mut both));
        }
        hashes.push(FREE);
        stands.push(Stand::default());
        Names {
            key: self.key,
            of_root: self.of_root,
            hashes: hashes.into(),
            stands: stands.into(),
            both: both.into(),
            places,
        }
    }
}

impl Rules {
    fn stand(self, both: &mut Vec<(u32, u32)>) -> Stand {
        Stand(match (self.exact, self.below) {
            (None, None) => 0,
            (Some(exact), None) => Stand::EXACT | exact,
            (None, Some(below)) => Stand::BELOW | below,
            (Some(exact), Some(below)) => {
                both.push((exact, below));
                Stand::BOTH | (both.len() - 1) as u32
            }
        })
    }
}

/// Where a hash stands at the earliest, so that they are spread in their order.
#[inline]
fn place_of(hash: u64, places: u64) -> usize {
    ((u128::from(hash) * u128::from(places)) >> 64) as usize
}

/// Hands out the names above a folded name below the root, with their hashes, and at last the name itself, until
/// told otherwise.
#[inline]
fn from_root<'n>(key: &HashKey, name: &'n [u8], mut visit: impl FnMut(&'n [u8], u64) -> ControlFlow<()>) {
    let name = &name[..name.len().min(MAX_NAME)];
    let mut starts = [0_u8; MAX_LABELS + 1];
    let (mut labels, mut end) = (0, 0);
    while let Some(&length @ 1..=63) = name.get(end) {
        let next = end + 1 + usize::from(length);
        if labels == MAX_LABELS || next > name.len() {
            break;
        }
        starts[labels] = end as u8;
        labels += 1;
        end = next;
    }
    let mut octets = [0; CHAIN_ROOM];
    octets[..name.len()].copy_from_slice(name);
    let mut hash = key.chain_start();
    for start in starts[..labels].iter().rev().map(|start| usize::from(*start)) {
        hash = key.chain(hash, &octets, start, end - start);
        end = start;
        // No name has the mark of a free place.
        if visit(&name[start..], hash.min(FREE - 1)).is_break() {
            return;
        }
    }
}

/// What is hashed already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, octets: &[u8]) {
        debug_assert!(false, "{octets:?}: only hashes are looked up");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use avocet_wire::name;
    use proptest::prelude::*;

    use super::*;

    fn wire(labels: &[u8]) -> Vec<u8> {
        let octets = labels.iter().flat_map(|label| [1, b'a' + label]);
        octets.chain([0]).collect()
    }

    /// The same from plain maps: the name itself if it or anything below is there, or the wildcard at the closest
    /// encloser.
    fn expected(rules: &BTreeMap<(bool, Vec<u8>), u32>, asked: &[u8]) -> Option<u32> {
        let is_there = |name: &[u8]| rules.keys().any(|(_, owner)| name::is_under(owner, name));
        if is_there(asked) {
            return rules.get(&(false, asked.to_vec())).copied();
        }
        let encloser = name::ancestors(asked).skip(1).find(|above| is_there(above));
        rules.get(&(true, encloser?.to_vec())).copied()
    }

    proptest! {
        #[test]
        fn names_are_found_as_in_plain_maps(
            triggers in prop::collection::vec((any::<bool>(), prop::collection::vec(0_u8..3, 0..4)), 0..24),
            asked in prop::collection::vec(prop::collection::vec(0_u8..3, 0..5), 24),
            secret in any::<[u8; 32]>(),
        ) {
            let mut gathering = Gathering::new(HashKey::new(secret));
            let mut rules = BTreeMap::new();
            for (number, (is_wild, labels)) in (0..).zip(&triggers) {
                // A name without labels is no trigger.
                let is_wild = *is_wild || labels.is_empty();
                let name = wire(labels);
                let covers = if is_wild { Covers::Below } else { Covers::Name };
                let known = *rules.entry((is_wild, name.clone())).or_insert(number);
                prop_assert_eq!(gathering.entry((covers, &name), number), known);
            }
            let names = gathering.finish();
            prop_assert_eq!(names.is_empty(), rules.is_empty());
            for labels in asked.iter().chain(triggers.iter().map(|(_, labels)| labels)) {
                let name = wire(labels);
                let found = names.find(&name);
                prop_assert_eq!(found.map(|(number, _)| number), expected(&rules, &name));
                prop_assert!(found.is_none_or(|(_, owner)| name::is_under(&name, owner)));
            }
        }
    }

    #[test]
    fn a_stand_and_its_hash_take_twelve_octets_and_an_eighth_is_free() {
        let mut gathering = Gathering::new(HashKey::default());
        for number in 0..7_000_u32 {
            let name = [&[4][..], &number.to_be_bytes(), &[0]].concat();
            gathering.entry((Covers::Name, &name), number);
        }
        let names = gathering.finish();
        assert_eq!((size_of::<Stand>(), names.places), (4, 8_000));
        assert!(names.hashes.len() < 8_100, "{}", names.hashes.len());
        assert_eq!(names.find(b"\x04\x00\x00\x00\x07\x00"), Some((7, &b"\x04\x00\x00\x00\x07\x00"[..])));
    }
}
