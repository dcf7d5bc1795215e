//! The RRsets and denials that a walk (the recursive resolution of one question) uses, from replies
//! and from the cache.

use avocet_cache::{
    Cached, Freshness, Negative, NegativeKind, NegativeRecord, NegativeView, Provenance, Rank,
    ReceivedRrset, RrsetCache, RrsetKey, RrsetView, Security, Unsupported,
};
use avocet_wire::{Class, FoldedName, Rcode, Rtype, Section, SharedName, name};

use super::signed::{BEFORE_SIGNER, signer_of};
use crate::answer::{Gathered, RecordFields};
use crate::numbering::Numbering;
use crate::own::OwnSet;
use crate::rdata_list::RdataList;
use crate::read::ReplyRecord;

/// A folded name that is cheap to clone.
pub(crate) type Name = SharedName;

/// Returns a name for tests, folded.
#[cfg(test)]
pub(crate) fn name_of(wire: &[u8]) -> Name {
    avocet_wire::FoldedNameBuf::from_wire(wire).unwrap().view().into()
}

/// Records with the same owner and type, with their signatures.
#[derive(Clone, Debug)]
pub(crate) struct Rrset {
    pub(crate) owner: Name,
    pub(crate) rtype: Rtype,
    pub(crate) ttl_secs: u32,
    pub(crate) records: RdataList,
    pub(crate) signatures: RdataList,
    pub(crate) security: Security,
    /// The support that this resolver lacks to validate the RRset, such as its algorithm; `None` if
    /// it lacks none.
    pub(crate) unsupported: Option<Unsupported>,
    /// Whether the RRset is a CNAME that was synthesized from the preceding DNAME.
    pub(crate) synthesised: bool,
}

/// A negative response, with its proof.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    /// The RCODE, which is NOERROR or NXDOMAIN.
    pub(crate) rcode: Rcode,
    /// The SOA record; `None` if the servers sent none. Such a denial is not cached (RFC 2308 §5).
    pub(crate) soa: Option<Rrset>,
    /// The NSEC and NSEC3 RRsets that prove the denial.
    pub(crate) proof: Vec<Rrset>,
    pub(crate) security: Security,
    /// The support that this resolver lacks to validate the denial, such as its algorithm; `None`
    /// if it lacks none.
    pub(crate) unsupported: Option<Unsupported>,
}

/// The cached data of a name and type.
#[derive(Clone, Debug)]
pub(crate) enum CachedAnswer {
    Set(Rrset),
    Denied(Denial),
}

/// The side of the cache in which data is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Authoritative data of zones.
    Zone,
    /// Data for finding servers: delegations, glue (RFC 9471) and denials of minimised names.
    /// Clients never get this data.
    Delegation,
}

impl Side {
    /// Returns the class under which this side of the cache stores data. Delegations have a class
    /// that no query can have (RFC 6895 §3.2: private use).
    pub(crate) const fn class(self) -> u16 {
        match self {
            Self::Zone => Class::IN.0,
            Self::Delegation => 0xff01,
        }
    }

    /// Returns the key of an RRset in the cache.
    pub(crate) const fn key(self, owner: FoldedName<'_>, rtype: Rtype) -> RrsetKey<'_> {
        RrsetKey { owner, rtype: rtype.0, class: self.class() }
    }
}

impl Denial {
    /// Returns a denial that this server makes from its own data.
    pub(crate) fn of_own(rcode: Rcode, soa: &OwnSet<'_>) -> Self {
        let soa = Some(Rrset::of_own(soa));
        Self { rcode, soa, proof: Vec::new(), security: Security::Insecure, unsupported: None }
    }
}

impl Rrset {
    /// Returns an empty RRset.
    pub(crate) fn empty(owner: Name, rtype: Rtype, ttl_secs: u32) -> Self {
        Self {
            owner,
            rtype,
            ttl_secs,
            records: RdataList::default(),
            signatures: RdataList::default(),
            security: Security::Unchecked,
            unsupported: None,
            synthesised: false,
        }
    }

    /// Returns an RRset from this server's own data: it is unsigned and never cached.
    pub(crate) fn of_own(own: &OwnSet<'_>) -> Self {
        let mut set = Self {
            security: Security::Insecure,
            ..Self::empty(own.owner.into(), own.rtype, own.ttl_secs)
        };
        own.for_each(|data| set.records.push(data));
        set
    }

    fn cached(owner: FoldedName<'_>, rtype: Rtype, view: &RrsetView<'_>) -> Self {
        Self {
            owner: owner.into(),
            rtype,
            ttl_secs: remaining(view.freshness),
            records: view.records().collect(),
            signatures: view.signatures().collect(),
            security: view.provenance.security,
            unsupported: view.provenance.unsupported,
            synthesised: false,
        }
    }

    /// Adds the records to a message, together with signatures if `signed` requests them.
    pub(crate) fn put(&self, out: &mut Gathered, section: Section, signed: Signed) {
        let kind =
            |rtype| RecordFields { section, rtype, class: Class::IN, ttl_secs: self.ttl_secs };
        for rdata in &self.records {
            out.push(kind(self.rtype), self.owner.view(), rdata);
        }
        for rdata in self.signatures.iter().filter(|_| signed == Signed::Yes) {
            out.push(kind(Rtype::RRSIG), self.owner.view(), rdata);
        }
    }

    /// Returns records of a type with this owner, as the cache takes them.
    fn negative_records<'s>(
        &'s self,
        rtype: Rtype,
        data: &'s RdataList,
    ) -> impl Iterator<Item = NegativeRecord<'s>> {
        data.iter().map(move |rdata| NegativeRecord {
            owner: self.owner.view(),
            rtype: rtype.0,
            rdata,
        })
    }

    /// Returns whether the RRset has signatures and this zone made all of them.
    pub(crate) fn is_signed_only_by(&self, apex: FoldedName<'_>) -> bool {
        let mut signers = self.signatures.iter().map(signer_of);
        !self.signatures.is_empty()
            && signers.all(|signer| signer.is_some_and(|signer| *signer == *apex))
    }

    pub(crate) fn is_at(&self, owner: FoldedName<'_>, rtype: Rtype) -> bool {
        self.rtype == rtype && *self.owner == *owner
    }

    /// Returns whether the RRset is a wildcard expansion (RFC 4035 §5.3.4).
    pub(crate) fn is_expanded(&self) -> bool {
        let labels = name::labels(&self.owner).filter(|label| *label != b"*").count();
        self.signatures
            .iter()
            .any(|rrsig| rrsig.get(3).is_some_and(|&signed| usize::from(signed) < labels))
    }
}

/// Whether the client requests signatures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signed {
    Yes,
    No,
}

impl From<bool> for Signed {
    /// Returns `Signed::Yes` if the DO bit is set.
    fn from(dnssec_ok: bool) -> Self {
        if dnssec_ok { Self::Yes } else { Self::No }
    }
}

/// Returns the remaining TTL of a cached entry, in seconds; 0 for an expired one.
pub(super) fn remaining(freshness: Freshness) -> u32 {
    match freshness {
        Freshness::Fresh { remaining_secs } => remaining_secs,
        Freshness::Stale { .. } => 0,
    }
}

/// A record of a reply before it is grouped with the others of its RRset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ungrouped<'a> {
    pub(crate) owner: FoldedName<'a>,
    pub(crate) rtype: Rtype,
    pub(crate) ttl_secs: u32,
    pub(crate) rdata: &'a [u8],
}

impl<'a> Ungrouped<'a> {
    /// Returns a record of a reply.
    pub(crate) fn of(record: &ReplyRecord<'a>) -> Self {
        let ReplyRecord { owner, rtype, ttl_secs, rdata, .. } = *record;
        Self { owner, rtype, ttl_secs, rdata }
    }
}

/// The limits on the grouping of records into RRsets. Records beyond the limits are ignored; a
/// signed RRset that is thus incomplete fails validation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) sets: usize,
    /// Maximum number of records of one RRset.
    pub(crate) records: usize,
}

/// Maximum number of RRSIG records per RRset.
pub(crate) const MAX_SIGNATURES: usize = 32;
/// Maximum number of NSEC and NSEC3 RRsets per reply.
pub(crate) const MAX_PROOF: usize = 32;
/// Maximum number of records of an NSEC or NSEC3 RRset. A valid RRset of these types has a single
/// record. The limit is low, because validation checks all proofs of a question for each label of a
/// name.
pub(crate) const MAX_PROOF_RECORDS: usize = 4;

/// The properties that all records of an RRset have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SetKey<'a> {
    owner: FoldedName<'a>,
    rtype: Rtype,
    /// Whether this is an NSEC record at the apex of its zone. The parent zone has a different NSEC
    /// record at that name, and one message of a forwarder may contain both if an alias leads from
    /// one zone to the other (RFC 4035 §2.3).
    of_apex: bool,
}

impl<'a> SetKey<'a> {
    fn of(record: &Ungrouped<'a>) -> Self {
        let Ungrouped { owner, rtype, rdata, .. } = *record;
        Self { owner, rtype, of_apex: rtype == Rtype::NSEC && lists_soa(rdata) }
    }

    /// Returns the key of the RRset that an RRSIG record covers. The signer of the record helps to
    /// identify the RRset.
    fn covered(owner: FoldedName<'a>, rrsig: &[u8]) -> Option<Self> {
        let rtype = rrsig.first_chunk().map(|covered| Rtype(u16::from_be_bytes(*covered)))?;
        let signer = rrsig.get(BEFORE_SIGNER..).and_then(|rest| rest.get(..owner.len()));
        let is_own = signer.is_some_and(|signer| signer.eq_ignore_ascii_case(&owner));
        Some(Self { owner, rtype, of_apex: rtype == Rtype::NSEC && is_own })
    }

    fn other_side(self) -> Self {
        Self { of_apex: self.rtype == Rtype::NSEC && !self.of_apex, ..self }
    }
}

/// Returns whether the type bitmap of an NSEC record has SOA, so that the owner is the apex of a
/// zone.
fn lists_soa(nsec: &[u8]) -> bool {
    let types = name::wire_len(nsec).ok().and_then(|len| nsec.get(len..));
    // The first octet of window 0 has the bits of types 0 to 7 (RFC 4034 §4.1.2).
    matches!(types, Some([0, len, first, ..]) if *len > 0 && *first & (0x80 >> Rtype::SOA.0) != 0)
}

/// Groups records, including RRSIG records, into RRsets in the order of their first records.
pub(crate) fn group<'a>(
    records: impl Iterator<Item = Ungrouped<'a>> + Clone,
    most: Most,
) -> Vec<Rrset> {
    let mut sets: Vec<Rrset> = Vec::new();
    let mut places = Numbering::new();
    let mut seen = Numbering::new();
    for record in records.clone().filter(|record| record.rtype != Rtype::RRSIG) {
        let Ungrouped { owner, rtype, ttl_secs, rdata } = record;
        let key = SetKey::of(&record);
        let place = match places.find(key) {
            Some(place) => place,
            None if sets.len() >= most.sets => continue,
            None => {
                places.number(key);
                sets.push(Rrset::empty(owner.into(), rtype, ttl_secs));
                sets.len() - 1
            }
        };
        let set = &mut sets[place];
        set.ttl_secs = set.ttl_secs.min(ttl_secs);
        if set.records.len() < most.records && seen.is_new((place, rdata)) {
            set.records.push(rdata);
        }
    }
    for Ungrouped { owner, rdata, .. } in records.filter(|record| record.rtype == Rtype::RRSIG) {
        let Some(key) = SetKey::covered(owner, rdata) else { continue };
        let place = places.find(key).or_else(|| places.find(key.other_side()));
        if let Some(set) = place.and_then(|place| sets.get_mut(place))
            && set.signatures.len() < MAX_SIGNATURES
        {
            set.signatures.push(rdata);
        }
    }
    sets
}

/// The properties of cached data that depend on its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) side: Side,
    pub(crate) rank: Rank,
    /// Whether the query had DO, so that signatures that are missing do not exist.
    pub(crate) with_do: bool,
}

impl Stored {
    fn provenance(&self, security: Security, unsupported: Option<Unsupported>) -> Provenance {
        Provenance {
            security,
            unsupported,
            rank: self.rank,
            asked_with_do: self.with_do,
            asked_with_cd: false,
        }
    }
}

/// Caches an RRset.
pub(crate) fn store(cache: &RrsetCache, set: &Rrset, how: &Stored, now_secs: u32) {
    let records: Vec<&[u8]> = set.records.iter().collect();
    let signatures: Vec<&[u8]> = set.signatures.iter().collect();
    let mut provenance = how.provenance(set.security, set.unsupported);
    // The proof of a wildcard expansion is not cached with the RRset, so the entry must not answer
    // queries that need the proof.
    provenance.asked_with_do &= !set.is_expanded();
    let new =
        ReceivedRrset { provenance, ttl: set.ttl_secs, records: &records, signatures: &signatures };
    let key = RrsetKey { owner: set.owner.view(), rtype: set.rtype.0, class: how.side.class() };
    cache.insert(&key, &new, now_secs);
}

/// Caches a denial, unless it has no SOA record.
pub(crate) fn store_denial(
    cache: &RrsetCache,
    at: (FoldedName<'_>, Rtype),
    denial: &Denial,
    how: &Stored,
    now_secs: u32,
) {
    let Some(soa) = &denial.soa else { return };
    let Some(soa_data) = soa.records.first() else { return };
    let mut proof = Vec::with_capacity(1 + 2 * denial.proof.len());
    proof.extend(soa.negative_records(Rtype::RRSIG, &soa.signatures));
    for set in &denial.proof {
        proof.extend(set.negative_records(set.rtype, &set.records));
        proof.extend(set.negative_records(Rtype::RRSIG, &set.signatures));
    }
    let ttl_secs = denial.proof.iter().map(|set| set.ttl_secs).fold(soa.ttl_secs, u32::min);
    let negative = Negative {
        kind: if denial.rcode == Rcode::NXDOMAIN {
            NegativeKind::Nxdomain
        } else {
            NegativeKind::Nodata
        },
        provenance: how.provenance(denial.security, denial.unsupported),
        soa: NegativeRecord { owner: soa.owner.view(), rtype: Rtype::SOA.0, rdata: soa_data },
        soa_ttl: ttl_secs,
        proof: &proof,
    };
    let key = RrsetKey { owner: at.0, rtype: at.1.0, class: how.side.class() };
    cache.insert_negative(&key, &negative, now_secs);
}

/// Returns the cached data for a key, unless its TTL has expired.
pub(crate) fn look_up(
    cache: &RrsetCache,
    key: &RrsetKey<'_>,
    now_secs: u32,
    buffer: &mut [u8],
) -> Option<(CachedAnswer, Provenance)> {
    let at = avocet_cache::ReadAt { now: now_secs, stale_window: 0 };
    Some(match cache.lookup(key, at, buffer)? {
        Cached::Rrset(view) => {
            (CachedAnswer::Set(Rrset::cached(key.owner, Rtype(key.rtype), &view)), view.provenance)
        }
        Cached::Nodata(view) => {
            (CachedAnswer::Denied(denial(Rcode::NOERROR, &view)), view.provenance)
        }
    })
}

/// Returns whether the cache has the delegation of a zone.
pub(crate) fn knows_delegation(
    cache: &RrsetCache,
    zone: FoldedName<'_>,
    now_secs: u32,
    buffer: &mut [u8],
) -> bool {
    let key = RrsetKey { owner: zone, rtype: Rtype::NS.0, class: Side::Delegation.class() };
    let at = avocet_cache::ReadAt { now: now_secs, stale_window: 0 };
    matches!(cache.lookup(&key, at, buffer), Some(Cached::Rrset(_)))
}

/// Returns the cached NXDOMAIN at a name or its nearest ancestor, with the length of that name.
pub(crate) fn look_up_nxdomain(
    cache: &RrsetCache,
    (side, owner): (Side, FoldedName<'_>),
    now_secs: u32,
    buffer: &mut [u8],
) -> Option<(usize, Denial, Provenance)> {
    let at = avocet_cache::ReadAt { now: now_secs, stale_window: 0 };
    let (len, view) = cache.covering_nxdomain(owner, side.class(), at, buffer)?;
    Some((len, denial(Rcode::NXDOMAIN, &view), view.provenance))
}

fn denial(rcode: Rcode, view: &NegativeView<'_>) -> Denial {
    let ttl_secs = remaining(view.freshness);
    let soa = view.soa();
    let records = soa.into_iter().chain(view.proof());
    let flat: Vec<_> = records
        .map(|record| Ungrouped {
            owner: record.owner,
            rtype: Rtype(record.rtype),
            ttl_secs,
            rdata: record.rdata,
        })
        .collect();
    let mut proof =
        group(flat.iter().copied(), Most { sets: MAX_PROOF + 1, records: MAX_PROOF_RECORDS });
    let at = proof.iter().position(|set| set.rtype == Rtype::SOA);
    let soa = at.map(|at| proof.remove(at));
    let Provenance { security, unsupported, .. } = view.provenance;
    Denial { rcode, soa, proof, security, unsupported }
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_cache::TtlBounds;

    #[test]
    fn of_more_sets_records_and_signatures_than_are_wanted_the_first_are_kept() {
        let names: Vec<Vec<u8>> = (100..200u8).map(|number| vec![1, number, 0]).collect();
        let record = |owner, rtype, rdata| Ungrouped { owner, rtype, ttl_secs: 60, rdata };
        let signature = Rtype::NSEC.0.to_be_bytes();
        let records = names.iter().flat_map(|owner| {
            let own = names
                .iter()
                .chain(&names)
                .map(|data| record(FoldedName::new(owner).unwrap(), Rtype::NSEC, &data[..]));
            own.chain((0..100).map(|_| {
                record(FoldedName::new(&owner[..]).unwrap(), Rtype::RRSIG, &signature[..])
            }))
        });
        let sets = group(records, Most { sets: 40, records: 30 });
        assert_eq!(sets.len(), 40);
        for (set, owner) in sets.iter().zip(&names) {
            assert_eq!(
                (&*set.owner, set.records.len(), set.signatures.len()),
                (&owner[..], 30, MAX_SIGNATURES)
            );
            assert!(
                set.records.iter().zip(&names).all(|(data, name)| *data == **name),
                "each once, in their order"
            );
        }
    }

    #[test]
    fn records_of_both_sides_of_a_zone_cut_are_two_sets_each_with_its_signatures() {
        let owner: &[u8] = b"\x01b\x01a\x00";
        let nsec = |next: &[u8], types: u8| [next, &[0, 1, types]].concat();
        let (above, apex) = (nsec(b"\x01c\x01a\x00", 0x20), nsec(b"\x01x\x01b\x01a\x00", 0x22));
        let rrsig = |signer: &[u8]| {
            [&Rtype::NSEC.0.to_be_bytes()[..], &[0; 16], signer, b"signature"].concat()
        };
        let (by_above, by_apex) = (rrsig(b"\x01a\x00"), rrsig(b"\x01B\x01a\x00"));
        let check = |nsecs: &[&[u8]], rrsigs: &[&[u8]], expected: &[(&[u8], &[&[u8]])]| {
            let of = |rtype| move |rdata: &&'_ [u8]| (rtype, rdata.to_vec());
            let records: Vec<_> = nsecs
                .iter()
                .map(of(Rtype::NSEC))
                .chain(rrsigs.iter().map(of(Rtype::RRSIG)))
                .collect();
            let records = records.iter().map(|(rtype, rdata)| Ungrouped {
                owner: FoldedName::new(owner).unwrap(),
                rtype: *rtype,
                ttl_secs: 60,
                rdata,
            });
            let sets = group(records, Most { sets: 4, records: 4 });
            let found: Vec<(&[u8], Vec<&[u8]>)> = sets
                .iter()
                .map(|set| (set.records.first().unwrap(), set.signatures.iter().collect()))
                .collect();
            let expected: Vec<_> =
                expected.iter().map(|(record, rrsigs)| (*record, rrsigs.to_vec())).collect();
            assert_eq!(found, expected);
        };
        let both = [(&above[..], &[&by_above[..]][..]), (&apex[..], &[&by_apex[..]][..])];
        check(&[&above, &apex], &[&by_apex, &by_above], &both);
        check(&[&apex, &above], &[&by_apex, &by_above], &[both[1], both[0]]);
        // If an RRset has signatures of its own, these are used.
        check(&[&above], &[&by_apex, &by_above], &[(&above, &[&by_apex, &by_above])]);
    }

    #[test]
    fn a_denial_comes_out_of_the_cache_as_it_went_in() {
        let bounds = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3_600 };
        let cache = RrsetCache::new(1 << 20, 0, bounds, [1; 16]).unwrap();
        let zone: &[u8] = b"\x07example\x00";
        let soa = [&[0u8; 2][..], &[0; 16], &300u32.to_be_bytes()].concat();
        let rrsig = |covered: Rtype| [&covered.0.to_be_bytes()[..], b"signature"].concat();
        let (of_soa, of_nsec) = (rrsig(Rtype::SOA), rrsig(Rtype::NSEC));
        let records: [(&[u8], Rtype, u32, &[u8]); 4] = [
            (zone, Rtype::SOA, 600, &soa),
            (zone, Rtype::RRSIG, 600, &of_soa),
            (zone, Rtype::NSEC, 600, b"nsec"),
            (zone, Rtype::RRSIG, 600, &of_nsec),
        ];
        let records = records.map(|(owner, rtype, ttl_secs, rdata)| Ungrouped {
            owner: FoldedName::new(owner).unwrap(),
            rtype,
            ttl_secs,
            rdata,
        });
        let mut sets = group(records.into_iter(), Most { sets: 2, records: 1 });
        assert_eq!(sets.iter().map(|set| set.signatures.len()).collect::<Vec<_>>(), [1, 1]);
        let proof = sets.split_off(1);
        let denial = Denial {
            rcode: Rcode::NXDOMAIN,
            soa: sets.pop(),
            proof,
            security: Security::Insecure,
            unsupported: Some(Unsupported::Digest),
        };
        let how = Stored { side: Side::Zone, rank: Rank::AuthoritativeAnswer, with_do: true };
        store_denial(
            &cache,
            (FoldedName::new(b"\x01x\x07example\x00").unwrap(), Rtype::A),
            &denial,
            &how,
            100,
        );
        let mut buffer = vec![0; 65_536];
        let below = b"\x01y\x01x\x07example\x00";
        let (len, found, provenance) = look_up_nxdomain(
            &cache,
            (Side::Zone, FoldedName::new(below).unwrap()),
            150,
            &mut buffer,
        )
        .unwrap();
        assert_eq!((len, provenance.security), (11, Security::Insecure));
        assert_eq!(found.unsupported, Some(Unsupported::Digest));
        assert_eq!(
            found.soa.unwrap().ttl_secs,
            250,
            "what is left of the least of TTL and MINIMUM"
        );
        assert_eq!((found.proof.len(), found.proof[0].signatures.len()), (1, 1));
    }
}
