//! Databases of countries: see the invariants, which `cargo test` replays the corpus with.
#![no_main]

#[path = "../../crates/policy/tests/geo/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::hold(input));
