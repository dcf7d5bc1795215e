//! The wait before a request is sent again: the time that the collector states, or a growing time.

use std::time::Duration;

/// The wait before the first repetition.
const FIRST: Duration = Duration::from_secs(1);
/// Maximum wait if the collector states none.
const LONGEST: Duration = Duration::from_secs(30);
/// Maximum wait that a collector can impose.
const LONGEST_IMPOSED: Duration = Duration::from_secs(300);
/// Seconds of a day.
const DAY: i64 = 86_400;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The waits between attempts.
#[derive(Default)]
pub(super) struct Backoff {
    /// Attempts that failed in a row.
    failures: u32,
}

impl Backoff {
    /// Returns the wait after a failed attempt. `imposed` is the wait that the collector stated.
    /// `random` spreads the attempts of several servers over the second half of the wait.
    pub(super) fn next(&mut self, imposed: Option<Duration>, random: u32) -> Duration {
        let time = FIRST.saturating_mul(1 << self.failures.min(5)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let half = time / 2;
        let spread = half + half.mul_f64(f64::from(random) / f64::from(u32::MAX));
        match imposed {
            Some(imposed) => imposed.clamp(half, LONGEST_IMPOSED),
            None => spread,
        }
    }

    /// Records that an attempt succeeded.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Returns the time in `Retry-After` (RFC 9110 §10.2.3): seconds, or a date.
pub(super) fn retry_after(text: &str, now_secs: u64) -> Option<Duration> {
    let text = text.trim();
    if let Ok(secs) = text.parse::<u64>() {
        return Some(Duration::from_secs(secs));
    }
    let at = date(text)?;
    Some(Duration::from_secs(u64::try_from(at).ok()?.saturating_sub(now_secs)))
}

/// Reads a date such as "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 §5.6.7) as Unix seconds.
fn date(text: &str) -> Option<i64> {
    let (_, rest) = text.strip_suffix(" GMT")?.split_once(", ")?;
    let mut parts = rest.split(' ');
    let mut part = || parts.next();
    let number = |text: &str, limit: i64| text.parse().ok().filter(|n| (0..=limit).contains(n));
    let (day, month, year) = (number(part()?, 31)?, part()?, number(part()?, 9_999)?);
    let month = MONTHS.iter().position(|name| *name == month)? as i64;
    let mut clock = part()?.split(':');
    let mut time = |limit| number(clock.next()?, limit);
    let (hour, minute, second) = (time(23)?, time(59)?, time(60)?);
    // Years that begin in March have their leap day at the end.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (month * 153 + 2) / 5
        + day
        - 1
        - 719_468;
    Some(days * DAY + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let check = |text: &str, expected: Option<u64>| {
            let found = retry_after(text, 784_111_770);
            assert_eq!(found.map(|time| time.as_secs()), expected, "{text}");
        };
        check("0", Some(0));
        check(" 120 ", Some(120));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(7));
        check("Sun, 06 Nov 1994 08:49:00 GMT", Some(0));
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("Tue, 29 Feb 2000 00:00:00 GMT", Some(951_782_400 - 784_111_770));
        check("Mon, 30 Nov 2026 00:00:00 GMT", Some(1_795_996_800 - 784_111_770));
        check("-1", None);
        check("soon", None);
        check("Sun, 06 Nov 1994 24:49:37 GMT", None);
        check("Sun, 06 Brumaire 1994 08:49:37 GMT", None);
        check("Sun, 06 Nov 99999999999999999999 08:49:37 GMT", None);
        check("", None);
    }

    #[test]
    fn waits_grow_to_their_limit_and_follow_the_collector_within_bounds() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> =
            (0..8).map(|_| backoff.next(None, u32::MAX).as_millis() as u64).collect();
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
        assert_eq!(backoff.next(None, 0), Duration::from_secs(15));
        let secs = Duration::from_secs;
        assert_eq!(backoff.next(Some(secs(70)), 0), secs(70));
        assert_eq!(backoff.next(Some(secs(u64::MAX)), 0), secs(300));
        // A stated wait of zero must not cause a flood of requests.
        assert_eq!(backoff.next(Some(secs(0)), 0), secs(15));
        backoff.reset();
        assert_eq!(backoff.next(Some(secs(0)), 0), Duration::from_millis(500));
        assert_eq!(backoff.next(Some(secs(2)), 0), secs(2));
    }
}
