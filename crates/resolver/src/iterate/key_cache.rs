//! Ends of chains of trust that were found: the keys of zones, and zones that have none.

use std::collections::{HashMap, VecDeque};

use super::rrset::Name;
use super::trust::Chain;

/// Most zones, in each resolver; with keys of usual sizes some 2 kB each.
const MAX_ZONES: usize = 8_192;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct KeyCache {
    zones: HashMap<Name, (Chain, u64)>,
    /// Zones from the one that was put in first.
    order: VecDeque<Name>,
}

impl KeyCache {
    pub(crate) fn get(&self, zone: &[u8], now_ms: u64) -> Option<Chain> {
        let (chain, until_ms) = self.zones.get(zone)?;
        (now_ms < *until_ms).then(|| chain.clone())
    }

    pub(crate) fn insert(&mut self, zone: Name, chain: Chain, until_ms: u64) {
        if self.zones.insert(zone.clone(), (chain, until_ms)).is_some() {
            return;
        }
        self.order.push_back(zone);
        if self.order.len() > MAX_ZONES
            && let Some(first) = self.order.pop_front()
        {
            self.zones.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_dnssec::Reason;

    #[test]
    fn chains_end_in_time_and_the_oldest_give_way() {
        let mut keys = KeyCache::default();
        let zone = |number: usize| -> Name { [&[2][..], &(number as u16).to_be_bytes(), &[0]].concat().into() };
        for number in 0..=MAX_ZONES {
            keys.insert(zone(number), Err(Reason::NoAnchor), 1_000);
        }
        assert!(keys.get(&zone(0), 0).is_none());
        assert!(keys.get(&zone(1), 999).is_some() && keys.get(&zone(1), 1_000).is_none());
        assert_eq!(keys.zones.len(), MAX_ZONES);
    }
}
