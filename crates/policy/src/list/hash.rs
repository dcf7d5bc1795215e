//! The hashes of a name and of all its ancestors, in one pass from the root.
//!
//! The hash of a name extends that of its parent by its first label. Each octet is thus hashed
//! once, regardless of the number of labels.

use avocet_wire::hash::{CHAIN_ROOM, HashKey};
use avocet_wire::name::MAX_NAME;
use avocet_wire::short;

/// Maximum number of labels of a name, without the root's (RFC 1035 §3.1).
pub(crate) const MAX_LABELS: usize = 127;

/// The hashes of a name's ancestors, computed by [`Suffixes::of`].
pub(crate) struct Suffixes {
    /// The name. Octets after the name are left over from earlier names.
    octets: [u8; CHAIN_ROOM],
    starts: [u8; MAX_LABELS + 1],
    hashes: [u64; MAX_LABELS + 1],
    labels: usize,
}

impl Suffixes {
    pub(crate) const fn empty() -> Self {
        Self {
            octets: [0; CHAIN_ROOM],
            starts: [0; MAX_LABELS + 1],
            hashes: [0; MAX_LABELS + 1],
            labels: 0,
        }
    }

    /// Computes the hashes of a name in lower-case wire form. If the name is malformed, uses the
    /// readable part.
    #[inline]
    pub(crate) fn of(&mut self, key: &HashKey, name: &[u8]) {
        let name = &name[..name.len().min(MAX_NAME)];
        let (mut labels, mut at) = (0, 0);
        while let Some(&length @ 1..=63) = name.get(at) {
            let next = at + 1 + usize::from(length);
            // A valid name never has more labels than the array has elements.
            let Some(start) =
                self.starts[..MAX_LABELS].get_mut(labels).filter(|_| next <= name.len())
            else {
                break;
            };
            *start = at as u8;
            labels += 1;
            at = next;
        }
        short::copy(name, &mut self.octets[..name.len()]);
        let (mut end, mut hash) = (at, key.chain_start());
        self.hashes[0] = hash;
        let starts = self.starts[..labels].iter().rev();
        for (start, place) in starts.zip(&mut self.hashes[1..]) {
            let start = usize::from(*start);
            hash = key.chain(hash, &self.octets, start, end - start);
            *place = hash;
            end = start;
        }
        self.labels = labels;
    }

    /// Returns the number of labels of the name.
    #[inline]
    pub(crate) const fn labels(&self) -> usize {
        self.labels
    }

    /// Returns the hashes of the root, of the last label, and so on up to the name itself.
    #[inline]
    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes[..=self.labels.min(MAX_LABELS)]
    }

    /// Returns the hash of the name itself.
    pub(crate) fn whole(&self) -> u64 {
        self.hashes[self.labels.min(MAX_LABELS)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_shares_the_hashes_of_the_names_above_it() {
        let key = HashKey::new([3; 32]);
        let (mut long, mut short) = (Suffixes::empty(), Suffixes::empty());
        long.of(&key, b"\x03www\x07example\x03com\x00");
        short.of(&key, b"\x07example\x03com\x00");
        assert_eq!((long.labels(), short.labels()), (3, 2));
        assert_eq!(long.hashes()[..3], *short.hashes());
        assert_ne!(long.whole(), short.whole());
        short.of(&key, b"\x00");
        assert_eq!(long.hashes()[..1], *short.hashes());
    }

    #[test]
    fn octets_that_are_no_name_do_no_harm() {
        let key = HashKey::new([3; 32]);
        let mut suffixes = Suffixes::empty();
        for octets in [&b""[..], b"\x05ab", b"\xc0\x0c", &[1; 300], &[63; 255]] {
            suffixes.of(&key, octets);
            assert!(suffixes.labels() <= MAX_LABELS);
        }
    }
}
