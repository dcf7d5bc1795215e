//! Servers, and the sockets and connections to them: the names that both the resolver and its
//! driver use.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

/// Most servers that [`Strategy::Race`] queries at once.
pub const MAX_RACE: u8 = 8;

/// The transport of queries to a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// UDP, and TCP if an answer was truncated or doubtful.
    Udp,
    /// TCP only.
    Tcp,
}

/// The address and transport of a server. Two endpoints that differ in one field are two servers:
/// nothing that is learned of one applies to the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Its address.
    pub addr: SocketAddr,
    /// Its transport.
    pub transport: Transport,
}

/// Hashes address, port and transport as one word or as three: hashing them by field costs 2 % of a
/// walk's CPU time.
impl Hash for Endpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let tail = u64::from(self.addr.port()) << 8 | self.transport as u64;
        match self.addr.ip() {
            IpAddr::V4(ip) => state.write_u64(u64::from(ip.to_bits()) << 32 | tail),
            IpAddr::V6(ip) => {
                state.write_u128(ip.to_bits());
                state.write_u64(tail);
            }
        }
    }
}

impl Endpoint {
    /// Returns the endpoint at an address from a delegation, which is queried over UDP first.
    pub(crate) fn plain(addr: SocketAddr) -> Self {
        Self { addr, transport: Transport::Udp }
    }
}

/// The number of an endpoint in a resolver. It is constant while the plan has the endpoint or a
/// query to it is outstanding; later another endpoint may get it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EndpointId(pub u32);

/// A socket or connection to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SocketId {
    /// The server that it is connected to.
    pub endpoint: EndpointId,
    /// Its slot among those of this server.
    pub slot: SocketSlot,
}

/// The slot of a socket or connection to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SocketSlot {
    /// A UDP socket of the endpoint's pool, shared by queries.
    Pooled(u16),
    /// A UDP socket for one query. The numbers of [`SocketSlot::Single`] and
    /// [`SocketSlot::SingleStream`] are drawn together and are unique over all endpoints.
    Single(u32),
    /// The kept TCP connection, shared by queries.
    Stream,
    /// A TCP connection for one query.
    SingleStream(u32),
}

impl SocketSlot {
    /// Returns whether it is a TCP connection.
    #[must_use]
    pub fn is_stream(self) -> bool {
        matches!(self, Self::Stream | Self::SingleStream(_))
    }

    /// Returns the number of a socket or connection for one query, if it is one.
    #[must_use]
    pub fn single(self) -> Option<u32> {
        match self {
            Self::Single(number) | Self::SingleStream(number) => Some(number),
            Self::Pooled(_) | Self::Stream => None,
        }
    }
}

/// Why a socket or connection yields no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketFault {
    /// It could not be opened, the connection could not be made, or the network reported that the
    /// server cannot be reached.
    Unreachable,
    /// The connection was closed or reset, or the server sent something other than DNS.
    Closed,
    /// A query was not sent because this host lacks a descriptor, port or buffer. This is no fault
    /// of the server.
    Shortage,
    /// The driver closed the UDP socket because its port must be avoided: no reply can arrive.
    Withdrawn,
}

/// The order in which the servers of a rule are queried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// As configured; the next one if one fails.
    Ordered,
    /// In turn.
    RoundRobin,
    /// The one with the lowest smoothed round-trip time.
    Fastest,
    /// This number at once, from 2 to [`MAX_RACE`]; the first good answer is used.
    Race(u8),
}
