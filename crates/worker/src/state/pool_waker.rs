//! The waker of the thread that probes the targets of pools.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A waker for the thread that probes the targets of pools. The thread is woken for a new
/// configuration, for a decision of an operator, or to end.
#[derive(Default)]
pub struct PoolWaker {
    closing: Mutex<Closing>,
    woken: Condvar,
}

#[derive(Default)]
struct Closing {
    is_closed: bool,
    is_woken: bool,
}

impl PoolWaker {
    /// Makes the thread end.
    pub fn close(&self) {
        self.closing().is_closed = true;
        self.woken.notify_all();
    }

    /// Wakes the thread, which then reads the configuration.
    pub fn wake(&self) {
        self.closing().is_woken = true;
        self.woken.notify_all();
    }

    /// Waits until the thread is woken, but at most for `most`. Returns `false` if the thread must
    /// end.
    pub fn wait(&self, most: Option<Duration>) -> bool {
        let is_idle = |closing: &mut Closing| !closing.is_closed && !closing.is_woken;
        let closing = self.closing();
        let mut closing = match most {
            Some(most) => {
                let waited = self.woken.wait_timeout_while(closing, most, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.woken.wait_while(closing, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        closing.is_woken = false;
        !closing.is_closed
    }

    fn closing(&self) -> MutexGuard<'_, Closing> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
