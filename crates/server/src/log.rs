//! The log of the server: lines on standard error, as text or JSON. No thread waits for the reader:
//! see [`queue`].

mod queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::panic;
use std::sync::OnceLock;
use std::time::Duration;

use avocet_config::{LogConfig, LogFormat, LogLevel};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

use queue::{LineQueue, TextLines};

/// The time that the process waits at its end until the last lines are read.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The queue of lines; set once, by [`start`].
static LINES: OnceLock<LineQueue> = OnceLock::new();
/// The handle to change the level; set once, by [`start`].
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Starts the log, which includes panics. Only the first call has an effect.
///
/// # Errors
///
/// The system cannot start a thread.
pub(crate) fn start(config: &LogConfig) -> io::Result<()> {
    let (level, handle) = reload::Layer::new(filter(config.level));
    if LEVEL.set(handle).is_err() {
        return Ok(());
    }
    let queue = LINES.get_or_init(LineQueue::default);
    queue.start(io::stderr())?;
    let lines = fmt::layer().with_target(false);
    let registry = tracing_subscriber::registry().with(level);
    let started = match config.format {
        LogFormat::Text => {
            let lines = lines.with_writer(TextLines(queue.clone())).with_ansi(false);
            registry.with(lines).try_init()
        }
        LogFormat::Json => {
            let lines = lines.with_writer(queue.clone());
            registry.with(lines.json().flatten_event(true)).try_init()
        }
    };
    debug_assert!(started.is_ok(), "nothing else takes the lines");
    // The default hook writes to standard error directly, so the panicking thread would wait for
    // the reader.
    panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        let trace = if trace.status() == BacktraceStatus::Captured {
            trace.to_string()
        } else {
            String::new()
        };
        tracing::error!("{panic}");
        trace.lines().for_each(|line| tracing::error!("{line}"));
    }));
    Ok(())
}

/// Writes a line after all lines of the log, and waits for at most a second until all lines are
/// written.
pub fn write_last_line(line: &str) {
    match LINES.get() {
        Some(queue) => {
            queue.push(format!("{line}\n").as_bytes());
            queue.drain(LAST_LINES);
        }
        // The process is about to end, so an error cannot be reported.
        None => drop(writeln!(io::stderr(), "{line}")),
    }
}

/// Waits until all lines are written, for at most a second.
pub fn drain() {
    if let Some(queue) = LINES.get() {
        queue.drain(LAST_LINES);
    }
}

/// Returns the number of lines that were lost because they were not read.
pub(crate) fn lines_lost() -> u64 {
    LINES.get().map_or(0, LineQueue::lost)
}

/// Changes the level of the written lines.
pub(crate) fn set_level(level: LogLevel) {
    if let Some(handle) = LEVEL.get() {
        // The call fails only without a subscriber, and the subscriber exists until the process
        // ends.
        let _ = handle.modify(|filter| *filter = self::filter(level));
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
