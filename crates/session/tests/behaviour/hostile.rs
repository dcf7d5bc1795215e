//! Hostile clients of DNS over HTTPS: checks the properties of the fuzz target `http` on its corpus
//! and on mutations of it.
//!
//! `AVOCET_MUTATIONS` sets the number of mutations. `AVOCET_WRITE_CORPUS=1` writes the specimens to
//! the corpus.

mod invariants;

use std::fs;
use std::path::PathBuf;

/// Mutations in a plain `cargo test`.
const MUTATIONS: u64 = 20_000;

const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const POST: &[u8] = b"\x83\x87\x04\x0a/dns-query\x5f\x17application/dns-message";
const GET: &[u8] = b"\x82\x87\x44\x13/dns-query?dns=AAAA";

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/http"))
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &id.to_be_bytes(), payload].concat()
}

/// Returns a connection of HTTP/2 with these frames.
fn two(frames: &[Vec<u8>]) -> Vec<u8> {
    [PREFACE, &frame(4, 0, 0, b"\0\x04\0\x01\0\0"), &frames.concat()].concat()
}

/// Small connections: the seeds of the corpus.
fn specimens() -> Vec<(&'static str, Vec<u8>)> {
    let post = |id| [frame(1, 4, id, POST), frame(0, 1, id, QUERY)].concat();
    let (start, rest) = POST.split_at(10);
    vec![
        ("post", two(&[post(1), post(3), frame(3, 0, 3, &[0; 4])])),
        ("get", two(&[frame(1, 5, 1, GET), frame(1, 5, 3, b"\x82\x87\xbe")])),
        ("pieces", two(&[frame(1, 0, 1, start), frame(9, 4, 1, rest), frame(0, 0, 1, b"x")])),
        ("padded", two(&[frame(1, 13, 1, &[&[2], GET, &[0, 0]].concat())])),
        (
            "others",
            two(&[frame(6, 0, 0, &[0; 8]), frame(8, 0, 0, &[0, 0, 1, 0]), frame(2, 0, 1, &[0; 5])]),
        ),
        ("one-get", b"GET /dns-query?dns=AAAA HTTP/1.1\r\nhost: x\r\n\r\n".repeat(3)),
        (
            "one-post",
            [
                &b"POST /dns-query HTTP/1.1\r\ncontent-type: application/dns-message\r\n"[..],
                b"content-length: 19\r\n\r\n",
                QUERY,
            ]
            .concat(),
        ),
        ("empty", Vec::new()),
    ]
}

/// A generator of pseudorandom numbers (xorshift).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

fn mutated(seed: &[u8], draw: &mut Draw) -> Vec<u8> {
    let mut octets = seed.to_vec();
    for _ in 0..=draw.below(4) {
        let at = draw.below(octets.len() + 1);
        match draw.below(4) {
            0 => octets.insert(at, draw.below(256) as u8),
            1 if at < octets.len() => octets[at] ^= 1 << draw.below(8),
            2 if at < octets.len() => drop(octets.remove(at)),
            _ => {
                let from = draw.below(octets.len() + 1).min(at);
                octets.extend_from_within(from..at);
            }
        }
    }
    octets
}

#[test]
fn the_corpus_and_its_mutations_cause_no_fault() {
    if std::env::var_os("AVOCET_WRITE_CORPUS").is_some() {
        fs::create_dir_all(directory()).expect("a directory");
        for (name, octets) in specimens() {
            fs::write(directory().join(name), octets).expect("a file");
        }
    }
    let files = fs::read_dir(directory()).expect("the corpus");
    let corpus: Vec<Vec<u8>> =
        files.map(|file| fs::read(file.expect("a file").path()).expect("octets")).collect();
    assert!(corpus.len() >= specimens().len());
    corpus.iter().for_each(|octets| invariants::connection(octets));
    let count = std::env::var("AVOCET_MUTATIONS").ok().and_then(|count| count.parse().ok());
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    for _ in 0..count.unwrap_or(MUTATIONS) {
        let seed = &corpus[draw.below(corpus.len())];
        invariants::connection(&mutated(seed, &mut draw));
    }
}
