//! The types that identify servers, and sockets and connections to servers. The resolver and its
//! driver both use these types.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use avocet_wire::DNS_PORT;

/// Maximum number of servers that [`Strategy::Race`] queries at the same time.
pub const MAX_RACE: u8 = 8;

/// The transport of queries to a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// UDP first. TCP is used if an answer was truncated or doubtful.
    Udp,
    /// TCP only.
    Tcp,
    /// TLS only (RFC 7858), to a server that proves to be this peer.
    Tls(PeerId),
    /// HTTPS only (RFC 8484), to a server that proves to be this peer.
    Https(PeerId),
    /// QUIC only (RFC 9250), to a server that proves to be this peer.
    Quic(PeerId),
    /// HTTPS in HTTP/3 only, to a server that proves to be this peer.
    H3(PeerId),
}

impl Transport {
    /// Returns the identifier of the proof of identity that the server must provide; `None` if none
    /// is required.
    #[must_use]
    pub fn peer(self) -> Option<PeerId> {
        match self {
            Self::Udp | Self::Tcp => None,
            Self::Tls(peer) | Self::Https(peer) | Self::Quic(peer) | Self::H3(peer) => Some(peer),
        }
    }
}

/// The identifier of the proof that a server with TLS must provide: its name, and the authorities
/// or keys that confirm the name. Equal identifiers mean the same proof, in all plans.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerId(pub u64);

impl PeerId {
    /// The identifier for authoritative servers without a proof, to which queries are encrypted
    /// opportunistically (RFC 9539). A configured peer has this identifier only with a probability
    /// of 2^-64.
    pub const UNPROVEN: Self = Self(0);
}

/// The port of DNS over TLS.
const TLS_PORT: u16 = 853;

/// The transport of one query. For example, a query over TCP may follow a query over UDP to the
/// same server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// A datagram.
    Udp,
    /// A connection.
    Tcp,
    /// A connection with TLS.
    Tls,
    /// A connection with HTTPS.
    Https,
    /// A stream of QUIC.
    Quic,
    /// A stream of QUIC, with HTTP/3.
    H3,
}

impl Carrier {
    /// Returns whether the query is sent over a connection.
    #[must_use]
    pub fn is_stream(self) -> bool {
        self != Self::Udp
    }

    /// Returns whether the transport is encrypted.
    #[must_use]
    pub fn is_encrypted(self) -> bool {
        !matches!(self, Self::Udp | Self::Tcp)
    }
}

/// The address and transport of a server. Two endpoints that differ in either field are separate
/// servers, with separate records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// The address.
    pub addr: SocketAddr,
    /// The transport.
    pub transport: Transport,
}

/// The hash covers address, port and transport as one word (IPv4) or three words (IPv6). A derived
/// implementation would cost 2 % of the CPU time of recursion.
impl Hash for Endpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let kind = match self.transport {
            Transport::Udp => 0,
            Transport::Tcp => 1,
            Transport::Tls(_) => 2,
            Transport::Https(_) => 3,
            Transport::Quic(_) => 4,
            Transport::H3(_) => 5,
        };
        if let Some(peer) = self.transport.peer() {
            state.write_u64(peer.0);
        }
        let tail = u64::from(self.addr.port()) << 8 | kind;
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

    /// Returns the unproven endpoint of a server: TLS at the same address. Returns `None` unless
    /// the server is queried over UDP on port 53.
    pub(crate) fn unproven(self) -> Option<Self> {
        let is_plain = self.transport == Transport::Udp && self.addr.port() == DNS_PORT;
        is_plain.then(|| Self {
            addr: SocketAddr::new(self.addr.ip(), TLS_PORT),
            transport: Transport::Tls(PeerId::UNPROVEN),
        })
    }
}

/// The identifier of an endpoint in a resolver. It is constant while the endpoint is in the plan or
/// has an outstanding query. Later, another endpoint may get this identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EndpointId(pub u32);

/// The identifier of a socket or connection to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SocketId {
    /// The endpoint that the socket or connection is connected to.
    pub endpoint: EndpointId,
    /// The index of the slot among the slots of this server.
    pub slot: SocketSlot,
}

/// The slot of a socket or connection to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SocketSlot {
    /// A UDP socket of the endpoint's pool. Several queries share the socket.
    Pooled(u16),
    /// A UDP socket for one query. The numbers of [`SocketSlot::Single`] and
    /// [`SocketSlot::SingleStream`] come from the same sequence and are unique among all endpoints.
    Single(u32),
    /// The kept connection to the endpoint. Several queries share the connection.
    Stream,
    /// A connection for one query.
    SingleStream(u32),
}

impl SocketSlot {
    /// Returns whether the slot is for a connection: TCP, with or without TLS, or QUIC.
    #[must_use]
    pub fn is_stream(self) -> bool {
        matches!(self, Self::Stream | Self::SingleStream(_))
    }

    /// Returns the number of a socket or connection for one query; `None` if several queries share
    /// it.
    #[must_use]
    pub fn single(self) -> Option<u32> {
        match self {
            Self::Single(number) | Self::SingleStream(number) => Some(number),
            Self::Pooled(_) | Self::Stream => None,
        }
    }
}

/// The reason why a socket or connection yields no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketFault {
    /// The socket could not be opened, the connection could not be made, or the network reported
    /// that the server cannot be reached.
    Unreachable,
    /// The connection was closed or reset, or the server sent something other than DNS.
    Closed,
    /// A query was not sent because this host has no free file descriptor, port or buffer. The
    /// server is not at fault.
    Shortage,
    /// The driver closed the UDP socket, because its port must no longer be used. No reply can
    /// arrive on it.
    Withdrawn,
    /// TLS failed. The query is not repeated without TLS.
    Tls(TlsFault),
}

/// The reason why TLS to a server failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TlsFault {
    /// The certificate has another name.
    Name,
    /// No trusted authority has issued the certificate.
    Issuer,
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    Early,
    /// The key is not one of the pinned keys.
    Pin,
    /// The certificate cannot be used for another reason.
    Certificate,
    /// The server refused with an alert.
    Alert,
    /// The server's octets are not TLS, or violate its rules.
    Protocol,
    /// The handshake took too long.
    Slow,
    /// This host does not connect, because it could not read the files with the TLS settings for
    /// the server.
    Unset,
}

impl TlsFault {
    /// All faults, in the order of counters.
    pub const ALL: [Self; 10] = [
        Self::Name,
        Self::Issuer,
        Self::Expired,
        Self::Early,
        Self::Pin,
        Self::Certificate,
        Self::Alert,
        Self::Protocol,
        Self::Slow,
        Self::Unset,
    ];

    /// Returns the word for the fault, for metrics and scripts.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Issuer => "issuer",
            Self::Expired => "expired",
            Self::Early => "not-yet-valid",
            Self::Pin => "pin",
            Self::Certificate => "certificate",
            Self::Alert => "alert",
            Self::Protocol => "protocol",
            Self::Slow => "timeout",
            Self::Unset => "settings",
        }
    }

    /// Returns a sentence about the fault, for the operator.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Name => "TLS upstream: its certificate has another name",
            Self::Issuer => "TLS upstream: no trusted authority issued its certificate",
            Self::Expired => "TLS upstream: its certificate has expired",
            Self::Early => "TLS upstream: its certificate is not valid yet",
            Self::Pin => "TLS upstream: its key is not pinned",
            Self::Certificate => "TLS upstream: its certificate cannot be used",
            Self::Alert => "TLS upstream: it refused the handshake",
            Self::Protocol => "TLS upstream: it does not speak TLS",
            Self::Slow => "TLS upstream: the handshake took too long",
            Self::Unset => "TLS upstream: the settings of this server cannot be used",
        }
    }
}

/// The order in which the servers of a rule are queried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// The servers are queried in the configured order. If one fails, the next one is queried.
    Ordered,
    /// The servers take turns.
    RoundRobin,
    /// The server with the lowest smoothed round-trip time is queried first.
    Fastest,
    /// This number of servers is queried at once, from 2 to [`MAX_RACE`]; the first good answer is
    /// used.
    Race(u8),
}
