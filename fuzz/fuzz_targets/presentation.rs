//! Record data as text and as octets: see the invariants, which `cargo test` replays the corpus
//! with.
#![no_main]

#[path = "../../crates/wire/tests/rdata_forms/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::hold(input));
