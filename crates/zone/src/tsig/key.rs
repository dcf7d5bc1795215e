//! TSIG keys and algorithms (RFC 8945 §6).

use std::fmt;

use avocet_wire::{FoldedName, FoldedNameBuf, NameBuf};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

/// Length of the shortest secret in octets. RFC 8945 §8 requires as many octets as the digest has,
/// but shorter secrets exist.
pub const MIN_TSIG_SECRET: usize = 8;
/// Length of the longest secret in octets.
pub const MAX_TSIG_SECRET: usize = 512;

/// An algorithm for message authentication codes (MAC). HMAC-MD5 must not be used (RFC 8945 §6),
/// and GSS-TSIG has no shared secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TsigAlgorithm(&'static AlgorithmRow);

/// A row of the table of algorithms.
#[derive(PartialEq, Eq, Debug)]
struct AlgorithmRow {
    /// The name as text.
    text: &'static str,
    /// The name in wire form.
    wire: &'static [u8],
    /// The digest.
    digest: hmac::Algorithm,
    /// Number of octets of a MAC.
    mac: usize,
}

/// All algorithms; the names with a number at the end send that number of bits.
const ALGORITHMS: [AlgorithmRow; 8] = [
    row("hmac-sha1", b"\x09hmac-sha1\0", hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, 20),
    row("hmac-sha224", b"\x0bhmac-sha224\0", hmac::HMAC_SHA224, 28),
    row("hmac-sha256", b"\x0bhmac-sha256\0", hmac::HMAC_SHA256, 32),
    row("hmac-sha256-128", b"\x0fhmac-sha256-128\0", hmac::HMAC_SHA256, 16),
    row("hmac-sha384", b"\x0bhmac-sha384\0", hmac::HMAC_SHA384, 48),
    row("hmac-sha384-192", b"\x0fhmac-sha384-192\0", hmac::HMAC_SHA384, 24),
    row("hmac-sha512", b"\x0bhmac-sha512\0", hmac::HMAC_SHA512, 64),
    row("hmac-sha512-256", b"\x0fhmac-sha512-256\0", hmac::HMAC_SHA512, 32),
];

const fn row(
    text: &'static str,
    wire: &'static [u8],
    digest: hmac::Algorithm,
    mac: usize,
) -> AlgorithmRow {
    AlgorithmRow { text, wire, digest, mac }
}

static TABLE: [AlgorithmRow; 8] = ALGORITHMS;

impl TsigAlgorithm {
    /// Returns the default algorithm of `tsig-keygen` and similar programs.
    #[must_use]
    pub fn usual() -> Self {
        Self(&TABLE[2])
    }

    /// Returns the algorithm with this name.
    #[must_use]
    pub fn from_name(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('.');
        TABLE.iter().find(|row| row.text.eq_ignore_ascii_case(text)).map(Self)
    }

    /// Returns all algorithms.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(Self)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.text
    }

    pub(super) fn wire(self) -> &'static [u8] {
        self.0.wire
    }

    /// Returns the number of octets of a MAC.
    pub(super) fn mac_len(self) -> usize {
        self.0.mac
    }

    /// Returns the number of octets of the whole digest.
    fn digest_len(self) -> usize {
        self.0.digest.digest_algorithm().output_len()
    }

    /// Returns the minimum number of octets of a MAC that is not malformed (RFC 8945 §5.2.2.1).
    pub(super) fn min_mac_len(self) -> usize {
        (self.digest_len() / 2).max(10).min(self.0.mac)
    }
}

/// A key that two servers share. The secret is erased from memory when the key is dropped, and is
/// never shown.
pub struct TsigKey {
    name: FoldedNameBuf,
    algorithm: TsigAlgorithm,
    secret: Zeroizing<Vec<u8>>,
    pub(super) hmac: hmac::Key,
}

impl TsigKey {
    /// Creates a key.
    #[must_use]
    pub fn new(name: FoldedName<'_>, algorithm: TsigAlgorithm, secret: Zeroizing<Vec<u8>>) -> Self {
        let hmac = hmac::Key::new(algorithm.0.digest, &secret);
        Self { name: name.to_buf(), algorithm, secret, hmac }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> FoldedName<'_> {
        self.name.view()
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> TsigAlgorithm {
        self.algorithm
    }
}

impl PartialEq for TsigKey {
    fn eq(&self, other: &Self) -> bool {
        let is_same = (self.name(), self.algorithm) == (other.name(), other.algorithm);
        is_same && self.secret == other.secret
    }
}

impl Eq for TsigKey {}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NameBuf::from_wire(self.name().wire()).unwrap_or(NameBuf::ROOT);
        write!(f, "TsigKey({name}, {})", self.algorithm.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_show_its_secret() {
        let name = FoldedName::new(b"\x01k\0").unwrap();
        let key = TsigKey::new(name, TsigAlgorithm::usual(), Zeroizing::new(b"geheimnis".to_vec()));
        assert_eq!(format!("{key:?}"), "TsigKey(k., hmac-sha256)");
    }

    #[test]
    fn names_of_algorithms_are_read_in_any_case() {
        let name = |text| TsigAlgorithm::from_name(text).map(TsigAlgorithm::name);
        assert_eq!(name("HMAC-SHA512."), Some("hmac-sha512"));
        assert_eq!(name("hmac-md5.sig-alg.reg.int"), None);
        for algorithm in TsigAlgorithm::all() {
            let wire = algorithm.wire();
            assert_eq!(usize::from(wire[0]) + 2, wire.len(), "{}", algorithm.name());
            assert!(algorithm.mac_len() <= algorithm.digest_len());
            assert!(algorithm.min_mac_len() <= algorithm.mac_len());
        }
    }
}
