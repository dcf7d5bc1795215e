//! Signing zones with Ed25519 (RFC 8080) and NSEC (RFC 4034).

use avocet_wire::{Rtype, canonical, name};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};

use super::zone::{Set, Wire, Zone};

const ED25519: u8 = 15;
/// Signatures are valid so long before and after the simulation begins.
pub(super) const VALID_SECS: u64 = 30 * 86_400;

/// The key of a zone.
pub(super) struct Key {
    pair: Ed25519KeyPair,
    apex: Wire,
}

impl Key {
    /// A zone's key; it follows from name and number.
    pub(super) fn of(apex: &[u8], number: u64) -> Self {
        let seed = digest(&SHA256, &[apex, &number.to_be_bytes()].concat());
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).expect("32 octets");
        Self { pair, apex: apex.to_vec() }
    }

    pub(super) fn dnskey(&self) -> Vec<u8> {
        [&[1, 1, 3, ED25519][..], self.pair.public_key().as_ref()].concat()
    }

    fn tag(&self) -> u16 {
        let octets = self.dnskey();
        let words = octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
        let sum: u32 = words.sum();
        ((sum + (sum >> 16)) & 0xffff) as u16
    }

    pub(super) fn ds(&self) -> Vec<u8> {
        let hashed = digest(&SHA256, &[self.apex.clone(), self.dnskey()].concat());
        [&self.tag().to_be_bytes()[..], &[ED25519, 2], hashed.as_ref()].concat()
    }

    /// RRSIG data over a set.
    pub(super) fn sign(&self, set: &Set, start_secs: u64) -> Vec<u8> {
        let labels = name::labels(&set.owner).filter(|label| !label.is_empty() && *label != b"*").count() as u8;
        let mut rrsig = set.rtype.0.to_be_bytes().to_vec();
        rrsig.extend([ED25519, labels]);
        rrsig.extend(set.ttl_secs.to_be_bytes());
        rrsig.extend(((start_secs + VALID_SECS) as u32).to_be_bytes());
        rrsig.extend(((start_secs - VALID_SECS) as u32).to_be_bytes());
        rrsig.extend(self.tag().to_be_bytes());
        rrsig.extend(&self.apex);
        let mut signed = rrsig.clone();
        let mut data = set.data.clone();
        data.sort_by(|a, b| canonical::compare_rdata(set.rtype.0, a, b));
        for data in &data {
            signed.extend(&set.owner);
            signed.extend(set.rtype.0.to_be_bytes());
            signed.extend([0, 1]);
            signed.extend(set.ttl_secs.to_be_bytes());
            signed.extend((data.len() as u16).to_be_bytes());
            signed.extend(data);
        }
        rrsig.extend(self.pair.sign(&signed).as_ref());
        rrsig
    }
}

/// TTL of denials, in seconds.
const NSEC_TTL_SECS: u32 = 300;

/// The NSEC record of the zone that matches a name, or else covers it.
pub(super) fn nsec(zone: &Zone, qname: &[u8]) -> Set {
    let owners = zone.owners();
    let is_before = |owner: &[u8]| canonical::compare_names(owner, qname).is_le();
    let at = owners.iter().rposition(|(owner, _)| is_before(owner)).unwrap_or(owners.len() - 1);
    let (owner, types) = &owners[at];
    let next = &owners[(at + 1) % owners.len()].0;
    let mut types: Vec<u16> = types.iter().map(|rtype| rtype.0).chain([Rtype::RRSIG.0, Rtype::NSEC.0]).collect();
    types.sort_unstable();
    let data = [&next[..], &bitmap(&types)].concat();
    Set { owner: owner.clone(), rtype: Rtype::NSEC, ttl_secs: NSEC_TTL_SECS, data: vec![data] }
}

/// A type bitmap of window 0 (RFC 4034 §4.1.2).
fn bitmap(types: &[u16]) -> Vec<u8> {
    let mut bits = vec![0u8; usize::from(types.last().copied().unwrap_or(0)) / 8 + 1];
    for &rtype in types {
        bits[usize::from(rtype) / 8] |= 0x80 >> (rtype % 8);
    }
    [&[0, bits.len() as u8][..], &bits].concat()
}
