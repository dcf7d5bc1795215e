//! The thread that watches the files of hosted zones: it reads a file that has changed and settled,
//! so that no query waits for it. An unusable file changes nothing and is reported.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::Running;
use super::conditions::Condition;
use super::secondaries::Secondaries;

/// Time between checks of the files.
const LOOK: Duration = Duration::from_secs(1);
/// What a panic of the thread means.
const FAULT: &str = "a panic ended the thread that watches the files of zones; they are read again \
                     after `avocet reload`, or after a restart of the server";

/// The end of the thread, and the zones that another one keeps.
#[derive(Default)]
pub(crate) struct ZoneWatch {
    is_closed: Mutex<bool>,
    closing: Condvar,
    /// The zones of other servers.
    pub(crate) secondaries: Secondaries,
}

impl ZoneWatch {
    /// Ends the thread.
    pub(crate) fn close(&self) {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.closing.notify_all();
    }

    /// Waits for the next check. Returns false if the thread must end.
    fn wait(&self) -> bool {
        let is_closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.closing.wait_timeout_while(is_closed, LOOK, |is_closed| !*is_closed);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>) -> io::Result<()> {
    let watched = move || {
        running.conditions.contain(Condition::Threads, FAULT, || work(&running));
    };
    thread::Builder::new().name("zones".to_owned()).spawn(watched).map(drop)
}

/// Reads a zone, or all without a name, at once. Returns whether there is such a zone.
pub(crate) fn reload(running: &Running, name: Option<&[u8]>) -> bool {
    let is_known = running.reloader.reload_zones(name);
    running.conditions.set(Condition::Zones, running.reloader.zones.fault());
    is_known
}

fn work(running: &Running) {
    let zones = &running.reloader.zones;
    running.conditions.set(Condition::Zones, zones.fault());
    while running.zone_watch.wait() {
        let now_secs = running.shared.name_server.clock.now().secs();
        running.reloader.watch_zones(now_secs.into());
        running.conditions.set(Condition::Zones, zones.fault());
    }
}
