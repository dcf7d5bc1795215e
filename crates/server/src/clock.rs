//! The one place where the server reads clocks.
//!
//! Cache expiry and timeouts run on the monotonic clock, so a step of the wall clock changes no
//! TTL; wall time is for cookies (RFC 9018), the snapshot on disk and logs.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seconds that the monotonic count begins with, so that ages loaded from disk stay above zero.
const BASE_SECS: u64 = 30 * 86_400;

/// Monotonic time since an origin shared by all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

/// A moment on the monotonic clock, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    micros: u64,
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// The time now.
    #[inline]
    pub(crate) fn now(&self) -> Moment {
        Moment { micros: self.origin.elapsed().as_micros() as u64 + BASE_SECS * 1_000_000 }
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
