//! From a name to the rules that its own name, or a name above it, may make hold.
//!
//! One pass over the labels from the right gives a hash for each suffix. A suffix that no rule names
//! costs a look into a table, and none at all where no rule names one of so many labels. Names that
//! are found are compared octet by octet, so that a hash never decides.

use std::collections::HashMap;

use avocet_wire::name::labels;

use super::tree::{NameKey, Reach};

/// A rule that may hold, and what is left to ask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Candidate {
    /// The place of the rule.
    pub(super) rule: u32,
    /// A condition on the client that must hold, or [`Candidate::ANYBODY`].
    pub(super) client: u32,
    /// Where the code begins.
    pub(super) code: u32,
    pub(super) role: Role,
}

impl Candidate {
    pub(super) const ANYBODY: u32 = u32::MAX;
}

/// What it means when a rule holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Role {
    /// It decides.
    Decides,
    /// It decides, unless filtering is lifted.
    Filters,
    /// It is noted.
    Noted,
}

/// Whether rules ask where the labels of a name begin, or how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LabelsFor {
    /// Some do.
    Rules,
    /// None does.
    Nobody,
}

/// Where the labels of a name begin.
pub(super) struct Labels {
    starts: [u8; MAX_LABELS],
    count: usize,
}

/// Most labels of a name: each takes two octets at least, and the root one.
const MAX_LABELS: usize = 128;

impl Labels {
    /// Those of the root.
    pub(super) const NONE: Self = Self { starts: [0; MAX_LABELS], count: 0 };

    /// Becomes the labels of a valid name in wire form, if anybody asks for them; of a name that is none,
    /// those that can be read.
    #[inline]
    pub(super) fn read(&mut self, wanted: LabelsFor, name: &[u8]) {
        if wanted == LabelsFor::Nobody {
            return;
        }
        let name = &name[..name.len().min(usize::from(u8::MAX) + 1)];
        let mut at = 0;
        for (count, place) in self.starts.iter_mut().enumerate() {
            self.count = count;
            match name.get(at) {
                None | Some(0) => break,
                Some(&length) => {
                    *place = at as u8;
                    at += 1 + usize::from(length);
                }
            }
        }
    }

    /// How many there are, without the root.
    #[inline]
    pub(super) const fn count(&self) -> usize {
        self.count
    }
}

/// A name of a rule.
struct Entry {
    name: Box<[u8]>,
    /// Candidates for the name and all below it, and for the name alone.
    under: std::ops::Range<u32>,
    exact: std::ops::Range<u32>,
}

/// Rules by the names they need.
pub(super) struct NameIndex {
    /// Open addressing, at most half full: the upper half of the hash, and the entry's place plus one.
    slots: Box<[u64]>,
    entries: Vec<Entry>,
    candidates: Vec<Candidate>,
    /// A bit for each number of labels that a name of a rule has; the last for all greater ones.
    depths: u64,
    deepest: usize,
    /// The names above those of rules: below any other name there is nothing to find.
    above: Above,
}

/// Hashes of names, in one word each: a few others pass as well, which costs time and nothing else.
#[derive(Default)]
struct Above {
    words: Box<[u64]>,
}

impl Above {
    /// Room for the names above so many.
    fn with_room(names: usize) -> Self {
        Self { words: vec![0; (names / 4).next_power_of_two()].into_boxed_slice() }
    }

    fn insert(&mut self, hash: u64) {
        let place = self.place(hash);
        self.words[place] |= 1 << (hash >> 58);
    }

    #[inline]
    fn may_contain(&self, hash: u64) -> bool {
        self.words[self.place(hash)] >> (hash >> 58) & 1 == 1
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        (hash >> 24) as usize & (self.words.len() - 1)
    }
}

impl NameIndex {
    /// Builds the index; candidates come in the order of their rules.
    pub(super) fn build(pairs: &[(NameKey, Candidate)]) -> Self {
        let mut by_name: HashMap<&[u8], [Vec<Candidate>; 2]> = HashMap::new();
        for (key, candidate) in pairs {
            let lists = by_name.entry(&key.name).or_default();
            lists[usize::from(key.reach == Reach::Exact)].push(*candidate);
        }
        let slots = vec![0; (by_name.len() * 2).next_power_of_two().max(2)].into_boxed_slice();
        let above = Above::with_room(by_name.len());
        let (entries, candidates) = (Vec::new(), Vec::new());
        let mut index = Self { slots, entries, candidates, depths: 0, deepest: 0, above };
        let mut names: Vec<_> = by_name.into_iter().collect();
        names.sort_unstable_by(|a, b| a.0.cmp(b.0));
        for (name, [under, exact]) in names {
            let (under, exact) = (index.append(under), index.append(exact));
            index.insert(Entry { name: name.into(), under, exact });
        }
        index
    }

    /// Is there no name at all?
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn append(&mut self, mut list: Vec<Candidate>) -> std::ops::Range<u32> {
        list.sort_by_key(|candidate| candidate.rule);
        list.dedup();
        let start = self.candidates.len() as u32;
        self.candidates.extend(list);
        start..self.candidates.len() as u32
    }

    fn insert(&mut self, entry: Entry) {
        let depth = labels(&entry.name).count();
        self.depths |= 1 << depth.min(63);
        self.deepest = self.deepest.max(depth);
        let mut found = Labels::NONE;
        found.read(LabelsFor::Rules, &entry.name);
        let mut hash = SEED;
        for start in found.starts[..found.count].iter().rev() {
            self.above.insert(hash);
            hash = extend(hash, &entry.name, usize::from(*start));
        }
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.entries.push(entry);
        self.slots[slot] = hash & !0xffff_ffff | self.entries.len() as u64;
    }

    /// Gives the candidates for each suffix of a name, the shortest suffix first.
    #[inline]
    pub(super) fn for_each(&self, name: &[u8], labels: &Labels, mut take: impl FnMut(&[Candidate])) {
        if self.entries.is_empty() {
            return;
        }
        let mut hash = SEED;
        for depth in 0..=labels.count.min(self.deepest) {
            let start = match depth {
                0 => name.len().saturating_sub(1),
                depth => {
                    let start = usize::from(labels.starts[labels.count - depth]);
                    hash = extend(hash, name, start);
                    start
                }
            };
            if self.depths >> depth.min(63) & 1 == 1
                && let Some(entry) = self.find(hash, &name[start..])
            {
                take(self.list(&entry.under));
                if depth == labels.count {
                    take(self.list(&entry.exact));
                }
            }
            if !self.above.may_contain(hash) {
                return;
            }
        }
    }

    #[inline]
    fn list(&self, range: &std::ops::Range<u32>) -> &[Candidate] {
        &self.candidates[range.start as usize..range.end as usize]
    }

    #[inline]
    fn find(&self, hash: u64, name: &[u8]) -> Option<&Entry> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if (slot ^ hash) >> 32 == 0 {
                let entry = &self.entries[(slot as u32 - 1) as usize];
                if *entry.name == *name {
                    return Some(entry);
                }
            }
            at = (at + 1) & mask;
        }
    }
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// The hash of a name from that of its parent: the length octet and the label, eight octets at a time.
/// The names in the table are the owner's, so that nobody who asks can make them collide, and the
/// hash needs no key.
#[inline]
fn extend(hash: u64, name: &[u8], start: usize) -> u64 {
    let end = start + 1 + usize::from(name[start]);
    let (mut hash, mut at) = (hash, start);
    while at < end {
        hash = mix(hash, word(name, at, end - at));
        at += 8;
    }
    hash
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(FACTOR);
    (product as u64 ^ (product >> 64) as u64).wrapping_add(SEED)
}

/// Up to eight octets at `at`. The root is behind every label, so that there are often eight.
#[inline]
fn word(name: &[u8], at: usize, count: usize) -> u64 {
    let keep = if count >= 8 { u64::MAX } else { (1 << (8 * count)) - 1 };
    if let Some(chunk) = name.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        return u64::from_le_bytes(*chunk) & keep;
    }
    match name.last_chunk::<8>() {
        // The last eight octets, without those before `at`.
        Some(chunk) => u64::from_le_bytes(*chunk) >> (8 * (8 - (name.len() - at))) & keep,
        None => name[at..].iter().rev().fold(0, |word, octet| word << 8 | u64::from(*octet)) & keep,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wire(text: &str) -> Box<[u8]> {
        super::super::action::name(text).unwrap()
    }

    fn found(index: &NameIndex, name: &str) -> Vec<u32> {
        let name = wire(name);
        let (mut rules, mut labels) = (Vec::new(), Labels::NONE);
        labels.read(LabelsFor::Rules, &name);
        index.for_each(&name, &labels, |list| rules.extend(list.iter().map(|candidate| candidate.rule)));
        rules.sort_unstable();
        rules
    }

    fn build(keys: &[(&str, Reach)]) -> NameIndex {
        let pair = |(rule, (name, reach)): (usize, &(&str, Reach))| {
            let candidate = Candidate { rule: rule as u32, client: 0, code: 0, role: Role::Decides };
            (NameKey { name: wire(name), reach: *reach }, candidate)
        };
        NameIndex::build(&keys.iter().enumerate().map(pair).collect::<Vec<_>>())
    }

    #[test]
    fn suffixes_and_whole_names_are_found() {
        let keys = [
            (".", Reach::Under),
            ("com", Reach::Under),
            ("example.com", Reach::Exact),
            ("example.com", Reach::Under),
            ("a-label-longer-than-eight.example.com", Reach::Exact),
            (".", Reach::Exact),
        ];
        let index = build(&keys);
        assert_eq!(found(&index, "example.com"), [0, 1, 2, 3]);
        assert_eq!(found(&index, "www.example.com"), [0, 1, 3]);
        assert_eq!(found(&index, "a-label-longer-than-eight.example.com"), [0, 1, 3, 4]);
        assert_eq!(found(&index, "com"), [0, 1]);
        assert_eq!(found(&index, "."), [0, 5]);
        assert!(found(&build(&[]), "example.com").is_empty());
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_keys_say(
            names in prop::collection::vec("[ab]{1,9}(\\.[ab]{1,2}){0,3}", 1..40),
            asked in prop::collection::vec("[ab]{1,9}(\\.[ab]{1,2}){0,4}", 20),
        ) {
            let keys: Vec<(&str, Reach)> = names.iter().enumerate()
                .map(|(n, name)| (name.as_str(), if n % 2 == 0 { Reach::Under } else { Reach::Exact })).collect();
            let index = build(&keys);
            for name in names.iter().chain(&asked) {
                let holds = |(_, (key, reach)): &(usize, &(&str, Reach))| {
                    NameKey { name: wire(key), reach: *reach }.holds(&wire(name))
                };
                let wanted: Vec<u32> = keys.iter().enumerate().filter(holds).map(|(n, _)| n as u32).collect();
                prop_assert_eq!(found(&index, name), wanted);
            }
        }
    }
}
