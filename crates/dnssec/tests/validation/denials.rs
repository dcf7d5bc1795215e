//! Proofs with the complete NSEC or NSEC3 chain of a zone: they prove everything that is true about
//! a name, and nothing else.

use avocet_dnssec::{
    Budget, Delegation, DelegationKind, Denial, DenialKind, Limits, Proof, Reason, Rrset, Verdict,
};
use avocet_wire::{NameBuf, Rtype, name};

use crate::chains::keys_of;
use crate::random::Random;
use crate::sets::{Set, context, rtype, wire, with_all};
use crate::signer::Signer;
use crate::zones::{Hashing, Truth, Zone, display, one_of_each, random_zone};

const LABELS: [&str; 14] = ["*", "a", "b", "!", "c", "d", "e", "s", "t", "u", "v", "w", "x", "~"];
const TYPES: [&str; 6] = ["A", "TXT", "CNAME", "DS", "NS", "SOA"];
const PLAIN: Hashing = Hashing { iterations: 0, salt: "", opts_out: false };

/// Returns a budget that many successive proofs cannot use up.
pub(crate) fn ample() -> Budget {
    Budget::with_limits(Limits { nsec3_hashes: 1 << 20, ..Limits::default() })
}

fn name_buf(wire: &[u8]) -> NameBuf {
    NameBuf::from_wire(wire).unwrap()
}

/// Tries all proofs for one name and every type.
fn check(zone: &Zone, rrsets: &[Rrset<'_>], qname: &[u8]) {
    let mut proof = Proof::cached(rrsets, &zone.apex);
    for qtype in TYPES.map(rtype) {
        let truth = zone.truth(qname, qtype);
        let what = format!("{} {qtype}: {truth:?}", display(qname));
        let nxdomain = proof.nxdomain(qname, &mut ample());
        assert_eq!(nxdomain.is_ok(), truth == Truth::Nxdomain, "{what}, {nxdomain:?}");
        let nodata = proof.nodata(qname, qtype, &mut ample());
        assert_eq!(nodata.is_ok(), truth == Truth::Nodata, "{what}, {nodata:?}");
        for above in name::ancestors(qname).skip(1) {
            let expansion = proof.expansion(qname, &name_buf(above), &mut ample());
            if truth == Truth::Expanded(above.to_vec()) {
                assert_eq!(expansion.unwrap().kind, DenialKind::Expansion, "{what}");
            } else if matches!(truth, Truth::Expanded(_) | Truth::Exists | Truth::Elsewhere) {
                // NSEC3 does not prove that the closest encloser itself exists. The signature of
                // the wildcard proves that.
                let wildcard_is_signed =
                    zone.truth(&[b"\x01*", above].concat(), qtype) == Truth::Exists;
                assert!(expansion.is_err() || !wildcard_is_signed, "{what} {}", display(above));
            }
        }
    }
}

fn check_all(zone: &Zone, sets: &[Set]) {
    with_all(sets, |rrsets| {
        zone.questions(&LABELS).iter().for_each(|qname| check(zone, rrsets, qname))
    });
}

#[test]
fn nsec_proves_what_is_true_and_nothing_else() {
    let zone = one_of_each();
    check_all(&zone, &zone.nsecs());
}

#[test]
fn nsec3_proves_what_is_true_and_nothing_else() {
    let zone = one_of_each();
    check_all(&zone, &zone.nsec3s(Hashing { iterations: 1, salt: "ab", ..PLAIN }));
}

/// Small random zones of many kinds, including the root zone.
#[test]
fn both_chains_of_random_zones_prove_what_is_true_and_nothing_else() {
    let mut random = Random(0x2a);
    for number in 0..80 {
        let zone = random_zone(&mut random, if number % 4 == 0 { "." } else { "z." });
        for sets in [zone.nsecs(), zone.nsec3s(PLAIN)] {
            let names = zone.questions(&LABELS[..3]);
            with_all(&sets, |rrsets| names.iter().for_each(|qname| check(&zone, rrsets, qname)));
            check_delegations(&sets, &zone, &names, |_, truth| truth);
        }
    }
}

fn check_delegations(
    sets: &[Set],
    zone: &Zone,
    names: &[Vec<u8>],
    expected: impl Fn(&[u8], Option<DelegationKind>) -> Option<DelegationKind>,
) {
    with_all(sets, |rrsets| {
        for child in names.iter().skip(1) {
            let found = Proof::cached(rrsets, &zone.apex).delegation(child, &mut ample());
            let wanted = expected(child, zone.delegation(child));
            assert_eq!(found.ok().map(|delegation| delegation.kind), wanted, "{}", display(child));
        }
        assert!(Proof::cached(rrsets, &zone.apex).delegation(&zone.apex, &mut ample()).is_err());
    });
}

#[test]
fn delegations_without_ds_are_told_from_names_of_the_zone() {
    let zone = one_of_each();
    let names = zone.questions(&LABELS);
    check_delegations(&zone.nsecs(), &zone, &names, |_, truth| truth);
    check_delegations(&zone.nsec3s(PLAIN), &zone, &names, |_, truth| truth);
}

/// A span with opt-out denies nothing for certain. An unsigned delegation in it is insecure.
#[test]
fn opt_out_makes_insecure() {
    let zone = one_of_each();
    let sets = zone.nsec3s(Hashing { opts_out: true, ..PLAIN });
    let exists = |child: &[u8]| {
        zone.truth(child, rtype("SRV")) != Truth::Nxdomain && zone.delegation(child).is_some()
    };
    check_delegations(&sets, &zone, &zone.questions(&LABELS), |child, truth| match truth {
        Some(DelegationKind::NoCut) if exists(child) && !is_wildcard_answer(&zone, child) => truth,
        Some(_) => Some(DelegationKind::OptOut),
        // The name is below a delegation that the chain omits because of opt-out.
        None if name::is_under(child, &wire("u.z.")) => Some(DelegationKind::OptOut),
        None => None,
    });
    with_all(&sets, |rrsets| {
        let proof = || Proof::cached(rrsets, &zone.apex);
        let denial = proof().nxdomain(&wire("x.z."), &mut ample()).unwrap();
        assert_eq!((denial.is_opt_out, denial.verdict()), (true, Verdict::Insecure));
        let denial =
            proof().expansion(&wire("x.w.z."), &name_buf(&wire("w.z.")), &mut ample()).unwrap();
        assert_eq!(denial.verdict(), Verdict::Insecure);
        let denial = proof().nodata(&wire("a.z."), rtype("TXT"), &mut ample()).unwrap();
        assert_eq!(denial.verdict(), Verdict::Secure, "a name that exists is certain");
        let denial = proof().nodata(&wire("u.z."), Rtype::DS, &mut ample()).unwrap();
        assert_eq!(denial.verdict(), Verdict::Insecure);
    });
}

/// RFC 5155 §8.2: records with other parameters are ignored. Records that are too costly make a
/// zone insecure only if there are no others.
#[test]
fn records_that_cost_too_much_do_not_hide_that_the_others_prove_nothing() {
    let zone = one_of_each();
    let (cheap, costly) = (zone.nsec3s(PLAIN), zone.nsec3s(Hashing { iterations: 200, ..PLAIN }));
    let prove = |sets: &[Set]| {
        with_all(sets, |rrsets| {
            Proof::cached(rrsets, &zone.apex).nxdomain(&wire("x.a.z."), &mut ample())
        })
        .map(|_| ())
    };
    assert_eq!(prove(&costly[..3]), Err(Reason::Nsec3Iterations));
    assert_eq!(prove(&[&costly[..3], &cheap[..1]].concat()), Err(Reason::DenialMissing));
    assert_eq!(prove(&[&costly[..3], &cheap].concat()), Ok(()));
}

fn is_wildcard_answer(zone: &Zone, wire: &[u8]) -> bool {
    !zone.nsecs().iter().any(|set| name::is_under(&set.owner, wire))
}

/// Signs proofs record by record, as messages carry them.
fn signed(sets: &mut [Set], signer: &Signer) {
    sets.iter_mut().for_each(|set| signer.sign(set));
}

#[test]
fn only_the_records_that_are_needed_are_verified() {
    let (zone, signer) = (one_of_each(), Signer::of("z."));
    let keys = keys_of(&signer);
    for (mut sets, checks) in [(zone.nsecs(), 2), (zone.nsec3s(PLAIN), 3)] {
        signed(&mut sets, &signer);
        let mut budget = Budget::default();
        let denial = with_all(&sets, |rrsets| {
            Proof::signed(rrsets, &keys, &context()).nxdomain(&wire("x.a.z."), &mut budget)
        });
        let denial = denial.unwrap();
        assert_eq!(
            (denial.kind, denial.verdict(), denial.lifetime_secs),
            (DenialKind::Nxdomain, Verdict::Secure, 3600)
        );
        assert_eq!(denial.closest_encloser, name_buf(&wire("a.z.")));
        assert!(budget.signature_checks() <= checks, "{}", budget.signature_checks());
    }
}

#[test]
fn a_record_that_is_needed_must_be_signed() {
    let (zone, signer, other) = (one_of_each(), Signer::of("z."), Signer::of("z."));
    let keys = keys_of(&signer);
    for sets in [zone.nsecs(), zone.nsec3s(PLAIN)] {
        let ask = |sets: &[Set]| {
            with_all(sets, |rrsets| {
                Proof::signed(rrsets, &keys, &context()).nodata(
                    &wire("a.z."),
                    rtype("TXT"),
                    &mut Budget::default(),
                )
            })
        };
        assert_eq!(ask(&sets), Err(Reason::SignatureMissing));
        let mut stripped = sets.clone();
        stripped.clear();
        assert_eq!(ask(&stripped), Err(Reason::DenialMissing));
        let mut forged = sets.clone();
        signed(&mut forged, &other);
        assert_eq!(ask(&forged), Err(Reason::DnskeyMissing));
        let mut good = sets;
        signed(&mut good, &signer);
        assert!(ask(&good).is_ok());
        good.iter_mut().for_each(|set| set.ttl_secs = 17);
        assert_eq!(ask(&good).unwrap().lifetime_secs, 17);
    }
}

/// The records of the parent zone prove nothing about names in the child zone, and those of the
/// child zone prove nothing about its own delegation (CVE-2026-10723).
#[test]
fn records_of_another_zone_prove_nothing() {
    let (parent, child) = (one_of_each(), Zone::of(&["s.z. SOA NS", "b.s.z. A"]));
    let (parent_signer, child_signer) = (Signer::of("z."), Signer::of("s.z."));
    for by_hash in [false, true] {
        let chain = |zone: &Zone, signer: &Signer| {
            let mut sets = if by_hash { zone.nsec3s(PLAIN) } else { zone.nsecs() };
            signed(&mut sets, signer);
            sets
        };
        let ask = |sets: &[Set], signer: &Signer, qname: &str, qtype: &str| {
            let keys = keys_of(signer);
            with_all(sets, |rrsets| {
                let mut proof = Proof::signed(rrsets, &keys, &context());
                let nodata = proof.nodata(&wire(qname), rtype(qtype), &mut ample()).is_ok();
                nodata || proof.nxdomain(&wire(qname), &mut ample()).is_ok()
            })
        };
        let (parents, childs) = (chain(&parent, &parent_signer), chain(&child, &child_signer));
        assert!(ask(&childs, &child_signer, "c.s.z.", "A"));
        assert!(!ask(&parents, &parent_signer, "c.s.z.", "A"), "an ancestor's record");
        assert!(!ask(&parents, &parent_signer, "s.z.", "A"), "the parent's side of the cut");
        assert!(!ask(&childs, &child_signer, "s.z.", "DS"), "the child's side of the cut");
        assert!(!ask(&childs, &parent_signer, "s.z.", "DS"), "the child's records for the parent");
        let unsigned = with_all(&childs, |rrsets| {
            let keys = keys_of(&parent_signer);
            Proof::signed(rrsets, &keys, &context()).delegation(&wire("s.z."), &mut ample())
        });
        assert!(unsigned.is_err());
    }
}

/// An NSEC record of another name cannot deny the DS records of a signed delegation.
#[test]
fn a_signed_delegation_cannot_be_downgraded() {
    let zone = one_of_each();
    for sets in [zone.nsecs(), zone.nsec3s(PLAIN), zone.nsec3s(Hashing { opts_out: true, ..PLAIN })]
    {
        with_all(&sets, |rrsets| {
            for rrset in rrsets {
                let one = [*rrset];
                let found = Proof::cached(&one, &zone.apex).delegation(&wire("s.z."), &mut ample());
                assert_eq!(found, Err(Reason::DenialMissing), "{}", display(rrset.owner));
            }
        });
    }
}

#[test]
fn a_wildcards_nsec_is_not_expanded_to_another_owner() {
    let (zone, signer) = (one_of_each(), Signer::of("z."));
    let mut sets: Vec<Set> =
        zone.nsecs().into_iter().filter(|set| set.owner == wire("*.w.z.")).collect();
    signed(&mut sets, &signer);
    sets[0].owner = wire("!.w.z.");
    let keys = keys_of(&signer);
    let verdict = with_all(&sets, |rrsets| {
        Proof::signed(rrsets, &keys, &context()).nodata(
            &wire("!.w.z."),
            rtype("TXT"),
            &mut Budget::default(),
        )
    });
    assert_eq!(verdict, Err(Reason::WrongLabels));
}

#[test]
fn too_many_iterations_are_insecure_once_they_are_the_zones_word() {
    let (zone, signer) = (one_of_each(), Signer::of("z."));
    let keys = keys_of(&signer);
    for (iterations, is_costly) in [(50, false), (51, true), (65_535, true)] {
        let mut sets = Zone::of(&["z. SOA"]).nsec3s(PLAIN);
        if !is_costly {
            sets = zone.nsec3s(Hashing { iterations, ..PLAIN });
        }
        sets.iter_mut()
            .for_each(|set| set.records[0][2..4].copy_from_slice(&iterations.to_be_bytes()));
        let ask = |sets: &[Set]| {
            with_all(sets, |rrsets| {
                let mut proof = Proof::signed(rrsets, &keys, &context());
                let denial = proof
                    .nxdomain(&wire("q.z."), &mut Budget::default())
                    .map(|denial: Denial| denial.kind);
                let mut proof = Proof::signed(rrsets, &keys, &context());
                let delegation = proof.delegation(&wire("q.z."), &mut Budget::default());
                (denial, delegation.map(|delegation: Delegation| delegation.kind))
            })
        };
        assert!(
            matches!(ask(&sets).0, Err(Reason::SignatureMissing)),
            "{iterations}: anyone's word"
        );
        signed(&mut sets, &signer);
        if is_costly {
            assert_eq!(ask(&sets), (Err(Reason::Nsec3Iterations), Err(Reason::Nsec3Iterations)));
        } else {
            assert_eq!(ask(&sets), (Ok(DenialKind::Nxdomain), Ok(DelegationKind::NoCut)));
        }
    }
}

/// A zone that changes from NSEC to NSEC3 may send both. A complete proof of one kind is enough,
/// but incomplete proofs of both kinds are not.
#[test]
fn nsec_and_nsec3_are_not_mixed() {
    let zone = one_of_each();
    let (nsecs, nsec3s) = (zone.nsecs(), zone.nsec3s(PLAIN));
    let qname = wire("x.z.");
    let ask = |sets: &[Set]| {
        with_all(sets, |rrsets| {
            Proof::cached(rrsets, &zone.apex).nxdomain(&qname, &mut ample()).is_ok()
        })
    };
    assert!(ask(&[nsecs[..1].to_vec(), nsec3s.clone()].concat()));
    let absence: Vec<Set> =
        nsecs.iter().filter(|set| set.owner == wire("x.b.w.z.")).cloned().collect();
    assert!(!ask(&absence), "the wildcard is not denied");
    assert!(!ask(&[absence, nsec3s].concat()));
}
