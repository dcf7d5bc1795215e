//! How busy a worker is: the share of the time in which it does not wait for events.

use crate::clock::Moment;

/// Over so many microseconds the share is taken.
const WINDOW_US: u64 = 50_000;

/// See the module.
#[derive(Clone, Copy, Default)]
pub(super) struct Busy {
    window_began_us: u64,
    worked_us: u64,
}

impl Busy {
    /// A turn began and ended. At the end of each window, of how many hundredths of it there was work.
    pub(super) fn note(&mut self, began: Moment, ended: Moment) -> Option<u32> {
        self.worked_us += ended.micros().saturating_sub(began.micros());
        let window_us = ended.micros().saturating_sub(self.window_began_us);
        if window_us < WINDOW_US {
            return None;
        }
        let percent = (self.worked_us * 100 / window_us).min(100) as u32;
        *self = Self { window_began_us: ended.micros(), worked_us: 0 };
        Some(percent)
    }
}
