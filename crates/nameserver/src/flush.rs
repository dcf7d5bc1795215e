//! Removes names from the RRset cache.
//!
//! If a policy tests name servers, the answers that depend on a removed delegation or a removed
//! address of a name server are removed too. Otherwise the policy would test a cached answer
//! without this data, and let it pass.

use std::collections::HashSet;
use std::convert::Infallible;

use avocet_cache::{Held, ReadAt, RrsetKey};
use avocet_resolver::DELEGATIONS;
use avocet_wire::suffix::SuffixMap;
use avocet_wire::{Class, FoldedName, FoldedNameBuf, Rtype, name};

use crate::name_server::NameServer;
use crate::snapshot::Snapshot;

/// Maximum number of zones that are removed because their name servers are no longer known. If
/// there are more, everything is removed, because each may take another reading of the whole cache.
const MAX_DEPENDENTS: usize = 16;
/// Minimum number of labels of a delegated zone with name servers that a policy tests.
const MIN_LABELS: usize = 2;

/// The names that a flush removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushExtent {
    /// The name itself.
    Name,
    /// The name and all names below it.
    Tree,
}

impl NameServer {
    /// Removes the RRsets and denials of these names. If the policy tests name servers, also
    /// removes the zones that have such a name as a name server, or are delegated at such a name,
    /// with all names below. Returns the number of removed entries.
    ///
    /// Reads the cache once to remove all of them. With more than 16 zones that depend on name
    /// servers, removes everything.
    pub fn flush_rrsets(&self, names: &[FoldedName<'_>], extent: FlushExtent) -> usize {
        let (names, trees) = match extent {
            FlushExtent::Name => (names, &[][..]),
            FlushExtent::Tree => (&[][..], names),
        };
        let Some(gone) = self.gone(names, trees) else {
            return self.rrsets.flush(FoldedName::ROOT);
        };
        let dependents = gone.dependents.iter().map(|tree| (tree.wire().into(), ()));
        let dependents: SuffixMap<()> = dependents.collect();
        let above: HashSet<&[u8]> =
            names.iter().flat_map(|name| name::ancestors(name.wire())).collect();
        self.rrsets.flush_where(|owner, denies| {
            gone.names.contains(owner)
                || denies && above.contains(owner)
                || gone.trees.nearest(owner).is_some()
                || dependents.nearest(owner).is_some()
        })
    }

    /// Removes the failures of resolution at and below these names.
    pub fn flush_failures(&self, names: &[FoldedName<'_>]) {
        let trees: SuffixMap<()> = names.iter().map(|name| (name.wire().into(), ())).collect();
        self.failures.flush_where(|qname| trees.nearest(qname).is_some());
    }

    /// Returns what a flush of `names`, and of `trees` with all names below, removes; `None` if it
    /// removes everything.
    fn gone<'a>(&self, names: &[FoldedName<'a>], trees: &[FoldedName<'_>]) -> Option<Gone<'a>> {
        if trees.contains(&FoldedName::ROOT) {
            return None;
        }
        let state = self.snapshot();
        let names = names.iter().map(|name| name.wire()).collect();
        let of_trees = trees.iter().map(|tree| (tree.wire().into(), ()));
        let mut gone = Gone { names, trees: of_trees.collect(), dependents: Vec::new() };
        if state.policy.as_ref().is_some_and(|policy| policy.tests_name_servers()) {
            self.add_dependents(&state, &mut gone);
        }
        (gone.dependents.len() <= MAX_DEPENDENTS).then_some(gone)
    }

    fn with_outlived_entries(&self) -> ReadAt {
        ReadAt { now: self.clock.now().secs(), stale_window: u32::MAX }
    }

    /// Adds the zones with name servers that are no longer known without the removed names. Repeats
    /// this for the names of the added zones until no further zone is found. Stops if there are
    /// more than [`MAX_DEPENDENTS`].
    fn add_dependents(&self, state: &Snapshot, gone: &mut Gone<'_>) {
        loop {
            let before = gone.dependents.len();
            let Ok(()) = self.rrsets.try_visit(self.with_outlived_entries(), |key, held| {
                let Held::Rrset(view) = held else { return Ok::<(), Infallible>(()) };
                let is_full = gone.dependents.len() > MAX_DEPENDENTS;
                if is_full || gone.has_tree_above(key.owner) || !is_tested(state, key) {
                    return Ok(());
                }
                let servers = view.records().filter_map(|name| FoldedNameBuf::from_wire(name).ok());
                if gone.has(key.owner) || { servers }.any(|server| gone.has(server.view())) {
                    gone.dependents.push(key.owner.to_buf());
                }
                Ok(())
            });
            if gone.dependents.len() == before || gone.dependents.len() > MAX_DEPENDENTS {
                return;
            }
        }
    }
}

/// What a flush removes: single names, and names with all names below.
struct Gone<'a> {
    names: HashSet<&'a [u8]>,
    trees: SuffixMap<()>,
    /// Zones that depend on the others; at most one more than [`MAX_DEPENDENTS`].
    dependents: Vec<FoldedNameBuf>,
}

impl Gone<'_> {
    fn has(&self, name: FoldedName<'_>) -> bool {
        self.names.contains(name.wire()) || self.has_tree_above(name)
    }

    fn has_tree_above(&self, name: FoldedName<'_>) -> bool {
        self.trees.nearest(name.wire()).is_some()
            || self.dependents.iter().any(|tree| name.is_at_or_below(tree.view()))
    }
}

/// Returns whether an RRset has the name servers of a zone as policies test them
/// ([`avocet_resolver::NameServers`]): a delegation, or the NS records of a stub zone.
fn is_tested(state: &Snapshot, key: &RrsetKey<'_>) -> bool {
    let is_stub = || state.config.stubs.iter().any(|stub| *stub.zone == *key.owner.wire());
    key.rtype == Rtype::NS.0
        && match key.class {
            DELEGATIONS => key.owner.labels().count() >= MIN_LABELS,
            class => class == Class::IN.0 && is_stub(),
        }
}

#[cfg(test)]
mod tests {
    use crate::in_process::InProcess;

    use super::*;

    const CONFIGURATION: &str = "[cache]\npacket-bytes = \"1MiB\"\nrrset-bytes = \"1MiB\"\n";

    fn zone(number: usize) -> FoldedNameBuf {
        let label = format!("z{number:05}");
        FoldedNameBuf::from_wire(&[b"\x06", label.as_bytes(), b"\x04test\0"].concat()).unwrap()
    }

    /// Checks that a flush of many zones removes the entries of the zones that have some, and no
    /// others.
    #[track_caller]
    fn check(with_entries: &[usize]) {
        let server = InProcess::new(CONFIGURATION, ([192, 0, 2, 1], 4000).into()).unwrap();
        for number in with_entries {
            let below = [b"\x03www", zone(*number).wire()].concat();
            server.learn(&below, Rtype::A.0, 300, &[&[192, 0, 2, 7]]);
            server.learn(zone(*number).wire(), Rtype::A.0, 300, &[&[192, 0, 2, 7]]);
        }
        server.learn(b"\x05other\x04test\0", Rtype::A.0, 300, &[&[192, 0, 2, 7]]);
        let zones: Vec<_> = (0..2_000).map(zone).collect();
        let zones: Vec<_> = zones.iter().map(FoldedNameBuf::view).collect();
        let shared = server.shared();
        let removed = shared.flush_rrsets(&zones, FlushExtent::Tree);
        assert_eq!(removed, 2 * with_entries.len());
        assert_eq!(shared.rrsets.flush(FoldedName::ROOT), 1);
    }

    #[test]
    fn a_flush_of_many_zones_removes_these_alone() {
        check(&[]);
        check(&[3, 1_999]);
        check(&(0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_flush_of_many_names_removes_these_alone() {
        let server = InProcess::new(CONFIGURATION, ([192, 0, 2, 1], 4000).into()).unwrap();
        for number in 0..100 {
            let below = [b"\x03www", zone(number).wire()].concat();
            server.learn(&below, Rtype::A.0, 300, &[&[192, 0, 2, 7]]);
            server.learn(zone(number).wire(), Rtype::A.0, 300, &[&[192, 0, 2, 7]]);
        }
        let zones: Vec<_> = (0..50).map(zone).collect();
        let zones: Vec<_> = zones.iter().map(FoldedNameBuf::view).collect();
        assert_eq!(server.shared().flush_rrsets(&zones, FlushExtent::Name), 50);
        assert_eq!(server.shared().rrsets.flush(FoldedName::ROOT), 150);
    }
}
