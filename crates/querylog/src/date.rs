//! Calendar dates in UTC, for the names of files and for exports.

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Date {
    year: u64,
    month: u64,
    day: u64,
}

impl Date {
    /// Returns the date of a day after 1970-01-01.
    pub(crate) fn of_day(days: u64) -> Self {
        // Years that begin in March end with the leap day; 400 of them have 146,097 days.
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

    /// Returns the date as in `20261123`.
    pub(crate) fn compact(self) -> String {
        format!("{:04}{:02}{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
