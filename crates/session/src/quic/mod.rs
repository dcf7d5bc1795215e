//! DNS over QUIC without sockets (RFC 9000, RFC 9250): datagrams and time in; messages and
//! datagrams out.
//!
//! ```text
//! datagram -- QuicServer::receive -- connection -- stream -- QuicService::answer
//!                                                       \
//! QuicServer::reply, for answers that come later ------- QuicServer::flush -- QuicHost::send
//! ```
//!
//! The state machine of QUIC is that of `quinn-proto`. This module owns what it leaves open: which
//! clients may connect, and which must prove their address first ([`server`]); the queries of a
//! connection and their bounds ([`connection`]); the octets of a query ([`doq`]); secrets and
//! connection IDs that all workers understand ([`keys`]); the settings of a listener
//! ([`listener`]). [`client`] is the other end.

pub mod client;
mod connection;
pub mod doq;
pub mod keys;
pub mod listener;
pub mod server;

pub use doq::DoqError;
pub use keys::QuicKeys;
pub use listener::QuicListener;
pub use server::{
    Admission, Newcomer, QuicAnswer, QuicCounts, QuicDatagram, QuicHost, QuicPath, QuicPatience,
    QuicQuery, QuicRoute, QuicServer, QuicService, Room, Whose,
};
