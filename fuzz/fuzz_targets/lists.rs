//! Texts of lists, images and policy zones. The included module has the invariants, with which
//! `cargo test` replays the corpus.
#![no_main]

#[path = "../../crates/policy/tests/behaviour/lists/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::hold(input));
