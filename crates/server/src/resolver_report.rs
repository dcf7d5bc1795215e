//! The report of a worker on its resolver: published at each sweep, read for metrics.

use std::net::SocketAddr;

use avocet_resolver::{BreakerState, Counters, EndpointId, TlsFault, Transport, UpstreamCounters};

/// What the query log writes before the address of an upstream with encryption: TLS, HTTPS, QUIC
/// and HTTP/3.
pub(crate) const LOGGED_ENCRYPTED: [&str; 4] = ["tls://", "https://", "quic://", "h3://"];

/// The state of one worker's resolver at its last sweep.
#[derive(Default)]
pub(crate) struct ResolverReport {
    /// Counters of the resolver.
    pub(crate) counters: Counters,
    /// One for each upstream in the plan.
    pub(crate) upstreams: Vec<UpstreamReport>,
    /// Open upstream sockets.
    pub(crate) sockets: SocketCounts,
}

/// The state of an upstream in one worker.
pub(crate) struct UpstreamReport {
    /// Its number in the resolver.
    pub(crate) id: EndpointId,
    /// Its address.
    pub(crate) addr: SocketAddr,
    /// Its transport.
    pub(crate) transport: Transport,
    /// Why TLS fails.
    pub(crate) tls_fault: Option<TlsFault>,
    /// Its counters.
    pub(crate) counters: UpstreamCounters,
    /// The state of its circuit breaker.
    pub(crate) breaker: BreakerState,
}

impl UpstreamReport {
    /// Returns the upstream as the query log has it.
    pub(crate) fn logged(&self) -> String {
        let scheme = match self.transport {
            Transport::Udp | Transport::Tcp => "",
            Transport::Tls(_) => LOGGED_ENCRYPTED[0],
            Transport::Https(_) => LOGGED_ENCRYPTED[1],
            Transport::Quic(_) => LOGGED_ENCRYPTED[2],
            Transport::H3(_) => LOGGED_ENCRYPTED[3],
        };
        format!("{scheme}{}", self.addr)
    }
}

/// Numbers of open sockets, for metrics.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SocketCounts {
    /// Open UDP sockets in pools.
    pub(crate) pooled: u64,
    /// Open UDP sockets for single queries.
    pub(crate) fresh: u64,
    /// Kept TCP connections without TLS.
    pub(crate) streams: u64,
    /// Kept connections with TLS over TCP.
    pub(crate) tls: u64,
    /// Kept connections of QUIC.
    pub(crate) quic: u64,
    /// Open UDP sockets and TCP connections to authoritative servers, each for one query.
    pub(crate) authorities: u64,
}
