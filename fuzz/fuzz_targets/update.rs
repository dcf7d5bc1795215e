//! A dynamic update of a hosted zone. The included module has the invariants, with which `cargo
//! test` replays the corpus.
#![no_main]

#[path = "../../crates/zone/tests/behaviour/updates/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::update(input));
