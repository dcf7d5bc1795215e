//! Conditions of rules: see the invariants, which `cargo test` replays the corpus with.
#![no_main]

#[path = "../../crates/policy/tests/expressions/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::hold(input));
