//! The key of a zone and its signatures, with Ed25519 (RFC 8080).

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use avocet_wire::{canonical, name};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};

use super::START_SECS;
use super::zone::{Set, Wire};

const ED25519: u8 = 15;
/// Validity of signatures before and after the start of a simulation, in seconds.
pub(super) const VALID_SECS: u64 = 30 * 86_400;
/// Maximum number of keys that a thread keeps: those of a few internets.
const MAX_KEYS: usize = 256;

thread_local! {
    /// The latest keys by their secret, with their signatures. Most seeds have the same zones in
    /// both modes.
    static KEYS: RefCell<HashMap<[u8; 32], Rc<Key>>> = RefCell::default();
}

/// The key of a zone.
pub(super) struct Key {
    pair: Ed25519KeyPair,
    apex: Wire,
    dnskey: Vec<u8>,
    tag: u16,
    /// The signatures, cached because signing costs more than all other work of a simulated server.
    signed: RefCell<HashMap<Set, Vec<u8>>>,
}

impl Key {
    /// Returns a zone's key, derived from name and number.
    pub(super) fn of(apex: &[u8], number: u64) -> Rc<Self> {
        let mut secret = [0; 32];
        let seed = digest(&SHA256, &[apex, &number.to_be_bytes()].concat());
        secret.copy_from_slice(seed.as_ref());
        KEYS.with_borrow_mut(|keys| {
            if keys.len() >= MAX_KEYS && !keys.contains_key(&secret) {
                keys.clear();
            }
            Rc::clone(keys.entry(secret).or_insert_with(|| Rc::new(Self::new(apex, &secret))))
        })
    }

    fn new(apex: &[u8], secret: &[u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(secret).expect("32 octets");
        let dnskey = [&[1, 1, 3, ED25519][..], pair.public_key().as_ref()].concat();
        let tag = tag(&dnskey);
        Self { pair, apex: apex.to_vec(), dnskey, tag, signed: RefCell::default() }
    }

    pub(super) fn dnskey(&self) -> Vec<u8> {
        self.dnskey.clone()
    }

    pub(super) fn ds(&self) -> Vec<u8> {
        let hashed = digest(&SHA256, &[&self.apex[..], &self.dnskey].concat());
        [&self.tag.to_be_bytes()[..], &[ED25519, 2], hashed.as_ref()].concat()
    }

    /// Returns RRSIG data over a set, with the owner that the zone has.
    pub(super) fn sign(&self, set: &Set) -> Vec<u8> {
        let mut signed = self.signed.borrow_mut();
        if let Some(rrsig) = signed.get(set) {
            return rrsig.clone();
        }
        let rrsig = self.make_rrsig(set);
        signed.insert(set.clone(), rrsig.clone());
        rrsig
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
        rrsig.extend(self.tag.to_be_bytes());
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
        let signature = self.pair.sign(&signed);
        #[cfg(feature = "known-signatures")]
        avocet_dnssec::known::add(self.pair.public_key().as_ref(), &signed, signature.as_ref());
        rrsig.extend(signature.as_ref());
        rrsig
    }
}

/// Returns the tag of a key (RFC 4034 appendix B).
fn tag(dnskey: &[u8]) -> u16 {
    let words = dnskey
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    ((sum + (sum >> 16)) & 0xffff) as u16
}
