//! The policy: who asks, what is blocked, rewritten, routed or limited, and why.
//!
//! Everything here is a pure function of octets and of a time that is handed in: no socket, no
//! clock, no file. What configuration says is compiled once into tables that never change; a query
//! reads them without allocating.

#![forbid(unsafe_code)]

pub mod client;
pub mod geo;
pub mod list;
pub mod rpz;
pub mod rule;
