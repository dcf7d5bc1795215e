//! Roll-overs of keys in virtual time: at every step, a validator with any mixture of what caches
//! may hold finds the zone secure. The parent, the secondaries and the clock are random.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

use avocet_dnssec::signing::SigningAlgorithm::{self, EcdsaP256Sha256, Ed25519};
use avocet_zone::sign::timeline::{
    KeyFacts, KeyPhase, KeyPolicy, KeyRole, KeyScheme, KeyTimeline, KeyUse, MAX_ZONE_KEYS,
    ParentDs, TimedKey,
};
use proptest::prelude::*;

const DAY: u64 = 86_400;
const START: u64 = 1_800_000_000;

/// A version of the zone, and of the parent's DS records, each with its first second.
struct World {
    policy: KeyPolicy,
    max_ttl_secs: u32,
    timeline: KeyTimeline,
    now_secs: u64,
    zones: Vec<(u64, KeyUse)>,
    parents: Vec<(u64, Vec<u16>)>,
    /// Seconds that the parent takes to follow CDS; `None` if it never does.
    parent_delay_secs: Option<u64>,
    /// CDS as the parent sees it, and since when.
    asked: (Vec<u16>, u64),
    next_tag: u16,
    algorithms: Vec<(u16, SigningAlgorithm)>,
}

impl World {
    fn new(policy: KeyPolicy, max_ttl_secs: u32, parent_delay_secs: Option<u64>) -> Self {
        Self {
            policy,
            max_ttl_secs,
            timeline: KeyTimeline::default(),
            now_secs: START,
            zones: Vec::new(),
            parents: vec![(START, Vec::new())],
            parent_delay_secs,
            asked: (Vec::new(), START),
            next_tag: 0,
            algorithms: Vec::new(),
        }
    }

    /// One look at the keys.
    fn tick(&mut self, forced: Option<KeyRole>) {
        let now_secs = self.now_secs;
        for wanted in self.timeline.wanted(&self.policy, now_secs, forced) {
            self.next_tag += 1;
            self.algorithms.push((self.next_tag, wanted.algorithm));
            self.timeline.keys.push(TimedKey {
                tag: self.next_tag,
                algorithm: wanted.algorithm,
                role: wanted.role,
                phase: wanted.phase,
                since_secs: now_secs,
                created_secs: now_secs,
                ds_ttl_secs: 0,
            });
        }
        assert!(self.timeline.keys.len() <= MAX_ZONE_KEYS);
        let published = &self.parents.last().unwrap().1;
        let parent = ParentDs { tags: published, ttl_secs: self.policy.parent_ds_ttl_secs };
        let facts = KeyFacts { now_secs, max_ttl_secs: self.max_ttl_secs, parent: Some(parent) };
        self.timeline.advance(&self.policy, &facts);
        let used = self.timeline.key_use();
        if self.zones.last().is_none_or(|(_, last)| *last != used) {
            self.zones.push((now_secs, used));
        }
        let cds = self.zones.last().unwrap().1.parent.clone();
        if self.asked.0 != cds {
            self.asked = (cds, now_secs);
        }
        let (cds, since) = &self.asked;
        let follows = self.parent_delay_secs.is_some_and(|delay| since + delay <= now_secs);
        if follows && !cds.is_empty() && self.parents.last().unwrap().1 != *cds {
            self.parents.push((now_secs, cds.clone()));
        }
    }

    /// Returns the versions that a cache may hold if it may be this old.
    fn cached<T>(versions: &[(u64, T)], now_secs: u64, age_secs: u64) -> impl Iterator<Item = &T> {
        let oldest = now_secs.saturating_sub(age_secs);
        versions.iter().enumerate().filter_map(move |(at, (_, version))| {
            let until = versions.get(at + 1).map_or(u64::MAX, |(next, _)| *next);
            (until > oldest).then_some(version)
        })
    }

    /// Checks all mixtures of cached records.
    fn check(&self) {
        let policy = &self.policy;
        let delay = u64::from(policy.propagation_secs);
        let parent_age =
            u64::from(policy.parent_ds_ttl_secs) + u64::from(policy.parent_propagation_secs);
        let now = self.now_secs;
        let algorithm_of =
            |tag: &u16| self.algorithms.iter().find(|(other, _)| other == tag).unwrap().1;
        for ds in Self::cached(&self.parents, now, parent_age) {
            for dnskeys in Self::cached(&self.zones, now, u64::from(policy.dnskey_ttl_secs) + delay)
            {
                if !ds.is_empty() {
                    let is_secure = ds.iter().any(|tag| dnskeys.entry.contains(tag));
                    assert!(is_secure, "{ds:?} {dnskeys:?} {:?}", self.timeline);
                }
                for data in Self::cached(&self.zones, now, u64::from(self.max_ttl_secs) + delay) {
                    // The first keys have no DS record before the signatures are everywhere.
                    let is_secure = data.zone.iter().any(|tag| dnskeys.published.contains(tag));
                    assert!(is_secure, "{dnskeys:?} {data:?} {:?}", self.timeline);
                    // Validators that want a signature of each algorithm of the DS records (RFC
                    // 4035 §2.2), which RFC 6840 §5.11 forbids.
                    for algorithm in ds.iter().map(algorithm_of) {
                        let signs = data.zone.iter().any(|tag| algorithm_of(tag) == algorithm);
                        assert!(signs, "{algorithm:?} {ds:?} {data:?}");
                    }
                    for algorithm in dnskeys.published.iter().map(algorithm_of) {
                        let signs = data.zone.iter().any(|tag| algorithm_of(tag) == algorithm);
                        assert!(signs, "{algorithm:?} {dnskeys:?} {data:?}");
                    }
                }
            }
        }
    }

    fn run(&mut self, secs: u64, step_secs: u64) {
        let end = self.now_secs + secs;
        while self.now_secs < end {
            self.tick(None);
            self.check();
            self.now_secs += step_secs;
        }
    }
}

fn policy(scheme: KeyScheme) -> KeyPolicy {
    KeyPolicy {
        algorithm: EcdsaP256Sha256,
        scheme,
        entry_lifetime_secs: 30 * DAY,
        zone_lifetime_secs: 10 * DAY,
        dnskey_ttl_secs: 3_600,
        propagation_secs: 300,
        parent_ds_ttl_secs: 86_400,
        parent_propagation_secs: 3_600,
    }
}

fn phases(world: &World) -> Vec<(KeyRole, KeyPhase)> {
    world.timeline.keys.iter().map(|key| (key.role, key.phase)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_mixture_of_cached_records_is_secure(
        is_split in any::<bool>(),
        ttls in (60_u32..90_000, 60_u32..90_000, 60_u32..90_000),
        delays in (1_u32..7_200, 1_u32..7_200, 0_u64..400_000),
        lifetimes in (4_u64..30, 3_u64..30),
        step_secs in 60_u64..5_000,
        algorithm_after in 1_u64..40,
        forced in any::<bool>(),
    ) {
        let scheme = if is_split { KeyScheme::Split } else { KeyScheme::Csk };
        let policy = KeyPolicy {
            entry_lifetime_secs: lifetimes.0 * DAY,
            zone_lifetime_secs: lifetimes.1 * DAY,
            dnskey_ttl_secs: ttls.0,
            propagation_secs: delays.0,
            parent_ds_ttl_secs: ttls.1,
            parent_propagation_secs: delays.1,
            ..policy(scheme)
        };
        let mut world = World::new(policy, ttls.2, Some(delays.2));
        world.run(algorithm_after * DAY, step_secs);
        if forced {
            world.tick(Some(scheme.roles()[0]));
        }
        world.policy.algorithm = Ed25519;
        world.run(100 * DAY, step_secs);
        let keys = &world.timeline.keys;
        prop_assert!(keys.iter().all(|key| key.algorithm == Ed25519), "{keys:?}");
        prop_assert!(world.next_tag >= 4, "keys were replaced");
    }
}

#[test]
fn the_first_key_asks_the_parent_when_its_signatures_are_everywhere() {
    let mut world = World::new(policy(KeyScheme::Csk), 7_200, None);
    world.tick(None);
    assert_eq!(phases(&world), [(KeyRole::Csk, KeyPhase::Published)]);
    assert_eq!(world.timeline.key_use().zone, [1]);
    assert!(world.timeline.key_use().parent.is_empty());
    world.now_secs += 7_499;
    world.tick(None);
    assert!(world.timeline.key_use().parent.is_empty());
    assert_eq!(world.timeline.next_due_secs(&world.policy, 7_200), Some(START + 7_500));
    world.now_secs += 1;
    world.tick(None);
    assert_eq!(world.timeline.key_use().parent, [1]);
    assert_eq!(world.timeline.awaited_ds().map(|key| key.tag), Some(1));
}

#[test]
fn without_the_ds_record_of_the_parent_the_old_key_stays_for_good() {
    for scheme in [KeyScheme::Csk, KeyScheme::Split] {
        let mut world = World::new(policy(scheme), 300, Some(0));
        world.run(3 * DAY, 600);
        assert!(!world.timeline.is_rolling());
        world.parent_delay_secs = None;
        let entry = scheme.roles()[0];
        world.run(400 * DAY, 7_200);
        let of_entry: Vec<_> =
            phases(&world).into_iter().filter(|(role, _)| *role == entry).collect();
        assert_eq!(of_entry, [(entry, KeyPhase::Active), (entry, KeyPhase::Submitted)]);
        assert!(world.timeline.awaited_ds().is_some());
        // When it appears after all, the roll-over ends.
        world.parent_delay_secs = Some(0);
        world.run(5 * DAY, 600);
        assert!(world.timeline.awaited_ds().is_none());
    }
}

#[test]
fn a_parent_that_keeps_the_old_record_as_well_is_waited_for() {
    let mut world = World::new(policy(KeyScheme::Csk), 300, Some(0));
    world.run(3 * DAY, 600);
    world.parent_delay_secs = None;
    world.tick(Some(KeyRole::Csk));
    world.run(2 * DAY, 600);
    let now_secs = world.now_secs;
    world.parents.push((now_secs, vec![1, 2]));
    world.run(9 * DAY, 600);
    assert_eq!(world.timeline.awaited_ds().map(|key| key.tag), Some(2));
    let now_secs = world.now_secs;
    world.parents.push((now_secs, vec![2]));
    world.run(3 * DAY, 600);
    assert_eq!(phases(&world), [(KeyRole::Csk, KeyPhase::Active)]);
}

#[test]
fn a_clock_that_goes_back_delays_and_breaks_nothing() {
    let mut world = World::new(policy(KeyScheme::Split), 300, Some(0));
    world.run(3 * DAY, 600);
    world.tick(Some(KeyRole::Zsk));
    let before = phases(&world);
    let facts = KeyFacts { now_secs: START - 9 * DAY, max_ttl_secs: 300, parent: None };
    assert!(world.timeline.advance(&world.policy, &facts).is_empty());
    assert_eq!(phases(&world), before);
}
