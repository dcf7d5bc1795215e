//! Signature algorithms and the verification of signatures (RFC 8624, RFC 9904, RFC 9905).
//!
//! The cryptographic library lacks Ed448, and ML-DSA has no number in the registry of DNSSEC
//! algorithms. Zones that are signed only with these two are insecure, as with any unknown
//! algorithm.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519,
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

/// Minimum number of bits of an RSA modulus: the minimum of the cryptographic library.
pub const MIN_RSA_BITS: usize = 1024;
/// Maximum number of bits of an RSA modulus (RFC 5702 §2.1). Larger ones cost too much.
pub const MAX_RSA_BITS: usize = 4096;
/// Maximum number of bits of an RSA exponent. The largest exponent in use is 2^32 + 1, and longer
/// exponents make verification costly.
const MAX_RSA_EXPONENT_BITS: usize = 33;
/// The prefix of an uncompressed curve point, which DNSKEY omits (RFC 6605 §4).
const UNCOMPRESSED: u8 = 4;
/// Number of octets of a public key of ECDSA P-256, P-384 and Ed25519.
const P256_KEY: usize = 64;
const P384_KEY: usize = 96;
const ED25519_KEY: usize = 32;

/// A supported signature algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Algorithm {
    /// Algorithm number 5 (RFC 3110).
    RsaSha1,
    /// Algorithm number 7: the same as 5, with another number so that validators without NSEC3
    /// ignore it (RFC 5155 §2).
    RsaSha1Nsec3Sha1,
    /// Algorithm number 8 (RFC 5702).
    RsaSha256,
    /// Algorithm number 10 (RFC 5702).
    RsaSha512,
    /// Algorithm number 13 (RFC 6605).
    EcdsaP256Sha256,
    /// Algorithm number 14 (RFC 6605).
    EcdsaP384Sha384,
    /// Algorithm number 15 (RFC 8080).
    Ed25519,
}

/// Whether signatures with RSA/SHA-1 are verified (RFC 9905 §2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sha1Signatures {
    /// RSA/SHA-1 is unsupported: zones without other signatures are insecure.
    #[default]
    Unsupported,
    /// RSA/SHA-1 is verified like any other algorithm.
    Verified,
}

/// The operator's choice of accepted algorithms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// The setting `validate-sha1`.
    pub sha1_signatures: Sha1Signatures,
}

impl Policy {
    /// Returns the algorithm with this number if it is supported and accepted.
    #[must_use]
    pub fn algorithm(self, number: u8) -> Option<Algorithm> {
        let algorithm = Algorithm::from_number(number)?;
        let sha1 = matches!(algorithm, Algorithm::RsaSha1 | Algorithm::RsaSha1Nsec3Sha1);
        (!sha1 || self.sha1_signatures == Sha1Signatures::Verified).then_some(algorithm)
    }
}

/// Whether a public key can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyForm {
    Usable,
    /// The key is well-formed, but has an unsupported size.
    UnsupportedSize,
    Malformed,
}

impl Algorithm {
    /// Returns the supported algorithm with this number in the registry.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            5 => Self::RsaSha1,
            7 => Self::RsaSha1Nsec3Sha1,
            8 => Self::RsaSha256,
            10 => Self::RsaSha512,
            13 => Self::EcdsaP256Sha256,
            14 => Self::EcdsaP384Sha384,
            15 => Self::Ed25519,
            _ => return None,
        })
    }

    /// Classifies a public key in the form of a DNSKEY record.
    pub(crate) fn form_of(self, key: &[u8]) -> KeyForm {
        let has_length =
            |length| if key.len() == length { KeyForm::Usable } else { KeyForm::Malformed };
        match self {
            Self::EcdsaP256Sha256 => has_length(P256_KEY),
            Self::EcdsaP384Sha384 => has_length(P384_KEY),
            Self::Ed25519 => has_length(ED25519_KEY),
            _ => match RsaKey::read(key) {
                None => KeyForm::Malformed,
                Some(key) if !key.has_supported_size() => KeyForm::UnsupportedSize,
                Some(_) => KeyForm::Usable,
            },
        }
    }

    /// Reports whether the key verifies the signature over the message.
    pub(crate) fn verifies(self, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::RsaSha1 | Self::RsaSha1Nsec3Sha1 => {
                rsa_verifies(&RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, key, message, signature)
            }
            Self::RsaSha256 => rsa_verifies(
                &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
                key,
                message,
                signature,
            ),
            Self::RsaSha512 => rsa_verifies(
                &RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
                key,
                message,
                signature,
            ),
            Self::EcdsaP256Sha256 => {
                point_verifies(&ECDSA_P256_SHA256_FIXED, key, message, signature)
            }
            Self::EcdsaP384Sha384 => {
                point_verifies(&ECDSA_P384_SHA384_FIXED, key, message, signature)
            }
            Self::Ed25519 => {
                is_known(key, message, signature)
                    || UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
            }
        }
    }
}

/// Reports whether a simulation made this signature itself; see the module `known`.
#[cfg(feature = "known-signatures")]
fn is_known(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    crate::known::contains(key, message, signature)
}

/// A server knows no signature that it has not verified.
#[cfg(not(feature = "known-signatures"))]
const fn is_known(_: &[u8], _: &[u8], _: &[u8]) -> bool {
    false
}

fn rsa_verifies(parameters: &RsaParameters, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let Some(key) = RsaKey::read(key).filter(RsaKey::has_supported_size) else { return false };
    RsaPublicKeyComponents { n: key.modulus, e: key.exponent }
        .verify(parameters, message, signature)
        .is_ok()
}

fn point_verifies(
    algorithm: &'static dyn VerificationAlgorithm,
    key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> bool {
    let mut point = [UNCOMPRESSED; 1 + P384_KEY];
    let Some(room) = point.get_mut(1..=key.len()) else { return false };
    room.copy_from_slice(key);
    UnparsedPublicKey::new(algorithm, &point[..=key.len()]).verify(message, signature).is_ok()
}

/// Modulus and exponent of an RSA key, without leading zeros (RFC 3110 §2).
struct RsaKey<'a> {
    exponent: &'a [u8],
    modulus: &'a [u8],
}

impl<'a> RsaKey<'a> {
    fn read(octets: &'a [u8]) -> Option<Self> {
        let (length, rest) = match octets {
            [0, high, low, rest @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), rest),
            [length, rest @ ..] if *length > 0 => (usize::from(*length), rest),
            _ => return None,
        };
        let (exponent, modulus) = rest.split_at_checked(length)?;
        let key = Self { exponent: trimmed(exponent), modulus: trimmed(modulus) };
        (!key.exponent.is_empty() && !key.modulus.is_empty()).then_some(key)
    }

    fn has_supported_size(&self) -> bool {
        (MIN_RSA_BITS..=MAX_RSA_BITS).contains(&bits(self.modulus))
            && bits(self.exponent) <= MAX_RSA_EXPONENT_BITS
    }
}

/// Returns the number of bits of an integer without leading zero octets.
fn bits(number: &[u8]) -> usize {
    number.first().map_or(0, |octet| number.len() * 8 - octet.leading_zeros() as usize)
}

fn trimmed(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|octet| **octet == 0).count();
    &number[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha1_is_verified_by_policy_only() {
        for number in [5, 7] {
            assert_eq!(Policy::default().algorithm(number), None);
            let policy = Policy { sha1_signatures: Sha1Signatures::Verified };
            assert!(policy.algorithm(number).is_some());
        }
        let known: Vec<u8> =
            (0..=255).filter(|number| Policy::default().algorithm(*number).is_some()).collect();
        assert_eq!(known, [8, 10, 13, 14, 15]);
    }

    fn rsa(exponent: &[u8], bits: usize) -> Vec<u8> {
        let mut key = vec![exponent.len() as u8];
        key.extend_from_slice(exponent);
        key.push(0);
        key.push(0x80 >> ((8 - bits % 8) % 8));
        key.resize(key.len() + bits.div_ceil(8) - 1, 0xff);
        key
    }

    #[test]
    fn rsa_keys_are_bounded_in_size() {
        for (bits, expected) in [
            (512, KeyForm::UnsupportedSize),
            (1023, KeyForm::UnsupportedSize),
            (1024, KeyForm::Usable),
            (4096, KeyForm::Usable),
            (4097, KeyForm::UnsupportedSize),
        ] {
            assert_eq!(Algorithm::RsaSha256.form_of(&rsa(&[1, 0, 1], bits)), expected, "{bits}");
        }
        assert_eq!(Algorithm::RsaSha256.form_of(&rsa(&[1, 0, 0, 0, 1], 2048)), KeyForm::Usable);
        assert_eq!(
            Algorithm::RsaSha256.form_of(&rsa(&[2, 0, 0, 0, 1], 2048)),
            KeyForm::UnsupportedSize
        );
    }

    #[test]
    fn malformed_keys_are_told_and_never_verify() {
        let all = [5, 7, 8, 10, 13, 14, 15].map(|number| Algorithm::from_number(number).unwrap());
        for algorithm in all {
            for key in
                [&b""[..], b"\0", b"\0\0", b"\0\0\0", b"\x05\x01", b"\x01\x01", b"\x01\0\xff"]
            {
                assert_eq!(algorithm.form_of(key), KeyForm::Malformed, "{algorithm:?} {key:?}");
                assert!(!algorithm.verifies(key, b"message", &[0; 64]));
            }
            for length in 0..300 {
                assert!(!algorithm.verifies(&vec![1; length], b"message", &vec![1; length]));
            }
        }
    }
}
