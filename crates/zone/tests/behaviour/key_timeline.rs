//! Roll-overs of keys in virtual time: at every step, a validator finds the zone secure, with any
//! mixture of records that caches may hold. The parent, the secondaries and the clock are random.

use avocet_dnssec::signing::SigningAlgorithm::{self, EcdsaP256Sha256, Ed25519};
use avocet_zone::sign::timeline::{
    DsWitness, KeyFacts, KeyPhase, KeyPolicy, KeyRole, KeyScheme, KeyTimeline, KeyUse,
    MAX_ZONE_KEYS, ParentDs, TimedKey,
};
use proptest::prelude::*;

const DAY: u64 = 86_400;
const START: u64 = 1_800_000_000;

/// A simulated zone with its parent: all versions of the zone and of the parent's DS records, each
/// with its first second.
struct World {
    policy: KeyPolicy,
    max_ttl_secs: u32,
    timeline: KeyTimeline,
    now_secs: u64,
    zones: Vec<(u64, KeyUse)>,
    parents: Vec<(u64, Vec<u16>)>,
    /// Seconds that the parent takes to follow the CDS records; `None` if it never does.
    parent_delay_secs: Option<u64>,
    /// The key tags in the CDS records that the parent sees, and the time since which it has seen
    /// them.
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

    /// Creates the wanted keys and advances their timeline, as the server does.
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
                witness: DsWitness::None,
            });
        }
        assert!(self.timeline.keys.len() <= MAX_ZONE_KEYS);
        let published = &self.parents.last().unwrap().1;
        let parent = ParentDs { tags: published, ttl_secs: self.policy.parent_ds_ttl_secs };
        let facts = KeyFacts {
            now_secs,
            max_ttl_secs: self.max_ttl_secs,
            parent: Some(parent),
            word: None,
        };
        self.timeline.advance(&self.policy, &facts);
        // Otherwise the server would sign the zone every second.
        let due = self.timeline.next_due_secs(&self.policy, self.max_ttl_secs, now_secs);
        let is_later = due.is_none_or(|due| due > now_secs);
        let wanted = self.timeline.wanted(&self.policy, now_secs, None);
        assert_eq!(is_later, wanted.is_empty(), "{due:?} {:?}", self.timeline);
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

    /// Returns the versions that a cache may hold if its records may have this age.
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
                    // The first keys have no DS record before all caches have the signatures.
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
    assert_eq!(
        world.timeline.next_due_secs(&world.policy, 7_200, world.now_secs),
        Some(START + 7_500)
    );
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
        // When the DS record appears after all, the roll-over ends.
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
    let facts = KeyFacts { now_secs: START - 9 * DAY, max_ttl_secs: 300, parent: None, word: None };
    assert!(world.timeline.advance(&world.policy, &facts).is_empty());
    assert_eq!(phases(&world), before);
}

impl World {
    /// Returns a world that replaces its KSK or CSK by a key whose phase is `until`. The parent has
    /// the DS record of the new key only, and does what the test says.
    fn rolling(scheme: KeyScheme, algorithm: SigningAlgorithm, until: KeyPhase) -> Self {
        let mut world = Self::new(policy(scheme), 300, Some(0));
        world.run(3 * DAY, 600);
        assert!(!world.timeline.is_rolling());
        world.policy.algorithm = algorithm;
        world.tick(Some(scheme.roles()[0]));
        world.run_until(KeyPhase::Submitted);
        world.parent_delay_secs = None;
        let new = world.timeline.awaited_ds().unwrap().tag;
        world.parents.push((world.now_secs, vec![new]));
        world.run_until(until);
        world
    }

    /// Runs until the newest KSK or CSK has this phase.
    fn run_until(&mut self, phase: KeyPhase) {
        for _ in 0..2_000 {
            if self.newest().phase == phase {
                return;
            }
            self.run(600, 600);
        }
        panic!("{:?}", self.timeline);
    }

    fn newest(&self) -> &TimedKey {
        let entries = self.timeline.keys.iter().filter(|key| key.role.is_entry());
        entries.max_by_key(|key| key.tag).unwrap()
    }

    /// Returns the states of the keys for which a parent has DS records.
    fn entries(&self) -> Vec<KeyPhase> {
        let entries = self.timeline.keys.iter().filter(|key| key.role.is_entry());
        entries.map(|key| key.phase).collect()
    }

    fn set_parent(&mut self, tags: &[u16]) {
        self.parents.push((self.now_secs, tags.to_vec()));
    }
}

const OLD_KEY_WAITS: [KeyPhase; 2] = [KeyPhase::Active, KeyPhase::Submitted];
const BY_SCHEME: [KeyScheme; 2] = [KeyScheme::Csk, KeyScheme::Split];

#[test]
fn a_parent_that_goes_back_to_the_old_record_keeps_the_old_key_in_use() {
    // The test runs immediately, at the end of the wait, and when only the removal remains.
    for (phase, more_secs) in
        [(KeyPhase::Confirmed, 0), (KeyPhase::Confirmed, 89_400), (KeyPhase::Active, 0)]
    {
        for scheme in BY_SCHEME {
            let mut world = World::rolling(scheme, EcdsaP256Sha256, phase);
            world.run(more_secs, 600);
            world.set_parent(&[1]);
            world.run(9 * DAY, 600);
            assert_eq!(world.entries(), OLD_KEY_WAITS, "{phase:?} {more_secs} {scheme:?}");
            assert_eq!(world.newest().witness, DsWitness::Lost);
        }
    }
}

#[test]
fn an_old_record_that_returns_next_to_the_new_one_keeps_the_old_key_in_use() {
    for phase in [KeyPhase::Confirmed, KeyPhase::Active] {
        for scheme in BY_SCHEME {
            let mut world = World::rolling(scheme, EcdsaP256Sha256, phase);
            let new = world.newest().tag;
            world.set_parent(&[1, new]);
            world.run(9 * DAY, 600);
            assert_eq!(world.entries(), OLD_KEY_WAITS, "{phase:?} {scheme:?}");
        }
    }
}

#[test]
fn a_record_that_is_right_once_more_starts_the_whole_wait_again() {
    for phase in [KeyPhase::Confirmed, KeyPhase::Active] {
        for scheme in BY_SCHEME {
            let mut world = World::rolling(scheme, EcdsaP256Sha256, phase);
            let new = world.newest().tag;
            for other in [vec![1], vec![], vec![1, new]] {
                world.set_parent(&other);
                world.run(7_200, 600);
                assert_eq!(world.entries(), OLD_KEY_WAITS, "{other:?}");
                world.set_parent(&[new]);
                world.run(89_400, 600);
                assert_eq!(world.entries(), [KeyPhase::Active, KeyPhase::Confirmed]);
                assert_eq!(world.newest().witness, DsWitness::Seen);
            }
            world.run(2 * DAY, 600);
            assert_eq!(world.entries(), [KeyPhase::Active]);
            assert_eq!(world.newest().tag, new);
        }
    }
}

#[test]
fn a_change_of_the_algorithm_goes_back_with_the_parent_and_completes_later() {
    for phase in [KeyPhase::Confirmed, KeyPhase::Active] {
        for scheme in BY_SCHEME {
            let mut world = World::rolling(scheme, Ed25519, phase);
            let (old, new) = (world.timeline.keys[0].tag, world.newest().tag);
            world.set_parent(&[old]);
            // No server can help caches that already have the keys without the old key.
            let until = world.now_secs + 9 * DAY;
            while world.now_secs < until {
                world.tick(None);
                world.now_secs += 600;
            }
            world.check();
            assert_eq!(world.entries(), OLD_KEY_WAITS, "{phase:?} {scheme:?}");
            let mut zsks = phases(&world);
            zsks.retain(|(role, _)| *role == KeyRole::Zsk);
            let zsks: Vec<_> = zsks.into_iter().map(|(_, phase)| phase).collect();
            let expected = [KeyPhase::Active, KeyPhase::Published];
            assert!(zsks.is_empty() || zsks == expected, "{zsks:?}");
            world.set_parent(&[new]);
            world.run(5 * DAY, 600);
            let keys = &world.timeline.keys;
            assert!(keys.iter().all(|key| key.algorithm == Ed25519), "{keys:?}");
            assert!(!world.timeline.is_rolling());
        }
    }
}

/// Advances a timeline once. `parent` has the key tags of the DS records that a look-up found at
/// the parent; `None` means that there was no look-up.
fn look(world: &mut World, parent: Option<&[u16]>, word: Option<u16>) {
    let now_secs = world.now_secs;
    let parent = parent.map(|tags| ParentDs { tags, ttl_secs: 60 });
    let facts = KeyFacts { now_secs, max_ttl_secs: 300, parent, word };
    world.timeline.advance(&world.policy, &facts);
}

#[test]
fn no_key_is_removed_without_a_look_at_the_parent_just_before() {
    let mut world = World::rolling(KeyScheme::Csk, EcdsaP256Sha256, KeyPhase::Confirmed);
    let asked_secs = world.now_secs;
    let due = world.timeline.next_due_secs(&world.policy, 300, asked_secs).unwrap();
    let needs = |world: &World, looked_at| {
        world.timeline.needs_look(&world.policy, 300, world.now_secs, looked_at)
    };
    world.now_secs = due - 1;
    assert!(!needs(&world, asked_secs));
    world.now_secs = due;
    assert!(needs(&world, asked_secs) && !needs(&world, due));
    look(&mut world, None, None);
    assert_eq!(world.entries(), [KeyPhase::Active, KeyPhase::Confirmed]);
    // The next time is the end of the life of the key in use.
    let next = world.timeline.next_due_secs(&world.policy, 300, due);
    assert!(next.is_some_and(|next| next > due + DAY));
    look(&mut world, Some(&[2]), None);
    assert_eq!(world.entries(), [KeyPhase::Retired, KeyPhase::Active]);
    world.now_secs += DAY;
    assert!(needs(&world, due));
    look(&mut world, None, None);
    assert_eq!(world.entries(), [KeyPhase::Retired, KeyPhase::Active]);
    look(&mut world, Some(&[2]), None);
    assert_eq!(world.entries(), [KeyPhase::Active]);
}

#[test]
fn the_word_of_the_operator_counts_until_a_look_up_finds_the_record() {
    let mut world = World::rolling(KeyScheme::Csk, EcdsaP256Sha256, KeyPhase::Submitted);
    let new = world.newest().tag;
    look(&mut world, None, Some(new));
    // The look-ups may be of another parent, which clients do not use.
    look(&mut world, Some(&[1]), None);
    assert_eq!(world.entries(), [KeyPhase::Active, KeyPhase::Confirmed]);
    let mut seen = world.timeline.clone();
    for _ in 0..2 {
        world.now_secs += 2 * DAY;
        look(&mut world, None, None);
    }
    assert_eq!(world.entries(), [KeyPhase::Active]);
    std::mem::swap(&mut world.timeline, &mut seen);
    look(&mut world, Some(&[new]), None);
    look(&mut world, Some(&[1]), None);
    assert_eq!(world.entries(), OLD_KEY_WAITS);
}
