//! Validation of data that is signed here, of the RFCs' own examples and of public vectors.

#![allow(clippy::unwrap_used)] // what panics here fails the test

mod chains;
mod denials;
mod keytrap;
mod mutations;
mod oracle;
mod rollovers;
mod sets;
mod signatures;
mod signer;
mod synthesis;
mod zones;
