//! The release of the data directory for a process that takes over, and its return.
//!
//! ```text
//! "yield" ──> changes in progress end ──> released ──"ready"──> left for good
//!                 └──too long──> refused      └──process gone or silent──> owned again
//! ```

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use avocet_control::ControlError;
use avocet_io::ownership::{self, LockError};

use super::{Ending, Operation};
use crate::running::conditions::Condition;
use crate::running::pool_state;

/// Maximum wait until the changes in progress have ended.
const CHANGES: Duration = Duration::from_secs(5);
/// Maximum wait until the files that threads write are complete.
const WRITES: Duration = Duration::from_secs(5);
/// Maximum wait at the end of the server until it owns the directory again.
const RETURN: Duration = Duration::from_secs(1);
/// Time between two checks whether the directory can be owned again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Whether this process may write the data directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Release {
    /// This process owns the directory.
    None,
    /// The directory is released for a process that takes over.
    Released,
    /// The process that took over has failed, and still holds the lock.
    Awaited,
}

impl Operation {
    /// Releases the directory for the process that takes over, after all changes that were
    /// acknowledged are on disk.
    pub(super) fn release(&mut self) {
        let Some(mut successor) = self.successor.take() else { return };
        if self.release != Release::None {
            let _ = self.poller.remove(successor.stream());
            successor.refuse(&ControlError::TakeOverRefused);
            return self.lose_successor("the new process requested the data directory twice");
        }
        if self.has_unsaved_changes() {
            let reason = "changes or lists are not on disk, and would be lost: see `avocet status`";
            tracing::warn!("{reason}; the take-over is refused; continuing");
            let _ = self.poller.remove(successor.stream());
            successor.refuse(&ControlError::Postponed(reason));
            return;
        }
        if let Some(zone) = self.running.reloader.zones.not_readable() {
            let reason = "the file of a zone has errors, and the new process could not serve the \
                          zone: see `avocet status`";
            tracing::warn!("zone {zone}: {reason}; the take-over is refused; continuing");
            let _ = self.poller.remove(successor.stream());
            successor.refuse(&ControlError::Postponed(reason));
            return;
        }
        let began = Instant::now();
        let is_closed = ownership::close(CHANGES);
        if is_closed {
            // The new process starts with the health of pools in this file.
            let directory = self.directory();
            pool_state::save(&directory, &self.running.pools);
        }
        if !is_closed || !ownership::cede(WRITES) {
            ownership::reopen();
            tracing::warn!("a change takes long: the take-over is refused; continuing");
            let _ = self.poller.remove(successor.stream());
            successor.refuse(&ControlError::Postponed("a change takes long"));
            return;
        }
        self.release = Release::Released;
        tracing::info!(
            millis = began.elapsed().as_millis() as u64,
            "another process gets the data directory; changes wait"
        );
        let now = self.running.shared.name_server.clock.now();
        match successor.report_release(now) {
            Ok(()) => self.successor = Some(successor),
            Err(error) => self.lose_successor(&format!("the new process is gone: {error}")),
        }
    }

    /// Tries again to save what could not be written to disk. Returns whether anything would be
    /// lost if this process ended.
    fn has_unsaved_changes(&self) -> bool {
        self.running.save_again();
        let are_lists_unsaved = self.running.lists.is_unsaved.load(Ordering::Relaxed);
        // Another process would start with the file, such as a revision that was rolled back.
        let is_file_old = self.running.reloader.revisions.unwritten().is_some();
        are_lists_unsaved || is_file_old || self.running.conditions.holds(Condition::State)
    }

    /// Continues without the process that was to take over.
    pub(super) fn lose_successor(&mut self, reason: &str) {
        tracing::warn!("{reason}; continuing");
        // A connection that ends without a message would mean that this process was killed.
        if let Some(successor) = self.successor.take() {
            // The successor may have ended already, so an error is ignored.
            let _ = successor.withdraw();
        }
        if self.release == Release::Released {
            self.release = Release::Awaited;
            self.reclaim();
        }
    }

    /// Stops waiting for the process that was to take over. Returns whether it is ready already.
    pub(super) fn withdraw(&mut self, reason: &str) -> bool {
        let is_ready = self.successor.take().is_some_and(|successor| {
            let _ = self.poller.remove(successor.stream());
            successor.withdraw()
        });
        if !is_ready {
            self.lose_successor(reason);
        }
        is_ready
    }

    /// Owns the directory again, if the process that was to take over has released it.
    pub(super) fn reclaim(&mut self) {
        if self.release != Release::Awaited {
            return;
        }
        let fault = match ownership::reclaim(&self.directory()) {
            Ok(()) => {
                self.release = Release::None;
                tracing::info!("changes are accepted again");
                if std::mem::take(&mut self.is_reload_due) {
                    self.reload();
                }
                None
            }
            Err(LockError::Held) => Some(
                "no change is accepted: a process that failed to take over still holds \
                 owner.lock of the data directory; end it"
                    .to_owned(),
            ),
            Err(LockError::System(path, error)) => {
                Some(format!("no change is accepted: {} cannot be locked: {error}", path.display()))
            }
        };
        self.running.conditions.set(Condition::State, fault);
    }

    /// Waits at the end of the server until it owns the directory again, so that it can save its
    /// state. Returns whether it does.
    pub(super) fn await_return(&mut self) -> bool {
        let began = Instant::now();
        while self.release == Release::Awaited && began.elapsed() < RETURN {
            std::thread::park_timeout(LOOK_AGAIN);
            self.reclaim();
        }
        self.release == Release::None && self.ending != Ending::HandedOver
    }

    /// Reloads the configuration, or postpones this while another process may own the directory.
    pub(super) fn reload(&mut self) {
        match ownership::try_change() {
            // The reload itself logs its errors.
            Ok(_change) => drop(self.running.reloader.reload()),
            Err(_) => self.is_reload_due = true,
        }
    }

    fn directory(&self) -> std::path::PathBuf {
        self.running.shared.snapshot().config.data.directory.clone()
    }
}
