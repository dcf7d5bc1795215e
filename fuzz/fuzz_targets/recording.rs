//! A classic pcap file for `avocet load`. The included module has the invariants, with which `cargo
//! test` replays the corpus.
#![no_main]

#[allow(dead_code)] // the other invariants belong to other targets
#[path = "../../crates/load/tests/foreign_files/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::recording(input));
