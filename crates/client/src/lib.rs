//! A DNS client: reads a question from arguments like those of dig, sends it to one server over
//! UDP, TCP, TLS, HTTPS or QUIC, and shows the reply as text or JSON.
//!
//! The client neither resolves nor validates.
//!
//! ```
//! use avocet_client::request::{Cookie, QUERY_ROOM, Request};
//! use avocet_wire::{QueryView, Rtype};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let words = ["www.example.com", "AAAA", "+dnssec"].map(str::to_owned);
//! let request = Request::from_words(&words)?;
//! let cookie = Cookie { client: [7; 8], server: Vec::new() };
//! let mut message = [0; QUERY_ROOM];
//! let len = request.write(0x1234, &cookie, &mut message)?;
//!
//! let query = QueryView::parse(&message[..len]).ok().ok_or("a query")?;
//! assert_eq!((query.header().id, query.qtype), (0x1234, Rtype::AAAA));
//! assert_eq!(query.qname(), b"\x03www\x07example\x03com\x00");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod error;
pub mod exchange;
pub mod json;
pub mod over_quic;
pub mod over_tls;
pub mod request;
pub mod stub;
pub mod text;

pub use error::ClientError;

#[cfg(test)]
mod tests;
