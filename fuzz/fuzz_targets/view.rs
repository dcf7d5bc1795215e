//! Octets as a message. The included module has the invariants, with which `cargo test` replays the
//! corpus.
#![no_main]

#[path = "../../crates/wire/tests/messages/reading.rs"]
mod reading;

libfuzzer_sys::fuzz_target!(|input: &[u8]| reading::holds(input));
