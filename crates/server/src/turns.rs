//! A limit on concurrent requests: each takes a turn (a permit) before it begins, and returns the
//! turn at its end.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The turns that are not taken.
pub(crate) struct Turns {
    left: Mutex<usize>,
    freed: Condvar,
}

/// A turn; dropping it frees the turn for others.
pub(crate) struct Turn(Arc<Turns>);

impl Turns {
    pub(crate) fn new(count: usize) -> Self {
        Self { left: Mutex::new(count), freed: Condvar::new() }
    }

    /// Waits for a turn. Returns `None` if no turn becomes available in time.
    pub(crate) fn take(self: &Arc<Self>, patience: Duration) -> Option<Turn> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.freed.wait_timeout_while(left, patience, |left| *left == 0);
        let (mut left, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *left = left.checked_sub(1)?;
        Some(Turn(self.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_turn_comes_when_another_ends() {
        let turns = Arc::new(Turns::new(2));
        let (first, second) = (turns.take(Duration::ZERO), turns.take(Duration::ZERO));
        assert!(first.is_some() && second.is_some());
        assert!(turns.take(Duration::ZERO).is_none());
        thread::scope(|scope| {
            let third = scope.spawn(|| turns.take(Duration::from_secs(60)).is_some());
            drop(first);
            assert!(third.join().unwrap());
        });
        // The turn of the third thread has ended.
        assert!(turns.take(Duration::ZERO).is_some());
    }
}
