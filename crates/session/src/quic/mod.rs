//! DNS over QUIC and over HTTP/3 without sockets (RFC 9000, RFC 9250, RFC 9114): datagrams and time
//! in; messages and datagrams out.
//!
//! ```text
//! datagram -- QuicServer::receive -- connection -- stream -- QuicService::answer
//!                                                       \
//! QuicServer::reply, for answers that come later ------- QuicServer::flush -- QuicHost::send
//! ```
//!
//! `quinn-proto` provides the state machine of QUIC. This module adds the rest: which clients may
//! connect, and which must prove their address first ([`server`]); the queries of a connection and
//! their bounds (`connection`); the octets of a query ([`doq`]), or of a request of HTTP/3
//! (`http::h3`), and the other streams of HTTP/3 (`h3`); secrets and connection IDs that all
//! workers understand ([`keys`]); the settings of a listener ([`listener`]). [`client`] is the
//! client's end, and [`upstream`] is the client's end with the queries of many clients.

mod arrived;
pub mod client;
mod connection;
pub mod doq;
mod h3;
pub mod keys;
pub mod listener;
mod query;
pub mod server;
mod service;
pub mod upstream;

pub use doq::DoqError;
pub use keys::QuicKeys;
pub use listener::{QuicListener, QuicProtocol};
pub use server::{QuicCounts, QuicServer};
pub use service::{
    Admission, Envelope, Newcomer, QuicAnswer, QuicDatagram, QuicHost, QuicPath, QuicPatience,
    QuicQuery, QuicRoute, QuicService, Room, Whose,
};
