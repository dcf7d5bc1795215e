//! Octets as RRsets to validate. The included module has the invariants, with which `cargo test`
//! replays the corpus.
#![no_main]

#[path = "../../crates/dnssec/tests/validation/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|input: &[u8]| drop(hostile::holds(input)));
