//! Denial of existence: the combined proof of NSEC and NSEC3 records (RFC 4035 §5.4, RFC 5155 §8,
//! RFC 6840 §4).
//!
//! A proof first finds the record that states the required fact, and verifies the signature of this
//! record only. Irrelevant records therefore cost nothing. One proof never mixes NSEC and NSEC3.

mod by_nsec;
mod by_nsec3;

use avocet_wire::{NameBuf, Rtype, name};

use crate::budget::{Budget, Limit, MAX_DENIAL_RECORDS};
use crate::chain::ZoneKeys;
use crate::nsec::Nsec;
use crate::nsec3::{Hash, Nsec3, Parameters};
use crate::rrset::{Context, Rrset};
use crate::types::TypeMap;
use crate::verdict::{Reason, Verdict};
use crate::{label, signature};

/// The proven fact about a name and type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DenialKind {
    /// Neither the name nor a matching wildcard exists.
    Nxdomain,
    /// The name exists without the type.
    Nodata,
    /// The name is an empty non-terminal: it has no records, but names below it do.
    EmptyNonTerminal,
    /// The name does not exist, and the matching wildcard lacks the type.
    WildcardNodata,
    /// The name does not exist, so the wildcard right below the closest encloser applies.
    Expansion,
}

/// A valid proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denial {
    /// The proven fact.
    pub kind: DenialKind,
    /// Whether the proof relies on an opt-out record: an unsigned delegation may then exist after
    /// all (RFC 5155 §9.2).
    pub is_opt_out: bool,
    /// The longest existing name that is the name or an ancestor of it.
    pub closest_encloser: NameBuf,
    /// Lifetime in seconds: the lowest lifetime of the records in the proof.
    pub lifetime_secs: u32,
}

impl Denial {
    /// Returns whether the denied data is secure, or insecure because the proof relies on opt-out.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        if self.is_opt_out { Verdict::Insecure } else { Verdict::Secure }
    }
}

/// The status of a name without DS records, as stated by the zone above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelegationKind {
    /// A delegation to an unsigned zone: data at and below the name is insecure.
    Unsigned,
    /// The name is in an opt-out range, so data there is insecure.
    OptOut,
    /// No delegation: the name belongs to the zone itself, or does not exist.
    NoCut,
}

/// A proof by the parent zone that a name has no DS records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delegation {
    /// The status of the name.
    pub kind: DelegationKind,
    /// Lifetime in seconds.
    pub lifetime_secs: u32,
}

/// Where the records of a proof come from.
#[derive(Clone, Copy)]
enum RecordSource<'a> {
    /// A message. Signatures are verified when a record is needed.
    Signed(&'a ZoneKeys, Context),
    /// The cache, which has verified the records of the zone.
    Cached,
}

/// A record with its RRset, and the lifetime of the record once it has been verified.
struct HeldRecord<'a, R> {
    record: R,
    rrset: Rrset<'a>,
    checked: Option<Result<u32, Reason>>,
}

impl<R> HeldRecord<'_, R> {
    fn check(&mut self, source: RecordSource<'_>, budget: &mut Budget) -> Result<u32, Reason> {
        if let Some(checked) = self.checked {
            return checked;
        }
        let checked = match source {
            RecordSource::Cached => Ok(self.rrset.ttl_secs),
            RecordSource::Signed(keys, context) => {
                signature::verify(&self.rrset, keys, &context, budget)
                    .map(|verified| verified.lifetime_secs)
            }
        };
        self.checked = Some(checked);
        checked
    }
}

/// A record and its lifetime in seconds.
pub(crate) type VerifiedRecord<R> = (R, u32);

/// Returns the first matching record that verifies. Fails if records match but none verifies.
fn find<R: Copy>(
    held: &mut [HeldRecord<'_, R>],
    source: RecordSource<'_>,
    wanted: impl Fn(&R) -> bool,
    budget: &mut Budget,
) -> Result<Option<VerifiedRecord<R>>, Reason> {
    let mut fault = None;
    for held in held.iter_mut().filter(|held| wanted(&held.record)) {
        match held.check(source, budget) {
            Ok(lifetime_secs) => return Ok(Some((held.record, lifetime_secs))),
            Err(Reason::Limit(limit)) => return Err(Reason::Limit(limit)),
            Err(reason) => drop(fault.get_or_insert(reason)),
        }
    }
    fault.map_or(Ok(None), Err)
}

/// The names hashed for a proof, to be reused for the next proof about the same name.
#[derive(Clone, Debug, Default)]
pub struct Hashes {
    iterations: u16,
    salt: Vec<u8>,
    hashes: Vec<(NameBuf, Hash)>,
}

impl Hashes {
    /// Returns the hash of a name if it was computed before.
    #[must_use]
    pub fn of(&self, wire: &[u8]) -> Option<&Hash> {
        self.hashes
            .iter()
            .find(|(hashed, _)| label::equal(hashed.wire(), wire))
            .map(|(_, hash)| hash)
    }

    /// Hashes a name, unless it was hashed before with the same parameters.
    ///
    /// # Errors
    /// The errors of [`Parameters::hash`].
    pub fn hash(
        &mut self,
        parameters: &Parameters<'_>,
        wire: &[u8],
        budget: &mut Budget,
    ) -> Result<Hash, Reason> {
        if (self.iterations, self.salt.as_slice()) != (parameters.iterations, parameters.salt) {
            *self = Self {
                iterations: parameters.iterations,
                salt: parameters.salt.to_vec(),
                hashes: Vec::new(),
            };
        }
        if let Some(hash) = self.of(wire) {
            return Ok(*hash);
        }
        let hash = parameters.hash(wire, budget)?;
        self.hashes.push((name_buf(wire), hash));
        Ok(hash)
    }
}

/// The NSEC and NSEC3 records of one zone, from a message or the cache.
pub struct Proof<'a> {
    zone: &'a [u8],
    source: RecordSource<'a>,
    nsecs: Vec<HeldRecord<'a, Nsec<'a>>>,
    nsec3s: Vec<HeldRecord<'a, Nsec3<'a>>>,
    hashes: Hashes,
    /// Whether the number of records exceeds the limit.
    is_over: bool,
}

impl<'a> Proof<'a> {
    /// Creates a proof from a message. `rrsets` is the whole authority section or at least its NSEC
    /// and NSEC3 RRsets. Records of other types are ignored, and so are records that may come from
    /// another zone than the keys.
    #[must_use]
    pub fn signed(rrsets: &'a [Rrset<'a>], keys: &'a ZoneKeys, context: &Context) -> Self {
        Self::read(rrsets, keys.zone().wire(), RecordSource::Signed(keys, *context))
    }

    /// Creates a proof from cached NSEC or NSEC3 RRsets of a zone. They must be verified, and have
    /// their remaining TTLs.
    #[must_use]
    pub fn cached(rrsets: &'a [Rrset<'a>], zone: &'a [u8]) -> Self {
        Self::read(rrsets, zone, RecordSource::Cached)
    }

    fn read(rrsets: &'a [Rrset<'a>], zone: &'a [u8], source: RecordSource<'a>) -> Self {
        let mut proof = Self {
            zone,
            source,
            nsecs: Vec::new(),
            nsec3s: Vec::new(),
            hashes: Hashes::default(),
            is_over: false,
        };
        let mut count = 0;
        for rrset in rrsets.iter().filter(|rrset| matches!(rrset.rtype, Rtype::NSEC | Rtype::NSEC3))
        {
            for data in rrset.records {
                count += 1;
                if count > MAX_DENIAL_RECORDS {
                    proof.is_over = true;
                    return proof;
                }
                proof.hold(rrset, data);
            }
        }
        proof
    }

    /// Returns the apex of the zone that the records belong to.
    #[must_use]
    pub fn zone(&self) -> &'a [u8] {
        self.zone
    }

    /// Reuses the hashes of an earlier proof about the same name.
    #[must_use]
    pub fn with_hashes(self, hashes: Hashes) -> Self {
        Self { hashes, ..self }
    }

    /// Returns the computed hashes, for [`Proof::with_hashes`].
    #[must_use]
    pub fn into_hashes(self) -> Hashes {
        self.hashes
    }

    /// Returns the RRsets that the proofs so far relied on, with the lifetime of each in seconds.
    /// They also deny other names (RFC 8198). NSEC3 records with opt-out are left out.
    pub fn believed(&self) -> impl Iterator<Item = (&Rrset<'a>, u32)> {
        let nsecs = self.nsecs.iter().map(|held| (&held.rrset, held.checked));
        let certain = self.nsec3s.iter().filter(|held| !held.record.is_opt_out);
        let checked = nsecs.chain(certain.map(|held| (&held.rrset, held.checked)));
        checked.filter_map(|(rrset, checked)| Some((rrset, checked?.ok()?)))
    }

    /// Reports whether all records are NSEC3.
    pub(crate) fn is_hashed(&self) -> bool {
        self.nsecs.is_empty() && !self.nsec3s.is_empty()
    }

    fn hold(&mut self, rrset: &Rrset<'a>, data: &'a [u8]) {
        let (rrset, checked) = (*rrset, None);
        if rrset.rtype == Rtype::NSEC {
            let record = Nsec::read(rrset.owner, data, self.zone);
            self.nsecs.extend(record.map(|record| HeldRecord { record, rrset, checked }));
        } else {
            let record = Nsec3::read(rrset.owner, data, self.zone);
            self.nsec3s.extend(record.map(|record| HeldRecord { record, rrset, checked }));
        }
    }

    /// Proves that a name does not exist (NXDOMAIN).
    ///
    /// # Errors
    /// [`Reason::DenialMissing`] if no record states so. Otherwise the reason why the relevant
    /// records do not verify.
    pub fn nxdomain(&mut self, qname: &[u8], budget: &mut Budget) -> Result<Denial, Reason> {
        match self.kind_for(qname, budget)? {
            NsecKind::Nsec => by_nsec::nxdomain(self, qname, budget),
            NsecKind::Nsec3 => by_nsec3::nxdomain(self, qname, budget),
        }
    }

    /// Proves that a name lacks a type: the name itself has no such records, is an empty
    /// non-terminal, or matches a wildcard without the type.
    ///
    /// # Errors
    /// The errors of [`Proof::nxdomain`].
    pub fn nodata(
        &mut self,
        qname: &[u8],
        qtype: Rtype,
        budget: &mut Budget,
    ) -> Result<Denial, Reason> {
        match self.kind_for(qname, budget)? {
            NsecKind::Nsec => by_nsec::nodata(self, qname, qtype, budget),
            NsecKind::Nsec3 => by_nsec3::nodata(self, qname, qtype, budget),
        }
    }

    /// Proves that a wildcard applies to a name (RFC 4035 §5.3.4). `closest_encloser` comes from
    /// [`signature::Verified`].
    ///
    /// # Errors
    /// The errors of [`Proof::nxdomain`].
    pub fn expansion(
        &mut self,
        qname: &[u8],
        closest_encloser: &NameBuf,
        budget: &mut Budget,
    ) -> Result<Denial, Reason> {
        if !label::is_below(qname, closest_encloser.wire()) {
            return Err(Reason::DenialMissing);
        }
        match self.kind_for(qname, budget)? {
            NsecKind::Nsec => by_nsec::expansion(self, qname, closest_encloser, budget),
            NsecKind::Nsec3 => by_nsec3::expansion(self, qname, closest_encloser, budget),
        }
    }

    /// Proves that a name below the apex has no DS records, and returns its status. The keys, and
    /// so the records, must belong to the parent zone: a child cannot declare itself unsigned.
    ///
    /// # Errors
    /// The errors of [`Proof::nxdomain`].
    pub fn delegation(&mut self, child: &[u8], budget: &mut Budget) -> Result<Delegation, Reason> {
        if label::equal(child, self.zone) {
            return Err(Reason::DenialMissing);
        }
        match self.kind_for(child, budget)? {
            NsecKind::Nsec => by_nsec::delegation(self, child, budget),
            NsecKind::Nsec3 => by_nsec3::delegation(self, child, budget),
        }
    }

    /// Selects NSEC or NSEC3 for the proof. A zone that changes from one to the other may send
    /// both: the kind that has a record about the name is used.
    fn kind_for(&self, wire: &[u8], budget: &mut Budget) -> Result<NsecKind, Reason> {
        if self.is_over {
            return Err(budget.reach(Limit::DenialRecords));
        }
        if !label::is_name(wire) || !name::is_under(wire, self.zone) {
            return Err(Reason::DenialMissing);
        }
        match (self.nsecs.is_empty(), self.nsec3s.is_empty()) {
            (true, true) => Err(Reason::DenialMissing),
            (true, false) => Ok(NsecKind::Nsec3),
            (false, true) => Ok(NsecKind::Nsec),
            (false, false) => {
                let speaks = |held: &HeldRecord<'_, Nsec<'_>>| {
                    held.record.matches(wire) || held.record.covers(wire)
                };
                Ok(if self.nsecs.iter().any(speaks) { NsecKind::Nsec } else { NsecKind::Nsec3 })
            }
        }
    }

    pub(crate) fn nsec(
        &mut self,
        wanted: impl Fn(&Nsec<'a>) -> bool,
        budget: &mut Budget,
    ) -> Result<Option<VerifiedRecord<Nsec<'a>>>, Reason> {
        find(&mut self.nsecs, self.source, wanted, budget)
    }
}

enum NsecKind {
    Nsec,
    Nsec3,
}

/// Reports whether the type bit map of a name denies a type, from the correct side of a zone cut.
///
/// At a delegation, the parent zone denies only DS. An apex does not deny its own DS, except at the
/// root (RFC 6840 §4.1). A CNAME at the name is itself the answer (RFC 6840 §4.3).
fn denies(types: TypeMap<'_>, owner: &[u8], qtype: Rtype) -> bool {
    let right_side = if qtype == Rtype::DS {
        !types.has(Rtype::SOA) || owner == [0]
    } else {
        !types.is_delegation()
    };
    right_side && !types.has(qtype) && !types.has(Rtype::CNAME)
}

/// Returns the status of a name from its type bit map in the parent zone, or `None` if the name has
/// DS records or is an apex.
fn delegation_of(types: TypeMap<'_>) -> Option<DelegationKind> {
    if types.has(Rtype::DS) || types.has(Rtype::SOA) {
        return None;
    }
    Some(if types.has(Rtype::NS) { DelegationKind::Unsigned } else { DelegationKind::NoCut })
}

fn name_buf(wire: &[u8]) -> NameBuf {
    NameBuf::from_wire(wire).unwrap_or(NameBuf::ROOT)
}
