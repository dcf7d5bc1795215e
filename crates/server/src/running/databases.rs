//! The threads that listen to databases: a notification makes zones due at once.
//!
//! ```text
//! connect --> LISTEN --> all zones of the database are due --> notification --> its zone is due
//!    ^                                                     |
//!    +-- after a pause that doubles <-- connection lost ---+
//! ```
//! Notifications of the time without a connection are lost, so that all zones are due after it.

use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
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
/// Most databases with a thread that listens. Zones of others are read at their intervals.
const MAX_LISTENERS: usize = 16;
/// Time between looks at whether the database is still configured.
const TICK: Duration = Duration::from_secs(1);
/// Time between checks that the connection still works.
const PROOF: Duration = Duration::from_secs(30);
/// Bounds of the pause before another connection.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The log line after a panic of the thread.
const FAULT: &str = "a panic ended a thread that listens to a database; its zones are read at their \
                     intervals until the server is restarted";

/// The databases that threads listen to.
#[derive(Default)]
pub(crate) struct DatabaseListeners {
    sources: Mutex<Vec<Arc<DatabaseSource>>>,
    changed: Condvar,
}

impl DatabaseListeners {
    /// Takes the databases of the configuration in force. Threads of others end by themselves.
    pub(crate) fn follow(&self, running: &Arc<Running>, zones: &[ZoneConfig]) {
        let mut wanted = Vec::new();
        for source in zones.iter().filter_map(source_of) {
            if !wanted.contains(&source) && wanted.len() < MAX_LISTENERS {
                wanted.push(source);
            }
        }
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let before = sources.len();
        sources.retain(|source| wanted.contains(source));
        if sources.len() < before {
            self.changed.notify_all();
        }
        wanted.retain(|source| !sources.iter().any(|known| **known == *source));
        for source in wanted.into_iter().map(Arc::new) {
            let (listening, running) = (source.clone(), running.clone());
            let begin = move || {
                let work = || listen(&running, &listening);
                running.conditions.contain(Condition::Threads, FAULT, work);
            };
            match thread::Builder::new().name("database".to_owned()).spawn(begin) {
                Ok(_) => sources.push(source),
                Err(error) => tracing::error!(%error, "cannot start a thread for a database"),
            }
        }
    }

    /// Waits until the databases change, at most this long.
    fn wait(&self, most: Duration) {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout(sources, most));
    }

    /// Returns whether a thread listens for this entry, and not for a later one that is equal.
    fn has(&self, source: &Arc<DatabaseSource>) -> bool {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.iter().any(|one| Arc::ptr_eq(one, source))
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
            // The check of each zone shows the error of its own connection, too.
            tracing::warn!("{}: {error}; connecting again", source.url());
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

/// Listens over one connection. Returns why it ended; `Ok` if it is no longer wanted.
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

/// Reads and writes for a connection, and notes what the database sends.
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

/// Makes the zone with a name due, or without a name all zones of the database.
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
