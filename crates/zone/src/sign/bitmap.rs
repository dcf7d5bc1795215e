//! The type bit maps of NSEC and NSEC3 records (RFC 4034 §4.1.2).

use avocet_wire::Rtype;

/// Appends the bit map for these types, which must be sorted and distinct.
pub(super) fn append(types: &[Rtype], out: &mut Vec<u8>) {
    let mut rest = types;
    while let [first, ..] = rest {
        let window = first.0 >> 8;
        let (of_window, after) =
            rest.split_at(rest.iter().take_while(|rtype| rtype.0 >> 8 == window).count());
        rest = after;
        let mut map = [0_u8; 32];
        for rtype in of_window {
            map[usize::from(rtype.0 & 0xff) / 8] |= 0x80 >> (rtype.0 % 8);
        }
        let len = map.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        out.extend_from_slice(&[window as u8, len as u8]);
        out.extend_from_slice(&map[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_those_of_the_reader() {
        for text in ["A", "A MX RRSIG NSEC TYPE1234", "NS SOA CAA TYPE65535", ""] {
            let mut expected = Vec::new();
            avocet_wire::rdata::parse(47, &format!(". {text}"), &[0], &mut expected).unwrap();
            let types = text.split_whitespace();
            let mut types: Vec<_> =
                types.map(|text| Rtype(avocet_wire::rdata::from_mnemonic(text).unwrap())).collect();
            types.sort_unstable();
            let mut map = vec![0];
            append(&types, &mut map);
            assert_eq!(map, expected, "{text}");
        }
    }
}
