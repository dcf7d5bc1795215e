//! Remembers recently verified signatures. Servers of a zone send its SOA record and often the same
//! proofs with each negative response. Verifying them again would cost more than the rest of the
//! response.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest::{self, SHA256};

/// Maximum number of signatures that are kept for the keys of a zone. A further signature replaces
/// the oldest one.
const MAX_SIGNATURES: usize = 16;

/// A digest of a signature and the data it covers.
pub(crate) type SignatureDigest = [u8; 32];

/// The signatures that verified with the keys of one zone. Discarded together with these keys. The
/// caller checks the validity period of a signature.
#[derive(Debug, Default)]
pub(crate) struct Memo(Mutex<VecDeque<SignatureDigest>>);

impl Memo {
    /// Computes the digest of a signature. The message includes algorithm and key tag (RFC 4034
    /// §3.1.8.1).
    pub(crate) fn digest(message: &[u8], signature: &[u8]) -> SignatureDigest {
        let mut context = digest::Context::new(&SHA256);
        context.update(&(message.len() as u64).to_be_bytes());
        context.update(message);
        context.update(signature);
        let mut out = [0; 32];
        out.copy_from_slice(context.finish().as_ref());
        out
    }

    pub(crate) fn contains(&self, digest: &SignatureDigest) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(digest)
    }

    pub(crate) fn insert(&self, digest: SignatureDigest) {
        let mut digests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if digests.len() == MAX_SIGNATURES {
            digests.pop_front();
        }
        digests.push_back(digest);
    }

    /// Returns the memory in use beyond the struct itself, in octets.
    pub(crate) fn octets(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).capacity()
            * size_of::<SignatureDigest>()
    }
}

/// The memo does not affect the equality of keys.
impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Memo {}
