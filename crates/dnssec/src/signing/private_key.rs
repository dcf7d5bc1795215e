//! Private keys: generates them, reads them from PKCS#8 (RFC 5958) and from the files of BIND, and
//! writes them as PKCS#8.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
};
use data_encoding::BASE64;
use thiserror::Error;
use zeroize::Zeroizing;

/// Number of octets of a private key in BIND's files, for both algorithms.
const SECRET: usize = 32;
/// Maximum number of omitted octets of a key. More are missing in one of a billion keys; such a
/// file is rather damaged.
const MAX_OMITTED: usize = 4;
/// Number of octets of a signature, for both algorithms.
const SIGNATURE: usize = 64;
/// An ECPrivateKey (RFC 5915) of P-256 without its public key: the octets before the secret.
const EC_HEAD: [u8; 7] = [0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20];
/// The octets of an ECPrivateKey after the secret: the curve.
const EC_TAIL: [u8; 12] = [0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

/// An algorithm with which this server signs zones (RFC 8624 §3.1, RFC 9904).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SigningAlgorithm {
    /// Algorithm number 13 (RFC 6605).
    EcdsaP256Sha256,
    /// Algorithm number 15 (RFC 8080).
    Ed25519,
}

impl SigningAlgorithm {
    /// Returns the algorithm number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::EcdsaP256Sha256 => 13,
            Self::Ed25519 => 15,
        }
    }

    /// Returns the algorithm with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            13 => Some(Self::EcdsaP256Sha256),
            15 => Some(Self::Ed25519),
            _ => None,
        }
    }

    /// Returns the mnemonic.
    #[must_use]
    pub const fn mnemonic(self) -> &'static str {
        match self {
            Self::EcdsaP256Sha256 => "ECDSAP256SHA256",
            Self::Ed25519 => "ED25519",
        }
    }
}

/// The reason why a private key cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum KeyFault {
    /// The cryptographic library failed.
    #[error("the cryptographic library reports an error")]
    Library,
    /// The data is not a key of the algorithm.
    #[error("it is not a private key of algorithm {name}: {1}", name = .0.mnemonic())]
    Rejected(SigningAlgorithm, String),
    /// The text is not a key file of BIND.
    #[error("it is not a private key in the format of BIND: no valid line `{0}:`")]
    Format(&'static str),
    /// The algorithm is not supported.
    #[error("its algorithm {0} is not one that zones are signed with here (13 or 15)")]
    Algorithm(String),
}

/// A private key with its public part. The cryptographic library erases the memory of the private
/// part.
pub struct PrivateKey {
    algorithm: SigningAlgorithm,
    pair: Pair,
    /// The public part as in a DNSKEY record.
    public_key: Vec<u8>,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrivateKey({:?})", self.algorithm)
    }
}

impl PrivateKey {
    /// Makes a new key.
    ///
    /// # Errors
    /// The library fails.
    pub fn generate(algorithm: SigningAlgorithm) -> Result<Self, KeyFault> {
        let pair = match algorithm {
            SigningAlgorithm::EcdsaP256Sha256 => {
                EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Pair::Ecdsa)
            }
            SigningAlgorithm::Ed25519 => Ed25519KeyPair::generate().map(Pair::Ed25519),
        };
        Ok(Self::of(pair.map_err(|_| KeyFault::Library)?))
    }

    /// Reads a key in PKCS#8.
    ///
    /// # Errors
    /// The data is not a key of this algorithm.
    pub fn from_pkcs8(algorithm: SigningAlgorithm, octets: &[u8]) -> Result<Self, KeyFault> {
        let pair = match algorithm {
            SigningAlgorithm::EcdsaP256Sha256 => {
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, octets).map(Pair::Ecdsa)
            }
            SigningAlgorithm::Ed25519 => {
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(octets).map(Pair::Ed25519)
            }
        };
        let pair = pair.map_err(|error| KeyFault::Rejected(algorithm, error.to_string()))?;
        Ok(Self::of(pair))
    }

    /// Reads the text of a file `K*.private` of BIND.
    ///
    /// # Errors
    /// The text or the key is not valid.
    pub fn from_bind(text: &str) -> Result<Self, KeyFault> {
        let field = |name: &'static str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let value = lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
            value.ok_or(KeyFault::Format(name))
        };
        field("Private-key-format")?;
        let number = field("Algorithm")?;
        let algorithm = number.split_whitespace().next().and_then(|number| number.parse().ok());
        let algorithm = algorithm
            .and_then(SigningAlgorithm::from_number)
            .ok_or_else(|| KeyFault::Algorithm(number.chars().take(40).collect()))?;
        let secret = BASE64.decode(field("PrivateKey")?.as_bytes()).map(Zeroizing::new);
        let secret = secret.ok().and_then(|secret| whole(&secret, algorithm));
        let secret = secret.ok_or(KeyFault::Format("PrivateKey"))?;
        let pair = match algorithm {
            SigningAlgorithm::EcdsaP256Sha256 => {
                let der = Zeroizing::new([&EC_HEAD[..], &secret[..], &EC_TAIL].concat());
                EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, &der)
                    .map(Pair::Ecdsa)
            }
            SigningAlgorithm::Ed25519 => {
                Ed25519KeyPair::from_seed_unchecked(&secret[..]).map(Pair::Ed25519)
            }
        };
        let pair = pair.map_err(|error| KeyFault::Rejected(algorithm, error.to_string()))?;
        Ok(Self::of(pair))
    }

    fn of(pair: Pair) -> Self {
        let (algorithm, public_key) = match &pair {
            // A DNSKEY record omits the octet that marks an uncompressed point (RFC 6605 §4).
            Pair::Ecdsa(pair) => (
                SigningAlgorithm::EcdsaP256Sha256,
                pair.public_key().as_ref().get(1..).unwrap_or_default().to_vec(),
            ),
            Pair::Ed25519(pair) => (SigningAlgorithm::Ed25519, pair.public_key().as_ref().to_vec()),
        };
        Self { algorithm, pair, public_key }
    }

    /// Returns the key in PKCS#8.
    ///
    /// # Errors
    /// The library fails.
    pub fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
        let document = match &self.pair {
            Pair::Ecdsa(pair) => pair.to_pkcs8v1(),
            Pair::Ed25519(pair) => pair.to_pkcs8v1(),
        };
        // The library erases its own copy of the key.
        document.map(|document| document.as_ref().to_vec().into()).map_err(|_| KeyFault::Library)
    }

    /// Returns the algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> SigningAlgorithm {
        self.algorithm
    }

    /// Returns the public part as in a DNSKEY record.
    #[must_use]
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// Signs a message.
    ///
    /// # Errors
    /// The library fails.
    pub fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE], KeyFault> {
        let signature = match &self.pair {
            Pair::Ecdsa(pair) => pair.sign(&SystemRandom::new(), message),
            Pair::Ed25519(pair) => pair.try_sign(message),
        };
        let signature = signature.map_err(|_| KeyFault::Library)?;
        signature.as_ref().try_into().map_err(|_| KeyFault::Library)
    }
}

/// Returns the secret with its full length. BIND omits the zero octets at the start of the number
/// that is an ECDSA key.
fn whole(secret: &[u8], algorithm: SigningAlgorithm) -> Option<Zeroizing<[u8; SECRET]>> {
    let missing = SECRET.checked_sub(secret.len())?;
    let is_number = algorithm == SigningAlgorithm::EcdsaP256Sha256 && missing <= MAX_OMITTED;
    let mut whole = Zeroizing::new([0; SECRET]);
    whole[missing..].copy_from_slice(secret);
    (missing == 0 || is_number).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_after_it_was_written_and_read() {
        for algorithm in [SigningAlgorithm::EcdsaP256Sha256, SigningAlgorithm::Ed25519] {
            let key = PrivateKey::generate(algorithm).unwrap();
            let read = PrivateKey::from_pkcs8(algorithm, &key.to_pkcs8().unwrap()).unwrap();
            assert_eq!(read.public_key(), key.public_key());
        }
    }

    /// The examples of RFC 6605 §6.1 and RFC 8080 §6.1.
    #[test]
    fn the_examples_of_the_rfcs_are_read() {
        for (algorithm, secret, public) in [
            (
                "13 (ECDSAP256SHA256)",
                "GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=",
                "GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edbkrSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA==",
            ),
            (
                "15 (ED25519)",
                "ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=",
                "l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=",
            ),
        ] {
            let text =
                format!("Private-key-format: v1.2\nAlgorithm: {algorithm}\nPrivateKey: {secret}\n");
            let key = PrivateKey::from_bind(&text).unwrap();
            assert_eq!(BASE64.encode(key.public_key()), public);
        }
    }

    #[test]
    fn an_ecdsa_key_may_lack_zero_octets_at_its_start() {
        let read = |octets: &[u8]| {
            let secret = BASE64.encode(octets);
            PrivateKey::from_bind(&format!(
                "Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: {secret}\n"
            ))
        };
        let mut octets = [7; SECRET];
        octets[..2].fill(0);
        let whole = read(&octets).unwrap();
        for shorter in [&octets[1..], &octets[2..]] {
            assert_eq!(read(shorter).unwrap().public_key(), whole.public_key());
        }
        let other = [&[0][..], &octets].concat();
        assert!(read(&other).is_err() && read(&[0; SECRET - 1]).is_err());
    }

    #[test]
    fn other_data_is_refused_and_named() {
        let check = |text: &str, expected: &str| {
            assert_eq!(PrivateKey::from_bind(text).unwrap_err().to_string(), expected);
        };
        check(
            "Algorithm: 13\n",
            "it is not a private key in the format of BIND: no valid line `Private-key-format:`",
        );
        check(
            "Private-key-format: v1.3\nAlgorithm: 8 (RSASHA256)\n",
            "its algorithm 8 (RSASHA256) is not one that zones are signed with here (13 or 15)",
        );
        for secret in ["AAAA", "*", ""] {
            check(
                &format!("Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: {secret}\n"),
                "it is not a private key in the format of BIND: no valid line `PrivateKey:`",
            );
        }
        let zero = BASE64.encode(&[0; 32]);
        let text = format!("Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: {zero}\n");
        assert!(matches!(PrivateKey::from_bind(&text), Err(KeyFault::Rejected(..))));
        for octets in [&b""[..], b"0", &[0x30; 100]] {
            for algorithm in [SigningAlgorithm::EcdsaP256Sha256, SigningAlgorithm::Ed25519] {
                assert!(PrivateKey::from_pkcs8(algorithm, octets).is_err());
            }
        }
        let key = PrivateKey::generate(SigningAlgorithm::Ed25519).unwrap().to_pkcs8().unwrap();
        assert!(PrivateKey::from_pkcs8(SigningAlgorithm::EcdsaP256Sha256, &key).is_err());
    }
}
