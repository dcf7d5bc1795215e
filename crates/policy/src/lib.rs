//! What is blocked, allowed or answered otherwise, for whom, and why.
//!
//! Pure: octets and the time come in, verdicts go out. No socket, no clock, no file.

#![forbid(unsafe_code)]

pub mod list;
pub mod rpz;
