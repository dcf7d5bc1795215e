//! A DNS client: a question from words as dig takes them, its exchange with one server over UDP and
//! TCP, and the reply as text or JSON.
//!
//! It resolves nothing by itself and judges nothing: it shows what the server said.

#![forbid(unsafe_code)]

pub mod exchange;
pub mod json;
pub mod request;
pub mod stub;
pub mod text;

#[cfg(test)]
mod tests;
