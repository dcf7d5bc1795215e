//! Answers the control requests about the query log.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use avocet_control::clients::{LogClients, LoggedClients};
use avocet_control::limits::UserLimits;
use avocet_control::lists::AtWork;
use avocet_control::log::{
    LogCount, LogCounted, LogEntry, LogFilter, LogFound, LogLine, LogPage, LogPrune, LogPruned,
    LogSearch, LogShow, LogTail,
};
use avocet_control::log_fault::LogFault;
use avocet_control::statistics::{LogOverview, LogSeries, LogStatistics, LogSteps};
use avocet_control::{ControlError, Parts};
use avocet_nameserver::clock::wall_secs;
use avocet_querylog::{Filter, LogError, PartCounts, Rollups};

use super::PATIENCE;
use crate::query_log::filter::{EntryFilter, is_within, stored_filter, within};
use crate::query_log::overview::{self, Span};
use crate::query_log::stored::{damaged, stored};
use crate::query_log::{PruneOrder, WriterOrder, WrittenLog};
use crate::running::Running;

/// Maximum time between two lines to a client that follows the log.
const SILENCE: Duration = Duration::from_secs(10);
/// Maximum number of queries of a page.
const MAX_PAGE: u64 = 1_000;
/// Default number of queries of a page.
const USUAL_PAGE: u64 = 100;
/// Wait between two attempts to open the files of the log, and the maximum number of attempts. Used
/// right after a start or a reload that turns the log on.
const OPENING: Duration = Duration::from_millis(50);
const OPENING_LOOKS: usize = 40;
/// Maximum number of entries in a ranking.
const MAX_TEXTS: u64 = 100;
/// Default number of entries in a ranking.
const USUAL_TEXTS: u64 = 10;

/// Reports each new query until the client disconnects.
pub(super) fn tail(
    running: &Running,
    request: LogTail,
    lines: Parts<'_, LogLine>,
) -> Result<LogFound, ControlError> {
    let filter = EntryFilter::read(request.filter)?;
    if !running.shared.snapshot().is_logging {
        return Err(ControlError::NoQueryLog);
    }
    let mut entries = 0;
    let following = running.query_log.followers.follow().ok_or(ControlError::Busy)?;
    // Sent at once, so that the client knows that the stream has begun.
    lines(LogLine::Waiting {})?;
    while !running.draining.load(Ordering::Relaxed) {
        match following.take(SILENCE) {
            Ok(batch) => {
                for entry in batch.iter().filter(|entry| filter.takes(entry)) {
                    entries += 1;
                    lines(LogLine::Query(filter.trimmed(entry)))?;
                }
            }
            Err(RecvTimeoutError::Timeout) => lines(LogLine::Waiting {})?,
            Err(RecvTimeoutError::Disconnected) => return Err(ControlError::ShuttingDown),
        }
        match following.take_skipped() {
            0 => {}
            count => lines(LogLine::Skipped(count))?,
        }
    }
    Ok(LogFound { entries })
}

/// Returns a page of queries in the files.
pub(super) fn search(
    running: &Running,
    request: &LogSearch,
    waiting: Parts<'_, AtWork>,
) -> Result<LogPage, ControlError> {
    let filter = stored_filter(&request.filter)?;
    let entries = match request.limit.unwrap_or(USUAL_PAGE) {
        limit @ 1..=MAX_PAGE => limit as usize,
        _ => return Err(LogFault::OutOfBounds("a limit from 1 to 1000").into()),
    };
    let within = |mut entry: LogEntry| {
        request.filter.within.iter().for_each(|limits| limits.trim_entry(&mut entry));
        entry
    };
    let before_id = position(request.cursor.as_deref())?;
    let mut searches = running.query_log.searches.by(waiting);
    let page = searches.page(directory(running)?, filter, before_id, entries)?;
    // The number of examined queries would reveal whether other users' queries have a name or an
    // address, because the search skips row groups without it.
    let examined = match request.filter.within {
        Some(_) => page.entries.len() as u64,
        None => page.examined,
    };
    Ok(LogPage {
        queries: page.entries.iter().map(|entry| within(stored(entry))).collect(),
        next: page.next_before_id.map(cursor),
        examined,
        damaged: damaged(page.broken),
    })
}

/// Returns the number of queries in the files.
pub(super) fn count(
    running: &Running,
    request: &LogCount,
    waiting: Parts<'_, AtWork>,
) -> Result<LogCounted, ControlError> {
    let filter = stored_filter(&request.filter)?;
    let before_id = position(request.cursor.as_deref())?;
    let mut searches = running.query_log.searches.by(waiting);
    let count = searches.count(directory(running)?, filter, before_id)?;
    Ok(LogCounted {
        queries: count.entries,
        next: count.next_before_id.map(cursor),
        damaged: damaged(count.broken),
    })
}

/// Returns one query.
pub(super) fn show(running: &Running, request: LogShow) -> Result<LogEntry, ControlError> {
    let LogShow { id, within } = request;
    let unknown = || ControlError::Log(LogFault::UnknownEntry(id));
    let before_id = id.checked_add(1).ok_or_else(unknown)?;
    let all = Filter::default();
    let mut stays = |_| Ok(());
    let mut searches = running.query_log.searches.by(&mut stays);
    let page = searches.page(directory(running)?, all, before_id, 1)?;
    let found = page.entries.iter().find(|entry| entry.id == id);
    let mut entry = found.map(stored).ok_or_else(unknown)?;
    if let Some(limits) = within {
        if !is_within(&limits, &entry) {
            return Err(unknown());
        }
        limits.trim_entry(&mut entry);
    }
    Ok(entry)
}

/// Returns the counts and rankings of a period.
pub(super) fn statistics(
    running: &Running,
    request: &LogStatistics,
) -> Result<LogOverview, ControlError> {
    let span = Span::of(request.from, request.to, wall_secs())?;
    let texts = match request.limit.unwrap_or(USUAL_TEXTS) {
        limit @ 1..=MAX_TEXTS => limit as usize,
        _ => return Err(LogFault::OutOfBounds("a limit from 1 to 100").into()),
    };
    if let Some(limits) = &request.within {
        let part = part(running, limits, span.minutes_us())?;
        return Ok(overview::overview_of_part(&part, &span, texts));
    }
    let rates = running.query_log.rates.report();
    Ok(overview::overview(&rollups(running)?, &span, texts, rates))
}

/// Returns the counts of a period, in steps.
pub(super) fn series(running: &Running, request: &LogSeries) -> Result<LogSteps, ControlError> {
    let span = Span::of(request.from, request.to, wall_secs())?;
    if request.step == Some(0) {
        return Err(LogFault::OutOfBounds("a step from 1 second").into());
    }
    if let Some(limits) = &request.within {
        let part = part(running, limits, span.minutes_us())?;
        return Ok(overview::series_of_part(&part, &span, request.step));
    }
    Ok(overview::series(&rollups(running)?, &span, request.step))
}

/// Returns the clients of the log, with the times of their first and latest queries.
pub(super) fn clients(
    running: &Running,
    request: &LogClients,
) -> Result<LoggedClients, ControlError> {
    let Some(limits) = &request.within else {
        return overview::clients(&rollups(running)?, request);
    };
    overview::clients(&part(running, limits, 0..u64::MAX)?.rollups, request)
}

/// Deletes queries. The thread of the log completes its file, the upkeep replaces the files, and
/// the thread of the log changes the roll-ups.
pub(super) fn prune(
    running: &Running,
    request: &LogPrune,
    waiting: Parts<'_, AtWork>,
) -> Result<LogPruned, ControlError> {
    let has_filter = request.filter != LogFilter::default();
    if has_filter == request.all {
        return Err(LogFault::UnclearDeletion.into());
    }
    let filter = stored_filter(&request.filter)?;
    let log = &running.query_log;
    match written(running) {
        Err(ControlError::NoQueryLog) => return prune_unwritten(running, &filter),
        written => written?,
    };
    let (reply, done) = channel();
    log.order_writer(WriterOrder::Cut(reply));
    let before_id = wait(running, &done, waiting)?;
    let (reply, done) = channel();
    log.order_upkeep(PruneOrder { filter: filter.clone(), before_id, reply });
    let pruned = wait(running, &done, waiting)?;
    // Searches keep deleted files open, and would still find the pruned queries in them.
    log.searches.forget_all();
    let (reply, done) = channel();
    log.order_writer(WriterOrder::Forget(filter, reply));
    wait(running, &done, waiting)?;
    Ok(LogPruned { queries: pruned.entries, damaged: damaged(pruned.broken) })
}

/// Deletes queries of a log that the settings turned off, so that no entries are added.
fn prune_unwritten(running: &Running, filter: &Filter) -> Result<LogPruned, ControlError> {
    let directory = directory(running)?;
    let failed = |error: LogError| ControlError::QueryLog(error.to_string());
    let pruned = avocet_querylog::prune(&directory, filter, || ()).map_err(failed)?;
    running.query_log.searches.forget_all();
    Ok(LogPruned { queries: pruned.entries, damaged: damaged(pruned.broken) })
}

/// Waits for a thread of the log, and reports every few seconds that the work continues.
fn wait<T>(
    running: &Running,
    done: &Receiver<Result<T, LogError>>,
    waiting: Parts<'_, AtWork>,
) -> Result<T, ControlError> {
    loop {
        match done.recv_timeout(PATIENCE) {
            Ok(done) => return done.map_err(|error| ControlError::QueryLog(error.to_string())),
            Err(RecvTimeoutError::Disconnected) => return Err(no_log(running)),
            Err(RecvTimeoutError::Timeout) if running.draining.load(Ordering::Relaxed) => {
                return Err(ControlError::ShuttingDown);
            }
            Err(RecvTimeoutError::Timeout) => waiting(AtWork { waiting: true })?,
        }
    }
}

/// Counts the queries of a period that a user with limits may see. They are counted in the files,
/// because roll-ups count all clients together.
fn part(
    running: &Running,
    limits: &UserLimits,
    time_us: Range<u64>,
) -> Result<PartCounts, ControlError> {
    let filter = Filter { time_us, conditions: vec![within(limits)?] };
    let mut stays = |_| Ok(());
    running.query_log.searches.by(&mut stays).part(directory(running)?, filter)
}

/// Returns a copy of the roll-ups, which shares their memory.
fn rollups(running: &Running) -> Result<Rollups, ControlError> {
    let written = written(running)?;
    let rollups = written.rollups.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(rollups.clone())
}

/// Returns the log that is being written. Waits a moment for its thread to open the files.
fn written(running: &Running) -> Result<WrittenLog, ControlError> {
    let log = &running.query_log;
    for _ in 0..OPENING_LOOKS {
        if let Some(written) = log.written() {
            return Ok(written);
        }
        if !running.shared.snapshot().config.query_log.enabled {
            break;
        }
        if !log.wait(OPENING) {
            return Err(ControlError::ShuttingDown);
        }
    }
    Err(no_log(running))
}

/// Returns the directory of the log. The directory may have files although no query is logged.
pub(super) fn directory(running: &Running) -> Result<PathBuf, ControlError> {
    let config = &running.shared.snapshot().config;
    let directory = config.query_log.directory_in(&config.data.directory);
    if directory.is_dir() { Ok(directory) } else { Err(no_log(running)) }
}

/// Returns the reason why there is no log.
fn no_log(running: &Running) -> ControlError {
    match running.shared.snapshot().config.query_log.enabled {
        true => {
            ControlError::QueryLog("its files cannot be opened, see `avocet status`".to_owned())
        }
        false => ControlError::NoQueryLog,
    }
}

/// Returns the cursor of a position.
fn cursor(before_id: u64) -> String {
    format!("{before_id:x}")
}

/// Returns the position of a cursor.
fn position(cursor: Option<&str>) -> Result<u64, ControlError> {
    let Some(cursor) = cursor else { return Ok(u64::MAX) };
    let is_plain = cursor.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let position = u64::from_str_radix(cursor, 16).ok();
    position.filter(|_| is_plain).ok_or(ControlError::Log(LogFault::InvalidCursor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_that_of_a_page_or_an_error() {
        assert_eq!(position(None), Ok(u64::MAX));
        for id in [0, 1, 17, u64::MAX] {
            assert_eq!(position(Some(&cursor(id))), Ok(id));
        }
        for text in ["", "x", "-1", "+1", " 1", "1 ", "0x1", "1F", "10000000000000000", "\u{661}"] {
            let refused = ControlError::Log(LogFault::InvalidCursor);
            assert_eq!(position(Some(text)), Err(refused), "{text:?}");
        }
    }
}
