//! Rows of the table `records` in a database of PowerDNS.
//!
//! The columns differ from entries of a master file in several ways: all names are absolute and
//! have no final dot, MX and SRV have their first number in `prio`, fields of a SOA may be missing,
//! and a text may have no quotes. `ordername` and `auth`, which serve PowerDNS's own lookups, are
//! not needed.

use std::borrow::Cow;

use avocet_wire::rdata::{self, RdataError};
use avocet_wire::{NameBuf, Rtype, text};
use thiserror::Error;

/// The wire form of the root, to which names without a final dot are relative here.
const ROOT: &[u8] = &[0];
/// Types of records that only PowerDNS can answer.
const OWN_TYPES: [&str; 5] = ["LUA", "URL", "CURL", "MBOXFW", "ADDR"];
/// Maximum number of octets of a character-string.
const MAX_STRING: usize = 255;
/// Maximum number of octets of the data of a record.
const MAX_DATA: usize = 65_535;
/// The numeric fields of an SOA record that may be missing, with PowerDNS's defaults: serial,
/// refresh, retry, expire, minimum. The serial of the provider later replaces this serial.
const SOA_DEFAULTS: [&str; 5] = ["0", "10800", "3600", "604800", "3600"];

/// A row of the table `records`.
#[derive(Clone, Copy, Debug)]
pub struct PowerDnsRow<'r> {
    /// The column `name`: the owner.
    pub name: &'r str,
    /// The column `type`. It is `None` for a name that only has names below it.
    pub rtype: Option<&'r str>,
    /// The column `ttl`, in seconds.
    pub ttl: Option<i64>,
    /// The column `prio`: the first number of MX and SRV records.
    pub prio: Option<i64>,
    /// The column `content`: the data of the record.
    pub content: &'r str,
}

/// The meaning of a row.
#[derive(PartialEq, Eq, Debug)]
pub enum PowerDnsContent {
    /// A record.
    Record(Box<PowerDnsRecord>),
    /// A name without records, which exists only because of names below it. The zone needs no
    /// entry.
    Nothing,
    /// A record of a type that only PowerDNS can answer.
    OwnType,
}

/// A record from a row.
#[derive(PartialEq, Eq, Debug)]
pub struct PowerDnsRecord {
    /// The owner.
    pub owner: NameBuf,
    /// The TTL in seconds, if the row has one.
    pub ttl_secs: Option<u32>,
    /// The type.
    pub rtype: Rtype,
    /// The data in the syntax of a master file, with absolute names.
    pub data: String,
}

/// The problem with a row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PowerDnsFault {
    /// The owner is malformed.
    #[error("its name is malformed: {0}")]
    Name(text::TextError),
    /// The type is unknown.
    #[error("there is no such type of record")]
    Type,
    /// The TTL is out of range.
    #[error("its ttl is not a number from 0 to 2147483647")]
    Ttl,
    /// The priority is out of range.
    #[error("its prio is not a number from 0 to 65535")]
    Prio,
    /// A character-string is malformed.
    #[error("its text has a quote or a backslash that is not escaped")]
    Text,
    /// The data of a text record are too long.
    #[error("its text has more than {MAX_DATA} octets")]
    TooLong,
    /// The data of the record are malformed.
    #[error("its content: {0}")]
    Data(RdataError),
}

/// Reads a row of the table. `zone` is the name of the zone with its final dot.
///
/// # Errors
/// A column is malformed.
pub fn read_powerdns_row(
    row: &PowerDnsRow<'_>,
    zone: &str,
) -> Result<PowerDnsContent, PowerDnsFault> {
    let mnemonic = row.rtype.unwrap_or_default().to_ascii_uppercase();
    if mnemonic.is_empty() {
        return Ok(PowerDnsContent::Nothing);
    }
    if OWN_TYPES.contains(&&*mnemonic) {
        return Ok(PowerDnsContent::OwnType);
    }
    let known = rdata::from_mnemonic(&mnemonic).map(Rtype);
    let rtype =
        known.filter(|rtype| rtype.0 != 0 && !rtype.is_meta()).ok_or(PowerDnsFault::Type)?;
    let owner = owner(row.name)?;
    let ttl_secs = row.ttl.map(|ttl| u32::try_from(ttl).ok().filter(|ttl| *ttl < 1 << 31));
    let ttl_secs = ttl_secs.map(|ttl| ttl.ok_or(PowerDnsFault::Ttl)).transpose()?;
    let mut data = Vec::new();
    match &*mnemonic {
        "TXT" | "SPF" => strings(row.content, &mut data)?,
        _ => {
            let content = content(row, &mnemonic, zone)?;
            rdata::parse(rtype.0, &content, ROOT, &mut data).map_err(PowerDnsFault::Data)?;
        }
    }
    let data = rdata::display(rtype.0, &data).to_string();
    let record = PowerDnsRecord { owner, ttl_secs, rtype, data };
    Ok(PowerDnsContent::Record(Box::new(record)))
}

fn owner(name: &str) -> Result<NameBuf, PowerDnsFault> {
    let mut wire = [0; 255];
    let len = text::name_to_wire(name.as_bytes(), Some(ROOT), &mut wire);
    let len = len.map_err(PowerDnsFault::Name)?;
    NameBuf::from_wire(&wire[..len]).map_err(|_| PowerDnsFault::Name(text::TextError::NameTooLong))
}

/// Converts the data of a record to the syntax of a master file. Names are relative to the root.
fn content<'r>(
    row: &PowerDnsRow<'r>,
    mnemonic: &str,
    zone: &str,
) -> Result<Cow<'r, str>, PowerDnsFault> {
    let fields = row.content.split_whitespace().count();
    match mnemonic {
        "MX" if fields < 2 => with_prio(row),
        "SRV" if fields < 4 => with_prio(row),
        "SOA" => Ok(whole_soa(row.content, zone).into()),
        _ => Ok(row.content.into()),
    }
}

fn with_prio<'r>(row: &PowerDnsRow<'r>) -> Result<Cow<'r, str>, PowerDnsFault> {
    let prio = u16::try_from(row.prio.unwrap_or(0)).map_err(|_| PowerDnsFault::Prio)?;
    Ok(format!("{prio} {}", row.content).into())
}

/// Completes the data of an SOA record with defaults. The mailbox may be written with an `@`.
fn whole_soa(content: &str, zone: &str) -> String {
    let mut fields = content.split_whitespace();
    let primary = fields.next().unwrap_or_default();
    let mailbox = match fields.next() {
        None => format!("hostmaster.{zone}"),
        Some(name) => match name.split_once('@') {
            Some((local, "")) => format!("{}.{zone}", local.replace('.', "\\.")),
            Some((local, host)) => format!("{}.{host}", local.replace('.', "\\.")),
            None => name.to_owned(),
        },
    };
    let mut soa = format!("{primary} {mailbox}");
    let mut usual = SOA_DEFAULTS.into_iter();
    for field in fields {
        usual.next();
        soa = soa + " " + field;
    }
    usual.fold(soa, |soa, field| soa + " " + field)
}

/// Appends the data of a text record. Text without quotes is a single string; a string that is too
/// long is split.
fn strings(content: &str, out: &mut Vec<u8>) -> Result<(), PowerDnsFault> {
    if content.len() > 4 * MAX_DATA {
        return Err(PowerDnsFault::TooLong);
    }
    let content = content.trim_ascii();
    if !content.starts_with('"') {
        let mut rest = content.as_bytes();
        append_string(&unquoted(&mut rest, None)?, out);
    } else {
        let mut rest = content.as_bytes();
        while let Some((b'"', behind)) = rest.split_first() {
            rest = behind;
            append_string(&unquoted(&mut rest, Some(b'"'))?, out);
            rest = rest.trim_ascii_start();
        }
        if !rest.is_empty() {
            return Err(PowerDnsFault::Text);
        }
    }
    if out.len() > MAX_DATA { Err(PowerDnsFault::TooLong) } else { Ok(()) }
}

fn append_string(octets: &[u8], out: &mut Vec<u8>) {
    if octets.is_empty() {
        out.push(0);
    }
    for part in octets.chunks(MAX_STRING) {
        // The part has at most 255 octets, so its length fits.
        out.push(part.len() as u8);
        out.extend_from_slice(part);
    }
}

/// Takes the octets up to `end`, without escapes, and drops `end` itself.
fn unquoted(rest: &mut &[u8], end: Option<u8>) -> Result<Vec<u8>, PowerDnsFault> {
    let mut octets = Vec::new();
    loop {
        let text = *rest;
        match text {
            [] if end.is_none() => return Ok(octets),
            [] | [b'\\'] => return Err(PowerDnsFault::Text),
            [b'\\', a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', behind @ ..] => {
                let digits = [a, b, c].map(|digit| u32::from(*digit - b'0'));
                let value = digits.into_iter().fold(0, |sum, digit| sum * 10 + digit);
                octets.push(u8::try_from(value).map_err(|_| PowerDnsFault::Text)?);
                *rest = behind;
            }
            [b'\\', octet, behind @ ..] => {
                octets.push(*octet);
                *rest = behind;
            }
            [octet, behind @ ..] => {
                *rest = behind;
                if Some(*octet) == end {
                    return Ok(octets);
                }
                octets.push(*octet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rtype: &str, prio: Option<i64>, content: &str) -> Result<String, PowerDnsFault> {
        let rtype = Some(rtype);
        let row = PowerDnsRow { name: "www.Z.example", rtype, ttl: Some(60), prio, content };
        read_powerdns_row(&row, "z.example.").map(|read| match read {
            PowerDnsContent::Record(record) => {
                assert_eq!(
                    (record.owner.to_string(), record.ttl_secs),
                    ("www.Z.example.".to_owned(), Some(60))
                );
                format!("{} {}", record.rtype, record.data)
            }
            other => format!("{other:?}"),
        })
    }

    #[track_caller]
    fn check(rtype: &str, prio: Option<i64>, content: &str, expected: &str) {
        assert_eq!(read(rtype, prio, content).unwrap(), expected);
    }

    #[track_caller]
    fn check_fault(rtype: &str, prio: Option<i64>, content: &str, expected: &str) {
        let fault = read(rtype, prio, content).unwrap_err().to_string();
        assert!(fault.contains(expected), "{fault}");
    }

    #[test]
    fn names_are_absolute_without_a_final_dot() {
        check("A", None, "192.0.2.1", "A 192.0.2.1");
        check("cname", None, "web.z.example", "CNAME web.z.example.");
        check("NS", Some(0), "ns.z.example.", "NS ns.z.example.");
        check("PTR", None, "a\\.b.example", "PTR a\\.b.example.");
        check("SVCB", None, "1 web.example alpn=h2", "SVCB 1 web.example. alpn=\"h2\"");
        check("RP", None, "me.z.example t.z.example", "RP me.z.example. t.z.example.");
        check("TYPE65280", None, "\\# 2 0a0b", "TYPE65280 \\# 2 0A0B");
    }

    #[test]
    fn priorities_are_in_their_own_column() {
        check("MX", Some(10), "mx.z.example", "MX 10 mx.z.example.");
        check("MX", None, "mx.z.example", "MX 0 mx.z.example.");
        check("MX", Some(0), "20 mx.z.example", "MX 20 mx.z.example.");
        check("SRV", Some(1), "2 443 web.z.example", "SRV 1 2 443 web.z.example.");
        check("SRV", None, "1 2 443 web.z.example", "SRV 1 2 443 web.z.example.");
        check_fault("MX", Some(65_536), "mx.z.example", "its prio");
        check_fault("MX", Some(-1), "mx.z.example", "its prio");
    }

    #[test]
    fn missing_fields_of_a_soa_have_defaults() {
        let rest = "10800 3600 604800 3600";
        check("SOA", None, "ns h.z.example 7 1 2 3 4", "SOA ns. h.z.example. 7 1 2 3 4");
        check("SOA", None, "ns", &format!("SOA ns. hostmaster.z.example. 0 {rest}"));
        check("SOA", None, "ns a.b@z.example 9", &format!("SOA ns. a\\.b.z.example. 9 {rest}"));
        check("SOA", None, "ns me@", &format!("SOA ns. me.z.example. 0 {rest}"));
        check_fault("SOA", None, "", "");
        check_fault("SOA", None, "ns h 1 2 3 4 5 6", "follows");
    }

    #[test]
    fn texts_have_quotes_or_none_and_any_length() {
        check("TXT", None, "\"a;b\" \"c\"", "TXT \"a;b\" \"c\"");
        check("TXT", None, "v=spf1 a -all", "TXT \"v=spf1 a -all\"");
        check("TXT", None, "a\\\"b", "TXT \"a\\\"b\"");
        check("TXT", None, "\"\"", "TXT \"\"");
        check("TXT", None, "", "TXT \"\"");
        check("TXT", None, "\"ç\\195\"", "TXT \"\\195\\167\\195\"");
        check("TXT", None, "\"a\u{1}\nb\"", "TXT \"a\\001\\010b\"");
        let long = "x".repeat(300);
        let cut = format!("TXT \"{}\" \"{}\"", &long[..255], &long[255..]);
        check("TXT", None, &format!("\"{long}\""), &cut);
        check("TXT", None, &long, &cut);
        let (whole, more) = ("y".repeat(65_279), "y".repeat(65_536));
        assert_eq!(read("TXT", None, &whole).unwrap().len(), 65_279 + 3 * 256 + 3);
        check_fault("TXT", None, &more, "more than 65535");
        check_fault("TXT", None, &more.repeat(5), "more than 65535");
        for bad in ["\"open", "\"a\"b", "a\\", "\"\\256\""] {
            check_fault("TXT", None, bad, "escaped");
        }
    }

    #[test]
    fn rows_without_a_record_are_known() {
        check("", None, "", "Nothing");
        for rtype in ["lua", "URL"] {
            check(rtype, None, "A \"ifportup(443, {'192.0.2.1'})\"", "OwnType");
        }
        let row =
            PowerDnsRow { name: "a.z.example", rtype: None, ttl: None, prio: None, content: "" };
        assert_eq!(read_powerdns_row(&row, "z.example.").unwrap(), PowerDnsContent::Nothing);
    }

    #[test]
    fn hostile_rows_are_faults() {
        check_fault("A", None, "192.0.2.1\nx 1 A 192.0.2.2", "follows");
        check_fault("A", None, "192.0.2", "IPv4");
        check_fault("AXFR", None, "", "no such type");
        check_fault("NOTHING", None, "", "no such type");
        check_fault("CNAME", None, &"a.".repeat(200), "255 octets");
        check_fault("CNAME", None, "", "");
        let row = |name: &'static str, ttl: i64| {
            let row = PowerDnsRow {
                name,
                rtype: Some("A"),
                ttl: Some(ttl),
                prio: None,
                content: "192.0.2.1",
            };
            read_powerdns_row(&row, "z.example.").unwrap_err()
        };
        for ttl in [-1, 1 << 31, i64::MAX] {
            assert_eq!(row("a.z.example", ttl), PowerDnsFault::Ttl);
        }
        assert_eq!(row("", 1), PowerDnsFault::Name(text::TextError::EmptyLabel));
        assert_eq!(row("a..b", 1), PowerDnsFault::Name(text::TextError::EmptyLabel));
    }
}
