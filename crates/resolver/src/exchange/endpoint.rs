//! Servers that are asked, and the sockets and connections towards them: their names on both sides
//! of the interface between the resolver and its driver.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

/// Most servers that [`Strategy::Race`] asks at once.
pub const MAX_RACE: u8 = 8;

/// How a server is asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// UDP, and TCP where an answer was truncated or doubtful.
    Udp,
    /// TCP only.
    Tcp,
}

/// A server as queries reach it. Two endpoints that differ in one field are two servers: nothing
/// that is learned of one counts for the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Where it listens.
    pub addr: SocketAddr,
    /// How it is asked.
    pub transport: Transport,
}

/// Hashes address, port and transport as one word or three: field by field it costs a walk 2 % of
/// its CPU time.
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
    /// Returns the endpoint at an address that a delegation gives: asked by UDP first.
    pub(crate) fn plain(addr: SocketAddr) -> Self {
        Self { addr, transport: Transport::Udp }
    }
}

/// The number of an endpoint within a resolver. It is the same while the plan names the endpoint
/// or a query to it is waited for; later another endpoint may get it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EndpointId(pub u32);

/// A socket or connection towards an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SocketId {
    /// The server it is connected to.
    pub endpoint: EndpointId,
    /// Which of those towards that server.
    pub slot: SocketSlot,
}

/// Which of the sockets and connections towards an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SocketSlot {
    /// A UDP socket of the endpoint's pool, shared by queries.
    Pooled(u16),
    /// A UDP socket for one query. [`SocketSlot::Single`] and [`SocketSlot::SingleStream`] have
    /// numbers in common, which are unique over all endpoints.
    Single(u32),
    /// The TCP connection that is kept, shared by queries.
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

    /// Returns the number of a socket or connection for one query.
    #[must_use]
    pub fn single(self) -> Option<u32> {
        match self {
            Self::Single(number) | Self::SingleStream(number) => Some(number),
            Self::Pooled(_) | Self::Stream => None,
        }
    }
}

/// Why nothing came from a socket or connection, and nothing will.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketFault {
    /// It could not be opened, the connection could not be made, or the network reported that the
    /// server cannot be reached.
    Unreachable,
    /// The connection was closed or reset, or brought something other than DNS.
    Closed,
    /// A query was not sent for lack of a descriptor, port or buffer of our own, which says nothing
    /// of the server.
    Shortage,
    /// The UDP socket was closed here, as its port is to be avoided: no reply can come.
    Withdrawn,
}

/// In which order the servers of a rule are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// As written; the next one when the one before fails.
    Ordered,
    /// Each in its turn.
    RoundRobin,
    /// The one with the lowest smoothed round-trip time.
    Fastest,
    /// This number at once, from 2 to [`MAX_RACE`]; the first good answer counts.
    Race(u8),
}
