//! DNS64 (RFC 6147): synthesizes IPv6 addresses from IPv4 addresses with the prefix of a translator
//! (RFC 6052). This is the arithmetic; `iterate/translate.rs` decides when to apply it.

use std::net::{Ipv4Addr, Ipv6Addr};

use avocet_wire::special_purpose::Scope;
use avocet_wire::{FoldedName, NameBuf, Rtype, name};

/// The well-known prefix (RFC 6052 §2.1).
const WELL_KNOWN: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);
/// The index of the octet that a translated address skips: bits 64 to 71 are zero (RFC 6052 §2.2).
const RESERVED_OCTET: usize = 8;
/// Number of labels of a complete reverse name under ip6.arpa, without the root.
const REVERSE_LABELS: usize = 34;

/// An IPv6 prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    bits: u128,
    len: u8,
}

impl Prefix {
    /// Returns the prefix with the first `len` bits of an address. `len` is at most 128.
    #[must_use]
    pub fn new(address: Ipv6Addr, len: u8) -> Self {
        let len = len.min(128);
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        Self { bits: address.to_bits() & mask, len }
    }

    fn contains(self, address: Ipv6Addr) -> bool {
        (address.to_bits() ^ self.bits).checked_shr(128 - u32::from(self.len)).unwrap_or(0) == 0
    }
}

/// The settings of DNS64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dns64 {
    prefix: Prefix,
    exclude: Vec<Prefix>,
}

impl Dns64 {
    /// Valid lengths of a translator's prefix, in bits (RFC 6052 §2.2).
    pub const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

    /// Creates settings with a translator's prefix, and with prefixes of addresses to ignore (RFC
    /// 6147 §5.1.4). Returns `None` if the prefix has an invalid length, or reserved bits that are
    /// not zero.
    #[must_use]
    pub fn new(prefix: Prefix, exclude: Vec<Prefix>) -> Option<Self> {
        let octets = prefix.bits.to_be_bytes();
        let is_sound = Self::LENGTHS.contains(&prefix.len) && octets[RESERVED_OCTET] == 0;
        is_sound.then_some(Self { prefix, exclude })
    }

    /// Returns the AAAA data for this A data. Returns `None` for addresses that translators do not
    /// accept: private addresses, if the prefix is the well-known one (RFC 6052 §3.1).
    #[must_use]
    pub fn synthesise(&self, rdata: &[u8]) -> Option<[u8; 16]> {
        let v4 = <[u8; 4]>::try_from(rdata).ok()?;
        if self.prefix.bits == WELL_KNOWN.to_bits() && !is_global(Ipv4Addr::from(v4)) {
            return None;
        }
        let mut octets = self.prefix.bits.to_be_bytes();
        for (place, octet) in self.places().zip(v4) {
            octets[place] = octet;
        }
        Some(octets)
    }

    /// Returns whether this AAAA data is ignored.
    #[must_use]
    pub fn is_excluded(&self, rdata: &[u8]) -> bool {
        let address = <[u8; 16]>::try_from(rdata).map(Ipv6Addr::from);
        address.is_ok_and(|address| self.exclude.iter().any(|prefix| prefix.contains(address)))
    }

    /// Returns the reverse name of the IPv4 address that is embedded in an IPv6 reverse name (RFC
    /// 6147 §5.3.1). Both are folded.
    #[must_use]
    pub fn reverse(&self, qname: FoldedName<'_>, qtype: Rtype) -> Option<NameBuf> {
        if qtype != Rtype::PTR {
            return None;
        }
        let v4 = self.translated(reversed(qname)?)?.octets();
        let mut wire = Vec::new();
        for octet in v4.iter().rev() {
            let text = octet.to_string();
            wire.push(text.len() as u8);
            wire.extend_from_slice(text.as_bytes());
        }
        wire.extend_from_slice(b"\x07in-addr\x04arpa\x00");
        NameBuf::from_wire(&wire).ok()
    }

    /// Returns the IPv4 address that is embedded in an IPv6 address under the prefix.
    #[must_use]
    pub fn translated(&self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        if !self.prefix.contains(address) {
            return None;
        }
        let octets = address.octets();
        let mut v4 = [0; 4];
        for (place, octet) in self.places().zip(&mut v4) {
            *octet = octets[place];
        }
        Some(v4.into())
    }

    /// Returns the indices of the octets in an IPv6 address that hold the IPv4 address.
    fn places(&self) -> impl Iterator<Item = usize> {
        (usize::from(self.prefix.len / 8)..).filter(|place| *place != RESERVED_OCTET).take(4)
    }
}

/// Returns the address of a complete name under ip6.arpa.
fn reversed(qname: FoldedName<'_>) -> Option<Ipv6Addr> {
    let mut labels = name::labels(&qname).filter(|label| !label.is_empty());
    let mut bits = 0u128;
    for place in 0..REVERSE_LABELS - 2 {
        let [digit] = labels.next()? else { return None };
        let nibble = char::from(*digit).to_digit(16)?;
        bits |= u128::from(nibble) << (4 * place);
    }
    let ends =
        labels.next() == Some(b"ip6") && labels.next() == Some(b"arpa") && labels.next().is_none();
    ends.then(|| Ipv6Addr::from_bits(bits))
}

fn is_global(ip: Ipv4Addr) -> bool {
    !Scope::Internal.contains(ip.into()) && !ip.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dns64(prefix: &str, len: u8) -> Option<Dns64> {
        Dns64::new(
            Prefix::new(prefix.parse().unwrap(), len),
            vec![Prefix::new("::ffff:0:0".parse().unwrap(), 96)],
        )
    }

    #[test]
    fn addresses_are_embedded_as_in_the_table_of_rfc_6052() {
        let check = |prefix: &str, len: u8, expected: &str| {
            let dns64 = dns64(prefix, len).unwrap();
            let octets = dns64.synthesise(&[192, 0, 2, 33]).unwrap();
            assert_eq!(Ipv6Addr::from(octets), expected.parse::<Ipv6Addr>().unwrap());
            let nibbles: String = octets
                .iter()
                .rev()
                .map(|octet| format!("\x01{:x}\x01{:x}", octet & 0xf, octet >> 4))
                .collect();
            let qname = format!("{nibbles}\x03ip6\x04arpa\x00");
            let reverse =
                dns64.reverse(FoldedName::new(qname.as_bytes()).unwrap(), Rtype::PTR).unwrap();
            assert_eq!(reverse.wire(), b"\x0233\x012\x010\x03192\x07in-addr\x04arpa\x00");
            assert!(dns64.reverse(FoldedName::new(qname.as_bytes()).unwrap(), Rtype::A).is_none());
        };
        check("2001:db8::", 32, "2001:db8:c000:221::");
        check("2001:db8:100::", 40, "2001:db8:1c0:2:21::");
        check("2001:db8:122::", 48, "2001:db8:122:c000:2:2100::");
        check("2001:db8:122:300::", 56, "2001:db8:122:3c0:0:221::");
        check("2001:db8:122:344::", 64, "2001:db8:122:344:c0:2:2100::");
        check("2001:db8:122:344::", 96, "2001:db8:122:344::192.0.2.33");
        check("64:ff9b::", 96, "64:ff9b::192.0.2.33");
    }

    #[test]
    fn other_prefixes_are_none_of_a_translator() {
        assert!(dns64("2001:db8::", 33).is_none() && dns64("2001:db8:0:0:ff00::", 96).is_none());
    }

    #[test]
    fn private_addresses_have_none_under_the_well_known_prefix() {
        assert!(dns64("64:ff9b::", 96).unwrap().synthesise(&[10, 0, 0, 1]).is_none());
        assert!(dns64("2001:db8::", 96).unwrap().synthesise(&[10, 0, 0, 1]).is_some());
    }

    #[test]
    fn mapped_addresses_are_as_good_as_none() {
        let dns64 = dns64("64:ff9b::", 96).unwrap();
        let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        assert!(
            dns64.is_excluded(&octets("::ffff:192.0.2.1"))
                && !dns64.is_excluded(&octets("2001:db8::1"))
        );
        assert!(dns64.reverse(FoldedName::new(b"\x01a\x00").unwrap(), Rtype::PTR).is_none());
    }
}
