//! A borrowed view of a whole message, which is read only as far as the caller needs.
//!
//! The view copies and allocates nothing. Creating it checks only that the header is complete; the
//! iterators check each question and record in turn. The counts in the header may be wrong: an
//! iterator ends with an error if the octets end before the counted records.

use std::fmt;

use crate::code::{Class, Rtype};
use crate::edns::{Edns, EdnsError};
use crate::header::{HEADER_LEN, Header};
use crate::name::{self, Hops, NameBuf, NameError};
use crate::rdata::{Data, expand_within};

/// An error that prevents a message from being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The header or a record is cut short.
    Short,
    /// A name is malformed.
    Name(NameError),
    /// The OPT record is malformed or repeated.
    Edns(EdnsError),
    /// Octets follow the last record.
    Trailing,
    /// The message does not have exactly one question.
    Question,
}

impl From<NameError> for WireError {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl From<EdnsError> for WireError {
    fn from(error: EdnsError) -> Self {
        Self::Edns(error)
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("the message ends too early"),
            Self::Name(error) => error.fmt(f),
            Self::Edns(error) => error.fmt(f),
            Self::Trailing => f.write_str("octets follow the last record"),
            Self::Question => f.write_str("not exactly one question"),
        }
    }
}

impl std::error::Error for WireError {}

/// The three sections of records (RFC 1035 §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordSection {
    /// The records that answer the question.
    Answer,
    /// The SOA record of a negative answer, or the NS records of a referral.
    Authority,
    /// Addresses, OPT, TSIG.
    Additional,
}

/// A message with a complete header.
///
/// ```
/// use avocet_wire::code::Rtype;
/// use avocet_wire::view::{MessageView, RecordSection, WireError};
///
/// let response = b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\
///     \x07example\x00\x00\x01\x00\x01\
///     \xc0\x0c\x00\x01\x00\x01\x00\x00\x01\x2c\x00\x04\xc0\x00\x02\x01";
/// let view = MessageView::new(response)?;
/// assert_eq!(view.question()?.qtype, Rtype::A);
/// for record in view.section(RecordSection::Answer)? {
///     let record = record?;
///     assert_eq!(record.ttl_secs(), 300);
///     assert_eq!(record.rdata(), [192, 0, 2, 1]);
/// }
/// # Ok::<(), WireError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MessageView<'a> {
    octets: &'a [u8],
    header: Header,
}

impl<'a> MessageView<'a> {
    /// Creates a view. Fails if the header is incomplete.
    pub fn new(octets: &'a [u8]) -> Result<Self, WireError> {
        let header = Header::read(octets).ok_or(WireError::Short)?;
        Ok(Self { octets, header })
    }

    /// Returns the header.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Returns all octets of the message.
    #[must_use]
    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Returns a lazy iterator over the questions.
    #[must_use]
    pub fn questions(&self) -> Questions<'a> {
        Questions { octets: self.octets, at: HEADER_LEN, left: self.header.counts[0] }
    }

    /// Returns the only question. Zero or several questions are an error (RFC 9619).
    pub fn question(&self) -> Result<QuestionView<'a>, WireError> {
        if self.header.counts[0] != 1 {
            return Err(WireError::Question);
        }
        self.questions().next().unwrap_or(Err(WireError::Question))
    }

    /// Returns a lazy iterator over the records of all three sections, in order.
    pub fn records(&self) -> Result<Records<'a>, WireError> {
        let mut questions = self.questions();
        for question in &mut questions {
            question?;
        }
        let [_, answer, authority, additional] = self.header.counts;
        Ok(Records { octets: self.octets, at: questions.at, left: [answer, authority, additional] })
    }

    /// Returns a lazy iterator over the records of one section.
    pub fn section(&self, wanted: RecordSection) -> Result<Section<'a>, WireError> {
        Ok(Section { records: self.records()?, wanted })
    }

    /// Returns the OPT record of the additional section, if there is one (RFC 6891 §6.1.1).
    pub fn edns(&self) -> Result<Option<Edns<'a>>, WireError> {
        let mut found = None;
        for record in self.section(RecordSection::Additional)? {
            let record = record?;
            if record.rtype == Rtype::OPT {
                if found.is_some() {
                    return Err(EdnsError::Repeated.into());
                }
                found = Some(record.edns()?);
            }
        }
        Ok(found)
    }
}

/// A question in a message.
#[derive(Clone, Copy, Debug)]
pub struct QuestionView<'a> {
    message: &'a [u8],
    at: usize,
    end: usize,
    /// QTYPE.
    pub qtype: Rtype,
    /// QCLASS.
    pub qclass: Class,
}

impl<'a> QuestionView<'a> {
    /// Reads the QNAME.
    pub fn qname(&self) -> Result<NameBuf, NameError> {
        NameBuf::read(self.message, self.at)
    }

    /// Returns the octets of the question as sent.
    #[must_use]
    pub fn octets(&self) -> &'a [u8] {
        &self.message[self.at..self.end]
    }
}

/// An iterator over questions.
#[derive(Clone, Debug)]
pub struct Questions<'a> {
    octets: &'a [u8],
    at: usize,
    left: u16,
}

impl<'a> Questions<'a> {
    fn read(&mut self) -> Result<QuestionView<'a>, WireError> {
        let at = self.at;
        let fixed = name::skip(self.octets, at)?;
        let end = fixed + 4;
        let octets: &[u8; 4] =
            self.octets.get(fixed..end).and_then(|o| o.first_chunk()).ok_or(WireError::Short)?;
        self.at = end;
        let qtype = Rtype(u16::from_be_bytes([octets[0], octets[1]]));
        let qclass = Class(u16::from_be_bytes([octets[2], octets[3]]));
        Ok(QuestionView { message: self.octets, at, end, qtype, qclass })
    }
}

impl<'a> Iterator for Questions<'a> {
    type Item = Result<QuestionView<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let question = self.read();
        if question.is_err() {
            self.left = 0;
        }
        Some(question)
    }
}

/// A record in a message.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    message: &'a [u8],
    owner_at: usize,
    rdata_at: usize,
    rdata_len: usize,
    /// The section of the record.
    pub section: RecordSection,
    /// TYPE.
    pub rtype: Rtype,
    /// CLASS (for OPT: the sender's buffer size).
    pub class: Class,
    /// The TTL field in seconds, as sent. [`RecordView::ttl_secs`] treats values with the high bit
    /// set as zero (RFC 2181 §8).
    pub ttl_field: u32,
}

impl<'a> RecordView<'a> {
    /// Reads the owner name.
    #[inline]
    pub fn owner(&self) -> Result<NameBuf, NameError> {
        NameBuf::read(self.message, self.owner_at)
    }

    /// Reads the content of an OPT record.
    ///
    /// # Errors
    /// The owner is not the root (RFC 6891 §6.1.2).
    pub fn edns(&self) -> Result<Edns<'a>, EdnsError> {
        debug_assert_eq!(self.rtype, Rtype::OPT);
        // A pointer to a root label is also the root, though no known software sends such a
        // pointer.
        let is_at_root = self.message.get(self.owner_at) == Some(&0)
            || self.owner().is_ok_and(|owner| owner.wire() == [0]);
        if !is_at_root {
            return Err(EdnsError::Owner);
        }
        Ok(Edns::from_fields(self.class.0, self.ttl_field, self.rdata()))
    }

    /// Reads the owner name into the caller's buffer.
    #[inline]
    pub fn read_owner(&self, out: &mut NameBuf) -> Result<(), NameError> {
        out.read_from(self.message, self.owner_at).map(|_| ())
    }

    /// Reads the owner name within the message's budget of compression pointers.
    ///
    /// # Errors
    /// The name is malformed, or the budget is spent.
    #[inline]
    pub fn owner_within(&self, hops: &mut Hops) -> Result<NameBuf, NameError> {
        let mut owner = NameBuf::ROOT;
        owner.read_within(self.message, self.owner_at, hops)?;
        Ok(owner)
    }

    /// Reports whether the owner is a pointer to the first question and so need not be read.
    #[inline]
    #[must_use]
    pub fn owner_is_question(&self) -> bool {
        self.message.get(self.owner_at..self.owner_at + 2) == Some(&[0xc0, HEADER_LEN as u8])
    }

    /// Returns the TTL in seconds (RFC 2181 §8).
    #[inline]
    #[must_use]
    pub fn ttl_secs(&self) -> u32 {
        if self.ttl_field > i32::MAX as u32 { 0 } else { self.ttl_field }
    }

    /// Returns the record data as sent, with names possibly compressed.
    #[inline]
    #[must_use]
    pub fn rdata(&self) -> &'a [u8] {
        &self.message[self.rdata_at..self.rdata_at + self.rdata_len]
    }

    /// Copies the record data with its names uncompressed, and returns its length.
    #[inline]
    pub fn expand_rdata(&self, out: &mut [u8]) -> Result<usize, crate::rdata::RdataError> {
        crate::rdata::expand(self.rtype.0, self.message, self.rdata_at, self.rdata_len, out)
    }

    /// Copies the record data as [`RecordView::expand_rdata`] does, within the message's budget of
    /// compression pointers.
    ///
    /// # Errors
    /// The data is malformed, `out` is too short, or the budget is spent.
    #[inline]
    pub fn expand_rdata_within(
        &self,
        out: &mut [u8],
        hops: &mut Hops,
    ) -> Result<usize, crate::rdata::RdataError> {
        let data = Data { start: self.rdata_at, len: self.rdata_len };
        expand_within(self.rtype.0, self.message, data, out, hops)
    }

    /// Returns the offset of the owner name in the message.
    #[inline]
    #[must_use]
    pub fn offset(&self) -> usize {
        self.owner_at
    }

    /// Returns the offset of the TTL in the message.
    #[inline]
    #[must_use]
    pub fn ttl_offset(&self) -> usize {
        self.rdata_at - 6
    }
}

/// An iterator over the records of all sections.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    octets: &'a [u8],
    at: usize,
    left: [u16; 3],
}

impl<'a> Records<'a> {
    /// Returns the offset of the next record or, after the last one, the expected end of the
    /// message.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    #[inline]
    fn read(&mut self, section: RecordSection) -> Result<RecordView<'a>, WireError> {
        let owner_at = self.at;
        let fixed_at = name::skip(self.octets, owner_at)?;
        let rdata_at = fixed_at + 10;
        let fixed: &[u8; 10] = self
            .octets
            .get(fixed_at..rdata_at)
            .and_then(|o| o.first_chunk())
            .ok_or(WireError::Short)?;
        let rdata_len = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let end = rdata_at + rdata_len;
        if end > self.octets.len() {
            return Err(WireError::Short);
        }
        self.at = end;
        Ok(RecordView {
            message: self.octets,
            owner_at,
            rdata_at,
            rdata_len,
            section,
            rtype: Rtype(u16::from_be_bytes([fixed[0], fixed[1]])),
            class: Class(u16::from_be_bytes([fixed[2], fixed[3]])),
            ttl_field: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let [answer, authority, additional] = &mut self.left;
        let (left, section) = if *answer > 0 {
            (answer, RecordSection::Answer)
        } else if *authority > 0 {
            (authority, RecordSection::Authority)
        } else if *additional > 0 {
            (additional, RecordSection::Additional)
        } else {
            return None;
        };
        *left -= 1;
        let record = self.read(section);
        if record.is_err() {
            self.left = [0; 3];
        }
        Some(record)
    }
}

/// An iterator over the records of one section.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    records: Records<'a>,
    wanted: RecordSection,
}

impl<'a> Iterator for Section<'a> {
    type Item = Result<RecordView<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let wanted = self.wanted;
        self.records.find(|record| record.as_ref().map_or(true, |r| r.section == wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a response for www.example. A with a CNAME, an address and OPT.
    fn response() -> Vec<u8> {
        let mut m = vec![0, 7, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 1];
        m.extend_from_slice(b"\x03www\x07example\x00\x00\x01\x00\x01");
        m.extend_from_slice(b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x04\x01a\xc0\x10");
        m.extend_from_slice(
            b"\x01a\xc0\x10\x00\x01\x00\x01\xff\xff\xff\xff\x00\x04\x7f\x00\x00\x01",
        );
        m.extend_from_slice(b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00");
        m
    }

    #[test]
    fn all_sections_are_walked_lazily() {
        let octets = response();
        let view = MessageView::new(&octets).unwrap();
        let question = view.question().unwrap();
        assert_eq!(question.qname().unwrap().wire(), b"\x03www\x07example\x00");
        assert_eq!((question.qtype, question.qclass), (Rtype::A, Class::IN));
        let records: Vec<_> = view.records().unwrap().map(Result::unwrap).collect();
        assert_eq!(records.len(), 3);
        assert!(records[0].owner_is_question());
        assert_eq!(records[0].ttl_secs(), 60);
        assert_eq!(records[1].owner().unwrap().wire(), b"\x01a\x07example\x00");
        assert_eq!(records[1].ttl_secs(), 0, "a TTL with the high bit set is zero");
        assert_eq!(records[1].rdata(), [127, 0, 0, 1]);
        let mut rdata = [0; 64];
        let len = records[0].expand_rdata(&mut rdata).unwrap();
        assert_eq!(&rdata[..len], b"\x01a\x07example\x00");
        let edns = view.edns().unwrap().unwrap();
        assert_eq!((edns.udp_size, edns.dnssec_ok), (1232, true));
    }

    #[test]
    fn every_truncation_ends_in_an_error_and_never_in_a_panic() {
        let octets = response();
        for len in 0..octets.len() {
            let Ok(view) = MessageView::new(&octets[..len]) else { continue };
            let walked = view
                .records()
                .and_then(|mut records| records.try_for_each(|record| record.map(|_| ())));
            assert!(walked.is_err(), "{len}");
        }
    }

    /// Returns a message of 64 KiB: a question, a record with the data `links`, and NS records with
    /// this owner and data.
    fn filled(links: &[u8], owner: &[u8], data: &[u8]) -> Vec<u8> {
        let mut m = vec![0, 7, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0];
        m.extend_from_slice(b"\x03www\x07example\x00\x00\x01\x00\x01");
        let mut add = |owner: &[u8], rtype: u16, data: &[u8]| {
            let record = [
                owner,
                &rtype.to_be_bytes(),
                &[0, 1, 0, 0, 0, 60],
                &(data.len() as u16).to_be_bytes(),
                data,
            ];
            m.extend_from_slice(&record.concat());
            u16::try_from(m.len()).is_ok_and(|len| len < u16::MAX - 64)
        };
        let mut count = 1u16;
        add(b"\xc0\x0c", 65_280, links);
        while add(owner, Rtype::NS.0, data) {
            count += 1;
        }
        m[6..8].copy_from_slice(&(count + 1).to_be_bytes());
        m
    }

    /// Returns how many records can be read with owner and data within the budget of compression
    /// pointers, and how many records there are.
    fn read_within_budget(octets: &[u8]) -> (usize, usize) {
        let view = MessageView::new(octets).unwrap();
        let mut hops = Hops::of_message(octets.len());
        let records: Vec<_> = view.records().unwrap().map(Result::unwrap).collect();
        let is_read = |record: &&RecordView<'_>| {
            record.owner_within(&mut hops).is_ok()
                && record.expand_rdata_within(&mut [0; 1024], &mut hops).is_ok()
                && !hops.is_spent()
        };
        (records.iter().take_while(is_read).count(), records.len())
    }

    #[test]
    fn names_compressed_as_well_as_can_be_are_read_and_chains_of_pointers_up_to_the_budget() {
        // Each name is a label and a pointer to the previous name, which ends with a pointer to the
        // question: three pointers per record.
        let (read, all) =
            read_within_budget(&filled(b"\x02ns\xc0\x0c\x01a\xc0\x29", b"\xc0\x2e", b"\xc0\x2e"));
        assert!(read == all && all > 4_000, "{read} of {all}");
        let (mut links, mut previous) = (vec![0], 41u16);
        for _ in 0..120 {
            let at = 41 + links.len() as u16;
            links.extend_from_slice(&(0xc000 | previous).to_be_bytes());
            previous = at;
        }
        let last = (0xc000 | previous).to_be_bytes();
        let octets = filled(&links, &last, &last);
        let (read, all) = read_within_budget(&octets);
        assert!(read * 2 * 121 <= octets.len() / 2 + 256 && all > 4_000, "{read} of {all}");
        links[0] = 0x80;
        let (read, _) = read_within_budget(&filled(&links, &last, &last));
        assert_eq!(read, 1, "the first that is malformed");
    }

    #[test]
    fn malformed_names_use_up_the_budget_as_the_longest_chains_do() {
        let octets = filled(b"\x80", b"\xc0\x29", b"\x00");
        let view = MessageView::new(&octets).unwrap();
        let mut hops = Hops::of_message(octets.len());
        let mut refused = 0;
        for record in view.records().unwrap().skip(1) {
            if hops.is_spent() {
                break;
            }
            refused += usize::from(record.unwrap().owner_within(&mut hops).is_err());
        }
        assert!((200..400).contains(&refused), "{refused}");
    }

    #[test]
    fn counts_that_lie_do_not_matter_beyond_the_octets() {
        let mut octets = response();
        octets[6] = 0xff;
        let view = MessageView::new(&octets).unwrap();
        assert!(view.records().unwrap().count() < 5);
    }
}
