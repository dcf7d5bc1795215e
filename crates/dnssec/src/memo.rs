//! Signatures that verified lately. A zone sends its SOA record and its proofs with each denial,
//! and verifying them costs more than the rest of the answer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest::{self, SHA256};

/// Most signatures that are kept for the keys of a zone; the oldest gives way.
const MAX_SIGNATURES: usize = 16;

/// A digest of a signature and of what it signs.
pub(crate) type SignatureDigest = [u8; 32];

/// The signatures that verified with the keys of one zone. It lives as long as these keys; whether
/// a signature is valid at this time is not its business.
#[derive(Debug, Default)]
pub(crate) struct Memo(Mutex<VecDeque<SignatureDigest>>);

impl Memo {
    /// What a signature is known by. The message names algorithm and key tag (RFC 4034 §3.1.8.1).
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

    /// Octets of memory beyond its own size.
    pub(crate) fn octets(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).capacity()
            * size_of::<SignatureDigest>()
    }
}

/// Keys are the same whatever they have verified.
impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Memo {}
