//! Tests of chains from DS records and trust anchors to keys.

use avocet_dnssec::anchor::{Anchor, Anchors};
use avocet_dnssec::budget::{MAX_DNSKEYS, MAX_DS_RECORDS};
use avocet_dnssec::key::Dnskey;
use avocet_dnssec::{Budget, Limit, Reason, Trust, ZoneKeys, chain};
use avocet_wire::NameBuf;
use aws_lc_rs::digest::{SHA256, digest};

use crate::sets::{NOW, Set, context, context_with_sha1, data, wire};
use crate::signer::{ALGORITHMS, Fields, Signer};

/// Returns the DNSKEY RRset of these keys, signed by the first key.
pub(crate) fn dnskeys(signers: &[&Signer]) -> Set {
    let mut set = Set::of("example.", "DNSKEY", &[]);
    set.owner = signers[0].zone.clone();
    set.records = signers.iter().map(|signer| signer.dnskey.clone()).collect();
    signers[0].sign(&mut set);
    set
}

pub(crate) fn keys_by_ds(set: &Set, ds: &[Vec<u8>]) -> Result<ZoneKeys, Reason> {
    keys_in(set, ds, &mut Budget::default())
}

fn keys_in(set: &Set, ds: &[Vec<u8>], budget: &mut Budget) -> Result<ZoneKeys, Reason> {
    let ds: Vec<&[u8]> = ds.iter().map(Vec::as_slice).collect();
    let trust = Trust { ds: &ds, dnskeys: &[], lifetime_secs: 7200 };
    set.with(|rrset| chain::zone_keys(rrset, &trust, &context(), budget))
}

/// Returns the keys of a zone with this single key.
pub(crate) fn keys_of(signer: &Signer) -> ZoneKeys {
    keys_by_ds(&dnskeys(&[signer]), &[signer.ds(2)]).unwrap()
}

#[test]
fn every_algorithm_and_digest_leads_to_the_keys() {
    for algorithm in ALGORITHMS {
        let (entry, other) =
            (Signer::generate("Example.", 257, algorithm), Signer::generate("example.", 256, 13));
        for digest_type in [1, 2, 4] {
            let keys = keys_by_ds(&dnskeys(&[&entry, &other]), &[entry.ds(digest_type)]).unwrap();
            assert_eq!(keys.zone().wire(), wire("example."));
            assert_eq!(keys.tags().collect::<Vec<_>>(), [entry.tag(), other.tag()]);
            assert_eq!(keys.lifetime_secs(NOW), 3600);
            assert_eq!(keys.lifetime_secs(NOW + 3000), 600);
            assert_eq!(keys.lifetime_secs(NOW + 4000), 0);
        }
    }
}

#[test]
fn a_key_that_is_not_the_digested_one_leads_nowhere() {
    let (entry, other) = (Signer::of("example."), Signer::of("example."));
    assert_eq!(keys_by_ds(&dnskeys(&[&other]), &[entry.ds(2)]), Err(Reason::DnskeyMissing));
    // The RRset contains the right key, but another key has signed the RRset.
    assert_eq!(keys_by_ds(&dnskeys(&[&other, &entry]), &[entry.ds(2)]), Err(Reason::DnskeyMissing));
    let mut unsigned = dnskeys(&[&entry]);
    unsigned.signatures.clear();
    assert_eq!(keys_by_ds(&unsigned, &[entry.ds(2)]), Err(Reason::SignatureMissing));
    let mut added = dnskeys(&[&entry]);
    added.records.push(other.dnskey.clone());
    assert_eq!(keys_by_ds(&added, &[entry.ds(2)]), Err(Reason::SignatureInvalid));
}

#[test]
fn what_is_unknown_is_insecure_and_never_bogus() {
    let entry = Signer::of("example.");
    let set = dnskeys(&[&entry]);
    let changed = |at: usize, value: u8| {
        let mut ds = entry.ds(2);
        ds[at] = value;
        ds
    };
    assert_eq!(keys_by_ds(&set, &[changed(2, 16)]), Err(Reason::UnsupportedAlgorithm), "Ed448");
    assert_eq!(
        keys_by_ds(&set, &[changed(2, 5)]),
        Err(Reason::UnsupportedAlgorithm),
        "RSA/SHA-1 by policy"
    );
    assert_eq!(keys_by_ds(&set, &[changed(2, 253)]), Err(Reason::UnsupportedAlgorithm));
    assert_eq!(keys_by_ds(&set, &[changed(3, 3)]), Err(Reason::UnsupportedDigest), "GOST");
    assert!(
        keys_by_ds(&set, &[changed(2, 16), changed(3, 3), entry.ds(2)]).is_ok(),
        "one known is enough"
    );
    // The digest is random: an octet set to a constant would be unchanged once in 256 runs.
    let mut wrong = entry.ds(2);
    wrong[5] ^= 1;
    assert_eq!(
        keys_by_ds(&set, &[changed(2, 16), wrong]),
        Err(Reason::DnskeyMissing),
        "a wrong one is bogus"
    );
    assert_eq!(keys_by_ds(&set, &[vec![0, 1, 13]]), Err(Reason::Malformed));
}

#[test]
fn sha1_digests_do_not_count_beside_better_ones() {
    let (entry, other) = (Signer::of("example."), Signer::of("example."));
    let set = dnskeys(&[&other]);
    assert_eq!(keys_by_ds(&set, &[other.ds(1), entry.ds(2)]), Err(Reason::DnskeyMissing));
    assert!(keys_by_ds(&set, &[other.ds(1)]).is_ok());
}

#[test]
fn revoked_keys_and_keys_without_the_zone_bit_lead_nowhere() {
    let revoked = Signer::generate("example.", 257 | 128, 13);
    assert_eq!(keys_by_ds(&dnskeys(&[&revoked]), &[revoked.ds(2)]), Err(Reason::DnskeyMissing));
    let host = Signer::generate("example.", 0, 13);
    assert_eq!(keys_by_ds(&dnskeys(&[&host]), &[host.ds(2)]), Err(Reason::NotZoneKey));
    let mut protocol = Signer::of("example.");
    protocol.dnskey[2] = 4;
    assert_eq!(keys_by_ds(&dnskeys(&[&protocol]), &[protocol.ds(2)]), Err(Reason::NotZoneKey));
}

/// The digest authenticates the key, so the zone itself has chosen the size of the key.
#[test]
fn a_zone_with_too_short_keys_is_insecure() {
    let mut short = Signer::generate("example.", 257, 8);
    short.dnskey.truncate(4 + 4 + 64);
    assert_eq!(keys_by_ds(&dnskeys(&[&short]), &[short.ds(2)]), Err(Reason::UnsupportedKeySize));
}

#[test]
fn the_dnskey_rrset_may_be_signed_by_the_zone_itself_only() {
    let (entry, parent) = (Signer::of("a.example."), Signer::of("example."));
    let mut set = dnskeys(&[&entry]);
    set.signatures.clear();
    let fields = Fields { signer: parent.zone.clone(), ..entry.fields(&set) };
    entry.sign_as(&mut set, &fields);
    assert_eq!(keys_by_ds(&set, &[entry.ds(2)]), Err(Reason::WrongSigner));
}

#[test]
fn the_counts_of_ds_and_dnskey_are_bounded() {
    let entry = Signer::of("example.");
    let mut ds = vec![entry.ds(2); MAX_DS_RECORDS as usize];
    ds.iter_mut().for_each(|ds| ds[9] ^= 1);
    ds.push(entry.ds(2));
    let mut budget = Budget::default();
    assert_eq!(
        keys_in(&dnskeys(&[&entry]), &ds, &mut budget),
        Err(Reason::Limit(Limit::DsRecords))
    );
    assert_eq!(budget.signature_checks(), 0);
    let mut set = dnskeys(&[&entry]);
    set.records.resize(MAX_DNSKEYS as usize + 1, data("DNSKEY", "256 3 13 AAAA"));
    assert_eq!(keys_by_ds(&set, &[entry.ds(2)]), Err(Reason::Limit(Limit::Dnskeys)));
}

#[test]
fn anchors_of_both_types_and_any_name_begin_a_chain() {
    let (entry, other) = (Signer::of("a.example."), Signer::of("a.example."));
    let name = NameBuf::from_wire(&entry.zone).unwrap();
    let set = dnskeys(&[&entry]);
    let ask = |anchors: &Anchors| {
        let point = anchors.point(&entry.zone).unwrap();
        set.with(|rrset| {
            chain::zone_keys(rrset, &point.trust(), &context(), &mut Budget::default())
        })
    };
    let key = |signer: &Signer| Anchor::of_key(&name, &signer.dnskey).unwrap();
    let digest = |signer: &Signer| {
        let ds = signer.ds(4);
        Anchor::parse(&format!(
            "a.example. {}",
            format_args!("DS {}", avocet_wire::rdata::display(43, &ds))
        ))
        .unwrap()
    };
    for anchors in [vec![key(&entry)], vec![digest(&entry)], vec![key(&other), digest(&entry)]] {
        assert!(ask(&Anchors::of(anchors)).is_ok());
    }
    assert_eq!(ask(&Anchors::of(vec![key(&other)])), Err(Reason::DnskeyMissing));
    assert_eq!(ask(&Anchors::of(vec![key(&other), digest(&other)])), Err(Reason::DnskeyMissing));
    let unknown = Anchor::parse("a.example. DNSKEY 257 3 16 AAAA").unwrap();
    assert_eq!(ask(&Anchors::of(vec![unknown])), Err(Reason::UnsupportedAlgorithm));
}

#[test]
fn sha1_is_a_matter_of_policy() {
    let ds = data("DS", "1 7 2 00");
    assert_eq!(chain::check_ds(&[&ds], context().policy), Err(Reason::UnsupportedAlgorithm));
    assert_eq!(chain::check_ds(&[&ds], context_with_sha1(NOW).policy), Ok(()));
}

/// Returns the data of a DNSKEY record for RSA/SHA-256 with an unsupported modulus of 512 bits, and
/// of its DS record.
fn small_key() -> (Vec<u8>, Vec<u8>) {
    let mut key = vec![1, 1, 3, 8, 3, 1, 0, 1, 0x80];
    key.extend([0xff; 63]);
    let tag = Dnskey::read(&key).unwrap().tag();
    let digested = digest(&SHA256, &[&wire("example.")[..], &key].concat());
    let ds = [&tag.to_be_bytes()[..], &[8, 2], digested.as_ref()].concat();
    (key, ds)
}

/// An attacker on the path may remove a supported key. The other keys must not make the zone
/// insecure.
#[test]
fn keys_of_unsupported_sizes_are_insecure_only_where_every_ds_record_leads_to_one() {
    let good = Signer::of("example.");
    let (key, ds_of_small) = small_key();
    let mut set = Set::of("example.", "DNSKEY", &[]);
    set.records = vec![key];
    assert_eq!(
        keys_by_ds(&set, std::slice::from_ref(&ds_of_small)).unwrap_err(),
        Reason::UnsupportedKeySize
    );
    for ds in [[ds_of_small.clone(), good.ds(2)], [good.ds(2), ds_of_small]] {
        assert_eq!(keys_by_ds(&set, &ds).unwrap_err(), Reason::DnskeyMissing);
    }
}
