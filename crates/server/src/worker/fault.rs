//! What is left of a worker after a panic: all but the one query that made it.
//!
//! Where one query or one answer is being made, the panic ends there ([`contained`]). Elsewhere it
//! ends the turn; then what may be half changed is made anew, and the questions in flight are asked
//! again, once each: a reply that brings its resolver down a second time is answered with SERVFAIL.

use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(test)]
use std::sync::atomic::{AtomicBool, Ordering};

use avocet_nameserver::metrics::WorkerMetrics;

/// Makes the next turn of a worker panic.
#[cfg(test)]
pub(crate) static IN_TURN: AtomicBool = AtomicBool::new(false);
/// Makes the next query that a worker reads panic.
#[cfg(test)]
pub(crate) static IN_QUERY: AtomicBool = AtomicBool::new(false);

/// Panics if a test has planted a fault there.
#[cfg(test)]
pub(super) fn planted(fault: &AtomicBool) {
    assert!(!fault.swap(false, Ordering::Relaxed), "a fault, planted by a test");
}

/// What `make` gives; none if it panics. It must leave nothing half changed that others read.
#[inline]
pub(super) fn contained<T>(metrics: &WorkerMetrics, make: impl FnOnce() -> T) -> Option<T> {
    let made = catch_unwind(AssertUnwindSafe(make));
    if made.is_err() {
        metrics.panics.add(1);
    }
    made.ok()
}
