//! The pools of the configuration in force, with the health of their addresses. Workers read them.
//!
//! The health is in atomic words that one thread of the server writes and all workers read. The
//! health is not part of a snapshot, because a failed host must disappear from answers at once,
//! even while a reload delays other changes. Answers with addresses of a pool are never cached.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use avocet_config::name::shown;
use avocet_config::pool::PoolConfig;
use avocet_wire::suffix::SuffixMap;
use avocet_wire::{FoldedName, name};
use avocet_zone::HostedZones;
use avocet_zone::pool::PoolMasks;

/// The pools by name.
#[derive(Debug, Default)]
pub struct Pools {
    pools: SuffixMap<Arc<LivePool>>,
    /// Ancestors of the pools' names, except the root: these names exist (RFC 8020).
    above: HashSet<Box<[u8]>>,
}

/// A pool with the health of its addresses.
#[derive(Debug)]
pub struct LivePool {
    /// The configuration of the pool.
    pub config: PoolConfig,
    /// The healthy addresses; see [`PoolMasks`].
    healthy: AtomicU64,
    drained: AtomicU64,
    present: AtomicU64,
}

/// Returns a sentence about a pool whose zone has an alias at its name, or delegates the name.
#[must_use]
pub fn hidden_text(name: &[u8]) -> String {
    let name = shown(name);
    format!(
        "the pool {name} has no effect: its zone has a CNAME record at this name, a DNAME record \
         above it, or delegates the name to other servers"
    )
}

impl LivePool {
    fn new(config: PoolConfig, masks: PoolMasks) -> Self {
        let PoolMasks { healthy, drained, present } = masks;
        Self { config, healthy: healthy.into(), drained: drained.into(), present: present.into() }
    }

    /// Returns the sets of addresses for an answer. The sets are written one after another, so an
    /// answer during a change may combine an old set with a new set. Each address in the answer was
    /// usable before or after the change.
    #[inline]
    pub fn masks(&self) -> PoolMasks {
        PoolMasks {
            healthy: self.healthy.load(Ordering::Acquire),
            drained: self.drained.load(Ordering::Acquire),
            present: self.present.load(Ordering::Acquire),
        }
    }

    /// Publishes new sets to all workers.
    pub fn publish(&self, masks: PoolMasks) {
        self.present.store(masks.present, Ordering::Release);
        self.drained.store(masks.drained, Ordering::Release);
        self.healthy.store(masks.healthy, Ordering::Release);
    }

    /// Returns the sets for a new configuration of the pool, in which an address keeps its health.
    fn masks_for(&self, config: &PoolConfig) -> PoolMasks {
        let (now, mut masks) = (self.masks(), PoolMasks::default());
        for (position, member) in config.rule.members.iter().enumerate() {
            let mut old = self.config.rule.members.iter();
            let bit = 1 << position;
            let old = old.position(|old| old.address == member.address).map(|at| 1 << at);
            let has = |set: u64| old.is_some_and(|old: u64| set & old != 0);
            masks.healthy |= if old.is_none() || has(now.healthy) { bit } else { 0 };
            masks.drained |= if has(now.drained) { bit } else { 0 };
            masks.present |= if old.is_none() || has(now.present) { bit } else { 0 };
        }
        masks
    }
}

impl Pools {
    /// Creates the pools of a configuration. An address keeps the health that it has in `before`.
    pub fn of(configured: &[PoolConfig], before: &Self) -> Self {
        let live = |config: &PoolConfig| match before.get(&config.name) {
            Some(pool) if pool.config == *config => pool.clone(),
            Some(pool) => Arc::new(LivePool::new(config.clone(), pool.masks_for(config))),
            None => {
                let masks = PoolMasks::unknown(config.rule.members.len());
                Arc::new(LivePool::new(config.clone(), masks))
            }
        };
        let above = configured.iter().flat_map(|pool| name::ancestors(&pool.name).skip(1));
        Self {
            above: above.filter(|name| name.len() > 1).map(Box::from).collect(),
            pools: configured.iter().map(|config| (config.name.clone(), live(config))).collect(),
        }
    }

    /// Returns whether there is no pool.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Returns the pool with this folded name.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&Arc<LivePool>> {
        if self.pools.is_empty() { None } else { self.pools.get(name) }
    }

    /// Returns whether a pool answers for a name. An alias of these zones precedes it.
    pub fn answer(&self, name: FoldedName<'_>, zones: &HostedZones) -> bool {
        self.get(name.wire()).is_some() && !zones.leads_elsewhere(name)
    }

    /// Returns all pools, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<LivePool>> {
        self.pools.iter().map(|(_, pool)| pool)
    }

    /// Returns whether names below this name are pools.
    pub fn has_below(&self, name: &[u8]) -> bool {
        self.above.contains(name)
    }

    /// Returns the names of the pools that are in only one of the two sets of pools.
    pub fn changed_to(&self, next: &Self) -> Vec<Box<[u8]>> {
        let only = |one: &Self, other: &Self| -> Vec<Box<[u8]>> {
            let names = one.iter().map(|pool| &pool.config.name);
            names.filter(|name| other.get(name).is_none()).cloned().collect()
        };
        [only(self, next), only(next, self)].concat()
    }
}
