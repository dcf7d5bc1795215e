//! Arbitrary octets as files with dnstap messages: checks the properties of the fuzz target
//! `dnstap` on its corpus and on mutations of it.
//!
//! `AVOCET_MUTATIONS` sets the number of mutations. `AVOCET_WRITE_CORPUS=1` writes the specimens to
//! the corpus.

#[path = "hostile/invariants.rs"]
mod invariants;

use std::fs;
use std::path::PathBuf;

use avocet_dnstap::frame::put_data;
use avocet_dnstap::{ControlKind, MessageKind, TapMessage, TapTime, TapTransport};

/// Mutations in a plain `cargo test`.
const MUTATIONS: u64 = 20_000;

const QUERY: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
const ANSWER: &[u8] = b"\0\x07\x81\x80\0\x01\0\x01\0\0\0\0\x01a\x04test\0\0\x01\0\x01\
    \xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/dnstap"))
}

fn file(messages: &[TapMessage<'_>]) -> Vec<u8> {
    let (mut out, mut octets) = (ControlKind::Start.frame(), Vec::new());
    for message in messages {
        message.write(&mut octets);
        put_data(&mut out, &octets);
    }
    out.extend(ControlKind::Stop.frame());
    out
}

/// Small files: the seeds of the corpus.
fn specimens() -> Vec<(&'static str, Vec<u8>)> {
    let query = TapMessage {
        identity: b"ns",
        version: b"1",
        transport: Some(TapTransport::Udp),
        query_address: Some([192, 0, 2, 1].into()),
        query_port: Some(4711),
        query_time: Some(TapTime::of_micros(1_795_377_600_000_001)),
        query_message: Some(QUERY),
        ..TapMessage::of(MessageKind::ClientQuery)
    };
    let response = TapMessage {
        kind: MessageKind::ClientResponse,
        transport: Some(TapTransport::Https),
        query_address: Some("2001:db8::1".parse().unwrap_or([0; 4].into())),
        response_time: query.query_time,
        response_message: Some(ANSWER),
        ..query
    };
    let mut cut = file(&[query, response]);
    cut.truncate(cut.len() - 40);
    let mut other = file(&[query]);
    other[25] ^= 1;
    let unknown = [&ControlKind::Start.frame()[..], &[0, 0, 0, 4, 0x72, 2, 0x08, 99]].concat();
    let long = [&ControlKind::Start.frame()[..], &[0xff; 12]].concat();
    vec![
        ("queries", file(&[query, query])),
        ("both", file(&[query, response])),
        ("empty", file(&[])),
        ("cut", cut),
        ("other-content", other),
        ("unknown-kind", unknown),
        ("long-frame", long),
    ]
}

#[test]
fn the_corpus_has_the_specimens_and_holds() {
    let write = std::env::var_os("AVOCET_WRITE_CORPUS").is_some();
    for (name, octets) in specimens() {
        let path = directory().join(name);
        if write {
            fs::create_dir_all(directory()).expect("a directory for the corpus");
            fs::write(&path, &octets).expect("a file of the corpus");
        }
        assert_eq!(fs::read(&path).ok(), Some(octets), "{}", path.display());
    }
    for file in fs::read_dir(directory()).expect("a corpus") {
        invariants::file(&fs::read(file.expect("a file").path()).expect("octets"));
    }
}

#[test]
fn mutations_of_the_specimens_hold() {
    let count = std::env::var("AVOCET_MUTATIONS")
        .map_or(MUTATIONS, |count| count.parse().expect("a number"));
    let (specimens, mut chance) = (specimens(), Chance(0x0f0f));
    for _ in 0..count {
        let mut octets = specimens[chance.below(specimens.len())].1.clone();
        for _ in 0..=chance.below(4) {
            let at = chance.below(octets.len());
            match chance.below(3) {
                0 => octets[at] = chance.below(256) as u8,
                1 => octets[at] ^= 1 << chance.below(8),
                _ => octets.truncate(at + 1),
            }
        }
        invariants::file(&octets);
    }
}

/// Reproducible pseudo-random numbers (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }
}
