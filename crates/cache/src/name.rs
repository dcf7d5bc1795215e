//! Minimal parsing of names in wire form: labels from the left.

/// Maximum number of labels of a name including the root (RFC 1035 §3.1: 255 octets).
const MAX_LABELS: usize = 128;

/// Returns the name and its ancestors up to the root. Ends early if the octets are not a name in
/// uncompressed wire form.
pub(crate) fn ancestors(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(name), |rest| {
        let length = usize::from(*rest.first()?);
        if length == 0 || length > 63 {
            return None;
        }
        rest.get(1 + length..).filter(|parent| !parent.is_empty())
    })
    .take(MAX_LABELS)
}

/// Returns the name at the start of `bytes`, including its root label.
pub(crate) fn leading_name(bytes: &[u8]) -> Option<&[u8]> {
    let mut end = 0;
    for _ in 0..MAX_LABELS {
        let length = usize::from(*bytes.get(end)?);
        end += 1 + length;
        match length {
            0 => return bytes.get(..end),
            1..=63 => {}
            _ => return None,
        }
    }
    None
}

/// Reports whether `name` is `ancestor` or below it.
pub(crate) fn is_at_or_below(name: &[u8], ancestor: &[u8]) -> bool {
    ancestors(name).any(|parent| parent == ancestor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_up_to_the_root() {
        let all: Vec<&[u8]> = ancestors(b"\x01a\x02bc\x00").collect();
        assert_eq!(all, [b"\x01a\x02bc\x00".as_slice(), b"\x02bc\x00", b"\x00"]);
        assert!(is_at_or_below(b"\x01a\x02bc\x00", b"\x02bc\x00"));
        assert!(!is_at_or_below(b"\x03abc\x00", b"\x02bc\x00"));
    }

    #[test]
    fn stops_at_what_is_no_name() {
        for bytes in [&b""[..], b"\x05ab", b"\xc0\x0c", b"\x01a"] {
            assert_eq!(leading_name(bytes), None, "{bytes:?}");
            assert!(ancestors(bytes).count() <= 1);
        }
        assert_eq!(leading_name(b"\x01a\x00rest"), Some(&b"\x01a\x00"[..]));
    }
}
