//! A reader for master files (RFC 1035 §5), with parentheses, comments, `$ORIGIN`, `$TTL`,
//! `$GENERATE`, `$INCLUDE` and omitted owners and TTLs.
//!
//! The reader yields one record at a time, so an error affects only that record. This crate opens
//! no files: an `$INCLUDE` is reported to a caller that permits it, and an error otherwise.
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

mod entry;
mod generate;

use std::fmt;

use crate::name::NameBuf;
use crate::rdata::{self, RdataError};
use crate::text::{TextError, Token};
use crate::{Class, Rtype};

use entry::{Entries, Misread};
pub use generate::MAX_GENERATED;
use generate::Range;

/// Maximum number of octets of the tokens of one entry, over all its lines: enough for the longest
/// record data with each octet written as `\DDD`.
pub const MAX_ENTRY: usize = 4 * 65_535 + 1024;
/// The longest TTL (RFC 2181 §8). A longer TTL counts as 0.
const MAX_TTL_SECS: u32 = i32::MAX as u32;

/// An error in an entry of a master file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MasterError {
    /// The entry is longer than [`MAX_ENTRY`].
    TooLong,
    /// A parenthesis is not closed.
    Open,
    /// A parenthesis was not opened.
    Unopened,
    /// A quote is not closed on its line.
    OpenQuote,
    /// A name or another token is malformed.
    Text(TextError),
    /// Neither this entry nor an earlier one has an owner.
    NoOwner,
    /// The entry has no type, or an unknown one.
    NoType,
    /// The type never occurs in zones: it is only for queries, for transfers or within one message
    /// (RFC 6895 §3.1).
    MetaType,
    /// The directive is unknown or not permitted, or its value is malformed.
    Directive,
    /// The range of `$GENERATE` is malformed.
    Range,
    /// `$GENERATE` yields more than [`MAX_GENERATED`] records.
    RangeTooLong,
    /// A template of `$GENERATE` is malformed.
    Template,
    /// The record data is malformed.
    Data(RdataError),
}

impl fmt::Display for MasterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the entry is too long"),
            Self::Open => f.write_str("a parenthesis is not closed"),
            Self::Unopened => f.write_str("a parenthesis is closed that was not opened"),
            Self::OpenQuote => f.write_str("a quote is not closed on its line"),
            Self::Text(error) => error.fmt(f),
            Self::NoOwner => f.write_str("the record has no owner"),
            Self::NoType => f.write_str("the record has no known type"),
            Self::MetaType => f.write_str("the type is for queries or messages, not for zones"),
            Self::Directive => f.write_str(
                "the directive is not supported here, or its value is missing or malformed",
            ),
            Self::Range => f.write_str("the range is malformed: START-STOP/STEP is expected"),
            Self::RangeTooLong => write!(f, "the range has more than {MAX_GENERATED} numbers"),
            Self::Template => {
                f.write_str("the template is malformed: ${OFFSET,WIDTH,BASE} is expected after $")
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

/// An error, and where it is in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MasterFault {
    /// The line, from 1.
    pub line: u32,
    /// The column in octets, from 1.
    pub column: u32,
    /// The error.
    pub error: MasterError,
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

/// Another file to read in place of an entry (`$INCLUDE`). An origin or owner that the file sets
/// applies only within the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Include {
    /// The path as written, without quotes.
    pub path: Vec<u8>,
    /// The origin at the start of the file.
    pub origin: NameBuf,
}

/// An entry that [`MasterFile::read_entry`] returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MasterEntry {
    /// A record, in the caller's buffer.
    Record,
    /// A file to include.
    Include(Box<Include>),
}

/// The TTLs that apply to entries without a TTL.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct InheritedTtls {
    /// The value of the last `$TTL`, or the minimum of an SOA record without a TTL.
    default: Option<u32>,
    /// The TTL of the last record (RFC 1035 §5.1).
    last: Option<u32>,
}

/// A reader of records. As an iterator it yields the line number at which each entry begins, and
/// the record or its error.
pub struct MasterFile<'t> {
    entries: Entries<'t>,
    tokens: Vec<Token<'t>>,
    origin: NameBuf,
    owner: Option<NameBuf>,
    ttls: InheritedTtls,
    series: Option<Series<'t>>,
    is_zone: IsZone,
}

/// Whether the text is a zone file, in which `$INCLUDE` and `$GENERATE` are permitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsZone {
    Yes,
    No,
}

/// The remaining records of a `$GENERATE`.
struct Series<'t> {
    range: Range,
    /// The template of the owner, and the tokens after it.
    owner: &'t [u8],
    rest: Vec<Token<'t>>,
}

impl<'t> MasterFile<'t> {
    /// Creates a reader of an untrusted text, in which `$INCLUDE` and `$GENERATE` are errors. Names
    /// are relative to `origin` until an `$ORIGIN` directive.
    #[must_use]
    pub const fn new(text: &'t [u8], origin: NameBuf) -> Self {
        Self {
            entries: Entries::new(text),
            tokens: Vec::new(),
            origin,
            owner: None,
            ttls: InheritedTtls { default: None, last: None },
            series: None,
            is_zone: IsZone::No,
        }
    }

    /// Creates a reader of a zone file, in which all directives are permitted.
    #[must_use]
    pub fn of_zone(text: &'t [u8], origin: NameBuf, ttls: InheritedTtls) -> Self {
        Self { ttls, is_zone: IsZone::Yes, ..Self::new(text, origin) }
    }

    /// Returns the TTLs that the next entry inherits, which also apply to an included file.
    #[must_use]
    pub const fn ttls(&self) -> InheritedTtls {
        self.ttls
    }

    /// Sets the TTLs that the next entry inherits; called after an included file.
    pub const fn set_ttls(&mut self, ttls: InheritedTtls) {
        self.ttls = ttls;
    }

    /// Returns the line and column, from 1, at which the last entry begins.
    #[must_use]
    pub fn place(&self) -> (u32, u32) {
        self.entries.place(self.tokens.first().map_or(0, |token| token.column))
    }

    /// Returns the line, from 1, on which the last entry begins.
    #[must_use]
    pub const fn line(&self) -> u32 {
        self.entries.start_line()
    }

    /// Reads the next record into `record` and reuses its memory. After an error the content of
    /// `record` is unspecified.
    pub fn read_into(
        &mut self,
        record: &mut MasterRecord,
    ) -> Option<(u32, Result<(), MasterError>)> {
        let read = self.read_entry(record)?.map(|_| ()).map_err(|fault| fault.error);
        Some((self.line(), read))
    }

    /// Reads the next record into `record`, or returns a file to include. After an error the
    /// content of `record` is unspecified.
    pub fn read_entry(
        &mut self,
        record: &mut MasterRecord,
    ) -> Option<Result<MasterEntry, MasterFault>> {
        let read = loop {
            if let Some(read) = self.generate(record) {
                break read.map(|()| MasterEntry::Record);
            }
            if self.entries.is_at_end() {
                return None;
            }
            let mut tokens = std::mem::take(&mut self.tokens);
            let read =
                self.entries.next(&mut tokens).and_then(|()| self.read_tokens(&tokens, record));
            self.tokens = tokens;
            match read {
                Ok(Some(entry)) => break Ok(entry),
                Ok(None) => {}
                Err(misread) => break Err(misread),
            }
        };
        Some(read.map_err(|Misread { offset, error }| {
            let (line, column) = self.entries.place(offset);
            MasterFault { line, column, error }
        }))
    }

    fn read_tokens(
        &mut self,
        tokens: &[Token<'t>],
        record: &mut MasterRecord,
    ) -> Result<Option<MasterEntry>, Misread> {
        let Some((first, rest)) = tokens.split_first() else { return Ok(None) };
        if first.text.starts_with(b"$") {
            return self.direct(first, rest);
        }
        let tokens = if first.column == 0 {
            let read = record.owner.read_text(first.text, &self.origin);
            read.map_err(|error| Misread::new(0, error.into()))?;
            self.owner = Some(record.owner);
            rest
        } else {
            match self.owner {
                Some(owner) => record.owner = owner,
                None => return Err(Misread::new(first.column, MasterError::NoOwner)),
            }
            tokens
        };
        let end = tokens.last().unwrap_or(first).column;
        self.read_record(tokens, record).map_err(|mut misread| {
            misread.offset = if misread.offset == 0 { end } else { misread.offset };
            misread
        })?;
        Ok(Some(MasterEntry::Record))
    }

    /// Reads TTL, class, type and data. An error with offset 0 concerns the end of the entry.
    fn read_record(
        &mut self,
        mut tokens: &[Token<'_>],
        record: &mut MasterRecord,
    ) -> Result<(), Misread> {
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
        let (token, data) = tokens.split_first().ok_or(Misread::new(0, MasterError::NoType))?;
        let failed = |error| Misread::new(token.column, error);
        let rtype = Rtype(type_of(token.text).ok_or_else(|| failed(MasterError::NoType))?);
        if is_meta(rtype) {
            return Err(failed(MasterError::MetaType));
        }
        record.rtype = rtype;
        record.rdata.clear();
        rdata::parse_tokens(rtype.0, data, self.origin.wire(), &mut record.rdata).map_err(
            |error| {
                let offset = if error.offset == 0 { token.column } else { error.offset };
                Misread::new(offset, MasterError::Data(error))
            },
        )?;
        record.ttl_secs = self.ttl_of(ttl, record);
        Ok(())
    }

    /// Returns the TTL of a record: `written` if the entry states it, otherwise the inherited TTL.
    fn ttl_of(&mut self, written: Option<u32>, record: &MasterRecord) -> u32 {
        let inherited = self.ttls.default.or(self.ttls.last);
        let minimum = record.rdata.last_chunk().map(|minimum| u32::from_be_bytes(*minimum));
        let ttl_secs = match (written.or(inherited), record.rtype) {
            (Some(ttl_secs), _) => ttl_secs,
            (None, Rtype::SOA) => {
                self.ttls.default = minimum;
                minimum.unwrap_or(0)
            }
            (None, _) => 0,
        };
        self.ttls.last = Some(ttl_secs);
        if ttl_secs > MAX_TTL_SECS { 0 } else { ttl_secs }
    }

    fn direct(
        &mut self,
        directive: &Token<'t>,
        values: &[Token<'t>],
    ) -> Result<Option<MasterEntry>, Misread> {
        let is = |name: &[u8]| directive.text.eq_ignore_ascii_case(name);
        let refused = Misread::new(directive.column, MasterError::Directive);
        match (values, self.is_zone) {
            ([value], _) if is(b"$ORIGIN") => self.origin = self.origin_at(value)?,
            ([value], _) if is(b"$TTL") => {
                let ttl = ttl_secs(value.text);
                self.ttls.default =
                    Some(ttl.ok_or(Misread::new(value.column, MasterError::Directive))?);
            }
            ([path, origin @ ..], IsZone::Yes) if origin.len() <= 1 && is(b"$INCLUDE") => {
                let origin = origin.first().map_or(Ok(self.origin), |name| self.origin_at(name))?;
                let inside = |text: &'t [u8]| text.strip_prefix(b"\"")?.strip_suffix(b"\"");
                let path = inside(path.text).unwrap_or(path.text).to_vec();
                return Ok(Some(MasterEntry::Include(Include { path, origin }.into())));
            }
            ([range, owner, rest @ ..], IsZone::Yes) if is(b"$GENERATE") => {
                let parsed = Range::parse(range.text);
                let range = parsed.map_err(|error| Misread::new(range.column, error))?;
                let (owner, rest) = (owner.text, rest.to_vec());
                self.series = Some(Series { range, owner, rest });
            }
            _ => return Err(refused),
        }
        Ok(None)
    }

    fn origin_at(&self, value: &Token<'_>) -> Result<NameBuf, Misread> {
        let mut origin = NameBuf::ROOT;
        let read = origin.read_text(value.text, &self.origin);
        read.map(|()| origin).map_err(|error| Misread::new(value.column, error.into()))
    }

    /// Reads the next record of the current `$GENERATE`, if there is one. An error ends the
    /// `$GENERATE`.
    fn generate(&mut self, record: &mut MasterRecord) -> Option<Result<(), Misread>> {
        let mut series = self.series.take()?;
        let number = series.range.advance()?;
        let read = self.generated(&series, number, record);
        if read.is_ok() {
            self.series = Some(series);
        }
        Some(read)
    }

    fn generated(
        &mut self,
        series: &Series<'t>,
        number: i64,
        record: &mut MasterRecord,
    ) -> Result<(), Misread> {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        let templates = series.rest.iter().map(|token| token.text);
        for template in std::iter::once(series.owner).chain(templates) {
            let expanded = generate::expand(template, number, &mut text);
            expanded.map_err(|error| Misread::new(0, error))?;
            ends.push(text.len());
        }
        let read = record.owner.read_text(&text[..ends[0]], &self.origin);
        read.map_err(|error| Misread::new(0, error.into()))?;
        let bounds = ends.iter().zip(&ends[1..]).zip(&series.rest);
        let mut tokens: Vec<_> = bounds
            .map(|((start, end), token)| Token { text: &text[*start..*end], column: token.column })
            .collect();
        let quoted = generate::quoted_data(&tokens);
        if let (Some(data), Some(column)) = (&quoted, tokens.last().map(|token| token.column)) {
            let mut parts = Vec::new();
            let read = Entries::new(data).next(&mut parts);
            read.map_err(|Misread { error, .. }| Misread::new(column, error))?;
            tokens.pop();
            tokens.extend(parts.iter().map(|part| Token { column, ..*part }));
        }
        self.read_record(&tokens, record)
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

/// Reports whether a type never occurs in a zone: OPT and the types 128 to 255.
const fn is_meta(rtype: Rtype) -> bool {
    matches!(rtype.0, 0 | 41 | 128..=255)
}

/// Returns the code of a type. Frequent types need no search.
fn type_of(token: &[u8]) -> Option<u16> {
    match token {
        b"A" => Some(1),
        b"AAAA" => Some(28),
        b"CNAME" => Some(5),
        b"PTR" => Some(12),
        b"TXT" => Some(16),
        b"RRSIG" => Some(46),
        b"NSEC" => Some(47),
        b"NSEC3" => Some(50),
        b"*" => None,
        _ => str::from_utf8(token).ok().and_then(rdata::from_mnemonic),
    }
}

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
    let named = known.iter().find(|(name, _)| token.eq_ignore_ascii_case(name.as_bytes()));
    if let Some((_, class)) = named {
        return Some(*class);
    }
    // RFC 3597 §5.
    let (prefix, digits) = token.split_at_checked(5)?;
    let digits = str::from_utf8(digits).ok().filter(|_| prefix.eq_ignore_ascii_case(b"CLASS"))?;
    digits.parse().ok().filter(|_| !digits.starts_with('+')).map(Class)
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
        assert_eq!(found[6], "8: a parenthesis is not closed");
        assert_eq!(read(" A 192.0.2.1"), ["1: the record has no owner"]);
    }

    #[test]
    fn faults_have_line_and_column() {
        let places = |text: &str| {
            let mut file =
                MasterFile::of_zone(text.as_bytes(), NameBuf::ROOT, InheritedTtls::default());
            let mut record = MasterRecord::empty();
            std::iter::from_fn(|| file.read_entry(&mut record))
                .filter_map(|read| read.err())
                .map(|fault| (fault.line, fault.column))
                .collect::<Vec<_>>()
        };
        assert_eq!(places("a A 192.0.2\n"), [(1, 5)]);
        assert_eq!(places("a A 192.0.2.1\nb MX ( 10 ; first\n  a..b )\n"), [(3, 3)]);
        assert_eq!(places("a 60 IN NOPE x\n"), [(1, 9)]);
        assert_eq!(places("a TXT (\n \"x\"\n \"y\nb A 1.2.3\n"), [(3, 2), (4, 5)]);
        assert_eq!(places("a A 192.0.2.1 ( ;\n"), [(1, 15)]);
        assert_eq!(places("$ORIGIN a..b\n$TTL x\n$NOPE\n"), [(1, 9), (2, 6), (3, 1)]);
        assert_eq!(places("a A\n"), [(1, 3)]);
        assert_eq!(places("$GENERATE 1-2 a-$ A 1.2.3\n"), [(1, 21)]);
    }

    #[test]
    fn series_and_included_files_are_for_zones_only() {
        let text = "$TTL 60\nm A 192.0.2.1\n$GENERATE 9-11/2 h$ IN A 192.0.2.$\n TXT x\n$INCLUDE \
                    \"a b\" sub\nc A 192.0.2.1";
        let refused =
            "3: the directive is not supported here, or its value is missing or malformed";
        assert_eq!(read(text)[1], refused);
        let origin = NameBuf::from_wire(b"\x07example\0").unwrap();
        let mut file = MasterFile::of_zone(text.as_bytes(), origin, InheritedTtls::default());
        let (mut record, mut shown) = (MasterRecord::empty(), Vec::new());
        while let Some(entry) = file.read_entry(&mut record) {
            shown.push(match entry.unwrap() {
                MasterEntry::Record => {
                    format!("{} {} {}", record.owner, record.ttl_secs, record.rtype)
                }
                MasterEntry::Include(include) => {
                    let Include { path, origin } = *include;
                    format!("{} at {origin}", String::from_utf8(path).unwrap())
                }
            });
        }
        assert_eq!(
            shown,
            [
                "m.example. 60 A",
                "h9.example. 60 A",
                "h11.example. 60 A",
                "m.example. 60 TXT",
                "a b at sub.example.",
                "c.example. 60 A"
            ]
        );
    }

    #[test]
    fn ttls_are_inherited_from_the_directive_the_soa_and_the_last_record() {
        let soa = "@ SOA . . 1 2 3 4 300\n";
        let ttls = |text: &str| {
            let records = MasterFile::new(text.as_bytes(), NameBuf::ROOT);
            records.map(|(_, record)| record.unwrap().ttl_secs).collect::<Vec<_>>()
        };
        assert_eq!(ttls(&format!("{soa}a 60 A 192.0.2.1\n A 192.0.2.2\n")), [300, 60, 300]);
        assert_eq!(ttls("a 60 A 192.0.2.1\n A 192.0.2.2\n"), [60, 60]);
        assert_eq!(ttls("$TTL 1h\na 60 A 192.0.2.1\n A 192.0.2.2\n"), [60, 3600]);
        assert_eq!(ttls("a 2147483648 A 192.0.2.1\n"), [0]);
    }

    #[test]
    fn ttl_and_class_come_in_any_order() {
        for head in ["60 IN", "IN 60", "CLASS1 1m", "in 1M"] {
            assert_eq!(read(&format!("a {head} A 192.0.2.1")), ["1: a.example. 60 A 192.0.2.1"]);
        }
    }

    #[test]
    fn an_entry_of_many_tokens_is_read_whole() {
        let words =
            |count: usize| (0..count).map(|number| format!(" \"{number}\"")).collect::<String>();
        for count in [1, 7, 24] {
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
