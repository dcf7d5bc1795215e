//! The type bit maps of NSEC and NSEC3 (RFC 4034 §4.1.2, RFC 5155 §3.2.1).

use avocet_wire::Rtype;

/// The types that exist at a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeMap<'a>(pub(crate) &'a [u8]);

impl TypeMap<'_> {
    /// Reports whether the bit of this type is set. In a malformed map, no bits after the error are
    /// set.
    pub(crate) fn has(self, rtype: Rtype) -> bool {
        let (wanted, bit) = ((rtype.0 >> 8) as u8, usize::from(rtype.0 & 0xff));
        let mut rest = self.0;
        while let [window, length, after @ ..] = rest {
            let Some((map, next)) = after.split_at_checked(usize::from(*length)) else {
                return false;
            };
            if *window == wanted {
                return map.get(bit / 8).is_some_and(|octet| octet & (0x80 >> (bit % 8)) != 0);
            }
            rest = next;
        }
        false
    }

    /// Reports whether the name is a delegation to another zone. The map must come from the parent
    /// zone.
    pub(crate) fn is_delegation(self) -> bool {
        self.has(Rtype::NS) && !self.has(Rtype::SOA)
    }

    /// Reports whether the zone has no authority over names below: at a delegation or a DNAME (RFC
    /// 6840 §4.1, RFC 5155 §8.3).
    pub(crate) fn hides_what_is_below(self) -> bool {
        self.is_delegation() || self.has(Rtype::DNAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(types: &str) -> Vec<u8> {
        let mut out = Vec::new();
        avocet_wire::rdata::parse(47, &format!(". {types}"), &[0], &mut out).unwrap();
        out[1..].to_vec()
    }

    #[test]
    fn bits_of_all_windows_are_found() {
        let octets = map("A MX CAA TYPE1234");
        let found: Vec<u16> =
            (0..2000).filter(|rtype| TypeMap(&octets).has(Rtype(*rtype))).collect();
        assert_eq!(found, [1, 15, 257, 1234]);
    }

    #[test]
    fn apexes_are_no_delegations() {
        assert!(TypeMap(&map("NS DS RRSIG")).is_delegation());
        assert!(!TypeMap(&map("NS SOA")).is_delegation());
        assert!(TypeMap(&map("A DNAME")).hides_what_is_below());
    }

    #[test]
    fn malformed_maps_end_early() {
        for octets in [&b"\0"[..], b"\0\x20\xff", b"\x01\x05\x00\x01\x40"] {
            assert!((0..1000).all(|rtype| !TypeMap(octets).has(Rtype(rtype))), "{octets:?}");
        }
    }
}
