//! Visits to the block page.

use std::sync::atomic::AtomicU64;

use avocet_worker::connections::ConnectionCounts;

/// Open connections and counts of the block page.
#[derive(Default)]
pub(crate) struct Visits {
    /// The open connections.
    pub(crate) open: ConnectionCounts,
    /// Requests for a name that is blocked for the client.
    pub(crate) blocked: AtomicU64,
    /// Requests for a name that is not blocked.
    pub(crate) not_blocked: AtomicU64,
    /// Requests without a readable name, or with a method other than GET and HEAD.
    pub(crate) unreadable: AtomicU64,
    /// Connections of clients that may not query the server, or have too many open.
    pub(crate) refused: AtomicU64,
}
