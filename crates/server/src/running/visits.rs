//! Visits to the page of blocked names.

use std::sync::atomic::AtomicU64;

use crate::connections::ConnectionCounts;

/// Who is on the page, and how many were.
#[derive(Default)]
pub(crate) struct Visits {
    /// The connections open.
    pub(crate) open: ConnectionCounts,
    /// Requests for a name that is blocked for the client.
    pub(crate) blocked: AtomicU64,
    /// Requests for a name that is not.
    pub(crate) not_blocked: AtomicU64,
    /// Requests without a name that can be read, or with a method other than GET and HEAD.
    pub(crate) unreadable: AtomicU64,
    /// Connections of clients who may not ask the server, or have too many open.
    pub(crate) refused: AtomicU64,
}
