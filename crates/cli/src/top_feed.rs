//! The figures of `avocet top`, as the running server reports them. One thread requests counts, and
//! another thread receives each query.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use avocet_control::Call;
use avocet_control::line::ReplyLine;
use avocet_control::log::{LogEntry, LogFilter, LogLine, LogSearch, LogTail};
use avocet_control::request::Status;
use avocet_control::statistics::{LogOverview, LogSeries, LogStatistics, LogSteps};
use avocet_control::status::ServerStatus;
use avocet_nameserver::clock::wall_secs;
use serde::Serialize;

use crate::call::exchange;
use crate::error::CommandError;
use crate::output::Reader;
use crate::top::TimeWindow;

/// Maximum number of latest queries that are kept.
pub(crate) const KEPT: usize = 1_000;
/// Number of logged queries that are shown at the start.
const FIRST: u64 = 100;
/// Maximum number of lines of a ranking.
const RANKED: u64 = 50;
/// Time between two requests for counts, and before the next attempt after an error.
const PACE: Duration = Duration::from_secs(1);

/// The reports of the server.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct TopReports {
    pub(crate) status: Option<ServerStatus>,
    pub(crate) overview: Option<LogOverview>,
    pub(crate) series: Option<LogSteps>,
    /// The latest queries, the latest first.
    pub(crate) latest: VecDeque<LogEntry>,
    /// Number of queries received so far. The screen compares it with an earlier number to find the
    /// same query again.
    #[serde(skip)]
    pub(crate) received: u64,
    /// Queries that the server left out because they came too fast.
    pub(crate) skipped: u64,
    /// Queries per second according to the counters of the server, which need no query log.
    #[serde(skip)]
    pub(crate) rate: Option<f64>,
    /// The reason why the counts of the server are old.
    pub(crate) trouble: Option<String>,
    /// The reason why there are no queries from the log.
    pub(crate) log_trouble: Option<String>,
    #[serde(skip)]
    pub(crate) window: Option<TimeWindow>,
    /// The number of all queries in the previous status, and the time of that status.
    #[serde(skip)]
    pub(crate) before: Option<(u64, Instant)>,
}

impl TopReports {
    /// Returns the reports as a line of JSON.
    pub(crate) fn json(&self) -> Result<String, CommandError> {
        Ok(serde_json::to_string(self)?)
    }

    /// Adds a query as the latest one.
    pub(crate) fn add(&mut self, entry: LogEntry) {
        self.latest.push_front(entry);
        self.latest.truncate(KEPT);
        self.received += 1;
    }

    /// Stores the state of the server, as received at a time.
    fn set_status(&mut self, status: ServerStatus, now: Instant) {
        let all = status.queries.all;
        self.rate = self.before.and_then(|(count, at)| {
            let secs = now.saturating_duration_since(at).as_secs_f64();
            // After a restart, the count begins at 0.
            let more = all.checked_sub(count)?;
            (secs > 0.0).then(|| more as f64 / secs)
        });
        self.before = Some((all, now));
        self.status = Some(status);
    }
}

/// The connection to the server, with the reports that came over it.
pub(crate) struct TopFeed {
    directory: PathBuf,
    reports: Mutex<TopReports>,
    /// The thread that asks for counts.
    counts: OnceLock<Thread>,
}

impl TopFeed {
    /// Creates the feed of the server of a data directory.
    pub(crate) fn new(directory: PathBuf, window: TimeWindow) -> Self {
        let reports = TopReports { window: Some(window), ..TopReports::default() };
        Self { directory, reports: Mutex::new(reports), counts: OnceLock::new() }
    }

    /// Returns the reports of the server.
    pub(crate) fn reports(&self) -> MutexGuard<'_, TopReports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the time that the counts cover, and wakes the thread that asks for them.
    pub(crate) fn next_window(&self) {
        let mut reports = self.reports();
        reports.window = reports.window.map(TimeWindow::next);
        (reports.overview, reports.series) = (None, None);
        if let Some(thread) = self.counts.get() {
            thread.unpark();
        }
    }

    /// Starts the threads. They end with the process.
    ///
    /// # Errors
    /// The system permits no more threads.
    pub(crate) fn follow(feed: &Arc<Self>) -> io::Result<()> {
        let counts = feed.clone();
        let thread = thread::Builder::new().name("counts".into()).spawn(move || {
            loop {
                let status = counts.ask_status();
                counts.reports().trouble = status.err().map(|error| error.to_string());
                counts.ask_counts();
                thread::park_timeout(PACE);
            }
        })?;
        let _ = feed.counts.set(thread.thread().clone());
        let queries = feed.clone();
        thread::Builder::new().name("queries".into()).spawn(move || {
            queries.ask_latest();
            loop {
                let ended = queries.receive();
                queries.reports().log_trouble = ended.err().map(|error| error.to_string());
                thread::park_timeout(PACE);
            }
        })?;
        Ok(())
    }

    /// Asks for the state of the server.
    ///
    /// # Errors
    /// No server answers.
    pub(crate) fn ask_status(&self) -> Result<(), CommandError> {
        let status = self.ask(Status {})?;
        self.reports().set_status(status, Instant::now());
        Ok(())
    }

    /// Asks for the counts of the query log. Without a log there are none.
    pub(crate) fn ask_counts(&self) {
        let window = self.reports().window;
        let from = window.map(|window| wall_secs().saturating_sub(window.secs()));
        let overview =
            self.ask(LogStatistics { from, limit: Some(RANKED), ..LogStatistics::default() }).ok();
        let series = self.ask(LogSeries { from, ..LogSeries::default() }).ok();
        let mut reports = self.reports();
        if reports.window == window {
            (reports.overview, reports.series) = (overview, series);
        }
    }

    /// Asks for the latest queries in the log.
    pub(crate) fn ask_latest(&self) {
        let filter = LogFilter::default();
        match self.ask(LogSearch { filter, limit: Some(FIRST), cursor: None }) {
            Ok(page) => page.queries.into_iter().rev().for_each(|entry| self.reports().add(entry)),
            Err(error) => self.reports().log_trouble = Some(error.to_string()),
        }
    }

    /// Receives queries until the server closes the connection.
    fn receive(&self) -> Result<(), CommandError> {
        exchange::<LogTail>(&self.directory, LogTail::default(), |_, reply| {
            let mut reports = self.reports();
            reports.log_trouble = None;
            match reply {
                ReplyLine::Part(LogLine::Query(entry)) => reports.add((**entry).clone()),
                ReplyLine::Part(LogLine::Skipped(count)) => reports.skipped += count,
                ReplyLine::Part(LogLine::Waiting {}) | ReplyLine::End(_) => {}
            }
            Ok(Reader::Reads)
        })
        .map(|_| ())
    }

    fn ask<C: Call>(&self, request: C) -> Result<C::Reply, CommandError> {
        exchange::<C>(&self.directory, request, |_, _| Ok(Reader::Reads))?
            .ok_or(CommandError::Incomplete)
    }
}
