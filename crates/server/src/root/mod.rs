//! Fetching, verifying, storing and renewing the copy of the root zone (RFC 8806), and its status.
//!
//! ```text
//! primaries --SOA, AXFR--> verify (ZONEMD, chain of trust) --+--> LocalRootSlot --> resolvers
//! local-root = "FILE" ---> verify ---------------------------+--> root.zone in the data directory
//!                                                                 (after a transfer)
//! ```
//! All of this runs on one thread, "root", for which no query waits. If a copy is refused, cannot
//! be fetched or has expired, the resolver works as without a copy and queries the root's servers.

pub(crate) mod zone_file;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use avocet_control::trust::RootZoneStatus;
use avocet_nameserver::clock::wall_secs;
use avocet_resolver::LocalRootSlot;

/// Returns the reason why a file cannot be read as the root zone; `None` if it can. Does not verify
/// the zone.
pub fn fault_of_file(path: &Path) -> Option<String> {
    zone_file::read(path).err().map(|error| error.to_string())
}

/// The state of the local root's maintenance, shared with its thread.
pub(crate) struct RootKeeping {
    pub(crate) slot: LocalRootSlot,
    status: Mutex<Status>,
    is_closed: Mutex<bool>,
    closing: Condvar,
    /// Copies that were put into use.
    pub(crate) taken: AtomicU64,
    /// Copies that failed verification.
    pub(crate) refused: AtomicU64,
    /// Rounds in which no primary had a usable copy.
    pub(crate) failed: AtomicU64,
}

/// The result of the last attempts.
#[derive(Clone, Default)]
pub(crate) struct Status {
    /// Whether the configuration requests a copy.
    pub(crate) is_wanted: bool,
    /// The source of the copy in use.
    pub(crate) from: String,
    /// The Unix second at which the copy was last confirmed as the latest version.
    pub(crate) checked_at_secs: u64,
    /// The last error; `None` after a success.
    pub(crate) fault: Option<String>,
}

impl RootKeeping {
    /// Creates the state of a thread that publishes verified copies in this slot.
    pub(crate) fn new(slot: LocalRootSlot) -> Self {
        Self {
            slot,
            status: Mutex::default(),
            is_closed: Mutex::default(),
            closing: Condvar::new(),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Ends the thread. A transfer in progress ends when the next message arrives.
    pub(crate) fn close(&self) {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.closing.notify_all();
    }

    /// Returns the serial of the copy in use, and its expiry in seconds since 1970.
    pub(crate) fn in_use(&self) -> Option<(u32, u64)> {
        self.slot
            .at(wall_secs())
            .map(|(zone, expires_at_secs)| (zone.timers().serial, expires_at_secs))
    }

    /// Returns the state of the copy. `None` if the configuration requests no copy.
    pub(crate) fn show(&self) -> Option<RootZoneStatus> {
        let status = self.status().clone();
        if !status.is_wanted {
            return None;
        }
        let in_use = self.in_use();
        Some(RootZoneStatus {
            serial: in_use.map(|(serial, _)| serial),
            expires: in_use.map(|(_, expires)| expires),
            from: in_use.map(|_| status.from),
            checked: in_use.map(|_| status.checked_at_secs),
            fault: status.fault,
        })
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for this time. Returns false if the thread must end.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let is_closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.closing.wait_timeout_while(is_closed, time, |is_closed| !*is_closed);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Records an error and logs it.
    pub(crate) fn note_fault(&self, fault: String) {
        let use_is = if self.in_use().is_some() {
            "the current copy stays in use"
        } else {
            "using the root servers"
        };
        tracing::warn!("the copy of the root zone: {fault}; {use_is}");
        self.status().fault = Some(fault);
    }

    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
