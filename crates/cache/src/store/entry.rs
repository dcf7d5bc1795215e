//! The layout of an entry in a ring: three header words, then the payload, padded to whole words.
//!
//! ```text
//! word 0: low half of the hash (32) | unused (15) | words of the entry (14) | bytes of padding (3)
//! word 1: stored_at (32) | valid_for (32)
//! word 2: epoch (32) | user (32)
//! ```
//! The key is a part of the payload, and only the caller knows where. When a ring frees an entry,
//! the low half of the hash determines the two buckets of the index that may refer to the entry.

use crate::sync::{AtomicU64, Ordering};

/// Number of words before the payload.
pub(super) const HEADER_WORDS: usize = 3;
const WORD: usize = 8;
const PADDING_BITS: u32 = 3;
const PADDING_MASK: u64 = (1 << PADDING_BITS) - 1;
const WORDS_MASK: u64 = (1 << 14) - 1;

/// Maximum number of payload bytes of one entry: a message of 64 KiB and the data that its cache
/// adds.
pub const MAX_PAYLOAD_BYTES: usize = 72 * 1024;

const _: () = assert!(MAX_PAYLOAD_BYTES / WORD + HEADER_WORDS <= WORDS_MASK as usize);

/// The properties that the store keeps with the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The time of storage, in seconds of the caller's clock.
    pub(crate) stored_at: u32,
    /// The validity in seconds, counted from `stored_at`.
    pub(crate) valid_for: u32,
    /// A value of the caller, which the store does not interpret.
    pub(crate) epoch: u32,
    /// A value of the caller, which the store does not interpret.
    pub(crate) user: u32,
}

impl Meta {
    /// Returns the seconds since the entry was stored; zero if the clock was set back.
    #[inline]
    pub(crate) fn age(&self, now: u32) -> u32 {
        (now.wrapping_sub(self.stored_at) as i32).max(0) as u32
    }

    /// Returns the remaining seconds of validity, or, as an error, the seconds since the validity
    /// ended.
    #[inline]
    pub(crate) fn remaining(&self, now: u32) -> Result<u32, u32> {
        let age = self.age(now);
        if age < self.valid_for { Ok(self.valid_for - age) } else { Err(age - self.valid_for) }
    }

    /// Reports whether more than `keep_secs` have passed since the validity ended.
    pub(crate) fn is_outlived(&self, now: u32, keep_secs: u32) -> bool {
        self.remaining(now).is_err_and(|past| past >= keep_secs)
    }
}

/// An entry to store. The payload is the concatenation of the parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryParts<'a> {
    pub(crate) meta: Meta,
    pub(crate) parts: [&'a [u8]; 2],
}

impl EntryParts<'_> {
    pub(super) fn payload_len(&self) -> usize {
        self.parts[0].len() + self.parts[1].len()
    }

    pub(super) fn words(&self) -> usize {
        HEADER_WORDS + self.payload_len().div_ceil(WORD)
    }
}

/// The header words of a stored entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) low: u32,
    pub(super) words: usize,
    padding: usize,
    pub(super) meta: Meta,
}

impl Header {
    /// Reads the header. The result is arbitrary while the writer changes the words.
    #[inline]
    pub(super) fn load(words: &[AtomicU64; HEADER_WORDS]) -> Header {
        let [first, times, rest] = words.each_ref().map(|word| word.load(Ordering::Relaxed));
        Header {
            low: (first >> 32) as u32,
            words: ((first >> PADDING_BITS) & WORDS_MASK) as usize,
            padding: (first & PADDING_MASK) as usize,
            meta: Meta {
                stored_at: (times >> 32) as u32,
                valid_for: times as u32,
                epoch: (rest >> 32) as u32,
                user: rest as u32,
            },
        }
    }

    #[inline]
    pub(super) fn payload_words(&self) -> usize {
        self.words.saturating_sub(HEADER_WORDS)
    }

    #[inline]
    pub(super) fn payload_len(&self) -> usize {
        (self.payload_words() * WORD).saturating_sub(self.padding)
    }
}

/// Writes header and payload to `words`, which must have the length `entry.words()`.
pub(super) fn store_entry(words: &[AtomicU64], low: u32, entry: &EntryParts<'_>) {
    let padding = (entry.words() - HEADER_WORDS) * WORD - entry.payload_len();
    let meta = &entry.meta;
    let header = [
        (u64::from(low) << 32) | ((entry.words() as u64) << PADDING_BITS) | padding as u64,
        (u64::from(meta.stored_at) << 32) | u64::from(meta.valid_for),
        (u64::from(meta.epoch) << 32) | u64::from(meta.user),
    ];
    let mut cells = words.iter();
    let mut put = |value| {
        if let Some(cell) = cells.next() {
            cell.store(value, Ordering::Relaxed);
        }
    };
    header.into_iter().for_each(&mut put);
    pack(&entry.parts, put);
}

/// Packs the parts into words, and pads the last word with zeros.
fn pack(parts: &[&[u8]], mut put: impl FnMut(u64)) {
    let mut carry = [0u8; WORD];
    let mut filled = 0;
    for part in parts {
        let (start, rest) = part.split_at(part.len().min((WORD - filled) % WORD));
        carry[filled..filled + start.len()].copy_from_slice(start);
        filled += start.len();
        if filled == WORD {
            put(u64::from_le_bytes(carry));
            filled = 0;
        }
        let (whole, tail) = rest.as_chunks::<WORD>();
        whole.iter().for_each(|chunk| put(u64::from_le_bytes(*chunk)));
        carry[filled..filled + tail.len()].copy_from_slice(tail);
        filled += tail.len();
    }
    if filled > 0 {
        carry[filled..].fill(0);
        put(u64::from_le_bytes(carry));
    }
}

/// Copies the first `len` bytes of `words` to `out`, or as many bytes as fit. If `out` has room,
/// the last word is copied whole, which may zero up to seven bytes after `len`.
#[inline]
pub(super) fn copy_payload(words: &[AtomicU64], out: &mut [u8], len: usize) {
    let (chunks, tail) = out.as_chunks_mut::<WORD>();
    for (chunk, word) in chunks.iter_mut().zip(words) {
        *chunk = word.load(Ordering::Relaxed).to_le_bytes();
    }
    let whole = chunks.len();
    if let Some(word) = words.get(whole)
        && len > whole * WORD
    {
        let bytes = word.load(Ordering::Relaxed).to_le_bytes();
        tail.copy_from_slice(&bytes[..tail.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::zeroed_words;

    #[test]
    fn parts_of_any_length_come_back() {
        let bytes: Vec<u8> = (1..=60).collect();
        for first in 0..24 {
            for second in 0..24 {
                let meta = Meta { stored_at: 1, valid_for: 2, epoch: 3, user: 4 };
                let entry =
                    EntryParts { meta, parts: [&bytes[..first], &bytes[first..first + second]] };
                let words = zeroed_words(entry.words());
                store_entry(&words, 77, &entry);
                let header = Header::load(words.first_chunk().unwrap());
                assert_eq!((header.low, header.words, header.meta), (77, entry.words(), meta));
                assert_eq!(header.payload_len(), first + second);
                for room in 0..56 {
                    let mut out = vec![0xff; room];
                    copy_payload(&words[HEADER_WORDS..], &mut out, header.payload_len());
                    let copied = room.min(first + second);
                    assert_eq!(out[..copied], bytes[..copied], "{first}+{second} into {room}");
                }
            }
        }
    }

    #[test]
    fn age_never_grows_when_the_clock_steps_back() {
        let meta = Meta { stored_at: 100, valid_for: 30, epoch: 0, user: 0 };
        assert_eq!((meta.age(90), meta.remaining(90)), (0, Ok(30)));
        assert_eq!((meta.remaining(129), meta.remaining(130)), (Ok(1), Err(0)));
        let before_zero = Meta { stored_at: 5u32.wrapping_sub(20), ..meta };
        assert_eq!((before_zero.age(5), before_zero.remaining(5)), (20, Ok(10)));
    }
}
