//! Fetching, storing, compiling and replacing the lists of names.
//!
//! ```text
//! [[list]] url  --fetch--> text --judge--> copy on disk --+
//! [[list]] file ---------> text ---------> copy on disk --+--compile--> image on disk
//! [[list]] primaries -----> IXFR, AXFR ---> copy on disk --+
//!                                                                          |      ^
//!                                                       workers <-Reloader-'      |
//!                                             a start reads it, not the lists ----'
//! ```
//! All of this runs on one thread, "lists", for which no query waits. Only the texts of other
//! servers are fetched on separate threads. After any error the lists in force stay unchanged: if a
//! source fails, sends something other than a list or has lost most of its entries, its last good
//! copy is used.

pub(crate) mod copies;
pub(crate) mod fetch;
pub(crate) mod fitting;
mod image_file;
pub(crate) mod leisure;
pub(crate) mod source;
pub(crate) mod store;
pub(crate) mod zone;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use avocet_control::ControlError;
use avocet_control::lists::Refreshed;

use source::SourceState;
pub use store::open_text;
pub(crate) use store::{Store, Taking};

/// The state of the lists' maintenance that threads share, and their requests to its thread.
#[derive(Default)]
pub(crate) struct Keeping {
    desk: Mutex<Desk>,
    changed: Condvar,
    sources: Mutex<BTreeMap<String, SourceState>>,
    /// The component that runs work at idle priority.
    pub(crate) leisure: leisure::Leisure,
    /// Number of compilations of the lists since the server started.
    pub(crate) compiles: AtomicU64,
    /// Whether a list of another server has a text in force that could not be written to disk.
    pub(crate) is_unsaved: AtomicBool,
}

#[derive(Default)]
struct Desk {
    orders: Vec<Order>,
    /// The lists for which a primary sent NOTIFY.
    noted: BTreeSet<String>,
    is_closed: bool,
}

/// The outcome of an order.
pub(crate) type RefreshResult = Result<Refreshed, ControlError>;

/// A request to fetch sources now.
pub(crate) struct Order {
    /// The list; `None` for all.
    pub(crate) name: Option<String>,
    pub(crate) taking: Taking,
    /// Receives the outcome.
    pub(crate) reply: Sender<RefreshResult>,
}

impl Keeping {
    /// Requests a fetch of one list, or of all, and passes the sender for the outcome. `taking`
    /// determines whether a text that would be held back is accepted.
    pub(crate) fn refresh(
        &self,
        name: Option<String>,
        taking: Taking,
        reply: Sender<RefreshResult>,
    ) {
        let mut desk = self.desk();
        // If the thread has ended, the reply is dropped with the order.
        if !desk.is_closed {
            desk.orders.push(Order { name, taking, reply });
        }
        drop(desk);
        self.changed.notify_all();
    }

    /// Records that a primary of a list's zone sent NOTIFY.
    pub(crate) fn note(&self, list: &str) {
        self.desk().noted.insert(list.to_owned());
    }

    /// Returns whether a primary of this list's zone sent NOTIFY, and clears the note.
    pub(crate) fn take_note(&self, list: &str) -> bool {
        self.desk().noted.remove(list)
    }

    /// Ends the thread. A fetch in progress is completed first.
    pub(crate) fn close(&self) {
        let mut desk = self.desk();
        desk.is_closed = true;
        desk.orders.clear();
        drop(desk);
        self.changed.notify_all();
    }

    /// Returns the state of each source.
    pub(crate) fn sources(&self) -> MutexGuard<'_, BTreeMap<String, SourceState>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.desk().is_closed
    }

    /// Waits for orders, for at most the given time; `None` if the thread must end.
    pub(crate) fn wait(&self, time: Duration) -> Option<Vec<Order>> {
        let is_idle = |desk: &mut Desk| desk.orders.is_empty() && !desk.is_closed;
        let waited = self.changed.wait_timeout_while(self.desk(), time, is_idle);
        let (mut desk, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if desk.is_closed { None } else { Some(std::mem::take(&mut desk.orders)) }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count_compile(&self) {
        self.compiles.fetch_add(1, Ordering::Relaxed);
    }
}
