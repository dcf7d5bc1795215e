//! What a worker tells of its resolver: published each sweep, read by a scrape of the metrics.

use std::net::SocketAddr;

use avocet_resolver::{BreakerState, Counters, Transport, UpstreamCounters};

/// The state of one worker's resolver at its last sweep.
#[derive(Default)]
pub(crate) struct ResolverReport {
    /// What the resolver counted.
    pub(crate) counters: Counters,
    /// Of each upstream in the plan.
    pub(crate) upstreams: Vec<UpstreamReport>,
    /// Sockets towards upstreams that are open.
    pub(crate) sockets: SocketCounts,
}

/// One upstream as one worker sees it.
pub(crate) struct UpstreamReport {
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    /// How it is asked.
    pub(crate) transport: Transport,
    /// What was counted.
    pub(crate) counters: UpstreamCounters,
    /// Whether it is asked.
    pub(crate) breaker: BreakerState,
}

/// Counts of what was opened, for the metrics.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SocketCounts {
    /// UDP sockets open in pools.
    pub(crate) pooled: u64,
    /// UDP sockets open for one query.
    pub(crate) fresh: u64,
    /// TCP connections open.
    pub(crate) streams: u64,
    /// UDP sockets and TCP connections open towards authoritative servers, each for one query.
    pub(crate) authorities: u64,
}
