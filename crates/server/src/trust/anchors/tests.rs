//! Tests with a zone in which key B follows key A, and key A is then revoked, as the running server
//! observes it. The signatures are real, and valid from 2020 to 2045.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use avocet_cache::{Provenance, Rank, ReceivedRrset, Security, TtlBounds};
use avocet_wire::{FoldedName, FoldedNameBuf, rdata};

use super::*;

const EXAMPLE: &[u8] = b"\x07example\0";
const DAY: u32 = 86_400;
/// 2026-01-01 in Unix seconds.
const WALL_SECS: u64 = 1_767_225_600;
const ANCHOR: &str =
    "example. DS 49408 15 2 9428ff7436d44bd792b86774235dfdf11b1fa958087f03ad9329467f7abb2b26";
const A: &str = "257 3 15 Uxqb7giOHKimhEP3VDMukQ4Gmpj1jAhUiHWRzcPEtuk=";
const A_REVOKED: &str = "385 3 15 Uxqb7giOHKimhEP3VDMukQ4Gmpj1jAhUiHWRzcPEtuk=";
const B: &str = "257 3 15 /6fu2QJDQRh9NM59zOHZ14oGj3OjGRx1KySeXv2MBkc=";
const HEAD: &str = "DNSKEY 15 1 86400 2366841600 1577836800";

/// DNSKEY records, and their signatures as tag and base64.
type Keys = (&'static [&'static str], &'static [(u16, &'static str)]);

const BEFORE: Keys = (
    &[A],
    &[(
        49408,
        "+0Gj4ZWpD0k/ulRX25aEiiJ+yAGYrdsHCfpqNdFgLSYTmsHf4pbVXlJU//hVnUJpX//PJIrkyrn/aYgTKUjEAw==",
    )],
);
const ADDED: Keys = (
    &[A, B],
    &[(
        49408,
        "YEtYDXcW37DRIFu31ilgMrgmy+Lv0WqHQpV/94snahltXHTaLv/8H/yUKtyz0FlXxSH/UvmusaHfVkMcUz+iAg==",
    )],
);
const REVOKED: Keys = (
    &[A_REVOKED, B],
    &[
        (
            49536,
            "CQ6omZDAnKLTXkg5xugz8l1Vcsn/vyptADbnFY+Z1/qDhZRJ3urCQa/xSw2inn6uoejcFVNm/diECXX8XxOvDA==",
        ),
        (
            52920,
            "gH7//SyFvY9oVyyJYxSTtTg28PzxG5XqrI/zKoH8c5UrXnZkf93a8zz38IqQ4p4emCo9o2kS+geo+4TS2o7BBA==",
        ),
    ],
);
const AFTER: Keys = (
    &[B],
    &[(
        52920,
        "1jU25jsI/hMgmuHGSREauTHQfFs8HfVIQDmJzK073Y280HoCnddgTaXST6akDTIbzp1SFEb+7aXriqMDS8+yDQ==",
    )],
);

/// A server that records the queries that it would send.
#[derive(Default)]
struct Notes(RefCell<Vec<String>>);

impl Asker for Notes {
    fn ask_anew(&self, name: &FoldedNameBuf, rtype: Rtype) {
        self.0.borrow_mut().push(format!("{name} {rtype}"));
    }

    fn tell(&self, name: &FoldedNameBuf, rtype: Rtype) {
        self.0.borrow_mut().push(format!("{name} {rtype}"));
    }
}

/// A server with a clock, a cache and a data directory.
struct World {
    anchors: TrustAnchors,
    configured: Anchors,
    cache: RrsetCache,
    notes: Notes,
    directory: PathBuf,
    now: Now,
}

impl World {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("avocet-anchors-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let configured = Anchors::of(vec![Anchor::parse(ANCHOR).unwrap()]);
        let bounds = TtlBounds { min: 0, max: DAY, negative_min: 0, negative_max: 3600 };
        let now = Now { secs: 1_000, wall_secs: WALL_SECS };
        Self {
            anchors: TrustAnchors::load(&directory, &configured, now),
            configured,
            cache: RrsetCache::new(1 << 20, 0, bounds, [1; 16]).unwrap(),
            notes: Notes::default(),
            directory,
            now,
        }
    }

    /// Simulates a new process with the same data directory.
    fn restart(&mut self) {
        self.anchors = TrustAnchors::load(&self.directory, &self.configured, self.now);
    }

    fn pass(&mut self, secs: u32) {
        self.now.secs += secs;
        self.now.wall_secs += u64::from(secs);
    }

    fn tick(&mut self) -> bool {
        let settings =
            Settings { anchors: &self.configured, policy: Policy::default(), signals: true };
        self.anchors.tick(&settings, self.now, &self.cache, &self.notes)
    }

    fn publish(&self, (keys, signatures): Keys) {
        let data = |rtype: Rtype, text: &str| {
            let mut out = Vec::new();
            rdata::parse(rtype.0, text, &[0], &mut out).unwrap();
            out
        };
        let keys: Vec<_> = keys.iter().map(|key| data(Rtype::DNSKEY, key)).collect();
        let signature = |(tag, text): &(u16, &str)| {
            data(Rtype::RRSIG, &format!("{HEAD} {tag} example. {text}"))
        };
        let signatures: Vec<_> = signatures.iter().map(signature).collect();
        let provenance = Provenance {
            security: Security::Unchecked,
            unsupported: None,
            rank: Rank::AuthoritativeAnswer,
            asked_with_do: true,
            asked_with_cd: false,
        };
        let rrset = ReceivedRrset {
            provenance,
            ttl: DAY,
            records: &keys.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            signatures: &signatures.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        };
        let key =
            RrsetKey { owner: FoldedName::new(EXAMPLE).unwrap(), rtype: Rtype::DNSKEY.0, class: 1 };
        self.cache.flush(FoldedName::new(EXAMPLE).unwrap());
        self.cache.insert(&key, &rrset, self.now.secs);
    }

    /// Waits until the keys are queried, and supplies these keys. Returns true if the trusted keys
    /// have changed.
    fn look(&mut self, keys: Keys) -> bool {
        self.notes.0.borrow_mut().clear();
        for _ in 0..40 * 24 {
            self.tick();
            if !self.notes.0.borrow().is_empty() {
                self.publish(keys);
                return self.tick();
            }
            self.pass(3600);
        }
        panic!("the keys are never asked for");
    }

    fn trusted(&self) -> Vec<u16> {
        self.anchors
            .followed()
            .iter()
            .flat_map(|(_, anchors)| anchors.iter().map(Anchor::key_tag))
            .collect()
    }

    fn states(&self) -> Vec<(u16, Option<KeyState>)> {
        self.anchors.status().iter().map(|key| (key.tag, key.state)).collect()
    }

    fn clean(self) {
        fs::remove_dir_all(&self.directory).unwrap();
    }
}

#[test]
fn a_key_is_followed_by_another_and_revoked() {
    let mut world = World::new("roll");
    assert_eq!((world.trusted(), world.states()), (vec![49408], vec![(49408, None)]));
    world.look(BEFORE);
    assert_eq!(world.states(), [(49408, Some(KeyState::Valid))]);
    assert!(!world.look(ADDED), "held down");
    assert_eq!(
        world.states(),
        [(49408, Some(KeyState::Valid)), (52920, Some(KeyState::AddPending))]
    );
    world.pass(29 * DAY);
    world.restart();
    assert!(!world.look(ADDED), "for all of thirty days");
    world.pass(DAY);
    assert!(world.look(ADDED));
    assert_eq!(world.trusted(), [49408, 52920]);
    assert!(world.look(REVOKED));
    assert_eq!(world.trusted(), [52920]);
    world.restart();
    assert_eq!(world.trusted(), [52920], "although the configuration names the other one");
    world.look(AFTER);
    assert_eq!(world.states(), [(49408, Some(KeyState::Revoked)), (52920, Some(KeyState::Valid))]);
    world.clean();
}

/// Data that was validated with a digest is not validated again when the key of the digest becomes
/// known.
#[test]
fn a_key_in_place_of_its_digest_is_no_loss_of_trust_and_a_revoked_one_is() {
    let mut world = World::new("loss");
    let configured = world.anchors.followed();
    assert!(world.look(BEFORE));
    let seen = world.anchors.followed();
    assert_ne!(configured, seen);
    assert!(less_trusted(&configured, &seen).is_empty());
    world.look(ADDED);
    world.pass(30 * DAY);
    world.look(ADDED);
    let added = world.anchors.followed();
    assert!(less_trusted(&seen, &added).is_empty());
    world.look(REVOKED);
    assert_eq!(
        less_trusted(&added, &world.anchors.followed()),
        [FoldedNameBuf::from_wire(EXAMPLE).unwrap()]
    );
    world.clean();
}

/// Keys are queried after half of the TTL, and at least an hour after a failure (RFC 5011 §2.3).
#[test]
fn keys_are_asked_for_when_they_are_due() {
    let mut world = World::new("due");
    assert!(!world.tick() && world.notes.0.borrow().is_empty(), "not at once");
    world.pass(FIRST_LOOK_SECS);
    world.tick();
    assert_eq!(*world.notes.0.borrow(), ["example. DNSKEY", "_ta-c100.example. NULL"]);
    world.publish(BEFORE);
    world.tick();
    world.pass(DAY / 2 - 1);
    world.tick();
    assert_eq!(world.notes.0.borrow().len(), 2);
    world.pass(1);
    world.cache.flush(FoldedName::new(EXAMPLE).unwrap());
    world.tick();
    assert_eq!(world.notes.0.borrow().len(), 4, "asked for again");
    world.pass(PATIENCE_SECS);
    world.tick();
    assert_eq!(world.anchors.status()[0].fault.as_deref(), Some("no server returned its keys"));
    world.pass(DAY / 10 - 1);
    world.tick();
    assert_eq!(world.notes.0.borrow().len(), 4);
    world.pass(1);
    world.tick();
    assert_eq!(world.notes.0.borrow().len(), 6);
    world.clean();
}

/// Checks row F31 of `tests/SECURITY.md` for a server that has lost its state.
#[test]
fn without_its_state_the_server_falls_back_to_the_configuration() {
    let mut world = World::new("lost");
    world.look(BEFORE);
    let file = world.directory.join(FILE);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("valid", "revoked")).unwrap();
    world.restart();
    assert_eq!(world.trusted(), [49408], "a state that was tampered with is put aside");
    assert!(!file.exists());
    world.look(BEFORE);
    assert_eq!(world.states(), [(49408, Some(KeyState::Valid))]);
    assert!(file.exists());
    world.clean();
}

#[test]
fn what_is_not_signed_by_a_trusted_key_changes_nothing() {
    let mut world = World::new("forged");
    world.look(BEFORE);
    world.look(AFTER);
    assert_eq!(world.trusted(), [49408]);
    assert!(
        world.anchors.status()[0]
            .fault
            .as_ref()
            .is_some_and(|fault| fault.contains("do not validate"))
    );
    world.clean();
}

#[test]
fn other_anchors_in_the_configuration_count_at_once() {
    let mut world = World::new("configured");
    world.look(BEFORE);
    let other = Anchor::parse(
        "other. DS 1 15 2 9428ff7436d44bd792b86774235dfdf11b1fa958087f03ad9329467f7abb2b26",
    );
    world.configured = Anchors::of(vec![Anchor::parse(ANCHOR).unwrap(), other.unwrap()]);
    assert!(world.tick());
    assert_eq!(world.states(), [(49408, Some(KeyState::Valid)), (1, None)]);
    let other = world.configured.iter().nth(1).unwrap().clone();
    world.configured = Anchors::of(vec![other]);
    assert!(world.tick());
    assert_eq!(world.trusted(), [1]);
    world.clean();
}
