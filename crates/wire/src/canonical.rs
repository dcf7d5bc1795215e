//! Canonical form and order of names and record data (RFC 4034 §6, RFC 6840 §5.1), the basis of
//! signatures, NSEC chains, ZONEMD and zone trees.

use std::cmp::Ordering;

use crate::hash::eq_folded;
use crate::name::MAX_NAME;
use crate::rdata::folded_names;

/// Maximum number of labels in a name: each label takes at least two octets, and the root takes
/// one.
const MAX_LABELS: usize = MAX_NAME / 2;

/// Compares two valid uncompressed names in canonical order (RFC 4034 §6.1): label by label from
/// the root downwards, octets in lower case. A name sorts before its descendants.
#[must_use]
pub fn compare_names(a: &[u8], b: &[u8]) -> Ordering {
    let (a_starts, b_starts) = (&mut [0; MAX_LABELS], &mut [0; MAX_LABELS]);
    let a_starts = label_starts(a, a_starts);
    let b_starts = label_starts(b, b_starts);
    for (&at, &bt) in a_starts.iter().rev().zip(b_starts.iter().rev()) {
        let order = compare_folded(label(a, at), label(b, bt));
        if order.is_ne() {
            return order;
        }
    }
    a_starts.len().cmp(&b_starts.len())
}

/// Returns the offsets of the labels of a name, without the root.
fn label_starts<'a>(name: &[u8], starts: &'a mut [u8; MAX_LABELS]) -> &'a [u8] {
    let (mut at, mut count) = (0, 0);
    while let (Some(&len @ 1..), Some(start)) = (name.get(at), starts.get_mut(count)) {
        *start = at as u8;
        at += 1 + usize::from(len);
        count += 1;
    }
    &starts[..count]
}

/// Returns the octets of the label at offset `start`.
fn label(name: &[u8], start: u8) -> &[u8] {
    let rest = name.get(usize::from(start)..).unwrap_or_default();
    match rest.split_first() {
        Some((&len, octets)) => octets.get(..usize::from(len)).unwrap_or(octets),
        None => &[],
    }
}

/// Compares octets with ASCII letters in lower case. A prefix sorts first.
fn compare_folded(a: &[u8], b: &[u8]) -> Ordering {
    // Names of one zone have most labels in common.
    if eq_folded(a, b) {
        return Ordering::Equal;
    }
    a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase))
}

/// Appends the canonical form of uncompressed record data (RFC 4034 §6.2): names are in lower case
/// for the types listed there, all other octets unchanged. Malformed data is appended unchanged.
pub fn append_rdata(rtype: u16, rdata: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(rdata);
    let names = folded_names(rtype, rdata);
    // Length octets are below 64 and so never equal the letters `A`-`Z`.
    out[start + names.start..start + names.end].make_ascii_lowercase();
}

/// Compares the data of two records of an RRset (RFC 4034 §6.3): by the octets of the canonical
/// form, a prefix first. Records with equal data are duplicates.
#[must_use]
pub fn compare_rdata(rtype: u16, a: &[u8], b: &[u8]) -> Ordering {
    let canonical = |rdata| {
        let names = folded_names(rtype, rdata);
        let folded = move |(at, octet): (usize, &u8)| match names.contains(&at) {
            true => octet.to_ascii_lowercase(),
            false => *octet,
        };
        <[u8]>::iter(rdata).enumerate().map(folded)
    };
    canonical(a).cmp(canonical(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::{from_mnemonic, parse};
    use crate::text::name_to_wire;

    fn wire(name: &str) -> Vec<u8> {
        let mut out = [0; MAX_NAME];
        let len = name_to_wire(name.as_bytes(), None, &mut out).unwrap();
        out[..len].to_vec()
    }

    /// The example of RFC 4034 §6.1.
    #[test]
    fn names_are_ordered_from_the_root_downwards() {
        let ordered = [
            ".",
            "example.",
            "a.example.",
            "yljkjljk.a.example.",
            "Z.a.example.",
            "zABC.a.EXAMPLE.",
            "z.example.",
            "\\001.z.example.",
            "*.z.example.",
            "\\200.z.example.",
        ]
        .map(wire);
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(compare_names(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn case_does_not_order_names_and_the_longest_are_compared() {
        assert_eq!(compare_names(&wire("WWW.Example."), &wire("www.eXAMPLE.")), Ordering::Equal);
        let (long, other) = ("a.".repeat(127), format!("b.{}", "a.".repeat(126)));
        assert_eq!(compare_names(&wire(&long), &wire(&other)), Ordering::Less);
    }

    fn check_form(rtype: &str, text: &str, expected: &str) {
        let rtype = from_mnemonic(rtype).unwrap();
        let (mut given, mut wanted, mut out) = (Vec::new(), Vec::new(), b"before".to_vec());
        parse(rtype, text, &[0], &mut given).unwrap();
        parse(rtype, expected, &[0], &mut wanted).unwrap();
        append_rdata(rtype, &given, &mut out);
        assert_eq!(&out[6..], wanted, "{text}");
        assert_eq!(compare_rdata(rtype, &given, &wanted), Ordering::Equal);
    }

    #[test]
    fn only_the_names_of_the_listed_types_are_folded() {
        check_form("NS", "NS.Example.", "ns.example.");
        check_form("MX", "10 MX.Example.", "10 mx.example.");
        check_form("SOA", "A.B. C.D. 16961 16961 1 1 1", "a.b. c.d. 16961 16961 1 1 1");
        check_form("SRV", "1 2 3 T.", "1 2 3 t.");
        check_form("NAPTR", "1 2 S SIP+D2U X.Y T.E.", "1 2 S SIP+D2U X.Y t.e.");
        check_form("A6", "64 ::4142 P.", "64 ::4142 p.");
        check_form("A6", "0 4142::4142", "0 4142::4142");
        check_form("KX", "1 K.", "1 k.");
        check_form("PX", "1 K. L.", "1 k. l.");
        let sig = |signer| format!("A 5 3 86400 20030322173103 20030220173103 2642 {signer} QUJD");
        check_form("RRSIG", &sig("Example.COM."), &sig("example.com."));
        check_form("NSEC", "Next. A", "Next. A");
        check_form("HTTPS", "1 T.E.", "1 T.E.");
        check_form("LP", "1 T.E.", "1 T.E.");
        check_form("HINFO", "CPU OS", "CPU OS");
    }

    #[test]
    fn malformed_data_is_kept() {
        for (rtype, rdata) in
            [(15, &b"\x00"[..]), (15, b"\0\x01\xc0\x0c"), (26, b"\0\x01\x01A"), (35, b"AAAA\x09")]
        {
            let mut out = Vec::new();
            append_rdata(rtype, rdata, &mut out);
            assert_eq!(out, rdata);
        }
    }

    #[test]
    fn records_are_ordered_as_octets() {
        let txt = from_mnemonic("TXT").unwrap();
        assert_eq!(compare_rdata(txt, b"\x01B", b"\x01a"), Ordering::Less);
        assert_eq!(compare_rdata(txt, b"\x01B", b"\x01B\0"), Ordering::Less);
        assert_eq!(compare_rdata(2, b"\x01B\0", b"\x01a\0"), Ordering::Greater);
    }
}
