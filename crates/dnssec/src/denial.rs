//! Denial of existence: what NSEC and NSEC3 records prove together (RFC 4035 §5.4, RFC 5155 §8,
//! RFC 6840 §4).
//!
//! A record is looked for by what it says, and only the one that is needed has its signature
//! verified: records that are of no use cost nothing. NSEC and NSEC3 are never mixed in one proof.

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

/// What was proven about a name and type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DenialKind {
    /// The name does not exist, nor does a wildcard for it.
    Nxdomain,
    /// The name has not that type.
    Nodata,
    /// The name has no records at all; names below it have.
    EmptyNonTerminal,
    /// The name does not exist and the wildcard for it has not that type.
    WildcardNodata,
    /// The name does not exist: the wildcard right below the closest encloser answers for it.
    Expansion,
}

/// A proof that holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denial {
    /// What was proven.
    pub kind: DenialKind,
    /// Whether all of it is certain: where NSEC3 records opt out, an unsigned delegation may be
    /// there after all (RFC 5155 §9.2).
    pub is_opt_out: bool,
    /// The longest existing name that the name is equal to or below.
    pub closest_encloser: NameBuf,
    /// How long it may be believed, in seconds: the least of all records it rests on.
    pub lifetime_secs: u32,
}

impl Denial {
    /// Secure, but insecure where records opt out.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        if self.is_opt_out { Verdict::Insecure } else { Verdict::Secure }
    }
}

/// What a name without DS records is in the zone above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelegationKind {
    /// A delegation to a zone that is not signed: insecure from there on.
    Unsigned,
    /// Skipped by opt-out: whatever is there is insecure.
    OptOut,
    /// No delegation: the name belongs to the zone itself, or does not exist.
    NoCut,
}

/// A proof that a name has no DS records, by the zone above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delegation {
    /// What the name is.
    pub kind: DelegationKind,
    /// How long it may be believed, in seconds.
    pub lifetime_secs: u32,
}

/// Where the records of a proof come from.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// A message: signatures are verified as records are needed.
    Signed(&'a ZoneKeys, Context),
    /// The cache, as secure records of one zone.
    Cached,
}

/// A record with its RRset, and once it was needed, for how long it may be believed.
struct Held<'a, R> {
    record: R,
    rrset: Rrset<'a>,
    checked: Option<Result<u32, Reason>>,
}

impl<R> Held<'_, R> {
    fn check(&mut self, source: Source<'_>, budget: &mut Budget) -> Result<u32, Reason> {
        if let Some(checked) = self.checked {
            return checked;
        }
        let checked = match source {
            Source::Cached => Ok(self.rrset.ttl_secs),
            Source::Signed(keys, context) => signature::verify(&self.rrset, keys, &context, budget)
                .map(|verified| verified.lifetime_secs),
        };
        self.checked = Some(checked);
        checked
    }
}

/// A record that was found, and its lifetime in seconds.
pub(crate) type Found<R> = (R, u32);

/// The first believed record that is as wanted. An error if there is one and it cannot be believed.
fn find<R: Copy>(
    held: &mut [Held<'_, R>],
    source: Source<'_>,
    wanted: impl Fn(&R) -> bool,
    budget: &mut Budget,
) -> Result<Option<Found<R>>, Reason> {
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

/// The names that were hashed for a proof, so that none is hashed twice; for the next proof about
/// the same name.
#[derive(Clone, Debug, Default)]
pub struct Hashes {
    iterations: u16,
    salt: Vec<u8>,
    hashes: Vec<(NameBuf, Hash)>,
}

impl Hashes {
    /// The hash of a name, if it was needed so far.
    #[must_use]
    pub fn of(&self, wire: &[u8]) -> Option<&Hash> {
        self.hashes
            .iter()
            .find(|(hashed, _)| label::equal(hashed.wire(), wire))
            .map(|(_, hash)| hash)
    }

    /// Hashes a name, unless that was done before with the same parameters.
    ///
    /// # Errors
    /// As [`Parameters::hash`].
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

/// The NSEC and NSEC3 records of one zone that came with a message, or that the cache holds.
pub struct Proof<'a> {
    zone: &'a [u8],
    source: Source<'a>,
    nsecs: Vec<Held<'a, Nsec<'a>>>,
    nsec3s: Vec<Held<'a, Nsec3<'a>>>,
    hashes: Hashes,
    /// More records than are looked at.
    is_over: bool,
}

impl<'a> Proof<'a> {
    /// The proof in a message: `rrsets` are all of its authority section, or only those of NSEC and
    /// NSEC3; others are passed over, and so are records that another zone than that of the keys
    /// might have made.
    #[must_use]
    pub fn signed(rrsets: &'a [Rrset<'a>], keys: &'a ZoneKeys, context: &Context) -> Self {
        Self::read(rrsets, keys.zone().wire(), Source::Signed(keys, *context))
    }

    /// What the cache holds of a zone: NSEC or NSEC3 RRsets that were verified, their TTLs counted
    /// down.
    #[must_use]
    pub fn cached(rrsets: &'a [Rrset<'a>], zone: &'a [u8]) -> Self {
        Self::read(rrsets, zone, Source::Cached)
    }

    fn read(rrsets: &'a [Rrset<'a>], zone: &'a [u8], source: Source<'a>) -> Self {
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

    /// The apex of the zone that the records are of.
    #[must_use]
    pub fn zone(&self) -> &'a [u8] {
        self.zone
    }

    /// Goes on with what was hashed for an earlier proof about the same name.
    #[must_use]
    pub fn with_hashes(self, hashes: Hashes) -> Self {
        Self { hashes, ..self }
    }

    /// What was hashed, for [`Proof::with_hashes`].
    #[must_use]
    pub fn into_hashes(self) -> Hashes {
        self.hashes
    }

    /// The RRsets that the proofs so far rest on, and for how many seconds each may be believed:
    /// what they say holds for other names, too (RFC 8198). Not NSEC3 records that opt out.
    pub fn believed(&self) -> impl Iterator<Item = (&Rrset<'a>, u32)> {
        let nsecs = self.nsecs.iter().map(|held| (&held.rrset, held.checked));
        let certain = self.nsec3s.iter().filter(|held| !held.record.is_opt_out);
        let checked = nsecs.chain(certain.map(|held| (&held.rrset, held.checked)));
        checked.filter_map(|(rrset, checked)| Some((rrset, checked?.ok()?)))
    }

    /// Are there only NSEC3 records?
    pub(crate) fn is_hashed(&self) -> bool {
        self.nsecs.is_empty() && !self.nsec3s.is_empty()
    }

    fn hold(&mut self, rrset: &Rrset<'a>, data: &'a [u8]) {
        let (rrset, checked) = (*rrset, None);
        if rrset.rtype == Rtype::NSEC {
            let record = Nsec::read(rrset.owner, data, self.zone);
            self.nsecs.extend(record.map(|record| Held { record, rrset, checked }));
        } else {
            let record = Nsec3::read(rrset.owner, data, self.zone);
            self.nsec3s.extend(record.map(|record| Held { record, rrset, checked }));
        }
    }

    /// Proves that a name does not exist (NXDOMAIN).
    ///
    /// # Errors
    /// [`Reason::DenialMissing`] if the records do not say so, or why those that do cannot be
    /// believed.
    pub fn nxdomain(&mut self, qname: &[u8], budget: &mut Budget) -> Result<Denial, Reason> {
        match self.kind_for(qname, budget)? {
            Kind::Nsec => by_nsec::nxdomain(self, qname, budget),
            Kind::Nsec3 => by_nsec3::nxdomain(self, qname, budget),
        }
    }

    /// Proves that a name has not that type: the name itself, an empty non-terminal, or the
    /// wildcard for it.
    ///
    /// # Errors
    /// As [`Proof::nxdomain`].
    pub fn nodata(
        &mut self,
        qname: &[u8],
        qtype: Rtype,
        budget: &mut Budget,
    ) -> Result<Denial, Reason> {
        match self.kind_for(qname, budget)? {
            Kind::Nsec => by_nsec::nodata(self, qname, qtype, budget),
            Kind::Nsec3 => by_nsec3::nodata(self, qname, qtype, budget),
        }
    }

    /// Proves that a wildcard answers for a name (RFC 4035 §5.3.4): `closest_encloser` is that of
    /// [`signature::Verified`].
    ///
    /// # Errors
    /// As [`Proof::nxdomain`].
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
            Kind::Nsec => by_nsec::expansion(self, qname, closest_encloser, budget),
            Kind::Nsec3 => by_nsec3::expansion(self, qname, closest_encloser, budget),
        }
    }

    /// Proves that a name below the apex has no DS records, and says what it is. The keys, and so
    /// the records, are of the zone above: a child cannot say that it is not signed.
    ///
    /// # Errors
    /// As [`Proof::nxdomain`].
    pub fn delegation(&mut self, child: &[u8], budget: &mut Budget) -> Result<Delegation, Reason> {
        if label::equal(child, self.zone) {
            return Err(Reason::DenialMissing);
        }
        match self.kind_for(child, budget)? {
            Kind::Nsec => by_nsec::delegation(self, child, budget),
            Kind::Nsec3 => by_nsec3::delegation(self, child, budget),
        }
    }

    /// Which of the two kinds of records the proof is made of. While a zone goes over from one kind
    /// to the other a message may have both; one that speaks of the name is taken then.
    fn kind_for(&self, wire: &[u8], budget: &mut Budget) -> Result<Kind, Reason> {
        if self.is_over {
            return Err(budget.reach(Limit::DenialRecords));
        }
        if !label::is_name(wire) || !name::is_under(wire, self.zone) {
            return Err(Reason::DenialMissing);
        }
        match (self.nsecs.is_empty(), self.nsec3s.is_empty()) {
            (true, true) => Err(Reason::DenialMissing),
            (true, false) => Ok(Kind::Nsec3),
            (false, true) => Ok(Kind::Nsec),
            (false, false) => {
                let speaks = |held: &Held<'_, Nsec<'_>>| {
                    held.record.matches(wire) || held.record.covers(wire)
                };
                Ok(if self.nsecs.iter().any(speaks) { Kind::Nsec } else { Kind::Nsec3 })
            }
        }
    }

    pub(crate) fn nsec(
        &mut self,
        wanted: impl Fn(&Nsec<'a>) -> bool,
        budget: &mut Budget,
    ) -> Result<Option<Found<Nsec<'a>>>, Reason> {
        find(&mut self.nsecs, self.source, wanted, budget)
    }
}

enum Kind {
    Nsec,
    Nsec3,
}

/// Do the types at a name deny that type there, from the right side of a zone cut?
///
/// At a delegation the zone above speaks of DS only, and an apex does not speak of its own DS, but
/// for the root (RFC 6840 §4.1). Where there is a CNAME, it is the answer (RFC 6840 §4.3).
fn denies(types: TypeMap<'_>, owner: &[u8], qtype: Rtype) -> bool {
    let right_side = if qtype == Rtype::DS {
        !types.has(Rtype::SOA) || owner == [0]
    } else {
        !types.is_delegation()
    };
    right_side && !types.has(qtype) && !types.has(Rtype::CNAME)
}

/// What a name is whose types are known to its parent zone; none if it has DS records or is an
/// apex.
fn delegation_of(types: TypeMap<'_>) -> Option<DelegationKind> {
    if types.has(Rtype::DS) || types.has(Rtype::SOA) {
        return None;
    }
    Some(if types.has(Rtype::NS) { DelegationKind::Unsigned } else { DelegationKind::NoCut })
}

fn name_buf(wire: &[u8]) -> NameBuf {
    NameBuf::from_wire(wire).unwrap_or(NameBuf::ROOT)
}
