//! Answers derived from cached denials, with the records supplied one by one as the resolver does.

use avocet_dnssec::aggressive::{Synthesis, synthesise};
use avocet_dnssec::nsec3::Nsec3;
use avocet_dnssec::{Budget, DenialKind, Hashes, Limits, Proof, nsec::Nsec};
use avocet_wire::{Rtype, name};

use crate::sets::{Set, rtype, wire, with_all};
use crate::zones::{Hashing, Truth, Zone, display, one_of_each};

const LABELS: [&str; 10] = ["*", "a", "b", "c", "d", "s", "t", "u", "w", "x"];

/// Derives an answer as the resolver does. Also returns the number of records that this took.
fn resolve(zone: &Zone, cached: &[Set], qname: &[u8], qtype: Rtype) -> (Synthesis, usize) {
    let (mut known, mut hashes) = (Vec::new(), Hashes::default());
    let mut budget = Budget::with_limits(Limits {
        nsec3_hashes: name::labels(qname).count() as u32 + 2,
        ..Limits::default()
    });
    loop {
        let found = with_all(&known, |rrsets| {
            let mut proof = Proof::cached(rrsets, &zone.apex).with_hashes(hashes.clone());
            let found = synthesise(&mut proof, qname, qtype, &mut budget);
            hashes = proof.into_hashes();
            found.unwrap()
        });
        let Synthesis::Missing(wanted) = found else { return (found, known.len()) };
        let is_wanted = |set: &&Set| match set.rtype {
            Rtype::NSEC => {
                let nsec = Nsec::read(&set.owner, &set.records[0], &zone.apex).unwrap();
                nsec.matches(wanted.wire()) || nsec.covers(wanted.wire())
            }
            _ => {
                let nsec3 = Nsec3::read(&set.owner, &set.records[0], &zone.apex).unwrap();
                let hash = hashes.of(wanted.wire()).copied();
                let hash = hash.unwrap_or_else(|| {
                    nsec3.parameters.hash(wanted.wire(), &mut Budget::default()).unwrap()
                });
                nsec3.matches(&hash) || nsec3.covers(&hash)
            }
        };
        match cached.iter().find(is_wanted) {
            Some(set) => known.push(set.clone()),
            None => return (found, known.len()),
        }
    }
}

fn check(zone: &Zone, cached: &[Set], most: usize) {
    for qname in zone.questions(&LABELS) {
        for qtype in ["A", "DS", "CNAME"].map(rtype) {
            let (found, steps) = resolve(zone, cached, &qname, qtype);
            let truth = zone.truth(&qname, qtype);
            let right = match &found {
                Synthesis::Denied(denial) if denial.kind == DenialKind::Nxdomain => {
                    truth == Truth::Nxdomain
                }
                Synthesis::Denied(_) => truth == Truth::Nodata,
                Synthesis::Wildcard(denial) => {
                    truth == Truth::Expanded(denial.closest_encloser.wire().to_vec())
                }
                Synthesis::Ask => matches!(truth, Truth::Exists | Truth::Elsewhere),
                // No record covers names below a delegation or a DNAME.
                Synthesis::Missing(_) => truth == Truth::Elsewhere,
            };
            assert!(right, "{} {qtype}: {truth:?} {found:?}", display(&qname));
            assert!(steps <= most, "{} {qtype}: {steps} records", display(&qname));
        }
    }
}

#[test]
fn with_nsec_all_that_the_zone_denies_is_synthesised_from_two_records() {
    let zone = one_of_each();
    check(&zone, &zone.nsecs(), 2);
}

#[test]
fn with_nsec3_it_takes_a_record_a_label_and_each_name_is_hashed_once() {
    let zone = one_of_each();
    check(&zone, &zone.nsec3s(Hashing { iterations: 0, salt: "", opts_out: false }), 6);
}

/// RFC 8198 §5.2: an opt-out span may hide a delegation.
#[test]
fn nothing_is_synthesised_where_the_zone_opts_out() {
    let zone = one_of_each();
    let cached = zone.nsec3s(Hashing { iterations: 0, salt: "", opts_out: true });
    for qname in ["x.z.", "u.z.", "x.w.z.", "a.u.z."] {
        let (found, _) = resolve(&zone, &cached, &wire(qname), rtype("DS"));
        assert_eq!(found, Synthesis::Ask, "{qname}");
    }
    let (found, _) = resolve(&zone, &cached, &wire("a.z."), rtype("TXT"));
    assert!(matches!(found, Synthesis::Denied(_)), "a name that exists is certain");
}

#[test]
fn names_outside_of_the_zone_are_asked_for() {
    let zone = one_of_each();
    assert_eq!(resolve(&zone, &zone.nsecs(), &wire("y."), rtype("A")), (Synthesis::Ask, 0));
}

/// The TTL of a derived answer is the lowest TTL of the records on which it relies (RFC 8198 §5.4).
#[test]
fn the_lifetime_is_the_least_of_the_records() {
    let zone = one_of_each();
    let mut cached = zone.nsecs();
    cached.iter_mut().for_each(|set| set.ttl_secs = if set.owner == wire("z.") { 9 } else { 100 });
    let lifetime_secs = |qname: &str| match resolve(&zone, &cached, &wire(qname), rtype("A")).0 {
        Synthesis::Denied(denial) => denial.lifetime_secs,
        other => panic!("{other:?}"),
    };
    assert_eq!((lifetime_secs("y.z."), lifetime_secs("x.a.z.")), (9, 100));
}
