//! Times in record data: `YYYYMMDDHHmmSS` (RFC 4034 §3.2) and TTLs with units.

use super::Problem;
use super::input::number;

const SECS_PER_DAY: u64 = 86_400;

/// Parses a date, or a decimal number of at most ten digits, as seconds since 1970.
///
/// Dates lie between 1970 and 2106, when a 32-bit counter of seconds overflows.
pub(super) fn read_timestamp(token: &[u8]) -> Result<u32, Problem> {
    if token.len() != 14 {
        return number(token, u64::from(u32::MAX)).map(|secs| secs as u32);
    }
    let part = |range: std::ops::Range<usize>, max| number(&token[range], max);
    let (year, month, day) = (part(0..4, 9999)?, part(4..6, 12)?, part(6..8, 31)?);
    let (hour, minute, second) = (part(8..10, 23)?, part(10..12, 59)?, part(12..14, 59)?);
    if year < 1970 || month == 0 || day == 0 || day > days_in_month(year, month) {
        return Err(Problem::Rule("no such date"));
    }
    let days = days_before_year(year) + days_before_month(year, month) + day - 1;
    let secs = days * SECS_PER_DAY + hour * 3600 + minute * 60 + second;
    u32::try_from(secs).map_err(|_| Problem::Number)
}

/// Returns year, month, day, hour, minute and second of a time in seconds since 1970.
pub(super) fn date(secs: u32) -> [u64; 6] {
    let (mut day, second) = (u64::from(secs) / SECS_PER_DAY, u64::from(secs) % SECS_PER_DAY);
    let mut year = 1970 + day / 366;
    while days_before_year(year + 1) <= day {
        year += 1;
    }
    day -= days_before_year(year);
    let mut month = 1;
    while month < 12 && days_before_month(year, month + 1) <= day {
        month += 1;
    }
    day -= days_before_month(year, month);
    [year, month, day + 1, second / 3600, second / 60 % 60, second % 60]
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_before_month(year: u64, month: u64) -> u64 {
    (1..month).map(|earlier| days_in_month(year, earlier)).sum()
}

/// Returns the number of days from 1970 to the start of `year`.
const fn days_before_year(year: u64) -> u64 {
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400;
    (year - 1970) * 365 + leap_days - (1969 / 4 - 1969 / 100 + 1969 / 400)
}

/// Parses a number of seconds, or numbers with the units `w d h m s`.
pub(super) fn read_ttl(token: &[u8]) -> Result<u32, Problem> {
    if token.iter().all(u8::is_ascii_digit) {
        return number(token, u64::from(u32::MAX)).map(|secs| secs as u32);
    }
    let mut total = 0_u64;
    for part in token.split_inclusive(|octet| !octet.is_ascii_digit()) {
        let (&unit, digits) = part.split_last().ok_or(Problem::Number)?;
        let secs = match unit.to_ascii_lowercase() {
            b'w' => 7 * SECS_PER_DAY,
            b'd' => SECS_PER_DAY,
            b'h' => 3600,
            b'm' => 60,
            b's' => 1,
            _ => return Err(Problem::Number),
        };
        total = total.saturating_add(number(digits, u64::from(u32::MAX))? * secs);
    }
    u32::try_from(total).map_err(|_| Problem::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        for (text, secs) in [
            ("19700101000000", 0),
            ("20030322173103", 1_048_354_263),
            ("20000229235959", 951_868_799),
            ("20000301000000", 951_868_800),
            ("20381231235959", 2_177_452_799),
            ("21060207062815", u32::MAX),
        ] {
            assert_eq!(read_timestamp(text.as_bytes()), Ok(secs), "{text}");
            let [year, month, day, hour, minute, second] = date(secs);
            let written = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}");
            assert_eq!(written, text);
        }
        assert_eq!(read_timestamp(b"1048354263"), Ok(1_048_354_263));
    }

    #[test]
    fn days_that_are_not_in_the_calendar_are_refused() {
        for text in [
            "20230229000000",
            "20231301000000",
            "20230100000000",
            "21060207062816",
            "19691231235959",
            "20230101240000",
            "2023010100000x",
            "4294967296",
        ] {
            assert!(read_timestamp(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn every_day_is_written_as_it_is_read() {
        for day in (0..u32::MAX / 86_400).step_by(11) {
            let [year, month, day_of_month, ..] = date(day * 86_400);
            let text = format!("{year:04}{month:02}{day_of_month:02}000000");
            assert_eq!(read_timestamp(text.as_bytes()), Ok(day * 86_400));
        }
    }

    #[test]
    fn ttls_may_have_units() {
        assert_eq!(read_ttl(b"3600"), Ok(3600));
        assert_eq!(read_ttl(b"1h30M"), Ok(5400));
        assert_eq!(read_ttl(b"1w1d1s"), Ok(691_201));
        for bad in ["", "h", "1h5", "1x", "4294967296", "9999999999w", "-1"] {
            assert!(read_ttl(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
