//! The one place where the server reads clocks.
//!
//! Cache expiry and timeouts run on the monotonic clock, so a step of the wall clock changes no
//! TTL; wall time is for schedules, cookies (RFC 9018), the snapshot on disk and logs. Seconds of the two begin
//! together, so that an answer which is kept until a second of the wall clock ends with it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;
/// Seconds that the monotonic count begins with, so that ages loaded from disk stay above zero.
const BASE_SECS: i64 = 30 * 86_400;
/// Microseconds by which the two clocks may differ before the wall clock is taken to have been set.
const TOLERANCE: i64 = 2_000;
/// Between the readings of the two no more time than this may have passed, else they are read again.
const BRACKET: Duration = Duration::from_millis(1);
/// Attempts at reading both without being interrupted.
const MAX_READINGS: usize = 16;

/// Monotonic time since an origin shared by all threads.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    /// Microseconds that the count is ahead of its origin. Only ever grows.
    ahead: AtomicU64,
    /// Wall time in seconds less monotonic seconds.
    wall_offset: AtomicI64,
}

/// A moment on the monotonic clock, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    micros: u64,
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn start() -> Self {
        let origin = Instant::now();
        let clock = Self { origin, ahead: AtomicU64::new((BASE_SECS * SECOND) as u64), wall_offset: AtomicI64::new(0) };
        clock.follow_wall_clock();
        clock
    }

    /// The time now.
    #[inline]
    pub(crate) fn now(&self) -> Moment {
        self.at(Instant::now())
    }

    /// Wall time at a moment, in seconds since 1970.
    #[inline]
    pub(crate) fn wall_secs(&self, moment: Moment) -> u64 {
        u64::from(moment.secs()).saturating_add_signed(self.wall_offset.load(Ordering::Relaxed))
    }

    /// Looks whether the wall clock was set since the last look: then the seconds of the two are brought together
    /// again, for which the monotonic clock may go ahead by less than one. One thread at a time.
    pub(crate) fn follow_wall_clock(&self) -> bool {
        let (moment, wall_micros) = self.read_both();
        self.follow(moment, wall_micros)
    }

    fn follow(&self, moment: Moment, wall_micros: i64) -> bool {
        let apart = wall_micros - moment.micros as i64;
        let offset = self.wall_offset.load(Ordering::Relaxed);
        if (apart - offset * SECOND).abs() <= TOLERANCE {
            return false;
        }
        self.ahead.fetch_add(apart.rem_euclid(SECOND) as u64, Ordering::Relaxed);
        self.wall_offset.store(apart.div_euclid(SECOND), Ordering::Relaxed);
        true
    }

    fn at(&self, instant: Instant) -> Moment {
        let elapsed = instant.saturating_duration_since(self.origin).as_micros() as u64;
        Moment { micros: elapsed + self.ahead.load(Ordering::Relaxed) }
    }

    fn read_both(&self) -> (Moment, i64) {
        let mut reading = Self::read_once();
        for _ in 1..MAX_READINGS {
            if reading.1 <= BRACKET {
                break;
            }
            reading = Self::read_once();
        }
        (self.at(reading.0), reading.2)
    }

    /// An instant, how long it took to read it and the wall clock, and that in microseconds.
    fn read_once() -> (Instant, Duration, i64) {
        let instant = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
        (instant, instant.elapsed(), wall)
    }
}

impl Moment {
    /// Microseconds.
    #[inline]
    pub(crate) fn micros(self) -> u64 {
        self.micros
    }

    /// Milliseconds, the resolver's unit.
    #[inline]
    pub(crate) fn millis(self) -> u64 {
        self.micros / 1000
    }

    /// So many seconds later.
    pub(crate) fn plus_secs(self, secs: u32) -> Self {
        Self { micros: self.micros + u64::from(secs) * SECOND as u64 }
    }

    /// Seconds, the caches' unit.
    #[inline]
    pub(crate) fn secs(self) -> u32 {
        (self.micros / 1_000_000) as u32
    }
}

/// Wall time in seconds since 1970.
pub(crate) fn wall_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moment and wall time in microseconds; of the moment what it is ahead of `before`.
    fn told(clock: &Clock, moment: Moment, wall_micros: i64) -> (bool, u64, i64) {
        let before = clock.ahead.load(Ordering::Relaxed);
        let has_followed = clock.follow(moment, wall_micros);
        let ahead = clock.ahead.load(Ordering::Relaxed) - before;
        let then = Moment { micros: moment.micros + ahead };
        (has_followed, ahead, clock.wall_secs(then) as i64 * SECOND + (then.micros as i64 % SECOND) - wall_micros)
    }

    #[test]
    fn seconds_of_both_clocks_begin_together_also_after_the_wall_clock_was_set() {
        let clock = Clock { origin: Instant::now(), ahead: AtomicU64::new(0), wall_offset: AtomicI64::new(0) };
        let moment = Moment { micros: 500 * SECOND as u64 + 300_000 };
        let wall = 1_795_262_400 * SECOND;
        assert_eq!(told(&clock, moment, wall + 100_000), (true, 800_000, 0));
        let moment = Moment { micros: moment.micros + 800_000 };
        assert_eq!(told(&clock, moment, wall + 100_000 + TOLERANCE), (false, 0, -TOLERANCE));
        assert_eq!(told(&clock, moment, wall - 7_200 * SECOND + 100_000), (true, 0, 0));
        assert_eq!(told(&clock, moment, wall + 7_200 * SECOND + 50_000), (true, 950_000, 0));
    }

    #[test]
    fn a_clock_that_nobody_set_is_left_alone() {
        let clock = Clock::start();
        let before = clock.now();
        let (now, wall) = (clock.wall_secs(before), wall_secs());
        assert!(wall.abs_diff(now) <= 1, "{wall} {now}");
        assert!(clock.now() >= before);
    }
}
