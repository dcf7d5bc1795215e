//! Whether an answer is right.

pub(crate) mod judge;
pub(crate) mod zone;

pub use judge::Depth;
pub(crate) use judge::{Expected, Judge, Rcodes, Wrong};
pub(crate) use zone::Zone;
