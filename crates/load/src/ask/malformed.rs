//! Deliberately malformed queries, like those of a fuzzer, a scanner or a faulty link.
//!
//! Each query is derived from a valid query and a random number, so the seed and the serial number
//! reproduce a packet that crashed a server.

use avocet_wire::header::HEADER_LEN;

use super::questions::MAX_QUERY;
use crate::random::Random;

/// Number of kinds of damage; see [`mangle`].
const KINDS: u64 = 12;

/// Writes a malformed variant of `valid` to `out`, which has room for [`MAX_QUERY`] octets, and
/// returns its length.
pub(crate) fn mangle(valid: &[u8], random: &mut Random, out: &mut [u8]) -> usize {
    let len = valid.len().min(MAX_QUERY).min(out.len());
    let Some((source, place)) = valid.get(..len).zip(out.get_mut(..len)) else { return 0 };
    place.copy_from_slice(source);
    match random.below(KINDS) {
        0 => random.below(len as u64 + 1) as usize,
        1 => flip_bits(out, len, random),
        2 => noise(out, random),
        3 => set(out, len, 4, random.next() as u16),
        4 => set(out, len, 6 + 2 * random.below(3) as usize, random.next() as u16),
        5 => set(out, len, 2, random.next() as u16),
        // A compression pointer in the question: to itself, forwards, or to a random offset.
        6 => set(
            out,
            len,
            HEADER_LEN,
            0xc000
                | [HEADER_LEN as u16, 0x3fff, random.next() as u16 & 0x3fff]
                    [random.below(3) as usize],
        ),
        // A label of a reserved type, or a label that is longer than the rest of the message.
        7 => set(
            out,
            len,
            HEADER_LEN,
            [0x4000, 0x8000, 0x3f61][random.below(3) as usize] | random.next() as u16 & 0xff,
        ),
        8 => append_noise(out, len, random),
        9 => append_record(out, len, 41, random),
        10 => append_record(out, len, 250, random),
        _ => long_name(out, random),
    }
}

fn flip_bits(out: &mut [u8], len: usize, random: &mut Random) -> usize {
    for _ in 0..=random.below(8) {
        // The ID stays unchanged, so that the answer can be matched.
        let at = 2 + random.below(len.saturating_sub(2).max(1) as u64) as usize;
        if let Some(octet) = out.get_mut(at).filter(|_| at < len) {
            *octet ^= 1 << random.below(8);
        }
    }
    len
}

fn noise(out: &mut [u8], random: &mut Random) -> usize {
    let len = random.below(out.len().min(MAX_QUERY) as u64 + 1) as usize;
    fill(out, 0, len, random)
}

fn append_noise(out: &mut [u8], len: usize, random: &mut Random) -> usize {
    let end = (len + 1 + random.below(64) as usize).min(out.len());
    fill(out, len, end, random)
}

fn fill(out: &mut [u8], start: usize, end: usize, random: &mut Random) -> usize {
    for octet in out.iter_mut().take(end).skip(start) {
        *octet = random.next() as u8;
    }
    end
}

fn set(out: &mut [u8], len: usize, at: usize, word: u16) -> usize {
    if let Some(pair) = out.get_mut(at..at + 2).filter(|_| at + 2 <= len) {
        pair.copy_from_slice(&word.to_be_bytes());
    }
    len
}

/// Appends a record of type `rtype` with a random length and random data to the additional section,
/// where OPT and TSIG records have a special meaning.
fn append_record(out: &mut [u8], len: usize, rtype: u8, random: &mut Random) -> usize {
    let head = [
        0,
        0,
        rtype,
        random.next() as u8,
        random.next() as u8,
        0,
        random.next() as u8,
        0x80,
        0,
        0,
        random.next() as u8,
    ];
    let end = (len + head.len()).min(out.len());
    if let Some(count) = out.get_mut(11) {
        *count = count.saturating_add(1);
    }
    for (octet, value) in out.iter_mut().skip(len).zip(head) {
        *octet = value;
    }
    append_noise(out, end, random)
}

/// Writes a name beyond 255 octets that consists of well-formed labels.
fn long_name(out: &mut [u8], random: &mut Random) -> usize {
    let end = (HEADER_LEN + 260 + random.below(200) as usize).min(out.len());
    let label = 1 + random.below(63) as usize;
    for (i, octet) in out.iter_mut().take(end).skip(HEADER_LEN).enumerate() {
        *octet = if i % (label + 1) == 0 { label as u8 } else { b'a' };
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_wire::QueryView;

    const VALID: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";

    #[test]
    fn damage_is_of_many_kinds_and_within_bounds() {
        let (mut whole, mut broken) = (0, 0);
        for serial in 0..5_000 {
            let mut out = [0; MAX_QUERY];
            let len = mangle(VALID, &mut Random::of_item(1, serial), &mut out);
            assert!(len <= MAX_QUERY);
            if QueryView::parse(&out[..len]).is_ok() { whole += 1 } else { broken += 1 }
        }
        assert!(broken > 3_000 && whole > 0, "{whole} {broken}");
    }

    #[test]
    fn a_packet_is_made_again_from_seed_and_serial() {
        let make = |serial| {
            let mut out = [0; MAX_QUERY];
            let len = mangle(VALID, &mut Random::of_item(5, serial), &mut out);
            out[..len].to_vec()
        };
        for serial in 0..100 {
            assert_eq!(make(serial), make(serial));
        }
    }

    #[test]
    fn the_shortest_query_can_be_mangled() {
        for serial in 0..1_000 {
            let mut out = [0; MAX_QUERY];
            mangle(&[], &mut Random::of_item(1, serial), &mut out);
            mangle(&VALID[..3], &mut Random::of_item(2, serial), &mut out);
        }
    }
}
