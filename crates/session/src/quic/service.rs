//! The values that pass between [`QuicServer`](super::QuicServer) and its caller, and the traits of
//! the caller.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::listener::{QuicListener, QuicProtocol};
use crate::network::ClientNetwork;
use crate::oblivious::{ObliviousFault, OpenedQuery, ProxyFault};
use crate::proof::HandshakeFacts;

/// A datagram of a client.
#[derive(Debug)]
pub struct QuicDatagram<'d> {
    /// The client, and the address to which the datagram was sent.
    pub path: QuicPath,
    /// The octets of the datagram.
    pub octets: &'d [u8],
}

/// The addresses at both ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuicPath {
    /// The index of the listening address.
    pub entrance: u16,
    /// The client.
    pub peer: SocketAddr,
    /// The local address to which the datagram was sent, if the socket has several.
    pub local_ip: Option<IpAddr>,
}

/// The connection and stream of a query, to which its reply goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuicRoute {
    /// The index of the connection in the table of the server.
    pub slot: u32,
    /// How often this place in the table was reused: it tells connections with the same index
    /// apart.
    pub generation: u32,
    /// The index of the stream.
    pub request: u32,
}

/// The properties of a query, without its message.
#[derive(Clone, Copy, Debug)]
pub struct QuicQuery<'q> {
    /// Where the reply goes.
    pub route: QuicRoute,
    /// The present address of the client. It may differ from the address for which the connection
    /// is counted.
    pub ip: IpAddr,
    /// The index of the listening address.
    pub entrance: u16,
    /// The transport of the query.
    pub protocol: QuicProtocol,
    /// Whether the client has sent the query through a proxy.
    pub envelope: Envelope,
    /// The device identifier of the client, from the path of the request.
    pub word: Option<&'q [u8]>,
    /// Facts about the client and its device from the TLS handshake.
    pub facts: Option<&'q HandshakeFacts>,
}

/// How a query has arrived in its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Envelope {
    /// The request contains the DNS message itself.
    None,
    /// The request contains a message that is encrypted for the target of Oblivious DNS over HTTPS.
    Oblivious,
}

/// How the caller answers a query.
#[derive(Debug)]
pub enum QuicAnswer<'r> {
    /// The query gets this reply.
    Now(&'r [u8]),
    /// The reply comes later, with [`QuicServer::reply`](super::QuicServer::reply).
    Later,
    /// The query gets no reply.
    Never,
}

/// A client that wants to connect.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer {
    /// The address of the client.
    pub ip: IpAddr,
    /// The index of the listening address.
    pub entrance: u16,
    /// The number of open connections.
    pub open: usize,
    /// Whether a connection may still be closed to make room.
    pub room: Room,
}

/// Whether a connection may still be closed to make room for another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// The caller may request that a connection be closed.
    Unknown,
    /// A connection was closed for this client, or no connection is idle. The caller must admit or
    /// refuse the client.
    Final,
}

/// The connections among which one is closed to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The connections of all clients.
    Anyone,
    /// The connections of the clients in this network.
    Network(ClientNetwork),
}

impl Whose {
    /// Returns whether a connection of the client with this address may be closed.
    pub fn includes(self, ip: IpAddr) -> bool {
        match self {
            Self::Anyone => true,
            Self::Network(network) => network.includes(ip),
        }
    }
}

/// The decision about a client that wants to connect.
#[derive(Debug)]
pub enum Admission {
    /// The client may connect, with these settings. The caller has counted the connection.
    Admitted(QuicListener),
    /// The client may connect after another connection is closed.
    Crowded(Whose),
    /// The client may not connect, and gets no response.
    Refused,
}

/// The caller of a [`QuicServer`](super::QuicServer), which sends its datagrams.
pub trait QuicHost {
    /// Reports that a connection of this client has ended, so that the caller no longer counts it.
    fn ended(&mut self, ip: IpAddr);
    /// Sends a datagram.
    fn send(&mut self, path: &QuicPath, octets: &[u8]);
}

/// A caller that also admits clients and answers queries.
pub trait QuicService: QuicHost {
    /// Decides whether a client may connect, and counts it if so.
    fn admit(&mut self, newcomer: &Newcomer) -> Admission;
    /// Answers a query.
    fn answer(&mut self, query: &QuicQuery<'_>, message: &[u8]) -> QuicAnswer<'_>;
    /// Decrypts an oblivious query. By default, this server is no target.
    ///
    /// # Errors
    /// The client is at fault, or this server is no target.
    fn open(&mut self, _: &[u8]) -> Result<OpenedQuery, ObliviousFault> {
        Err(ObliviousFault::NoTarget)
    }
    /// Forwards an oblivious query for the server that the parameters name. The reply comes later.
    /// By default, this server is no proxy.
    ///
    /// # Errors
    /// The query cannot be forwarded.
    fn forward(&mut self, _: QuicRoute, _: IpAddr, _: &[u8], _: &[u8]) -> Result<(), ProxyFault> {
        Err(ProxyFault::NoProxy)
    }
    /// Returns the configurations of the target; `None` if this server is no target.
    fn oblivious_configs(&mut self) -> Option<Arc<[u8]>> {
        None
    }
    /// Begins the time share of the next connection. Returns `false` if no time is left in this
    /// pass of the event loop. The queries of the connection then wait for
    /// [`QuicServer::catch_up`](super::QuicServer::catch_up).
    fn begin_share(&mut self) -> bool;
    /// Returns whether the connection has time left for another query in this pass of the event
    /// loop.
    fn has_time(&self) -> bool;
}

/// Time limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct QuicPatience {
    /// Maximum time without a query.
    pub idle: Duration,
    /// Maximum time until a query has arrived completely, and until the client has read a response.
    pub read: Duration,
}
