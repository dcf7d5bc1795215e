//! Panics in a worker: each costs at most the one query that caused it.
//!
//! A panic while one query or one reply is made ends there ([`contained`]). A panic elsewhere ends
//! the turn of the event loop. State that may be inconsistent is then rebuilt, and each question in
//! flight is resolved again, but only once. If a question causes a second panic, its clients get
//! SERVFAIL.

use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(test)]
use std::sync::atomic::{AtomicBool, Ordering};

use avocet_nameserver::metrics::WorkerMetrics;

/// Makes the next turn of a worker panic.
#[cfg(test)]
pub(crate) static IN_TURN: AtomicBool = AtomicBool::new(false);
/// Makes the next action of a resolver panic.
#[cfg(test)]
pub(crate) static IN_ACTION: AtomicBool = AtomicBool::new(false);
/// Makes the next query that a worker reads panic.
#[cfg(test)]
pub(crate) static IN_QUERY: AtomicBool = AtomicBool::new(false);

/// Panics if a test has planted this fault.
#[cfg(test)]
pub(super) fn planted(fault: &AtomicBool) {
    assert!(!fault.swap(false, Ordering::Relaxed), "a fault, planted by a test");
}

/// Returns the result of `make`, or `None` if it panics. If `make` panics, it must not leave shared
/// state inconsistent.
#[inline]
pub(super) fn contained<T>(metrics: &WorkerMetrics, make: impl FnOnce() -> T) -> Option<T> {
    let made = catch_unwind(AssertUnwindSafe(make));
    if made.is_err() {
        metrics.panics.add(1);
    }
    made.ok()
}
