//! A reader for master files (RFC 1035 §5), with parentheses, comments, `$ORIGIN`, `$TTL` and
//! omitted owners and TTLs.
//!
//! It yields one record at a time, so that an error costs only that record. `$INCLUDE` is refused,
//! because this crate opens no files.
//!
//! ```
//! use avocet_wire::code::Rtype;
//! use avocet_wire::master::MasterFile;
//! use avocet_wire::name::NameBuf;
//!
//! let zone = b"$TTL 1h\nwww.example. A 192.0.2.1\n            AAAA 2001:db8::1\n";
//! let records: Vec<_> = MasterFile::new(zone, NameBuf::ROOT).collect();
//! assert_eq!(records.len(), 2);
//! let (line, Ok(record)) = &records[1] else { panic!("a valid record") };
//! assert_eq!(*line, 3);
//! assert_eq!(record.owner.wire(), b"\x03www\x07example\x00");
//! assert_eq!((record.rtype, record.ttl_secs), (Rtype::AAAA, 3600));
//! ```

use std::borrow::Cow;
use std::fmt;

use crate::name::NameBuf;
use crate::rdata::{self, RdataError};
use crate::text::{self, TextError, Token};
use crate::{Class, Rtype};

/// Most octets of one entry, over all its lines: the longest record data with each octet written as
/// `\DDD`.
pub const MAX_ENTRY: usize = 4 * 65_535 + 1024;
/// Tokens of an entry that fit without an allocation. Most entries have fewer.
const FEW_TOKENS: usize = 8;

/// An error in an entry of a master file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MasterError {
    /// The entry is longer than [`MAX_ENTRY`].
    TooLong,
    /// A parenthesis or a quote is not closed.
    Open,
    /// A name or another token is malformed.
    Text(TextError),
    /// Neither this entry nor an earlier one has an owner.
    NoOwner,
    /// The entry has no type, or an unknown one.
    NoType,
    /// The directive or its value is unknown.
    Directive,
    /// The record data is malformed.
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
            Self::Directive => {
                f.write_str("only $ORIGIN with a name and $TTL with a TTL are supported")
            }
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

/// A record of a master file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MasterRecord {
    /// The folded owner.
    pub owner: NameBuf,
    /// The TTL in seconds, from this entry or inherited from an earlier one.
    pub ttl_secs: u32,
    /// The class, by default IN.
    pub class: Class,
    /// The type.
    pub rtype: Rtype,
    /// The record data, uncompressed.
    pub rdata: Vec<u8>,
}

impl MasterRecord {
    /// Returns an empty record for [`MasterFile::read_into`] to fill.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            owner: NameBuf::ROOT,
            ttl_secs: 0,
            class: Class::IN,
            rtype: Rtype(0),
            rdata: Vec::new(),
        }
    }
}

/// A reader of records. As an iterator it yields the line number at which each entry begins, and
/// the record or its error.
pub struct MasterFile<'t> {
    rest: &'t [u8],
    line: u32,
    origin: NameBuf,
    owner: Option<NameBuf>,
    default_ttl: Option<u32>,
    last_ttl: u32,
}

impl<'t> MasterFile<'t> {
    /// Creates a reader of `text`. Names are relative to `origin` until an `$ORIGIN` directive.
    #[must_use]
    pub const fn new(text: &'t [u8], origin: NameBuf) -> Self {
        Self { rest: text, line: 1, origin, owner: None, default_ttl: None, last_ttl: 0 }
    }

    /// Reads the next record into `record` and reuses its memory. After an error the content of
    /// `record` is unspecified.
    pub fn read_into(
        &mut self,
        record: &mut MasterRecord,
    ) -> Option<(u32, Result<(), MasterError>)> {
        while !self.rest.is_empty() {
            let line = self.line;
            match self.next_entry().and_then(|entry| self.read_entry(&entry, record)) {
                Ok(Entry::Record) => return Some((line, Ok(()))),
                Ok(Entry::Other) => {}
                Err(error) => return Some((line, Err(error))),
            }
        }
        None
    }

    fn read_entry(
        &mut self,
        entry: &[u8],
        record: &mut MasterRecord,
    ) -> Result<Entry, MasterError> {
        let (mut few, mut many, mut count) =
            ([Token { text: b"", column: 0 }; FEW_TOKENS], Vec::new(), 0);
        for token in text::tokens(entry) {
            let token = token?;
            match few.get_mut(count) {
                Some(place) => *place = token,
                None if many.is_empty() => many = few.iter().copied().chain([token]).collect(),
                None => many.push(token),
            }
            count += 1;
        }
        self.read_tokens(if many.is_empty() { &few[..count] } else { &many }, record)
    }

    fn read_tokens(
        &mut self,
        mut tokens: &[Token<'_>],
        record: &mut MasterRecord,
    ) -> Result<Entry, MasterError> {
        let Some(first) = tokens.first() else { return Ok(Entry::Other) };
        if first.text.starts_with(b"$") {
            return self.direct(tokens).map(|()| Entry::Other);
        }
        if first.column == 0 {
            record.owner.read_text(first.text, &self.origin)?;
            self.owner = Some(record.owner);
            tokens = &tokens[1..];
        } else if let Some(owner) = self.owner {
            record.owner = owner;
        }
        let mut ttl = None;
        record.class = Class::IN;
        while let Some((token, rest)) = tokens.split_first() {
            match (ttl_secs(token.text), class_of(token.text)) {
                (Some(secs), _) if ttl.is_none() => ttl = Some(secs),
                (_, Some(written)) => record.class = written,
                _ => break,
            }
            tokens = rest;
        }
        let (rtype, data) = tokens.split_first().ok_or(MasterError::NoType)?;
        let rtype = str::from_utf8(rtype.text)
            .ok()
            .and_then(rdata::from_mnemonic)
            .ok_or(MasterError::NoType)?;
        if self.owner.is_none() {
            return Err(MasterError::NoOwner);
        }
        record.rtype = Rtype(rtype);
        record.ttl_secs = ttl.or(self.default_ttl).unwrap_or(self.last_ttl);
        self.last_ttl = record.ttl_secs;
        record.rdata.clear();
        rdata::parse_tokens(rtype, data, self.origin.wire(), &mut record.rdata)
            .map_err(MasterError::Data)?;
        Ok(Entry::Record)
    }

    fn direct(&mut self, tokens: &[Token<'_>]) -> Result<(), MasterError> {
        let [directive, value] = tokens else { return Err(MasterError::Directive) };
        if directive.text.eq_ignore_ascii_case(b"$ORIGIN") {
            let mut origin = NameBuf::ROOT;
            origin.read_text(value.text, &self.origin)?;
            self.origin = origin;
        } else if directive.text.eq_ignore_ascii_case(b"$TTL") {
            self.default_ttl = Some(ttl_secs(value.text).ok_or(MasterError::Directive)?);
        } else {
            return Err(MasterError::Directive);
        }
        Ok(())
    }

    /// Returns the next entry on a single line, without comments and parentheses.
    fn next_entry(&mut self) -> Result<Cow<'t, [u8]>, MasterError> {
        self.plain_entry()
            .map_or_else(|| self.folded_entry().map(Cow::Owned), |entry| Ok(Cow::Borrowed(entry)))
    }

    /// Returns the next entry without a copy if it is an undivided part of its line.
    fn plain_entry(&mut self) -> Option<&'t [u8]> {
        let plain = self.rest.iter().take_while(|octet| !IS_SPECIAL[usize::from(**octet)]).count();
        let (entry, after) = self.rest.split_at_checked(plain).filter(|_| plain <= MAX_ENTRY)?;
        let ended = match after {
            [] => 0,
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            [b';', comment @ ..] => match comment.iter().position(|octet| *octet == b'\n') {
                Some(end) => end + 2,
                None => after.len(),
            },
            _ => return None,
        };
        let (end, rest) = after.split_at(ended);
        self.line = self.line.saturating_add(end.ends_with(b"\n").into());
        self.rest = rest;
        Some(entry)
    }

    /// Returns the next entry, whatever it contains.
    fn folded_entry(&mut self) -> Result<Vec<u8>, MasterError> {
        let (mut entry, mut at, mut depth, mut is_quoted) = (Vec::new(), 0, 0_u32, false);
        while let Some(&octet) = self.rest.get(at) {
            at += 1;
            match octet {
                b'\n' => {
                    self.line = self.line.saturating_add(1);
                    if depth == 0 {
                        break;
                    }
                    // Within parentheses a line break is white space, even inside quotes.
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
        let mut record = MasterRecord::empty();
        let (line, read) = self.read_into(&mut record)?;
        Some((line, read.map(|()| record)))
    }
}

/// The kind of an entry.
enum Entry {
    Record,
    /// A directive or an empty entry.
    Other,
}

/// Octets that end an entry or need more than a plain copy.
const IS_SPECIAL: [bool; 256] = {
    let mut is_special = [false; 256];
    let (special, mut at) = (*b"\n\r\\\";()", 0);
    while at < special.len() {
        is_special[special[at] as usize] = true;
        at += 1;
    }
    is_special
};

/// Parses a TTL: a number of seconds, or numbers with units such as `2h30m`.
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
    known
        .iter()
        .find(|(name, _)| token.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        let text = "$TTL 2h\n@ IN NS A\n  NS b.test.\nWww 60 A 192.0.2.1\n$ORIGIN sub\nx IN 1d1h \
                    AAAA 2001:db8::1\n";
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
            [
                "1: a.example. 0 TXT \"x ; y\" \"(\"",
                "3: b.example. 0 TXT \";\"",
                "4: c.example. 0 CNAME .",
            ]
        );
    }

    #[test]
    fn a_fault_costs_one_entry() {
        let text = "a A 1.2.3\nb A 192.0.2.1\nc NOPE x\n  \nd.. A 192.0.2.1\n$INCLUDE x\ne A \
                    192.0.2.2\nf ( A";
        let found = read(text);
        assert_eq!(found.len(), 7);
        assert_eq!(found[1], "2: b.example. 0 A 192.0.2.1");
        assert_eq!(found[2], "3: the record has no known type");
        assert_eq!(found[5], "7: e.example. 0 A 192.0.2.2");
        assert_eq!(found[6], "8: a parenthesis or a quote is not closed");
        assert_eq!(read(" A 192.0.2.1"), ["1: the record has no owner"]);
    }

    proptest! {
        #[test]
        fn an_entry_is_the_same_by_both_ways(text in "([ab;()\"\\\\ \t\r\n]|\r\n|ab. 60 IN CNAME \
                                                      .\n){0,24}") {
            let (mut plain, mut folded) = (MasterFile::new(text.as_bytes(), NameBuf::ROOT), None);
            while !plain.rest.is_empty() {
                let before = (plain.rest, plain.line);
                let Some(entry) = plain.plain_entry() else {
                    let _ = plain.folded_entry();
                    continue;
                };
                let other = folded.insert(MasterFile::new(before.0, NameBuf::ROOT));
                other.line = before.1;
                prop_assert_eq!(other.folded_entry(), Ok(entry.to_vec()), "{:?}", before.0);
                prop_assert_eq!((other.rest, other.line), (plain.rest, plain.line));
            }
        }
    }

    #[test]
    fn an_entry_of_many_tokens_is_read_whole() {
        let words =
            |count: usize| (0..count).map(|number| format!(" \"{number}\"")).collect::<String>();
        for count in [1, FEW_TOKENS - 2, FEW_TOKENS - 1, 3 * FEW_TOKENS] {
            let words = words(count);
            assert_eq!(read(&format!("a TXT{words}")), [format!("1: a.example. 0 TXT{words}")]);
        }
    }

    #[test]
    fn an_endless_entry_is_bounded() {
        let text = format!("a TXT {}\nb A 192.0.2.1\n", "x".repeat(2 * MAX_ENTRY));
        assert_eq!(read(&text), ["1: the entry is too long", "2: b.example. 0 A 192.0.2.1"]);
    }
}
