//! Signatures that this server makes: the private keys of a zone, and RRSIG record data (RFC 4034
//! §3, RFC 6605, RFC 8080).
//!
//! Like the rest of the crate, this module uses no file and no clock: the caller stores the keys
//! and passes the time.

mod private_key;

use avocet_wire::{FoldedName, NameBuf, Rtype, canonical};
use aws_lc_rs::digest;

pub use private_key::{KeyFault, PrivateKey, SigningAlgorithm};

use crate::key::Dnskey;
use crate::label;

/// Flags of a key that signs records (RFC 4034 §2.1.1).
pub const ZONE_KEY: u16 = 0x0100;
/// Flags of a key to which the parent's DS record refers.
pub const ENTRY_KEY: u16 = 0x0101;
/// SHA-256 in DS records (RFC 4509), the type that RFC 8624 requires.
const SHA256: u8 = 2;

/// A key that signs records of a hosted zone.
#[derive(Debug)]
pub struct SigningKey {
    private: PrivateKey,
    dnskey: Vec<u8>,
    tag: u16,
}

/// The properties of a signature that do not depend on its key.
#[derive(Clone, Copy, Debug)]
pub struct SignatureFields<'f> {
    /// The owner of the records.
    pub owner: FoldedName<'f>,
    /// The type of the records.
    pub rtype: Rtype,
    /// The TTL of the records.
    pub ttl_secs: u32,
    /// Start of validity: seconds since 1970, modulo 2^32.
    pub inception: u32,
    /// End of validity: seconds since 1970, modulo 2^32.
    pub expiration: u32,
    /// The zone.
    pub zone: FoldedName<'f>,
}

impl SigningKey {
    /// Makes a key of a zone from its private part and its flags.
    #[must_use]
    pub fn new(private: PrivateKey, flags: u16) -> Self {
        let head = [&flags.to_be_bytes()[..], &[3, private.algorithm().number()]].concat();
        let dnskey = [&head, private.public_key()].concat();
        let tag = Dnskey::read(&dnskey).map_or(0, |key| key.tag());
        Self { private, dnskey, tag }
    }

    /// Returns the private part.
    #[must_use]
    pub const fn private(&self) -> &PrivateKey {
        &self.private
    }

    /// Returns the data of the DNSKEY record.
    #[must_use]
    pub fn dnskey(&self) -> &[u8] {
        &self.dnskey
    }

    /// Returns the key tag.
    #[must_use]
    pub const fn tag(&self) -> u16 {
        self.tag
    }

    /// Returns the algorithm number.
    #[must_use]
    pub const fn algorithm(&self) -> u8 {
        self.private.algorithm().number()
    }

    /// Returns the data of the DS record for the parent, with SHA-256. The data of CDS is the same
    /// (RFC 7344 §3.1).
    #[must_use]
    pub fn ds(&self, zone: FoldedName<'_>) -> Vec<u8> {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(zone.wire());
        context.update(&self.dnskey);
        let head = [&self.tag.to_be_bytes()[..], &[self.algorithm(), SHA256]].concat();
        [&head, context.finish().as_ref()].concat()
    }

    /// Signs an RRset. Returns the data of the RRSIG record.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub fn sign<'r>(
        &self,
        fields: &SignatureFields<'_>,
        records: impl Iterator<Item = &'r [u8]>,
    ) -> Result<Vec<u8>, KeyFault> {
        let labels = u8::try_from(label::signed_count(fields.owner.wire())).unwrap_or(u8::MAX);
        let mut rrsig = Vec::with_capacity(18 + fields.zone.len() + 64);
        rrsig.extend_from_slice(&fields.rtype.0.to_be_bytes());
        rrsig.extend_from_slice(&[self.algorithm(), labels]);
        for number in [fields.ttl_secs, fields.expiration, fields.inception] {
            rrsig.extend_from_slice(&number.to_be_bytes());
        }
        rrsig.extend_from_slice(&self.tag.to_be_bytes());
        rrsig.extend_from_slice(fields.zone.wire());
        let mut message = rrsig.clone();
        append_records(fields, records, &mut message);
        rrsig.extend_from_slice(&self.private.sign(&message)?);
        Ok(rrsig)
    }
}

/// Appends records in canonical form and order, without duplicates (RFC 4034 §6.2, §6.3).
fn append_records<'r>(
    fields: &SignatureFields<'_>,
    records: impl Iterator<Item = &'r [u8]>,
    message: &mut Vec<u8>,
) {
    let mut octets = Vec::new();
    let mut places = Vec::new();
    for record in records {
        let start = octets.len();
        canonical::append_rdata(fields.rtype.0, record, &mut octets);
        places.push(start..octets.len());
    }
    places.sort_unstable_by(|a, b| octets[a.clone()].cmp(&octets[b.clone()]));
    places.dedup_by(|a, b| octets[a.clone()] == octets[b.clone()]);
    for place in places {
        message.extend_from_slice(fields.owner.wire());
        message.extend_from_slice(&fields.rtype.0.to_be_bytes());
        message.extend_from_slice(&[0, 1]);
        message.extend_from_slice(&fields.ttl_secs.to_be_bytes());
        message.extend_from_slice(&u16::try_from(place.len()).unwrap_or(0).to_be_bytes());
        message.extend_from_slice(&octets[place]);
    }
}

/// Reports whether DS record data refers to this DNSKEY record data of a zone.
#[must_use]
pub fn is_ds_of(ds: &[u8], zone: FoldedName<'_>, dnskey: &[u8]) -> bool {
    let name = NameBuf::from_wire(zone.wire());
    match (crate::ds::Ds::read(ds), Dnskey::read(dnskey), name) {
        (Some(ds), Some(key), Ok(name)) => ds.is_of(&name, &key),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use avocet_wire::Class;

    use super::*;
    use crate::{Budget, Context, Policy, Rrset, Trust, chain, signature};

    const ZONE: FoldedName<'static> = FoldedName::from_folded_unchecked(b"\x07example\0");
    const NOW: u32 = 1_800_000_000;

    fn fields(owner: &'static [u8], rtype: Rtype) -> SignatureFields<'static> {
        SignatureFields {
            owner: FoldedName::from_folded_unchecked(owner),
            rtype,
            ttl_secs: 300,
            inception: NOW - 60,
            expiration: NOW + 600,
            zone: ZONE,
        }
    }

    #[test]
    fn what_a_key_signs_is_secure_by_its_ds_record() {
        for algorithm in [SigningAlgorithm::EcdsaP256Sha256, SigningAlgorithm::Ed25519] {
            let key = SigningKey::new(PrivateKey::generate(algorithm).unwrap(), ENTRY_KEY);
            let ds = key.ds(ZONE);
            assert!(is_ds_of(&ds, ZONE, key.dnskey()));
            let context = Context { now_secs: NOW, policy: Policy::default() };
            let mut budget = Budget::default();
            let dnskey = fields(b"\x07example\0", Rtype::DNSKEY);
            let signed = key.sign(&dnskey, [key.dnskey()].into_iter()).unwrap();
            let dnskeys = Rrset {
                owner: ZONE.wire(),
                rtype: Rtype::DNSKEY,
                class: Class::IN,
                ttl_secs: 300,
                records: &[key.dnskey()],
                signatures: &[&signed],
            };
            let trust = Trust { ds: &[&ds], dnskeys: &[], lifetime_secs: 600 };
            let keys = chain::zone_keys(&dnskeys, &trust, &context, &mut budget).unwrap();
            for owner in [&b"\x01*\x07example\0"[..], b"\x01a\x07example\0"] {
                let mx = [&b"\x00\x0a\x04MAIL\x07example\0"[..], b"\x00\x05\x01b\x07example\0"];
                let signed = key.sign(&fields(owner, Rtype::MX), mx.into_iter()).unwrap();
                let set = Rrset {
                    owner,
                    rtype: Rtype::MX,
                    records: &mx,
                    signatures: &[&signed],
                    ..dnskeys
                };
                let verified = signature::verify(&set, &keys, &context, &mut budget).unwrap();
                assert_eq!(verified.closest_encloser, None);
            }
        }
    }
}
