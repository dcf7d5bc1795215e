//! Searches in the files of the query log, for clients of the running server.
//!
//! Each search runs on its own thread, with a low share of the cores, and uses only files. Neither
//! a worker nor a thread of the log waits for a search. Few searches run at once, and each ends
//! after some seconds with the results so far. A search ends after its current slice if its client
//! has disconnected, so that it does not delay others.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use avocet_control::lists::AtWork;
use avocet_control::log_fault::LogFault;
use avocet_control::{ControlError, Disconnected, Parts};
use avocet_io::process::Thread;
use avocet_querylog::{Broken, Count, Filter, LogError, LogReader, Page, PartCounts, SearchExtent};

use crate::turns::{Turn, Turns};

/// Maximum number of searches at once: each may hold a decoded part of a row group, some dozens of
/// MiB.
const MAX_SEARCHES: usize = 2;
/// Maximum wait of a search for its turn.
const TURN_PATIENCE: Duration = Duration::from_secs(2);
/// Time after which a search ends with the results so far.
const SEARCH_TIME: Duration = Duration::from_secs(3);
/// Time after which callers stop waiting for a search that does not end, such as on a busy machine
/// or a slow disk.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Interval at which the client of a search learns that the search is still at work, which fails if
/// the client has disconnected.
const REPORT: Duration = Duration::from_millis(100);
/// Number of rows that are examined between two checks of the clock and of the client.
const SLICE_ROWS: u64 = 1 << 18;
/// Time after which an unused reader closes its files.
const IDLE: Duration = Duration::from_secs(30);
/// The error after a panic.
const FAULT: &str = "a panic interrupted the search, see the log";

/// The searches.
pub(crate) struct Searches {
    turns: Arc<Turns>,
    shared: Arc<SearchState>,
}

#[derive(Default)]
struct SearchState {
    /// Readers that are kept for the next search, with their directory and last use.
    readers: Mutex<Vec<IdleReader>>,
    /// Searches since the start.
    done: AtomicU64,
    /// Searches that were refused because too many were running, or that did not end.
    refused: AtomicU64,
    /// Searches whose clients disconnected.
    abandoned: AtomicU64,
    /// The total time of all searches in microseconds.
    micros: AtomicU64,
}

struct IdleReader {
    directory: PathBuf,
    reader: LogReader,
    used: Instant,
}

impl Default for Searches {
    fn default() -> Self {
        Self { turns: Arc::new(Turns::new(MAX_SEARCHES)), shared: Arc::default() }
    }
}

/// Counts of searches, for the metrics.
pub(crate) struct SearchCounts {
    /// Searches since the start.
    pub(crate) done: u64,
    /// Searches that got no turn, or did not end.
    pub(crate) refused: u64,
    /// Searches whose clients disconnected.
    pub(crate) abandoned: u64,
    /// Time of all searches.
    pub(crate) time: Duration,
}

/// The end of a search: its time is over, or its client has disconnected.
struct SearchEnd {
    at: Instant,
    is_abandoned: Arc<AtomicBool>,
}

impl SearchEnd {
    fn is_reached(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed) || Instant::now() >= self.at
    }
}

/// The searches of one client.
pub(crate) struct ClientSearches<'c> {
    searches: &'c Searches,
    waiting: Parts<'c, AtWork>,
}

impl Searches {
    /// Returns the searches of a client. `waiting` is called while a search is at work, and fails
    /// if the client has disconnected.
    pub(crate) fn by<'c>(&'c self, waiting: Parts<'c, AtWork>) -> ClientSearches<'c> {
        ClientSearches { searches: self, waiting }
    }

    /// Closes the files of readers that were not used for a while, because an open file that was
    /// deleted still takes disk space.
    pub(crate) fn forget_idle(&self, now: Instant) {
        self.shared.lock().retain(|idle| now.duration_since(idle.used) < IDLE);
    }

    /// Closes the files of all readers that are idle.
    pub(crate) fn forget_all(&self) {
        self.shared.lock().clear();
    }

    /// Returns the counts since the start.
    pub(crate) fn counts(&self) -> SearchCounts {
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SearchCounts {
            done: value(&self.shared.done),
            refused: value(&self.shared.refused),
            abandoned: value(&self.shared.abandoned),
            time: Duration::from_micros(value(&self.shared.micros)),
        }
    }
}

impl ClientSearches<'_> {
    /// Returns the latest entries of a log before an id that a filter selects.
    ///
    /// # Errors
    /// The directory cannot be read, there are too many searches, the search does not end, or the
    /// client has disconnected.
    pub(crate) fn page(
        &mut self,
        directory: PathBuf,
        filter: Filter,
        before_id: u64,
        entries: usize,
    ) -> Result<Page, ControlError> {
        let extent = SearchExtent { before_id, entries, max_rows: SLICE_ROWS };
        self.run(directory, move |reader, end| page(reader, &filter, extent, end))
    }

    /// Returns the number of entries before an id.
    ///
    /// # Errors
    /// As for [`page`](Self::page).
    pub(crate) fn count(
        &mut self,
        directory: PathBuf,
        filter: Filter,
        before_id: u64,
    ) -> Result<Count, ControlError> {
        let extent = SearchExtent { before_id, entries: 0, max_rows: SLICE_ROWS };
        self.run(directory, move |reader, end| count(reader, &filter, extent, end))
    }

    /// Returns the counts of the entries that a filter selects, as far as the search gets within
    /// its time.
    ///
    /// # Errors
    /// As for [`page`](Self::page).
    pub(crate) fn part(
        &mut self,
        directory: PathBuf,
        filter: Filter,
    ) -> Result<PartCounts, ControlError> {
        self.run(directory, move |reader, end| {
            PartCounts::of(reader, &filter, || match end.is_reached() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        })
    }

    fn run<T: Send + 'static>(
        &mut self,
        directory: PathBuf,
        work: impl FnOnce(&LogReader, &SearchEnd) -> T + Send + 'static,
    ) -> Result<T, ControlError> {
        let turn = self.turn()?;
        let shared = self.searches.shared.clone();
        let began = Instant::now();
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let end = SearchEnd { at: began + SEARCH_TIME, is_abandoned: is_abandoned.clone() };
        let (sender, result) = channel();
        let search = move || {
            // If this fails, the search competes with the workers for its few seconds.
            let _ = Thread::current().lower_share();
            let found = shared.take_reader(&directory).map(|reader| {
                let found = work(&reader, &end);
                shared.keep(IdleReader { directory, reader, used: Instant::now() });
                found
            });
            shared.done.fetch_add(1, Ordering::Relaxed);
            shared.micros.fetch_add(began.elapsed().as_micros() as u64, Ordering::Relaxed);
            // The turn ends before the result is sent, so that the next request of the same client
            // gets a turn.
            drop(turn);
            // The caller may have stopped waiting.
            let _ = sender.send(found);
        };
        let spawned = thread::Builder::new().name("log-search".to_owned()).spawn(search);
        spawned.map_err(|error| ControlError::QueryLog(error.to_string()))?;
        let found = loop {
            match result.recv_timeout(REPORT) {
                Ok(found) => {
                    break found.map_err(|error| ControlError::QueryLog(error.to_string()));
                }
                Err(RecvTimeoutError::Disconnected) => break Err(ControlError::Interrupted(FAULT)),
                Err(RecvTimeoutError::Timeout) if began.elapsed() >= GIVE_UP => {
                    break Err(self.refuse(LogFault::Timeout));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(gone) = self.report() {
                        break Err(gone);
                    }
                }
            }
        };
        is_abandoned.store(true, Ordering::Relaxed);
        found
    }

    /// Waits for a turn.
    fn turn(&mut self) -> Result<Turn, ControlError> {
        let began = Instant::now();
        loop {
            let left = TURN_PATIENCE.saturating_sub(began.elapsed());
            match self.searches.turns.take(left.min(REPORT)) {
                Some(turn) => return Ok(turn),
                None if left.is_zero() => return Err(self.refuse(LogFault::Busy)),
                None => self.report()?,
            }
        }
    }

    /// Tells the client that its search is at work.
    ///
    /// # Errors
    /// The client has disconnected.
    fn report(&mut self) -> Result<(), ControlError> {
        (self.waiting)(AtWork { waiting: true }).map_err(|gone: Disconnected| {
            self.searches.shared.abandoned.fetch_add(1, Ordering::Relaxed);
            gone.into()
        })
    }

    fn refuse(&self, fault: LogFault) -> ControlError {
        self.searches.shared.refused.fetch_add(1, Ordering::Relaxed);
        fault.into()
    }
}

impl SearchState {
    /// Returns a reader of the files as they are now.
    fn take_reader(&self, directory: &Path) -> Result<LogReader, LogError> {
        let known = {
            let mut readers = self.lock();
            let place = readers.iter().position(|idle| idle.directory == directory);
            place.map(|place| readers.swap_remove(place).reader)
        };
        match known {
            Some(mut reader) => reader.refresh().map(|()| reader),
            None => LogReader::open(directory.to_owned()),
        }
    }

    fn keep(&self, reader: IdleReader) {
        let mut readers = self.lock();
        if readers.len() < MAX_SEARCHES {
            readers.push(reader);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IdleReader>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Searches in slices of `max_rows` until the page is full, the log ends, or the end of the search
/// is reached.
fn page(reader: &LogReader, filter: &Filter, extent: SearchExtent, end: &SearchEnd) -> Page {
    let mut page = Page { next_before_id: Some(extent.before_id), ..Page::default() };
    while let Some(before_id) = page.next_before_id {
        let entries = extent.entries - page.entries.len();
        let slice = reader.search(filter, SearchExtent { before_id, entries, ..extent });
        page.entries.extend(slice.entries);
        page.next_before_id = slice.next_before_id;
        page.examined += slice.examined;
        add_broken(&mut page.broken, slice.broken);
        if page.entries.len() >= extent.entries || end.is_reached() {
            break;
        }
    }
    page
}

/// Counts in slices of `max_rows` until the log ends or the end of the search is reached.
fn count(reader: &LogReader, filter: &Filter, extent: SearchExtent, end: &SearchEnd) -> Count {
    let mut count = Count { next_before_id: Some(extent.before_id), ..Count::default() };
    while let Some(before_id) = count.next_before_id {
        let slice = reader.count(filter, SearchExtent { before_id, ..extent });
        count.entries += slice.entries;
        count.next_before_id = slice.next_before_id;
        count.examined += slice.examined;
        add_broken(&mut count.broken, slice.broken);
        if end.is_reached() {
            break;
        }
    }
    count
}

fn add_broken(all: &mut Vec<Broken>, more: Vec<Broken>) {
    for broken in more {
        if !all.contains(&broken) {
            all.push(broken);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use avocet_querylog::{Entry, Facts, Label, Labels, Writer, WriterOptions};

    use super::*;

    /// Maximum number of entries of a test.
    const ENTRIES: u64 = 20;

    struct NoTexts;

    impl Labels for NoTexts {
        fn texts(&self, _: u32, _: Label, _: u16, _: &mut dyn FnMut(&str)) {}
    }

    /// A log in which each entry has its own block.
    struct Log(PathBuf);

    impl Log {
        fn create(name: &str) -> Self {
            let name = format!("avocet-searches-{}-{name}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            let options = WriterOptions {
                directory: directory.clone(),
                head_entries: 1 << 18,
                head_secs: 3600,
                pseudonym_key: [0; 16],
            };
            let mut writer = Writer::open(options, 0).unwrap();
            for number in 0..ENTRIES {
                let time_us = number * 1_000_000;
                let entry = Entry { facts: facts(time_us), qname: b"\0", lists: &[], answer: b"" };
                writer.add(&entry, &NoTexts, time_us).unwrap();
                writer.tick(time_us).unwrap();
            }
            writer.close(ENTRIES * 1_000_000).unwrap();
            Self(directory)
        }
    }

    impl Drop for Log {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn facts(time_us: u64) -> Facts {
        Facts { revision: 1, ..Facts::of(time_us, [192, 0, 2, 1].into()) }
    }

    fn end_at(at: Instant) -> SearchEnd {
        SearchEnd { at, is_abandoned: Arc::default() }
    }

    #[test]
    fn work_that_exceeds_its_time_goes_on_at_the_cursor() {
        let log = Log::create("slices");
        let reader = LogReader::open(log.0.clone()).unwrap();
        let filter = Filter { time_us: 1_000_000..u64::MAX, ..Filter::default() };
        let over = end_at(Instant::now());
        let (mut found, mut counted, mut pages) = (Vec::new(), 0, 0);
        let mut extent = SearchExtent { before_id: u64::MAX, entries: 100, max_rows: 1 };
        loop {
            let slice = page(&reader, &filter, extent, &over);
            found.extend(slice.entries.iter().map(|entry| entry.id));
            pages += 1;
            let Some(next) = slice.next_before_id else { break };
            extent.before_id = next;
        }
        assert_eq!(found, (1..ENTRIES).rev().collect::<Vec<_>>());
        assert!(pages >= ENTRIES - 1, "{pages} pages");
        extent.before_id = u64::MAX;
        loop {
            let slice = count(&reader, &filter, extent, &over);
            counted += slice.entries;
            let Some(next) = slice.next_before_id else { break };
            extent.before_id = next;
        }
        assert_eq!(counted, ENTRIES - 1);
        // With enough time, one call examines all entries.
        let later = end_at(Instant::now() + Duration::from_secs(3600));
        extent.before_id = u64::MAX;
        let whole = page(&reader, &filter, extent, &later);
        assert_eq!((whole.entries.len() as u64, whole.next_before_id), (ENTRIES - 1, None));
    }

    #[test]
    fn searches_have_few_places_and_leave_them_also_after_a_panic() {
        let (log, searches) = (Log::create("places"), Searches::default());
        let mut stays = |_| Ok(());
        let mut client = searches.by(&mut stays);
        for _ in 0..MAX_SEARCHES + 1 {
            // The panic has no backtrace, which would take seconds of the time of a search on a
            // loaded machine.
            let defect = || std::panic::resume_unwind(Box::new("a defect"));
            let panicked = client.run(log.0.clone(), move |_, _| defect());
            assert_eq!(panicked, Err::<(), _>(ControlError::Interrupted(FAULT)));
        }
        let held: Vec<_> =
            (0..MAX_SEARCHES).map(|_| searches.turns.take(Duration::ZERO).unwrap()).collect();
        let refused = client.count(log.0.clone(), Filter::default(), u64::MAX);
        assert_eq!(refused, Err(ControlError::Log(LogFault::Busy)));
        drop(held);
        let count = client.count(log.0.clone(), Filter::default(), u64::MAX).unwrap();
        assert_eq!(count.entries, ENTRIES);
        assert_eq!(searches.counts().refused, 1);
        let missing = client.count(log.0.join("missing"), Filter::default(), u64::MAX);
        assert!(matches!(missing, Err(ControlError::QueryLog(_))), "{missing:?}");
    }

    #[test]
    fn a_search_ends_when_its_client_disconnects() {
        let (log, searches) = (Log::create("abandoned"), Searches::default());
        let (sender, ended) = channel();
        let mut is_gone = |_| Err(Disconnected);
        let found = searches.by(&mut is_gone).run(log.0.clone(), move |_, end| {
            while !end.is_abandoned.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            sender.send(end.is_reached()).unwrap();
        });
        assert_eq!(found, Err(ControlError::Disconnected));
        assert_eq!(ended.recv(), Ok(true));
        assert_eq!(searches.counts().abandoned, 1);
    }

    #[test]
    fn a_client_that_disconnects_stops_waiting_for_its_turn() {
        let (log, searches) = (Log::create("queue"), Searches::default());
        let _held: Vec<_> =
            (0..MAX_SEARCHES).map(|_| searches.turns.take(Duration::ZERO).unwrap()).collect();
        let mut is_gone = |_| Err(Disconnected);
        let found = searches.by(&mut is_gone).count(log.0.clone(), Filter::default(), u64::MAX);
        assert_eq!(found, Err(ControlError::Disconnected));
        let counts = searches.counts();
        assert_eq!((counts.abandoned, counts.refused), (1, 0));
    }
}
