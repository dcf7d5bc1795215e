//! Runs the body of the fuzz target `zone` on its corpus, on the zones of the other tests, and on
//! mutations of them.

mod invariants;
use crate::zones;

use std::fs;
use std::path::Path;

use zones::{HEAD, VALID};

/// Number of mutations of each text in a plain `cargo test`.
const MUTATIONS: u64 = 40;

fn texts() -> Vec<Vec<u8>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts: Vec<Vec<u8>> =
        VALID.iter().map(|text| format!("{HEAD}{text}").into_bytes()).collect();
    for directory in ["tests/malformed", "../../fuzz/corpus/zone"] {
        for entry in fs::read_dir(here.join(directory)).unwrap() {
            texts.push(fs::read(entry.unwrap().path()).unwrap());
        }
    }
    texts
}

/// Returns the next number of a series (xorshift64*).
fn next(state: &mut u64) -> usize {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize
}

#[test]
fn every_text_and_its_mutations_keep_the_invariants() {
    let texts = texts();
    let state = &mut 19_u64;
    let mutations = std::env::var("AVOCET_MUTATIONS").ok().and_then(|count| count.parse().ok());
    for text in &texts {
        invariants::zone(text);
        for _ in 0..mutations.unwrap_or(MUTATIONS) {
            let mut mutated = text.clone();
            for _ in 0..=next(state) % 3 {
                let at = next(state) % mutated.len().max(1);
                match next(state) % 4 {
                    0 => mutated.truncate(at),
                    1 => mutated.insert(at, b" \n\t\"();\\$@.0a"[next(state) % 13]),
                    2 if !mutated.is_empty() => mutated[at] = next(state) as u8,
                    _ => {
                        let other = &texts[next(state) % texts.len()];
                        let from = next(state) % other.len().max(1);
                        let piece = &other[from..other.len().min(from + next(state) % 40)];
                        mutated.splice(at..at, piece.iter().copied());
                    }
                }
            }
            invariants::zone(&mutated);
        }
    }
}
