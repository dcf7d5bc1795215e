//! `$GENERATE`: a series of records made from one template (BIND 9's extension of master files).
//!
//! ```text
//! $GENERATE 1-3 host-$ A 192.0.2.$        host-1 ... host-3
//! $GENERATE 0-4/2 ${0,3,d} CNAME h-${8}   000, 002, 004 -> h-8, h-10, h-12
//! ```

use std::io::Write;

use super::{MasterError, class_of, ttl_secs, type_of};
use crate::text::Token;

/// Maximum number of records of one directive. Few zones generate more records than an IPv4 /16
/// needs.
pub const MAX_GENERATED: u32 = 1 << 20;
/// Maximum width of a number in a template, in characters.
const MAX_WIDTH: i64 = 255;

/// The numbers over which a `$GENERATE` iterates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) next: i64,
    stop: i64,
    step: i64,
}

impl Range {
    /// Parses `START-STOP` or `START-STOP/STEP`.
    pub(super) fn parse(token: &[u8]) -> Result<Self, MasterError> {
        let text = str::from_utf8(token).map_err(|_| MasterError::Range)?;
        let (ends, step) = text.split_once('/').unwrap_or((text, "1"));
        let (start, stop) = ends.split_once('-').ok_or(MasterError::Range)?;
        let number =
            |digits: &str| digits.parse::<u32>().ok().filter(|n| i32::try_from(*n).is_ok());
        let (Some(next), Some(stop), Some(step @ 1..)) =
            (number(start), number(stop), number(step))
        else {
            return Err(MasterError::Range);
        };
        let count = stop.checked_sub(next).ok_or(MasterError::Range)? / step;
        if count >= MAX_GENERATED {
            return Err(MasterError::RangeTooLong);
        }
        Ok(Self { next: next.into(), stop: stop.into(), step: step.into() })
    }

    /// Returns the next number and advances.
    pub(super) fn advance(&mut self) -> Option<i64> {
        let number = self.next;
        self.next += self.step;
        (number <= self.stop).then_some(number)
    }
}

/// Appends a template with `$` and `${OFFSET,WIDTH,BASE}` replaced by a number.
pub(super) fn expand(template: &[u8], number: i64, out: &mut Vec<u8>) -> Result<(), MasterError> {
    let mut rest = template;
    loop {
        rest = match rest {
            [] => return Ok(()),
            [b'$', b'$', after @ ..] => {
                out.push(b'$');
                after
            }
            [b'$', b'{', after @ ..] => {
                let end = after.iter().position(|octet| *octet == b'}');
                let (form, after) = after.split_at(end.ok_or(MasterError::Template)?);
                write_number(form, number, out)?;
                &after[1..]
            }
            [b'$', after @ ..] => {
                let _ = write!(out, "{number}");
                after
            }
            [b'\\', b'$', after @ ..] => {
                out.push(b'$');
                after
            }
            [b'\\', escaped, after @ ..] => {
                out.extend_from_slice(&[b'\\', *escaped]);
                after
            }
            [octet, after @ ..] => {
                out.push(*octet);
                after
            }
        };
    }
}

/// Appends a number as `form` requires: `OFFSET,WIDTH,BASE`, where width and base may be missing.
fn write_number(form: &[u8], number: i64, out: &mut Vec<u8>) -> Result<(), MasterError> {
    let form = str::from_utf8(form).map_err(|_| MasterError::Template)?;
    let mut parts = form.split(',');
    let mut part = |default| parts.next().unwrap_or(default);
    let (offset, width, base) = (part("0"), part("0"), part("d"));
    let offset = offset.parse::<i32>().map_err(|_| MasterError::Template)?;
    let width = width.parse::<i64>().ok().filter(|width| (0..=MAX_WIDTH).contains(width));
    let (Some(width), None) = (width, parts.next()) else { return Err(MasterError::Template) };
    let value = number + i64::from(offset);
    let value = u32::try_from(value).map_err(|_| MasterError::Template)?;
    let digits = width as usize;
    let _ = match base {
        "d" => write!(out, "{value:0digits$}"),
        "o" => write!(out, "{value:0digits$o}"),
        "x" => write!(out, "{value:0digits$x}"),
        "X" => write!(out, "{value:0digits$X}"),
        "n" => return write_nibbles(value, width, b"0123456789abcdef", out),
        "N" => return write_nibbles(value, width, b"0123456789ABCDEF", out),
        _ => return Err(MasterError::Template),
    };
    Ok(())
}

/// Appends the hexadecimal digits of a number, the lowest first, with dots between them, as reverse
/// zones of IPv6 need them. The width counts digits and dots.
fn write_nibbles(
    mut value: u32,
    mut width: i64,
    digits: &[u8; 16],
    out: &mut Vec<u8>,
) -> Result<(), MasterError> {
    loop {
        out.push(digits[(value & 0xf) as usize]);
        value >>= 4;
        width -= 1;
        if width <= 0 && value == 0 {
            return Ok(());
        }
        out.push(b'.');
        width -= 1;
        if width <= 0 && value == 0 {
            return Ok(());
        }
    }
}

/// Returns the data of a `$GENERATE`, without quotes, if it is one quoted string. As in BIND, such
/// a string is the data as a whole, and not a character string of it.
pub(super) fn quoted_data(tokens: &[Token<'_>]) -> Option<Vec<u8>> {
    let [head @ .., rtype, data] = tokens else { return None };
    let is_before_type =
        |token: &Token<'_>| ttl_secs(token.text).is_some() || class_of(token.text).is_some();
    if !head.iter().all(is_before_type) || type_of(rtype.text).is_none() {
        return None;
    }
    let inside = data.text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let (mut plain, mut rest) = (Vec::with_capacity(inside.len()), inside);
    while let Some((octet, after)) = rest.split_first() {
        rest = after;
        match (octet, after) {
            (b'\\', [b'"', ..]) => {}
            (b'\\', [escaped, after @ ..]) => {
                plain.extend_from_slice(&[b'\\', *escaped]);
                rest = after;
            }
            _ => plain.push(*octet),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master::{InheritedTtls, MasterFile, MasterRecord};
    use crate::{NameBuf, rdata};

    fn check(template: &str, number: i64, expected: &str) {
        let mut out = Vec::new();
        let text = match expand(template.as_bytes(), number, &mut out) {
            Ok(()) => String::from_utf8(out).unwrap(),
            Err(error) => error.to_string(),
        };
        assert_eq!(text, expected, "{template}");
    }

    #[test]
    fn templates_take_a_number_in_every_form() {
        check("host-$", 7, "host-7");
        check("$.$$.\\$", 7, "7.$.$");
        check("a${10}b", 7, "a17b");
        check("${-7,3,d}", 7, "000");
        check("${0,4,x}-${0,4,X}-${0,4,o}", 255, "00ff-00FF-0377");
        check("${0,7,n}", 0x12, "2.1.0.0");
        check("${0,0,N}", 0xab, "B.A");
        check("x\\.$", 1, "x\\.1");
        let refused = "the template is malformed: ${OFFSET,WIDTH,BASE} is expected after $";
        for template in ["${", "${1,2,3,4}", "${a}", "${0,-1}", "${0,256}", "${0,0,q}", "${-8}"] {
            check(template, 7, refused);
        }
    }

    #[test]
    fn ranges_have_a_start_a_stop_and_a_step() {
        let numbers = |text: &str| {
            let mut range = Range::parse(text.as_bytes())?;
            Ok(std::iter::from_fn(|| range.advance()).collect::<Vec<_>>())
        };
        assert_eq!(numbers("1-3"), Ok(vec![1, 2, 3]));
        assert_eq!(numbers("0-5/2"), Ok(vec![0, 2, 4]));
        assert_eq!(numbers("9-9/4"), Ok(vec![9]));
        for text in ["", "1", "3-1", "1-2/0", "a-b", "1-2147483648", "-1-2"] {
            assert_eq!(numbers(text), Err(MasterError::Range), "{text}");
        }
        assert_eq!(numbers("0-1048576"), Err(MasterError::RangeTooLong));
    }

    #[test]
    fn one_quoted_string_is_all_data_as_in_bind() {
        let data = |text: &str| {
            let origin = NameBuf::from_wire(b"\x07example\0").unwrap();
            let mut file = MasterFile::of_zone(text.as_bytes(), origin, InheritedTtls::default());
            let mut record = MasterRecord::empty();
            match file.read_entry(&mut record).unwrap() {
                Ok(_) => rdata::display(record.rtype.0, &record.rdata).to_string(),
                Err(fault) => format!("{}: {}", fault.column, fault.error),
            }
        };
        assert_eq!(data("$GENERATE 1-2 h$ MX \"0 .\""), "0 .");
        assert_eq!(data("$GENERATE 1-2 h$ 60 IN MX \"$ m$\""), "1 m1.example.");
        assert_eq!(data("$GENERATE 1-2 h$ TXT \"a b $\""), r#""a" "b" "1""#);
        assert_eq!(data(r#"$GENERATE 1-2 h$ TXT "\"a b $\" c""#), r#""a b 1" "c""#);
        assert_eq!(data(r#"$GENERATE 1-2 h$ TXT "a b" c"#), r#""a b" "c""#);
        assert_eq!(data(r#"$GENERATE 1-2 h$ CAA "0 issue \"a;b\" ; why""#), r#"0 issue "a;b""#);
        assert_eq!(data("$GENERATE 1-2 h$ MX \"0 (\""), "21: a parenthesis is not closed");
    }
}
