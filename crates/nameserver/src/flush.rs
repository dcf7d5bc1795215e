//! Removes names from the RRset cache.
//!
//! If a policy tests name servers, the answers that depend on a removed delegation or a removed
//! address of a name server are removed too. Otherwise the policy would test a cached answer
//! without this data, and let it pass.

use std::convert::Infallible;

use avocet_cache::{Held, ReadAt, RrsetKey};
use avocet_resolver::DELEGATIONS;
use avocet_wire::{Class, FoldedName, FoldedNameBuf, Rtype};

use crate::name_server::NameServer;
use crate::snapshot::Snapshot;

/// Maximum number of zones that are removed one by one. If more depend on the removed names,
/// everything is removed, because each removal reads the whole cache.
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
    pub fn flush_rrsets(&self, names: &[FoldedName<'_>], extent: FlushExtent) -> usize {
        let state = self.snapshot();
        let mut gone = Gone { names: &[], trees: Vec::new() };
        match extent {
            FlushExtent::Name => gone.names = names,
            FlushExtent::Tree => gone.trees.extend(names.iter().map(|name| name.to_buf())),
        }
        let most = gone.trees.len() + MAX_ZONES;
        if state.policy.as_ref().is_some_and(|policy| policy.tests_name_servers()) {
            self.add_dependents(&state, &mut gone, most);
        }
        if gone.trees.len() > most {
            return self.rrsets.flush(FoldedName::ROOT);
        }
        let removed = gone.names.iter().map(|name| self.rrsets.flush_name(*name)).sum::<usize>();
        removed + gone.trees.iter().map(|tree| self.rrsets.flush(tree.view())).sum::<usize>()
    }

    /// Adds the zones with name servers that are no longer known without these names, then the
    /// zones with name servers that are no longer known without the former, and so on. Stops if
    /// there are more than `most` zones.
    fn add_dependents(&self, state: &Snapshot, gone: &mut Gone<'_>, most: usize) {
        let at = ReadAt { now: self.clock.now().secs(), stale_window: u32::MAX };
        loop {
            let before = gone.trees.len();
            let Ok(()) = self.rrsets.try_visit(at, |key, held| {
                let Held::Rrset(view) = held else { return Ok::<(), Infallible>(()) };
                let is_full = gone.trees.len() > most;
                if is_full || gone.has_tree_above(key.owner) || !is_tested(state, key) {
                    return Ok(());
                }
                let servers = view.records().filter_map(|name| FoldedNameBuf::from_wire(name).ok());
                if gone.has(key.owner) || { servers }.any(|server| gone.has(server.view())) {
                    gone.trees.push(key.owner.to_buf());
                }
                Ok(())
            });
            if gone.trees.len() == before || gone.trees.len() > most {
                return;
            }
        }
    }
}

/// What a flush removes: single names, and names with all names below.
struct Gone<'a> {
    names: &'a [FoldedName<'a>],
    trees: Vec<FoldedNameBuf>,
}

impl Gone<'_> {
    fn has(&self, name: FoldedName<'_>) -> bool {
        self.names.contains(&name) || self.has_tree_above(name)
    }

    fn has_tree_above(&self, name: FoldedName<'_>) -> bool {
        self.trees.iter().any(|tree| name.is_at_or_below(tree.view()))
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
