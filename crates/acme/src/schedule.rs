//! Computes the time of the next attempt: a renewal, or another attempt after a failure.
//!
//! `draw` is a random number from 0 to 1, so that servers that got their certificates at the same
//! time do not renew them at the same time.

use std::fmt;

use jiff::Timestamp;

use crate::error::AcmeError;
use crate::renewal::Window;

/// Number of seconds until another attempt after the first failure. Each further failure doubles
/// the wait.
pub const FIRST_RETRY_SECS: u64 = 600;
/// Maximum number of seconds until another attempt.
pub const MOST_RETRY_SECS: u64 = 86_400;
/// Number of seconds to the next attempt after the authority has limited the requests without
/// stating a time.
const RATE_LIMIT_SECS: u64 = 3_600;
/// Maximum number of seconds for which an authority can make the server wait.
const MOST_ASKED_SECS: u64 = 7 * 86_400;

/// The period in which a certificate is valid, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// The first second in which the certificate is valid.
    pub not_before: u64,
    /// The last second in which the certificate is valid.
    pub not_after: u64,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |secs: u64| {
            let secs = i64::try_from(secs).unwrap_or(i64::MAX);
            Timestamp::from_second(secs).unwrap_or(Timestamp::MAX)
        };
        write!(f, "from {} to {}", time(self.not_before), time(self.not_after))
    }
}

/// Returns the Unix second at which to renew a certificate. The time is after two thirds to seven
/// tenths of the certificate's life, or in the window that the authority suggests. It is never in
/// the last sixth of the life.
pub fn renewal(life: Life, window: Option<Window>, draw: f64) -> u64 {
    let secs = life.not_after.saturating_sub(life.not_before);
    let latest = life.not_after - secs / 6;
    let due = match window {
        Some(window) => window.start + part(window.end - window.start, draw),
        None => life.not_before + secs / 3 * 2 + part(secs / 30, draw),
    };
    due.min(latest)
}

/// Returns the number of seconds to the next attempt after this number of failures in a row.
/// `error` is the error of the last attempt, if it is an error of ACME.
pub fn retry_secs(failures: u32, error: Option<&AcmeError>, draw: f64) -> u64 {
    let doubled = FIRST_RETRY_SECS << failures.saturating_sub(1).min(16);
    let base = doubled.min(MOST_RETRY_SECS);
    let own = base - part(base / 4, draw);
    let asked = error.and_then(AcmeError::retry_after_secs).unwrap_or(0).min(MOST_ASKED_SECS);
    let is_limited = error.is_some_and(AcmeError::is_rate_limit);
    let least = if is_limited && asked == 0 { RATE_LIMIT_SECS } else { asked };
    own.max(least)
}

fn part(secs: u64, draw: f64) -> u64 {
    (secs as f64 * draw.clamp(0.0, 1.0)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::AuthorityProblem;
    use crate::world::Stopped;

    const DAY: u64 = 86_400;

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life() {
        let life = Life { not_before: 1_000 * DAY, not_after: 1_090 * DAY };
        assert_eq!(renewal(life, None, 0.0), 1_060 * DAY);
        assert_eq!(renewal(life, None, 1.0), 1_063 * DAY);
    }

    #[test]
    fn the_window_of_the_authority_counts_up_to_the_last_sixth_of_the_life() {
        let life = Life { not_before: 1_000 * DAY, not_after: 1_060 * DAY };
        let window = |start, end| Some(Window { start, end, again_secs: DAY });
        assert_eq!(renewal(life, window(1_010 * DAY, 1_020 * DAY), 0.5), 1_015 * DAY);
        assert_eq!(renewal(life, window(5, 5), 0.5), 5, "revoked: at once");
        assert_eq!(renewal(life, window(2_000 * DAY, u64::MAX), 0.9), 1_050 * DAY);
    }

    #[test]
    fn failures_are_repeated_less_and_less_often() {
        let error = AcmeError::Stopped(Stopped);
        let secs: Vec<_> = (1..6).map(|failures| retry_secs(failures, Some(&error), 0.0)).collect();
        assert_eq!(secs, [600, 1_200, 2_400, 4_800, 9_600]);
        assert_eq!(retry_secs(1, Some(&error), 1.0), 450);
        assert_eq!(retry_secs(u32::MAX, Some(&error), 0.0), MOST_RETRY_SECS);
        assert_eq!(retry_secs(3, None, 0.0), 2_400, "a fault of this server");
    }

    #[test]
    fn an_authority_that_limits_requests_is_obeyed_within_bounds() {
        let limited = |retry_after_secs| AcmeError::Refused {
            step: "the order",
            problem: AuthorityProblem {
                kind: "rateLimited".to_owned(),
                detail: String::new(),
                status: 429,
                retry_after_secs,
            },
        };
        assert_eq!(retry_secs(1, Some(&limited(None)), 0.0), RATE_LIMIT_SECS);
        assert_eq!(retry_secs(1, Some(&limited(Some(2 * DAY))), 0.0), 2 * DAY);
        assert_eq!(retry_secs(1, Some(&limited(Some(u64::MAX))), 0.0), MOST_ASKED_SECS);
    }
}
