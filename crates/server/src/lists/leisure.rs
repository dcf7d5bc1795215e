//! Work that yields to the workers if they share a core, but only for a limited time.

use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use avocet_io::process::{Eagerness, Thread, give_memory_back};

/// Time after which the work gets normal priority. At low priority, it would never end on a machine
/// with fully busy cores. Next to a worker that uses four fifths of a core, the compilation of a
/// million names takes five seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// Number of octets below which texts are read at normal priority: the work is so short that it
/// delays no query noticeably.
const SMALL: u64 = 1 << 20;

/// The thread that works at idle priority, and the time at which it began.
#[derive(Default)]
pub(crate) struct Leisure(Mutex<Option<(Thread, Instant)>>);

impl Leisure {
    /// Runs long work on texts of about `octets` octets at idle priority, and then returns freed
    /// memory to the system. The work must not hold a lock.
    pub(crate) fn work<T: Send>(&self, octets: u64, work: impl FnOnce() -> T + Send) -> T {
        if octets < SMALL {
            return work();
        }
        at_leisure(|| {
            *self.lock() = Some((Thread::current(), Instant::now()));
            let result = work();
            // The value is removed before the thread ends, because the id of a thread may be
            // reused.
            *self.lock() = None;
            result
        })
    }

    /// Ends the idle priority of work that takes too long.
    pub(crate) fn hurry(&self) {
        let mut at_work = self.lock();
        if let Some((thread, _)) = at_work.filter(|(_, began)| began.elapsed() >= PATIENCE) {
            if let Err(error) = thread.set_eagerness(Eagerness::Ordinary) {
                tracing::warn!(
                    "lists are compiled only with CPU time that the workers leave idle, because \
                     the thread may not raise its priority again ({error}): see LimitNICE in the \
                     unit file"
                );
            }
            *at_work = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Thread, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs work that holds no lock at idle priority, and returns freed memory to the system.
///
/// It uses a separate thread: raising the priority of an idle thread needs a privilege that
/// services seldom have.
fn at_leisure<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let work = Mutex::new(Some(work));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let result = thread::scope(|scope| {
        let idle = thread::Builder::new().name("leisure".to_owned()).spawn_scoped(scope, || {
            // If the system refuses the low priority, the work delays the workers a little.
            let _ = Thread::current().set_eagerness(Eagerness::Idle);
            take().map(|work| work())
        });
        match idle {
            Ok(idle) => idle.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => take().map(|work| work()),
        }
    });
    give_memory_back();
    result.unwrap_or_else(|| unreachable!("it is taken once"))
}

/// Frees a large value at idle priority, without waiting for it.
pub(crate) fn free_at_leisure<T: Send + 'static>(what: T) {
    let free = move || {
        let _ = Thread::current().set_eagerness(Eagerness::Idle);
        drop(what);
    };
    // If no thread can be started, the value is freed at once.
    let _ = thread::Builder::new().name("leisure".to_owned()).spawn(free);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_work_done_at_leisure_stays_as_eager_as_before() {
        let policy =
            || std::fs::read_to_string("/proc/thread-self/sched").map(|text| policy_in(&text));
        let before = policy();
        let leisure = Leisure::default();
        let (during, thread) = leisure.work(SMALL, || (policy(), Thread::current()));
        assert_ne!(thread, Thread::current());
        if let (Ok(before), Ok(during), Ok(after)) = (before, during, policy()) {
            assert_eq!((during.as_deref(), before), (Some("5"), after), "SCHED_IDLE");
        }
        assert_eq!(leisure.work(SMALL - 1, Thread::current), Thread::current(), "it takes no time");
    }

    fn policy_in(text: &str) -> Option<String> {
        let line = text.lines().find(|line| line.starts_with("policy"))?;
        line.split_whitespace().last().map(str::to_owned)
    }

    #[test]
    #[should_panic(expected = "a fault, planted by a test")]
    fn a_panic_in_the_work_reaches_its_caller() {
        at_leisure(|| panic!("a fault, planted by a test"));
    }
}
