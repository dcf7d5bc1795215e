//! The state of a list's source: the time of the next attempt, the last results, and whether a text
//! is accepted.

use avocet_policy::list::Report;
use serde::{Deserialize, Serialize};

use super::fetch::FetchError;
use super::zone::UnusablePrimaries;

/// A text is held back if it has fewer entries than the previous number divided by this value, and
/// has also lost more than [`SHRINK_ENTRIES`].
const SHRINK_PART: u64 = 2;
/// The number of entries that a text may lose without being held back.
const SHRINK_ENTRIES: u64 = 1_000;
/// Seconds until the next attempt after a failure. The number doubles with each further failure.
const FIRST_RETRY_SECS: u64 = 60;
/// Seconds to the next attempt if the name of the source's server was not resolved: this server may
/// have just started.
const FIRST_RESOLVE_RETRY_SECS: u64 = 5;
/// Maximum number of seconds to the next attempt.
const MAX_RETRY_SECS: u64 = 3_600;
/// The divisor of the interval that gives its random part, so that servers do not fetch at the same
/// time.
const JITTER_PART: u64 = 10;

/// The state of a source, which is kept across restarts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct SourceState {
    /// The URL or path.
    pub(crate) source: String,
    /// Wall time in seconds of the last success, with or without a new text; 0 if there was none.
    pub(crate) succeeded_at_secs: u64,
    /// Wall time in seconds of the last attempt; 0 if there was none since the start.
    #[serde(skip)]
    pub(crate) tried_at_secs: u64,
    /// Wall time in seconds of the next attempt.
    pub(crate) due_at_secs: u64,
    /// Consecutive failures.
    pub(crate) failures_in_row: u32,
    /// The reason why the last attempt failed, if it failed.
    pub(crate) error: Option<String>,
    /// Failures since the server started.
    #[serde(skip)]
    pub(crate) failures: u64,
    /// Number of octets of the copy.
    pub(crate) octets: u64,
    /// Wall time in seconds at which the text of the copy was fetched.
    pub(crate) fetched_at_secs: u64,
}

/// The reason why an attempt gave no text.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// The fetch failed.
    Fetch(FetchError),
    /// No primary provided the zone.
    Transfer(UnusablePrimaries),
    /// The file cannot be read.
    File(String),
    /// The system cannot start a thread for the fetch.
    Thread(String),
    /// The text is suspicious and held back. Holds the reason.
    HeldBack(String),
    /// The text tests too many properties of clients. Holds the reason.
    Unfit(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fetch(error) => error.fmt(f),
            Self::File(error) => f.write_str(error),
            Self::Transfer(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::HeldBack(why) | Self::Unfit(why) => f.write_str(why),
        }
    }
}

impl SourceState {
    /// Records a success. `random` determines the jitter.
    pub(crate) fn succeed(&mut self, now_secs: u64, refresh_secs: u64, random: u64) {
        (self.succeeded_at_secs, self.tried_at_secs) = (now_secs, now_secs);
        self.due_at_secs = now_secs + refresh_secs + random % (refresh_secs / JITTER_PART + 1);
        self.failures_in_row = 0;
        self.error = None;
    }

    /// Records a failure.
    pub(crate) fn fail(&mut self, now_secs: u64, failure: &Failure, random: u64) {
        let first = match failure {
            Failure::Fetch(FetchError::Unresolved(_)) => FIRST_RESOLVE_RETRY_SECS,
            _ => FIRST_RETRY_SECS,
        };
        let wait = first.saturating_mul(1 << self.failures_in_row.min(32)).min(MAX_RETRY_SECS);
        self.due_at_secs = now_secs + wait + random % (wait / JITTER_PART + 1);
        self.failures_in_row = self.failures_in_row.saturating_add(1);
        self.tried_at_secs = now_secs;
        self.failures += 1;
        self.error = Some(failure.to_string());
    }

    /// Returns whether NOTIFY may cause an attempt: the last attempt was at least `least_secs`
    /// seconds ago. This number doubles with each further failure.
    pub(crate) fn may_follow_notify(&self, now_secs: u64, least_secs: u64) -> bool {
        let wait = least_secs.saturating_mul(1 << self.failures_in_row.min(32)).min(MAX_RETRY_SECS);
        now_secs.abs_diff(self.tried_at_secs) >= wait
    }

    /// Returns whether an attempt is due. If the clock was set back, this delays the attempt for at
    /// most one refresh interval.
    pub(crate) fn is_due(&self, now_secs: u64, refresh_secs: u64) -> bool {
        let latest = now_secs + refresh_secs + refresh_secs / JITTER_PART;
        now_secs >= self.due_at_secs || self.due_at_secs > latest.max(now_secs + 2 * MAX_RETRY_SECS)
    }
}

/// The hint about how to accept a text that is held back.
const HOW_TO_TAKE_IT: &str = "`avocet lists refresh NAME --force` takes it";

/// Checks whether a text may replace one with `known` entries.
///
/// # Errors
///
/// The text is held back. Holds the reason.
pub(crate) fn judge(report: &Report, known: Option<u64>) -> Result<(), Failure> {
    if let Some(refusal) = report.refusal {
        return Err(Failure::HeldBack(refusal.to_string()));
    }
    if report.entries == 0 {
        let broken = report.faults;
        return Err(Failure::HeldBack(format!(
            "no entries, and {broken} broken lines; {HOW_TO_TAKE_IT}"
        )));
    }
    let known = known.unwrap_or(0);
    if report.entries.saturating_mul(SHRINK_PART) < known && known - report.entries > SHRINK_ENTRIES
    {
        return Err(Failure::HeldBack(format!(
            "{} entries, down from {known}; {HOW_TO_TAKE_IT}",
            report.entries
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_policy::list::{Format, Refusal};

    use crate::error::LookupError;

    fn report(entries: u64, refusal: Option<Refusal>) -> Report {
        let format = Format::Domains;
        Report { lines: 9, entries, faults: 3, refusal, ..Report::of(format) }
    }

    #[test]
    fn failures_are_tried_again_later_and_later() {
        let mut state = SourceState::default();
        let failure = Failure::Fetch(FetchError::Status(404));
        let mut waits = Vec::new();
        for _ in 0..8 {
            state.fail(1_000_000, &failure, 0);
            waits.push(state.due_at_secs - 1_000_000);
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(
            (state.failures, state.error.as_deref()),
            (8, Some("its server returned status 404"))
        );
        state.succeed(2_000_000, 86_400, u64::MAX);
        let wait = state.due_at_secs - 2_000_000;
        assert!((86_400..=95_040).contains(&wait), "{wait}");
        assert_eq!((state.failures_in_row, state.error), (0, None));
    }

    #[test]
    fn notify_causes_no_look_soon_after_another_and_less_often_after_failures() {
        let mut state = SourceState::default();
        let failure = Failure::HeldBack("empty".to_owned());
        assert!(state.may_follow_notify(1_000, 5));
        state.succeed(1_000, 600, 0);
        assert!(!state.may_follow_notify(1_004, 5) && state.may_follow_notify(1_005, 5));
        for wait in [10, 20, 40] {
            state.fail(2_000, &failure, 0);
            assert!(!state.may_follow_notify(2_000 + wait - 1, 5));
            assert!(state.may_follow_notify(2_000 + wait, 5));
        }
    }

    #[test]
    fn a_server_that_does_not_resolve_yet_is_asked_again_soon() {
        let mut state = SourceState::default();
        state.fail(
            0,
            &Failure::Fetch(FetchError::Unresolved(LookupError::NoAddress(String::new()))),
            0,
        );
        assert_eq!(state.due_at_secs, 5);
    }

    #[test]
    fn a_clock_that_was_set_back_puts_no_look_off() {
        let mut state = SourceState::default();
        state.succeed(1_000_000_000, 86_400, 0);
        assert!(!state.is_due(1_000_000_000, 86_400));
        assert!(state.is_due(1_000_086_400, 86_400));
        assert!(state.is_due(900_000_000, 86_400));
    }

    #[test]
    fn a_text_that_lost_most_of_its_entries_is_held_back() {
        for (known, entries, is_taken) in [
            (None, 1, true),
            (None, 0, false),
            (Some(10), 0, false),
            (Some(1_000), 1, true),
            (Some(2_001), 1_000, false),
            (Some(2_001), 1_001, true),
            (Some(1_001), 1, true),
            (Some(1_002), 1, false),
            (Some(100_000), 49_999, false),
            (Some(100_000), 50_000, true),
            (Some(10), 100_000, true),
        ] {
            assert_eq!(
                judge(&report(entries, None), known).is_ok(),
                is_taken,
                "{known:?} {entries}"
            );
        }
        assert!(judge(&report(9, Some(Refusal::WebPage)), None).is_err());
    }
}
