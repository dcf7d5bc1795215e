//! Turns: a limit on concurrent requests.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The available turns.
pub(super) struct Turns {
    left: Mutex<usize>,
    freed: Condvar,
}

/// A turn, which ends when it is dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    pub(super) fn new(count: usize) -> Self {
        Self { left: Mutex::new(count), freed: Condvar::new() }
    }

    /// Waits for a turn. Returns `None` if none becomes available in time.
    pub(super) fn take(&self, patience: Duration) -> Option<Turn<'_>> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.freed.wait_timeout_while(left, patience, |left| *left == 0);
        let (mut left, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *left = left.checked_sub(1)?;
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
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
        let turns = Turns::new(2);
        let (first, second) = (turns.take(Duration::ZERO), turns.take(Duration::ZERO));
        assert!(first.is_some() && second.is_some());
        assert!(turns.take(Duration::ZERO).is_none());
        thread::scope(|scope| {
            let third = scope.spawn(|| turns.take(Duration::from_secs(60)).is_some());
            drop(first);
            assert!(third.join().unwrap());
        });
        // The turn of the third has ended.
        assert!(turns.take(Duration::ZERO).is_some());
    }
}
