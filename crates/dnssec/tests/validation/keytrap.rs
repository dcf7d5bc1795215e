//! Attacks with records that cause validation work. The tests count signature checks and hashes
//! instead of measuring time.

use avocet_dnssec::budget::{
    MAX_COLLIDING_KEYS, MAX_DENIAL_RECORDS, MAX_MESSAGE_SIGNATURE_CHECKS, MAX_NSEC3_HASHES,
    MAX_SIGNATURE_FAILURES,
};
use avocet_dnssec::{Budget, Limit, Proof, Reason, Rrset, Trust, chain, signature};

use crate::chains::{keys_by_ds, keys_of};
use crate::sets::{Set, context, with_all};
use crate::signer::Signer;

/// Returns `count` keys with one tag, none of which has signed anything. After their first 32
/// octets they differ only in the order of octet pairs, which does not affect the tag.
fn colliding(signer: &Signer, count: usize) -> Vec<Vec<u8>> {
    let pairs = (signer.dnskey.len() - 4) / 2;
    let swapped = |(a, b): (usize, usize)| {
        let mut key = signer.dnskey.clone();
        for octet in 0..2 {
            key.swap(4 + 2 * a + octet, 4 + 2 * b + octet);
        }
        key
    };
    let swaps = (0..pairs).flat_map(|a| (a + 1..pairs).map(move |b| (a, b)));
    let keys: Vec<_> = swaps.map(swapped).take(count).collect();
    assert_eq!(keys.len(), count);
    keys
}

/// CVE-2023-50387: 100 keys with one tag and 100 invalid signatures.
#[test]
fn colliding_keys_and_many_signatures_cost_a_few_checks() {
    let signer = Signer::of("example.");
    for count in [10, 60] {
        let mut dnskeys = Set::of("example.", "DNSKEY", &[]);
        dnskeys.records = colliding(&signer, count);
        dnskeys.records.push(signer.dnskey.clone());
        signer.sign(&mut dnskeys);
        let keys = keys_by_ds(&dnskeys, &[signer.ds(2)]).unwrap();
        let mut set = Set::of("www.example.", "A", &["192.0.2.1"]);
        signer.sign(&mut set);
        let right = set.signatures[0].clone();
        set.signatures = (0..100)
            .map(|number: u8| {
                let mut wrong = right.clone();
                *wrong.last_mut().unwrap() ^= number + 1;
                wrong
            })
            .collect();
        let mut budget = Budget::default();
        let verdict = set.with(|rrset| signature::verify(rrset, &keys, &context(), &mut budget));
        assert!(matches!(verdict, Err(Reason::Limit(_))), "{verdict:?}");
        assert_eq!(budget.signature_checks(), MAX_SIGNATURE_FAILURES);
        assert!(budget.reached()[Limit::CollidingKeys as usize] > 0);
    }
}

#[test]
fn a_hundred_keys_are_refused_unseen() {
    let signer = Signer::of("example.");
    let mut dnskeys = Set::of("example.", "DNSKEY", &[]);
    dnskeys.records = colliding(&signer, 100);
    signer.sign(&mut dnskeys);
    let (ds, mut budget) = (signer.ds(2), Budget::default());
    let trust = Trust { ds: &[&ds], dnskeys: &[], lifetime_secs: 1 };
    let found = dnskeys.with(|rrset| chain::zone_keys(rrset, &trust, &context(), &mut budget));
    assert_eq!(found, Err(Reason::Limit(Limit::Dnskeys)));
    assert_eq!(budget.signature_checks(), 0);
}

/// The tags of two keys may collide by chance.
#[test]
fn a_collision_that_happens_is_no_fault() {
    let signer = Signer::of("example.");
    let mut dnskeys = Set::of("example.", "DNSKEY", &[]);
    dnskeys.records = colliding(&signer, MAX_COLLIDING_KEYS as usize - 1);
    dnskeys.records.push(signer.dnskey.clone());
    // A repeated record counts as one key.
    dnskeys.records.push(signer.dnskey.clone());
    signer.sign(&mut dnskeys);
    let keys = keys_by_ds(&dnskeys, &[signer.ds(2)]).unwrap();
    let mut set = Set::of("www.example.", "A", &["192.0.2.1"]);
    signer.sign(&mut set);
    assert!(
        set.with(|rrset| signature::verify(rrset, &keys, &context(), &mut Budget::default()))
            .is_ok()
    );
}

/// Failures in all messages of a query are added up (CVE-2026-50045).
#[test]
fn failures_add_up_over_the_messages_of_a_query() {
    let signer = Signer::of("example.");
    let keys = keys_of(&signer);
    let mut set = Set::of("www.example.", "A", &["192.0.2.1"]);
    signer.sign(&mut set);
    set.records[0][0] ^= 1;
    let mut budget = Budget::default();
    for _ in 0..100 {
        budget.begin_message();
        assert!(
            set.with(|rrset| signature::verify(rrset, &keys, &context(), &mut budget)).is_err()
        );
    }
    assert_eq!(budget.signature_checks(), MAX_SIGNATURE_FAILURES);
}

fn padded(signer: &Signer, count: usize) -> Vec<Set> {
    let numbered = |number: usize| {
        let mut set =
            Set::of(&format!("a{number}.example."), "NSEC", &[&format!("a{number}a.example. A")]);
        signer.sign(&mut set);
        set
    };
    (0..count).map(numbered).collect()
}

/// CVE-2026-11605: a negative answer with hundreds of irrelevant records.
#[test]
fn padded_denials_are_refused_or_cost_nothing() {
    let signer = Signer::of("example.");
    let keys = keys_of(&signer);
    for (count, expected) in [
        (500, Reason::Limit(Limit::DenialRecords)),
        (MAX_DENIAL_RECORDS as usize, Reason::DenialMissing),
    ] {
        let mut budget = Budget::default();
        let verdict = with_all(&padded(&signer, count), |rrsets| {
            Proof::signed(rrsets, &keys, &context()).nxdomain(b"\x01x\x07example\0", &mut budget)
        });
        assert_eq!(verdict, Err(expected));
        assert_eq!(budget.signature_checks(), 0);
    }
}

/// Relevant records have invalid signatures.
#[test]
fn wrongly_signed_denials_cost_the_failures_of_one_query() {
    let signer = Signer::of("example.");
    let keys = keys_of(&signer);
    let mut sets = Vec::new();
    for _ in 0..MAX_DENIAL_RECORDS {
        let mut set = Set::of("a.example.", "NSEC", &["z.example. A"]);
        signer.sign(&mut set);
        *set.signatures[0].last_mut().unwrap() ^= 1;
        sets.push(set);
    }
    let mut budget = Budget::default();
    let verdict = with_all(&sets, |rrsets| {
        Proof::signed(rrsets, &keys, &context()).nxdomain(b"\x01x\x07example\0", &mut budget)
    });
    assert_eq!(verdict, Err(Reason::Limit(Limit::SignatureFailures)));
    assert!(budget.signature_checks() <= MAX_MESSAGE_SIGNATURE_CHECKS);
}

/// CVE-2023-50868: a name of 120 labels, each of which would have to be hashed.
#[test]
fn deep_names_are_hashed_up_to_the_limit() {
    let signer = Signer::of("example.");
    let keys = keys_of(&signer);
    let next = "2t7b4g4vsa5smi47k61mv5bv1a22bojr";
    let mut set =
        Set::of(&format!("{next}.example."), "NSEC3", &[&format!("1 0 50 aabb {next} A")]);
    signer.sign(&mut set);
    let deep = crate::sets::wire(&format!("{}example.", "a.".repeat(120)));
    let mut budget = Budget::default();
    let ask = |rrset: &Rrset<'_>| {
        Proof::signed(&[*rrset], &keys, &context()).nxdomain(&deep, &mut budget)
    };
    assert_eq!(set.with(ask), Err(Reason::Limit(Limit::Nsec3Hashes)));
    assert_eq!(budget.nsec3_hashes(), MAX_NSEC3_HASHES);
}
