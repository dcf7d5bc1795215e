//! Properties that hold when arbitrary octets are read as RRsets, checked by the tests and the fuzz
//! target `validation`.
//!
//! An input is a sequence of RRsets: `owner length u8 | owner | type u8 | TTL u8 | records u8 |
//! signatures u8`, then each record and signature as `length u16 | data`. A truncated RRset ends
//! the sequence.

use avocet_dnssec::aggressive::{Synthesis, synthesise};
use avocet_dnssec::anchor::{Anchor, Anchors};
use avocet_dnssec::budget::{MAX_NSEC3_HASHES, MAX_SIGNATURE_CHECKS, MAX_SIGNATURE_FAILURES};
use avocet_dnssec::rollover::Rollover;
use avocet_dnssec::{Budget, Context, Policy, Proof, Rrset, Trust, ZoneKeys, chain, signature};
use avocet_wire::{Class, NameBuf, Rtype};

/// The zone whose key validates the octets. Its signatures are valid at the wall clock `NOW`.
pub(crate) const ZONE: &[u8] = b"\x01z\0";
pub(crate) const NOW: u32 = 1_800_000_000;
pub(crate) const KEY: &str = "z. IN DNSKEY 257 3 15 iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=";
/// Maximum number of RRsets that are taken from an input.
const MAX_RRSETS: usize = 24;

struct Part<'a> {
    owner: &'a [u8],
    rtype: Rtype,
    ttl_secs: u32,
    records: Vec<&'a [u8]>,
    signatures: Vec<&'a [u8]>,
}

fn take<'a>(octets: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (front, rest) = octets.split_at_checked(len)?;
    *octets = rest;
    Some(front)
}

fn datum<'a>(octets: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take(octets, 2)?;
    take(octets, usize::from(u16::from_be_bytes([len[0], len[1]])))
}

fn part<'a>(octets: &mut &'a [u8]) -> Option<Part<'a>> {
    let owner_len = usize::from(take(octets, 1)?[0]);
    let owner = take(octets, owner_len)?;
    let &[rtype, ttl, records, signatures] = take(octets, 4)? else { return None };
    let mut data =
        |count: u8| -> Option<Vec<&'a [u8]>> { (0..count).map(|_| datum(octets)).collect() };
    let (records, signatures) = (data(records)?, data(signatures)?);
    Some(Part {
        owner,
        rtype: Rtype(rtype.into()),
        ttl_secs: u32::from(ttl) * 100,
        records,
        signatures,
    })
}

/// Validates the octets in all possible ways. Validation must not panic or exceed a limit. Returns
/// the verified RRsets: owner, type and records.
pub(crate) fn holds(octets: &[u8]) -> Vec<(Vec<u8>, Rtype, Vec<Vec<u8>>)> {
    let mut rest = octets;
    let parts: Vec<Part<'_>> = std::iter::from_fn(|| part(&mut rest)).take(MAX_RRSETS).collect();
    let rrsets: Vec<Rrset<'_>> = parts
        .iter()
        .map(|part| Rrset {
            owner: part.owner,
            rtype: part.rtype,
            class: Class::IN,
            ttl_secs: part.ttl_secs,
            records: &part.records,
            signatures: &part.signatures,
        })
        .collect();
    let context = Context { now_secs: NOW, policy: Policy::default() };
    let anchors = Anchors::of(Anchor::parse(KEY).into_iter().collect());
    let mut budget = Budget::default();
    let mut verified = Vec::new();
    let mut keys = None;
    for rrset in rrsets.iter().filter(|rrset| rrset.rtype == Rtype::DNSKEY) {
        let trust = anchors.point(ZONE).expect("the anchor of the zone");
        if let Ok(found) = chain::zone_keys(rrset, &trust.trust(), &context, &mut budget) {
            verified.push((rrset.owner.to_vec(), rrset.rtype, owned(rrset.records)));
            keys = Some(found);
        }
        rolls(rrset, &anchors, &mut budget);
    }
    for rrset in rrsets.iter().filter(|rrset| rrset.rtype == Rtype::DS) {
        let trust = Trust { ds: rrset.records, dnskeys: &[], lifetime_secs: 60 };
        let _ = rrsets
            .iter()
            .map(|keys| chain::zone_keys(keys, &trust, &context, &mut budget).is_ok())
            .count();
    }
    if let Some(keys) = keys {
        verified.extend(verify_all(&rrsets, &keys, &context, &mut budget));
        rrsets.iter().for_each(|rrset| ask(&rrsets, Some(&keys), rrset, &mut budget));
    }
    rrsets.iter().for_each(|rrset| ask(&rrsets, None, rrset, &mut budget));
    assert!(budget.signature_checks() <= MAX_SIGNATURE_CHECKS);
    assert!(budget.signature_failures() <= MAX_SIGNATURE_FAILURES);
    assert!(budget.nsec3_hashes() <= MAX_NSEC3_HASHES);
    if let Ok(text) = str::from_utf8(octets) {
        if let Ok(anchor) = Anchor::parse(text) {
            assert_eq!(
                Anchor::parse(&anchor.to_string()),
                Ok(anchor),
                "an anchor is read as it is written"
            );
        }
        let _ = Rollover::begin(&NameBuf::ROOT, &anchors).resume(text);
    }
    verified
}

fn owned(slices: &[&[u8]]) -> Vec<Vec<u8>> {
    slices.iter().map(|slice| slice.to_vec()).collect()
}

fn verify_all(
    rrsets: &[Rrset<'_>],
    keys: &ZoneKeys,
    context: &Context,
    budget: &mut Budget,
) -> Vec<(Vec<u8>, Rtype, Vec<Vec<u8>>)> {
    let mut found = Vec::new();
    for rrset in rrsets {
        budget.begin_message();
        let Ok(verified) = signature::verify(rrset, keys, context, budget) else { continue };
        assert!(verified.lifetime_secs <= rrset.ttl_secs);
        assert!(avocet_wire::name::is_under(rrset.owner, ZONE));
        let owner = match verified.closest_encloser {
            Some(encloser) => [b"\x01*", encloser.wire()].concat(),
            None => rrset.owner.to_vec(),
        };
        found.push((owner, rrset.rtype, owned(rrset.records)));
    }
    found
}

/// Tries all proofs for the owner and the type of one of the RRsets.
fn ask(rrsets: &[Rrset<'_>], keys: Option<&ZoneKeys>, question: &Rrset<'_>, budget: &mut Budget) {
    let context = Context { now_secs: NOW, policy: Policy::default() };
    let mut proof = match keys {
        Some(keys) => Proof::signed(rrsets, keys, &context),
        None => Proof::cached(rrsets, ZONE),
    };
    let nxdomain = proof.nxdomain(question.owner, budget);
    let nodata = proof.nodata(question.owner, question.rtype, budget);
    let delegation = proof.delegation(question.owner, budget);
    let encloser = NameBuf::from_wire(ZONE).expect("a name");
    let expansion = proof.expansion(question.owner, &encloser, budget);
    let longest = rrsets.iter().map(|rrset| rrset.ttl_secs).max().unwrap_or(0);
    for denial in [nxdomain, nodata, expansion].into_iter().flatten() {
        assert!(denial.lifetime_secs <= longest);
        assert!(avocet_wire::name::is_under(question.owner, denial.closest_encloser.wire()));
    }
    assert!(delegation.is_err() || question.owner != ZONE);
    if keys.is_none() {
        let found = synthesise(&mut proof, question.owner, question.rtype, budget);
        if let Ok(Synthesis::Missing(name)) = found {
            assert!(avocet_wire::name::is_under(name.wire(), ZONE));
        }
    }
}

fn rolls(rrset: &Rrset<'_>, anchors: &Anchors, budget: &mut Budget) {
    let zone = NameBuf::from_wire(ZONE).expect("a name");
    let mut rollover = Rollover::begin(&zone, anchors);
    let observed = rollover.observe(rrset, Policy::default(), NOW.into(), budget);
    let mut other = Rollover::begin(&zone, anchors);
    assert_eq!(other.resume(&rollover.to_string()), Ok(()));
    assert_eq!((other.keys(), observed.is_err()), (rollover.keys(), rollover.keys().is_empty()));
}
