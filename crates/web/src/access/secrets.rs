//! Random values, digests and comparisons of secrets.

use avocet_control::access::AccessFault;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;

/// A SHA-256 digest. Only digests of tokens, session identifiers and recovery codes are stored:
/// these secrets have at least 80 random bits, so that a plain digest is not reversible.
pub(crate) type Digest = [u8; 32];

/// Returns the digest of a secret text.
pub(crate) fn digest_of(text: &str) -> Digest {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    out
}

/// Returns whether two octet strings are equal, in a time that does not depend on their content.
pub(crate) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    verify_slices_are_equal(one, other).is_ok()
}

/// Returns octets from the system's random source.
///
/// # Errors
/// The system has no random octets.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], AccessFault> {
    let mut octets = [0; N];
    getrandom::fill(&mut octets).map_err(|error| AccessFault::Unsaved(error.to_string()))?;
    Ok(octets)
}

/// Returns 256 random bits as text for URLs and headers.
///
/// # Errors
/// The system has no random octets.
pub(crate) fn random_text() -> Result<String, AccessFault> {
    Ok(BASE64URL_NOPAD.encode(&random::<32>()?))
}
