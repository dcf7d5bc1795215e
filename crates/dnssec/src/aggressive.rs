//! Aggressive use of cached denials (RFC 8198, RFC 8020): answers for names that were never
//! queried, derived from the cached NSEC or NSEC3 records of their zone.
//!
//! The caller starts without records, looks up the record that matches or covers the missing name,
//! and calls again with it, until the result is no longer [`Synthesis::Missing`]. With NSEC this
//! takes at most two records, with NSEC3 one record per label and two more. [`Proof::with_hashes`]
//! avoids hashing names repeatedly.

use avocet_wire::{NameBuf, Rtype, name};

use crate::budget::Budget;
use crate::denial::{Denial, DenialKind, Proof};
use crate::label;
use crate::nsec3::Nsec3;
use crate::types::TypeMap;
use crate::verdict::Reason;

/// The result of an attempt to derive an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Synthesis {
    /// An NXDOMAIN or NODATA, to be sent with the zone's SOA record.
    Denied(Denial),
    /// The answer is the wildcard right below the closest encloser: its records of the type, or its
    /// CNAME, verified and with the owner replaced (RFC 8198 §5.3).
    Wildcard(Denial),
    /// The cache must also supply the record that matches or covers this name.
    Missing(NameBuf),
    /// The authoritative servers must be queried: the name exists and has the type, or belongs to
    /// another zone, or the zone uses opt-out.
    Ask,
}

/// Derives an answer for a name and type from a zone's cached records ([`Proof::cached`]).
///
/// # Errors
/// [`Reason::Limit`], or NSEC3 parameters that are too costly.
pub fn synthesise(
    proof: &mut Proof<'_>,
    qname: &[u8],
    qtype: Rtype,
    budget: &mut Budget,
) -> Result<Synthesis, Reason> {
    if !label::is_name(qname) || !name::is_under(qname, proof.zone()) {
        return Ok(Synthesis::Ask);
    }
    match proof.nodata(qname, qtype, budget) {
        Ok(denial) if denial.is_opt_out => return Ok(Synthesis::Ask),
        Ok(denial) => return Ok(Synthesis::Denied(denial)),
        Err(Reason::DenialMissing) => {}
        Err(fault) => return Err(fault),
    }
    match proof.nxdomain(qname, budget) {
        Ok(denial) if denial.is_opt_out => Ok(Synthesis::Ask),
        Ok(denial) => Ok(Synthesis::Denied(denial)),
        Err(Reason::DenialMissing) => next_step(proof, qname, qtype, budget),
        Err(fault) => Err(fault),
    }
}

/// Returns the next record to look up when the records deny neither the type nor the name.
fn next_step(
    proof: &mut Proof<'_>,
    qname: &[u8],
    qtype: Rtype,
    budget: &mut Budget,
) -> Result<Synthesis, Reason> {
    let Some(closest_encloser) = proof.known_encloser(qname, budget)? else {
        return proof.first_unknown(qname, budget);
    };
    let Ok(denial) = proof.expansion(qname, &closest_encloser, budget) else {
        let next_closer = label::suffix(qname, label::count(closest_encloser.wire()) + 1);
        return missing_unless_known(proof, next_closer, budget);
    };
    if denial.is_opt_out {
        return Ok(Synthesis::Ask);
    }
    let Some(wildcard) = label::wildcard_below(closest_encloser.wire()) else {
        return Ok(Synthesis::Ask);
    };
    match proof.types_at(wildcard.wire(), budget)? {
        Some((types, secs)) if types.has(qtype) || types.has(Rtype::CNAME) => {
            let lifetime_secs = denial.lifetime_secs.min(secs);
            Ok(Synthesis::Wildcard(Denial { kind: DenialKind::Expansion, lifetime_secs, ..denial }))
        }
        Some(_) => Ok(Synthesis::Ask),
        None => missing_unless_known(proof, wildcard.wire(), budget),
    }
}

fn missing_unless_known(
    proof: &mut Proof<'_>,
    wire: &[u8],
    budget: &mut Budget,
) -> Result<Synthesis, Reason> {
    let known = proof.types_at(wire, budget)?.is_some() || proof.is_covered(wire, budget)?;
    match NameBuf::from_wire(wire) {
        Ok(wanted) if !known => Ok(Synthesis::Missing(wanted)),
        _ => Ok(Synthesis::Ask),
    }
}

impl<'a> Proof<'a> {
    fn types_at(
        &mut self,
        wire: &[u8],
        budget: &mut Budget,
    ) -> Result<Option<(TypeMap<'a>, u32)>, Reason> {
        if !self.is_hashed() {
            let found = self.nsec(|nsec| nsec.matches(wire), budget)?;
            return Ok(found.map(|(nsec, secs)| (nsec.types, secs)));
        }
        Ok(self
            .nsec3_matching(wire, budget)?
            .map(|(nsec3, secs): (Nsec3<'a>, u32)| (nsec3.types, secs)))
    }

    fn is_covered(&mut self, wire: &[u8], budget: &mut Budget) -> Result<bool, Reason> {
        if !self.is_hashed() {
            return Ok(self.nsec(|nsec| nsec.covers(wire), budget)?.is_some());
        }
        Ok(self.nsec3_covering(wire, budget)?.is_some())
    }

    /// Returns the closest encloser of a name that does not exist, if the records show it.
    fn known_encloser(
        &mut self,
        qname: &[u8],
        budget: &mut Budget,
    ) -> Result<Option<NameBuf>, Reason> {
        let found = if self.is_hashed() {
            self.hashed_encloser(qname, budget)?
        } else {
            let found = self.nsec(|nsec| nsec.covers(qname) && !nsec.shows_below(qname), budget)?;
            found.map(|(nsec, _)| nsec.closest_encloser(qname))
        };
        Ok(found.and_then(|wire| NameBuf::from_wire(wire).ok()))
    }

    fn hashed_encloser<'n>(
        &mut self,
        qname: &'n [u8],
        budget: &mut Budget,
    ) -> Result<Option<&'n [u8]>, Reason> {
        let zone = self.zone();
        for wire in name::ancestors(qname).skip(1).take_while(|wire| name::is_under(wire, zone)) {
            if let Some((types, _)) = self.types_at(wire, budget)? {
                return Ok((!types.hides_what_is_below()).then_some(wire));
            }
        }
        Ok(None)
    }

    /// Returns the first name, from the QNAME upwards, that no record matches or covers.
    fn first_unknown(&mut self, qname: &[u8], budget: &mut Budget) -> Result<Synthesis, Reason> {
        let zone = self.zone();
        for wire in name::ancestors(qname).take_while(|wire| name::is_under(wire, zone)) {
            // If a name exists, the search ends: either the names below it belong to another zone,
            // or the type exists.
            if self.types_at(wire, budget)?.is_some() {
                return Ok(Synthesis::Ask);
            }
            if let (false, Ok(wanted)) = (self.is_covered(wire, budget)?, NameBuf::from_wire(wire))
            {
                return Ok(Synthesis::Missing(wanted));
            }
            if !self.is_hashed() {
                return Ok(Synthesis::Ask);
            }
        }
        Ok(Synthesis::Ask)
    }
}
