//! Proofs by NSEC3 records (RFC 5155 §8).

use avocet_wire::{NameBuf, Rtype, name};

use super::{
    Delegation, DelegationKind, Denial, DenialKind, Proof, VerifiedRecord, delegation_of, denies,
    find, name_buf,
};
use crate::budget::Budget;
use crate::label;
use crate::nsec3::{Hash, MAX_ITERATIONS, Nsec3, Parameters};
use crate::verdict::Reason;

/// A proof of the closest encloser (RFC 5155 §8.3).
struct Encloser<'a> {
    name: &'a [u8],
    /// Whether the record that covers the next closer name has opt-out set.
    is_opt_out: bool,
    lifetime_secs: u32,
}

impl<'a> Proof<'a> {
    /// Returns the hash parameters of the zone. All records of a proof must have the same
    /// parameters (RFC 5155 §8.2). The first parameters that this server can compute are used, and
    /// records with other parameters are ignored.
    fn parameters(&mut self, budget: &mut Budget) -> Result<Parameters<'a>, Reason> {
        let mut parameters = self.nsec3s.iter().map(|held| held.record.parameters);
        if let Some(computable) =
            parameters.find(|parameters| parameters.iterations <= MAX_ITERATIONS)
        {
            return Ok(computable);
        }
        // The zone must have signed the iteration count. Otherwise an attacker could make any zone
        // insecure (RFC 9276 §3.2).
        let first = self.nsec3s.first_mut().ok_or(Reason::DenialMissing)?;
        first.check(self.source, budget)?;
        Err(Reason::Nsec3Iterations)
    }

    fn hash(&mut self, wire: &[u8], budget: &mut Budget) -> Result<(Hash, Parameters<'a>), Reason> {
        let parameters = self.parameters(budget)?;
        let hash = self.hashes.hash(&parameters, wire, budget)?;
        Ok((hash, parameters))
    }

    pub(crate) fn nsec3_matching(
        &mut self,
        wire: &[u8],
        budget: &mut Budget,
    ) -> Result<Option<VerifiedRecord<Nsec3<'a>>>, Reason> {
        let (hash, parameters) = self.hash(wire, budget)?;
        let wanted = |nsec3: &Nsec3<'_>| nsec3.parameters == parameters && nsec3.matches(&hash);
        find(&mut self.nsec3s, self.source, wanted, budget)
    }

    pub(crate) fn nsec3_covering(
        &mut self,
        wire: &[u8],
        budget: &mut Budget,
    ) -> Result<Option<VerifiedRecord<Nsec3<'a>>>, Reason> {
        let (hash, parameters) = self.hash(wire, budget)?;
        let wanted = |nsec3: &Nsec3<'_>| nsec3.parameters == parameters && nsec3.covers(&hash);
        find(&mut self.nsec3s, self.source, wanted, budget)
    }

    /// Finds the longest existing ancestor of a name that does not exist.
    fn encloser<'n>(
        &mut self,
        qname: &'n [u8],
        budget: &mut Budget,
    ) -> Result<Encloser<'n>, Reason> {
        let zone = self.zone;
        let mut next_closer = qname;
        for wire in name::ancestors(qname).skip(1).take_while(|wire| name::is_under(wire, zone)) {
            if let Some((nsec3, lifetime_secs)) = self.nsec3_matching(wire, budget)? {
                if nsec3.types.hides_what_is_below() {
                    return Err(Reason::DenialMissing);
                }
                let covering = self.nsec3_covering(next_closer, budget)?;
                let (nsec3, covering_secs) = covering.ok_or(Reason::DenialMissing)?;
                let lifetime_secs = lifetime_secs.min(covering_secs);
                return Ok(Encloser { name: wire, is_opt_out: nsec3.is_opt_out, lifetime_secs });
            }
            next_closer = wire;
        }
        Err(Reason::DenialMissing)
    }
}

impl Encloser<'_> {
    fn denial(&self, kind: DenialKind, other_secs: u32) -> Denial {
        Denial {
            kind,
            is_opt_out: self.is_opt_out,
            closest_encloser: name_buf(self.name),
            lifetime_secs: self.lifetime_secs.min(other_secs),
        }
    }
}

pub(super) fn nxdomain(
    proof: &mut Proof<'_>,
    qname: &[u8],
    budget: &mut Budget,
) -> Result<Denial, Reason> {
    if proof.nsec3_matching(qname, budget)?.is_some() {
        return Err(Reason::DenialMissing);
    }
    let encloser = proof.encloser(qname, budget)?;
    let wildcard = label::wildcard_below(encloser.name).ok_or(Reason::DenialMissing)?;
    let covering = proof.nsec3_covering(wildcard.wire(), budget)?;
    let (_, wildcard_secs) = covering.ok_or(Reason::DenialMissing)?;
    Ok(encloser.denial(DenialKind::Nxdomain, wildcard_secs))
}

pub(super) fn nodata(
    proof: &mut Proof<'_>,
    qname: &[u8],
    qtype: Rtype,
    budget: &mut Budget,
) -> Result<Denial, Reason> {
    if let Some((nsec3, lifetime_secs)) = proof.nsec3_matching(qname, budget)? {
        if !denies(nsec3.types, qname, qtype) {
            return Err(Reason::DenialMissing);
        }
        let closest_encloser = name_buf(qname);
        return Ok(Denial {
            kind: DenialKind::Nodata,
            is_opt_out: false,
            closest_encloser,
            lifetime_secs,
        });
    }
    let encloser = proof.encloser(qname, budget)?;
    let wildcard = label::wildcard_below(encloser.name).ok_or(Reason::DenialMissing)?;
    if let Some((nsec3, wildcard_secs)) = proof.nsec3_matching(wildcard.wire(), budget)? {
        if denies(nsec3.types, wildcard.wire(), qtype) {
            return Ok(encloser.denial(DenialKind::WildcardNodata, wildcard_secs));
        }
        // No wildcard applies at an unsigned delegation, even if an opt-out record covers the
        // delegation. For other types, data from the wildcard would have been returned.
        if qtype != Rtype::DS {
            return Err(Reason::DenialMissing);
        }
    }
    // With opt-out, names that exist only because of unsigned delegations below them have no record
    // (RFC 5155 §7.1, §8.6).
    if encloser.is_opt_out {
        Ok(encloser.denial(DenialKind::Nodata, u32::MAX))
    } else {
        Err(Reason::DenialMissing)
    }
}

pub(super) fn expansion(
    proof: &mut Proof<'_>,
    qname: &[u8],
    closest_encloser: &NameBuf,
    budget: &mut Budget,
) -> Result<Denial, Reason> {
    let next_closer = label::suffix(qname, label::count(closest_encloser.wire()) + 1);
    let covering = proof.nsec3_covering(next_closer, budget)?;
    let (nsec3, lifetime_secs) = covering.ok_or(Reason::DenialMissing)?;
    Ok(Denial {
        kind: DenialKind::Expansion,
        is_opt_out: nsec3.is_opt_out,
        closest_encloser: *closest_encloser,
        lifetime_secs,
    })
}

pub(super) fn delegation(
    proof: &mut Proof<'_>,
    child: &[u8],
    budget: &mut Budget,
) -> Result<Delegation, Reason> {
    if let Some((nsec3, lifetime_secs)) = proof.nsec3_matching(child, budget)? {
        let kind = delegation_of(nsec3.types).ok_or(Reason::DenialMissing)?;
        return Ok(Delegation { kind, lifetime_secs });
    }
    let encloser = proof.encloser(child, budget)?;
    let kind = if encloser.is_opt_out { DelegationKind::OptOut } else { DelegationKind::NoCut };
    Ok(Delegation { kind, lifetime_secs: encloser.lifetime_secs })
}
