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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_their_two_largest_units() {
        let spans = [0, 59, 60, 2_700, 3_600, 86_399, 86_400, 172_800, 180_000].map(span);
        let words = [
            "0 s",
            "59 s",
            "1 min",
            "45 min",
            "1 h 0 min",
            "23 h 59 min",
            "1 d 0 h",
            "2 d 0 h",
            "2 d 2 h",
        ];
        assert_eq!(spans, words);
    }
}
