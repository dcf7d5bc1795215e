//! The export of traces to a collector of OpenTelemetry: from a query that a worker selected to the
//! request that contains its trace.
//!
//! ```text
//! TracedQuery -- spans, as the privacy of the client permits --> Backlog -- Collector --> HTTP
//! ```
//!
//! The calls of this module block, each for a limited time: only the thread of the export uses it
//! (`keepers/otlp.rs`).

pub(crate) mod backlog;
pub(crate) mod collector;
mod retry;
mod root;
pub(crate) mod spans;
mod steps;

use std::sync::atomic::AtomicU64;

/// Counts of the export since the start.
#[derive(Default)]
pub(crate) struct OtlpCounts {
    /// Traces that the collector accepted.
    pub(crate) traces: AtomicU64,
    /// The number of their spans.
    pub(crate) spans: AtomicU64,
    /// Spans that the collector rejected from requests that it accepted.
    pub(crate) rejected_spans: AtomicU64,
    /// Traces lost in the queues of the workers.
    pub(crate) queue: AtomicU64,
    /// Traces dropped because of the limit per second.
    pub(crate) limit: AtomicU64,
    /// Traces lost because too many waited for the collector, or the server ended.
    pub(crate) backlog: AtomicU64,
    /// Traces of requests that the collector refused.
    pub(crate) refused: AtomicU64,
    /// Traces that wait for the collector.
    pub(crate) waiting: AtomicU64,
    /// Requests that were sent again, or will be sent again.
    pub(crate) retries: AtomicU64,
}
