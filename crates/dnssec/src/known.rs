//! Signatures that this thread made itself, so that it knows the result of their verification.
//!
//! Only simulations have this module (the feature `known-signatures`): they sign all zones and
//! verify the same signatures again, which takes more time than all other work of the validator. No
//! server adds a signature here. A key verifies each signature that it made (RFC 8032 §5.1), so the
//! result is the same as without this module; all other signatures are verified.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::Algorithm;

/// Maximum number of known signatures. At this number, all are forgotten.
const MAX_KNOWN: usize = 4_096;

thread_local!(static KNOWN: RefCell<HashMap<Box<[u8]>, Made>> = RefCell::default());

/// The key and the message of a signature.
struct Made {
    key: Box<[u8]>,
    message: Box<[u8]>,
}

/// Adds a signature that this key made over the message with Ed25519.
///
/// # Panics
/// In a debug build, if the key does not verify the signature.
pub fn add(key: &[u8], message: &[u8], signature: &[u8]) {
    debug_assert!(
        Algorithm::Ed25519.verifies(key, message, signature),
        "only valid signatures are known"
    );
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(signature.into(), Made { key: key.into(), message: message.into() });
    });
}

/// Reports whether this key made the signature over exactly this message.
pub(crate) fn contains(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    KNOWN.with_borrow(|known| {
        known.get(signature).is_some_and(|made| *made.key == *key && *made.message == *message)
    })
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};

    use super::*;

    #[test]
    fn only_the_same_key_message_and_signature_are_known() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let (key, signed) = (pair.public_key().as_ref(), pair.sign(b"message"));
        let signature = signed.as_ref();
        assert!(!contains(key, b"message", signature));
        add(key, b"message", signature);
        assert!(contains(key, b"message", signature));
        assert!(!contains(&[1; 32], b"message", signature));
        assert!(!contains(key, b"message.", signature));
        assert!(!contains(key, b"message", &signature[1..]));
        assert!(!contains(key, b"message", &[signature, &[0]].concat()));
    }

    #[test]
    fn the_number_of_known_signatures_is_limited() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).unwrap();
        for number in 0..=MAX_KNOWN {
            let message = number.to_be_bytes();
            add(pair.public_key().as_ref(), &message, pair.sign(&message).as_ref());
        }
        assert_eq!(KNOWN.with_borrow(HashMap::len), 1);
    }
}
