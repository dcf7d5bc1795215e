//! A connection with DNS over HTTPS. The included module has the invariants, with which `cargo
//! test` replays the corpus.
#![no_main]

#[path = "../../crates/session/tests/behaviour/hostile/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::connection(input));
