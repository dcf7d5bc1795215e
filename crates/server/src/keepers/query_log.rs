//! The threads of the query log. One takes the entries out of the workers' rings, completes them,
//! and passes them to the files and the followers. The other seals complete files, merges the files
//! of a day, and deletes the oldest files.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use avocet_config::outcome::KindDays;
use avocet_config::query_log::QueryLogConfig;
use avocet_querylog::{
    Ages, Consumer, Entry, LogError, Outcome, OutcomeDays, Record, Retention, Rollups, Upkeep,
    UpkeepCounters,
};
use avocet_wire::Rtype;
use tracing::warn;

use crate::query_log::files::LogFiles;
use crate::query_log::followers::Collector;
use crate::query_log::rates::QueryTally;
use crate::query_log::shown::shown;
use crate::query_log::states::LoggedStates;
use crate::query_log::steady::SteadyClock;
use crate::query_log::{LogCounts, QueryLog, WriterOrder, WrittenLog};
use crate::running::Running;
use crate::running::conditions::Condition;

/// Time between rounds while queries are logged: much less than a ring takes to fill.
const TICK: Duration = Duration::from_millis(25);
/// Time between rounds while no queries are logged.
const IDLE_TICK: Duration = Duration::from_millis(250);

/// Time between two checks of the upkeep for complete files.
const UPKEEP_AFTER: Duration = Duration::from_secs(5);

/// Time between two checks for clients whose entries must be dropped from the roll-ups.
const TIDY_AFTER: Duration = Duration::from_secs(3600);

/// The problem that the status reports after a panic in a pass of the loop.
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
        tally: QueryTally::default(),
        failed_after: None,
    };
    thread::Builder::new().name("query-log".to_owned()).spawn(move || work.run())
}

struct LogWork {
    running: Arc<Running>,
    rings: Vec<Consumer>,
    states: LoggedStates,
    record: Record,
    /// The lists that contain the name of an entry.
    lists: Vec<u16>,
    files: LogFiles,
    /// The counts from which the rates are calculated.
    tally: QueryTally,
    /// Number of entries that were written before the last failure; `None` once further entries are
    /// written.
    failed_after: Option<u64>,
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
                self.count_left();
                return;
            }
        }
    }

    fn tick(&self) -> Duration {
        if self.states.current().is_logging { TICK } else { IDLE_TICK }
    }

    /// Takes the entries of the workers, and writes them.
    fn round(&mut self) -> Result<(), LogError> {
        self.states.refresh(&self.running.shared.name_server);
        let now_us = now_us();
        let config = &self.states.current().config;
        let directory = config.query_log.directory_in(&config.data.directory);
        let wanted = config.query_log.enabled.then_some(directory.as_path());
        let mut written = self.files.follow(wanted, now_us);
        if self.files.is_waiting() {
            self.obey(now_us);
            return written;
        }
        let Self { running, rings, states, record, lists, files, tally, .. } = self;
        let log: &QueryLog = &running.query_log;
        let own = states.current().config.server.own_address().ip();
        let mut followed = Collector::new(&log.followers);
        let began = Instant::now();
        log.counts.note_fill(rings.iter().map(Consumer::fill).fold(0.0, f64::max));
        let mut taken = 0;
        for ring in rings.iter_mut() {
            while ring.pop(record) {
                taken += 1;
                let entry = record.entry();
                // The server itself queries for the names of its clients. No client sent these
                // queries, and they contain addresses that the log may not have.
                let is_lookup = entry.facts.qtype == Rtype::PTR.0
                    && is_this_host(entry.facts.client, own)
                    && running.names.is_own(entry.qname);
                if is_lookup {
                    continue;
                }
                states.learn_upstream(entry.facts.upstream, &running.shared);
                let Some(facts) = states.complete(&entry, lists) else { continue };
                let entry = Entry { facts, lists, ..entry };
                tally.count(facts.outcome);
                written = written.and(files.add(&entry, states, now_us));
                followed.add(|| shown(&entry, states).into());
            }
        }
        followed.send();
        LogCounts::add(&log.counts.taken, taken);
        let dropped = rings.iter().map(Consumer::dropped).sum();
        log.counts.dropped.store(dropped, Ordering::Relaxed);
        log.rates.sample(Instant::now(), *tally);
        written = written.and(files.tick(now_us));
        if taken > 0 {
            LogCounts::add(&log.counts.work_us, began.elapsed().as_micros() as u64);
        }
        self.obey(now_us);
        written
    }

    /// If this process ends before it has taken over the files of the previous process, counts the
    /// entries in its rings as lost.
    fn count_left(&mut self) {
        let mut left = 0;
        for ring in &mut self.rings {
            while ring.pop(&mut self.record) {
                left += 1;
            }
        }
        if left > 0 {
            LogCounts::add(&self.running.query_log.counts.lost, left);
            tracing::warn!(
                "{left} entries of the query log are lost: the server ended before its predecessor \
                 left the files"
            );
        }
    }

    /// Executes requests of control clients. Errors are sent to the clients, which may have
    /// disconnected.
    fn obey(&mut self, now_us: u64) {
        for order in self.running.query_log.writer_orders() {
            match order {
                WriterOrder::Cut(reply) => drop(reply.send(self.files.cut(now_us))),
                WriterOrder::Forget(deleted, reply) => {
                    drop(reply.send(self.files.forget(&deleted)));
                }
            }
        }
    }

    /// Publishes the state of the files: an error, until a round succeeds.
    fn report(&mut self, written: &Result<(), LogError>) {
        let log = &self.running.query_log;
        let counters = self.files.counters();
        log.counts.written.store(counters.written, Ordering::Relaxed);
        log.counts.lost.store(counters.lost, Ordering::Relaxed);
        log.counts.octets.store(counters.octets, Ordering::Relaxed);
        *log.written.lock().unwrap_or_else(PoisonError::into_inner) = self.files.written();
        let text = match written {
            Err(error) => {
                // If the directory could not be opened, success in opening it ends the failure.
                // Otherwise, a written entry does.
                self.failed_after = self.files.written().map(|_| counters.written);
                Some(format!(
                    "the query log is not written: {error}; the server goes on, counts the entries \
                     that it loses, and tries again"
                ))
            }
            Ok(()) if self.files.is_failing() => return,
            // A round without a written entry does not prove that the failure is over.
            Ok(())
                if self.failed_after.is_some_and(|written| counters.written <= written)
                    && self.files.written().is_some() =>
            {
                return;
            }
            Ok(()) => {
                self.failed_after = None;
                None
            }
        };
        self.running.conditions.set(Condition::QueryLogFiles, text);
    }
}

/// Returns whether an address is one from which this host queries a server at `own`.
fn is_this_host(client: IpAddr, own: IpAddr) -> bool {
    client.is_loopback() || client == own
}

/// Starts the thread that seals, merges and deletes files of the log.
///
/// # Errors
///
/// The system cannot start a thread.
pub(crate) fn start_upkeep(running: Arc<Running>) -> io::Result<JoinHandle<()>> {
    let work = move || {
        let mut upkeep: Option<LogUpkeep> = None;
        let mut clock = SteadyClock::default();
        while running.query_log.wait_for_upkeep(UPKEEP_AFTER) {
            let done =
                catch_unwind(AssertUnwindSafe(|| keep_up(&running, &mut upkeep, &mut clock)));
            let text = match done {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!(
                    "the files of the query log are not all maintained: {error}; the server goes on"
                )),
                Err(_) => Some(FAULT.to_owned()),
            };
            running.conditions.set(Condition::QueryLogUpkeep, text);
            running.query_log.searches.forget_idle(Instant::now());
        }
    };
    thread::Builder::new().name("log-upkeep".to_owned()).spawn(work)
}

/// The upkeep of a directory.
struct LogUpkeep {
    directory: PathBuf,
    upkeep: Upkeep,
    /// The counts that are already part of the counts of the log.
    counted: UpkeepCounters,
    /// The time in Unix microseconds at which the clock was last checked.
    judged_us: u64,
    /// The time at which the clients of the log were last tidied; `None` if the clock was not
    /// trusted since.
    tidied: Option<Instant>,
}

impl LogUpkeep {
    fn open(directory: PathBuf, retention: Retention) -> Result<Self, LogError> {
        let upkeep = Upkeep::open(directory.clone(), retention)?;
        let counted = UpkeepCounters::default();
        Ok(Self { directory, upkeep, counted, judged_us: 0, tidied: None })
    }

    /// Executes requests of clients, and all upkeep that is due.
    fn work(&mut self, log: &QueryLog, clock: &mut SteadyClock) -> Result<(), LogError> {
        let goes_on = || log.wait(Duration::ZERO);
        for order in log.upkeep_orders() {
            let pruned = self.upkeep.prune_entries(&order.filter, order.before_id, goes_on);
            self.count(log);
            // The client may have disconnected.
            let _ = order.reply.send(pruned);
        }
        loop {
            // The step deletes by the same time that was checked against the clock.
            self.judged_us = now_us();
            self.upkeep.set_ages(clock.note(self.judged_us, Instant::now()));
            if !self.upkeep.step(self.judged_us)? || !goes_on() {
                return Ok(());
            }
        }
    }

    /// Forgets old clients and repairs their times: at once when the clock becomes trusted, and
    /// then every hour. Uses the time that was last checked.
    fn tidy_clients(&mut self, rollups: &Mutex<Rollups>, now: Instant) {
        if self.upkeep.ages() == Ages::Doubtful {
            self.tidied = None;
        } else if self.tidied.is_none_or(|tidied| now.duration_since(tidied) >= TIDY_AFTER) {
            let mut rollups = rollups.lock().unwrap_or_else(PoisonError::into_inner);
            rollups.tidy_clients(self.judged_us);
            self.tidied = Some(now);
        }
    }

    /// Adds the counts of this upkeep to the counts of the log.
    fn count(&mut self, log: &QueryLog) {
        let (before, now) = (self.counted, self.upkeep.counters());
        LogCounts::add(&log.counts.sealed, now.sealed - before.sealed);
        LogCounts::add(&log.counts.deleted, now.deleted - before.deleted);
        LogCounts::add(&log.counts.damaged, now.lost_entries - before.lost_entries);
        let octets = now.lost_octets - before.lost_octets;
        if octets > 0 {
            let entries = now.lost_entries - before.lost_entries;
            warn!(
                "files of the query log were damaged: {octets} octets belong to no intact block, \
                 which had {entries} entries or more"
            );
        }
        self.counted = now;
    }
}

/// Does all upkeep that is due, and executes requests of the control socket.
fn keep_up(
    running: &Running,
    upkeep: &mut Option<LogUpkeep>,
    clock: &mut SteadyClock,
) -> Result<(), LogError> {
    let log = &running.query_log;
    let Some(WrittenLog { directory, rollups }) = log.written() else {
        // Dropping the orders closes their channels, from which the clients learn that nothing was
        // deleted.
        log.upkeep_orders();
        *upkeep = None;
        return Ok(());
    };
    let retention = retention(&running.shared.snapshot().config.query_log);
    let mut known = match upkeep.take().filter(|known| known.directory == directory) {
        Some(known) => known,
        None => LogUpkeep::open(directory.clone(), retention.clone())?,
    };
    known.upkeep.set_retention(retention);
    let done = known.work(log, clock);
    known.tidy_clients(&rollups, Instant::now());
    known.count(log);
    log.counts.stored_octets.store(stored_octets(&directory), Ordering::Relaxed);
    *upkeep = Some(known);
    done
}

/// Returns the time for which the configuration keeps entries.
fn retention(config: &QueryLogConfig) -> Retention {
    let of_outcome = |limit: &KindDays| {
        let outcome = Outcome::named(limit.kind.word())?;
        Some(OutcomeDays { outcome, days: limit.days.into() })
    };
    Retention {
        days: config.retention_days.into(),
        octets: config.retention_bytes,
        outcomes: config.retention_outcomes.iter().filter_map(of_outcome).collect(),
    }
}

/// Returns the number of octets of all files in a directory.
fn stored_octets(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
