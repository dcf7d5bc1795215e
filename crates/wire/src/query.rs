//! A single-pass reader of client queries.
//!
//! It classifies malformed queries (RFC 1035 §4.1, RFC 6891 §6, RFC 8906, RFC 9619). The server
//! decides how to respond to each class.

use crate::code::{Class, Rtype};
use crate::edns::{Edns, OPT_LEN};
use crate::folded::FoldedName;
use crate::hash::{HashKey, KEY_ROOM, MAX_QUESTION};
use crate::header::{HEADER_LEN, Header, QR};
use crate::name::MAX_NAME;
use crate::question::Question;
use crate::view::{MessageView, RecordSection};

/// The bits of the flags that hold the OPCODE, zero for QUERY.
const OPCODE: u16 = 0x7800;
/// The three record counts within the four counts of the header.
const RECORD_COUNTS: u64 = 0xffff_ffff_ffff;

/// The reason why a message cannot be answered with data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueryError {
    /// The message is shorter than a header, or is itself a response: the server drops the message
    /// (RFC 1035 §7.3, RFC 5625 §4).
    Ignore,
    /// The OPCODE is not QUERY: NOTIMP (RFC 8906 §3.1.4).
    NotImplemented,
    /// The query has no question: FORMERR, unless it asks for a cookie. See
    /// [`edns_without_question`].
    NoQuestion,
    /// The query is malformed: FORMERR. Holds the offset after the question if the question was
    /// readable.
    Format(Option<u16>),
}

/// A query with one question and at most one OPT record.
///
/// ```
/// use avocet_wire::code::Rtype;
/// use avocet_wire::query::{QueryError, QueryView};
///
/// let query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x00\x00\x01\x00\x01";
/// let view = QueryView::parse(query)?;
/// assert_eq!(view.qname(), b"\x07example\x00");
/// assert_eq!(view.qtype, Rtype::A);
/// assert!(view.edns.is_none());
/// # Ok::<(), QueryError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct QueryView<'a> {
    octets: &'a [u8],
    question_end: u16,
    /// QTYPE.
    pub qtype: Rtype,
    /// QCLASS.
    pub qclass: Class,
    /// The OPT record, if there is one.
    pub edns: Option<Edns<'a>>,
}

impl<'a> QueryView<'a> {
    /// Reads a query. Takes about 4 ns for a query with OPT.
    ///
    /// Assembles the view once, at the end, from values in registers: writing it field by field and
    /// then moving it costs more than the parsing.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Result<Self, QueryError> {
        let &[_, _, flags_high, flags_low, ref counts @ ..] =
            octets.first_chunk::<HEADER_LEN>().ok_or(QueryError::Ignore)?;
        let flags = u16::from_be_bytes([flags_high, flags_low]);
        if flags & QR != 0 {
            return Err(QueryError::Ignore);
        }
        if flags & OPCODE != 0 {
            return Err(QueryError::NotImplemented);
        }
        let counts = u64::from_be_bytes(*counts);
        if counts >> 48 != 1 {
            return Err(if counts >> 48 == 0 {
                QueryError::NoQuestion
            } else {
                QueryError::Format(None)
            });
        }
        let name_end = plain_name_end(octets).ok_or(QueryError::Format(None))?;
        Self::behind_name(octets, name_end, counts & RECORD_COUNTS)
    }

    /// Returns the question as sent, if the message may be a query with one well-formed question.
    /// Does not read past the question.
    #[inline]
    #[must_use]
    pub fn question_of(octets: &'a [u8]) -> Option<&'a [u8]> {
        let &[_, _, flags_high, flags_low, ref counts @ ..] = octets.first_chunk::<HEADER_LEN>()?;
        let is_query = u16::from_be_bytes([flags_high, flags_low]) & (QR | OPCODE) == 0;
        if !is_query || u64::from_be_bytes(*counts) >> 48 != 1 {
            return None;
        }
        octets.get(HEADER_LEN..plain_name_end(octets)? + 4)
    }

    /// Returns the first question of any message, as sent, or `None` if the message has no
    /// well-formed question. Does not read past the question.
    #[must_use]
    pub fn question_behind_header(octets: &'a [u8]) -> Option<&'a [u8]> {
        let header = Header::read(octets)?;
        let end = plain_name_end(octets)? + 4;
        octets.get(HEADER_LEN..end).filter(|_| header.counts[0] > 0)
    }

    /// Reads a query, given the `key` of its question from [`QueryView::question_of`], without
    /// reading the name again.
    #[inline]
    pub fn parse_keyed(octets: &'a [u8], key: &QuestionKey) -> Result<Self, QueryError> {
        let &[_, _, _, _, ref counts @ ..] =
            octets.first_chunk::<HEADER_LEN>().ok_or(QueryError::Ignore)?;
        let name_end = HEADER_LEN + usize::from(key.len).saturating_sub(4);
        Self::behind_name(octets, name_end, u64::from_be_bytes(*counts) & RECORD_COUNTS)
    }

    #[inline(always)]
    fn behind_name(octets: &'a [u8], name_end: usize, records: u64) -> Result<Self, QueryError> {
        let (&[a, b, c, d], rest) = octets
            .get(name_end..)
            .and_then(|rest| rest.split_first_chunk())
            .ok_or(QueryError::Format(None))?;
        let question_end = (name_end + 4) as u16;
        let edns = if records == 0 && rest.is_empty() {
            None
        } else {
            read_rest(octets, records, rest).ok_or(QueryError::Format(Some(question_end)))?
        };
        let qtype = Rtype(u16::from_be_bytes([a, b]));
        let qclass = Class(u16::from_be_bytes([c, d]));
        Ok(Self { octets, question_end, qtype, qclass, edns })
    }

    /// Returns the header.
    #[inline]
    #[must_use]
    pub fn header(&self) -> Header {
        Header::read(self.octets).unwrap_or_default()
    }

    /// Returns the QNAME as sent: uncompressed, in its original case.
    #[inline]
    #[must_use]
    pub fn qname(&self) -> &'a [u8] {
        &self.octets[HEADER_LEN..usize::from(self.question_end) - 4]
    }

    /// Returns the octets of the query.
    #[inline]
    #[must_use]
    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Returns the question as sent: QNAME, QTYPE, QCLASS.
    #[inline]
    #[must_use]
    pub fn question(&self) -> &'a [u8] {
        &self.octets[HEADER_LEN..usize::from(self.question_end)]
    }

    /// Folds and hashes the question. The packet cache and the table of queries in flight use the
    /// key.
    #[inline]
    #[must_use]
    pub fn key(&self, secret: &HashKey, extra: u64) -> QuestionKey {
        QuestionKey::new(self.question(), secret, extra)
    }
}

/// Returns the OPT record of a query without a question, which a client sends to obtain a cookie
/// (RFC 7873 §5.4).
#[must_use]
pub fn edns_without_question(octets: &[u8]) -> Option<Edns<'_>> {
    let header = Header::read(octets)?;
    (header.counts[0] == 0).then(|| read_records(octets))??
}

/// Reads the records after the question, usually a single OPT.
#[inline]
fn read_rest<'a>(octets: &'a [u8], records: u64, rest: &'a [u8]) -> Option<Option<Edns<'a>>> {
    if records == 1
        && let Some((&[0, 0, 41, size_high, size_low, a, b, c, d, len_high, len_low], options)) =
            rest.split_first_chunk::<OPT_LEN>()
    {
        if options.len() != usize::from(u16::from_be_bytes([len_high, len_low])) {
            return None;
        }
        let size = u16::from_be_bytes([size_high, size_low]);
        return Some(Some(Edns::from_fields(size, u32::from_be_bytes([a, b, c, d]), options)));
    }
    read_records(octets)
}

/// Reads any records: skips those of all sections and finds OPT anywhere in the additional section.
/// Returns `None` for a message with TSIG, whose signature must be verified first.
#[cold]
fn read_records(octets: &[u8]) -> Option<Option<Edns<'_>>> {
    let view = MessageView::new(octets).ok()?;
    let mut records = view.records().ok()?;
    let mut edns = None;
    for record in &mut records {
        let record = record.ok()?;
        if record.rtype == Rtype::TSIG {
            return None;
        }
        if record.rtype == Rtype::OPT {
            if edns.is_some() || record.section != RecordSection::Additional {
                return None;
            }
            edns = Some(record.edns().ok()?);
        }
    }
    (records.position() == octets.len()).then_some(edns)
}

/// Returns the offset after the uncompressed name of the first question. A pointer there could only
/// lead into the header, so it is malformed.
#[inline]
fn plain_name_end(octets: &[u8]) -> Option<usize> {
    let mut position = HEADER_LEN;
    loop {
        match *octets.get(position)? {
            0 => {
                let end = position + 1;
                return (end - HEADER_LEN <= MAX_NAME).then_some(end);
            }
            length @ 1..=63 => position += 1 + usize::from(length),
            _ => return None,
        }
    }
}

/// A question and its keyed hash.
///
/// A key is large, so the query path does not move keys: it allocates memory for a key once and
/// reuses the memory.
#[derive(Clone, Copy)]
pub struct QuestionKey {
    /// Keyed hash of the question in lower case and of a word that the caller chooses.
    pub hash: u64,
    len: u16,
    /// The question up to `len`, followed by zeros up to the end of its block of sixteen.
    octets: [u8; KEY_ROOM],
}

impl QuestionKey {
    /// An empty key, which belongs to no question.
    pub const EMPTY: Self = Self { hash: 0, len: 0, octets: [0; KEY_ROOM] };

    /// Creates the key of a question as sent: see [`QuestionKey::read`].
    #[inline]
    #[must_use]
    pub fn new(question: &[u8], secret: &HashKey, extra: u64) -> Self {
        let mut key = Self::EMPTY;
        key.read(question, secret, extra);
        key
    }

    /// Replaces this key with the key of `question`. Folds QNAME, but not QTYPE and QCLASS, whose
    /// octets may equal letters, and hashes all three.
    #[inline]
    pub fn read(&mut self, question: &[u8], secret: &HashKey, extra: u64) {
        let question = &question[..question.len().min(MAX_QUESTION)];
        self.len = question.len() as u16;
        self.hash = secret.fold_and_hash(question, extra, &mut self.octets);
    }

    /// Empties the key.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Reports whether the key belongs to no question.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the question. The key must not be empty.
    #[inline]
    #[must_use]
    pub fn question(&self) -> Question<'_> {
        Question::from_folded_unchecked(&self.octets[..usize::from(self.len)])
    }

    /// Returns QNAME. The key must not be empty.
    #[inline]
    #[must_use]
    pub fn qname(&self) -> FoldedName<'_> {
        self.question().qname()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(counts: [u8; 4], tail: &[u8]) -> Vec<u8> {
        let mut m = vec![1, 2, 1, 0, 0, counts[0], 0, counts[1], 0, counts[2], 0, counts[3]];
        m.extend_from_slice(b"\x03WwW\x07example\x00\x00\x41\x00\x01");
        m.extend_from_slice(tail);
        m
    }

    const OPT: &[u8] = b"\x00\x00\x29\x10\x00\x00\x00\x80\x00\x00\x00";

    #[test]
    fn the_key_folds_the_name_but_not_the_type() {
        let octets = query([1, 0, 0, 1], OPT);
        let view = QueryView::parse(&octets).unwrap();
        let secret = HashKey::new([3; 32]);
        let key = view.key(&secret, 0);
        assert_eq!(view.qname(), b"\x03WwW\x07example\x00");
        assert_eq!(key.question().octets(), b"\x03www\x07example\x00\x00\x41\x00\x01");
        assert_eq!(view.edns.unwrap().udp_size, 4096);
        let lower = octets.to_ascii_lowercase();
        assert_ne!(
            key.hash,
            QueryView::parse(&lower).unwrap().key(&secret, 0).hash,
            "TYPE65 is not TYPE97"
        );
    }

    /// Checks that parsing with the key of the question gives the same result as parsing without.
    #[track_caller]
    fn check_keyed(octets: &[u8]) {
        let plain = QueryView::parse(octets);
        let Some(question) = QueryView::question_of(octets) else {
            return assert!(plain.is_err(), "{octets:?}");
        };
        let key = QuestionKey::new(question, &HashKey::new([3; 32]), 0);
        let parts = |view: &QueryView<'_>| {
            (view.question().to_vec(), view.qtype, view.qclass, view.edns.is_some())
        };
        assert_eq!(
            QueryView::parse_keyed(octets, &key).as_ref().map(parts),
            plain.as_ref().map(parts),
            "{octets:?}"
        );
        assert!(plain.is_err() || plain.is_ok_and(|view| view.question() == question));
    }

    proptest::proptest! {
        #[test]
        fn a_key_read_ahead_changes_nothing(
            at in proptest::collection::vec((0usize..60, proptest::prelude::any::<u8>()), 0..4),
            cut in 0usize..60,
            has_opt in proptest::prelude::any::<bool>(),
        ) {
            let mut octets = if has_opt { query([1, 0, 0, 1], OPT) } else { query([1, 0, 0, 0], b"") };
            octets.truncate(octets.len().saturating_sub(cut % 40));
            for (at, octet) in at {
                if let Some(place) = octets.get_mut(at) {
                    *place = octet;
                }
            }
            check_keyed(&octets);
        }
    }

    #[test]
    fn malformed_queries_are_told_apart() {
        let opt_twice = [OPT, OPT].concat();
        let opt_with_owner = [b"\x01x", OPT].concat();
        for (octets, expected) in [
            (query([1, 0, 0, 0], b""), None),
            (query([1, 0, 0, 1], OPT), None),
            (query([1, 0, 0, 0], b"x"), Some(QueryError::Format(Some(29)))),
            (query([1, 0, 0, 1], &[OPT, b"x"].concat()), Some(QueryError::Format(Some(29)))),
            (query([1, 0, 0, 2], &opt_twice), Some(QueryError::Format(Some(29)))),
            (query([1, 0, 0, 1], &opt_with_owner), Some(QueryError::Format(Some(29)))),
            (query([1, 1, 0, 0], OPT), Some(QueryError::Format(Some(29)))),
            (query([2, 0, 0, 0], b""), Some(QueryError::Format(None))),
            (query([0, 0, 0, 0], b""), Some(QueryError::NoQuestion)),
            (query([1, 0, 0, 1], b""), Some(QueryError::Format(Some(29)))),
            (vec![0; 11], Some(QueryError::Ignore)),
        ] {
            assert_eq!(QueryView::parse(&octets).err(), expected, "{octets:?}");
            check_keyed(&octets);
        }
        let mut response = query([1, 0, 0, 0], b"");
        response[2] |= 0x80;
        assert_eq!(QueryView::parse(&response).err(), Some(QueryError::Ignore));
        let mut notify = query([1, 0, 0, 0], b"");
        notify[2] = 4 << 3;
        assert_eq!(QueryView::parse(&notify).err(), Some(QueryError::NotImplemented));
        let mut pointer = query([1, 0, 0, 0], b"");
        pointer[12] = 0xc0;
        assert_eq!(QueryView::parse(&pointer).err(), Some(QueryError::Format(None)));
    }
}
