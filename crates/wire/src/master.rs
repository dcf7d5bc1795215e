//! Records out of a master file (RFC 1035 §5): parentheses, comments, `$ORIGIN`, `$TTL`, owners and TTLs left out.
//!
//! One record at a time, so that a fault costs one record. `$INCLUDE` is refused: where files are
//! is none of this reader's business.

use std::fmt;

use crate::hash;
use crate::name::{MAX_NAME, NameBuf};
use crate::rdata::{self, RdataError};
use crate::text::{self, TextError, Token};
use crate::{Class, Rtype};

/// Most octets of one entry, however many lines it takes: record data, each octet written as `\DDD`.
pub const MAX_ENTRY: usize = 4 * 65_535 + 1024;

/// Why an entry is no record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MasterError {
    /// Longer than [`MAX_ENTRY`].
    TooLong,
    /// A parenthesis or a quote is not closed.
    Open,
    /// The name, or another token, is malformed.
    Text(TextError),
    /// No owner, neither in this entry nor before it.
    NoOwner,
    /// No type, or one that does not exist.
    NoType,
    /// A directive that is not understood, or its value.
    Directive,
    /// The data are malformed.
    Data(RdataError),
}

impl fmt::Display for MasterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the entry is too long"),
            Self::Open => f.write_str("a parenthesis or a quote is not closed"),
            Self::Text(error) => error.fmt(f),
            Self::NoOwner => f.write_str("the record has no owner"),
            Self::NoType => f.write_str("the record has no known type"),
            Self::Directive => f.write_str("only $ORIGIN and $TTL are understood, with a name and a TTL"),
            Self::Data(error) => write!(f, "the data: {error}"),
        }
    }
}

impl std::error::Error for MasterError {}

impl From<TextError> for MasterError {
    fn from(error: TextError) -> Self {
        Self::Text(error)
    }
}

/// A record as it stands in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MasterRecord {
    /// The folded owner.
    pub owner: NameBuf,
    /// As written, or the last one before it, in seconds.
    pub ttl_secs: u32,
    /// The class; IN where none was written.
    pub class: Class,
    /// The type.
    pub rtype: Rtype,
    /// The data, uncompressed.
    pub rdata: Vec<u8>,
}

/// Reads records one after another: the number of the line where each entry begins, and the record or its fault.
pub struct MasterFile<'t> {
    rest: &'t [u8],
    line: u32,
    origin: NameBuf,
    owner: Option<NameBuf>,
    default_ttl: Option<u32>,
    last_ttl: u32,
}

impl<'t> MasterFile<'t> {
    /// A reader of a text in which names are relative to `origin` until it says otherwise.
    #[must_use]
    pub const fn new(text: &'t [u8], origin: NameBuf) -> Self {
        Self { rest: text, line: 1, origin, owner: None, default_ttl: None, last_ttl: 0 }
    }

    /// The record of an entry; none for a directive and an empty line.
    fn read(&mut self, entry: &[u8]) -> Result<Option<MasterRecord>, MasterError> {
        let tokens: Vec<Token<'_>> = text::tokens(entry).collect::<Result<_, _>>()?;
        let Some(first) = tokens.first() else { return Ok(None) };
        if first.text.starts_with(b"$") {
            return self.direct(&tokens).map(|()| None);
        }
        let mut tokens = &tokens[..];
        if first.column == 0 {
            self.owner = Some(self.name(first.text)?);
            tokens = &tokens[1..];
        }
        let (mut ttl, mut class) = (None, Class::IN);
        while let Some((token, rest)) = tokens.split_first() {
            match (ttl_secs(token.text), class_of(token.text)) {
                (Some(secs), _) if ttl.is_none() => ttl = Some(secs),
                (_, Some(written)) => class = written,
                _ => break,
            }
            tokens = rest;
        }
        let (rtype, data) = tokens.split_first().ok_or(MasterError::NoType)?;
        let rtype = str::from_utf8(rtype.text).ok().and_then(rdata::from_mnemonic).ok_or(MasterError::NoType)?;
        let owner = self.owner.ok_or(MasterError::NoOwner)?;
        let ttl_secs = ttl.or(self.default_ttl).unwrap_or(self.last_ttl);
        self.last_ttl = ttl_secs;
        let mut rdata = Vec::new();
        rdata::parse_tokens(rtype, data, self.origin.wire(), &mut rdata).map_err(MasterError::Data)?;
        Ok(Some(MasterRecord { owner, ttl_secs, class, rtype: Rtype(rtype), rdata }))
    }

    fn direct(&mut self, tokens: &[Token<'_>]) -> Result<(), MasterError> {
        let [directive, value] = tokens else { return Err(MasterError::Directive) };
        if directive.text.eq_ignore_ascii_case(b"$ORIGIN") {
            self.origin = self.name(value.text)?;
        } else if directive.text.eq_ignore_ascii_case(b"$TTL") {
            self.default_ttl = Some(ttl_secs(value.text).ok_or(MasterError::Directive)?);
        } else {
            return Err(MasterError::Directive);
        }
        Ok(())
    }

    fn name(&self, written: &[u8]) -> Result<NameBuf, MasterError> {
        let mut wire = [0; MAX_NAME];
        let len = text::name_to_wire(written, Some(self.origin.wire()), &mut wire)?;
        let mut folded = [0; MAX_NAME];
        hash::fold_into(&wire[..len], &mut folded[..len]);
        NameBuf::from_wire(&folded[..len]).map_err(|_| MasterError::Text(TextError::NameTooLong))
    }

    /// The octets of the next entry, without comments and parentheses and all on one line.
    fn next_entry(&mut self) -> Result<Vec<u8>, MasterError> {
        let (mut entry, mut at, mut depth, mut is_quoted) = (Vec::new(), 0, 0_u32, false);
        while let Some(&octet) = self.rest.get(at) {
            at += 1;
            match octet {
                b'\n' => {
                    self.line = self.line.saturating_add(1);
                    if depth == 0 {
                        break;
                    }
                    // A quote that is open here is closed by nobody's intention.
                    entry.push(b' ');
                }
                b'\\' => {
                    entry.push(octet);
                    if let Some(&escaped) = self.rest.get(at).filter(|next| **next != b'\n') {
                        entry.push(escaped);
                        at += 1;
                    }
                }
                b'"' => {
                    is_quoted = !is_quoted;
                    entry.push(octet);
                }
                b';' if !is_quoted => {
                    let end = self.rest[at..].iter().position(|octet| *octet == b'\n');
                    at = end.map_or(self.rest.len(), |end| at + end);
                }
                b'(' if !is_quoted => {
                    depth += 1;
                    entry.push(b' ');
                }
                b')' if !is_quoted => {
                    depth = depth.saturating_sub(1);
                    entry.push(b' ');
                }
                b'\r' if self.rest.get(at) == Some(&b'\n') => {}
                _ => entry.push(octet),
            }
            if entry.len() > MAX_ENTRY {
                self.skip_line(at);
                return Err(MasterError::TooLong);
            }
        }
        self.rest = &self.rest[at..];
        if depth > 0 || is_quoted { Err(MasterError::Open) } else { Ok(entry) }
    }

    fn skip_line(&mut self, from: usize) {
        let end = self.rest[from..].iter().position(|octet| *octet == b'\n');
        self.rest = end.map_or(&[], |end| &self.rest[from + end + 1..]);
        self.line = self.line.saturating_add(1);
    }
}

impl Iterator for MasterFile<'_> {
    type Item = (u32, Result<MasterRecord, MasterError>);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let line = self.line;
            match self.next_entry().and_then(|entry| self.read(&entry)) {
                Ok(Some(record)) => return Some((line, Ok(record))),
                Ok(None) => {}
                Err(error) => return Some((line, Err(error))),
            }
        }
        None
    }
}

/// Seconds, or numbers with units as `2h30m`.
fn ttl_secs(token: &[u8]) -> Option<u32> {
    let (mut total, mut number, mut has_unit) = (0_u32, None::<u32>, false);
    for octet in token {
        let unit = match octet.to_ascii_lowercase() {
            digit @ b'0'..=b'9' => {
                let digit = u32::from(digit - b'0');
                number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit)?);
                continue;
            }
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return None,
        };
        has_unit = true;
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    match (number, has_unit) {
        (Some(_), true) => None,
        (Some(number), false) => Some(number),
        (None, has_unit) => has_unit.then_some(total),
    }
}

fn class_of(token: &[u8]) -> Option<Class> {
    let known = [("IN", Class::IN), ("CH", Class::CH), ("HS", Class::HS)];
    known.iter().find(|(name, _)| token.eq_ignore_ascii_case(name.as_bytes())).map(|(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let origin = NameBuf::from_wire(b"\x07example\0").unwrap();
        let shown = |(line, record): (u32, Result<MasterRecord, MasterError>)| match record {
            Ok(record) => {
                let data = rdata::display(record.rtype.0, &record.rdata);
                format!("{line}: {} {} {} {data}", record.owner, record.ttl_secs, record.rtype)
            }
            Err(error) => format!("{line}: {error}"),
        };
        MasterFile::new(text.as_bytes(), origin).map(shown).collect()
    }

    #[test]
    fn owners_ttls_and_origins_are_carried_on() {
        let text = "$TTL 2h\n@ IN NS A\n  NS b.test.\nWww 60 A 192.0.2.1\n$ORIGIN sub\nx IN 1d1h AAAA 2001:db8::1\n";
        assert_eq!(
            read(text),
            [
                "2: example. 7200 NS A.example.",
                "3: example. 7200 NS b.test.",
                "4: www.example. 60 A 192.0.2.1",
                "6: x.sub.example. 90000 AAAA 2001:db8::1",
            ]
        );
    }

    #[test]
    fn parentheses_comments_and_quotes_span_and_hide() {
        let text = "a TXT ( \"x ; y\" ; why\r\n  \"(\" )\r\nb TXT \\; ; c\nc CNAME .";
        assert_eq!(
            read(text),
            ["1: a.example. 0 TXT \"x ; y\" \"(\"", "3: b.example. 0 TXT \";\"", "4: c.example. 0 CNAME .",]
        );
    }

    #[test]
    fn a_fault_costs_one_entry() {
        let text = "a A 1.2.3\nb A 192.0.2.1\nc NOPE x\n  \nd.. A 192.0.2.1\n$INCLUDE x\ne A 192.0.2.2\nf ( A";
        let found = read(text);
        assert_eq!(found.len(), 7);
        assert_eq!(found[1], "2: b.example. 0 A 192.0.2.1");
        assert_eq!(found[2], "3: the record has no known type");
        assert_eq!(found[5], "7: e.example. 0 A 192.0.2.2");
        assert_eq!(found[6], "8: a parenthesis or a quote is not closed");
        assert_eq!(read(" A 192.0.2.1"), ["1: the record has no owner"]);
    }

    #[test]
    fn an_endless_entry_is_bounded() {
        let text = format!("a TXT {}\nb A 192.0.2.1\n", "x".repeat(2 * MAX_ENTRY));
        assert_eq!(read(&text), ["1: the entry is too long", "2: b.example. 0 A 192.0.2.1"]);
    }
}
