//! A layer of encrypted DNS: the first octet chooses it. The crate `session` has the properties,
//! with which `cargo test` replays the corpus.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| avocet_session::layers::check(input));
