//! Decides whether the wall clock can be trusted for deletions: it must have agreed with the
//! monotonic clock for some time.
//!
//! The wall clock is wrong if the machine has no battery and the time is not set yet, or if the
//! time source is wrong. Entries that are deleted because of a wrong clock cannot be restored.

use std::time::{Duration, Instant};

use avocet_querylog::Ages;

/// The time for which the clocks must have agreed before entries are deleted by age.
pub(crate) const STEADY: Duration = Duration::from_secs(3600);
/// The maximum change of the wall clock, relative to the monotonic clock, that does not count as a
/// step. Small corrections do not matter for ages in days.
const TOLERANCE_US: u64 = 60_000_000;

/// The watch over the wall clock.
#[derive(Default)]
pub(crate) struct SteadyClock {
    agreed: Option<Agreement>,
}

/// The times of both clocks at the beginning of a period in which they agree.
#[derive(Clone, Copy)]
struct Agreement {
    wall_us: u64,
    at: Instant,
}

impl SteadyClock {
    /// Compares the times of both clocks with the last agreement. Returns whether the ages of
    /// entries can be trusted.
    pub(crate) fn note(&mut self, wall_us: u64, at: Instant) -> Ages {
        let begin = Agreement { wall_us, at };
        let agreed = *self.agreed.get_or_insert(begin);
        let passed = at.saturating_duration_since(agreed.at);
        let passed_us = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
        if agreed.wall_us.saturating_add(passed_us).abs_diff(wall_us) > TOLERANCE_US {
            self.agreed = Some(begin);
            return Ages::Doubtful;
        }
        if passed >= STEADY { Ages::Known } else { Ages::Doubtful }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_known_after_an_hour_without_a_step_of_the_clock() {
        const DAY_US: u64 = 86_400_000_000;
        let (mut clock, start) = (SteadyClock::default(), Instant::now());
        let base = 20_000 * DAY_US;
        let mut note = |secs: u64, off_us: u64| {
            clock.note(base + secs * 1_000_000 + off_us, start + Duration::from_secs(secs))
        };
        assert_eq!(note(0, 0), Ages::Doubtful, "it may be wrong from the start");
        assert_eq!((note(3_599, 0), note(3_600, 0)), (Ages::Doubtful, Ages::Known));
        assert_eq!(note(3_605, 900_000), Ages::Known, "a small correction");
        // The wall clock is wrong by 200 days for twelve seconds.
        assert_eq!(note(3_610, 200 * DAY_US), Ages::Doubtful);
        assert_eq!(note(3_620, 200 * DAY_US), Ages::Doubtful);
        assert_eq!(note(3_622, 0), Ages::Doubtful);
        assert_eq!((note(7_221, 0), note(7_222, 0)), (Ages::Doubtful, Ages::Known));
    }
}
