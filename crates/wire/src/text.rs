//! Names and character-strings in presentation form (RFC 1035 §5.1, RFC 4343 §2.1).
//!
//! `\X` denotes the character X and `\DDD` the octet with that decimal number. Internationalised
//! names must be A-labels; nothing is converted here. The reader of zone files
//! ([`master`](crate::master)) handles parentheses, comments and line ends.

use std::fmt;

use crate::name::{MAX_LABEL, MAX_NAME};

/// An error in a name, a character-string or a sequence of tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextError {
    /// The name is empty or has an empty label.
    EmptyLabel,
    /// The label has more than 63 octets.
    LabelTooLong,
    /// The name has more than 255 octets.
    NameTooLong,
    /// The name does not end with a dot, and no origin completes it.
    Relative,
    /// A backslash is the last character, or its digits are not three or exceed 255.
    Escape,
    /// The closing quote is missing.
    OpenQuote,
    /// An unquoted string contains a quote.
    StrayQuote,
    /// The character-string has more than 255 octets.
    StringTooLong,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyLabel => "a name with an empty label",
            Self::LabelTooLong => "a label longer than 63 octets",
            Self::NameTooLong => "a name longer than 255 octets",
            Self::Relative => "a relative name where there is no origin",
            Self::Escape => "a bad escape: \\DDD needs three digits up to 255",
            Self::OpenQuote => "the closing quote is missing",
            Self::StrayQuote => "a quote within an unquoted string",
            Self::StringTooLong => "a string longer than 255 octets",
        })
    }
}

impl std::error::Error for TextError {}

/// Writes the wire form of a name to `out` and returns its length.
///
/// `origin`, an absolute wire name, completes `@` and names without a final dot.
///
/// # Errors
/// The text is not a valid name, or is relative and there is no origin.
pub fn name_to_wire(
    text: &[u8],
    origin: Option<&[u8]>,
    out: &mut [u8; MAX_NAME],
) -> Result<usize, TextError> {
    match text {
        b"." => return append_name(out, 0, &[0]),
        b"@" => return append_name(out, 0, origin.ok_or(TextError::Relative)?),
        _ => {}
    }
    // `start` is the offset of the current label's length octet, `end` that of the end of the name.
    let (mut start, mut end, mut at) = (0, 1, 0);
    while let Some(&octet) = text.get(at) {
        let (value, next) = match octet {
            b'.' => {
                close_label(out, start, end)?;
                (start, end, at) = (end, end + 1, at + 1);
                continue;
            }
            b'\\' => unescape(text, at)?,
            plain => (plain, at + 1),
        };
        *out.get_mut(end).ok_or(TextError::NameTooLong)? = value;
        (end, at) = (end + 1, next);
    }
    // After a final dot, the current label is empty and becomes the root.
    if end == start + 1 && start > 0 {
        return append_name(out, start, &[0]);
    }
    close_label(out, start, end)?;
    append_name(out, end, origin.ok_or(TextError::Relative)?)
}

/// Writes the length octet of the label that fills `out[start + 1..end]`.
fn close_label(out: &mut [u8; MAX_NAME], start: usize, end: usize) -> Result<(), TextError> {
    match end - start - 1 {
        0 => Err(TextError::EmptyLabel),
        len if len > MAX_LABEL => Err(TextError::LabelTooLong),
        len => {
            *out.get_mut(start).ok_or(TextError::NameTooLong)? = len as u8;
            Ok(())
        }
    }
}

fn append_name(out: &mut [u8; MAX_NAME], at: usize, name: &[u8]) -> Result<usize, TextError> {
    let end = at + name.len();
    out.get_mut(at..end).ok_or(TextError::NameTooLong)?.copy_from_slice(name);
    Ok(end)
}

/// Returns the octet that the character or escape at `at` denotes, and the offset after it.
fn unescape(text: &[u8], at: usize) -> Result<(u8, usize), TextError> {
    match text.get(at..).unwrap_or_default() {
        [b'\\', a @ b'0'..=b'9', rest @ ..] => {
            let [b @ b'0'..=b'9', c @ b'0'..=b'9', ..] = rest else {
                return Err(TextError::Escape);
            };
            let value = [a, b, c].iter().fold(0, |sum, digit| sum * 10 + u32::from(**digit - b'0'));
            u8::try_from(value).map(|value| (value, at + 4)).map_err(|_| TextError::Escape)
        }
        [b'\\', octet, ..] => Ok((*octet, at + 2)),
        [b'\\'] | [] => Err(TextError::Escape),
        [octet, ..] => Ok((*octet, at + 1)),
    }
}

/// Writes a valid uncompressed wire name as an absolute name.
///
/// Octets outside printable ASCII become `\DDD`. Characters with a meaning in zone files get a
/// backslash. If the name is malformed, only its readable part is written.
///
/// # Errors
/// Writing to `out` fails.
pub fn write_name(wire: &[u8], out: &mut (impl fmt::Write + ?Sized)) -> fmt::Result {
    if matches!(wire, [0, ..] | []) {
        return out.write_char('.');
    }
    for label in crate::name::labels(wire) {
        for &octet in label {
            match octet {
                b'"' | b'(' | b')' | b'.' | b';' | b'\\' | b'@' | b'$' => {
                    out.write_char('\\')?;
                    out.write_char(char::from(octet))?;
                }
                b'!'..=b'~' => out.write_char(char::from(octet))?,
                _ => write!(out, "\\{octet:03}")?,
            }
        }
        out.write_char('.')?;
    }
    Ok(())
}

/// Writes octets as a quoted string, which may be longer than a character-string.
pub(crate) fn write_quoted(octets: &[u8], out: &mut (impl fmt::Write + ?Sized)) -> fmt::Result {
    out.write_char('"')?;
    for &octet in octets {
        match octet {
            b'"' | b'\\' => {
                out.write_char('\\')?;
                out.write_char(char::from(octet))?;
            }
            b' '..=b'~' => out.write_char(char::from(octet))?,
            _ => write!(out, "\\{octet:03}")?,
        }
    }
    out.write_char('"')
}

/// Appends the octets that a quoted or unquoted string denotes, of any length. After an error `out`
/// may hold some of them.
pub(crate) fn read_string(token: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    let (text, quoted) = match token {
        [b'"', inside @ .., b'"'] => (inside, true),
        [b'"', ..] => return Err(TextError::OpenQuote),
        _ => (token, false),
    };
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'"' {
            return Err(if quoted { TextError::OpenQuote } else { TextError::StrayQuote });
        }
        let (octet, next) = unescape(text, at)?;
        out.push(octet);
        at = next;
    }
    Ok(())
}

/// A run of characters without white space, or a quoted string with its quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    /// The characters, with escapes not resolved.
    pub text: &'a [u8],
    /// Number of octets before the token in its line, for error messages.
    pub column: usize,
}

/// Splits a line into tokens at white space that is neither quoted nor escaped.
///
/// A quote begins a new token, except after `=`: `alpn="h2,h3"` is one token (RFC 9460 §2.1).
pub fn tokens(line: &[u8]) -> impl Iterator<Item = Result<Token<'_>, TextError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += line.get(at..)?.iter().position(|octet| !octet.is_ascii_whitespace())?;
        let column = at;
        let end = token_end(line, at);
        at = end.unwrap_or(line.len());
        Some(end.map(|end| Token { text: &line[column..end], column }))
    })
}

/// Returns the offset after the token that begins at `start`.
fn token_end(line: &[u8], start: usize) -> Result<usize, TextError> {
    let mut at = start;
    while let Some(&octet) = line.get(at) {
        match octet {
            b'\\' => at += 2,
            b'"' if at == start || line[at - 1] == b'=' => return quote_end(line, at + 1),
            b'"' => return Ok(at),
            _ if octet.is_ascii_whitespace() => return Ok(at),
            _ => at += 1,
        }
    }
    Ok(at.min(line.len()))
}

/// Returns the offset after the quote that closes the string whose content begins at `start`.
fn quote_end(line: &[u8], start: usize) -> Result<usize, TextError> {
    let mut at = start;
    while let Some(&octet) = line.get(at) {
        match octet {
            b'\\' => at += 2,
            b'"' => return Ok(at + 1),
            _ => at += 1,
        }
    }
    Err(TextError::OpenQuote)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_name(text: &str, expected: Result<&[u8], TextError>) {
        let mut out = [0; MAX_NAME];
        let read = name_to_wire(text.as_bytes(), Some(b"\x07example\0"), &mut out);
        assert_eq!(read.map(|len| &out[..len]), expected, "{text}");
    }

    #[test]
    fn names_are_read_absolute_relative_and_escaped() {
        check_name(".", Ok(b"\0"));
        check_name("@", Ok(b"\x07example\0"));
        check_name("www", Ok(b"\x03www\x07example\0"));
        check_name("a.b.", Ok(b"\x01a\x01b\0"));
        check_name("a\\.b.c.", Ok(b"\x03a.b\x01c\0"));
        check_name("a\\046b.", Ok(b"\x03a.b\0"));
        check_name("\\000\\255.", Ok(b"\x02\x00\xff\0"));
        check_name("\\@.", Ok(b"\x01@\0"));
        check_name("a\\.", Ok(b"\x02a.\x07example\0"));
    }

    #[test]
    fn malformed_names_are_refused() {
        for text in ["", "..", ".a", "a..b", "a.."] {
            check_name(text, Err(TextError::EmptyLabel));
        }
        for text in ["a\\", "\\256.", "\\1.", "\\12", "\\1a2."] {
            check_name(text, Err(TextError::Escape));
        }
        check_name(&"a".repeat(64), Err(TextError::LabelTooLong));
        check_name(&"a.".repeat(128), Err(TextError::NameTooLong));
        check_name(&"a".repeat(300), Err(TextError::NameTooLong));
        let mut out = [0; MAX_NAME];
        assert_eq!(name_to_wire(b"www", None, &mut out), Err(TextError::Relative));
        assert_eq!(name_to_wire(b"@", None, &mut out), Err(TextError::Relative));
    }

    #[test]
    fn the_longest_name_fits() {
        let mut out = [0; MAX_NAME];
        assert_eq!(name_to_wire("a.".repeat(127).as_bytes(), None, &mut out), Ok(255));
        assert_eq!(name_to_wire("a.".repeat(123).as_bytes(), None, &mut out), Ok(247));
        let origin = Some(&b"\x06origin\0"[..]);
        assert_eq!(
            name_to_wire(&b"a.".repeat(124)[..247], origin, &mut out),
            Err(TextError::NameTooLong)
        );
        assert_eq!(name_to_wire(&b"a.".repeat(123)[..245], origin, &mut out), Ok(254));
    }

    #[test]
    fn written_names_are_read_back() {
        for wire in [
            &b"\0"[..],
            b"\x03www\x07example\0",
            b"\x05a.b\\c\x01@\0",
            b"\x08\x00\x20\x7f\xff\"();\x02$x\0",
        ] {
            let mut text = String::new();
            write_name(wire, &mut text).unwrap();
            let mut out = [0; MAX_NAME];
            let len = name_to_wire(text.as_bytes(), None, &mut out).unwrap();
            assert_eq!(&out[..len], wire, "{text}");
        }
    }

    #[test]
    fn names_are_written_as_dig_does() {
        let mut text = String::new();
        write_name(b"\x04a.b \x03\xe4@$\0", &mut text).unwrap();
        assert_eq!(text, "a\\.b\\032.\\228\\@\\$.");
    }

    fn split(line: &str) -> Result<Vec<&str>, TextError> {
        tokens(line.as_bytes())
            .map(|token| token.map(|token| str::from_utf8(token.text).unwrap()))
            .collect()
    }

    #[test]
    fn tokens_end_at_white_space_and_quotes() {
        assert_eq!(split("  a\tb \r\n"), Ok(vec!["a", "b"]));
        assert_eq!(split(r#""a b""c" d"e""#), Ok(vec!["\"a b\"", "\"c\"", "d", "\"e\""]));
        assert_eq!(split(r#"k="a b" x"#), Ok(vec!["k=\"a b\"", "x"]));
        assert_eq!(split(r#""a\" b" c\ d"#), Ok(vec!["\"a\\\" b\"", "c\\ d"]));
        assert_eq!(split("a\\"), Ok(vec!["a\\"]));
        assert_eq!(split(r#"a "b"#), Err(TextError::OpenQuote));
        assert_eq!(split(r#""a\""#), Err(TextError::OpenQuote));
        assert_eq!(split(""), Ok(vec![]));
    }

    fn string(token: &str) -> Result<Vec<u8>, TextError> {
        let mut out = Vec::new();
        read_string(token.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn strings_are_read_quoted_and_unquoted() {
        assert_eq!(string("plain"), Ok(b"plain".to_vec()));
        assert_eq!(string(r#""two words""#), Ok(b"two words".to_vec()));
        assert_eq!(string(r#""""#), Ok(b"".to_vec()));
        assert_eq!(string(r#"\"\\\065\;"#), Ok(b"\"\\A;".to_vec()));
        assert_eq!(string(r#"a="b""#), Err(TextError::StrayQuote));
        assert_eq!(string(r#""a\""#), Err(TextError::Escape));
        assert_eq!(string(r#"""#), Err(TextError::OpenQuote));
    }
}
