//! The ownership of the data directory: at any time, at most one process writes its files.
//!
//! The owner holds a lock on the file `owner.lock` (flock(2)), which the kernel releases when the
//! process ends. Every function that writes state holds a permit meanwhile. During a take-over, the
//! owner cedes the directory to the next process, and takes it back if that process fails.
//!
//! ```text
//! owner:  Owner ──close──> Closing ──cede──> Ceded ──leave──> Gone
//!           ^                 │                │
//!           └─────reopen──────┴────reclaim─────┘
//! next:   Foreign ──begin──> Beginning ──commit──> Owner
//! ```
//!
//! | state | [`change`] | [`write`](fn@write) |
//! |---|---|---|
//! | `Unmanaged`, `Owner` | granted | granted |
//! | `Closing` | waits | granted, so that changes in progress end |
//! | `Ceded` | waits | waits |
//! | `Beginning` | waits, except on the thread that began | the same |
//! | `Foreign`, `Gone` | refused | refused |
//!
//! The state is one of the process, as the lock is: a writer in any crate needs no reference to it.
//! A process that never took a lock, such as a command or a test, may always write.

use std::cell::Cell;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// The name of the locked file in the data directory.
pub const LOCK: &str = "owner.lock";
/// Maximum wait of a change or a write until the process owns the directory. A take-over ends
/// earlier.
const PATIENCE: Duration = Duration::from_secs(15);

/// The ownership of this process.
static OWNERSHIP: Ownership = Ownership::new();

thread_local! {
    /// Number of permits that this thread holds. A thread with a permit gets further ones at once.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// The reason why a process may not change the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOwner;

impl fmt::Display for NotOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another process is taking over; try again")
    }
}

impl std::error::Error for NotOwner {}

impl From<NotOwner> for io::Error {
    fn from(fault: NotOwner) -> Self {
        Self::new(io::ErrorKind::ResourceBusy, fault)
    }
}

/// The reason why the directory cannot be owned.
#[derive(Debug)]
pub enum LockError {
    /// Another process owns the directory.
    Held,
    /// The file with the lock cannot be used.
    System(PathBuf, io::Error),
}

/// The permission to change files of the data directory. The process does not cede the directory
/// while a permit exists.
#[derive(Debug)]
pub struct Permit<'o> {
    of: &'o Ownership,
    kind: PermitKind,
    /// A permit counts for the thread that took it.
    _thread: PhantomData<*const ()>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PermitKind {
    Change,
    Write,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get().saturating_sub(1)));
        let mut state = self.of.state();
        *state.count(self.kind) -= 1;
        drop(state);
        self.of.changed.notify_all();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No lock was ever taken.
    Unmanaged,
    /// The process owns the directory.
    Owner,
    /// The process waits until the changes in progress have ended.
    Closing,
    /// Another process may own the directory. This process takes it back if that process fails.
    Ceded,
    /// Another process owns the directory, and this process takes over from it.
    Foreign,
    /// The process holds the lock, and only this thread writes: the take-over may still fail.
    Beginning(ThreadId),
    /// Another process has taken over.
    Gone,
}

#[derive(Debug)]
struct OwnershipState {
    phase: Phase,
    lock: Option<File>,
    changes: u32,
    writes: u32,
}

impl OwnershipState {
    fn count(&mut self, kind: PermitKind) -> &mut u32 {
        match kind {
            PermitKind::Change => &mut self.changes,
            PermitKind::Write => &mut self.writes,
        }
    }

    /// Returns whether a permit is granted; `None` if it must wait.
    fn grants(&self, kind: PermitKind) -> Option<bool> {
        match self.phase {
            Phase::Unmanaged | Phase::Owner => Some(true),
            Phase::Closing => (kind == PermitKind::Write).then_some(true),
            Phase::Beginning(thread) => (thread == thread::current().id()).then_some(true),
            Phase::Ceded => None,
            Phase::Foreign | Phase::Gone => Some(false),
        }
    }
}

/// The ownership of a data directory by a process.
#[derive(Debug)]
struct Ownership {
    state: Mutex<OwnershipState>,
    changed: Condvar,
}

impl Ownership {
    const fn new() -> Self {
        let state = OwnershipState { phase: Phase::Unmanaged, lock: None, changes: 0, writes: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, OwnershipState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(&self, kind: PermitKind, patience: Duration) -> Result<Permit<'_>, NotOwner> {
        let holds = HELD.with(|held| held.get() > 0);
        let must_wait = |state: &mut OwnershipState| !holds && state.grants(kind).is_none();
        let waited = self.changed.wait_timeout_while(self.state(), patience, must_wait);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !holds && state.grants(kind) != Some(true) {
            return Err(NotOwner);
        }
        *state.count(kind) += 1;
        HELD.with(|held| held.set(held.get() + 1));
        Ok(Permit { of: self, kind, _thread: PhantomData })
    }

    fn lock(&self, directory: &Path, next: Phase) -> Result<(), LockError> {
        let file = locked(&directory.join(LOCK))?;
        let mut state = self.state();
        (state.phase, state.lock) = (next, Some(file));
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    fn enter(&self, phase: Phase) {
        self.state().phase = phase;
        self.changed.notify_all();
    }

    /// Waits until `is_over` holds for the state, for at most `patience`. Returns the last state,
    /// and whether `is_over` holds for it.
    fn wait(
        &self,
        patience: Duration,
        is_over: impl Fn(&OwnershipState) -> bool,
    ) -> (MutexGuard<'_, OwnershipState>, bool) {
        let going_on = |state: &mut OwnershipState| !is_over(state);
        let waited = self.changed.wait_timeout_while(self.state(), patience, going_on);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_over = is_over(&state);
        (state, is_over)
    }

    fn close(&self, patience: Duration) -> bool {
        self.enter(Phase::Closing);
        let (state, is_closed) = self.wait(patience, |state| state.changes == 0);
        drop(state);
        is_closed
    }

    fn cede(&self, patience: Duration) -> bool {
        let (mut state, is_over) =
            self.wait(patience, |state| state.changes == 0 && state.writes == 0);
        if is_over {
            // No write can begin between the end of the wait and this step, because the state is
            // locked.
            state.phase = Phase::Ceded;
            if let Some(lock) = state.lock.take() {
                // To close the file would not be enough: a program that another thread starts has a
                // copy of the descriptor until it is loaded. If this fails, the other process waits
                // for that.
                let _ = lock.unlock();
            }
        }
        is_over
    }
}

/// Opens the file and locks it. Something else in its place, such as a link, is not followed.
fn locked(path: &Path) -> Result<File, LockError> {
    let failed = |error| LockError::System(path.to_owned(), error);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = file.map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is not a file")));
    }
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LockError::Held),
        // The file system has no locks. The control socket still prevents a second server.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Begins a change that is acknowledged when it is on disk, or a request that may change something.
/// Waits while another process takes over.
///
/// # Errors
/// Another process has taken over, or the take-over does not end.
pub fn change() -> Result<Permit<'static>, NotOwner> {
    OWNERSHIP.permit(PermitKind::Change, PATIENCE)
}

/// Begins a change like [`change`], without a wait.
///
/// # Errors
/// This process does not own the directory now.
pub fn try_change() -> Result<Permit<'static>, NotOwner> {
    OWNERSHIP.permit(PermitKind::Change, Duration::ZERO)
}

/// Begins to write files. Waits while another process may own the directory.
///
/// # Errors
/// Another process has taken over, or the take-over does not end.
pub fn write() -> io::Result<Permit<'static>> {
    Ok(OWNERSHIP.permit(PermitKind::Write, PATIENCE)?)
}

/// Owns the directory from now on.
///
/// # Errors
/// Another process owns it, or the file with the lock cannot be used.
pub fn own(directory: &Path) -> Result<(), LockError> {
    OWNERSHIP.lock(directory, Phase::Owner)
}

/// Refuses all writes until [`begin`], because this process takes over from the owner.
pub fn await_owner() {
    OWNERSHIP.enter(Phase::Foreign);
}

/// Owns the directory for the present thread only, until [`commit`]. Waits for at most `patience`
/// until the owner has released its lock.
///
/// # Errors
/// Another process owns the directory, or the file with the lock cannot be used.
pub fn begin(directory: &Path, patience: Duration) -> Result<(), LockError> {
    const LOOK_AGAIN: Duration = Duration::from_millis(2);
    let began = Instant::now();
    loop {
        match OWNERSHIP.lock(directory, Phase::Beginning(thread::current().id())) {
            Err(LockError::Held) if began.elapsed() < patience => thread::park_timeout(LOOK_AGAIN),
            result => return result,
        }
    }
}

/// Permits writes to all threads, because the take-over is complete.
pub fn commit() {
    OWNERSHIP.enter(Phase::Owner);
}

/// Lets no further change begin, and waits for at most `patience` until those in progress have
/// ended. Returns whether they have.
#[must_use]
pub fn close(patience: Duration) -> bool {
    OWNERSHIP.close(patience)
}

/// Waits for at most `patience` until nothing is written, and then releases the directory for
/// another process. Returns whether it is released.
#[must_use]
pub fn cede(patience: Duration) -> bool {
    OWNERSHIP.cede(patience)
}

/// Lets the changes begin that [`close`] holds up, and all later ones.
pub fn reopen() {
    OWNERSHIP.enter(Phase::Owner);
}

/// Owns the directory again that was released for another process.
///
/// # Errors
/// The other process still owns the directory, or the file with the lock cannot be used.
pub fn reclaim(directory: &Path) -> Result<(), LockError> {
    own(directory)
}

/// Refuses all writes from now on, because another process has taken over.
pub fn leave() {
    OWNERSHIP.enter(Phase::Gone);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process;
    use std::sync::mpsc;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("avocet-owner-{name}-{}", process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const NOW: Duration = Duration::ZERO;

    fn is_held(result: Result<(), LockError>) -> bool {
        matches!(result, Err(LockError::Held))
    }

    /// Locks the directory once programs that other tests are starting no longer have a copy of the
    /// descriptor.
    fn lock_after_others(ownership: &Ownership, place: &Place) {
        let is_locked = (0..1_000_000).any(|_| {
            thread::yield_now();
            !is_held(ownership.lock(&place.0, Phase::Owner))
        });
        assert!(is_locked);
    }

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let place = Place::new("one");
        let (old, new) = (Ownership::new(), Ownership::new());
        assert!(old.permit(PermitKind::Write, NOW).is_ok());
        old.lock(&place.0, Phase::Owner).unwrap();
        new.enter(Phase::Foreign);
        assert_eq!(new.permit(PermitKind::Write, NOW).err(), Some(NotOwner));
        assert!(is_held(new.lock(&place.0, Phase::Beginning(thread::current().id()))));
        // As a program that another thread is starting has it.
        let copy = old.state().lock.as_ref().unwrap().try_clone().unwrap();
        assert!(old.close(NOW) && old.cede(NOW));
        assert_eq!(old.permit(PermitKind::Write, NOW).err(), Some(NotOwner));
        new.lock(&place.0, Phase::Beginning(thread::current().id())).unwrap();
        drop(copy);
        assert!(new.permit(PermitKind::Write, NOW).is_ok());
        thread::scope(|scope| {
            let other = scope.spawn(|| new.permit(PermitKind::Write, NOW).is_ok());
            assert!(!other.join().unwrap(), "only the thread that began writes");
        });
        // The new process fails: the old one owns the directory again.
        assert!(is_held(old.lock(&place.0, Phase::Owner)));
        drop(new);
        lock_after_others(&old, &place);
        assert!(old.permit(PermitKind::Change, NOW).is_ok());
    }

    #[test]
    fn a_link_in_place_of_the_lock_is_not_followed() {
        let place = Place::new("link");
        let target = place.0.join("target");
        std::os::unix::fs::symlink(&target, place.0.join(LOCK)).unwrap();
        let refused = Ownership::new().lock(&place.0, Phase::Owner);
        assert!(matches!(refused, Err(LockError::System(..))), "{refused:?}");
        assert!(!target.exists());
    }

    #[test]
    fn a_change_in_progress_ends_before_the_directory_is_released() {
        let place = Place::new("progress");
        let old = Ownership::new();
        old.lock(&place.0, Phase::Owner).unwrap();
        thread::scope(|scope| {
            let (begun, has_begun) = mpsc::channel();
            let (go_on, goes_on) = mpsc::channel::<()>();
            let old = &old;
            scope.spawn(move || {
                let _change = old.permit(PermitKind::Change, NOW).unwrap();
                begun.send(()).unwrap();
                goes_on.recv().unwrap();
                drop(old.permit(PermitKind::Change, NOW).unwrap());
                drop(old.permit(PermitKind::Write, NOW).unwrap());
            });
            has_begun.recv().unwrap();
            assert!(!old.close(NOW));
            assert!(old.permit(PermitKind::Change, NOW).is_err(), "no other change begins");
            assert!(
                old.permit(PermitKind::Write, NOW).is_ok(),
                "changes in progress can be written"
            );
            assert!(!old.cede(NOW));
            let waiting = scope.spawn(|| old.permit(PermitKind::Change, PATIENCE).is_ok());
            go_on.send(()).unwrap();
            assert!(old.close(PATIENCE) && old.cede(PATIENCE));
            old.lock(&place.0, Phase::Owner).unwrap();
            assert!(waiting.join().unwrap());
        });
        old.enter(Phase::Gone);
        assert!(old.permit(PermitKind::Change, PATIENCE).is_err());
    }
}
