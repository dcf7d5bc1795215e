//! The layout of an image.
//!
//! ```text
//!   0  magic (8)                     8  version (4)          12  flags (4)
//!  16  digest of all octets from 32 on (16)
//!  32  key of the hashes (32)       64  depths (16)          80  number of names (8)
//!  88  for each section: its offset (8) and its length in octets (8)
//! 184  the sections
//! ```
//!
//! All numbers are little-endian. Names are sorted by their hashes. A bucket is a range of hashes
//! with four names on average, and `BUCKETS` has the start of each.

use std::ops::Range;

use siphasher::sip128::{Hasher128, SipHasher13};

pub(super) const MAGIC: [u8; 8] = *b"AVOCETLI";
/// The version of the layout and of the hash. Images of other versions are compiled again.
pub(super) const VERSION: u32 = 4;

/// Flag: some entries of the image disable others.
pub(super) const HAS_BADFILTER: u32 = 1;

pub(super) const FLAGS: usize = 12;
pub(super) const DIGEST: usize = 16;
pub(super) const KEY: usize = 32;
pub(super) const DEPTHS: usize = 64;
pub(super) const NAMES: usize = 80;
const SECTIONS: usize = 88;
/// Length of the header before the sections, in octets.
pub(super) const HEADER: usize = SECTIONS + COUNT * 16;

/// Number of sections.
pub(super) const COUNT: usize = 6;
/// The index of the section with the Bloom filter over all names.
pub(super) const FILTER: usize = 0;
/// The index of the section with buckets. For each bucket and for the end: the number of its first
/// name (4 octets).
pub(super) const BUCKETS: usize = 1;
/// The index of the section with names. For each name: its hash (8 octets) and the offset of its
/// sites (4 octets).
pub(super) const ENTRIES: usize = 2;
/// The index of the section with the sites (lines) of names and patterns.
pub(super) const SITES: usize = 3;
/// The index of the section with sets of modifiers, preceded by their number.
pub(super) const MODIFIERS: usize = 4;
/// The index of the section with patterns. It begins with the number of patterns, and the number of
/// patterns in the operator's own lists. For each pattern: form (1 octet), offset of the sites,
/// text.
pub(super) const PATTERNS: usize = 5;

/// Number of octets for one name in the section of names.
pub(super) const ENTRY: usize = 12;

/// Mean number of names per bucket.
const NAMES_A_BUCKET: usize = 4;

/// Returns the number of buckets for this many names.
pub(crate) fn buckets_for(names: usize) -> usize {
    names.div_ceil(NAMES_A_BUCKET).max(1)
}

/// Returns the bucket of a hash. Higher hashes are in the same or in higher buckets.
#[inline]
pub(crate) const fn bucket_of(hash: u64, buckets: usize) -> usize {
    ((hash as u128 * buckets as u128) >> 64) as usize
}

/// Assembles an image from its sections. Frees the memory of each section after it is copied.
pub(super) fn assemble(
    flags: u32,
    key: &[u8; 32],
    depths: u128,
    names: u64,
    sections: [Vec<u8>; COUNT],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + sections.iter().map(Vec::len).sum::<usize>());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&[0; 16]);
    out.extend_from_slice(key);
    out.extend_from_slice(&depths.to_le_bytes());
    out.extend_from_slice(&names.to_le_bytes());
    let mut at = HEADER as u64;
    for section in &sections {
        out.extend_from_slice(&at.to_le_bytes());
        out.extend_from_slice(&(section.len() as u64).to_le_bytes());
        at += section.len() as u64;
    }
    for section in sections {
        out.extend_from_slice(&section);
    }
    let digest = digest_of(&out);
    out[DIGEST..DIGEST + 16].copy_from_slice(&digest.to_le_bytes());
    out
}

/// Computes the digest of an image. It identifies the image and detects incomplete writes, but not
/// deliberate changes.
pub(super) fn digest_of(image: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new();
    std::hash::Hasher::write(&mut hasher, image.get(KEY..).unwrap_or_default());
    hasher.finish128().as_u128()
}

/// Returns the range of a section according to the header.
pub(super) fn section(image: &[u8], section: usize) -> Option<Range<usize>> {
    let at = SECTIONS + section * 16;
    let start = usize::try_from(u64_at(image, at)?).ok()?;
    let len = usize::try_from(u64_at(image, at + 8)?).ok()?;
    let end = start.checked_add(len)?;
    (start >= HEADER && end <= image.len()).then_some(start..end)
}

#[inline]
pub(super) fn u64_at(octets: &[u8], at: usize) -> Option<u64> {
    octets.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

#[inline]
pub(super) fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

pub(super) fn u128_at(octets: &[u8], at: usize) -> Option<u128> {
    octets.get(at..)?.first_chunk().map(|word| u128::from_le_bytes(*word))
}
