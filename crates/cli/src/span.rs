//! Spans of time in words.

use avocet_nameserver::clock::wall_secs;

/// Returns the time from now until a Unix second, in its two largest units.
pub(crate) fn left(until: u64) -> String {
    span(until.saturating_sub(wall_secs()))
}

/// Returns the time since a Unix second.
pub(crate) fn ago(since: Option<u64>) -> String {
    match since {
        Some(since) => format!("{} ago", span(wall_secs().saturating_sub(since))),
        None => "never".to_owned(),
    }
}

/// Returns a number of seconds in its two largest units.
pub(crate) fn span(secs: u64) -> String {
    match secs {
        0..60 => format!("{secs} s"),
        60..3_600 => format!("{} min", secs / 60),
        3_600..86_400 => format!("{} h {} min", secs / 3_600, secs / 60 % 60),
        _ => format!("{} d {} h", secs / 86_400, secs / 3_600 % 24),
    }
}
