//! Sessions of DNS over streams, without sockets: octets in, DNS messages and octets out.
//!
//! ```text
//!   octets of a stream -- [`tls`], if the stream is encrypted -- [`frame`] -- messages
//! ```
//! [`frame`] is the only code for frames (RFC 7766). [`session`] composes it with TLS
//! for both ends of a connection. [`certificate`] reads what a TLS server shows,
//! [`trust`] decides what a client accepts. The caller passes any
//! [`Read`](std::io::Read) and [`Write`](std::io::Write); nothing here waits or opens a socket.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod frame;
pub mod session;
pub mod tls;
pub mod trust;
