//! The report of a worker on its resolver: published at each sweep, read for metrics.

use std::net::SocketAddr;

use avocet_resolver::{BreakerState, Counters, EndpointId, Transport, UpstreamCounters};

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
    /// Its counters.
    pub(crate) counters: UpstreamCounters,
    /// The state of its circuit breaker.
    pub(crate) breaker: BreakerState,
}

/// Numbers of open sockets, for metrics.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SocketCounts {
    /// Open UDP sockets in pools.
    pub(crate) pooled: u64,
    /// Open UDP sockets for single queries.
    pub(crate) fresh: u64,
    /// Open TCP connections.
    pub(crate) streams: u64,
    /// Open UDP sockets and TCP connections to authoritative servers, each for one query.
    pub(crate) authorities: u64,
}
