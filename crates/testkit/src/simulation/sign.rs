//! The key of a zone and its signatures, with Ed25519 (RFC 8080).

use std::cell::RefCell;
use std::collections::HashMap;

use avocet_wire::{canonical, name};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};

use super::START_SECS;
use super::zone::{Set, Wire};

const ED25519: u8 = 15;
/// Validity of signatures before and after the start of a simulation, in seconds.
pub(super) const VALID_SECS: u64 = 30 * 86_400;

/// The key of a zone.
pub(super) struct Key {
    pair: Ed25519KeyPair,
    apex: Wire,
    /// The signatures, cached because signing costs more than all other work of a simulated server.
    signed: RefCell<HashMap<Set, Vec<u8>>>,
}

impl Key {
    /// Returns a zone's key, derived from name and number.
    pub(super) fn of(apex: &[u8], number: u64) -> Self {
        let seed = digest(&SHA256, &[apex, &number.to_be_bytes()].concat());
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).expect("32 octets");
        Self { pair, apex: apex.to_vec(), signed: RefCell::default() }
    }

    pub(super) fn dnskey(&self) -> Vec<u8> {
        [&[1, 1, 3, ED25519][..], self.pair.public_key().as_ref()].concat()
    }

    fn tag(&self) -> u16 {
        let octets = self.dnskey();
        let words = octets
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
        let sum: u32 = words.sum();
        ((sum + (sum >> 16)) & 0xffff) as u16
    }

    pub(super) fn ds(&self) -> Vec<u8> {
        let hashed = digest(&SHA256, &[self.apex.clone(), self.dnskey()].concat());
        [&self.tag().to_be_bytes()[..], &[ED25519, 2], hashed.as_ref()].concat()
    }

    /// Returns RRSIG data over a set, with the owner that the zone has.
    pub(super) fn sign(&self, set: &Set) -> Vec<u8> {
        self.signed.borrow_mut().entry(set.clone()).or_insert_with(|| self.make_rrsig(set)).clone()
    }

    fn make_rrsig(&self, set: &Set) -> Vec<u8> {
        let labels = name::labels(&set.owner)
            .filter(|label| !label.is_empty() && *label != b"*")
            .count() as u8;
        let mut rrsig = set.rtype.0.to_be_bytes().to_vec();
        rrsig.extend([ED25519, labels]);
        rrsig.extend(set.ttl_secs.to_be_bytes());
        rrsig.extend(((START_SECS + VALID_SECS) as u32).to_be_bytes());
        rrsig.extend(((START_SECS - VALID_SECS) as u32).to_be_bytes());
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
