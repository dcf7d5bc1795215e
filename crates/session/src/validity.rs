//! The time for which a certificate is valid (RFC 5280 §4.1.2.5).

use rustls::pki_types::CertificateDer;

/// Tags of DER (X.690 §8.1.2).
const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The tag of the version of a certificate: [0], constructed.
const VERSION: u8 = 0xa0;

/// The period in which a certificate is valid, in Unix seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// The first second in which the certificate is valid.
    pub not_before: u64,
    /// The last second in which the certificate is valid.
    pub not_after: u64,
}

impl Validity {
    /// Returns the validity of a certificate; `None` if the certificate cannot be read.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        validity(certificate)
    }

    /// Returns whether the period has ended at this Unix second.
    pub(crate) fn has_ended(self, at: u64) -> bool {
        self.not_after < at
    }
}

/// Reads the validity of a certificate in DER. Follows a fixed sequence of fields.
fn validity(certificate: &[u8]) -> Option<Validity> {
    let (whole, _) = field(certificate, SEQUENCE)?;
    let (signed, _) = field(whole, SEQUENCE)?;
    let rest = field(signed, VERSION).map_or(signed, |(_, rest)| rest);
    let (_, rest) = field(rest, INTEGER)?;
    // Skip the algorithm and the issuer.
    let (_, rest) = field(rest, SEQUENCE)?;
    let (_, rest) = field(rest, SEQUENCE)?;
    let (times, _) = field(rest, SEQUENCE)?;
    let (not_before, rest) = moment(times)?;
    let (not_after, _) = moment(rest)?;
    Some(Validity { not_before, not_after })
}

/// Reads a time. Returns the Unix second and the octets after the time.
fn moment(octets: &[u8]) -> Option<(u64, &[u8])> {
    if let Some((text, rest)) = field(octets, UTC_TIME) {
        let year = digits(text, 0, 2)?;
        // Years have two digits (RFC 5280 §4.1.2.5.1).
        let century = if year >= 50 { 1900 } else { 2000 };
        return Some((time(century + year, text.get(2..)?)?, rest));
    }
    let (text, rest) = field(octets, GENERALIZED_TIME)?;
    Some((time(digits(text, 0, 4)?, text.get(4..)?)?, rest))
}

/// Returns the content of a field with this tag, and the octets after the field.
fn field(octets: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (head, rest) = octets.split_first_chunk::<2>()?;
    if head[0] != tag {
        return None;
    }
    let (len, rest) = match head[1] {
        short @ 0..=0x7f => (usize::from(short), rest),
        // Lengths of up to three octets: a certificate has at most 16 MB.
        long @ 0x81..=0x83 => {
            let (len, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (len.iter().fold(0, |len, octet| len << 8 | usize::from(*octet)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(len)
}

fn digits(text: &[u8], at: usize, count: usize) -> Option<u64> {
    let digits = text.get(at..at + count)?;
    digits.iter().try_fold(0, |number, octet| {
        octet.is_ascii_digit().then(|| number * 10 + u64::from(octet - b'0'))
    })
}

/// Returns the Unix second of a time such as `0102030405Z`, month first.
fn time(year: u64, text: &[u8]) -> Option<u64> {
    let part = |at| digits(text, at, 2);
    let (month, day) = (part(0)?, part(2)?);
    let (hour, minute, second) = (part(4)?, part(6)?, part(8)?);
    if text.get(10..) != Some(b"Z") || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 of a date, with years that begin in March.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (year, text, expected) in [
            (1970, "0101000000Z", Some(0)),
            (2000, "0229120000Z", Some(951_825_600)),
            (2026, "1124131500Z", Some(1_795_526_100)),
            (2049, "1231235959Z", Some(2_524_607_999)),
            (2026, "1324131500Z", None),
            (2026, "1124131500", None),
            (1969, "1231235959Z", None),
        ] {
            assert_eq!(time(year, text.as_bytes()), expected, "{year} {text}");
        }
    }

    #[test]
    fn no_octets_are_a_panic() {
        let mut octets = vec![0x30, 0x82, 0x01, 0x00, 0x30, 0x81, 0x80, 0xa0, 0x03, 2, 1, 2];
        octets.resize(300, 0x30);
        for len in 0..octets.len() {
            assert_eq!(validity(&octets[..len]), None);
        }
    }
}
