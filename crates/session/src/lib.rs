//! Sessions of DNS over streams and QUIC, without sockets: octets or datagrams in, DNS messages and
//! octets or datagrams out.
//!
//! ```text
//!   octets of a stream -- [`tls`], if encrypted -- [`frame`] or [`http`] -- messages
//!   datagrams -- [`quic`] -- messages
//! ```
//! [`frame`] splits streams into messages (RFC 7766), [`http`] reads and writes DNS over HTTPS (RFC
//! 8484), and [`quic`] DNS over QUIC (RFC 9250). [`session`] combines them with TLS for both ends
//! of a connection. [`certificate`] reads the certificates that a TLS server presents, and
//! [`challenge`] adds those for an ACME authority. [`early`] decides which queries are answered
//! before the end of a handshake. [`proof`] reads what the certificate of a client proves,
//! [`trust`] decides which servers a client accepts, and [`validity`] reads when a certificate
//! expires. [`network`] has the networks by which connections are counted, and [`oblivious`]
//! decrypts oblivious queries (RFC 9230). The caller passes any [`Read`](std::io::Read) and
//! [`Write`](std::io::Write); nothing here waits or opens a socket.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod challenge;
pub mod early;
pub mod frame;
pub mod http;
#[cfg(any(test, fuzzing))]
pub mod layers;
pub mod network;
pub mod oblivious;
pub mod proof;
pub mod quic;
pub mod session;
pub mod tls;
pub mod trust;
pub mod validity;
