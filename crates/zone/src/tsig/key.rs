//! TSIG keys and algorithms (RFC 8945 §6).

use std::fmt;

use avocet_wire::{FoldedName, FoldedNameBuf, NameBuf};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

/// Minimum number of octets of a secret. RFC 8945 §8 asks for as many as the digest has, but
/// shorter secrets are in use.
pub const MIN_TSIG_SECRET: usize = 8;
/// Maximum number of octets of a secret.
pub const MAX_TSIG_SECRET: usize = 512;

/// An algorithm for message authentication codes (MAC). HMAC-MD5 and GSS-TSIG are not supported:
/// the former must not be used (RFC 8945 §6), and the latter has no shared secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TsigAlgorithm(&'static AlgorithmRow);

/// The properties of an algorithm.
#[derive(PartialEq, Eq, Debug)]
struct AlgorithmRow {
    /// The name as text.
    text: &'static str,
    /// The name in wire form.
    wire: &'static [u8],
    /// The HMAC function.
    digest: hmac::Algorithm,
    /// Number of octets of a MAC in messages.
    mac: usize,
}

/// All algorithms. If a name has two numbers, the second one is the number of bits of the truncated
/// MAC.
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
    /// Returns the algorithm that `tsig-keygen` and similar programs use by default.
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

    /// Returns the name of the algorithm.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.text
    }

    pub(super) fn wire(self) -> &'static [u8] {
        self.0.wire
    }

    /// Returns the number of octets of a MAC in messages.
    pub(super) fn mac_len(self) -> usize {
        self.0.mac
    }

    /// Returns the number of octets of a MAC that is not truncated.
    fn digest_len(self) -> usize {
        self.0.digest.digest_algorithm().output_len()
    }

    /// Returns the minimum number of octets of a received MAC. A shorter one is malformed (RFC 8945
    /// §5.2.2.1).
    pub(super) fn min_mac_len(self) -> usize {
        (self.digest_len() / 2).max(10).min(self.0.mac)
    }
}

/// A key that two servers share. The secret is never shown, and is erased from memory when the key
/// is dropped.
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

    /// Returns the name of the key.
    #[must_use]
    pub fn name(&self) -> FoldedName<'_> {
        self.name.view()
    }

    /// Returns the algorithm of the key.
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
