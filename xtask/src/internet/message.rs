//! The part of the wire format that a comparison needs (RFC 1035 §4). It is independent of the code
//! under test.

use std::collections::BTreeSet;
use std::fmt;

/// The types that are queried or shown by name.
const TYPES: &[(u16, &str)] = &[
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (15, "MX"),
    (16, "TXT"),
    (28, "AAAA"),
    (33, "SRV"),
    (39, "DNAME"),
    (43, "DS"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (50, "NSEC3"),
    (51, "NSEC3PARAM"),
    (255, "ANY"),
];
const RCODES: &[&str] = &["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];

const NOERROR: u16 = 0;
const NXDOMAIN: u16 = 3;

pub(super) const NS: u16 = 2;
pub(super) const CNAME: u16 = 5;
const SOA: u16 = 6;
const MX: u16 = 15;
const SRV: u16 = 33;
pub(super) const DNAME: u16 = 39;
pub(super) const DS: u16 = 43;
pub(super) const RRSIG: u16 = 46;
const OPT: u16 = 41;
pub(super) const ANY: u16 = 255;

/// The announced UDP size, as recommended since the DNS flag day of 2020.
const UDP_PAYLOAD: [u8; 2] = 1232_u16.to_be_bytes();
/// Maximum number of compression pointers. A name of 255 octets cannot contain more.
const MOST_POINTERS: usize = 128;

/// Returns the mnemonic of a type.
pub(super) fn type_name(kind: u16) -> String {
    let known = TYPES.iter().find(|(number, _)| *number == kind);
    known.map_or_else(|| format!("TYPE{kind}"), |(_, name)| (*name).to_owned())
}

/// A question.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Question {
    /// The absolute name, in lower case.
    pub(super) name: String,
    pub(super) kind: u16,
    pub(super) is_dnssec_ok: bool,
    pub(super) is_checking_disabled: bool,
}

impl Question {
    /// Returns the query in wire format. A query without DO has AD set, which also requests AD in
    /// the answer (RFC 6840 §5.7).
    pub(super) fn wire(&self, id: u16) -> Vec<u8> {
        let mut wire = id.to_be_bytes().to_vec();
        let ad = if self.is_dnssec_ok { 0 } else { 0x20 };
        let cd = if self.is_checking_disabled { 0x10 } else { 0 };
        wire.extend([1, ad | cd, 0, 1, 0, 0, 0, 0, 0, 1]);
        for label in self.name.split('.').filter(|label| !label.is_empty()) {
            wire.push(label.len() as u8);
            wire.extend(label.bytes());
        }
        wire.push(0);
        wire.extend(self.kind.to_be_bytes());
        wire.extend([0, 1]);
        wire.extend([0, 0, OPT as u8]);
        wire.extend(UDP_PAYLOAD);
        wire.extend([0, 0, if self.is_dnssec_ok { 0x80 } else { 0 }, 0, 0, 0]);
        wire
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, type_name(self.kind))?;
        f.write_str(if self.is_dnssec_ok { " +do" } else { "" })?;
        f.write_str(if self.is_checking_disabled { " +cd" } else { "" })
    }
}

/// A record of an answer, without its TTL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record {
    pub(super) owner: String,
    pub(super) kind: u16,
    /// The data of the record. Names are expanded and in lower case, other data is hexadecimal, and
    /// an RRSIG lacks its signature.
    pub(super) data: String,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.owner, type_name(self.kind), self.data)
    }
}

/// The parts of an answer that are compared.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) rcode: u16,
    pub(super) is_authentic: bool,
    pub(super) records: BTreeSet<Record>,
}

impl Answer {
    /// Returns whether the answer is data or a negative response. The records of an error response
    /// mean nothing.
    pub(super) const fn is_conclusive(&self) -> bool {
        matches!(self.rcode, NOERROR | NXDOMAIN)
    }

    /// Returns the name of the RCODE.
    pub(super) fn rcode_name(&self) -> String {
        RCODES
            .get(usize::from(self.rcode))
            .map_or_else(|| format!("RCODE{}", self.rcode), |name| (*name).to_owned())
    }
}

/// Returns the name in lower case and the type of a query, or `None` if the query is malformed.
pub(super) fn question_of(query: &[u8]) -> Option<String> {
    let mut cursor = Cursor { message: query, at: 12 };
    let name = cursor.name()?;
    Some(format!("{name} {}", type_name(cursor.number()?)))
}

/// A response.
pub(super) enum Reply {
    Whole(Answer),
    /// The response is truncated, so the query must be repeated over TCP.
    Truncated,
}

/// Parses a response to the query with this id. Returns `None` if the id differs or the response is
/// malformed.
pub(super) fn read(message: &[u8], id: u16) -> Option<Reply> {
    let header = message.first_chunk::<12>()?;
    if header[..2] != id.to_be_bytes() || header[2] & 0x80 == 0 {
        return None;
    }
    if header[2] & 2 != 0 {
        return Some(Reply::Truncated);
    }
    let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let mut cursor = Cursor { message, at: 12 };
    for _ in 0..count(4) {
        cursor.name()?;
        cursor.take(4)?;
    }
    let mut answer = Answer {
        rcode: u16::from(header[3] & 15),
        is_authentic: header[3] & 0x20 != 0,
        records: BTreeSet::new(),
    };
    for _ in 0..count(6) {
        let (record, _) = cursor.record()?;
        answer.records.insert(record);
    }
    for _ in 0..usize::from(count(8)) + usize::from(count(10)) {
        let (record, ttl) = cursor.record()?;
        if record.kind == OPT {
            answer.rcode |= u16::from(ttl[0]) << 4;
        }
    }
    Some(Reply::Whole(answer))
}

struct Cursor<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let bytes = self.message.get(self.at..self.at + length)?;
        self.at += length;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        let mut after = None;
        let mut pointers = 0;
        loop {
            let length = usize::from(self.take(1)?[0]);
            if length >= 0xc0 {
                let low = usize::from(self.take(1)?[0]);
                after.get_or_insert(self.at);
                pointers += 1;
                if pointers > MOST_POINTERS {
                    return None;
                }
                self.at = (length & 0x3f) << 8 | low;
            } else if length == 0 {
                self.at = after.unwrap_or(self.at);
                return Some(if name.is_empty() { ".".to_owned() } else { name });
            } else {
                let label = self.take(length)?;
                name.push_str(&String::from_utf8_lossy(label).to_ascii_lowercase());
                name.push('.');
            }
        }
    }

    /// Returns a record and its TTL field.
    fn record(&mut self) -> Option<(Record, [u8; 4])> {
        let owner = self.name()?;
        let kind = self.number()?;
        self.take(2)?;
        let ttl = self.take(4)?.try_into().ok()?;
        let length = usize::from(self.number()?);
        let end = self.at + length;
        let data = self.data(kind, end)?;
        self.at = end;
        Some((Record { owner, kind, data }, ttl))
    }

    fn data(&mut self, kind: u16, end: usize) -> Option<String> {
        Some(match kind {
            NS | CNAME | DNAME => self.name()?,
            SOA => format!("{} {} {}", self.name()?, self.name()?, self.hexadecimal(end)?),
            MX => format!("{} {}", self.number()?, self.name()?),
            SRV => {
                format!("{} {} {} {}", self.number()?, self.number()?, self.number()?, self.name()?)
            }
            RRSIG => self.signature()?,
            _ => self.hexadecimal(end)?,
        })
    }

    /// Reads the fields of a signature: type covered, algorithm, labels, key tag and signer.
    fn signature(&mut self) -> Option<String> {
        let covered = type_name(self.number()?);
        let [algorithm, labels] = [self.take(1)?[0], self.take(1)?[0]];
        self.take(12)?;
        let tag = self.number()?;
        Some(format!("{covered} {algorithm} {labels} {tag} {}", self.name()?))
    }

    fn hexadecimal(&mut self, end: usize) -> Option<String> {
        let bytes = self.take(end.checked_sub(self.at)?)?;
        Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question {
            name: "a.Com.".to_owned(),
            kind: CNAME,
            is_dnssec_ok: true,
            is_checking_disabled: false,
        }
    }

    #[test]
    fn a_query_carries_its_flags() {
        let wire = question().wire(7);
        assert_eq!(wire[..4], [0, 7, 1, 0]);
        assert_eq!(wire[wire.len() - 4], 0x80);
        let plain = Question { is_dnssec_ok: false, is_checking_disabled: true, ..question() };
        assert_eq!(plain.wire(7)[3], 0x30);
        assert_eq!(plain.to_string(), "a.Com. CNAME +cd");
    }

    #[test]
    fn an_answer_is_read_with_its_names_expanded() {
        let mut wire = question().wire(7);
        let additional = wire.split_off(wire.len() - 11);
        wire[2..4].copy_from_slice(&[0x81, 0xa3]);
        wire[7] = 1;
        wire.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 4, 1, b'B', 0xc0, 14]);
        wire.extend(additional);
        let Some(Reply::Whole(answer)) = read(&wire, 7) else { panic!("unread") };
        assert_eq!((answer.rcode_name().as_str(), answer.is_authentic), ("NXDOMAIN", true));
        assert_eq!(answer.records.first().unwrap().to_string(), "a.com. CNAME b.com.");
        assert!(read(&wire, 8).is_none());
        assert!((0..wire.len()).all(|length| read(&wire[..length], 7).is_none()));
    }

    #[test]
    fn pointers_in_a_circle_are_refused() {
        let mut wire = question().wire(7);
        wire[2] |= 0x80;
        wire[12..14].copy_from_slice(&[0xc0, 12]);
        assert!(read(&wire, 7).is_none());
    }
}
