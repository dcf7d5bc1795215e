//! The thread that watches the files of hosted zones: it reads a file that has changed and settled,
//! so that no query waits for it. An unusable file changes nothing and is reported.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use avocet_config::Config;
use avocet_config::name::shown;
use avocet_config::zone::ZoneConfig;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::flush::FlushExtent;
use avocet_wire::NameBuf;
use avocet_zone::ZoneId;

use super::catalogs::ANNOUNCE_SECS;
use super::conditions::Condition;
use super::secondaries::Secondaries;
use super::{Running, alias_targets};
use crate::trace::own_questions;
use crate::turns::Turns;

/// Time between checks of the files.
const LOOK: Duration = Duration::from_secs(1);
/// Seconds between checks for steps of moves between the catalogs of this server.
const RENEWAL_SECS: u64 = 60;
/// Seconds from the start to the first of these checks, so that secondaries have the previous step
/// even if the server was down since then.
const FIRST_RENEWAL_SECS: u64 = ANNOUNCE_SECS;
/// Maximum number of requests that read zones at the same time.
const MAX_RELOADS: usize = 1;
/// The reason why a program without the feature `postgres` has no zones from databases.
pub(crate) const NO_DATABASES: &str =
    "this program was built without PostgreSQL; build it with the feature `postgres`";
/// The log line after a panic of the thread.
const FAULT: &str = "a panic ended the thread that watches the files of zones; they are read again \
                     after `avocet reload`, or after a restart of the server";

/// The signal that ends the thread, and the state of the zones that other threads maintain.
pub(crate) struct ZoneWatch {
    is_closed: Mutex<bool>,
    closing: Condvar,
    /// The zones of other servers.
    pub(crate) secondaries: Secondaries,
    /// The databases that announce changes of zones.
    #[cfg(feature = "postgres")]
    pub(crate) databases: super::databases::DatabaseListeners,
    /// Whether a thread queries parent zones for DS records.
    is_asking: AtomicBool,
    /// Whether a thread looks up the targets of ALIAS records.
    pub(super) is_looking_up: AtomicBool,
    /// Limits the number of concurrent requests that read zones.
    pub(crate) reloads: Arc<Turns>,
}

impl Default for ZoneWatch {
    fn default() -> Self {
        Self {
            is_closed: Mutex::default(),
            closing: Condvar::new(),
            secondaries: Secondaries::default(),
            #[cfg(feature = "postgres")]
            databases: super::databases::DatabaseListeners::default(),
            is_asking: AtomicBool::new(false),
            is_looking_up: AtomicBool::new(false),
            reloads: Arc::new(Turns::new(MAX_RELOADS)),
        }
    }
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

/// Reads the given zone, or all zones if none is given, at once. Zones with a URL are fetched
/// within a second. Returns whether the given zone exists.
pub(crate) fn reload(running: &Running, id: Option<&ZoneId>) -> bool {
    let is_known = running.reloader.reload_zones(id);
    let snapshot = running.shared.snapshot();
    let pulled = snapshot.config.zones.iter().filter(|zone| zone.source_url().is_some());
    let chosen = pulled.filter(|zone| id.is_none_or(|id| zone.is(id)));
    running.zone_watch.secondaries.note(chosen.map(|zone| zone.name.clone()));
    running.conditions.set(Condition::Zones, running.reloader.zones.fault());
    is_known
}

/// Returns the zone of a configuration that this program cannot provide, and the reason; `None` if
/// it can provide all zones.
pub fn fault_of_providers(config: &Config) -> Option<String> {
    let is_stored =
        |zone: &&ZoneConfig| zone.source_url().is_some_and(|url| url.database.is_some());
    let zone = config.zones.iter().find(is_stored).filter(|_| !cfg!(feature = "postgres"))?;
    Some(format!("zone {}: {NO_DATABASES}", shown(&zone.name)))
}

fn work(running: &Arc<Running>) {
    let zones = &running.reloader.zones;
    running.conditions.set(Condition::Zones, zones.fault());
    let clock = &running.shared.name_server.clock;
    let mut renewal_secs = u64::from(clock.now().secs()) + FIRST_RENEWAL_SECS;
    while running.zone_watch.wait() {
        let now_secs = clock.now().secs();
        if u64::from(now_secs) >= renewal_secs {
            running.reloader.renew_catalogs();
            renewal_secs = u64::from(now_secs) + RENEWAL_SECS;
        }
        running.reloader.watch_zones(now_secs.into());
        let begun = running.reloader.follow_catalogs();
        running.zone_watch.secondaries.note(begun);
        running.reloader.sign_zones(wall_secs());
        ask_parents(running);
        alias_targets::look_up(running);
        running.conditions.set(Condition::Zones, zones.fault());
        running.conditions.set(Condition::Catalogs, running.reloader.catalogs.fault());
        running.conditions.set(Condition::Signing, zones.signing_fault());
    }
}

/// Queries the parents of zones whose keys wait for DS records, on a separate thread: a parent that
/// does not answer delays no zone.
fn ask_parents(running: &Arc<Running>) {
    if running.zone_watch.is_asking.load(Ordering::Acquire) {
        return;
    }
    let zones = running.reloader.zones.awaiting_parents(wall_secs());
    if zones.is_empty() {
        return;
    }
    running.zone_watch.is_asking.store(true, Ordering::Release);
    let asking = running.clone();
    let ask = move || {
        asking.conditions.contain(Condition::Threads, FAULT, || {
            zones.iter().for_each(|zone| ask_parent(&asking, zone));
        });
        asking.zone_watch.is_asking.store(false, Ordering::Release);
    };
    if let Err(error) = thread::Builder::new().name("parents".to_owned()).spawn(ask) {
        tracing::error!(%error, "cannot start a thread that asks for DS records");
        running.zone_watch.is_asking.store(false, Ordering::Release);
    }
}

/// Looks up the DS records of a zone. The records are validated if possible, and no policy applies.
fn ask_parent(running: &Running, zone: &ZoneId) {
    let Ok(name) = NameBuf::from_wire(&zone.name) else { return };
    let name = name.folded();
    if running.reloader.zones.follows_parent(zone) {
        // The parent may have changed the records since they came into the cache.
        let name_server = &running.shared.name_server;
        name_server.flush_rrsets(&[name.view()], FlushExtent::Name);
        name_server.packets.flush(name.view());
    }
    match own_questions::ds_records(&running.shared, name.view()) {
        Ok((records, ttl_secs)) => running.reloader.zones.note_parent(zone, &records, ttl_secs),
        Err(error) => tracing::warn!(%error, "zone {zone}: cannot look up its DS records"),
    }
}
