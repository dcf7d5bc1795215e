//! The threads of the query log. One takes the entries out of the workers' rings, completes them,
//! and passes them to the files and the followers. The other seals files that are complete, merges
//! those of a day, and deletes the oldest.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use avocet_querylog::{Consumer, Entry, LogError, Record, Retention, Upkeep};

use crate::query_log::files::LogFiles;
use crate::query_log::shown::shown;
use crate::query_log::states::LoggedStates;
use crate::query_log::{LogCounts, QueryLog};
use crate::running::Running;
use crate::running::conditions::Condition;

/// Time between rounds while queries are logged: much less than a ring takes to fill.
const TICK: Duration = Duration::from_millis(25);
/// The same while none are.
const IDLE_TICK: Duration = Duration::from_millis(250);

/// Time between readings of the upstreams of the workers, which publish them twice a second.
const UPSTREAMS_AFTER: Duration = Duration::from_secs(1);

/// Time between looks of the upkeep for files that are complete.
const UPKEEP_AFTER: Duration = Duration::from_secs(5);

/// The condition after a panic of a round.
const FAULT: &str = "a panic interrupted the query log, see the log; the server retries";

/// Starts the thread.
///
/// # Errors
///
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>, rings: Vec<Consumer>) -> io::Result<JoinHandle<()>> {
    let states = LoggedStates::new(&running.shared.name_server);
    let work = LogWork {
        running,
        rings,
        states,
        record: Record::default(),
        lists: Vec::new(),
        files: LogFiles::default(),
        upstreams_due: Instant::now(),
    };
    thread::Builder::new().name("query-log".to_owned()).spawn(move || work.run())
}

struct LogWork {
    running: Arc<Running>,
    rings: Vec<Consumer>,
    states: LoggedStates,
    record: Record,
    /// The lists of an entry.
    lists: Vec<u16>,
    files: LogFiles,
    /// When the upstreams of the workers are read again.
    upstreams_due: Instant,
}

impl LogWork {
    fn run(mut self) {
        let running = self.running.clone();
        loop {
            let is_open = running.query_log.wait(self.tick());
            let written = running.conditions.contain(Condition::QueryLog, FAULT, || self.round());
            if let Some(written) = written {
                self.report(&written);
            }
            if !is_open {
                let closed = self.files.close(now_us());
                self.report(&closed);
                return;
            }
        }
    }

    fn tick(&self) -> Duration {
        if self.states.current().is_logging { TICK } else { IDLE_TICK }
    }

    /// Takes the snapshot in force, and now and then the upstreams of the workers.
    fn refresh(&mut self) {
        let shared = &self.running.shared;
        self.states.refresh(&shared.name_server);
        if Instant::now() < self.upstreams_due {
            return;
        }
        self.upstreams_due = Instant::now() + UPSTREAMS_AFTER;
        for (worker, report) in shared.resolver_reports.iter().enumerate() {
            let report = report.lock().unwrap_or_else(PoisonError::into_inner);
            let upstreams = report.upstreams.iter().map(|one| (one.id.0, one.addr.to_string()));
            self.states.learn_upstreams(worker, upstreams);
        }
    }

    /// Takes what the workers have logged, and writes it.
    fn round(&mut self) -> Result<(), LogError> {
        self.refresh();
        let now_us = now_us();
        let config = &self.states.current().config;
        let directory = config.query_log.directory_in(&config.data.directory);
        let wanted = config.query_log.enabled.then_some(directory.as_path());
        let mut written = self.files.follow(wanted, now_us);
        let Self { running, rings, states, record, lists, files, .. } = self;
        let log: &QueryLog = &running.query_log;
        let is_followed = !log.followers.is_empty();
        let mut taken = 0;
        for (worker, ring) in rings.iter_mut().enumerate() {
            while ring.pop(record) {
                taken += 1;
                let entry = record.entry();
                let Some(facts) = states.complete(worker, &entry, lists) else { continue };
                let entry = Entry { facts, lists, ..entry };
                written = written.and(files.add(&entry, states, now_us));
                if is_followed {
                    log.followers.send(&Arc::new(shown(&entry, states)));
                }
            }
        }
        LogCounts::add(&log.counts.taken, taken);
        let dropped = rings.iter().map(Consumer::dropped).sum();
        log.counts.dropped.store(dropped, Ordering::Relaxed);
        written.and(files.tick(now_us))
    }

    /// Publishes the state of the files: an error, until a round succeeds.
    fn report(&self, written: &Result<(), LogError>) {
        let log = &self.running.query_log;
        let counters = self.files.counters();
        log.counts.written.store(counters.written, Ordering::Relaxed);
        log.counts.lost.store(counters.lost, Ordering::Relaxed);
        log.counts.octets.store(counters.octets, Ordering::Relaxed);
        *log.directory.lock().unwrap_or_else(PoisonError::into_inner) =
            self.files.directory().map(ToOwned::to_owned);
        let text = match written {
            Err(error) => Some(format!(
                "the query log is not written: {error}; the server goes on, counts the entries \
                 that it loses, and tries again"
            )),
            Ok(()) if self.files.is_failing() => return,
            Ok(()) => None,
        };
        self.running.conditions.set(Condition::QueryLogFiles, text);
    }
}

/// Starts the thread that seals, merges and deletes files of the log.
///
/// # Errors
///
/// The system cannot start a thread.
pub(crate) fn start_upkeep(running: Arc<Running>) -> io::Result<JoinHandle<()>> {
    let work = move || {
        let mut upkeep: Option<(PathBuf, Upkeep)> = None;
        while running.query_log.wait(UPKEEP_AFTER) {
            let done = catch_unwind(AssertUnwindSafe(|| keep_up(&running, &mut upkeep)));
            let text = match done {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!(
                    "the files of the query log are not all maintained: {error}; the server goes on"
                )),
                Err(_) => Some(FAULT.to_owned()),
            };
            running.conditions.set(Condition::QueryLogUpkeep, text);
        }
    };
    thread::Builder::new().name("log-upkeep".to_owned()).spawn(work)
}

/// Does all upkeep that is due.
fn keep_up(running: &Running, upkeep: &mut Option<(PathBuf, Upkeep)>) -> Result<(), LogError> {
    let written =
        running.query_log.directory.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(directory) = written else {
        *upkeep = None;
        return Ok(());
    };
    let config = running.shared.snapshot().config.query_log.clone();
    let retention = Retention {
        days: config.retention_days.into(),
        octets: config.retention_bytes,
        outcomes: Vec::new(),
    };
    if upkeep.as_ref().is_none_or(|(known, _)| *known != directory) {
        *upkeep = Some((directory.clone(), Upkeep::open(directory, retention.clone())?));
    }
    let Some((_, upkeep)) = upkeep else { return Ok(()) };
    upkeep.set_retention(retention);
    while upkeep.step(now_us())? {
        if !running.query_log.wait(Duration::ZERO) {
            break;
        }
    }
    Ok(())
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
