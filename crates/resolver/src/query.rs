//! Writes queries to upstreams.

use avocet_wire::edns::option;
#[cfg(test)]
use avocet_wire::header::{CD, RD};
use chacha20::ChaCha12Rng;
use chacha20::rand_core::Rng;

/// UDP payload size in queries, in octets. Responses of this size are not fragmented on usual paths
/// (DNS flag day 2020).
pub(crate) const UDP_SIZE: u16 = 1232;

/// The contents of a query's OPT record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptOf<'a> {
    /// Maximum number of octets of a reply over UDP.
    pub(crate) udp_size: u16,
    pub(crate) dnssec_ok: bool,
    /// The data of the COOKIE option; empty without the option.
    pub(crate) cookie: &'a [u8],
    /// The data of the client subnet option; empty without the option.
    pub(crate) ecs: &'a [u8],
    pub(crate) privacy: Privacy,
}

/// The padding of a query, so that its length does not reveal the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Privacy {
    /// The query has no padding, because it is sent without encryption.
    None,
    /// The query is padded to a multiple of [`BLOCK`] octets (RFC 7830, RFC 8467 §4.1).
    Padded,
    /// The query is padded, and also has the option that asks how long an idle TCP connection may
    /// be kept (RFC 7828 §3.2.1). It takes no additional room because of the padding. QUIC forbids
    /// the option (RFC 9250 §5.5.2).
    PaddedWithKeepalive,
}

/// Number of octets of a block of padding for queries (RFC 8467 §4.1).
const BLOCK: usize = 128;

/// Appends a query with these header flags and this question to `out`.
pub(crate) fn write(
    out: &mut Vec<u8>,
    id: u16,
    flags: u16,
    question: &[u8],
    opt: Option<&OptOf<'_>>,
) {
    let start = out.len();
    let additional = u16::from(opt.is_some());
    let header = [id, flags, 1, 0, 0, additional].map(u16::to_be_bytes);
    out.extend_from_slice(header.as_flattened());
    out.extend_from_slice(question);
    if let Some(opt) = opt {
        let options = [(option::COOKIE, opt.cookie), (option::ECS, opt.ecs)];
        let options = options.iter().filter(|(_, data)| !data.is_empty());
        let len: usize = options.clone().map(|(_, data)| 4 + data.len()).sum();
        let ([size_high, size_low], [len_high, len_low]) =
            (opt.udp_size.to_be_bytes(), (len as u16).to_be_bytes());
        let flags = u8::from(opt.dnssec_ok) << 7;
        out.extend_from_slice(&[0, 0, 41, size_high, size_low, 0, 0, flags, 0, len_high, len_low]);
        for (code, data) in options {
            let fixed = [*code, data.len() as u16].map(u16::to_be_bytes);
            out.extend_from_slice(fixed.as_flattened());
            out.extend_from_slice(data);
        }
        match opt.privacy {
            Privacy::None => {}
            Privacy::Padded => pad(out, start, len),
            Privacy::PaddedWithKeepalive => {
                let keepalive = [option::TCP_KEEPALIVE, 0].map(u16::to_be_bytes);
                out.extend_from_slice(keepalive.as_flattened());
                pad(out, start, len + keepalive.as_flattened().len());
            }
        }
    }
}

/// Appends padding to the query that begins at `start`. The last record of the query is an OPT
/// record with `len` octets of options.
fn pad(out: &mut Vec<u8>, start: usize, len: usize) {
    let rdlen_at = out.len() - len - 2;
    let padding = (out.len() - start + 4).next_multiple_of(BLOCK) - (out.len() - start + 4);
    let fixed = [option::PADDING, padding as u16].map(u16::to_be_bytes);
    out.extend_from_slice(fixed.as_flattened());
    out.resize(out.len() + padding, 0);
    let len = (len + 4 + padding) as u16;
    out[rdlen_at..rdlen_at + 2].copy_from_slice(&len.to_be_bytes());
}

/// A word with the highest bit of each octet set.
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Returns a word that has the highest bit set in each octet of `word` that is a lower-case letter.
const fn lowercase(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low_bits = word & !HIGH_BITS;
    let from_a = low_bits + ONES * (0x80 - b'a' as u64);
    let past_z = low_bits + ONES * (0x7f - b'z' as u64);
    from_a & !past_z & !word & HIGH_BITS
}

/// Returns up to seven octets as a word, padded with zeros.
fn word(octets: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..octets.len()].copy_from_slice(octets);
    u64::from_le_bytes(word)
}

/// The result of giving a name random letter case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RandomCase {
    /// Number of letters in the name. Each gives one unpredictable bit.
    pub(crate) letters: u32,
    /// Whether at least one letter is in upper case.
    pub(crate) is_mixed: bool,
}

/// Randomises the case of each letter of a folded name (draft-vixie-dnsext-dns0x20), eight octets
/// (one word) at a time. Each word uses a different bit from each octet of a random number, so that
/// one random number suffices for 64 octets. Length octets are never changed, because their values
/// are less than those of letters.
pub(crate) fn randomise_case(qname: &mut [u8], rng: &mut ChaCha12Rng) -> RandomCase {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (mut bits, mut raised, mut counts) = (0, 0, 0);
    let mut cased = |number: usize, word: u64, places: u64| {
        bits = if number.is_multiple_of(8) { rng.next_u64() } else { bits << 1 };
        let letters = lowercase(word) & places;
        // Each octet of `counts` counts the letters at one position of all words. It is at most 32.
        counts += letters >> 7;
        let upper = letters & bits;
        raised |= upper;
        word ^ upper >> 2
    };
    let (words, rest) = qname.as_chunks_mut();
    let (count, rest_len) = (words.len(), rest.len());
    for (number, octets) in words.iter_mut().enumerate() {
        *octets = cased(number, u64::from_le_bytes(*octets), u64::MAX).to_le_bytes();
    }
    if rest_len > 0 {
        if let Some(last) = qname.last_chunk_mut() {
            let places = u64::MAX << (64 - 8 * rest_len);
            *last = cased(count, u64::from_le_bytes(*last), places).to_le_bytes();
        } else {
            let last = cased(count, word(qname), u64::MAX).to_le_bytes();
            qname.copy_from_slice(&last[..rest_len]);
        }
    }
    // The multiplication adds up the counts in all octets.
    RandomCase { letters: (counts.wrapping_mul(ONES) >> 56) as u32, is_mixed: raised != 0 }
}

#[cfg(test)]
mod tests {
    use avocet_wire::QueryView;
    use avocet_wire::hash::eq_folded;
    use chacha20::rand_core::SeedableRng;

    use super::*;

    const QUESTION: &[u8] = b"\x03www\x07example\x00\x00\x01\x00\x01";

    #[test]
    fn the_query_says_what_was_asked_and_nothing_of_the_client() {
        let mut out = Vec::new();
        let opt = OptOf {
            udp_size: UDP_SIZE,
            dnssec_ok: true,
            cookie: b"12345678",
            ecs: &[],
            privacy: Privacy::None,
        };
        write(&mut out, 0x1234, RD | CD, QUESTION, Some(&opt));
        let view = QueryView::parse(&out).unwrap();
        assert_eq!((view.header().id, view.header().flags), (0x1234, RD | CD));
        let edns = view.edns.unwrap();
        assert_eq!((edns.udp_size, edns.dnssec_ok), (UDP_SIZE, true));
        let options: Vec<_> = edns.raw_options().map(Result::unwrap).collect();
        assert_eq!(options, [(option::COOKIE, &b"12345678"[..])]);
        out.clear();
        write(&mut out, 7, RD, QUESTION, None);
        assert_eq!(out.len(), 12 + QUESTION.len());
    }

    /// RFC 8467 §4.1: "Clients SHOULD pad queries to the closest multiple of 128 octets."
    #[test]
    fn a_padded_query_has_a_multiple_of_128_octets_and_asks_for_keepalive_if_tcp_carries_it() {
        for case in 0..2 * BLOCK {
            let (cookie, with_keepalive) = (vec![7; case / 2], case % 2 == 1);
            let privacy =
                if with_keepalive { Privacy::PaddedWithKeepalive } else { Privacy::Padded };
            let opt =
                OptOf { udp_size: UDP_SIZE, dnssec_ok: false, cookie: &cookie, ecs: &[], privacy };
            let mut out = vec![9; 33];
            write(&mut out, 1, RD, QUESTION, Some(&opt));
            let message = &out[33..];
            assert!(message.len().is_multiple_of(BLOCK), "{} octets", message.len());
            let edns = QueryView::parse(message).unwrap().edns.unwrap();
            let options: Vec<_> = edns.raw_options().map(Result::unwrap).collect();
            let options = &options[usize::from(!cookie.is_empty())..];
            let options = match with_keepalive {
                true => {
                    assert_eq!(options[0], (option::TCP_KEEPALIVE, &[][..]));
                    &options[1..]
                }
                false => options,
            };
            assert!(options[0].0 == option::PADDING && options[0].1.iter().all(|one| *one == 0));
            assert!(options.len() == 1 && options[0].1.len() < BLOCK);
        }
    }

    #[test]
    fn each_letter_takes_either_case_and_nothing_else_changes() {
        let mut rng = ChaCha12Rng::from_seed([1; 32]);
        let name =
            b"\x3fabcdefghijklmnopqrstuvwxyz0123456789-abcdefghijklmnopqrstuvwxyz\x03xyz\x00";
        let mut seen = [[0u32; 2]; 69];
        for _ in 0..200 {
            let mut sent = *name;
            let case = randomise_case(&mut sent, &mut rng);
            assert_eq!(case.is_mixed, sent.iter().any(u8::is_ascii_uppercase));
            assert_eq!(case.letters, 55);
            assert!(eq_folded(&sent, name));
            for (count, octet) in seen.iter_mut().zip(sent) {
                count[usize::from(octet.is_ascii_uppercase())] += 1;
            }
        }
        for (count, octet) in seen.iter().zip(name) {
            assert_eq!(octet.is_ascii_lowercase(), count[1] > 50 && count[0] > 50, "{count:?}");
        }
    }
}
