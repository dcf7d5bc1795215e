//! The queries of a run in wire form, written once before the clock starts.

use avocet_wire::builder::{Full, OptFields};
use avocet_wire::header::{HEADER_LEN, RD};
use avocet_wire::{Builder, Class, Rcode, Rtype};

use crate::error::LoadError;

/// Maximum number of octets of a query: a header, the longest name and an OPT record.
pub(crate) const MAX_QUERY: usize = 512;

/// Maximum number of queries. 4 million take about 300 MB.
pub(crate) const MAX_QUESTIONS: usize = 4_000_000;

/// Number of digits of the label that makes a name unique.
const DIGITS: usize = 16;

/// The part of a query other than its question, which all queries of a run share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    /// The UDP size in the OPT record. `None` omits the OPT record.
    pub edns_size: Option<u16>,
    /// The DO flag.
    pub dnssec_ok: bool,
}

impl Form {
    /// Writes a query with ID zero, and returns its length and the end of its question.
    fn write(&self, qname: &[u8], qtype: Rtype, out: &mut [u8]) -> Result<(usize, usize), Full> {
        let mut message = Builder::new(out, MAX_QUERY, 0, RD)?;
        message.question(qname, qtype, Class::IN)?;
        let question_end = message.len();
        if let Some(udp_size) = self.edns_size {
            message.opt(
                &OptFields { udp_size, rcode: Rcode::NOERROR, dnssec_ok: self.dnssec_ok },
                &[],
            )?;
        }
        Ok((message.finish(), question_end))
    }
}

/// The location of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QuerySpan {
    start: usize,
    len: u16,
    question_end: u16,
}

/// A sequence of queries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    octets: Vec<u8>,
    places: Vec<QuerySpan>,
}

impl Questions {
    /// Adds a query for an uncompressed name. Queries beyond [`MAX_QUESTIONS`] are refused.
    pub(crate) fn push(
        &mut self,
        form: &Form,
        qname: &[u8],
        qtype: Rtype,
    ) -> Result<(), LoadError> {
        let mut buffer = [0; MAX_QUERY];
        let (len, end) = form.write(qname, qtype, &mut buffer).map_err(|_| LoadError::LongQuery)?;
        self.push_octets(buffer.get(..len).unwrap_or_default(), end)
    }

    /// Adds a recorded query. Its question ends at `question_end`.
    pub(crate) fn push_octets(
        &mut self,
        query: &[u8],
        question_end: usize,
    ) -> Result<(), LoadError> {
        if self.places.len() == MAX_QUESTIONS {
            return Err(LoadError::TooManyQueries(MAX_QUESTIONS));
        }
        let start = self.octets.len();
        self.octets.extend_from_slice(query);
        self.places.push(QuerySpan {
            start,
            len: query.len() as u16,
            question_end: question_end as u16,
        });
        Ok(())
    }

    /// Returns the number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Sorts queries by length, because the kernel accepts queries of equal length in one call. The
    /// sort is stable.
    pub(crate) fn sort_by_length(&mut self) {
        self.places.sort_by_key(|place| place.len);
    }

    /// Reports whether there are no queries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the query with this index, or an empty slice if there is none.
    #[inline]
    #[must_use]
    pub fn query(&self, index: usize) -> &[u8] {
        let Some(place) = self.places.get(index) else { return &[] };
        self.octets.get(place.start..place.start + usize::from(place.len)).unwrap_or_default()
    }

    /// Returns the octets of the question of a query.
    #[inline]
    #[must_use]
    pub fn question(&self, index: usize) -> &[u8] {
        let Some(place) = self.places.get(index) else { return &[] };
        self.octets
            .get(place.start + HEADER_LEN..place.start + usize::from(place.question_end))
            .unwrap_or_default()
    }
}

/// Queries for previously unused names of one zone that differ in one label.
#[derive(Clone, Debug)]
pub(crate) struct Unique {
    query: Vec<u8>,
    question_end: usize,
    digits_at: usize,
    salt: u64,
}

impl Unique {
    /// Creates queries for `LETTER` + 16 digits under `zone`. A different salt yields different
    /// names.
    pub(crate) fn under(
        zone: &[u8],
        letter: u8,
        form: &Form,
        salt: u64,
    ) -> Result<Self, LoadError> {
        let mut name = vec![(1 + DIGITS) as u8, letter];
        name.extend_from_slice(&[b'0'; DIGITS]);
        name.extend_from_slice(zone);
        let mut buffer = [0; MAX_QUERY];
        if name.len() > avocet_wire::name::MAX_NAME {
            return Err(LoadError::LongZoneName);
        }
        let (len, question_end) =
            form.write(&name, Rtype::A, &mut buffer).map_err(|_| LoadError::LongZoneName)?;
        let query = buffer.get(..len).unwrap_or_default().to_vec();
        Ok(Self { query, question_end, digits_at: HEADER_LEN + 2, salt })
    }

    /// Writes the query with a serial number to `out`, which has room for [`MAX_QUERY`], and
    /// returns its length.
    #[inline]
    pub(crate) fn write(&self, serial: u64, out: &mut [u8]) -> usize {
        let Some(place) = out.get_mut(..self.query.len()) else { return 0 };
        place.copy_from_slice(&self.query);
        // A bijection: different serials yield different names, in no sorted order.
        let mut number = crate::random::scramble(serial ^ self.salt);
        for digit in place.iter_mut().skip(self.digits_at).take(DIGITS) {
            *digit = b"0123456789abcdef"[(number & 15) as usize];
            number >>= 4;
        }
        self.query.len()
    }

    /// Returns the offset at which the question ends.
    pub(crate) fn question_end(&self) -> usize {
        self.question_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_wire::QueryView;
    use std::collections::HashSet;

    const FORM: Form = Form { edns_size: Some(1232), dnssec_ok: true };

    #[test]
    fn queries_are_well_formed() {
        let mut questions = Questions::default();
        questions.push(&FORM, b"\x01a\x00", Rtype::AAAA).unwrap();
        questions
            .push(&Form { edns_size: None, dnssec_ok: false }, b"\x02bc\x00", Rtype::A)
            .unwrap();
        assert_eq!(questions.question(1), b"\x02bc\x00\x00\x01\x00\x01");
        assert_eq!(questions.query(1).len(), 12 + 8);
        assert!(QueryView::parse(questions.query(0)).is_ok());
        assert_eq!(questions.query(2), b"");
    }

    #[test]
    fn unique_names_do_not_repeat() {
        let unique = Unique::under(b"\x04test\x00", b'm', &FORM, 99).unwrap();
        let mut out = [0; MAX_QUERY];
        let mut names = HashSet::new();
        for serial in 0..10_000 {
            let len = unique.write(serial, &mut out);
            assert!(QueryView::parse(&out[..len]).is_ok());
            names.insert(out[..unique.question_end()].to_vec());
        }
        assert_eq!(names.len(), 10_000);
    }

    #[test]
    fn a_zone_without_room_is_refused() {
        let zone: Vec<u8> =
            [&[62u8][..], &[b'a'; 62]].concat().repeat(4).into_iter().chain([0]).collect();
        assert!(Unique::under(&zone, b'm', &FORM, 0).is_err());
    }
}
