//! Proofs by NSEC records (RFC 4035 §5.4).

use avocet_wire::{NameBuf, Rtype};

use super::{
    Delegation, DelegationKind, Denial, DenialKind, Proof, VerifiedRecord, delegation_of, denies,
    name_buf,
};
use crate::budget::Budget;
use crate::label;
use crate::nsec::Nsec;
use crate::verdict::Reason;

fn denial(kind: DenialKind, closest_encloser: &[u8], lifetime_secs: u32) -> Denial {
    Denial { kind, is_opt_out: false, closest_encloser: name_buf(closest_encloser), lifetime_secs }
}

/// Returns the record that proves that a name does not exist, not even as an empty non-terminal.
fn absence<'a>(
    proof: &mut Proof<'a>,
    wire: &[u8],
    budget: &mut Budget,
) -> Result<Option<VerifiedRecord<Nsec<'a>>>, Reason> {
    proof.nsec(|nsec| nsec.covers(wire) && !nsec.shows_below(wire), budget)
}

pub(super) fn nxdomain(
    proof: &mut Proof<'_>,
    qname: &[u8],
    budget: &mut Budget,
) -> Result<Denial, Reason> {
    let (nsec, lifetime_secs) = absence(proof, qname, budget)?.ok_or(Reason::DenialMissing)?;
    let encloser = nsec.closest_encloser(qname);
    let wildcard = label::wildcard_below(encloser).ok_or(Reason::DenialMissing)?;
    let (_, wildcard_secs) =
        absence(proof, wildcard.wire(), budget)?.ok_or(Reason::DenialMissing)?;
    Ok(denial(DenialKind::Nxdomain, encloser, lifetime_secs.min(wildcard_secs)))
}

pub(super) fn nodata(
    proof: &mut Proof<'_>,
    qname: &[u8],
    qtype: Rtype,
    budget: &mut Budget,
) -> Result<Denial, Reason> {
    if let Some((nsec, lifetime_secs)) = proof.nsec(|nsec| nsec.matches(qname), budget)? {
        let denied = denies(nsec.types, qname, qtype);
        return denied
            .then(|| denial(DenialKind::Nodata, qname, lifetime_secs))
            .ok_or(Reason::DenialMissing);
    }
    if let Some((_, secs)) =
        proof.nsec(|nsec| nsec.covers(qname) && nsec.shows_below(qname), budget)?
    {
        return Ok(denial(DenialKind::EmptyNonTerminal, qname, secs));
    }
    let (nsec, lifetime_secs) = absence(proof, qname, budget)?.ok_or(Reason::DenialMissing)?;
    let encloser = nsec.closest_encloser(qname);
    let wildcard = label::wildcard_below(encloser).ok_or(Reason::DenialMissing)?;
    let wildcard = wildcard.wire();
    let matching = |nsec: &Nsec<'_>| {
        (nsec.matches(wildcard) && denies(nsec.types, wildcard, qtype))
            || (nsec.covers(wildcard) && nsec.shows_below(wildcard))
    };
    let (_, wildcard_secs) = proof.nsec(matching, budget)?.ok_or(Reason::DenialMissing)?;
    Ok(denial(DenialKind::WildcardNodata, encloser, lifetime_secs.min(wildcard_secs)))
}

pub(super) fn expansion(
    proof: &mut Proof<'_>,
    qname: &[u8],
    closest_encloser: &NameBuf,
    budget: &mut Budget,
) -> Result<Denial, Reason> {
    // If a name closer to the owner existed, the wildcard would not apply.
    let proves = |nsec: &Nsec<'_>| {
        nsec.covers(qname)
            && !nsec.shows_below(qname)
            && label::equal(nsec.closest_encloser(qname), closest_encloser.wire())
    };
    let (_, lifetime_secs) = proof.nsec(proves, budget)?.ok_or(Reason::DenialMissing)?;
    Ok(denial(DenialKind::Expansion, closest_encloser.wire(), lifetime_secs))
}

pub(super) fn delegation(
    proof: &mut Proof<'_>,
    child: &[u8],
    budget: &mut Budget,
) -> Result<Delegation, Reason> {
    if let Some((nsec, lifetime_secs)) = proof.nsec(|nsec| nsec.matches(child), budget)? {
        let kind = delegation_of(nsec.types).ok_or(Reason::DenialMissing)?;
        return Ok(Delegation { kind, lifetime_secs });
    }
    let (_, lifetime_secs) =
        proof.nsec(|nsec| nsec.covers(child), budget)?.ok_or(Reason::DenialMissing)?;
    Ok(Delegation { kind: DelegationKind::NoCut, lifetime_secs })
}
