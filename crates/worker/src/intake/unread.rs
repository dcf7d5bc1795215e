//! The order in which connections are read.
//!
//! ```text
//! readable, or paused at a bound --> Pace::Prompt --\
//!                                                    read once a turn, first come, first served
//! stopped, with its time used up --> Pace::Slow ----/
//! ```
//! The connections of each [`Pace`] have their own time in each turn of the event loop. Therefore,
//! clients with cheap queries do not wait for clients with expensive queries. Clients with
//! expensive queries take turns.

use std::collections::VecDeque;

/// The share of a worker's time that a connection uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// The connection used less than its share when it was last read.
    Prompt,
    /// The connection has used up its share, and more of its queries wait.
    Slow,
}

impl Pace {
    /// Both paces, in the order in which their connections are read.
    pub(crate) const ALL: [Self; 2] = [Self::Prompt, Self::Slow];
}

/// Connections that wait to be read. Each is in at most one queue.
#[derive(Default)]
pub(super) struct Unread {
    queues: [VecDeque<u32>; 2],
    /// Whether each slot's connection is in a queue.
    waits: Vec<bool>,
}

impl Unread {
    /// Adds a connection at the end, unless it waits already.
    pub(super) fn push(&mut self, slot: u32, pace: Pace) {
        let place = slot as usize;
        if self.waits.len() <= place {
            self.waits.resize(place + 1, false);
        }
        if !std::mem::replace(&mut self.waits[place], true) {
            self.queues[pace as usize].push_back(slot);
        }
    }

    /// Removes and returns the connection of this pace that has waited longest.
    pub(super) fn pop(&mut self, pace: Pace) -> Option<u32> {
        let slot = self.queues[pace as usize].pop_front()?;
        self.waits[slot as usize] = false;
        Some(slot)
    }

    /// Returns whether a connection waits.
    pub(super) fn has(&self, slot: u32) -> bool {
        self.waits.get(slot as usize).is_some_and(|waits| *waits)
    }

    /// Returns the number of connections that wait.
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_once_and_keeps_its_place() {
        let mut unread = Unread::default();
        [(7, Pace::Slow), (3, Pace::Prompt), (7, Pace::Prompt), (3, Pace::Slow), (9, Pace::Slow)]
            .into_iter()
            .for_each(|(slot, pace)| unread.push(slot, pace));
        assert_eq!(unread.len(), 3);
        assert!(unread.has(9) && !unread.has(8) && !unread.has(10));
        assert_eq!([unread.pop(Pace::Slow), unread.pop(Pace::Prompt)], [Some(7), Some(3)]);
        unread.push(7, Pace::Slow);
        let rest = [(); 3].map(|()| unread.pop(Pace::Slow));
        assert_eq!((rest, unread.len()), ([Some(9), Some(7), None], 0));
    }
}
