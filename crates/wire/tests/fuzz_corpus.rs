//! Checks the properties of the fuzz targets `view` and `builder` on their corpora and on mutations
//! of them.
//!
//! `AVOCET_MUTATIONS` sets the number of mutations. `AVOCET_WRITE_CORPUS=1` writes the messages of
//! `messages/specimens.rs` and `messages/hostile.rs` to the corpus.

#[path = "messages/hostile.rs"]
mod hostile;
#[path = "messages/mutations.rs"]
mod mutations;
#[path = "messages/random.rs"]
mod random;
#[path = "messages/reading.rs"]
mod reading;
#[path = "messages/specimens.rs"]
mod specimens;
#[path = "messages/writing.rs"]
mod writing;

use std::fs;
use std::path::PathBuf;

use random::Random;

/// Mutations in a plain `cargo test`.
const MUTATIONS: u64 = 200_000;
/// Longest message that is mutated. Longer ones cost too much time.
const LONGEST: usize = 2_048;
/// Number of generated programs for the builder in the corpus.
const PROGRAMS: u64 = 32;
const PROGRAM_LEN: usize = 400;

fn directory(target: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(target)
}

/// Returns the expected corpus: directories, file names and octets.
fn expected() -> Vec<(&'static str, String, Vec<u8>)> {
    let views =
        specimens::all().into_iter().map(|(name, octets)| (format!("message-{name}"), octets));
    let hostile =
        hostile::all().into_iter().map(|(name, _, octets)| (format!("hostile-{name}"), octets));
    let programs = (0..PROGRAMS).map(|seed| (format!("program-{seed:02}"), program(seed)));
    let views = views.chain(hostile).map(|(name, octets)| ("view", name, octets));
    views.chain(programs.map(|(name, octets)| ("builder", name, octets))).collect()
}

/// Returns a program for the builder, with a limit that suits its length, few long labels and many
/// suffixes of known names.
fn program(seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let limit = [512_u16, 1_232, 4_096, 65_535][seed as usize % 4];
    let mut octets = limit.to_be_bytes().to_vec();
    octets.extend((0..PROGRAM_LEN).map(|_| match random.below(4) {
        0 => random.next() as u8,
        1 => random.below(16) as u8,
        2 => b"abcDEF-9"[random.below(8)],
        _ => 0x40 | random.below(32) as u8,
    }));
    octets
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(directory(target)).expect("a corpus that can be read");
    let mut paths: Vec<_> =
        files.map(|file| file.expect("a corpus that can be read").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).expect("a corpus that can be read")).collect()
}

#[test]
fn the_corpus_is_what_the_tests_say() {
    let write = std::env::var_os("AVOCET_WRITE_CORPUS").is_some();
    for (target, name, octets) in expected() {
        let path = directory(target).join(&name);
        if write {
            fs::create_dir_all(directory(target)).unwrap();
            fs::write(&path, &octets).unwrap();
        }
        assert_eq!(fs::read(&path).ok(), Some(octets), "{target}/{name}");
    }
}

#[test]
fn the_corpora_hold() {
    let (views, programs) = (corpus("view"), corpus("builder"));
    assert!(views.len() >= 60 && programs.len() >= 32);
    views.iter().for_each(|octets| reading::holds(octets));
    programs.iter().chain(&views).for_each(|octets| writing::holds(octets));
}

#[test]
fn mutations_of_the_corpus_hold() {
    let count = std::env::var("AVOCET_MUTATIONS").map_or(MUTATIONS, |count| count.parse().unwrap());
    let short = |octets: &Vec<u8>| octets.len() <= LONGEST;
    let views: Vec<_> = corpus("view").into_iter().filter(short).collect();
    let programs = corpus("builder");
    let mut random = Random(0x000a_50ce);
    let mut octets = Vec::new();
    for number in 0..count {
        if number % 8 == 0 {
            mutations::broken(&mut random, &programs, &mut octets);
            writing::holds(&octets);
        } else {
            mutations::broken(&mut random, &views, &mut octets);
            reading::holds(&octets);
        }
    }
}
