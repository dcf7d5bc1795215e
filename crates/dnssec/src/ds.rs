//! DS record data and its digests (RFC 4034 §5, RFC 4509, RFC 6605).

use avocet_wire::{NameBuf, Rtype, rdata};
use aws_lc_rs::digest::{self, Context};

use crate::key::Dnskey;

/// A supported digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DigestType {
    /// Digest type 1 (RFC 4034 appendix A.2).
    Sha1,
    /// Digest type 2 (RFC 4509).
    Sha256,
    /// Digest type 4 (RFC 6605 §2).
    Sha384,
}

impl DigestType {
    /// Returns the supported digest with this number in the registry.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Sha1,
            2 => Self::Sha256,
            4 => Self::Sha384,
            _ => return None,
        })
    }

    fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
        }
    }
}

/// A DS record's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ds<'a> {
    /// The tag of the key.
    pub key_tag: u16,
    /// The number of the key's algorithm.
    pub algorithm: u8,
    /// The number of the digest type.
    pub digest_type: u8,
    /// The digest.
    pub digest: &'a [u8],
}

impl<'a> Ds<'a> {
    /// Parses the data. Returns `None` if it is malformed.
    #[must_use]
    pub fn read(data: &'a [u8]) -> Option<Self> {
        rdata::check(Rtype::DS.0, data).ok()?;
        let [tag_high, tag_low, algorithm, digest_type, digest @ ..] = data else { return None };
        let key_tag = u16::from_be_bytes([*tag_high, *tag_low]);
        Some(Self { key_tag, algorithm: *algorithm, digest_type: *digest_type, digest })
    }

    /// Reports whether this is the digest of the given key of the zone. Returns `false` if the
    /// digest type is unsupported.
    #[must_use]
    pub fn is_of(&self, zone: &NameBuf, key: &Dnskey<'_>) -> bool {
        let Some(digest_type) = DigestType::from_number(self.digest_type) else { return false };
        if (self.algorithm, self.key_tag) != (key.algorithm, key.tag()) {
            return false;
        }
        let mut context = Context::new(digest_type.algorithm());
        context.update(zone.folded().wire());
        context.update(key.rdata);
        context.finish().as_ref() == self.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(rtype: Rtype, text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        rdata::parse(rtype.0, text, &[0], &mut out).unwrap();
        out
    }

    fn check(zone: &[u8], ds: &str, key: &str) {
        let (ds, key) = (data(Rtype::DS, ds), data(Rtype::DNSKEY, key));
        let zone = NameBuf::from_wire(zone).unwrap();
        let key = Dnskey::read(&key).unwrap();
        assert!(Ds::read(&ds).unwrap().is_of(&zone, &key));
        for at in 0..ds.len() {
            let mut broken = ds.clone();
            broken[at] ^= 1;
            assert!(!Ds::read(&broken).is_some_and(|ds| ds.is_of(&zone, &key)), "{at}");
        }
        assert!(!Ds::read(&ds).unwrap().is_of(&NameBuf::ROOT, &key));
    }

    const RSA: &str = "256 3 5 AQOeiiR0GOMYkDshWoSKz9XzfwJr1AYtsmx3TGkJaNXVbfi/2pHm822aJ5iI9BMzNXxeYCmZDRD99WYwYqUSdjMm\
                       mAphXdvxegXd/M5+X7OrzKBaMbCVdFLUUh6DhweJBjEVv5f2wwjM9XzcnOf+EPbtG9DMBmADjFDc2w/rljwvFw==";
    const DSKEY: &[u8] = b"\x05dskey\x07Example\x03com\0";

    #[test]
    fn digests_are_those_of_rfc_4034_4509_and_6605() {
        check(DSKEY, "60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118", RSA);
        check(
            DSKEY,
            "60485 5 2 D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A",
            RSA,
        );
        check(
            b"\x07example\x03net\0",
            "10771 14 4 72d7b62976ce06438e9c0bf319013cf801f09ecc84b8d7e9495f27e305c6a9b0563a9b5f4d288405c3008a946df983d6",
            "257 3 14 xKYaNhWdGOfJ+nPrL8/arkwf2EY3MDJ+SErKivBVSum1w/egsXvSADtNJhyem5RCOpgQ6K8X1DRSEkrbYQ+OB+v8/uX45NBwY8rp65F6Glur8I/mlVNgF6W/qTI37m40",
        );
    }
}
