//! Calendar dates in UTC, for the names of files and for exports.

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Date {
    year: u64,
    month: u64,
    day: u64,
}

impl Date {
    /// Returns the date of a day, counted from 1970-01-01.
    pub(crate) fn of_day(days: u64) -> Self {
        // If years begin in March, the leap day is their last day. A cycle of 400 such years has
        // 146,097 days.
        let days = days + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        Self { year, month, day }
    }

    /// Returns the date in the form `20261123`.
    pub(crate) fn compact(self) -> String {
        format!("{:04}{:02}{:02}", self.year, self.month, self.day)
    }
}

/// Returns a time, given in microseconds since the epoch, in the form `2026-11-23T11:27:00.000001Z`
/// (RFC 3339).
pub(crate) fn rfc3339(time_us: i64) -> String {
    let time_us = time_us.max(0) as u64;
    let secs = time_us / 1_000_000;
    let Date { year, month, day } = Date::of_day(secs / 86_400);
    let (hour, minute, second) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
    let fraction = time_us % 1_000_000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_microseconds() {
        assert_eq!(rfc3339(1_795_433_220_000_001), "2026-11-23T11:27:00.000001Z");
        assert_eq!(rfc3339(-1), "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |days: u64, expected: &str| assert_eq!(Date::of_day(days).compact(), expected);
        check(0, "19700101");
        check(58, "19700228");
        check(59, "19700301");
        check(11_016, "20000229");
        check(11_017, "20000301");
        check(20_780, "20261123");
        check(47_540, "21000228");
        check(47_541, "21000301");
    }
}
