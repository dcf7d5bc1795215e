//! Zones that change from NSEC to NSEC3 while caches have their records (row S20 of
//! `tests/SECURITY.md`).

use avocet_dnssec::Proof;

use crate::denials::ample;
use crate::sets::{Set, wire, with_all};
use crate::zones::{Hashing, one_of_each};

fn denies(sets: &[Set]) -> bool {
    with_all(sets, |rrsets| {
        Proof::cached(rrsets, &wire("z.")).nxdomain(&wire("q.z."), &mut ample()).is_ok()
    })
}

/// Returns, for each record that the denial needs, all other records.
fn halves(sets: &[Set]) -> Vec<Vec<Set>> {
    let without = |at: usize| -> Vec<Set> {
        sets.iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .map(|(_, set)| set.clone())
            .collect()
    };
    (0..sets.len()).map(without).filter(|rest| !denies(rest)).collect()
}

#[test]
fn halves_of_two_kinds_of_proof_make_no_whole() {
    let zone = one_of_each();
    let (nsecs, nsec3s) =
        (zone.nsecs(), zone.nsec3s(Hashing { iterations: 0, salt: "", opts_out: false }));
    assert!(denies(&nsecs) && denies(&nsec3s));
    let (of_nsec, of_nsec3) = (halves(&nsecs), halves(&nsec3s));
    assert!(!of_nsec.is_empty() && of_nsec3.len() >= 2, "there are records that it needs");
    for nsec in &of_nsec {
        for nsec3 in &of_nsec3 {
            let both: Vec<Set> = nsec.iter().chain(nsec3).cloned().collect();
            let swapped: Vec<Set> = nsec3.iter().chain(nsec).cloned().collect();
            assert!(!denies(&both) && !denies(&swapped));
        }
    }
}
