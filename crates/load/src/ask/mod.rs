//! What is asked: queries from files, recordings, populations and chance, and in which order.

pub(crate) mod malformed;
pub(crate) mod names;
pub(crate) mod questions;
pub(crate) mod recording;
pub(crate) mod workload;

pub(crate) use questions::{Form, MAX_QUERY, Questions, Unique};
pub(crate) use workload::{Choice, Pick, Workload};
