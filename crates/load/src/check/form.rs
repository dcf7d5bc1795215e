//! The form of an answer: everything that can be checked without knowledge of the expected records.
//!
//! A message is read to its last octet: every record of every section with its names and its data
//! by the rules of its type. Errors count even in parts that a resolver would skip.

use avocet_wire::view::{RecordSection, RecordView};
use avocet_wire::{MessageView, NameBuf, Rtype, rdata};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judge::Wrong;

/// Room for the data of the longest record with its names uncompressed.
const DATA_MAX: usize = 1 << 17;

/// A deviation of a response that is a fault, unless the scenario expects it or `--allow` names it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Deviation {
    /// Responses with the flag TC (truncated)
    Truncated,
    /// NOERROR without a record in the answer section
    Empty,
    /// Responses with octets after the last record
    Trailing,
    /// Responses over UDP with more octets than the query permits
    Long,
    /// A second response to the same query
    Duplicate,
}

impl Deviation {
    /// All deviations.
    pub const ALL: [Self; 5] =
        [Self::Truncated, Self::Empty, Self::Trailing, Self::Long, Self::Duplicate];
}

/// A set of deviations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deviations(u8);

impl Deviations {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ALL: Self = Self(u8::MAX);

    #[must_use]
    pub(crate) const fn with(self, one: Deviation) -> Self {
        Self(self.0 | 1 << one as u8)
    }

    #[must_use]
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, one: Deviation) -> bool {
        self.0 & 1 << one as u8 != 0
    }
}

impl FromIterator<Deviation> for Deviations {
    fn from_iter<T: IntoIterator<Item = Deviation>>(iter: T) -> Self {
        iter.into_iter().fold(Self::NONE, Self::with)
    }
}

/// A reader of whole messages, which reuses its memory.
#[derive(Clone, Debug)]
pub(crate) struct FormReader {
    data: Vec<u8>,
    owner: NameBuf,
}

impl FormReader {
    pub(crate) fn new() -> Self {
        Self { data: Vec::new(), owner: NameBuf::ROOT }
    }

    /// Reads a whole message. Answer and authority records must have the class of the question.
    pub(crate) fn read(&mut self, message: &MessageView<'_>) -> Result<(), Wrong> {
        let class = message.question().map(|question| question.qclass).ok();
        let mut records = message.records().map_err(|_| Wrong::Malformed)?;
        let mut has_opt = false;
        for record in &mut records {
            let record = record.map_err(|_| Wrong::Malformed)?;
            if record.rtype == Rtype::OPT {
                // A message has at most one OPT record, in the additional section (RFC 6891
                // §6.1.1).
                let is_valid = !has_opt
                    && record.section == RecordSection::Additional
                    && record.edns().is_ok_and(|edns| edns.raw_options().all(|one| one.is_ok()));
                if !is_valid {
                    return Err(Wrong::Malformed);
                }
                has_opt = true;
                continue;
            }
            self.expand(&record).ok_or(Wrong::Malformed)?;
            let is_data = record.section != RecordSection::Additional;
            if is_data && class.is_some_and(|class| record.class != class) {
                return Err(Wrong::Class);
            }
        }
        if records.position() < message.octets().len() {
            return Err(Wrong::Trailing);
        }
        Ok(())
    }

    /// Returns the folded owner and the uncompressed data of a record, or `None` if they violate
    /// their format.
    pub(crate) fn expand(&mut self, record: &RecordView<'_>) -> Option<(&NameBuf, &[u8])> {
        self.data.resize(DATA_MAX, 0);
        record.read_owner(&mut self.owner).ok()?;
        let len = record.expand_rdata(&mut self.data).ok()?;
        let data = self.data.get(..len)?;
        rdata::check(record.rtype.0, data).ok()?;
        Some((&self.owner, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_wire::builder::{Record, Section};
    use avocet_wire::header::QR;
    use avocet_wire::{Builder, Class};

    const OWNER: &[u8] = b"\x01a\x04test\0";

    fn message(rtype: Rtype, class: Class, rdata: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 512];
        let mut message = Builder::new(&mut out, 512, 0, QR).unwrap();
        message.question(OWNER, rtype, Class::IN).unwrap();
        let record = Record { owner: OWNER, rtype, class, ttl_secs: 5, rdata };
        message.record(Section::Answer, &record).unwrap();
        let len = message.finish();
        out.truncate(len);
        out
    }

    fn read(octets: &[u8]) -> Result<(), Wrong> {
        FormReader::new().read(&MessageView::new(octets).unwrap())
    }

    #[test]
    fn a_message_is_read_to_its_last_octet() {
        let whole = message(Rtype::A, Class::IN, &[192, 0, 2, 1]);
        assert_eq!(read(&whole), Ok(()));
        assert_eq!(read(&[&whole[..], b"x"].concat()), Err(Wrong::Trailing));
        for len in 12..whole.len() {
            let cut = read(&whole[..len]);
            assert_eq!(cut, Err(Wrong::Malformed), "{len} octets");
        }
    }

    #[test]
    fn data_must_have_the_form_of_its_type() {
        for (rtype, rdata) in [
            (Rtype::A, &[192, 0, 2][..]),
            (Rtype::AAAA, &[0; 17]),
            (Rtype::TXT, b"\x05four"),
            (Rtype::CNAME, b"\x04test"),
        ] {
            assert_eq!(read(&message(rtype, Class::IN, rdata)), Err(Wrong::Malformed), "{rtype}");
        }
        assert_eq!(read(&message(Rtype::A, Class::CH, &[192, 0, 2, 1])), Err(Wrong::Class));
    }

    #[test]
    fn a_set_holds_what_was_added() {
        let set: Deviations = [Deviation::Empty, Deviation::Long].into_iter().collect();
        let held: Vec<_> = Deviation::ALL.into_iter().filter(|one| set.has(*one)).collect();
        assert_eq!(held, [Deviation::Empty, Deviation::Long]);
        assert!(Deviation::ALL.iter().all(|one| Deviations::ALL.has(*one)));
    }
}
