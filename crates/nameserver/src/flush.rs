//! Removes names from the RRset cache.
//!
//! If a policy tests name servers, the answers that depend on a removed delegation or a removed
//! address of a name server are removed too. Otherwise the policy would test a cached answer
//! without this data, and let it pass.

use std::convert::Infallible;

use avocet_cache::{Held, ReadAt, RrsetKey};
use avocet_resolver::DELEGATIONS;
use avocet_wire::suffix::SuffixMap;
use avocet_wire::{Class, FoldedName, FoldedNameBuf, Rtype};

use crate::name_server::NameServer;
use crate::snapshot::Snapshot;

/// Maximum number of zones that are removed one by one. If there are more, everything is removed,
/// because each removal reads the whole cache.
const MAX_ZONES: usize = 16;
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
    /// With more than 16 zones to remove, removes everything: the number of times that the cache is
    /// read does not grow with the number of names.
    pub fn flush_rrsets(&self, names: &[FoldedName<'_>], extent: FlushExtent) -> usize {
        let (names, trees) = match extent {
            FlushExtent::Name => (names, &[][..]),
            FlushExtent::Tree => (&[][..], names),
        };
        let trees = match self.trees_to_flush(names, trees) {
            Trees::All => return self.rrsets.flush(FoldedName::ROOT),
            Trees::These(trees) => trees,
        };
        let removed = names.iter().map(|name| self.rrsets.flush_name(*name)).sum::<usize>();
        removed + trees.iter().map(|tree| self.rrsets.flush(tree.view())).sum::<usize>()
    }

    /// Removes the failures of resolution at and below these names. If there are more than 16
    /// names, removes all failures, which are forgotten within minutes anyway.
    pub fn flush_failures(&self, names: &[FoldedName<'_>]) {
        match names.len() {
            0..=MAX_ZONES => names.iter().for_each(|name| self.failures.flush(*name)),
            _ => self.failures.flush(FoldedName::ROOT),
        }
    }

    /// Returns the zones to remove with all names below: those of `trees` that have entries, and
    /// those that depend on `names` or `trees`.
    fn trees_to_flush(&self, names: &[FoldedName<'_>], trees: &[FoldedName<'_>]) -> Trees {
        if trees.contains(&FoldedName::ROOT) {
            return Trees::All;
        }
        let state = self.snapshot();
        let of_trees = trees.iter().map(|tree| (tree.wire().into(), ()));
        let mut gone = Gone { names, trees: of_trees.collect(), dependents: Vec::new() };
        if state.policy.as_ref().is_some_and(|policy| policy.tests_name_servers()) {
            self.add_dependents(&state, &mut gone);
        }
        let left = MAX_ZONES.checked_sub(gone.dependents.len());
        let Some((left, mut to_flush)) = left.map(|left| (left, gone.dependents)) else {
            return Trees::All;
        };
        match trees {
            [] => {}
            [tree] => to_flush.push(tree.to_buf()),
            _ => match self.zones_with_entries(&gone.trees, left) {
                Some(zones) => to_flush.extend(zones),
                None => return Trees::All,
            },
        }
        Trees::These(to_flush)
    }

    /// Reads the cache once, and returns the zones that have entries; `None` if there are more than
    /// `most`. The zones below another one of these zones count, too.
    fn zones_with_entries(&self, zones: &SuffixMap<()>, most: usize) -> Option<Vec<FoldedNameBuf>> {
        let mut found: Vec<FoldedNameBuf> = Vec::new();
        let all = self.rrsets.try_visit(self.with_outlived_entries(), |key, _| {
            let zone = zones.nearest(key.owner.wire()).and_then(|(zone, ())| FoldedName::new(zone));
            let zone = zone.map(FoldedName::to_buf);
            if let Some(zone) = zone.filter(|zone| !found.contains(zone)) {
                found.push(zone);
            }
            if found.len() > most { Err(()) } else { Ok(()) }
        });
        all.ok().map(|()| found)
    }

    fn with_outlived_entries(&self) -> ReadAt {
        ReadAt { now: self.clock.now().secs(), stale_window: u32::MAX }
    }

    /// Adds the zones with name servers that are no longer known without these names, then the
    /// zones with name servers that are no longer known without the former, and so on. Stops if
    /// there are more than [`MAX_ZONES`].
    fn add_dependents(&self, state: &Snapshot, gone: &mut Gone<'_>) {
        loop {
            let before = gone.dependents.len();
            let Ok(()) = self.rrsets.try_visit(self.with_outlived_entries(), |key, held| {
                let Held::Rrset(view) = held else { return Ok::<(), Infallible>(()) };
                let is_full = gone.dependents.len() > MAX_ZONES;
                if is_full || gone.has_tree_above(key.owner) || !is_tested(state, key) {
                    return Ok(());
                }
                let servers = view.records().filter_map(|name| FoldedNameBuf::from_wire(name).ok());
                if gone.has(key.owner) || { servers }.any(|server| gone.has(server.view())) {
                    gone.dependents.push(key.owner.to_buf());
                }
                Ok(())
            });
            if gone.dependents.len() == before || gone.dependents.len() > MAX_ZONES {
                return;
            }
        }
    }
}

/// The zones that a flush removes with all names below.
#[derive(Debug, PartialEq, Eq)]
enum Trees {
    /// The whole cache.
    All,
    /// These zones.
    These(Vec<FoldedNameBuf>),
}

/// What a flush removes: single names, and names with all names below.
struct Gone<'a> {
    names: &'a [FoldedName<'a>],
    trees: SuffixMap<()>,
    /// Zones that depend on the others; at most one more than [`MAX_ZONES`].
    dependents: Vec<FoldedNameBuf>,
}

impl Gone<'_> {
    fn has(&self, name: FoldedName<'_>) -> bool {
        self.names.contains(&name) || self.has_tree_above(name)
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

    /// Checks which zones a flush of many zones removes if these have entries, and that only their
    /// entries are removed unless all are.
    #[track_caller]
    fn check(with_entries: &[usize], expected: &Trees) {
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
        let mut trees = shared.trees_to_flush(&[], &zones);
        if let Trees::These(trees) = &mut trees {
            trees.sort_by(|one, other| one.wire().cmp(other.wire()));
        }
        assert_eq!(trees, *expected);
        let others = usize::from(*expected == Trees::All);
        let removed = shared.flush_rrsets(&zones, FlushExtent::Tree);
        assert_eq!(removed, 2 * with_entries.len() + others);
        assert_eq!(shared.rrsets.flush(FoldedName::ROOT), 1 - others);
    }

    #[test]
    fn a_flush_of_many_zones_reads_the_cache_a_few_times() {
        check(&[], &Trees::These(Vec::new()));
        check(&[3, 1_999], &Trees::These(vec![zone(3), zone(1_999)]));
        let many: Vec<usize> = (0..=MAX_ZONES).collect();
        check(&many[1..], &Trees::These(many[1..].iter().copied().map(zone).collect()));
        check(&many, &Trees::All);
    }
}
