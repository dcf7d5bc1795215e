//! The types of a target in a program without the build feature `odoh`. None of them has a value.

use std::sync::Arc;

use super::{ObliviousFault, OpenedQuery, SEED_LEN};

/// A target, which this program cannot be.
#[derive(Debug)]
pub enum ObliviousTarget {}

/// The keys that seal a reply.
#[derive(Debug)]
pub enum ReplySeal {}

impl ObliviousTarget {
    /// Returns `None`: this program cannot be a target.
    pub fn new(_: &[u8; SEED_LEN], _: Option<&[u8; SEED_LEN]>) -> Option<Self> {
        None
    }

    /// Returns the configurations.
    pub fn configs(&self) -> &Arc<[u8]> {
        match *self {}
    }

    /// Returns the ID of the present key.
    pub fn key_id(&self) -> &[u8] {
        match *self {}
    }

    /// Decrypts a query.
    ///
    /// # Errors
    /// The client is at fault.
    pub fn open(&self, _: &[u8]) -> Result<OpenedQuery, ObliviousFault> {
        match *self {}
    }
}

impl ReplySeal {
    /// Returns the encrypted response.
    pub fn seal(&self, _: &[u8]) -> Option<Vec<u8>> {
        match *self {}
    }
}
