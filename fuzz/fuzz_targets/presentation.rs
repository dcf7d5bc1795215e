//! Record data as text and in wire format. The included module has the invariants, with which
//! `cargo test` replays the corpus.
#![no_main]

#[path = "../../crates/wire/tests/rdata_forms/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::hold(input));
