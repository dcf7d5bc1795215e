//! Counts of requests and log-ins, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// The classes of responses, as labels of metrics.
pub const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];
/// The results of log-ins, as labels of metrics.
pub const LOG_INS: [&str; 3] = ["accepted", "refused", "throttled"];

/// Counts since the start of the server.
#[derive(Debug, Default)]
pub struct WebCounts {
    responses: [AtomicU64; CLASSES.len()],
    log_ins: [AtomicU64; LOG_INS.len()],
}

impl WebCounts {
    /// Counts a response.
    pub(crate) fn responded(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100);
        if let Some(count) = class.checked_sub(2).and_then(|place| self.responses.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a log-in by its result code.
    pub(crate) fn logged_in(&self, code: &str) {
        let place = match code {
            "ok" => 0,
            "unauthenticated" => 1,
            "throttled" => 2,
            // The request was malformed, or the second step of the log-in follows.
            _ => return,
        };
        self.log_ins[place].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of responses of each of [`CLASSES`].
    pub fn responses(&self) -> [u64; CLASSES.len()] {
        self.responses.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns the number of log-ins of each of [`LOG_INS`].
    pub fn log_ins(&self) -> [u64; LOG_INS.len()] {
        self.log_ins.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}
