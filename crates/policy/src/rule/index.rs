//! An index from a name to the rules that require this name or an ancestor of it.

use std::collections::HashMap;
use std::ops::Range;

use avocet_wire::name;
use avocet_wire::suffix::SuffixMap;

use super::tree::{NameKey, Reach};

/// A rule that may match, and the tests that remain to be made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Candidate {
    /// The index of the rule.
    pub(super) rule: u32,
    /// The index of a condition on the client that must hold, or [`Candidate::ANYBODY`].
    pub(super) client: u32,
    /// The index of the first step of the code that tests the rest.
    pub(super) code: u32,
    pub(super) role: Role,
}

impl Candidate {
    pub(super) const ANYBODY: u32 = u32::MAX;
}

/// The effect of a match.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Role {
    /// The rule decides.
    Decides,
    /// The rule decides, unless filtering is suspended.
    Filters,
    /// The rule is noted, and the search continues.
    Noted,
}

/// The rules that require a name, by this name.
pub(super) struct NameIndex {
    names: SuffixMap<Reached>,
    candidates: Vec<Candidate>,
}

/// The nearest indexed name of a name: the name itself or its closest indexed ancestor, with the
/// candidates.
pub(super) struct Nearest<'n, 'i> {
    above: &'n [u8],
    reached: &'i Reached,
    /// Whether the nearest indexed name is the name itself.
    is_whole: bool,
}

/// The candidates of an indexed name: those that also apply to the names below it, and those for
/// the name itself only.
struct Reached {
    under: Range<u32>,
    exact: Range<u32>,
}

impl NameIndex {
    /// Builds the index. Candidates must be in the order of their rules.
    pub(super) fn build(pairs: &[(NameKey, Candidate)]) -> Self {
        let mut by_name: HashMap<&[u8], [Vec<Candidate>; 2]> = HashMap::new();
        for (key, candidate) in pairs {
            let lists = by_name.entry(&key.name).or_default();
            lists[usize::from(key.reach == Reach::Exact)].push(*candidate);
        }
        let mut names: Vec<_> = by_name.into_iter().collect();
        names.sort_unstable_by(|a, b| a.0.cmp(b.0));
        let mut candidates = Vec::new();
        let mut append = |mut list: Vec<Candidate>| {
            list.sort_by_key(|candidate| candidate.rule);
            list.dedup();
            let start = candidates.len() as u32;
            candidates.extend(list);
            start..candidates.len() as u32
        };
        let reached = |(name, [under, exact]): (&[u8], [Vec<Candidate>; 2])| {
            (Box::from(name), Reached { under: append(under), exact: append(exact) })
        };
        let names = names.into_iter().map(reached).collect();
        Self { names, candidates }
    }

    /// Reports whether the index has no names.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the nearest indexed name, the name itself or an ancestor, for
    /// [`NameIndex::for_each`].
    #[inline]
    pub(super) fn nearest<'n>(&self, name: &'n [u8]) -> Option<Nearest<'n, '_>> {
        self.names.nearest(name).map(|(above, reached)| Nearest {
            above,
            reached,
            is_whole: above.len() == name.len(),
        })
    }

    /// Calls `take` with the candidates for a name and for each of its ancestors. Longer names come
    /// first.
    #[inline]
    pub(super) fn for_each(&self, nearest: &Nearest<'_, '_>, mut take: impl FnMut(&[Candidate])) {
        take(self.list(&nearest.reached.under));
        if nearest.is_whole {
            take(self.list(&nearest.reached.exact));
        }
        if let Some(rest) = name::parent(nearest.above) {
            self.names.for_each_above(rest, |_, reached| take(self.list(&reached.under)));
        }
    }

    #[inline]
    fn list(&self, range: &Range<u32>) -> &[Candidate] {
        &self.candidates[range.start as usize..range.end as usize]
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
        let mut rules = Vec::new();
        if let Some(nearest) = index.nearest(&name) {
            index.for_each(&nearest, |list| {
                rules.extend(list.iter().map(|candidate| candidate.rule))
            });
        }
        rules.sort_unstable();
        rules
    }

    fn build(keys: &[(&str, Reach)]) -> NameIndex {
        let pair = |(rule, (name, reach)): (usize, &(&str, Reach))| {
            let candidate =
                Candidate { rule: rule as u32, client: 0, code: 0, role: Role::Decides };
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
