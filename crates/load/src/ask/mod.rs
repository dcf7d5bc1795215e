//! The queries to send and their order. Queries come from files, recordings, populations of names
//! and random choice.

pub(crate) mod malformed;
pub(crate) mod names;
pub(crate) mod questions;
pub(crate) mod recording;
mod tapped;
pub(crate) mod workload;

pub use questions::{Form, Questions};
pub(crate) use questions::{MAX_QUERY, Unique};
pub use recording::Recording;
pub(crate) use workload::{Choice, Pick, Workload};
