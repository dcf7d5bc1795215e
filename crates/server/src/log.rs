//! What the server writes about itself: lines on standard error, as text or JSON. No thread waits
//! for whoever reads them: see [`queue`].

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

use queue::LineQueue;

/// How long the end of the process waits for its last lines to be read.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The lines that wait to be written; set once, by [`start`].
static LINES: OnceLock<LineQueue> = OnceLock::new();
/// Changes the level of the lines that are written; set once, by [`start`].
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Begins to write lines, those of panics included. Only the first call has an effect.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn start(config: &LogConfig) -> io::Result<()> {
    let (level, handle) = reload::Layer::new(filter(config.level));
    if LEVEL.set(handle).is_err() {
        return Ok(());
    }
    let queue = LINES.get_or_init(LineQueue::default);
    queue.start(io::stderr())?;
    let lines = fmt::layer().with_writer(queue.clone()).with_target(false);
    let registry = tracing_subscriber::registry().with(level);
    let started = match config.format {
        LogFormat::Text => registry.with(lines.with_ansi(false)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    debug_assert!(started.is_ok(), "nothing else takes the lines");
    // The default hook writes to standard error itself, and would wait for a reader in the thread
    // that panics.
    panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        let trace = if trace.status() == BacktraceStatus::Captured {
            trace.to_string()
        } else {
            String::new()
        };
        tracing::error!("{panic}{}{trace}", if trace.is_empty() { "" } else { "\n" });
    }));
    Ok(())
}

/// Writes a line, behind those of the log if there is one, and waits a second at most until all are
/// written.
pub fn write_last_line(line: &str) {
    match LINES.get() {
        Some(queue) => {
            queue.push(format!("{line}\n").as_bytes());
            queue.drain(LAST_LINES);
        }
        // The end of the process is near; there is nobody to tell.
        None => drop(writeln!(io::stderr(), "{line}")),
    }
}

/// Waits until all lines are written, for a second at most.
pub fn drain() {
    if let Some(queue) = LINES.get() {
        queue.drain(LAST_LINES);
    }
}

/// Lines that were lost as nobody read them.
pub(crate) fn lines_lost() -> u64 {
    LINES.get().map_or(0, LineQueue::lost)
}

/// Changes which lines are written.
pub(crate) fn set_level(level: LogLevel) {
    if let Some(handle) = LEVEL.get() {
        // It fails only after the end of the subscriber, which lives as long as the process.
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
