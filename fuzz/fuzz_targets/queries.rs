//! Octets as a file of queries, as `avocet load` reads it: see the invariants, which `cargo test`
//! replays the corpus with.
#![no_main]

#[allow(dead_code)] // the other files have targets of their own
#[path = "../../crates/load/tests/foreign_files/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::queries(input));
