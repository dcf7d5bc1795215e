//! Validation of data signed by the tests, of the RFCs' examples and of public vectors.

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
