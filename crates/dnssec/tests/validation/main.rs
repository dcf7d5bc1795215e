//! Validation of data that is signed here, of the RFCs' own examples and of public vectors.

mod chains;
mod denials;
mod keytrap;
mod mutations;
mod oracle;
mod rollovers;
mod sets;
mod shared_vectors;
mod signatures;
mod signer;
mod synthesis;
mod vectors;
mod zones;
