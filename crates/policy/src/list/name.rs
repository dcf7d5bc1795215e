//! Names as written in lists: letters, digits, hyphens and underscores, or Unicode.

use std::fmt;

use avocet_wire::NameBuf;
use avocet_wire::name::{MAX_LABEL, MAX_NAME};

/// An error in a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameFault {
    /// The name is empty or has an empty label.
    Empty,
    /// A label has more than 63 octets, or the name has more than 255.
    TooLong,
    /// The name contains a character that host names do not have.
    Character(char),
    /// The Unicode text has no A-label (UTS 46).
    Idn,
    /// The text is an address.
    Address,
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a name with an empty label"),
            Self::TooLong => f.write_str("a name or a label is too long"),
            Self::Character(found) => {
                write!(f, "{found:?} is not a valid character in a host name")
            }
            Self::Idn => f.write_str("an invalid internationalised name"),
            Self::Address => f.write_str("an address where a name is expected"),
        }
    }
}

/// Parses a name with an optional final dot to lower-case wire form. `.` alone is the root.
///
/// # Errors
/// The text is not a host name.
pub(super) fn read(text: &str) -> Result<NameBuf, NameFault> {
    if !text.is_ascii() {
        // A label of 63 octets in ASCII has at most 63 Unicode characters, of up to four octets
        // each.
        if text.len() > 4 * MAX_NAME {
            return Err(NameFault::TooLong);
        }
        let ascii = idna::domain_to_ascii(text).map_err(|_| NameFault::Idn)?;
        return read_ascii(&ascii);
    }
    read_ascii(text)
}

fn read_ascii(text: &str) -> Result<NameBuf, NameFault> {
    if text == "." {
        return Ok(NameBuf::ROOT);
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() + 2 > MAX_NAME {
        return Err(NameFault::TooLong);
    }
    let mut wire = [0; MAX_NAME];
    let (mut label_at, mut at) = (0, 1);
    let mut only_digits = true;
    for octet in text.bytes() {
        match octet {
            b'.' => {
                close_label(&mut wire, label_at, at)?;
                (label_at, only_digits) = (at, true);
            }
            b'0'..=b'9' => wire[at] = octet,
            b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' => {
                (wire[at], only_digits) = (octet.to_ascii_lowercase(), false);
            }
            other => return Err(NameFault::Character(char::from(other))),
        }
        at += 1;
    }
    close_label(&mut wire, label_at, at)?;
    // No top-level domain consists of digits only, so this text is an address or a part of one.
    if only_digits {
        return Err(NameFault::Address);
    }
    NameBuf::from_wire(&wire[..=at]).map_err(|_| NameFault::TooLong)
}

fn close_label(wire: &mut [u8; MAX_NAME], label_at: usize, end: usize) -> Result<(), NameFault> {
    match end - label_at - 1 {
        0 => Err(NameFault::Empty),
        length if length > MAX_LABEL => Err(NameFault::TooLong),
        length => {
            wire[label_at] = length as u8;
            Ok(())
        }
    }
}

/// Returns the number of labels of a name.
pub(super) fn labels(name: &NameBuf) -> usize {
    avocet_wire::name::labels(name.wire()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&[u8], NameFault>) {
        let read = read(text);
        assert_eq!(read.as_ref().map(NameBuf::wire), expected.as_ref().map(|wire| *wire), "{text}");
    }

    #[test]
    fn names_are_folded_and_may_end_with_a_dot() {
        check("Ads.Example.com", Ok(b"\x03ads\x07example\x03com\x00"));
        check("ads.example.com.", Ok(b"\x03ads\x07example\x03com\x00"));
        check("_dmarc.1-2.x", Ok(b"\x06_dmarc\x031-2\x01x\x00"));
        check(".", Ok(b"\x00"));
        check("com", Ok(b"\x03com\x00"));
    }

    #[test]
    fn international_names_become_a_labels() {
        check("bücher.example", Ok(b"\x0dxn--bcher-kva\x07example\x00"));
        check("BÜCHER.example", Ok(b"\x0dxn--bcher-kva\x07example\x00"));
        check("xn--bcher-kva.example", Ok(b"\x0dxn--bcher-kva\x07example\x00"));
        check("пример。рф", Ok(b"\x0cxn--e1afmkfd\x08xn--p1ai\x00"));
        check("a\u{fffd}.example", Err(NameFault::Idn));
    }

    #[test]
    fn what_is_no_host_name_is_refused() {
        for text in ["", "..", ".a", "a..b", "a.b.."] {
            check(text, Err(NameFault::Empty));
        }
        check("a/b", Err(NameFault::Character('/')));
        check("a b", Err(NameFault::Character(' ')));
        check("a\0b", Err(NameFault::Character('\0')));
        check("192.0.2.1", Err(NameFault::Address));
        check(&"a".repeat(64), Err(NameFault::TooLong));
        check(&"a.".repeat(127), Ok([&b"\x01a".repeat(127)[..], b"\x00"].concat().as_slice()));
        check(&"a.".repeat(128), Err(NameFault::TooLong));
        check(&"ü".repeat(4000), Err(NameFault::TooLong));
    }
}
