//! Octets as a message: see the module, whose invariants `cargo test` replays the corpus with.
#![no_main]

#[path = "../../crates/wire/tests/messages/reading.rs"]
mod reading;

libfuzzer_sys::fuzz_target!(|input: &[u8]| reading::holds(input));
