//! Messages with one to four mutations.

use super::random::Random;

/// Writes a message of the corpus to `out` with some octets flipped, overwritten, cut, repeated or
/// copied from another message.
pub(crate) fn broken(random: &mut Random, corpus: &[Vec<u8>], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&corpus[random.below(corpus.len())]);
    for _ in 0..=random.below(4) {
        let at = random.below(out.len() + 1);
        let number = random.next();
        match random.below(9) {
            0 if at < out.len() => out[at] ^= 1 << (number % 8),
            1 if at < out.len() => out[at] = number as u8,
            2 => overwrite(out, at, &(number as u16 | 0xc000).to_be_bytes()),
            3 => overwrite(out, at, &(0xc000 | (number as usize % (at + 1)) as u16).to_be_bytes()),
            4 => overwrite(out, at, &[[0, 0], [0, 1], [255, 255], [0, 63]][number as usize % 4]),
            5 => overwrite(out, 4 + number as usize % 8, &[0, (number >> 32) as u8 % 4]),
            6 => out.truncate(at),
            7 => splice(random, &corpus[number as usize % corpus.len()], at, out),
            _ => out.insert(at, number as u8),
        }
    }
}

fn overwrite(out: &mut [u8], at: usize, octets: &[u8]) {
    for (old, new) in out.iter_mut().skip(at).zip(octets) {
        *old = *new;
    }
}

fn splice(random: &mut Random, other: &[u8], at: usize, out: &mut Vec<u8>) {
    let from = random.below(other.len() + 1);
    let rest = &other[from..];
    out.truncate(at);
    out.extend_from_slice(&rest[..rest.len().min(random.below(64) + 1)]);
}
