//! The keys of a target, and the encryption of its messages by the crate `odoh-rs`.

use std::fmt;
use std::sync::Arc;

use avocet_wire::header::QR;
use avocet_wire::{Header, Opcode};
use aws_lc_rs::rand;
use odoh_rs::{
    Error, ObliviousDoHConfig, ObliviousDoHConfigs, ObliviousDoHKeyPair, ObliviousDoHMessage,
    ObliviousDoHMessagePlaintext, OdohSecret, ResponseNonce, compose, decrypt_query,
    encrypt_response, parse,
};
use zeroize::Zeroizing;

use super::{MAX_SEALED, ObliviousFault, OpenedQuery, SEED_LEN};

/// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM (RFC 9180 §7), which each client has
/// (RFC 9230 §9).
const SUITE: (u16, u16, u16) = (0x0020, 0x0001, 0x0001);
/// The length of a DNS response with its padding is a multiple of this number of octets, as in RFC
/// 8467 §4.1, unless the sum is too long.
const PADDED_TO: usize = 468;
/// Maximum number of octets of a DNS response with its padding: the encrypted message has two
/// lengths of 2 octets and a tag of 16 octets, and its own length has 16 bits.
const MAX_PADDED: usize = u16::MAX as usize - 20;

/// The keys of a target. One key is present, and the key before it is still accepted.
pub struct ObliviousTarget {
    /// The present key, and the previous one.
    keys: Vec<TargetKey>,
    configs: Arc<[u8]>,
}

/// A key pair with its ID.
struct TargetKey {
    id: Vec<u8>,
    pair: ObliviousDoHKeyPair,
}

impl fmt::Debug for ObliviousTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObliviousTarget").finish_non_exhaustive()
    }
}

impl TargetKey {
    /// Derives the key pair of a seed (RFC 9180 §7.1.3).
    fn of(seed: &[u8; SEED_LEN]) -> Option<Self> {
        let (kem, kdf, aead) = SUITE;
        let pair = ObliviousDoHKeyPair::from_parameters(kem, kdf, aead, seed);
        Some(Self { id: pair.public().identifier().ok()?, pair })
    }
}

impl ObliviousTarget {
    /// Creates a target with the key of `seed`. It also accepts the key of `previous`. Returns
    /// `None` if the library refuses a key.
    pub fn new(seed: &[u8; SEED_LEN], previous: Option<&[u8; SEED_LEN]>) -> Option<Self> {
        let present = TargetKey::of(seed)?;
        let config = ObliviousDoHConfig::from(present.pair.public().clone());
        let configs = compose(&ObliviousDoHConfigs::from(vec![config])).ok()?;
        let mut keys = vec![present];
        keys.extend(previous.and_then(TargetKey::of));
        Some(Self { keys, configs: configs.as_ref().into() })
    }

    /// Returns the configurations for clients (RFC 9230 §6.3): the present key.
    pub fn configs(&self) -> &Arc<[u8]> {
        &self.configs
    }

    /// Returns the ID of the present key.
    pub fn key_id(&self) -> &[u8] {
        self.keys.first().map_or(&[], |key| &key.id)
    }

    /// Decrypts a query. This takes about as long as fifty answers from the cache; a query without
    /// a known key takes no more time than its octets need.
    ///
    /// # Errors
    /// The client is at fault.
    pub fn open(&self, octets: &[u8]) -> Result<OpenedQuery, ObliviousFault> {
        if octets.len() > MAX_SEALED {
            return Err(ObliviousFault::Long);
        }
        let mut rest = octets;
        let message: ObliviousDoHMessage =
            parse(&mut rest).map_err(|_| ObliviousFault::Malformed)?;
        if !rest.is_empty() {
            return Err(ObliviousFault::Malformed);
        }
        let key = self.keys.iter().find(|key| key.id == message.key_id());
        let key = key.ok_or(ObliviousFault::UnknownKey)?;
        let (plaintext, secret) =
            decrypt_query(&message, &key.pair).map_err(|error| match error {
                Error::InvalidMessageType => ObliviousFault::Malformed,
                _ => ObliviousFault::Undecipherable,
            })?;
        let query = plaintext.clone().into_msg().to_vec();
        // An update or a notification needs the address of its sender, which a proxy conceals.
        let is_query = |header: Header| !header.has(QR) && header.opcode() == Opcode::QUERY;
        if !Header::read(&query).is_some_and(is_query) {
            return Err(ObliviousFault::NotQuery);
        }
        let mut nonce = ResponseNonce::default();
        rand::fill(&mut nonce).map_err(|_| ObliviousFault::Undecipherable)?;
        let seal = ReplySeal { plaintext, secret: Zeroizing::new(secret), nonce };
        Ok(OpenedQuery { query, seal })
    }
}

/// The keys that seal the reply to one query.
pub struct ReplySeal {
    /// The whole decrypted query, from which the keys are derived together with the secret (RFC
    /// 9230 §6.4).
    plaintext: ObliviousDoHMessagePlaintext,
    secret: Zeroizing<OdohSecret>,
    nonce: ResponseNonce,
}

impl fmt::Debug for ReplySeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplySeal").finish_non_exhaustive()
    }
}

impl ReplySeal {
    /// Returns the encrypted response with padding; `None` if the response is too long to be
    /// encrypted.
    pub fn seal(&self, response: &[u8]) -> Option<Vec<u8>> {
        let padded = response.len().next_multiple_of(PADDED_TO).min(MAX_PADDED);
        let padding = padded.checked_sub(response.len())?;
        let reply = ObliviousDoHMessagePlaintext::new(response, padding);
        let sealed = encrypt_response(&self.plaintext, &reply, *self.secret, self.nonce).ok()?;
        Some(compose(&sealed).ok()?.to_vec())
    }
}

#[cfg(test)]
mod tests;
