//! The only place where the server reads clocks.
//!
//! Cache expiry and timeouts use the monotonic clock, which includes suspend, so that a step of the
//! wall clock changes neither TTLs nor timeouts. Wall time is for schedules, cookies (RFC 9018),
//! the snapshot on disk and logs.
//!
//! Wall time in seconds is the monotonic count plus a whole number of seconds. The seconds of both
//! clocks begin at the same instant. An answer that is cached until a second of the wall clock
//! therefore expires exactly when that second begins. When the wall clock is set, the whole number
//! changes, rounded to the nearest second; steps below `TOLERANCE` are ignored.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use avocet_io::clock::micros_since_boot;

/// Microseconds per second.
const SECOND: i64 = 1_000_000;
/// The initial value of the monotonic count in seconds, so that ages loaded from disk stay
/// positive.
const BASE_SECS: i64 = 30 * 86_400;
/// Microseconds by which the two clocks may diverge before the wall clock counts as set.
/// Hypervisors and NTP often step the wall clock by some milliseconds, and no caller depends on
/// less than a second.
const TOLERANCE: i64 = 250_000;
/// Maximum time between the reading of one clock and the reading of the other. If it takes longer,
/// both clocks are read again.
const BRACKET: Duration = Duration::from_millis(1);
/// Maximum number of attempts to read both clocks without an interruption.
const MAX_READINGS: usize = 16;

/// Monotonic time with an origin that all threads share.
#[derive(Debug)]
pub struct Clock {
    /// The value of the count when the host booted, in microseconds.
    at_boot: i64,
    /// Wall time minus monotonic time in microseconds, when the wall clock last counted as set.
    apart: AtomicI64,
    /// The difference between wall time and monotonic time: whole seconds, expressed in
    /// microseconds.
    wall_offset: AtomicI64,
}

/// A moment on the monotonic clock, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    micros: u64,
}

/// The change of the wall clock between two checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WallClock {
    /// The wall clock was not set, or was set by a change within the tolerance.
    WentOn,
    /// The wall clock was set: the seconds of wall time have changed.
    WasSet {
        /// The number of seconds by which the wall clock was set; negative if it was set back.
        by_secs: i64,
    },
}

impl Clock {
    /// Returns a clock that starts now.
    pub fn start() -> Self {
        let (boot, wall) = Self::read_both();
        Self::of(boot, wall)
    }

    /// Creates a clock from the time since boot and the wall time, both in microseconds.
    fn of(boot: i64, wall: i64) -> Self {
        // No other thread has read the count yet, so the seconds of both clocks can be aligned.
        let base = BASE_SECS * SECOND + wall.rem_euclid(SECOND);
        let apart = wall - base;
        Self {
            at_boot: base - boot,
            apart: AtomicI64::new(apart),
            wall_offset: AtomicI64::new(apart / SECOND * SECOND),
        }
    }

    /// Returns the current time.
    #[inline]
    pub fn now(&self) -> Moment {
        self.at(micros_since_boot() as i64)
    }

    /// Returns wall time at a moment, in seconds since 1970.
    #[inline]
    pub fn wall_secs(&self, moment: Moment) -> u64 {
        let offset = self.wall_offset.load(Ordering::Relaxed) / SECOND;
        u64::from(moment.secs()).saturating_add_signed(offset)
    }

    /// Returns wall time at a moment, in microseconds since 1970.
    #[inline]
    pub fn wall_micros(&self, moment: Moment) -> u64 {
        moment.micros.wrapping_add_signed(self.wall_offset.load(Ordering::Relaxed))
    }

    /// Checks whether the wall clock was set since the last check. Only one thread may call this.
    pub fn follow_wall_clock(&self) -> WallClock {
        let (boot, wall) = Self::read_both();
        self.follow(boot, wall)
    }

    fn follow(&self, boot: i64, wall: i64) -> WallClock {
        let apart = wall - self.at(boot).micros as i64;
        if (apart - self.apart.load(Ordering::Relaxed)).abs() <= TOLERANCE {
            return WallClock::WentOn;
        }
        self.apart.store(apart, Ordering::Relaxed);
        let offset = (apart + SECOND / 2).div_euclid(SECOND) * SECOND;
        let before = self.wall_offset.swap(offset, Ordering::Relaxed);
        match (offset - before) / SECOND {
            0 => WallClock::WentOn,
            by_secs => WallClock::WasSet { by_secs },
        }
    }

    fn at(&self, boot: i64) -> Moment {
        Moment { micros: (self.at_boot + boot) as u64 }
    }

    /// Reads both clocks, in microseconds.
    fn read_both() -> (i64, i64) {
        let mut reading = Self::read_once();
        for _ in 1..MAX_READINGS {
            if reading.1 <= BRACKET {
                break;
            }
            reading = Self::read_once();
        }
        (reading.0, reading.2)
    }

    /// Returns the microseconds since boot, the time that the readings took, and the microseconds
    /// of the wall clock.
    fn read_once() -> (i64, Duration, i64) {
        let boot = micros_since_boot();
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros() as i64);
        (boot as i64, Duration::from_micros(micros_since_boot() - boot), wall)
    }
}

impl Moment {
    /// Returns the microseconds.
    #[inline]
    pub fn micros(self) -> u64 {
        self.micros
    }

    /// Returns the milliseconds, the resolver's unit.
    #[inline]
    pub fn millis(self) -> u64 {
        self.micros / 1000
    }

    /// Returns this moment plus `secs` seconds.
    pub fn plus_secs(self, secs: u32) -> Self {
        Self { micros: self.micros + u64::from(secs) * SECOND as u64 }
    }

    /// Returns the seconds, the caches' unit.
    #[inline]
    pub fn secs(self) -> u32 {
        (self.micros / 1_000_000) as u32
    }
}

/// Returns wall time in seconds since 1970.
pub fn wall_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: i64 = 500 * SECOND + 300_000;
    const WALL: i64 = 1_795_262_400 * SECOND + 100_000;
    const MILLI: i64 = 1_000;

    /// One reading of the clock after some time has passed, and the expected result.
    struct Look {
        /// Time since the start.
        passed_ms: i64,
        /// The total number of milliseconds by which the wall clock was set.
        set_ms: i64,
        expected: WallClock,
        /// Whole seconds of wall time since the start.
        wall_secs: i64,
    }

    fn went_on(passed_ms: i64, set_ms: i64, wall_secs: i64) -> Look {
        Look { passed_ms, set_ms, expected: WallClock::WentOn, wall_secs }
    }

    fn was_set(by_secs: i64, [passed_ms, set_ms, wall_secs]: [i64; 3]) -> Look {
        Look { passed_ms, set_ms, expected: WallClock::WasSet { by_secs }, wall_secs }
    }

    #[track_caller]
    fn check(looks: &[Look]) {
        let clock = Clock::of(BOOT, WALL);
        let start = clock.at(BOOT);
        for Look { passed_ms, set_ms, expected, wall_secs } in looks {
            let (boot, wall) = (BOOT + passed_ms * MILLI, WALL + (passed_ms + set_ms) * MILLI);
            let context = format!("after {passed_ms} ms, set by {set_ms} ms");
            assert_eq!(clock.follow(boot, wall), *expected, "{context}");
            let moment = clock.at(boot);
            assert_eq!(
                moment.micros - start.micros,
                (passed_ms * MILLI) as u64,
                "{context}: the count has moved"
            );
            assert_eq!(clock.wall_secs(moment) as i64 - WALL / SECOND, *wall_secs, "{context}");
        }
    }

    #[test]
    fn steps_of_milliseconds_change_nothing_however_many_there_are() {
        let looks: Vec<_> =
            (1..=20).map(|step| went_on(step * 1_200, -3 * step, step * 12 / 10)).collect();
        check(&looks);
    }

    #[test]
    fn a_step_changes_wall_time_and_leaves_the_monotonic_count_alone() {
        check(&[
            went_on(0, 0, 0),
            was_set(-7_200, [1_000, -7_200_000, 1 - 7_200]),
            went_on(2_000, -7_200_000, 2 - 7_200),
        ]);
        check(&[
            was_set(7_200, [0, 7_200_400, 7_200]),
            went_on(1_000, 7_200_600, 7_201),
            was_set(1, [2_000, 7_200_700, 7_203]),
        ]);
    }

    #[test]
    fn small_steps_that_add_up_are_followed_by_whole_seconds() {
        check(&[
            went_on(0, 200, 0),
            went_on(0, 400, 0),
            went_on(0, 600, 0),
            was_set(1, [0, 800, 1]),
        ]);
    }

    #[test]
    fn seconds_of_both_clocks_begin_together_at_the_start() {
        let clock = Clock::of(BOOT, WALL);
        assert_eq!(clock.at(BOOT).micros() as i64 % SECOND, WALL % SECOND);
        let clock = Clock::start();
        let (now, wall) = (clock.wall_secs(clock.now()), wall_secs());
        assert!(wall.abs_diff(now) <= 1, "{wall} {now}");
    }
}
