//! Passwords: argon2id (RFC 9106), with the parameters stored next to each hash.

use argon2::{Algorithm, Argon2, Params, Version};
use avocet_control::access::{AccessFault, Secret};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::secrets::{is_equal, random};

/// Shortest password, in octets.
const LEAST: usize = 10;
/// Longest password, in octets, which bounds the work for one log-in.
const MOST: usize = 256;
/// Memory of one hash in KiB, the passes over it and its lanes: about 50 ms on one core. A server
/// computes one hash at a time.
const COST: Cost = Cost { memory_kib: 19_456, passes: 2, lanes: 1 };
/// Maximum memory that a stored hash may need.
const MAX_MEMORY_KIB: u32 = 1 << 20;

/// The work for a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// The hash of a password as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PasswordHash {
    /// Always `argon2id`.
    algorithm: String,
    #[serde(flatten)]
    cost: Cost,
    /// The salt in base64.
    salt: String,
    /// The hash in base64.
    hash: String,
}

impl PasswordHash {
    /// Hashes a new password.
    ///
    /// # Errors
    /// The password is too short or too long, or the system has no memory or random octets.
    pub(crate) fn of(password: &Secret) -> Result<Self, AccessFault> {
        if !(LEAST..=MOST).contains(&password.reveal().len()) {
            return Err(AccessFault::PasswordLength { least: LEAST, most: MOST });
        }
        let salt = random::<16>()?;
        let hash = hash(COST, password, &salt)
            .ok_or_else(|| AccessFault::Unsaved("the password cannot be hashed".to_owned()))?;
        Ok(Self {
            algorithm: "argon2id".to_owned(),
            cost: COST,
            salt: BASE64.encode(&salt),
            hash: BASE64.encode(&*hash),
        })
    }

    /// Returns whether a password is the hashed password.
    pub(crate) fn is_of(&self, password: &Secret) -> bool {
        let (Ok(salt), Ok(expected)) =
            (BASE64.decode(self.salt.as_bytes()), BASE64.decode(self.hash.as_bytes()))
        else {
            return false;
        };
        self.algorithm == "argon2id"
            && password.reveal().len() <= MOST
            && hash(self.cost, password, &salt).is_some_and(|found| is_equal(&*found, &expected))
    }

    /// Does the work of a comparison for a user that does not exist, so that the time of a failed
    /// log-in does not reveal which names exist.
    pub(crate) fn waste(password: &Secret) {
        if password.reveal().len() <= MOST {
            let _ = hash(COST, password, &[0; 16]);
        }
    }
}

fn hash(cost: Cost, password: &Secret, salt: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    if cost.memory_kib > MAX_MEMORY_KIB {
        return None;
    }
    let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(32)).ok()?;
    let mut out = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(password.reveal().as_bytes(), salt, &mut *out)
        .ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    #[test]
    fn only_the_password_itself_matches_its_hash() {
        let hash = PasswordHash::of(&secret("correct horse")).unwrap();
        assert!(hash.is_of(&secret("correct horse")));
        for other in ["", "correct hors", "correct horse ", "Correct horse"] {
            assert!(!hash.is_of(&secret(other)), "{other:?}");
        }
        let again = PasswordHash::of(&secret("correct horse")).unwrap();
        assert_ne!(hash, again, "the salt is random");
    }

    #[test]
    fn a_short_or_huge_password_is_refused() {
        for password in ["", "123456789", &"x".repeat(257)] {
            let refused = PasswordHash::of(&secret(password));
            assert_eq!(refused, Err(AccessFault::PasswordLength { least: 10, most: 256 }));
        }
    }

    #[test]
    fn a_stored_hash_cannot_claim_unbounded_memory() {
        let mut hash = PasswordHash::of(&secret("correct horse")).unwrap();
        hash.cost.memory_kib = u32::MAX;
        assert!(!hash.is_of(&secret("correct horse")));
    }
}
