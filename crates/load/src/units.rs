//! Durations and shares on a command line.

use std::time::Duration;

use crate::error::LoadError;

/// Parses a duration such as `10s`, `250ms`, `50us`, `5m` or `2h`.
///
/// # Errors
/// The text is not a positive number with one of these units, or the duration is too long.
pub(crate) fn duration(text: &str) -> Result<Duration, LoadError> {
    let digits = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_secs = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(LoadError::DurationUnit),
    };
    let number: f64 = number.parse().map_err(|_| LoadError::NotANumber(text.to_owned()))?;
    let secs = number * unit_secs;
    match Duration::try_from_secs_f64(secs) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(LoadError::DurationRange),
    }
}

/// Parses a share, such as `0.1%` or `0.001`.
///
/// # Errors
/// The text is not a number, or the number is outside the range from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, LoadError> {
    let (number, whole) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let number: f64 = number.parse().map_err(|_| LoadError::NotAShare)?;
    let share = number / whole;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(LoadError::ShareRange) }
}

/// Formats a time in nanoseconds with a suitable unit.
pub(crate) fn nanos_text(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.3} s", value / 1e9),
    }
}

/// Formats a count with separated thousands.
pub(crate) fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, micros) in
            [("10s", 10_000_000), ("250ms", 250_000), ("50us", 50), ("1.5m", 90_000_000)]
        {
            assert_eq!(duration(text).unwrap(), Duration::from_micros(micros), "{text}");
        }
        for text in ["", "10", "s", "-1s", "0s", "1d", "1e99h", "..s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_parts_of_the_whole() {
        assert_eq!(share("5%").unwrap(), 0.05);
        assert_eq!(share("0.25").unwrap(), 0.25);
        for text in ["", "%", "101%", "-1%", "1.5", "nan"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_and_counts_are_legible() {
        assert_eq!(
            [nanos_text(7), nanos_text(1_500), nanos_text(2_345_678)],
            ["7 ns", "1.5 us", "2.35 ms"]
        );
        assert_eq!(
            [count_text(7), count_text(1234), count_text(1_234_567)],
            ["7", "1,234", "1,234,567"]
        );
    }
}
