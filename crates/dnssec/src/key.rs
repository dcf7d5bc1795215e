//! DNSKEY record data (RFC 4034 §2, RFC 5011 §3).

use avocet_wire::code::Rtype;
use avocet_wire::rdata;

/// Bit 7 of the flags: the key may sign the zone's records (RFC 4034 §2.1.1).
const ZONE: u16 = 0x0100;
/// Bit 8: the owner has revoked the key (RFC 5011 §3).
const REVOKE: u16 = 0x0080;
/// Bit 15: the key is intended as a secure entry point into the zone (RFC 4034 §2.1.1).
const SECURE_ENTRY_POINT: u16 = 0x0001;
/// The only valid value of the protocol field (RFC 4034 §2.1.2).
const PROTOCOL: u8 = 3;
/// RSA/MD5, whose key tag is part of the modulus (RFC 4034 appendix B.1).
const RSAMD5: u8 = 1;
/// Number of octets before the public key.
const FIXED: usize = 4;

/// A DNSKEY record's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dnskey<'a> {
    /// The whole data.
    pub rdata: &'a [u8],
    /// The flags field.
    pub flags: u16,
    /// The algorithm number.
    pub algorithm: u8,
    /// The public key in the algorithm's own format.
    pub public_key: &'a [u8],
}

impl<'a> Dnskey<'a> {
    /// Parses the data. Returns `None` if it is malformed.
    #[must_use]
    pub fn read(data: &'a [u8]) -> Option<Self> {
        rdata::check(Rtype::DNSKEY.0, data).ok()?;
        let [flags_high, flags_low, _, algorithm, public_key @ ..] = data else { return None };
        let flags = u16::from_be_bytes([*flags_high, *flags_low]);
        Some(Self { rdata: data, flags, algorithm: *algorithm, public_key })
    }

    /// Reports whether the key may sign the zone's records. The protocol field must also be valid.
    #[must_use]
    pub fn is_zone_key(&self) -> bool {
        self.flags & ZONE != 0 && self.rdata.get(2) == Some(&PROTOCOL)
    }

    /// Reports whether the key is revoked.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.flags & REVOKE != 0
    }

    /// Reports whether the key is intended as a secure entry point.
    #[must_use]
    pub fn is_secure_entry_point(&self) -> bool {
        self.flags & SECURE_ENTRY_POINT != 0
    }

    /// Returns the key tag (RFC 4034 appendix B).
    #[must_use]
    pub fn tag(&self) -> u16 {
        if self.algorithm == RSAMD5 {
            let end = self.rdata.len().saturating_sub(1);
            return match self.rdata.get(end.saturating_sub(2).max(FIXED)..end) {
                Some([high, low]) => u16::from_be_bytes([*high, *low]),
                _ => 0,
            };
        }
        sum(self.rdata)
    }

    /// Reports whether both are the same key. The REVOKE flag may differ.
    #[must_use]
    pub fn is_same_key(&self, other: &Dnskey<'_>) -> bool {
        (self.flags | REVOKE, self.algorithm, self.public_key)
            == (other.flags | REVOKE, other.algorithm, other.public_key)
    }
}

fn sum(data: &[u8]) -> u16 {
    let pairs =
        data.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum: u32 = pairs.sum();
    (sum + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        rdata::parse(48, text, &[0], &mut out).unwrap();
        out
    }

    /// The examples of RFC 4034 §5.4 and RFC 6605 §6.
    #[test]
    fn tags_are_those_of_the_rfcs() {
        let rsa = "256 3 5 AQOeiiR0GOMYkDshWoSKz9Xz fwJr1AYtsmx3TGkJaNXVbfi/ 2pHm822aJ5iI9BMzNXxeYCmZ \
                   DRD99WYwYqUSdjMmmAphXdvx egXd/M5+X7OrzKBaMbCVdFLU Uh6DhweJBjEVv5f2wwjM9Xzc nOf+EPbtG9DMBmADjFDc2w/r ljwvFw==";
        assert_eq!(Dnskey::read(&data(rsa)).unwrap().tag(), 60485);
        let ecdsa = "257 3 13 GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edbkrSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA==";
        assert_eq!(Dnskey::read(&data(ecdsa)).unwrap().tag(), 55648);
    }

    #[test]
    fn the_bits_are_read() {
        let key = data("385 3 13 AAAA");
        let key = Dnskey::read(&key).unwrap();
        assert!(key.is_zone_key() && key.is_revoked() && key.is_secure_entry_point());
        let other = data("257 3 13 AAAA");
        let other = Dnskey::read(&other).unwrap();
        assert!(key.is_same_key(&other) && !other.is_revoked());
        assert_eq!(key.tag(), other.tag() + 128);
        let protocol = data("257 2 13 AAAA");
        assert!(!Dnskey::read(&protocol).unwrap().is_zone_key());
    }

    #[test]
    fn short_data_is_no_key_and_has_no_tag_out_of_bounds() {
        for octets in [&b""[..], b"\x01", b"\x01\x01\x03"] {
            assert_eq!(Dnskey::read(octets), None);
        }
        for length in 1..8 {
            let mut octets = b"\x01\x01\x03\x01".to_vec();
            octets.resize(4 + length, 7);
            assert_eq!(
                Dnskey::read(&octets).unwrap().tag(),
                if length > 2 { 0x0707 } else { 0 },
                "{length}"
            );
        }
    }
}
