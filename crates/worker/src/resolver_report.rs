//! The report of a worker on its resolver. The worker publishes it about twice a second, and
//! metrics read it.

use std::net::SocketAddr;

use avocet_resolver::{BreakerState, Counters, EndpointId, TlsFault, Transport, UpstreamCounters};

/// The prefixes of encrypted upstreams in the query log, before their addresses: for TLS, HTTPS,
/// QUIC and HTTP/3.
pub const LOGGED_ENCRYPTED: [&str; 4] = ["tls://", "https://", "quic://", "h3://"];

/// The state of one worker's resolver when it was last published.
#[derive(Default)]
pub struct ResolverReport {
    /// Counters of the resolver.
    pub counters: Counters,
    /// The report of each upstream in the plan.
    pub upstreams: Vec<UpstreamReport>,
    /// The numbers of open sockets to servers.
    pub sockets: SocketCounts,
}

/// The state of an upstream in one worker.
pub struct UpstreamReport {
    /// The identifier of the upstream in the resolver.
    pub id: EndpointId,
    /// The address.
    pub addr: SocketAddr,
    /// The transport.
    pub transport: Transport,
    /// The reason why TLS fails; `None` if it does not fail.
    pub tls_fault: Option<TlsFault>,
    /// The counters.
    pub counters: UpstreamCounters,
    /// The state of the circuit breaker of the upstream.
    pub breaker: BreakerState,
}

/// Returns an upstream as text for the query log.
pub(crate) fn logged(transport: Transport, addr: SocketAddr) -> String {
    let scheme = match transport {
        Transport::Udp | Transport::Tcp => "",
        Transport::Tls(_) => LOGGED_ENCRYPTED[0],
        Transport::Https(_) => LOGGED_ENCRYPTED[1],
        Transport::Quic(_) => LOGGED_ENCRYPTED[2],
        Transport::H3(_) => LOGGED_ENCRYPTED[3],
    };
    format!("{scheme}{addr}")
}

/// Numbers of open sockets, for metrics.
#[derive(Clone, Copy, Default, Debug)]
pub struct SocketCounts {
    /// Number of open UDP sockets in pools.
    pub pooled: u64,
    /// Number of open UDP sockets for single queries.
    pub fresh: u64,
    /// Number of kept TCP connections without TLS.
    pub streams: u64,
    /// Number of kept connections with TLS over TCP.
    pub tls: u64,
    /// Number of kept QUIC connections.
    pub quic: u64,
    /// Number of open UDP sockets and TCP connections to authoritative servers, each for one query.
    pub authorities: u64,
}
