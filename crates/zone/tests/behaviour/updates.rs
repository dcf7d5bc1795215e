//! Dynamic updates as any octets: runs the body of the fuzz target `update` on its corpus, on
//! mutations of it, and on messages that are composed at random.
//!
//! `AVOCET_MUTATIONS` sets the number of mutations. `AVOCET_WRITE_CORPUS=1` writes the specimens to
//! the corpus.

mod invariants;
mod specimens;

use std::fs;
use std::path::PathBuf;

use specimens::{CLASSES, DATA, OWNERS, Piece, TYPES, bare, full, message};

/// Number of mutations in a plain `cargo test`.
const MUTATIONS: u64 = 5_000;
/// Maximum number of records of a section of a composed message.
const MAX_PIECES: usize = 6;

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/update"))
}

fn mutations() -> u64 {
    let count = std::env::var("AVOCET_MUTATIONS").ok();
    count.map_or(MUTATIONS, |count| count.parse().expect("a number"))
}

#[test]
fn the_corpus_has_the_specimens() {
    let write = std::env::var_os("AVOCET_WRITE_CORPUS").is_some();
    for (name, octets) in specimens::all() {
        let path = directory().join(name);
        if write {
            fs::create_dir_all(directory()).unwrap();
            fs::write(&path, &octets).unwrap();
        }
        assert_eq!(fs::read(&path).ok(), Some(octets), "{}", path.display());
    }
}

#[test]
fn the_corpus_holds() {
    let files: Vec<_> = fs::read_dir(directory()).unwrap().map(|file| file.unwrap()).collect();
    assert!(files.len() >= specimens::all().len());
    for file in files {
        invariants::update(&fs::read(file.path()).unwrap());
    }
}

#[test]
fn mutations_of_the_specimens_hold() {
    let (specimens, mut chance) = (specimens::all(), Chance(0x0f0f));
    for _ in 0..mutations() {
        let mut octets = specimens[chance.below(specimens.len())].1.clone();
        for _ in 0..=chance.below(4) {
            mutate(&mut octets, &mut chance);
        }
        invariants::update(&octets);
    }
}

#[test]
fn composed_messages_and_their_mutations_hold() {
    let mut chance = Chance(0x2136);
    for _ in 0..mutations() {
        let [wanted, edits] = [4, 1].map(|part| {
            let count = chance.below(MAX_PIECES + 1) / part;
            (0..count).map(|_| piece(&mut chance)).collect::<Vec<_>>()
        });
        let mut octets = message([&wanted, &edits]);
        invariants::update(&octets);
        mutate(&mut octets, &mut chance);
        invariants::update(&octets);
    }
}

fn piece(chance: &mut Chance) -> Piece {
    let owner = chance.below(OWNERS.len());
    let class = CLASSES[chance.below(16).saturating_sub(13).max(chance.below(3))];
    match chance.below(2) {
        0 => bare(owner, class, TYPES[chance.below(TYPES.len())]),
        _ => {
            let ttl_secs = [0, 0, 0, 60, 3_600, u32::MAX][chance.below(6)];
            full(owner, class, chance.below(DATA.len()), ttl_secs)
        }
    }
}

fn mutate(octets: &mut Vec<u8>, chance: &mut Chance) {
    if octets.is_empty() {
        return;
    }
    let at = chance.below(octets.len());
    let end = (at + chance.below(24)).min(octets.len());
    match chance.below(4) {
        0 => octets[at] = chance.below(256) as u8,
        1 => octets[at] ^= 1 << chance.below(8),
        2 => drop(octets.drain(at..end)),
        _ => {
            let part = octets[at..end].to_vec();
            let to = chance.below(octets.len());
            octets.splice(to..to, part);
        }
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
