//! The layout of an entry of the RRset cache, and the types that read an entry.
//!
//! ```text
//! payload:   owner | type u16 | class u16 | body
//! positive:  records, then signatures, each: length u16 | RDATA
//! negative:  the SOA record, then the proof, each: owner | type u16 | length u16 | RDATA
//! user:      security (3) | rank (2) | kind (2) | DO (1) | CD (1) | unsupported (2),
//!            from the least significant bit on
//! epoch:     records in the low half, signatures in the high half; proof records in the low half
//! ```
//! Numbers are big endian. The views never fail: malformed data ends an iteration early.

use avocet_wire::FoldedName;

use super::{
    Freshness, Negative, NegativeKind, NegativeRecord, Provenance, Rank, ReceivedRrset, RrsetKey,
    Security, Unsupported,
};
use crate::{name, store::Meta};

const RANK_SHIFT: u32 = 3;
const KIND_SHIFT: u32 = 5;
const DO_BIT: u32 = 1 << 7;
const CD_BIT: u32 = 1 << 8;
const UNSUPPORTED_SHIFT: u32 = 9;
/// Initial capacity of a payload, in octets. A small RRset needs no second allocation.
const TYPICAL_PAYLOAD_BYTES: usize = 128;

/// An encoded entry: its payload, and the fields of its [`Meta`] that describe the payload.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    epoch: u32,
    user: u32,
}

impl Body {
    /// Returns the [`Meta`] of an entry that is stored now. The caller sets its validity.
    pub(super) fn meta(&self, now: u32) -> Meta {
        Meta { stored_at: now, valid_for: 0, epoch: self.epoch, user: self.user }
    }
}

/// Encodes an RRset. Returns `None` if a count or a length exceeds 16 bits.
pub(super) fn encode_rrset(key: &RrsetKey<'_>, rrset: &ReceivedRrset<'_>) -> Option<Body> {
    let records = u16::try_from(rrset.records.len()).ok()?;
    let signatures = u16::try_from(rrset.signatures.len()).ok()?;
    let mut bytes = encode_key(key);
    for rdata in rrset.records.iter().chain(rrset.signatures) {
        put_rdata(&mut bytes, rdata)?;
    }
    let epoch = (u32::from(signatures) << 16) | u32::from(records);
    Some(Body { bytes, epoch, user: user_of(&rrset.provenance, None) })
}

/// Encodes a negative answer. Returns `None` if a count or a length exceeds 16 bits.
pub(super) fn encode_negative(key: &RrsetKey<'_>, negative: &Negative<'_>) -> Option<Body> {
    let count = u16::try_from(negative.proof.len()).ok()?;
    let mut bytes = encode_key(key);
    for record in std::iter::once(&negative.soa).chain(negative.proof) {
        bytes.extend(record.owner.wire());
        bytes.extend(record.rtype.to_be_bytes());
        put_rdata(&mut bytes, record.rdata)?;
    }
    Some(Body {
        bytes,
        epoch: u32::from(count),
        user: user_of(&negative.provenance, Some(negative.kind)),
    })
}

fn encode_key(key: &RrsetKey<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TYPICAL_PAYLOAD_BYTES);
    bytes.extend(key.owner.wire());
    bytes.extend(key.rtype.to_be_bytes());
    bytes.extend(key.class.to_be_bytes());
    bytes
}

fn put_rdata(bytes: &mut Vec<u8>, rdata: &[u8]) -> Option<()> {
    bytes.extend(u16::try_from(rdata.len()).ok()?.to_be_bytes());
    bytes.extend(rdata);
    Some(())
}

fn user_of(provenance: &Provenance, kind: Option<NegativeKind>) -> u32 {
    let kind = match kind {
        None => 0,
        Some(NegativeKind::Nodata) => 1,
        Some(NegativeKind::Nxdomain) => 2,
    };
    (provenance.security as u32)
        | ((provenance.rank as u32) << RANK_SHIFT)
        | (kind << KIND_SHIFT)
        | (u32::from(provenance.asked_with_do) * DO_BIT)
        | (u32::from(provenance.asked_with_cd) * CD_BIT)
        | (provenance.unsupported.map_or(0, |unsupported| unsupported as u32) << UNSUPPORTED_SHIFT)
}

/// Returns the kind of denial, or `None` for a positive entry.
pub(super) fn kind_of(user: u32) -> Option<NegativeKind> {
    match (user >> KIND_SHIFT) & 3 {
        1 => Some(NegativeKind::Nodata),
        2 => Some(NegativeKind::Nxdomain),
        _ => None,
    }
}

/// Decodes the source of the entry.
pub(super) fn provenance_of(user: u32) -> Provenance {
    Provenance {
        security: match user & 7 {
            1 => Security::Indeterminate,
            2 => Security::Insecure,
            3 => Security::Bogus,
            4 => Security::Secure,
            _ => Security::Unchecked,
        },
        unsupported: match (user >> UNSUPPORTED_SHIFT) & 3 {
            0 => None,
            1 => Some(Unsupported::Algorithm),
            2 => Some(Unsupported::Digest),
            _ => Some(Unsupported::Iterations),
        },
        rank: match (user >> RANK_SHIFT) & 3 {
            0 => Rank::Additional,
            1 => Rank::NonAuthoritativeAnswer,
            2 => Rank::AuthoritativeAuthority,
            _ => Rank::AuthoritativeAnswer,
        },
        asked_with_do: user & DO_BIT != 0,
        asked_with_cd: user & CD_BIT != 0,
    }
}

/// A cached RRset, read from the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct RrsetView<'a> {
    /// The source of the data.
    pub provenance: Provenance,
    /// The age of the data in relation to its TTL.
    pub freshness: Freshness,
    /// The TTL at insertion, in seconds.
    pub original_ttl: u32,
    records: Rdatas<'a>,
    signatures: Rdatas<'a>,
}

impl<'a> RrsetView<'a> {
    pub(super) fn new(body: &'a [u8], meta: &Meta, freshness: Freshness) -> Self {
        let (records, signatures) = (meta.epoch & 0xffff, meta.epoch >> 16);
        let records = Rdatas { bytes: body, left: records };
        let mut behind = records;
        behind.by_ref().for_each(drop);
        RrsetView {
            provenance: provenance_of(meta.user),
            freshness,
            original_ttl: meta.valid_for,
            records,
            signatures: Rdatas { bytes: behind.bytes, left: signatures },
        }
    }

    /// Returns the RDATA of the records.
    pub fn records(&self) -> Rdatas<'a> {
        self.records
    }

    /// Returns the RDATA of the RRSIG records that cover the set.
    pub fn signatures(&self) -> Rdatas<'a> {
        self.signatures
    }
}

/// An iterator over RDATA.
#[derive(Clone, Copy, Debug)]
pub struct Rdatas<'a> {
    bytes: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Rdatas<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        split_rdata(&mut self.bytes)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left as usize))
    }
}

/// A cached negative answer, read from the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct NegativeView<'a> {
    /// The source of the data.
    pub provenance: Provenance,
    /// The age of the data in relation to its TTL. The remaining seconds are the TTL of all its
    /// records.
    pub freshness: Freshness,
    /// The TTL at insertion, in seconds.
    pub original_ttl: u32,
    body: &'a [u8],
    proof_count: u32,
}

impl<'a> NegativeView<'a> {
    pub(super) fn new(body: &'a [u8], meta: &Meta, freshness: Freshness) -> Self {
        NegativeView {
            provenance: provenance_of(meta.user),
            freshness,
            original_ttl: meta.valid_for,
            body,
            proof_count: meta.epoch & 0xffff,
        }
    }

    /// Returns the SOA record. Every entry has one, unless it comes from a malformed snapshot.
    pub fn soa(&self) -> Option<NegativeRecord<'a>> {
        self.all().next()
    }

    /// Returns the records of the proof.
    pub fn proof(&self) -> impl Iterator<Item = NegativeRecord<'a>> + use<'a> {
        self.all().skip(1).take(self.proof_count as usize)
    }

    fn all(&self) -> impl Iterator<Item = NegativeRecord<'a>> + use<'a> {
        let mut bytes = self.body;
        std::iter::from_fn(move || {
            let owner = FoldedName::from_folded_unchecked(name::leading_name(bytes)?);
            let (rtype, mut rest) = bytes.get(owner.len()..)?.split_first_chunk()?;
            let rdata = split_rdata(&mut rest)?;
            bytes = rest;
            Some(NegativeRecord { owner, rtype: u16::from_be_bytes(*rtype), rdata })
        })
    }
}

fn split_rdata<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (rdata, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *bytes = rest;
    Some(rdata)
}
