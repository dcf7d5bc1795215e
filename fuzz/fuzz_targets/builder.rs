//! Octets as a program that writes a message: see the module, whose invariants `cargo test` replays
//! the corpus with.
#![no_main]

#[path = "../../crates/wire/tests/messages/writing.rs"]
mod writing;

libfuzzer_sys::fuzz_target!(|input: &[u8]| writing::holds(input));
