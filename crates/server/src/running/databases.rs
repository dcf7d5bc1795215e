//! The threads that listen to databases: a notification makes zones due at once.
//!
//! ```text
//! connect --> LISTEN --> all zones of the database are due --> notification --> its zone is due
//!    ^                                                     |
//!    +-- after a pause that doubles <-- connection lost ---+
//! ```
//! Notifications are lost while there is no connection, so all zones are due after the next
//! connection.

use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_config::name::typed_name;
use avocet_config::zone::ZoneConfig;
use tokio_postgres::{AsyncMessage, Notification};

use super::Running;
use super::conditions::Condition;
use crate::database::{CONNECT, DatabaseConnection, DatabaseError, DatabaseSource, runtime};
use crate::lists::fetch::Lookup;
use crate::trace::own_questions;

/// The channel of notifications. The payload is the name of a zone, or empty for all.
const LISTEN: &str = "LISTEN avocet_zone";
/// Maximum number of databases with a thread that listens. Zones of other databases are read at
/// their intervals.
const MAX_LISTENERS: usize = 16;
/// Time between checks whether the database is still configured.
const TICK: Duration = Duration::from_secs(1);
/// Time between checks that the connection still works.
const PROOF: Duration = Duration::from_secs(30);
/// Bounds of the pause before another connection.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The log line after a panic of the thread.
const FAULT: &str = "a panic ended a thread that listens to a database; its zones are read at \
                     their intervals until the server is restarted";

/// The databases that threads listen to.
#[derive(Default)]
pub(crate) struct DatabaseListeners {
    sources: Mutex<Vec<Listened>>,
    changed: Condvar,
}

/// A database that a thread listens to.
struct Listened {
    source: Arc<DatabaseSource>,
    state: ListenState,
}

/// The state of the connection for notifications of a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ListenState {
    /// The first connection is being made.
    Connecting,
    /// Notifications arrive.
    Listening,
    /// The connection was lost, or cannot be made. Holds the reason.
    Lost(String),
    /// No thread listens to the database, because too many databases are configured.
    TooMany,
}

impl ListenState {
    /// Returns the reason why no notifications arrive, if this is a defect.
    pub(crate) fn fault(&self) -> Option<String> {
        match self {
            Self::Connecting | Self::Listening => None,
            Self::Lost(reason) => Some(reason.clone()),
            Self::TooMany => Some(format!("at most {MAX_LISTENERS} databases are listened to")),
        }
    }
}

impl DatabaseListeners {
    /// Starts threads for the databases of the configuration in force. Threads of other databases
    /// end by themselves.
    pub(crate) fn follow(&self, running: &Arc<Running>, zones: &[ZoneConfig]) {
        let mut wanted = Vec::new();
        for source in zones.iter().filter_map(source_of) {
            if !wanted.contains(&source) && wanted.len() < MAX_LISTENERS {
                wanted.push(source);
            }
        }
        let mut sources = self.sources();
        let before = sources.len();
        sources.retain(|one| wanted.contains(&*one.source));
        if sources.len() < before {
            self.changed.notify_all();
        }
        wanted.retain(|source| !sources.iter().any(|known| *known.source == *source));
        for source in wanted.into_iter().map(Arc::new) {
            let (listening, running) = (source.clone(), running.clone());
            let begin = move || {
                let work = || listen(&running, &listening);
                running.conditions.contain(Condition::Threads, FAULT, work);
            };
            match thread::Builder::new().name("database".to_owned()).spawn(begin) {
                Ok(_) => sources.push(Listened { source, state: ListenState::Connecting }),
                Err(error) => tracing::error!(%error, "cannot start a thread for a database"),
            }
        }
        drop(sources);
        running.conditions.set(Condition::Databases, self.fault());
    }

    fn sources(&self) -> MutexGuard<'_, Vec<Listened>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the state of a database, and updates the warning about databases.
    fn set(&self, running: &Running, source: &Arc<DatabaseSource>, state: ListenState) {
        let mut sources = self.sources();
        let place = sources.iter_mut().find(|one| Arc::ptr_eq(&one.source, source));
        let Some(place) = place.filter(|place| place.state != state) else { return };
        place.state = state;
        drop(sources);
        running.conditions.set(Condition::Databases, self.fault());
    }

    /// Returns the state of the database of a zone; `None` if the zone is not from a database.
    pub(crate) fn state_of(&self, zone: &ZoneConfig) -> Option<ListenState> {
        let source = source_of(zone)?;
        let sources = self.sources();
        let known = sources.iter().find(|one| *one.source == source);
        Some(known.map_or(ListenState::TooMany, |known| known.state.clone()))
    }

    /// Returns the URL of each database that a thread listens to, and its state.
    pub(crate) fn states(&self) -> Vec<(String, ListenState)> {
        let sources = self.sources();
        sources.iter().map(|one| (one.source.url().to_string(), one.state.clone())).collect()
    }

    /// Returns one sentence for each database without notifications; `None` if there are none.
    fn fault(&self) -> Option<String> {
        let states = self.states().into_iter();
        let sentence = |(url, state): (String, ListenState)| {
            let reason = state.fault()?;
            Some(format!(
                "{url} sends no notifications: {reason}; its zones are read at their intervals"
            ))
        };
        let faults: Vec<_> = states.filter_map(sentence).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// Waits until the databases of the configuration change, for at most this time.
    fn wait(&self, most: Duration) {
        let sources = self.sources();
        drop(self.changed.wait_timeout(sources, most));
    }

    /// Returns whether a thread listens for this entry. An equal entry that was added later does
    /// not count.
    fn has(&self, source: &Arc<DatabaseSource>) -> bool {
        self.sources().iter().any(|one| Arc::ptr_eq(&one.source, source))
    }
}

fn source_of(zone: &ZoneConfig) -> Option<DatabaseSource> {
    DatabaseSource::of(zone.source_url()?)
}

/// Listens to a database until it is no longer configured.
fn listen(running: &Arc<Running>, source: &Arc<DatabaseSource>) {
    let is_wanted = || {
        !running.shared.name_server.notices.is_closed() && running.zone_watch.databases.has(source)
    };
    let (mut pause, mut is_lost) = (PAUSE.0, false);
    while is_wanted() {
        let began = Instant::now();
        let Err(error) = session(running, source, &is_wanted) else { return };
        if began.elapsed() > PAUSE.1 {
            (pause, is_lost) = (PAUSE.0, false);
        }
        if !is_lost {
            // The check of each zone reports the error of its own connection.
            tracing::warn!("{}: {error}; connecting again", source.url());
        }
        // A connection that is restored within a second is not a defect.
        if is_lost {
            let state = ListenState::Lost(error.to_string());
            running.zone_watch.databases.set(running, source, state);
        }
        is_lost = true;
        let next = Instant::now() + pause;
        while is_wanted() && Instant::now() < next {
            let rest = next.saturating_duration_since(Instant::now());
            running.zone_watch.databases.wait(rest.min(TICK));
        }
        pause = (2 * pause).min(PAUSE.1);
    }
}

/// Listens over one connection. Returns the reason why it ended, or `Ok` if the database is no
/// longer configured.
fn session(
    running: &Arc<Running>,
    source: &Arc<DatabaseSource>,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(), DatabaseError> {
    let shared = running.shared.clone();
    let lookup: Lookup = Box::new(move |host: &str| own_questions::addresses(&shared, host));
    let login = source.login(&lookup)?;
    runtime().map_err(DatabaseError::Connect)?.block_on(async {
        let (client, connection) = login.connect().await?;
        let (noted, noting) = (running.clone(), source.clone());
        let mut driver = tokio::spawn(drive(connection, noted, noting));
        within(client.batch_execute(LISTEN)).await?;
        running.zone_watch.databases.set(running, source, ListenState::Listening);
        note(running, source, "");
        let mut proven = Instant::now();
        while is_wanted() {
            if let Ok(ended) = tokio::time::timeout(TICK, &mut driver).await {
                return ended.unwrap_or_else(|_| Err(is_closed()));
            }
            if proven.elapsed() >= PROOF {
                within(client.check_connection()).await?;
                proven = Instant::now();
            }
        }
        Ok(())
    })
}

/// Waits for the reply to a small request.
async fn within(
    reply: impl Future<Output = Result<(), tokio_postgres::Error>>,
) -> Result<(), DatabaseError> {
    let replied = tokio::time::timeout(CONNECT, reply).await;
    Ok(replied.map_err(|_| DatabaseError::TimedOut(CONNECT))??)
}

/// Reads and writes for a connection, and processes the notifications of the database.
async fn drive(
    mut connection: DatabaseConnection,
    running: Arc<Running>,
    source: Arc<DatabaseSource>,
) -> Result<(), DatabaseError> {
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(notification) = message? {
            note(&running, &source, Notification::payload(&notification));
        }
    }
    Err(is_closed())
}

fn is_closed() -> DatabaseError {
    DatabaseError::Connect(io::ErrorKind::UnexpectedEof.into())
}

/// Makes the named zone due. Without a name, makes all zones of the database due.
fn note(running: &Running, source: &DatabaseSource, payload: &str) {
    let snapshot = running.shared.snapshot();
    let name = typed_name(payload).ok();
    for zone in snapshot.config.zones.iter().filter(|zone| source_of(zone).as_ref() == Some(source))
    {
        let is_meant = |name: &[u8]| name.eq_ignore_ascii_case(&zone.name);
        if payload.is_empty() || name.as_deref().is_some_and(is_meant) {
            running.shared.name_server.notices.note(&zone.name);
        }
    }
}
