//! The keys of the target of Oblivious DNS over HTTPS, which all workers share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use avocet_session::oblivious::ObliviousTarget;

/// The target in force; none if this server is no target.
#[derive(Default)]
pub struct ObliviousKeys {
    target: Mutex<Option<Arc<ObliviousTarget>>>,
    /// Number of changes. A worker takes the lock only after a change.
    changes: AtomicU64,
}

impl ObliviousKeys {
    /// Replaces the target. Workers use it from their next turn on.
    pub fn put(&self, target: Option<Arc<ObliviousTarget>>) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns the target in force.
    pub fn in_force(&self) -> Option<Arc<ObliviousTarget>> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The target as a worker knows it.
#[derive(Default)]
pub(crate) struct KnownTarget {
    target: Option<Arc<ObliviousTarget>>,
    changes: u64,
}

impl KnownTarget {
    /// Follows the changes of the keys. Called at the start of each turn.
    pub(crate) fn follow(&mut self, keys: &ObliviousKeys) {
        let changes = keys.changes.load(Ordering::Acquire);
        if changes != self.changes {
            (self.changes, self.target) = (changes, keys.in_force());
        }
    }

    /// Returns the target, if this server is one.
    pub(crate) fn get(&self) -> Option<&ObliviousTarget> {
        self.target.as_deref()
    }
}
