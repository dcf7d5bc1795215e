//! A DNS client: reads a question from words as dig does, sends it to one server over UDP or TCP,
//! and shows the reply as text or JSON.
//!
//! It neither resolves nor validates: it shows the server's response.

#![forbid(unsafe_code)]

mod error;
pub mod exchange;
pub mod json;
mod over_quic;
pub mod over_tls;
pub mod request;
pub mod stub;
pub mod text;

pub use error::ClientError;

#[cfg(test)]
mod tests;
