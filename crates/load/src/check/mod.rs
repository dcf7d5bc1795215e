//! Verification of answers.

pub(crate) mod form;
pub(crate) mod judge;
pub(crate) mod zone;

pub use form::Deviation;
pub(crate) use form::Deviations;
pub use judge::{Depth, Expected, Rcodes};
pub(crate) use judge::{Judge, Wrong};
pub use zone::Zone;
