//! Folding, hashing and comparing names eight octets at a time.
//!
//! ASCII case folding works on whole words (SWAR). It applies to a wire name including its length
//! octets: those are at most 63 and so never equal the letters `A`-`Z` (65-90).
//!
//! [`HashKey`] is a keyed hash similar to wyhash: it multiplies two keyed words to 128 bits and
//! folds the product. It is not a MAC. An attacker that guesses collisions gains little, because
//! the buckets of the caches have a fixed number of slots: collisions cost evictions, not time.

mod drawn;

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

pub use drawn::DrawnHashKey;

use crate::name::MAX_NAME;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
/// Number of octets that the hash consumes per step.
const BLOCK: usize = 16;
/// Longest question: QNAME, QTYPE, QCLASS.
pub const MAX_QUESTION: usize = MAX_NAME + 4;
/// [`MAX_QUESTION`] rounded up to whole blocks of the hash.
pub(crate) const KEY_ROOM: usize = MAX_QUESTION.next_multiple_of(BLOCK);
/// Number of octets of a name plus the last block that begins in it: see [`HashKey::chain`].
pub const CHAIN_ROOM: usize = (MAX_NAME + BLOCK).next_multiple_of(BLOCK);

/// Converts the ASCII letters among eight octets to lower case.
#[inline]
#[must_use]
pub const fn fold_word(word: u64) -> u64 {
    let low = word & !HIGH;
    let from_a = low + (0x80 - b'A' as u64) * ONES;
    let past_z = low + (0x7f - b'Z' as u64) * ONES;
    let upper = !word & HIGH & (from_a ^ past_z);
    word | (upper >> 2)
}

/// Converts the ASCII letters among the first `count` octets of a block to lower case.
#[inline]
fn fold_start(block: u128, count: usize) -> [u64; 2] {
    let ([low, high], [of_low, of_high]) =
        (halves(block), halves(FIRST_OF_BLOCK[count.min(BLOCK)]));
    [low ^ (low ^ fold_word(low)) & of_low, high ^ (high ^ fold_word(high)) & of_high]
}

/// Copies `source` to the front of `target` with ASCII letters in lower case.
///
/// Copies the shorter of the two lengths.
#[inline]
pub fn fold_into(source: &[u8], target: &mut [u8]) {
    let len = source.len().min(target.len());
    let (source, target) = (&source[..len], &mut target[..len]);
    let (Some(first), Some(last)) = (source.first_chunk::<8>(), source.last_chunk::<8>()) else {
        for (octet, out) in source.iter().zip(target) {
            *out = octet.to_ascii_lowercase();
        }
        return;
    };
    let folded = |word: &[u8; 8]| fold_word(u64::from_le_bytes(*word)).to_le_bytes();
    if let Some(out) = target.first_chunk_mut::<8>() {
        *out = folded(first);
    }
    if len > 16 {
        for (word, out) in
            source[8..].as_chunks::<8>().0.iter().zip(target[8..].as_chunks_mut::<8>().0)
        {
            *out = folded(word);
        }
    }
    // The remaining octets are copied as a word that overlaps the previous one.
    if let Some(out) = target.last_chunk_mut::<8>() {
        *out = folded(last);
    }
}

/// Reports whether two strings are equal, ignoring the case of ASCII letters.
#[inline]
#[must_use]
pub fn eq_folded(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let folded = |word: &[u8; 8]| fold_word(u64::from_le_bytes(*word));
    let (Some(a_first), Some(b_first), Some(a_last), Some(b_last)) =
        (a.first_chunk(), b.first_chunk(), a.last_chunk(), b.last_chunk())
    else {
        return fold_word(short_block(a)[0]) == fold_word(short_block(b)[0]);
    };
    // The remaining octets are compared as a word that overlaps the previous one.
    let mut differ = folded(a_first) ^ folded(b_first) | folded(a_last) ^ folded(b_last);
    if a.len() > 16 {
        for (x, y) in a[8..].as_chunks::<8>().0.iter().zip(b[8..].as_chunks::<8>().0) {
            differ |= folded(x) ^ folded(y);
        }
    }
    differ == 0
}

/// A secret that makes the hashes unpredictable to anyone who chooses the names.
///
/// The server draws it from the system's random source at startup. Tests supply their own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey {
    words: [u64; 4],
}

impl HashKey {
    /// Draws a key for a table of names that others choose. The order and the content of the table
    /// must not depend on the key.
    #[must_use]
    pub fn draw() -> Self {
        let random = RandomState::new();
        let mut secret = [0; 32];
        for (number, word) in secret.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *word = random.hash_one(number).to_le_bytes();
        }
        Self::new(secret)
    }

    /// Creates a key from 32 octets of randomness.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        let (chunks, _) = secret.as_chunks::<8>();
        let mut words = FRACTION_OF_PI;
        for (word, chunk) in words.iter_mut().zip(chunks) {
            // An odd word is not zero. A zero word would cancel the operand of the multiplication.
            *word = (*word ^ u64::from_le_bytes(*chunk)) | 1;
        }
        Self { words }
    }

    /// Hashes `bytes` together with a word that the caller chooses (flags, a type, the profile of a
    /// client).
    ///
    /// Takes about 4 ns for a name of 24 octets.
    #[inline]
    #[must_use]
    pub fn hash(&self, bytes: &[u8], extra: u64) -> u64 {
        let mut state = self.begin(bytes.len(), extra);
        for at in (0..bytes.len()).step_by(16) {
            state = self.mix(state, block(bytes, at));
        }
        self.end(state)
    }

    /// Hashes `bytes` alone, with two multiplications fewer than [`HashKey::hash`].
    #[inline]
    #[must_use]
    pub fn hash_alone(&self, bytes: &[u8]) -> u64 {
        let [start, _, first, second] = self.words;
        let mix = |state: u64, [low, high]: [u64; 2]| fold_mul(low ^ first, high ^ second ^ state);
        let mut state = start.wrapping_mul(bytes.len() as u64 | 1 << 63);
        // The hash covers the length, so the last block may overlap the previous one.
        let Some((last, (before, _))) = bytes
            .last_chunk::<BLOCK>()
            .map(|last| (last, bytes[..bytes.len() - 1].as_chunks::<BLOCK>()))
        else {
            return mix(state, short_block(bytes));
        };
        for block in before.iter().chain(std::iter::once(last)) {
            state = mix(state, halves(u128::from_le_bytes(*block)));
        }
        state
    }

    /// Extends `hash` by the `len` octets at `at`. So one pass from the root yields the hashes of a
    /// name and of all its ancestors.
    ///
    /// The octets must contain their own length, as a label with its length octet does. The room
    /// after the name permits reads of whole blocks; the content of this room does not affect the
    /// hash.
    #[inline]
    #[must_use]
    pub fn chain(&self, hash: u64, octets: &[u8; CHAIN_ROOM], at: usize, len: usize) -> u64 {
        let (mut hash, mut at, mut left) = (hash, at, len);
        while let Some(block) = octets.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
            hash = self
                .mix(hash, halves(u128::from_le_bytes(*block) & FIRST_OF_BLOCK[left.min(BLOCK)]));
            if left <= BLOCK {
                break;
            }
            (at, left) = (at + BLOCK, left - BLOCK);
        }
        hash
    }

    /// Returns the initial hash of a chain.
    #[inline]
    #[must_use]
    pub fn chain_start(&self) -> u64 {
        self.begin(0, 0)
    }

    /// Copies `question` to `out` with its name folded and hashes it, with the same result as
    /// [`fold_into`] and [`HashKey::hash`]. The last four octets are QTYPE and QCLASS and stay
    /// unchanged. The rest of the last block of sixteen octets becomes zero.
    ///
    /// Writes each whole block once, and hashes it from the registers in which it was folded:
    /// reading memory that several smaller writes have just filled stalls the processor.
    #[inline]
    pub(crate) fn fold_and_hash(
        &self,
        question: &[u8],
        extra: u64,
        out: &mut [u8; KEY_ROOM],
    ) -> u64 {
        let Some(last) = question.last_chunk::<BLOCK>() else {
            return self.fold_and_hash_short(question, extra, out);
        };
        let mut state = self.begin(question.len(), extra);
        let name_len = question.len() - 4;
        let (whole, name_rest) = question[..name_len].as_chunks::<BLOCK>();
        let (places, rest_places) = out.as_chunks_mut::<BLOCK>().0.split_at_mut(whole.len());
        for (block, place) in whole.iter().zip(places) {
            *place = *block;
            place.make_ascii_lowercase();
            state = self.mix(state, halves(u128::from_le_bytes(*place)));
        }
        let [first_place, second_place, ..] = rest_places else { return state };
        let last = u128::from_le_bytes(*last);
        // The rest of the name, QTYPE and QCLASS fill one block or two.
        let folded = match question[whole.len() * BLOCK..].split_first_chunk::<BLOCK>() {
            Some((first, behind)) if !behind.is_empty() => {
                let folded = fold_start(u128::from_le_bytes(*first), name_rest.len());
                *first_place = whole_block(folded);
                state = self.mix(state, folded);
                let behind =
                    halves(last >> (8 * (BLOCK - behind.len().min(BLOCK)) as u32 % u128::BITS));
                *second_place = whole_block(behind);
                behind
            }
            _ => {
                let missing = BLOCK - (name_rest.len() + 4).min(BLOCK);
                let folded = fold_start(last >> (8 * missing as u32 % u128::BITS), name_rest.len());
                *first_place = whole_block(folded);
                folded
            }
        };
        self.end(self.mix(state, folded))
    }

    /// Folds and hashes like [`HashKey::fold_and_hash`], for a question shorter than a block.
    #[cold]
    fn fold_and_hash_short(&self, question: &[u8], extra: u64, out: &mut [u8; KEY_ROOM]) -> u64 {
        let mut state = self.begin(question.len(), extra);
        if !question.is_empty() {
            let [low, high] = short_block(question);
            let folded = fold_start(
                u128::from(low) | u128::from(high) << 64,
                question.len().saturating_sub(4),
            );
            out[..BLOCK].copy_from_slice(&whole_block(folded));
            state = self.mix(state, folded);
        }
        self.end(state)
    }

    #[inline]
    fn begin(&self, len: usize, extra: u64) -> u64 {
        fold_mul(extra ^ self.words[0], len as u64 ^ self.words[1])
    }

    #[inline]
    fn mix(&self, state: u64, [low, high]: [u64; 2]) -> u64 {
        fold_mul(low ^ self.words[2], high ^ state)
    }

    #[inline]
    fn end(&self, state: u64) -> u64 {
        fold_mul(state ^ self.words[3], self.words[0])
    }
}

impl Default for HashKey {
    /// Returns a key that everyone knows, for maps whose owner chooses all names in them. A client
    /// that only looks names up cannot make two entries collide.
    fn default() -> Self {
        Self::new([0; 32])
    }
}

impl BuildHasher for HashKey {
    type Hasher = NameHasher;

    #[inline]
    fn build_hasher(&self) -> NameHasher {
        NameHasher { key: *self, state: 0 }
    }
}

/// [`HashKey`] as the hash function of a map of names or numbers.
#[derive(Clone, Copy)]
pub struct NameHasher {
    key: HashKey,
    state: u64,
}

impl Hasher for NameHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.state = self.key.hash(bytes, self.state);
    }

    /// Adds the length that precedes a slice to the hash. The octets of the slice are hashed
    /// separately.
    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.state = self.state.rotate_left(7) ^ number as u64;
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.write_u128(number.into());
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        // Each factor has a secret word, because the octets could cancel the other factor.
        let ([low, high], words) = (halves(number), self.key.words);
        self.state = fold_mul(low ^ words[2], high ^ words[3] ^ self.state);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

/// Hashes without a secret, with the same result in every process. The author of the octets can
/// make hashes equal, so tables of names that others choose use [`HashKey::hash_alone`].
#[inline]
#[must_use]
pub fn without_secret(bytes: &[u8]) -> u64 {
    const PUBLIC: HashKey = HashKey { words: FRACTION_OF_PI };
    PUBLIC.hash_alone(bytes)
}

/// Constants that keep the words distinct when all octets of the secret are equal, as in tests.
const FRACTION_OF_PI: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

/// Returns the first `count` octets of a word, followed by zeros.
#[inline]
pub(crate) const fn first_octets(word: u64, count: usize) -> u64 {
    word & FIRST[if count > 8 { 8 } else { count }]
}

/// Masks for the first octets of a word. A table look-up is cheaper than a shift with its bounds
/// check.
const FIRST: [u64; 9] = [
    0,
    0xff,
    0xffff,
    0xff_ffff,
    0xffff_ffff,
    0xff_ffff_ffff,
    0xffff_ffff_ffff,
    0xff_ffff_ffff_ffff,
    u64::MAX,
];

/// Masks for the first octets of a block.
const FIRST_OF_BLOCK: [u128; BLOCK + 1] = {
    let mut masks = [0; BLOCK + 1];
    let mut count = 1;
    while count <= BLOCK {
        masks[count] = masks[count - 1] << 8 | 0xff;
        count += 1;
    }
    masks
};

/// Returns the eight octets at `at`, with zeros after the end.
#[inline]
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    match (rest.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(chunk), _) => u64::from_le_bytes(*chunk),
        (None, Some(last)) => {
            u64::from_le_bytes(*last).checked_shr(8 * (8 - rest.len() as u32)).unwrap_or(0)
        }
        (None, None) => short_block(rest)[0],
    }
}

/// Returns the sixteen octets at `at`, with zeros after the end. Avoids a copy of variable length,
/// which would cost more than the whole hash.
#[inline]
fn block(bytes: &[u8], at: usize) -> [u64; 2] {
    let rest = bytes.get(at..).unwrap_or_default();
    let whole = match (rest.first_chunk::<16>(), bytes.last_chunk::<16>()) {
        (Some(chunk), _) => u128::from_le_bytes(*chunk),
        (None, Some(last)) => {
            u128::from_le_bytes(*last).checked_shr(8 * (16 - rest.len() as u32)).unwrap_or(0)
        }
        (None, None) => return short_block(rest),
    };
    halves(whole)
}

#[inline]
const fn halves(block: u128) -> [u64; 2] {
    [block as u64, (block >> 64) as u64]
}

#[inline]
fn whole_block([low, high]: [u64; 2]) -> [u8; BLOCK] {
    (u128::from(low) | u128::from(high) << 64).to_le_bytes()
}

/// Returns all octets of a string shorter than sixteen.
#[inline]
fn short_block(bytes: &[u8]) -> [u64; 2] {
    let len = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        let high = u64::from_le_bytes(*last).checked_shr(8 * (16 - len) as u32).unwrap_or(0);
        return [u64::from_le_bytes(*first), high];
    }
    let low = match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>(), bytes) {
        // Octets in the overlap are equal in both operands.
        (Some(first), Some(last), _) => {
            u64::from(u32::from_le_bytes(*first))
                | u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4))
        }
        (_, _, &[first, .., last]) => {
            u64::from(first)
                | u64::from(bytes[len / 2]) << (8 * (len / 2))
                | u64::from(last) << (8 * (len - 1))
        }
        (_, _, &[only]) => u64::from(only),
        _ => 0,
    };
    [low, 0]
}

#[inline]
const fn fold_mul(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn chained_octets_count_and_their_neighbours_do_not() {
        let key = HashKey::new([4; 32]);
        let hash = |bytes: &[u8], at, len| {
            let mut octets = [0xaa; CHAIN_ROOM];
            octets[..bytes.len()].copy_from_slice(bytes);
            key.chain(key.chain_start(), &octets, at, len)
        };
        let text: Vec<u8> = (0..80).collect();
        let mut found = HashSet::new();
        for len in 1..=64 {
            let alone = hash(&text[3..3 + len], 0, len);
            assert_eq!(hash(&text, 3, len), alone, "{len}");
            assert_eq!(hash(&[&text[..3 + len], &[0xff; 40]].concat(), 3, len), alone, "{len}");
            assert!(found.insert(alone));
            let mut other = text[3..3 + len].to_vec();
            other[len - 1] ^= 1;
            assert!(found.insert(hash(&other, 0, len)), "{len}");
        }
        let twice = |first: u8, second: u8| {
            let mut octets = [0; CHAIN_ROOM];
            octets[..2].copy_from_slice(&[first, second]);
            key.chain(key.chain(key.chain_start(), &octets, 0, 1), &octets, 1, 1)
        };
        assert_ne!(twice(1, 2), twice(2, 1));
        assert_eq!(
            key.chain(7, &[0; CHAIN_ROOM], CHAIN_ROOM, 3),
            7,
            "past the room there is nothing"
        );
    }

    #[test]
    fn folding_a_word_equals_folding_each_octet() {
        for octet in 0..=255u8 {
            for at in 0..8 {
                let mut word = [b'x'; 8];
                word[at] = octet;
                let mut expected = word;
                expected.make_ascii_lowercase();
                assert_eq!(fold_word(u64::from_le_bytes(word)).to_le_bytes(), expected);
            }
        }
    }

    #[test]
    fn folding_and_comparing_work_at_every_length() {
        let mixed: Vec<u8> = (0..=255).collect();
        for len in 0..64 {
            let source = &mixed[60..60 + len];
            let mut folded = vec![0; len];
            fold_into(source, &mut folded);
            assert_eq!(folded, source.to_ascii_lowercase());
            assert!(eq_folded(source, &folded));
            if len > 0 {
                folded[len - 1] ^= 0x80;
                assert!(!eq_folded(source, &folded));
            }
        }
    }

    #[test]
    fn the_hash_depends_on_key_length_extra_and_every_octet() {
        let secret = std::array::from_fn(|at| (at as u8).wrapping_mul(151) ^ 0x5b);
        let key = HashKey::new(secret);
        let base = key.hash(b"\x03www\x07example\x00", 5);
        assert_eq!(base, key.hash(b"\x03www\x07example\x00", 5));
        assert_ne!(base, HashKey::new([8; 32]).hash(b"\x03www\x07example\x00", 5));
        assert_ne!(base, key.hash(b"\x03www\x07example\x00", 6));
        assert_ne!(base, key.hash(b"\x03www\x07example\x00\x00", 5));
        let mut seen = HashSet::new();
        for at in 0..40 {
            for bit in 0..8 {
                let mut bytes = [0u8; 40];
                bytes[at] = 1 << bit;
                assert!(seen.insert(key.hash(&bytes, 0)));
            }
        }
    }

    #[test]
    fn every_bit_of_input_changes_about_half_the_bits_of_the_hash() {
        for secret in [[0; 32], [0xff; 32], *b"0123456789abcdefFEDCBA9876543210"] {
            let key = HashKey::new(secret);
            for len in [1, 5, 8, 13, 16, 21, 32, 45] {
                let name: Vec<u8> =
                    (0..len).map(|at| (at as u8).wrapping_mul(151) ^ 0x61).collect();
                let base = key.hash(&name, 1);
                let mut changed = [0u32; 64];
                for bit in 0..8 * len {
                    let mut other = name.clone();
                    other[bit / 8] ^= 1 << (bit % 8);
                    let differ = base ^ key.hash(&other, 1);
                    assert!((10..=54).contains(&differ.count_ones()), "bit {bit} of {len} octets");
                    (0..64).for_each(|at| changed[at] += (differ >> at & 1) as u32);
                }
                let always =
                    changed.iter().filter(|count| len > 4 && **count == 8 * len as u32).count();
                let never = changed.iter().filter(|count| len > 4 && **count == 0).count();
                assert_eq!((always, never), (0, 0), "{len} octets");
            }
        }
    }

    /// Row S34 of `tests/SECURITY.md`: knowledge of names that collide under one key does not help
    /// under another key.
    #[test]
    fn names_that_collide_under_one_key_are_spread_under_another() {
        const BUCKETS: u64 = 512;
        let (known, drawn) =
            (HashKey::new([7; 32]), HashKey::new(*b"0123456789abcdefFEDCBA9876543210"));
        let name = |number: u64| format!("\x08{number:08}\x07example\x00").into_bytes();
        let crafted = (0..).map(name).filter(|name| known.hash(name, 0) % BUCKETS == 3).take(2_000);
        let mut counts = [0u32; BUCKETS as usize];
        for name in crafted {
            counts[(drawn.hash(&name, 0) % BUCKETS) as usize] += 1;
        }
        let most = counts.iter().max().unwrap();
        // The mean is four. In random trials a bucket of 17 occurs about once in a thousand.
        assert!(*most <= 17, "{most} in one bucket");
    }

    #[test]
    fn lengths_and_zeros_at_the_end_give_different_hashes() {
        let key = HashKey::new([0; 32]);
        let hashes: HashSet<u64> = (0..=64)
            .flat_map(|len| (0..4).map(move |extra| (len, extra)))
            .map(|(len, extra)| key.hash(&[0; 64][..len], extra))
            .collect();
        assert_eq!(hashes.len(), 65 * 4);
    }

    #[test]
    fn each_drawn_key_gives_other_hashes() {
        let hashes: HashSet<u64> =
            (0..100).map(|_| HashKey::draw().hash_alone(b"\x07example\x00")).collect();
        assert_eq!(hashes.len(), 100);
    }

    #[test]
    fn the_hash_without_secret_is_the_same_in_every_process() {
        let name = b"\x03www\x07example\x03net\x00";
        assert_eq!(without_secret(name), 0x9c5f_fc18_68ad_503a);
    }

    #[test]
    fn folding_and_hashing_at_once_equals_one_after_the_other() {
        let key = HashKey::new([9; 32]);
        let octets: Vec<u8> = (0..259).map(|at| (at * 37 + 11) as u8 & 0x7f).collect();
        for len in 0..octets.len() {
            let name_len = len.saturating_sub(4);
            let mut expected = octets[..len].to_vec();
            expected[..name_len].make_ascii_lowercase();
            let mut folded = [0xff; KEY_ROOM];
            let hash = key.fold_and_hash(&octets[..len], 3, &mut folded);
            assert_eq!((&folded[..len], hash), (&expected[..], key.hash(&expected, 3)));
        }
    }

    #[test]
    fn the_hash_without_secret_depends_on_length_and_every_octet() {
        let mut seen = HashSet::new();
        for len in 0..70 {
            assert!(seen.insert(without_secret(&vec![0; len])));
            for bit in 0..8 * len {
                let mut octets = vec![0; len];
                octets[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(without_secret(&octets)), "bit {bit} of {len} octets");
            }
        }
    }

    #[test]
    fn a_map_of_names_finds_each_of_them() {
        let names: Vec<Vec<u8>> =
            (0..2000u32).map(|number| format!("host-{number}").into_bytes()).collect();
        let map: HashMap<Box<[u8]>, usize, HashKey> = names
            .iter()
            .enumerate()
            .map(|(number, name)| (name.as_slice().into(), number))
            .collect();
        assert!(
            names
                .iter()
                .enumerate()
                .all(|(number, name)| map.get(name.as_slice()) == Some(&number))
        );
        assert_eq!(map.get(&b"host-2000"[..]), None);
    }
}
