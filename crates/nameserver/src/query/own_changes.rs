//! What became of own names lately: which answers that other servers gave before still hold.
//!
//! An answer in the packet cache may rest on a name being this server's own, or on its not being
//! so: its question's name, or one that an alias in it leads to. A change of the local records or
//! zones is noted here by its names, so it ends the answers that rest on these names and no others.

use std::collections::HashMap;

use avocet_wire::{FoldedName, name};

/// Most names that are noted, those above changed names included: some hundred octets each, copied
/// with every change. Past that, all are forgotten, and no answer from before counts as untouched.
const MAX_CHANGED_NAMES: usize = 16_384;

/// A name whose answer may be another one now.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ChangedName {
    /// The name, in wire form and lower case.
    pub(super) name: Box<[u8]>,
    /// How far it reaches.
    pub(super) reach: Reach,
}

/// Which names a change affects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reach {
    /// The name, and names above it, which exist or not because of it.
    Name,
    /// Names below it, too: those that a zone or a wildcard answers for.
    Tree,
}

/// The changes of own names.
#[derive(Clone, Debug, Default)]
pub(super) struct NameChanges {
    noted: HashMap<Box<[u8]>, LastChange>,
    /// The change up to which nothing is noted.
    forgotten: u32,
}

/// The numbers of the last changes that concern a name; 0 if there was none.
#[derive(Clone, Copy, Default, Debug)]
struct LastChange {
    /// Of the name.
    at: u32,
    /// Of the name and all below it.
    tree: u32,
    /// Of a name below it.
    below: u32,
}

impl NameChanges {
    /// Returns these changes and those of a later number.
    pub(super) fn with(&self, changed: Vec<ChangedName>, number: u32) -> Self {
        let mut changes = self.clone();
        for ChangedName { name, reach } in changed {
            for above in name::ancestors(&name).skip(1) {
                changes.entry(above).below = number;
            }
            let change = changes.entry(&name);
            change.at = number;
            if reach == Reach::Tree {
                change.tree = number;
            }
            if changes.noted.len() > MAX_CHANGED_NAMES {
                return Self { noted: HashMap::new(), forgotten: number };
            }
        }
        changes
    }

    /// Reports whether the answer for this name may have changed after this number.
    pub(super) fn affect(&self, name: FoldedName<'_>, since: u32) -> bool {
        let is_later = |of: fn(&LastChange) -> u32, name: FoldedName<'_>| {
            self.noted.get(name.wire()).is_some_and(|change| of(change) > since)
        };
        since < self.forgotten
            || is_later(|change| change.at.max(change.below), name)
            || name.ancestors().any(|above| is_later(|change| change.tree, above))
    }

    fn entry(&mut self, name: &[u8]) -> &mut LastChange {
        self.noted.entry(name.into()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::special::wire;
    use super::*;

    fn folded(wire: &[u8]) -> FoldedName<'_> {
        FoldedName::new(wire).unwrap()
    }

    fn changed(name: &str, reach: Reach) -> ChangedName {
        ChangedName { name: wire(name), reach }
    }

    #[test]
    fn a_change_affects_its_names_and_nothing_from_after_it() {
        let changes = NameChanges::default()
            .with(vec![changed("nas.lan", Reach::Name)], 5)
            .with(vec![changed("corp.example", Reach::Tree)], 7);
        let check = |name: &str, [at_4, at_5, at_7]: [bool; 3]| {
            let affected = [4, 5, 7].map(|since| changes.affect(folded(&wire(name)), since));
            assert_eq!(affected, [at_4, at_5, at_7], "{name}");
        };
        check("nas.lan", [true, false, false]);
        check("lan", [true, false, false]);
        check("a.nas.lan", [false, false, false]);
        check("tv.lan", [false, false, false]);
        check("corp.example", [true, true, false]);
        check("a.b.corp.example", [true, true, false]);
        check("example", [true, true, false]);
        check("xcorp.example", [false, false, false]);
    }

    #[test]
    fn with_too_many_changes_all_from_before_is_affected() {
        let many = |from: usize| {
            (from..from + MAX_CHANGED_NAMES / 2)
                .map(|number| changed(&format!("n{number}.lan"), Reach::Name))
        };
        let changes = NameChanges::default().with(many(0).collect(), 2);
        assert!(!changes.affect(folded(&wire("other.example")), 1));
        let changes = changes.with(many(MAX_CHANGED_NAMES).collect(), 3);
        assert!(changes.affect(folded(&wire("other.example")), 2));
        assert!(!changes.affect(folded(&wire("other.example")), 3));
        assert!(changes.noted.len() <= MAX_CHANGED_NAMES);
    }
}
