//! The zones that have changed, as their primaries (NOTIFY, RFC 1996) or their databases report.
//! Workers and the threads that listen to databases note the zones; another thread checks them.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Zones that must be checked. Only names of configured zones are noted, each of them once: a flood
/// of messages thus takes no memory and causes one check.
#[derive(Default)]
pub struct NoticeBoard {
    noted: Mutex<Noted>,
    arrived: Condvar,
}

#[derive(Default)]
struct Noted {
    names: BTreeSet<Box<[u8]>>,
    /// Whether a check has ended since the thread that checks zones last waited.
    has_room: bool,
    is_closed: bool,
}

impl NoticeBoard {
    /// Notes that a zone must be checked.
    pub fn note(&self, name: &[u8]) {
        let mut noted = self.noted();
        if !noted.names.contains(name) {
            noted.names.insert(name.into());
            self.arrived.notify_all();
        }
    }

    /// Notes that a check has ended, so that another check may begin.
    pub fn make_room(&self) {
        self.noted().has_room = true;
        self.arrived.notify_all();
    }

    /// Makes [`Self::wait`] return at once.
    pub fn close(&self) {
        self.noted().is_closed = true;
        self.arrived.notify_all();
    }

    /// Returns whether [`Self::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.noted().is_closed
    }

    /// Waits until a zone is noted, a check has ended, or `most` has passed. Takes the noted names,
    /// and returns whether [`Self::close`] was called.
    pub fn wait(&self, most: Duration) -> (BTreeSet<Box<[u8]>>, bool) {
        let is_idle =
            |noted: &mut Noted| noted.names.is_empty() && !noted.has_room && !noted.is_closed;
        let waited = self.arrived.wait_timeout_while(self.noted(), most, is_idle);
        let (mut noted, _) = waited.unwrap_or_else(PoisonError::into_inner);
        noted.has_room = false;
        (std::mem::take(&mut noted.names), noted.is_closed)
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
