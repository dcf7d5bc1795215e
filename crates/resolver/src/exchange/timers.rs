//! The timers of a resolver: one for each task and each fetch, in one wheel.

use super::wheel::Wheel;

/// The owner of a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// The timer of the task with this index.
    Task(u32),
    /// The timer of the fetch with this index.
    Fetch(u32),
}

impl Timer {
    /// Returns the index of the timer's entry in the wheel.
    fn entry(self) -> u32 {
        match self {
            Self::Task(at) => at << 1,
            Self::Fetch(at) => at << 1 | 1,
        }
    }

    fn of(entry: u32) -> Self {
        match entry & 1 {
            0 => Self::Task(entry >> 1),
            _ => Self::Fetch(entry >> 1),
        }
    }
}

/// The timers of tasks and fetches; see the module.
#[derive(Debug)]
pub(crate) struct Timers(Wheel);

impl Default for Timers {
    fn default() -> Self {
        Self(Wheel::new())
    }
}

impl Timers {
    /// Sets or moves a timer.
    pub(crate) fn set(&mut self, timer: Timer, at_ms: u64) {
        self.0.set(timer.entry(), at_ms);
    }

    /// Stops a timer, if it is set.
    pub(crate) fn clear(&mut self, timer: Timer) {
        self.0.clear(timer.entry());
    }

    /// Removes and returns one timer that has expired.
    pub(crate) fn expired(&mut self, now_ms: u64) -> Option<Timer> {
        self.0.expired(now_ms).map(Timer::of)
    }

    /// Returns a time in ms that is not later than the expiry of the next timer.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.0.next_ms()
    }
}
