//! RRsets and denials that a walk holds: out of a reply or out of the cache.

use std::sync::Arc;

use avocet_cache::{
    Cached, Freshness, Negative, NegativeKind, NegativeRecord, NegativeView, Provenance, Rank,
    ReceivedRrset, RrsetCache, RrsetKey, RrsetView, Security, Unsupported,
};
use avocet_wire::{Class, Rcode, Rtype, Section, name};

use super::signed::{BEFORE_SIGNER, signer_of};
use crate::answer::{Gathered, RecordFields};
use crate::numbering::Numbering;
use crate::own::OwnSet;
use crate::read::ReplyRecord;

/// A name in folded wire form.
pub(crate) type Name = Arc<[u8]>;

/// Records of one owner and type, with the signatures that cover them.
#[derive(Clone, Debug)]
pub(crate) struct Rrset {
    pub(crate) owner: Name,
    pub(crate) rtype: Rtype,
    pub(crate) ttl_secs: u32,
    pub(crate) records: Vec<Box<[u8]>>,
    pub(crate) signatures: Vec<Box<[u8]>>,
    pub(crate) security: Security,
    /// Why it is insecure although it is signed.
    pub(crate) unsupported: Option<Unsupported>,
    /// A CNAME that follows from the DNAME before it.
    pub(crate) synthesised: bool,
}

/// What does not exist, and the proof of it.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    /// NOERROR or NXDOMAIN.
    pub(crate) rcode: Rcode,
    /// None: the servers gave none, and the denial is not to be kept (RFC 2308 §5).
    pub(crate) soa: Option<Rrset>,
    /// NSEC and NSEC3 RRsets.
    pub(crate) proof: Vec<Rrset>,
    pub(crate) security: Security,
    /// Why it is insecure although it is signed.
    pub(crate) unsupported: Option<Unsupported>,
}

/// What the cache has at a name and type.
#[derive(Clone, Debug)]
pub(crate) enum CachedAnswer {
    Set(Rrset),
    Denied(Denial),
}

/// In which class of the cache something lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// What a zone says of itself.
    Zone,
    /// What servers say on the way to it: delegations, glue (RFC 9471) and denials of shortened
    /// names. It is used to find servers, and no client ever gets it.
    Delegation,
}

impl Side {
    /// Delegations lie under a class that no query of ours can have (RFC 6895 §3.2: private use).
    pub(crate) const fn class(self) -> u16 {
        match self {
            Self::Zone => Class::IN.0,
            Self::Delegation => 0xff01,
        }
    }

    /// Where an RRset lies in the cache.
    pub(crate) const fn key(self, owner: &[u8], rtype: Rtype) -> RrsetKey<'_> {
        RrsetKey { owner, rtype: rtype.0, class: self.class() }
    }
}

impl Denial {
    /// Of this server itself.
    pub(crate) fn of_own(rcode: Rcode, soa: &OwnSet<'_>) -> Self {
        let soa = Some(Rrset::of_own(soa));
        Self { rcode, soa, proof: Vec::new(), security: Security::Insecure, unsupported: None }
    }
}

impl Rrset {
    /// As a new set without records.
    pub(crate) fn empty(owner: Name, rtype: Rtype, ttl_secs: u32) -> Self {
        Self {
            owner,
            rtype,
            ttl_secs,
            records: Vec::new(),
            signatures: Vec::new(),
            security: Security::Unchecked,
            unsupported: None,
            synthesised: false,
        }
    }

    /// Of this server itself: nobody signed it, and no cache keeps it.
    pub(crate) fn of_own(own: &OwnSet<'_>) -> Self {
        let mut set = Self {
            security: Security::Insecure,
            ..Self::empty(own.owner.into(), own.rtype, own.ttl_secs)
        };
        own.for_each(|data| set.records.push(data.into()));
        set
    }

    fn cached(owner: &[u8], rtype: Rtype, view: &RrsetView<'_>) -> Self {
        Self {
            owner: owner.into(),
            rtype,
            ttl_secs: remaining(view.freshness),
            records: view.records().map(Box::from).collect(),
            signatures: view.signatures().map(Box::from).collect(),
            security: view.provenance.security,
            unsupported: view.provenance.unsupported,
            synthesised: false,
        }
    }

    /// Adds its records, and its signatures where they are wanted, to a message.
    pub(crate) fn put(&self, out: &mut Gathered, section: Section, signed: Signed) {
        let kind =
            |rtype| RecordFields { section, rtype, class: Class::IN, ttl_secs: self.ttl_secs };
        for rdata in &self.records {
            out.push(kind(self.rtype), &self.owner, rdata);
        }
        for rdata in self.signatures.iter().filter(|_| signed == Signed::Yes) {
            out.push(kind(Rtype::RRSIG), &self.owner, rdata);
        }
    }

    /// Do all of its signatures name this zone, and is there one?
    pub(crate) fn is_signed_only_by(&self, apex: &[u8]) -> bool {
        let mut signers = self.signatures.iter().map(|rrsig| signer_of(rrsig));
        !self.signatures.is_empty()
            && signers.all(|signer| signer.is_some_and(|signer| *signer == *apex))
    }

    pub(crate) fn is_at(&self, owner: &[u8], rtype: Rtype) -> bool {
        self.rtype == rtype && *self.owner == *owner
    }

    /// Is the owner's data the expansion of a wildcard (RFC 4035 §5.3.4)?
    pub(crate) fn is_expanded(&self) -> bool {
        let labels = name::labels(&self.owner).filter(|label| *label != b"*").count();
        self.signatures
            .iter()
            .any(|rrsig| rrsig.get(3).is_some_and(|&signed| usize::from(signed) < labels))
    }
}

/// Are signatures wanted?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signed {
    Yes,
    No,
}

impl From<bool> for Signed {
    /// By a DO bit.
    fn from(dnssec_ok: bool) -> Self {
        if dnssec_ok { Self::Yes } else { Self::No }
    }
}

fn remaining(freshness: Freshness) -> u32 {
    match freshness {
        Freshness::Fresh { remaining_secs } => remaining_secs,
        Freshness::Stale { .. } => 0,
    }
}

/// A record to be grouped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ungrouped<'a> {
    pub(crate) owner: &'a [u8],
    pub(crate) rtype: Rtype,
    pub(crate) ttl_secs: u32,
    pub(crate) rdata: &'a [u8],
}

impl<'a> Ungrouped<'a> {
    /// A record of a reply as it came.
    pub(crate) fn of(record: &ReplyRecord<'a>) -> Self {
        let ReplyRecord { owner, rtype, ttl_secs, rdata, .. } = *record;
        Self { owner, rtype, ttl_secs, rdata }
    }
}

/// Most of what is kept of records that are grouped: what is beyond is passed over. An RRset that
/// lacks records does not verify.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) sets: usize,
    /// Records of one RRset.
    pub(crate) records: usize,
}

/// Most RRSIG records of one RRset that are kept.
pub(crate) const MAX_SIGNATURES: usize = 32;
/// Most NSEC and NSEC3 RRsets of a reply that are kept.
pub(crate) const MAX_PROOF: usize = 32;
/// Most records of an NSEC or NSEC3 RRset that are kept. One is all that a sound one has, and the
/// chain of trust looks at all proofs of a question for each label of a name.
pub(crate) const MAX_PROOF_RECORDS: usize = 4;

/// What the records of an RRset have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SetKey<'a> {
    owner: &'a [u8],
    rtype: Rtype,
    /// An NSEC record of the zone whose apex the owner is. The zone above has another one there,
    /// and where an alias leads from it to a name of the other, one message of a forwarder has both
    /// (RFC 4035 §2.3).
    of_apex: bool,
}

impl<'a> SetKey<'a> {
    fn of(record: &Ungrouped<'a>) -> Self {
        let Ungrouped { owner, rtype, rdata, .. } = *record;
        Self { owner, rtype, of_apex: rtype == Rtype::NSEC && lists_soa(rdata) }
    }

    /// The set that an RRSIG record covers, by its signer.
    fn covered(owner: &'a [u8], rrsig: &[u8]) -> Option<Self> {
        let rtype = rrsig.first_chunk().map(|covered| Rtype(u16::from_be_bytes(*covered)))?;
        let signer = rrsig.get(BEFORE_SIGNER..).and_then(|rest| rest.get(..owner.len()));
        let is_own = signer.is_some_and(|signer| signer.eq_ignore_ascii_case(owner));
        Some(Self { owner, rtype, of_apex: rtype == Rtype::NSEC && is_own })
    }

    fn other_side(self) -> Self {
        Self { of_apex: self.rtype == Rtype::NSEC && !self.of_apex, ..self }
    }
}

/// Has the owner of this NSEC record an SOA record, by which it is an apex?
fn lists_soa(nsec: &[u8]) -> bool {
    let types = name::wire_len(nsec).ok().and_then(|len| nsec.get(len..));
    // The first octet of the first window, which is for types 0 to 7 (RFC 4034 §4.1.2).
    matches!(types, Some([0, len, first, ..]) if *len > 0 && *first & (0x80 >> Rtype::SOA.0) != 0)
}

/// Groups records, RRSIG records among them, into RRsets in the order in which their owners and
/// types first appear.
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
            set.records.push(rdata.into());
        }
    }
    for Ungrouped { owner, rdata, .. } in records.filter(|record| record.rtype == Rtype::RRSIG) {
        let Some(key) = SetKey::covered(owner, rdata) else { continue };
        let place = places.find(key).or_else(|| places.find(key.other_side()));
        if let Some(set) = place.and_then(|place| sets.get_mut(place))
            && set.signatures.len() < MAX_SIGNATURES
        {
            set.signatures.push(rdata.into());
        }
    }
    sets
}

/// How data was got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) side: Side,
    pub(crate) rank: Rank,
    /// Signatures that are not there do not exist.
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

/// Puts an RRset into the cache.
pub(crate) fn store(cache: &RrsetCache, set: &Rrset, how: &Stored, now_secs: u32) {
    let records: Vec<&[u8]> = set.records.iter().map(AsRef::as_ref).collect();
    let signatures: Vec<&[u8]> = set.signatures.iter().map(AsRef::as_ref).collect();
    let mut provenance = how.provenance(set.security, set.unsupported);
    // The proof that goes with an expanded wildcard is not kept beside it, and so it does not serve
    // those who want proof.
    provenance.asked_with_do &= !set.is_expanded();
    let new =
        ReceivedRrset { provenance, ttl: set.ttl_secs, records: &records, signatures: &signatures };
    let key = RrsetKey { owner: &set.owner, rtype: set.rtype.0, class: how.side.class() };
    cache.insert(&key, &new, now_secs);
}

/// Puts a denial into the cache; nothing where it has no SOA record.
pub(crate) fn store_denial(
    cache: &RrsetCache,
    at: (&[u8], Rtype),
    denial: &Denial,
    how: &Stored,
    now_secs: u32,
) {
    let Some(soa) = &denial.soa else { return };
    let Some(soa_data) = soa.records.first() else { return };
    let flat = |set: &'_ Rrset| {
        let records = set.records.iter().map(|rdata| (set.rtype, rdata));
        records
            .chain(set.signatures.iter().map(|rdata| (Rtype::RRSIG, rdata)))
            .map(|(rtype, rdata)| (rtype, rdata.clone()))
            .collect::<Vec<_>>()
    };
    let mut listed: Vec<(Name, Rtype, Box<[u8]>)> = soa
        .signatures
        .iter()
        .map(|rdata| (soa.owner.clone(), Rtype::RRSIG, rdata.clone()))
        .collect();
    for set in &denial.proof {
        listed
            .extend(flat(set).into_iter().map(|(rtype, rdata)| (set.owner.clone(), rtype, rdata)));
    }
    let proof: Vec<_> = listed
        .iter()
        .map(|(owner, rtype, rdata)| NegativeRecord { owner, rtype: rtype.0, rdata })
        .collect();
    let ttl_secs = denial.proof.iter().map(|set| set.ttl_secs).fold(soa.ttl_secs, u32::min);
    let negative = Negative {
        kind: if denial.rcode == Rcode::NXDOMAIN {
            NegativeKind::Nxdomain
        } else {
            NegativeKind::Nodata
        },
        provenance: how.provenance(denial.security, denial.unsupported),
        soa: NegativeRecord { owner: &soa.owner, rtype: Rtype::SOA.0, rdata: soa_data },
        soa_ttl: ttl_secs,
        proof: &proof,
    };
    let key = RrsetKey { owner: at.0, rtype: at.1.0, class: how.side.class() };
    cache.insert_negative(&key, &negative, now_secs);
}

/// What the cache has, within its TTL.
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

/// Does the cache know the servers of a zone?
pub(crate) fn knows_delegation(
    cache: &RrsetCache,
    zone: &[u8],
    now_secs: u32,
    buffer: &mut [u8],
) -> bool {
    let key = RrsetKey { owner: zone, rtype: Rtype::NS.0, class: Side::Delegation.class() };
    let at = avocet_cache::ReadAt { now: now_secs, stale_window: 0 };
    matches!(cache.lookup(&key, at, buffer), Some(Cached::Rrset(_)))
}

/// The NXDOMAIN at a name, or the nearest one above it, with the octets of that name.
pub(crate) fn look_up_nxdomain(
    cache: &RrsetCache,
    (side, owner): (Side, &[u8]),
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
        let names: Vec<Vec<u8>> = (0..100u8).map(|number| vec![1, number, 0]).collect();
        let record = |owner, rtype, rdata| Ungrouped { owner, rtype, ttl_secs: 60, rdata };
        let signature = Rtype::NSEC.0.to_be_bytes();
        let records = names.iter().flat_map(|owner| {
            let own = names.iter().chain(&names).map(|data| record(owner, Rtype::NSEC, &data[..]));
            own.chain((0..100).map(|_| record(&owner[..], Rtype::RRSIG, &signature[..])))
        });
        let sets = group(records, Most { sets: 40, records: 30 });
        assert_eq!(sets.len(), 40);
        for (set, owner) in sets.iter().zip(&names) {
            assert_eq!(
                (&*set.owner, set.records.len(), set.signatures.len()),
                (&owner[..], 30, MAX_SIGNATURES)
            );
            assert!(
                set.records.iter().zip(&names).all(|(data, name)| **data == **name),
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
                owner,
                rtype: *rtype,
                ttl_secs: 60,
                rdata,
            });
            let sets = group(records, Most { sets: 4, records: 4 });
            let found: Vec<(&[u8], Vec<&[u8]>)> = sets
                .iter()
                .map(|set| (&*set.records[0], set.signatures.iter().map(AsRef::as_ref).collect()))
                .collect();
            let expected: Vec<_> =
                expected.iter().map(|(record, rrsigs)| (*record, rrsigs.to_vec())).collect();
            assert_eq!(found, expected);
        };
        let both = [(&above[..], &[&by_above[..]][..]), (&apex[..], &[&by_apex[..]][..])];
        check(&[&above, &apex], &[&by_apex, &by_above], &both);
        check(&[&apex, &above], &[&by_apex, &by_above], &[both[1], both[0]]);
        // Where there is one, all signatures are its own.
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
            owner,
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
        store_denial(&cache, (b"\x01x\x07example\x00", Rtype::A), &denial, &how, 100);
        let mut buffer = vec![0; 65_536];
        let below = b"\x01y\x01x\x07example\x00";
        let (len, found, provenance) =
            look_up_nxdomain(&cache, (Side::Zone, below), 150, &mut buffer).unwrap();
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
