//! Work that gives way to the workers where they share a core, but not for ever.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use avocet_io::process::{Eagerness, Thread, give_memory_back};

/// After so long the work is done like any other: on a machine whose cores are all taken it would never end. Beside a
/// worker that has four fifths of the core, a million names take five seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// Texts of fewer octets are read so soon that nobody notices.
const SMALL: u64 = 1 << 20;

/// The thread that works at leisure, and since when.
#[derive(Default)]
pub(crate) struct Leisure(Mutex<Option<(Thread, Instant)>>);

impl Leisure {
    /// Does what takes long with texts of about so many octets, and holds no lock. Gives back the memory that it took.
    pub(crate) fn work<T>(&self, octets: u64, work: impl FnOnce() -> T) -> T {
        if octets < SMALL {
            return work();
        }
        *self.lock() = Some((Thread::current(), Instant::now()));
        let result = at_leisure(work);
        *self.lock() = None;
        result
    }

    /// Ends the leisure of work that has taken long.
    pub(crate) fn hurry(&self) {
        let mut at_work = self.lock();
        if let Some((thread, _)) = at_work.filter(|(_, began)| began.elapsed() >= PATIENCE) {
            let _ = thread.set_eagerness(Eagerness::Ordinary);
            *at_work = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Thread, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does what holds no lock where nobody else wants the core, and gives back the memory that it freed.
pub(crate) fn at_leisure<T>(work: impl FnOnce() -> T) -> T {
    let thread = Thread::current();
    // Where the system refuses, it is in the way of the workers a little.
    let _ = thread.set_eagerness(Eagerness::Idle);
    let result = work();
    let _ = thread.set_eagerness(Eagerness::Ordinary);
    give_memory_back();
    result
}
