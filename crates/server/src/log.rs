//! What the server writes about itself: lines on standard error, as text or JSON.

use std::io;
use std::sync::OnceLock;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

use crate::config::{LogConfig, LogFormat, LogLevel};

/// Changes the level of the lines that are written; set once, by [`start`].
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Begins to write lines. Only the first call has an effect.
pub(crate) fn start(config: &LogConfig) {
    let (level, handle) = reload::Layer::new(filter(config.level));
    if LEVEL.set(handle).is_err() {
        return;
    }
    let lines = fmt::layer().with_writer(io::stderr).with_target(false);
    let registry = tracing_subscriber::registry().with(level);
    let started = match config.format {
        LogFormat::Text => registry.with(lines.with_ansi(false)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    debug_assert!(started.is_ok(), "nothing else takes the lines");
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
