//! Octets as a program that writes a message. The included module has the invariants, with which
//! `cargo test` replays the corpus.
#![no_main]

#[path = "../../crates/wire/tests/messages/writing.rs"]
mod writing;

libfuzzer_sys::fuzz_target!(|input: &[u8]| writing::holds(input));
