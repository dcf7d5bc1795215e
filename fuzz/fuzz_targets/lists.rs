//! Texts of lists, images and policy zones: see the invariants, which `cargo test` replays the
//! corpus with.
#![no_main]

#[path = "../../crates/policy/tests/lists/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::hold(input));
