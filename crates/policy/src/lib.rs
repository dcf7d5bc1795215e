//! The policy: client identification, and what is blocked, rewritten, routed or limited, and why.
//!
//! Everything here is a pure function of octets and of a time given by the caller: no socket, no
//! clock, no file. The configuration is compiled once into immutable tables, which queries read
//! without allocating.

#![forbid(unsafe_code)]

pub mod client;
mod error;
mod expression;
pub mod geo;
pub mod list;
pub mod rpz;
pub mod rule;

pub use error::{NotAnId, PolicyError};
