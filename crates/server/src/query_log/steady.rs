//! Whether the wall clock can be trusted with deletions: it must have agreed with the monotonic
//! clock for some time.
//!
//! A clock is wrong after the start of a machine without a battery, until the time is set, and when
//! the source of the time is wrong. Entries that are deleted because of it do not come back.

use std::time::{Duration, Instant};

use avocet_querylog::Ages;

/// How long the clocks must have agreed before entries are deleted by age.
pub(crate) const STEADY: Duration = Duration::from_secs(3600);
/// The largest change of the wall clock, relative to the monotonic one, that is not a step. Small
/// corrections matter to no age in days.
const TOLERANCE_US: u64 = 60_000_000;

/// The watch over the wall clock.
#[derive(Default)]
pub(crate) struct SteadyClock {
    agreed: Option<Agreement>,
}

/// A moment on both clocks, since which they agree.
#[derive(Clone, Copy)]
struct Agreement {
    wall_us: u64,
    at: Instant,
}

impl SteadyClock {
    /// Takes the time on both clocks, and returns whether the ages of entries are known.
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
        // A clock that is wrong by 200 days for twelve seconds.
        assert_eq!(note(3_610, 200 * DAY_US), Ages::Doubtful);
        assert_eq!(note(3_620, 200 * DAY_US), Ages::Doubtful);
        assert_eq!(note(3_622, 0), Ages::Doubtful);
        assert_eq!((note(7_221, 0), note(7_222, 0)), (Ages::Doubtful, Ages::Known));
    }
}
