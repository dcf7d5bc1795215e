//! Tests of RFC 5011: keys appear, disappear and are revoked.

use avocet_dnssec::anchor::{Anchor, Anchors};
use avocet_dnssec::rollover::{
    Change, HOLD_DOWN_SECS, KeyState, MAX_FOLLOWED_KEYS, Observation, Rollover, StateError,
};
use avocet_dnssec::{Budget, Policy, Reason};
use avocet_wire::NameBuf;

use crate::sets::{NOW, Set};
use crate::signer::{Fields, Signer};

const DAY: u64 = 86_400;

/// Returns the DNSKEY RRset of these keys, signed by `signers` at the time `now_secs`.
fn published(keys: &[&Signer], signers: &[&Signer], now_secs: u64) -> Set {
    let mut set = Set::of("example.", "DNSKEY", &[]);
    set.ttl_secs = 172_800;
    set.records = keys.iter().map(|key| key.dnskey.clone()).collect();
    for signer in signers {
        let window = (now_secs as u32 - 86_400, now_secs as u32 + 14 * 86_400);
        let fields = Fields { inception: window.0, expiration: window.1, ..signer.fields(&set) };
        signer.sign_as(&mut set, &fields);
    }
    set
}

fn observe(rollover: &mut Rollover, set: &Set, now_secs: u64) -> Result<Observation, Reason> {
    set.with(|rrset| rollover.observe(rrset, Policy::default(), now_secs, &mut Budget::default()))
}

fn configured(keys: &[&Signer]) -> Rollover {
    let zone = NameBuf::from_wire(&keys[0].zone).unwrap();
    Rollover::begin(
        &zone,
        &Anchors::of(keys.iter().map(|key| Anchor::of_key(&zone, &key.dnskey).unwrap()).collect()),
    )
}

fn state(rollover: &Rollover, key: &Signer) -> Option<KeyState> {
    rollover.keys().iter().find(|known| known.tag() == key.tag()).map(|known| known.state())
}

fn trusts(rollover: &Rollover, key: &Signer) -> bool {
    rollover.anchors().iter().any(|anchor| anchor.key_tag() == key.tag())
}

/// Returns the key with its REVOKE bit set.
fn revoked(mut key: Signer) -> Signer {
    key.dnskey[1] |= 0x80;
    key
}

const START: u64 = NOW as u64;

#[test]
fn a_second_key_is_trusted_after_thirty_days_in_sight() {
    let (first, second) = (Signer::of("example."), Signer::of("example."));
    let mut rollover = configured(&[&first]);
    let mut change = |day: u64| {
        let now = START + day * DAY;
        observe(&mut rollover, &published(&[&first, &second], &[&first], now), now).unwrap().changes
    };
    let begun = |key: &Signer, to| Change { key_tag: key.tag(), from: None, to: Some(to) };
    assert_eq!(change(0), [begun(&first, KeyState::Valid), begun(&second, KeyState::AddPending)]);
    assert_eq!(change(15), []);
    assert_eq!(change(29), []);
    let valid = Change {
        key_tag: second.tag(),
        from: Some(KeyState::AddPending),
        to: Some(KeyState::Valid),
    };
    assert_eq!(change(30), [valid]);
    assert!(trusts(&rollover, &second));
    // From now on, the second key suffices.
    let now = START + 31 * DAY;
    assert!(observe(&mut rollover, &published(&[&second], &[&second], now), now).is_ok());
    assert_eq!(state(&rollover, &first), Some(KeyState::Missing));
    assert!(trusts(&rollover, &first), "a key that is missing stays trusted");
    assert!(observe(&mut rollover, &published(&[&first, &second], &[&first], now), now).is_ok());
    assert_eq!(state(&rollover, &first), Some(KeyState::Valid));
}

#[test]
fn a_key_that_was_out_of_sight_waits_anew() {
    let (first, second) = (Signer::of("example."), Signer::of("example."));
    let mut rollover = configured(&[&first]);
    for (day, is_there) in [(0, true), (10, false), (20, true), (40, true)] {
        let keys: &[&Signer] = if is_there { &[&first, &second] } else { &[&first] };
        let now = START + day * DAY;
        observe(&mut rollover, &published(keys, &[&first], now), now).unwrap();
        assert_eq!(state(&rollover, &second), is_there.then_some(KeyState::AddPending), "{day}");
    }
    let now = START + 50 * DAY;
    observe(&mut rollover, &published(&[&first, &second], &[&first], now), now).unwrap();
    assert_eq!(state(&rollover, &second), Some(KeyState::Valid));
}

#[test]
fn a_key_that_nobody_trusted_signed_for_is_not_followed() {
    let (first, second) = (Signer::of("example."), Signer::of("example."));
    let mut rollover = configured(&[&first]);
    let set = published(&[&first, &second], &[&second], START);
    assert_eq!(observe(&mut rollover, &set, START), Err(Reason::DnskeyMissing));
    assert!(rollover.keys().is_empty() && trusts(&rollover, &first));
}

#[test]
fn a_revoked_key_is_never_trusted_again() {
    let (first, second) = (Signer::of("example."), Signer::of("example."));
    let mut rollover = configured(&[&first, &second]);
    observe(&mut rollover, &published(&[&first, &second], &[&first], START), START).unwrap();
    let first = revoked(first);
    let now = START + DAY;
    // Another key cannot revoke the first key.
    observe(&mut rollover, &published(&[&first, &second], &[&second], now), now).unwrap();
    assert!(rollover.keys().iter().all(|key| key.state() != KeyState::Revoked));
    observe(&mut rollover, &published(&[&first, &second], &[&first, &second], now), now).unwrap();
    let states: Vec<_> = rollover.keys().iter().map(|key| key.state()).collect();
    assert_eq!(states, [KeyState::Revoked, KeyState::Valid]);
    assert_eq!(rollover.anchors().len(), 1);
    // A configured anchor still names the key, so the key is not forgotten.
    let now = now + HOLD_DOWN_SECS + DAY;
    observe(&mut rollover, &published(&[&second], &[&second], now), now).unwrap();
    assert_eq!(rollover.keys()[0].state(), KeyState::Revoked);
}

#[test]
fn revoked_keys_that_are_not_configured_are_forgotten_after_thirty_days() {
    let (first, second) = (Signer::of("example."), Signer::of("example."));
    let mut rollover = configured(&[&first]);
    for day in [0, 30] {
        let now = START + day * DAY;
        observe(&mut rollover, &published(&[&first, &second], &[&first], now), now).unwrap();
    }
    let second = revoked(second);
    for (day, count) in [(31, 2), (60, 2), (61, 1)] {
        let now = START + day * DAY;
        observe(&mut rollover, &published(&[&first, &second], &[&first, &second], now), now)
            .unwrap();
        assert_eq!(rollover.keys().len(), count, "{day}");
    }
}

#[test]
fn with_all_keys_revoked_nothing_is_trusted() {
    let first = Signer::of("example.");
    let mut rollover = configured(&[&first]);
    observe(&mut rollover, &published(&[&first], &[&first], START), START).unwrap();
    let first = revoked(first);
    let set = published(&[&first], &[&first], START);
    assert!(observe(&mut rollover, &set, START).is_err());
    assert!(rollover.anchors().is_empty());
    assert_eq!(observe(&mut rollover, &set, START), Err(Reason::NoAnchor));
}

#[test]
fn the_state_is_written_and_read_back() {
    let (first, second) = (Signer::of("example."), Signer::of("example."));
    let mut rollover = configured(&[&first]);
    observe(&mut rollover, &published(&[&first, &second], &[&first], START), START).unwrap();
    let text = rollover.to_string();
    let mut other = configured(&[&first]);
    other.resume(&text).unwrap();
    assert_eq!((other.keys(), other.to_string()), (rollover.keys(), text.clone()));
    let now = START + 30 * DAY;
    observe(&mut other, &published(&[&first, &second], &[&first], now), now).unwrap();
    assert_eq!(state(&other, &second), Some(KeyState::Valid));
    for broken in [
        "valid",
        "valid x . IN DNSKEY",
        "trusted 1 example. IN DNSKEY 257 3 13 AAAA",
        "valid 1 . IN DNSKEY 257 3 13 AAAA",
    ] {
        assert_eq!(
            other.resume(&format!("; a comment\n{broken}\n")),
            Err(StateError(2)),
            "{broken}"
        );
    }
    assert_eq!(other.keys().len(), 2, "what cannot be read changes nothing");
}

#[test]
fn the_number_of_keys_is_bounded() {
    let first = Signer::of("example.");
    let others: Vec<Signer> = (0..40).map(|_| Signer::generate("example.", 257, 15)).collect();
    let all: Vec<&Signer> = std::iter::once(&first).chain(&others).collect();
    let mut rollover = configured(&[&first]);
    observe(&mut rollover, &published(&all, &[&first], START), START).unwrap();
    assert_eq!(rollover.keys().len(), MAX_FOLLOWED_KEYS);
}

/// RFC 5011 §2.3: the times are a half and a tenth of the lower of the TTL and the remaining
/// validity of the signature, within bounds.
#[test]
fn the_next_question_follows_from_the_ttl() {
    let first = Signer::of("example.");
    let mut rollover = configured(&[&first]);
    let observation =
        observe(&mut rollover, &published(&[&first], &[&first], START), START).unwrap();
    assert_eq!((observation.query_after_secs, observation.retry_after_secs), (86_400, 17_280));
    let mut short = published(&[&first], &[&first], START);
    short.ttl_secs = 10;
    let observation = observe(&mut rollover, &short, START).unwrap();
    assert_eq!((observation.query_after_secs, observation.retry_after_secs), (3600, 3600));
}
