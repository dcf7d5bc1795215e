//! Verification of answers.

pub(crate) mod judge;
pub(crate) mod zone;

pub use judge::{Depth, Expected, Rcodes};
pub(crate) use judge::{Judge, Wrong};
pub use zone::Zone;
