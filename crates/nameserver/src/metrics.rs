//! Counters of the worker threads: each worker writes its own counters, and a scrape adds them up.
//!
//! A counter has one writer, so an addition is a load and a store on a cache line that no other
//! thread writes: about a nanosecond, without a locked instruction.

use std::sync::atomic::{AtomicU64, Ordering};

use avocet_wire::Rtype;

use crate::query::asked::Transport;
use crate::query::decision::Decision;
pub use crate::query::decision::{STAGES, Stage};

/// A counter with one writer.
#[derive(Default, Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the count. Only the worker that owns the counter calls this method.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Sets a level, such as the number of open connections.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the current value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Types that are counted by name; all others are counted together.
pub const TYPES: [(Rtype, &str); 11] = [
    (Rtype::A, "A"),
    (Rtype::AAAA, "AAAA"),
    (Rtype(65), "HTTPS"),
    (Rtype::PTR, "PTR"),
    (Rtype::TXT, "TXT"),
    (Rtype::MX, "MX"),
    (Rtype(33), "SRV"),
    (Rtype::NS, "NS"),
    (Rtype::SOA, "SOA"),
    (Rtype::DS, "DS"),
    (Rtype::ANY, "ANY"),
];

/// Number of RCODEs that have a counter of their own, which are those with a name.
pub const RCODES: usize = 24;
/// Number of buckets of a latency histogram.
pub const BUCKETS: usize = 24;

/// A histogram of latencies. Bucket `i` counts latencies of at most `2^i` microseconds that no
/// earlier bucket counts.
#[derive(Default, Debug)]
pub struct Latencies {
    buckets: [Counter; BUCKETS],
    sum_micros: Counter,
}

impl Latencies {
    /// Counts `n` answers with this latency.
    #[inline]
    pub fn record(&self, micros: u64, n: u64) {
        let bucket = (64 - micros.saturating_sub(1).leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)].add(n);
        self.sum_micros.add(micros * n);
    }

    /// Returns the count of each bucket, and the sum of all latencies in microseconds.
    pub fn read(&self) -> ([u64; BUCKETS], u64) {
        (std::array::from_fn(|at| self.buckets[at].value()), self.sum_micros.value())
    }
}

/// The results of TLS handshakes: a full handshake, a resumed session, or a failure.
pub const HANDSHAKES: [&str; 3] = ["full", "resumed", "failed"];

/// The transports of early data.
pub const EARLY_TRANSPORTS: [&str; 2] = ["tls", "quic"];

/// The reasons why HTTP ends a connection: a violation of the protocol, or an exceeded limit.
pub const HTTPS_ENDS: [&str; 2] = ["protocol", "excess"];

/// The reasons why the target of Oblivious DNS over HTTPS rejects a query, in the order of
/// `ObliviousFault` of the crate `session`.
pub const ODOH_REJECTIONS: [&str; 5] =
    ["malformed", "unknown-key", "undecipherable", "not-a-query", "too-long"];

/// The results of QUIC handshakes: complete, failed, and retried with a proof of the client's
/// address.
pub const QUIC_HANDSHAKES: [&str; 3] = ["complete", "failed", "retry"];

/// The reasons why the server ends a QUIC connection: a violation of the protocol, or an exceeded
/// limit.
pub const QUIC_ENDS: [&str; 2] = ["protocol", "excess"];

/// The counters of one worker.
#[derive(Default, Debug)]
#[repr(align(128))]
pub struct WorkerMetrics {
    /// Queries by transport.
    pub queries: [Counter; Transport::COUNT],
    /// Queries by type; the last counter is for all other types.
    pub types: [Counter; TYPES.len() + 1],
    /// Answers by RCODE.
    pub rcodes: [Counter; RCODES],
    /// Queries by the stage that ended them.
    pub stages: [Counter; STAGES.len()],
    /// Latencies of queries that needed no network. One measurement applies to all queries of a
    /// batch of datagrams.
    pub hit_latency: Latencies,
    /// Latencies of queries that waited for the network.
    pub miss_latency: Latencies,
    /// Batches of UDP datagrams that were received.
    pub batches: Counter,
    /// UDP replies that the kernel refused.
    pub replies_dropped: Counter,
    /// Datagrams that the kernel discarded because the receive queue was full.
    pub overflows: Counter,
    /// Popular names that were refreshed before they expired.
    pub prefetches: Counter,
    /// Answers dropped by the rate limit.
    pub limit_drops: Counter,
    /// Answers truncated by the rate limit.
    pub limit_slips: Counter,
    /// TCP connections accepted.
    pub tcp_accepted: Counter,
    /// TCP connections rejected by a limit, in total or for one client.
    pub tcp_rejected: Counter,
    /// TCP connections that were closed immediately because the client is not allowed.
    pub tcp_refused: Counter,
    /// Datagrams and connections of proxies that lack the required header.
    pub proxy_headers_refused: Counter,
    /// TCP connections closed for a timeout or to make room.
    pub tcp_expired: Counter,
    /// TCP connections open.
    pub tcp_open: Counter,
    /// Open TLS connections, including those with an incomplete handshake.
    pub tls_open: Counter,
    /// Open HTTPS connections, which are also counted in `tls_open`.
    pub https_open: Counter,
    /// Connections that HTTP has ended, in the order of [`HTTPS_ENDS`].
    pub https_ends: [Counter; HTTPS_ENDS.len()],
    /// TLS handshakes by result, in the order of [`HANDSHAKES`].
    pub tls_handshakes: [Counter; HANDSHAKES.len()],
    /// Oblivious queries that were rejected, in the order of [`ODOH_REJECTIONS`].
    pub odoh_rejections: [Counter; ODOH_REJECTIONS.len()],
    /// Responses with the configurations of the target.
    pub odoh_configs: Counter,
    /// Open QUIC connections, including those with an incomplete handshake.
    pub quic_open: Counter,
    /// QUIC handshakes by result, in the order of [`QUIC_HANDSHAKES`].
    pub quic_handshakes: [Counter; QUIC_HANDSHAKES.len()],
    /// Complete handshakes of clients with early data, in the order of [`EARLY_TRANSPORTS`].
    pub early_handshakes: [Counter; EARLY_TRANSPORTS.len()],
    /// QUIC connections that the server ended, in the order of [`QUIC_ENDS`].
    pub quic_ends: [Counter; QUIC_ENDS.len()],
    /// QUIC connections refused because the access list does not allow the client.
    pub quic_refused: Counter,
    /// QUIC connections rejected by a limit, in total or for one client.
    pub quic_rejected: Counter,
    /// Turns of the event loop that ended before all queries were answered, because their time was
    /// used up.
    pub cut_short: Counter,
    /// Panics from which the worker recovered.
    pub panics: Counter,
    /// Queries handed to the worker that owns their name.
    pub handed_over: Counter,
    /// Queries held until their client was looked up.
    pub held: Counter,
    /// Queries whose client could not be identified in time.
    pub unidentified: Counter,
    /// Monotonic seconds of the last sweep (periodic work, about twice a second), as a sign of
    /// life; 0 before the first sweep.
    pub turned_at_secs: Counter,
}

impl WorkerMetrics {
    /// Counts an answered query.
    #[inline]
    pub(crate) fn count(&self, decision: &Decision) {
        let Decision { stage, transport, qtype, rcode, .. } = *decision;
        self.queries[transport as usize].add(1);
        self.stages[stage as usize].add(1);
        let at = TYPES.iter().position(|(rtype, _)| *rtype == qtype).unwrap_or(TYPES.len());
        self.types[at].add(1);
        self.rcodes[usize::from(rcode.0).min(RCODES - 1)].add(1);
    }

    /// Returns the number of queries that reached resolution without a valid answer in the packet
    /// cache.
    pub fn packet_misses(&self) -> u64 {
        self.rrset_misses() + self.stages[Stage::RrsetHit as usize].value()
    }

    /// Returns the number of packet-cache misses without an answer in the RRset cache.
    pub fn rrset_misses(&self) -> u64 {
        let stages = [
            Stage::Resolved,
            Stage::Failed,
            Stage::FailureHit,
            Stage::NotRecursive,
            Stage::Shed,
            Stage::Stale,
        ];
        stages.into_iter().map(|at| self.stages[at as usize].value()).sum()
    }

    /// Counts a query without a reply.
    pub(crate) fn count_silent(&self, decision: &Decision) {
        let Decision { stage, transport, .. } = *decision;
        self.queries[transport as usize].add(1);
        self.stages[stage as usize].add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_fall_into_buckets_of_powers_of_two() {
        let latencies = Latencies::default();
        for (micros, bucket) in
            [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1 << 40, BUCKETS - 1)]
        {
            let before = latencies.read().0[bucket];
            latencies.record(micros, 1);
            assert_eq!(latencies.read().0[bucket], before + 1, "{micros}");
        }
    }
}
