//! Keys that the tests generate, and signatures with them.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512,
};

use avocet_dnssec::key::Dnskey;
use avocet_wire::{canonical, name};

use crate::sets::{NOW, Set, wire};

enum Pair {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// A key of a zone.
pub(crate) struct Signer {
    pub(crate) zone: Vec<u8>,
    pub(crate) dnskey: Vec<u8>,
    algorithm: u8,
    pair: Pair,
}

/// The fields of a signature. Tests change them to make the signature invalid.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    pub(crate) labels: u8,
    pub(crate) original_ttl_secs: u32,
    pub(crate) expiration: u32,
    pub(crate) inception: u32,
    pub(crate) key_tag: u16,
    pub(crate) signer: Vec<u8>,
    /// The signed owner.
    pub(crate) owner: Vec<u8>,
}

/// The numbers of all algorithms with which the tests can sign.
pub(crate) const ALGORITHMS: [u8; 5] = [8, 10, 13, 14, 15];

impl Signer {
    pub(crate) fn generate(zone: &str, flags: u16, algorithm: u8) -> Self {
        let (pair, public) = match algorithm {
            8 | 10 => {
                let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
                // An RSAPublicKey in DER (RFC 8017 appendix A.1.1) of 2,048 bits: 256 octets of
                // modulus and 3 octets of exponent.
                let der = pair.public_key().as_ref();
                let (modulus, exponent) = (&der[9..265], &der[267..]);
                let public = [&[exponent.len() as u8], exponent, modulus].concat();
                (Pair::Rsa(pair), public)
            }
            13 | 14 => {
                let curve = if algorithm == 13 {
                    &ECDSA_P256_SHA256_FIXED_SIGNING
                } else {
                    &ECDSA_P384_SHA384_FIXED_SIGNING
                };
                let pair = EcdsaKeyPair::generate(curve).unwrap();
                let public = pair.public_key().as_ref()[1..].to_vec();
                (Pair::Ecdsa(pair), public)
            }
            _ => {
                let pair = Ed25519KeyPair::generate().unwrap();
                let public = pair.public_key().as_ref().to_vec();
                (Pair::Ed25519(pair), public)
            }
        };
        let dnskey = [&flags.to_be_bytes()[..], &[3, algorithm], &public].concat();
        Self { zone: wire(zone), dnskey, algorithm, pair }
    }

    /// Returns an Ed25519 key of the zone, derived from this seed.
    pub(crate) fn of_seed(zone: &str, seed: &[u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).unwrap();
        let dnskey = [&[1, 1, 3, 15], pair.public_key().as_ref()].concat();
        Self { zone: wire(zone), dnskey, algorithm: 15, pair: Pair::Ed25519(pair) }
    }

    /// Generates an ECDSA P-256 zone key.
    pub(crate) fn of(zone: &str) -> Self {
        Self::generate(zone, 257, 13)
    }

    pub(crate) fn tag(&self) -> u16 {
        Dnskey::read(&self.dnskey).unwrap().tag()
    }

    /// Returns the data of a DS record for this key.
    pub(crate) fn ds(&self, digest_type: u8) -> Vec<u8> {
        use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, digest};
        let algorithm = [&SHA1_FOR_LEGACY_USE_ONLY, &SHA256, &SHA384][usize::from(digest_type) / 2];
        let digest =
            digest(algorithm, &[&self.zone.to_ascii_lowercase()[..], &self.dnskey].concat());
        [&self.tag().to_be_bytes()[..], &[self.algorithm, digest_type], digest.as_ref()].concat()
    }

    pub(crate) fn fields(&self, set: &Set) -> Fields {
        let is_wildcard = set.owner.starts_with(b"\x01*");
        Fields {
            labels: name::labels(&set.owner).count() as u8 - u8::from(is_wildcard),
            original_ttl_secs: set.ttl_secs,
            expiration: NOW + 86_400,
            inception: NOW - 86_400,
            key_tag: self.tag(),
            signer: self.zone.clone(),
            owner: set.owner.clone(),
        }
    }

    pub(crate) fn sign(&self, set: &mut Set) {
        let fields = self.fields(set);
        self.sign_as(set, &fields);
    }

    pub(crate) fn sign_as(&self, set: &mut Set, fields: &Fields) {
        let head = [
            &set.rtype.0.to_be_bytes()[..],
            &[self.algorithm, fields.labels],
            &fields.original_ttl_secs.to_be_bytes(),
            &fields.expiration.to_be_bytes(),
            &fields.inception.to_be_bytes(),
            &fields.key_tag.to_be_bytes(),
            &fields.signer,
        ]
        .concat();
        let mut message = head.clone();
        message.truncate(18);
        message.extend(fields.signer.to_ascii_lowercase());
        let mut records: Vec<_> =
            set.records.iter().map(|record| canonical_data(set.rtype.0, record)).collect();
        records.sort();
        records.dedup();
        for record in records {
            message.extend(fields.owner.to_ascii_lowercase());
            message.extend(set.rtype.0.to_be_bytes());
            message.extend([0, 1]);
            message.extend(fields.original_ttl_secs.to_be_bytes());
            message.extend((record.len() as u16).to_be_bytes());
            message.extend(record);
        }
        set.signatures.push([head, self.signature(&message)].concat());
    }

    pub(crate) fn signature(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let padding =
                    if self.algorithm == 8 { &RSA_PKCS1_SHA256 } else { &RSA_PKCS1_SHA512 };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &random, message, &mut signature).unwrap();
                signature
            }
            Pair::Ecdsa(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

fn canonical_data(rtype: u16, record: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    canonical::append_rdata(rtype, record, &mut out);
    out
}
