//! Tests of validation: with data that the tests sign, with the examples of RFCs, and with public
//! test vectors.

#![allow(clippy::unwrap_used)] // a panic here fails the test

mod chains;
mod denials;
mod hostile;
mod keytrap;
mod mixed;
#[path = "../../../wire/tests/messages/mutations.rs"]
mod mutation_steps;
mod mutations;
mod oracle;
#[path = "../../../wire/tests/messages/random.rs"]
mod random;
mod rfc_examples;
mod rollovers;
mod sets;
mod signatures;
mod signer;
mod synthesis;
mod zones;
