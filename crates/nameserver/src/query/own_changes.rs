//! The latest changes of the server's own names. They show which cached answers of other servers
//! are still valid.
//!
//! An answer in the packet cache may depend on whether a name is this server's own: the QNAME, or
//! the target of an alias in it. A change of the local records or zones is recorded here with the
//! changed names, so that it invalidates the answers that depend on these names and no others.

use std::collections::HashMap;

use avocet_wire::{FoldedName, name};

/// Maximum number of recorded names, including the ancestors of changed names. Each name takes some
/// hundred octets, and is copied at every change. If the limit is exceeded, all names are
/// discarded, and every earlier answer counts as affected.
const MAX_CHANGED_NAMES: usize = 16_384;

/// A changed name, and the names that the change affects.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ChangedName {
    /// The name, in wire form and lower case.
    pub(super) name: Box<[u8]>,
    /// The names that the change affects.
    pub(super) reach: Reach,
}

/// The names that a change of one name affects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reach {
    /// The name and its ancestors, because the existence of the ancestors may depend on the name.
    Name,
    /// The name, its ancestors, and the names below it, which a zone or a wildcard answers.
    Tree,
}

/// The recent changes of the server's own names.
#[derive(Clone, Debug, Default)]
pub(super) struct NameChanges {
    noted: HashMap<Box<[u8]>, LastChange>,
    /// The number of the last change after which the recorded names were discarded. Answers from
    /// before this change count as affected.
    forgotten: u32,
}

/// For one name, the numbers of the last changes of the name and of names around it; 0 if there was
/// no change.
#[derive(Clone, Copy, Default, Debug)]
struct LastChange {
    /// The last change of the name itself.
    at: u32,
    /// The last change of the name and all names below it.
    tree: u32,
    /// The last change of a name below this name.
    below: u32,
}

impl NameChanges {
    /// Copies these changes and adds the names of the next change, which has this number.
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

    /// Returns whether an answer that depends on this name may have changed after the change with
    /// the number `since`.
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
