//! Shared types of the writers of record data.

use std::fmt;

use super::{Problem, table};
use crate::code::Rtype;

/// The reason why writing stopped.
pub(super) enum Stop {
    /// The output failed.
    Output,
    /// The data is malformed. [`check`](super::check()) rules this out beforehand.
    Data,
}

impl From<fmt::Error> for Stop {
    fn from(_: fmt::Error) -> Self {
        Self::Output
    }
}

impl From<Problem> for Stop {
    fn from(_: Problem) -> Self {
        Self::Data
    }
}

impl fmt::Display for Rtype {
    /// Writes the mnemonic or `TYPE`*number* (RFC 3597 §5).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match table::mnemonic(self.0) {
            Some(mnemonic) => f.write_str(mnemonic),
            None => write!(f, "TYPE{}", self.0),
        }
    }
}
