//! Label operations on names for signatures and proofs.
//!
//! All names here are valid, uncompressed and in wire form.

use avocet_wire::{NameBuf, name};

/// The wildcard label (RFC 4592 §2.1.1).
const ASTERISK: &[u8] = b"*";

/// Reports whether the octets are exactly one valid uncompressed name.
pub(crate) fn is_name(octets: &[u8]) -> bool {
    name::wire_len(octets) == Ok(octets.len())
}

/// Returns the number of labels without the root label.
pub(crate) fn count(wire: &[u8]) -> usize {
    name::labels(wire).count()
}

/// Returns the number of labels as an RRSIG record counts them: without the root label and a
/// leading `*` (RFC 4034 §3.1.3).
pub(crate) fn signed_count(wire: &[u8]) -> usize {
    count(wire) - usize::from(is_wildcard(wire))
}

/// Reports whether the first label is `*`.
pub(crate) fn is_wildcard(wire: &[u8]) -> bool {
    name::labels(wire).next() == Some(ASTERISK)
}

/// Returns the last `labels` labels of a name, or the whole name if it does not have more labels.
pub(crate) fn suffix(wire: &[u8], labels: usize) -> &[u8] {
    let above = count(wire).saturating_sub(labels);
    name::ancestors(wire).nth(above).unwrap_or(wire)
}

/// Returns the wildcard right below a name, or `None` if it would exceed the length limit of names.
pub(crate) fn wildcard_below(wire: &[u8]) -> Option<NameBuf> {
    NameBuf::from_wire(wire).ok()?.prefixed(ASTERISK).ok()
}

/// Returns the longest common ancestor of both names, which may be one of them.
pub(crate) fn common_ancestor<'a>(a: &'a [u8], b: &[u8]) -> &'a [u8] {
    name::ancestors(a).find(|ancestor| name::is_under(b, ancestor)).unwrap_or(&[0])
}

/// Reports whether both are the same name.
pub(crate) fn equal(a: &[u8], b: &[u8]) -> bool {
    avocet_wire::hash::eq_folded(a, b)
}

/// Reports whether `wire` is strictly below `ancestor`.
pub(crate) fn is_below(wire: &[u8], ancestor: &[u8]) -> bool {
    wire.len() > ancestor.len() && name::is_under(wire, ancestor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WILD: &[u8] = b"\x01*\x01b\x01c\0";

    #[test]
    fn labels_are_counted_as_rrsig_does() {
        assert_eq!((count(WILD), signed_count(WILD)), (3, 2));
        assert_eq!((count(b"\0"), signed_count(b"\0")), (0, 0));
        assert_eq!(signed_count(b"\x02**\x01b\0"), 2);
    }

    #[test]
    fn names_are_cut_from_the_left() {
        assert_eq!(suffix(WILD, 2), b"\x01b\x01c\0");
        assert_eq!(suffix(WILD, 0), b"\0");
        assert_eq!(suffix(WILD, 9), WILD);
        assert_eq!(common_ancestor(b"\x01a\x01b\x01C\0", WILD), b"\x01b\x01C\0");
        assert_eq!(common_ancestor(b"\x01a\0", WILD), b"\0");
        assert!(is_below(WILD, b"\x01B\x01c\0") && !is_below(WILD, WILD));
    }
}
