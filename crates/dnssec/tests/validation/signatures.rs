//! Valid signatures, and signatures with one fault each.

use avocet_dnssec::rrsig::MAX_CLOCK_SKEW_SECS;
use avocet_dnssec::{Budget, Reason, Verified, ZoneKeys, signature};
use avocet_wire::NameBuf;

use crate::chains::{dnskeys, keys_by_ds, keys_of};
use crate::sets::{NOW, Set, context, context_with_sha1, data, wire};
use crate::signer::{ALGORITHMS, Fields, Signer};

pub(crate) fn verify(set: &Set, keys: &ZoneKeys) -> Result<Verified, Reason> {
    set.with(|rrset| signature::verify(rrset, keys, &context(), &mut Budget::default()))
}

fn www() -> Set {
    Set::of("www.example.", "A", &["192.0.2.1", "192.0.2.2", "10.0.0.1"])
}

#[test]
fn signatures_of_every_algorithm_verify_and_no_changed_bit_does() {
    for algorithm in ALGORITHMS {
        let signer = Signer::generate("example.", 257, algorithm);
        let keys = keys_of(&signer);
        let mut set = www();
        signer.sign(&mut set);
        let expected =
            Verified { lifetime_secs: 3600, signed_secs: 86_400, closest_encloser: None };
        assert_eq!(verify(&set, &keys), Ok(expected), "{algorithm}");
        for at in 0..set.signatures[0].len() {
            let mut broken = set.clone();
            broken.signatures[0][at] ^= 1;
            // The name of the signer may differ in case.
            let same_name = (19..26).contains(&at);
            let mut other_case = set.clone();
            other_case.signatures[0][at] ^= 0x20;
            assert!(verify(&broken, &keys).is_err(), "{algorithm} {at}");
            assert_eq!(verify(&other_case, &keys).is_ok(), same_name, "{algorithm} {at}");
        }
        set.records[1][3] ^= 1;
        assert_eq!(verify(&set, &keys), Err(Reason::SignatureInvalid));
    }
}

#[test]
fn order_case_and_repetition_of_records_do_not_matter() {
    let signer = Signer::of("example.");
    let keys = keys_of(&signer);
    let mut set =
        Set::of("mail.example.", "MX", &["10 MX1.Example.", "5 mx2.example.", "10 a.example."]);
    signer.sign(&mut set);
    set.records = ["5 MX2.example.", "10 A.example.", "10 mx1.example.", "10 mx1.EXAMPLE."]
        .iter()
        .map(|text| data("MX", text))
        .collect();
    set.owner = wire("MAIL.eXample.");
    assert!(verify(&set, &keys).is_ok());
    set.records.pop();
    set.records.pop();
    assert_eq!(verify(&set, &keys), Err(Reason::SignatureInvalid), "a record is missing");
}

#[track_caller]
fn check_fields(change: impl Fn(&mut Fields), expected: Reason) {
    let signer = Signer::of("b.example.");
    let keys = keys_of(&signer);
    let mut set = Set::of("www.b.example.", "A", &["192.0.2.1"]);
    let mut fields = signer.fields(&set);
    change(&mut fields);
    signer.sign_as(&mut set, &fields);
    assert_eq!(verify(&set, &keys), Err(expected));
}

#[test]
fn wrong_fields_are_told_apart_even_when_they_are_signed() {
    check_fields(
        |fields| fields.expiration = NOW - 1 - MAX_CLOCK_SKEW_SECS,
        Reason::SignatureExpired,
    );
    check_fields(
        |fields| fields.inception = NOW + 1 + MAX_CLOCK_SKEW_SECS,
        Reason::SignatureNotYetValid,
    );
    check_fields(
        |fields| fields.inception = fields.expiration + 1,
        Reason::SignatureExpiredBeforeValid,
    );
    check_fields(|fields| fields.key_tag ^= 1, Reason::DnskeyMissing);
    check_fields(|fields| fields.labels = 4, Reason::WrongLabels);
    check_fields(|fields| fields.signer = wire("example."), Reason::WrongSigner);
    check_fields(|fields| fields.signer = wire("www.b.example."), Reason::WrongSigner);
    check_fields(|fields| fields.signer = wire("a.example."), Reason::WrongSigner);
    check_fields(|fields| fields.signer = wire("."), Reason::WrongSigner);
}

/// A wildcard of the parent zone must not apply to names of a child zone (CVE-2026-44690).
#[test]
fn fewer_labels_than_the_signers_are_refused() {
    check_fields(
        |fields| (fields.labels, fields.owner) = (1, wire("*.example.")),
        Reason::WrongLabels,
    );
}

#[test]
fn a_wildcard_is_told_with_its_closest_encloser() {
    let signer = Signer::of("example.");
    let keys = keys_of(&signer);
    let mut set = Set::of("*.w.example.", "TXT", &["text"]);
    signer.sign(&mut set);
    assert_eq!(verify(&set, &keys).unwrap().closest_encloser, None, "asked for by its own name");
    set.owner = wire("a.b.W.example.");
    let encloser = NameBuf::from_wire(&wire("W.example.")).unwrap();
    assert_eq!(verify(&set, &keys).unwrap().closest_encloser, Some(encloser));
    set.owner = wire("a.x.example.");
    assert_eq!(verify(&set, &keys), Err(Reason::SignatureInvalid));
    set.owner = wire("w.example.");
    assert_eq!(verify(&set, &keys), Err(Reason::SignatureInvalid), "the closest encloser itself");
    set.owner = wire("*.x.w.example.");
    assert_eq!(
        verify(&set, &keys).unwrap().closest_encloser.map(|name| name.wire().len()),
        Some(11)
    );
}

#[test]
fn what_is_never_expanded_from_a_wildcard_is_refused() {
    let signer = Signer::of("example.");
    let keys = keys_of(&signer);
    let next = "2t7b4g4vsa5smi47k61mv5bv1a22bojr";
    for (mnemonic, text) in [
        ("NSEC", "example. A"),
        ("NSEC3", &format!("1 0 0 - {next} A")),
        ("DS", "1 13 2 00"),
        ("DNAME", "b."),
    ] {
        let mut set = Set::of("*.example.", mnemonic, &[text]);
        signer.sign(&mut set);
        set.owner = wire("a.example.");
        assert_eq!(verify(&set, &keys), Err(Reason::WrongLabels), "{mnemonic}");
    }
}

#[test]
fn a_verdict_lives_no_longer_than_what_it_rests_on() {
    let signer = Signer::of("example.");
    let keys = keys_of(&signer);
    let lifetime = |ttl_secs: u32, change: fn(&mut Fields)| {
        let mut set = Set { ttl_secs, ..www() };
        let mut fields = signer.fields(&set);
        change(&mut fields);
        signer.sign_as(&mut set, &fields);
        verify(&set, &keys).unwrap().lifetime_secs
    };
    assert_eq!(lifetime(60, |_| {}), 60);
    assert_eq!(lifetime(3000, |fields| fields.original_ttl_secs = 20), 20);
    assert_eq!(lifetime(3000, |fields| fields.expiration = NOW + 5), 5);
    assert_eq!(lifetime(3000, |fields| fields.expiration = NOW - 5), 0, "within the skew");
    assert_eq!(lifetime(86_400, |_| {}), 3600, "the keys' own");
}

#[test]
fn one_signature_of_several_is_enough() {
    let (first, second) = (Signer::of("example."), Signer::generate("example.", 256, 15));
    let keys = keys_by_ds(&dnskeys(&[&first, &second]), &[first.ds(2)]).unwrap();
    let mut set = www();
    let fields = Fields { expiration: NOW - 5000, ..first.fields(&set) };
    first.sign_as(&mut set, &fields);
    assert_eq!(verify(&set, &keys), Err(Reason::SignatureExpired));
    second.sign(&mut set);
    assert!(verify(&set, &keys).is_ok());
    set.signatures.reverse();
    assert!(verify(&set, &keys).is_ok());
}

/// The zone uses a supported algorithm. An additional signature with an unknown algorithm does not
/// change this.
#[test]
fn an_unknown_algorithm_alone_does_not_make_a_signed_zone_insecure() {
    let signer = Signer::of("example.");
    let mut set = www();
    signer.sign(&mut set);
    set.signatures[0][2] = 250;
    assert_eq!(verify(&set, &keys_of(&signer)), Err(Reason::SignatureMissing));
    set.signatures = vec![vec![1, 2, 3], Vec::new()];
    assert_eq!(verify(&set, &keys_of(&signer)), Err(Reason::SignatureMissing));
}

#[test]
fn a_revoked_key_signs_nothing() {
    let (entry, revoked) = (Signer::of("example."), Signer::generate("example.", 256 | 128, 13));
    let keys = keys_by_ds(&dnskeys(&[&entry, &revoked]), &[entry.ds(2)]).unwrap();
    let mut set = www();
    revoked.sign(&mut set);
    assert_eq!(verify(&set, &keys), Err(Reason::DnskeyMissing));
}

#[test]
fn a_key_without_the_zone_bit_signs_nothing() {
    let (entry, host) = (Signer::of("example."), Signer::generate("example.", 0, 13));
    let keys = keys_by_ds(&dnskeys(&[&entry, &host]), &[entry.ds(2)]).unwrap();
    let mut set = www();
    host.sign(&mut set);
    assert_eq!(verify(&set, &keys), Err(Reason::NotZoneKey));
}

#[test]
fn a_child_does_not_sign_its_own_ds() {
    let (parent, child) = (Signer::of("example."), Signer::of("b.example."));
    let mut set = Set::of("b.example.", "DS", &[]);
    set.records = vec![child.ds(2)];
    child.sign(&mut set);
    assert_eq!(verify(&set, &keys_of(&child)), Err(Reason::WrongSigner));
    parent.sign(&mut set);
    assert!(verify(&set, &keys_of(&parent)).is_ok());
}

#[test]
fn a_signature_that_verified_costs_no_second_check_and_counts_for_nothing_else() {
    let signer = Signer::of("example.");
    let keys = keys_of(&signer);
    let mut set = www();
    signer.sign(&mut set);
    let mut budget = Budget::default();
    for _ in 0..3 {
        assert!(set.with(|rrset| signature::verify(rrset, &keys, &context(), &mut budget)).is_ok());
    }
    assert_eq!(budget.signature_checks(), 1);
    let mut other = set.clone();
    other.records[0][3] ^= 1;
    assert_eq!(verify(&other, &keys), Err(Reason::SignatureInvalid));
    let mut other = set.clone();
    *other.signatures[0].last_mut().unwrap() ^= 1;
    assert_eq!(verify(&other, &keys), Err(Reason::SignatureInvalid));
    let late = context_with_sha1(NOW + 86_400 + MAX_CLOCK_SKEW_SECS + 1);
    let expired = set.with(|rrset| signature::verify(rrset, &keys, &late, &mut Budget::default()));
    assert_eq!(expired, Err(Reason::SignatureExpired));
    assert!(
        verify(&set, &keys_of(&Signer::of("example."))).is_err(),
        "keys of another zone have not verified it"
    );
}

#[test]
fn few_signatures_are_kept() {
    let signer = Signer::of("example.");
    let keys = keys_of(&signer);
    let sets: Vec<Set> = (0..200)
        .map(|number| {
            let mut set = Set::of(&format!("n{number}.example."), "A", &["192.0.2.1"]);
            signer.sign(&mut set);
            set
        })
        .collect();
    sets.iter().for_each(|set| assert!(verify(set, &keys).is_ok()));
    assert!(keys.memory_octets() < 2_048);
    let mut budget = Budget::default();
    assert!(sets[0].with(|rrset| signature::verify(rrset, &keys, &context(), &mut budget)).is_ok());
    assert_eq!(budget.signature_checks(), 1, "the oldest gives way");
}
