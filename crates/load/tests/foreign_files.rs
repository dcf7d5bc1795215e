//! Input files as any octets: runs the bodies of the fuzz targets `recording`, `queries` and
//! `zone_file` on their corpora and on mutations of them.
//!
//! `AVOCET_MUTATIONS` sets the number of mutations. `AVOCET_WRITE_CORPUS=1` writes the specimens to
//! the corpora.

#[path = "foreign_files/invariants.rs"]
mod invariants;
#[path = "foreign_files/specimens.rs"]
mod specimens;

use std::fs;
use std::path::PathBuf;

use specimens::Specimen;

/// Mutations of each corpus in a plain `cargo test`.
const MUTATIONS: u64 = 5_000;

/// A fuzz target: its corpus directory, its specimens, and its property.
type Target = (&'static str, fn() -> Vec<Specimen>, fn(&[u8]));

const TARGETS: [Target; 3] = [
    ("recording", specimens::recordings, invariants::recording),
    ("queries", specimens::queries, invariants::queries),
    ("zone_file", specimens::zone_files, invariants::zone_file),
];

fn directory(target: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(target)
}

#[test]
fn the_corpora_have_the_specimens() {
    let write = std::env::var_os("AVOCET_WRITE_CORPUS").is_some();
    for (target, specimens, _) in TARGETS {
        for (name, octets) in specimens() {
            let path = directory(target).join(name);
            if write {
                fs::create_dir_all(directory(target)).expect("a directory for the corpus");
                fs::write(&path, &octets).expect("a file of the corpus");
            }
            assert_eq!(fs::read(&path).ok(), Some(octets), "{}", path.display());
        }
    }
}

#[test]
fn the_corpora_hold() {
    for (target, specimens, hold) in TARGETS {
        let files = fs::read_dir(directory(target)).expect("a corpus");
        let octets: Vec<Vec<u8>> =
            files.map(|file| fs::read(file.expect("a file").path()).expect("octets")).collect();
        assert!(octets.len() >= specimens().len(), "{target}");
        octets.iter().for_each(|octets| hold(octets));
    }
}

#[test]
fn mutations_of_the_specimens_hold() {
    let count = std::env::var("AVOCET_MUTATIONS")
        .map_or(MUTATIONS, |count| count.parse().expect("a number"));
    for (target, specimens, hold) in TARGETS {
        let (specimens, mut chance) = (specimens(), Chance(0x0f0f + target.len() as u64));
        for _ in 0..count {
            let mut octets = specimens[chance.below(specimens.len())].1.clone();
            for _ in 0..=chance.below(4) {
                mutate(&mut octets, &mut chance);
            }
            hold(&octets);
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
