//! Cached ends of chains of trust: the keys of zones, or the reasons why zones have none.

use avocet_wire::FoldedName;
use avocet_wire::hash::DrawnHashKey;
use std::collections::{HashMap, VecDeque};

use super::rrset::Name;
use crate::validation::Chain;

/// Maximum number of zones in each resolver. With keys of usual sizes, a zone takes about 2 kB.
const MAX_ZONES: usize = 8_192;

/// The cached keys of zones, or the reasons why zones have none, by zone.
#[derive(Debug, Default)]
pub(crate) struct KeyCache {
    zones: HashMap<Name, Kept, DrawnHashKey>,
    /// The zones, in the order in which they are considered for eviction.
    order: VecDeque<Name>,
}

#[derive(Debug)]
struct Kept {
    chain: Chain,
    until_ms: u64,
    /// Whether the entry was used since it was inserted, or since the last eviction passed it over.
    used: bool,
}

impl KeyCache {
    pub(crate) fn get(&mut self, zone: FoldedName<'_>, now_ms: u64) -> Option<Chain> {
        let kept = self.zones.get_mut(zone.wire()).filter(|kept| now_ms < kept.until_ms)?;
        kept.used = true;
        Some(kept.chain.clone())
    }

    /// Returns the entry of the nearest zone at or above a name that has one, with the length of
    /// the zone's name.
    pub(crate) fn nearest(&mut self, name: FoldedName<'_>, now_ms: u64) -> Option<(usize, Chain)> {
        name.ancestors().find_map(|zone| Some((zone.len(), self.get(zone, now_ms)?)))
    }

    pub(crate) fn insert(&mut self, zone: Name, chain: Chain, until_ms: u64) {
        if self.zones.insert(zone.clone(), Kept { chain, until_ms, used: false }).is_some() {
            return;
        }
        self.order.push_back(zone);
        if self.order.len() > MAX_ZONES {
            self.evict();
        }
    }

    /// Removes the first zone that was not used since the last eviction. Zones that an attacker
    /// queries once thus do not displace zones that are in use.
    fn evict(&mut self) {
        while let Some(first) = self.order.pop_front() {
            match self.zones.get_mut(&first) {
                Some(kept) if kept.used => {
                    kept.used = false;
                    self.order.push_back(first);
                }
                _ => {
                    self.zones.remove(&first);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iterate::rrset::name_of;
    use avocet_dnssec::Reason;

    #[test]
    fn chains_end_in_time_and_the_oldest_give_way_that_were_not_used() {
        let mut keys = KeyCache::default();
        let zone = |number: usize| -> Name {
            name_of(&[&[5], format!("{number:05}").as_bytes(), &[0]].concat())
        };
        for number in 0..=MAX_ZONES {
            keys.insert(zone(number), Err(Reason::NoAnchor), 1_000);
        }
        assert!(keys.get(zone(0).view(), 0).is_none());
        assert!(
            keys.get(zone(1).view(), 999).is_some() && keys.get(zone(1).view(), 1_000).is_none()
        );
        keys.insert(zone(MAX_ZONES + 1), Err(Reason::NoAnchor), 1_000);
        assert!(
            keys.get(zone(1).view(), 999).is_some() && keys.get(zone(2).view(), 999).is_none(),
            "one in use is spared"
        );
        assert_eq!((keys.zones.len(), keys.order.len()), (MAX_ZONES, MAX_ZONES));
    }
}
