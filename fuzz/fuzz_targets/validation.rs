//! Octets as RRsets to be validated: see the module, whose invariants `cargo test` replays the
//! corpus with.
#![no_main]

#[path = "../../crates/dnssec/tests/validation/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|input: &[u8]| drop(hostile::holds(input)));
