//! The load of a worker: the share of time in which it does not wait for events while queries are
//! queued.
//!
//! The share of time alone is not sufficient. A thread also seems busy if other processes use its
//! core, and clients that wait for each answer may use a whole core without harm. A queue of
//! queries shows that the worker cannot keep up.

use avocet_nameserver::clock::Moment;

/// The period over which the share is computed, in microseconds.
const WINDOW_US: u64 = 50_000;
/// Number of waiting datagrams that counts as a queue. Clients that wait for each answer have fewer
/// in flight.
pub(super) const QUEUE: usize = 256;

/// The load of one worker.
#[derive(Clone, Copy, Default)]
pub(super) struct Busy {
    window_began_us: u64,
    worked_us: u64,
    longest_queue: usize,
}

impl Busy {
    /// Records the number of datagrams that are waiting in the socket.
    pub(super) fn note_queue(&mut self, waiting: usize) {
        self.longest_queue = self.longest_queue.max(waiting);
    }

    /// Records one pass of the event loop. At the end of each window, returns the percentage of
    /// busy time; 0 if fewer than [`QUEUE`] datagrams were waiting throughout the window.
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
