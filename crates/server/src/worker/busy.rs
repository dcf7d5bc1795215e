//! How busy a worker is: the share of the time in which it does not wait for events, while more is
//! asked than it can take.
//!
//! The share alone says little: a thread that others keep from its core seems busy, too, and
//! clients that wait for each answer may use all of a core and harm nobody. Queries that pile up
//! say that somebody loses.

use avocet_nameserver::clock::Moment;

/// Over so many microseconds the share is taken.
const WINDOW_US: u64 = 50_000;
/// So many datagrams that wait when a listener is turned to are a queue: more than clients have in
/// flight who ask again when they are answered.
const QUEUE: usize = 256;

/// See the module.
#[derive(Clone, Copy, Default)]
pub(super) struct Busy {
    window_began_us: u64,
    worked_us: u64,
    longest_queue: usize,
}

impl Busy {
    /// So many datagrams were waiting.
    pub(super) fn note_queue(&mut self, waiting: usize) {
        self.longest_queue = self.longest_queue.max(waiting);
    }

    /// A turn began and ended. At the end of each window, of how many hundredths of it there was
    /// work; 0 where nothing piled up.
    pub(super) fn note(&mut self, began: Moment, ended: Moment) -> Option<u32> {
        self.worked_us += ended.micros().saturating_sub(began.micros());
        let window_us = ended.micros().saturating_sub(self.window_began_us);
        if window_us < WINDOW_US {
            return None;
        }
        let share = (self.worked_us * 100 / window_us).min(100) as u32;
        let percent = if self.longest_queue < QUEUE { 0 } else { share };
        *self = Self { window_began_us: ended.micros(), ..Self::default() };
        Some(percent)
    }
}
