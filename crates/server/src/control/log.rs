//! Answers the requests about the query log.

use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use avocet_control::log::{LogFound, LogLine, LogTail};
use avocet_control::{ControlError, Parts};

use crate::query_log::filter::EntryFilter;
use crate::running::Running;

/// Longest time without a line for a client that follows the log.
const SILENCE: Duration = Duration::from_secs(10);

/// Reports each new query until the client is gone.
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
    while !running.draining.load(Ordering::Relaxed) {
        match following.queue.recv_timeout(SILENCE) {
            Ok(entry) if filter.takes(&entry) => {
                entries += 1;
                lines(LogLine::Query(Box::new(entry.as_ref().clone())))?;
            }
            Ok(_) => {}
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
