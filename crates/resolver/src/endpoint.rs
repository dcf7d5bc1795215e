//! Servers that are asked: where they are, how they are asked, and in which order.

use std::net::SocketAddr;

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

/// A server that queries are forwarded to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UpstreamSpec {
    /// Where it listens.
    pub addr: SocketAddr,
    /// How it is asked.
    pub transport: Transport,
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
    /// So many at once, from 2 to [`MAX_RACE`]; the first good answer counts.
    Race(u8),
}
