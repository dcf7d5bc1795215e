//! Serial numbers of zones (RFC 1982).

/// Reports whether `serial` is newer than `than`. If the two differ by exactly 2^31, neither is
/// newer.
#[must_use]
pub const fn is_newer(serial: u32, than: u32) -> bool {
    serial.wrapping_sub(than).cast_signed() > 0
}

/// The way in which the server raises the serial of a zone that it changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SerialPolicy {
    /// The serial increases by one.
    #[default]
    Increment,
    /// The serial is the date and a number of two digits, such as 2026112401.
    Date,
    /// The serial is the number of seconds since 1970.
    UnixTime,
}

impl SerialPolicy {
    /// All policies with their names in the configuration.
    pub const NAMES: [(Self, &'static str); 3] =
        [(Self::Increment, "increment"), (Self::Date, "date"), (Self::UnixTime, "unixtime")];

    /// Returns the serial after `serial`, at a Unix time in seconds. If the policy does not give a
    /// newer serial, `serial` is increased by one.
    #[must_use]
    pub const fn next(self, serial: u32, now_secs: u64) -> u32 {
        let wanted = match self {
            Self::Increment => serial.wrapping_add(1),
            Self::Date => date_serial(now_secs),
            Self::UnixTime => now_secs as u32,
        };
        if is_newer(wanted, serial) { wanted } else { serial.wrapping_add(1) }
    }
}

/// Returns the first serial of a day in UTC, such as 2026112400.
const fn date_serial(now_secs: u64) -> u32 {
    // Days are counted from 0000-03-01, so that a leap day is the last day of its year.
    let days = now_secs / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (((year * 100 + month) * 100 + day) * 100 + 1) as u32
}

/// Copies the data of an SOA record with another serial.
#[must_use]
pub fn with_serial(rdata: &[u8], serial: u32) -> Vec<u8> {
    let mut rdata = rdata.to_vec();
    if let Some(place) = rdata.len().checked_sub(20).and_then(|at| rdata.get_mut(at..at + 4)) {
        place.copy_from_slice(&serial.to_be_bytes());
    }
    rdata
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_raise_the_serial() {
        let now_secs = 1_795_478_400;
        assert_eq!(SerialPolicy::Increment.next(u32::MAX, now_secs), 0);
        assert_eq!(SerialPolicy::Date.next(7, now_secs), 2_026_112_401);
        assert_eq!(SerialPolicy::Date.next(2_026_112_401, now_secs), 2_026_112_402);
        assert_eq!(SerialPolicy::Date.next(7, 951_782_400), 2_000_022_901);
        assert_eq!(SerialPolicy::Date.next(7, 1_709_251_200), 2_024_030_101);
        assert_eq!(SerialPolicy::UnixTime.next(7, now_secs), 1_795_478_400);
        assert_eq!(SerialPolicy::UnixTime.next(1_795_478_400, now_secs), 1_795_478_401);
    }

    #[test]
    fn serials_wrap() {
        assert!(is_newer(1, 0) && !is_newer(0, 1) && !is_newer(7, 7));
        assert!(is_newer(5, u32::MAX - 5) && !is_newer(u32::MAX - 5, 5));
        assert!(!is_newer(1 << 31, 0) && !is_newer(0, 1 << 31));
        assert!(is_newer((1 << 31) - 1, 0));
    }
}
