//! Parses a reply into records. Names in record data are uncompressed, and the data is checked.
//!
//! The module `scrub` decides which records belong to the question.

use avocet_wire::edns::option;
use avocet_wire::name::Hops;
use avocet_wire::view::{RecordSection, RecordView};
use avocet_wire::{Class, FoldedName, FoldedNameBuf, MessageView, Rcode, Rtype, rdata};

/// Maximum number of octets by which record data grows when its names are uncompressed. The data of
/// a record has at most two compressed names.
const EXPANSION: usize = 2 * 255;

/// The number of records for which a reply gets room at first. A signed denial has about eight.
const FEW_RECORDS: usize = 12;

/// Maximum number of records that are read from one section. An answer needs at most 11 aliases,
/// 256 records and 32 signatures. A reply with more records in its answer section is not used,
/// because an incomplete RRset is useless. In the other sections, further records are ignored,
/// because at most 13 servers, 32 proofs and a few addresses are used.
const MAX_SECTION_RECORDS: usize = 512;

/// The reason why a reply cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Malformed {
    /// The message is malformed.
    Message,
    /// The data of a record does not match its type.
    Data,
}

/// The treatment of records with data that does not match their type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Faulty {
    /// The reply is rejected because of such records.
    Refuse,
    /// Such records are ignored.
    PassOver,
}

/// The part of a reply that is parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// The whole reply is parsed.
    Whole,
    /// Only the answer section is parsed if its last record has this type; otherwise the whole
    /// reply is parsed. A client that gets an answer and requests neither proofs nor additional
    /// data needs no other section.
    ToAnswer(Rtype),
}

#[derive(Clone, Copy, Debug)]
struct ReplyEntry {
    section: RecordSection,
    rtype: Rtype,
    class: Class,
    ttl_secs: u32,
    owner: (u32, u8),
    rdata: (u32, u32),
}

/// A record of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyRecord<'a> {
    pub(crate) section: RecordSection,
    pub(crate) rtype: Rtype,
    pub(crate) class: Class,
    pub(crate) ttl_secs: u32,
    pub(crate) owner: FoldedName<'a>,
    pub(crate) rdata: &'a [u8],
}

impl ReplyRecord<'_> {
    /// Returns the type that an RRSIG covers (RFC 4034 §3.1.1).
    pub(crate) fn covered(&self) -> Option<Rtype> {
        let covered = self.rdata.first_chunk().filter(|_| self.rtype == Rtype::RRSIG)?;
        Some(Rtype(u16::from_be_bytes(*covered)))
    }
}

/// The content of a reply's OPT record.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplyOpt {
    pub(crate) rcode_high: u8,
    /// The data of the COOKIE option, truncated to 40 octets.
    pub(crate) cookie: Vec<u8>,
    /// The INFO-CODE of the first extended error.
    pub(crate) ede: Option<u16>,
    /// The AGENT DOMAIN of the Report-Channel option (RFC 9567 §5).
    pub(crate) agent: Option<FoldedNameBuf>,
    /// Time for which the connection may be idle, in units of 100 ms (RFC 7828).
    pub(crate) keepalive: Option<u16>,
    /// The SCOPE PREFIX-LENGTH of the client subnet option.
    pub(crate) ecs_scope: Option<u8>,
}

/// A parsed reply. Its memory is reused for the next reply.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    octets: Vec<u8>,
    /// The records in message order.
    entries: Vec<ReplyEntry>,
    opt: ReplyOpt,
    /// Whether the reply has an OPT record.
    pub(crate) has_opt: bool,
    /// Whether the answer section has more records than were read.
    pub(crate) is_overfull: bool,
    /// Whether records of the answer section were ignored because of their data.
    pub(crate) has_faulty_answers: bool,
}

impl Reply {
    /// Returns a reply with these records to a question with this name.
    pub(crate) fn of<'r>(
        qname: FoldedName<'_>,
        records: impl Iterator<Item = ReplyRecord<'r>>,
    ) -> Self {
        let mut reply = Self { octets: qname.to_vec(), ..Self::default() };
        for record in records {
            let ReplyRecord { section, rtype, class, ttl_secs, owner, rdata } = record;
            let at = reply.octets.len() as u32;
            reply.octets.extend_from_slice(&owner);
            reply.octets.extend_from_slice(rdata);
            let owner_len = owner.len() as u8;
            let rdata = (at + u32::from(owner_len), rdata.len() as u32);
            reply.entries.push(ReplyEntry {
                section,
                rtype,
                class,
                ttl_secs,
                owner: (at, owner_len),
                rdata,
            });
        }
        reply
    }

    /// Parses the reply to a question with this name.
    pub(crate) fn read(
        &mut self,
        view: &MessageView<'_>,
        qname: FoldedName<'_>,
        extent: Extent,
    ) -> Result<(), Malformed> {
        self.read_with(view, qname, (Faulty::Refuse, extent))
    }

    /// Parses the reply, and ignores records with malformed data.
    pub(crate) fn read_well_formed(
        &mut self,
        view: &MessageView<'_>,
        qname: FoldedName<'_>,
    ) -> Result<(), Malformed> {
        self.read_with(view, qname, (Faulty::PassOver, Extent::Whole))
    }

    fn read_with(
        &mut self,
        view: &MessageView<'_>,
        qname: FoldedName<'_>,
        (faulty, extent): (Faulty, Extent),
    ) -> Result<(), Malformed> {
        self.octets.clear();
        self.octets.extend_from_slice(&qname);
        self.entries.clear();
        (self.has_opt, self.is_overfull, self.has_faulty_answers) = (false, false, false);
        self.opt.cookie.clear();
        (self.opt.rcode_high, self.opt.ede, self.opt.ecs_scope, self.opt.agent) =
            (0, None, None, None);
        self.opt.keepalive = None;
        let mut records = view.records().map_err(|_| Malformed::Message)?;
        // Most names in data are short or compressed once, so this room usually suffices.
        self.octets.reserve(view.octets().len() + EXPANSION);
        self.entries.reserve(FEW_RECORDS);
        let mut hops = Hops::of_message(view.octets().len());
        let mut taken = [0; 3];
        for record in &mut records {
            let record = record.map_err(|_| Malformed::Message)?;
            if record.rtype == Rtype::OPT {
                self.read_opt(&record)?;
            } else if !record.rtype.is_meta()
                && record.class == Class::IN
                && !self.is_past(&record, extent)
            {
                let taken = &mut taken[record.section as usize];
                if *taken == MAX_SECTION_RECORDS {
                    self.is_overfull |= record.section == RecordSection::Answer;
                    continue;
                }
                *taken += 1;
                let before = self.octets.len();
                match self.read_record(&record, qname.len(), &mut hops) {
                    Some(()) => {}
                    None if faulty == Faulty::PassOver && !hops.is_spent() => {
                        self.octets.truncate(before);
                        self.has_faulty_answers |= record.section == RecordSection::Answer;
                    }
                    None if hops.is_spent() => return Err(Malformed::Message),
                    None => return Err(Malformed::Data),
                }
            }
        }
        // Trailing octets are ignored, as in other resolvers: RFC 1035 does not mention them.
        Ok(())
    }

    /// Returns whether the record comes after all records that must be parsed.
    fn is_past(&self, record: &RecordView<'_>, extent: Extent) -> bool {
        match extent {
            Extent::Whole => false,
            Extent::ToAnswer(qtype) => {
                record.section != RecordSection::Answer
                    && self.entries.last().is_some_and(|last| last.rtype == qtype)
            }
        }
    }

    fn read_record(
        &mut self,
        record: &RecordView<'_>,
        qname_len: usize,
        hops: &mut Hops,
    ) -> Option<()> {
        let owner = if record.owner_is_question() {
            (0, qname_len as u8)
        } else {
            let name = record.owner_within(hops).ok()?.folded();
            let at = self.octets.len() as u32;
            self.octets.extend_from_slice(name.wire());
            (at, name.wire().len() as u8)
        };
        let at = self.octets.len();
        if may_hold_names(record.rtype) {
            self.octets.resize(at + record.rdata().len() + EXPANSION, 0);
            let len = record.expand_rdata_within(&mut self.octets[at..], hops).ok()?;
            self.octets.truncate(at + len);
        } else {
            self.octets.extend_from_slice(record.rdata());
        }
        let len = self.octets.len() - at;
        rdata::check(record.rtype.0, &self.octets[at..]).ok()?;
        self.entries.push(ReplyEntry {
            section: record.section,
            rtype: record.rtype,
            class: record.class,
            ttl_secs: record.ttl_secs(),
            owner,
            rdata: (at as u32, len as u32),
        });
        Some(())
    }

    fn read_opt(&mut self, record: &RecordView<'_>) -> Result<(), Malformed> {
        if record.section != RecordSection::Additional {
            return Err(Malformed::Message);
        }
        // A reply may have one OPT record (RFC 6891 §6.1.1). Further ones are ignored, as other
        // resolvers do, because a server that sends two may be the only one of its zone.
        if self.has_opt {
            return Ok(());
        }
        let edns = record.edns().map_err(|_| Malformed::Message)?;
        self.has_opt = true;
        self.opt.rcode_high = edns.rcode_high;
        for option in edns.raw_options() {
            let (code, data) = option.map_err(|_| Malformed::Message)?;
            match code {
                option::COOKIE if self.opt.cookie.is_empty() => {
                    self.opt.cookie.extend_from_slice(&data[..data.len().min(40)]);
                }
                option::EDE if self.opt.ede.is_none() => {
                    self.opt.ede = data.first_chunk().map(|code| u16::from_be_bytes(*code));
                }
                option::REPORT_CHANNEL => {
                    let agent = FoldedNameBuf::from_wire(data).ok();
                    self.opt.agent = agent.filter(|agent| *agent != FoldedNameBuf::ROOT);
                }
                option::TCP_KEEPALIVE => {
                    let units = data.first_chunk().filter(|_| data.len() == 2);
                    self.opt.keepalive = units.map(|units| u16::from_be_bytes(*units));
                }
                option::ECS => self.opt.ecs_scope = data.get(3).copied(),
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn opt(&self) -> &ReplyOpt {
        &self.opt
    }

    /// Returns the RCODE, including its upper bits from the OPT record.
    pub(crate) fn rcode(&self, view: &MessageView<'_>) -> Rcode {
        Rcode(u16::from(self.opt.rcode_high) << 4 | view.header().rcode().0)
    }

    /// Returns the records of all sections in message order.
    pub(crate) fn records(&self) -> impl Iterator<Item = ReplyRecord<'_>> + Clone {
        self.entries.iter().map(|entry| self.record(entry))
    }

    /// Returns whether the reply has NSEC or NSEC3 records.
    pub(crate) fn has_proof(&self) -> bool {
        let mut authority = self.section(RecordSection::Authority);
        authority.any(|record| matches!(record.rtype, Rtype::NSEC | Rtype::NSEC3))
    }

    /// Returns whether the reply has an SOA record instead of an answer.
    pub(crate) fn is_no_data(&self) -> bool {
        let mut authority = self.section(RecordSection::Authority);
        !self.has_answer() && authority.any(|record| record.rtype == Rtype::SOA)
    }

    /// Returns whether the answer section has a record that was read.
    pub(crate) fn has_answer(&self) -> bool {
        self.section(RecordSection::Answer).next().is_some()
    }

    /// Returns the number of records, and of octets of their owners and data.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.octets.len())
    }

    /// Returns the records of one section without iterating over the others.
    pub(crate) fn section(
        &self,
        section: RecordSection,
    ) -> impl Iterator<Item = ReplyRecord<'_>> + Clone {
        let start = self.entries.partition_point(|entry| (entry.section as u8) < section as u8);
        let len = self.entries[start..].partition_point(|entry| entry.section == section);
        self.entries[start..start + len].iter().map(|entry| self.record(entry))
    }

    fn record(&self, entry: &ReplyEntry) -> ReplyRecord<'_> {
        ReplyRecord {
            section: entry.section,
            rtype: entry.rtype,
            class: entry.class,
            ttl_secs: entry.ttl_secs,
            owner: FoldedName::from_folded_unchecked(
                self.slice(entry.owner.0, u32::from(entry.owner.1)),
            ),
            rdata: self.slice(entry.rdata.0, entry.rdata.1),
        }
    }

    fn slice(&self, at: u32, len: u32) -> &[u8] {
        &self.octets[at as usize..(at + len) as usize]
    }
}

/// Returns whether the data of this type may have compressed names. Such types are all below 64
/// (RFC 3597 §4).
fn may_hold_names(rtype: Rtype) -> bool {
    rtype.0 < 64 && rtype != Rtype::A && rtype != Rtype::AAAA
}

/// Returns the name in the data of a CNAME or DNAME record, folded.
pub(crate) fn folded_target(rdata: &[u8]) -> Option<FoldedNameBuf> {
    FoldedNameBuf::from_wire(rdata).ok()
}

#[cfg(test)]
mod tests {
    use avocet_wire::Section;
    use avocet_wire::builder::{Builder, OptFields, Record};
    use avocet_wire::header::QR;

    use super::*;

    const QNAME: &[u8] = b"\x03www\x07example\x00";

    /// Returns the number of records that are read from each section, and whether the section is
    /// overfull, for a reply with or without an answer.
    fn read(extent: Extent, has_answer: bool) -> ([usize; 2], bool) {
        let mut octets = [0; 512];
        let mut builder = Builder::new(&mut octets, usize::MAX, 0, QR).unwrap();
        builder.question(QNAME, Rtype::A, Class::IN).unwrap();
        let record =
            |rtype, rdata| Record { owner: QNAME, rtype, class: Class::IN, ttl_secs: 60, rdata };
        if has_answer {
            builder.record(Section::Answer, &record(Rtype::A, &[192, 0, 2, 1])).unwrap();
        }
        builder.record(Section::Authority, &record(Rtype::NS, QNAME)).unwrap();
        let opt = OptFields { udp_size: 1232, rcode: Rcode::NOERROR, dnssec_ok: false };
        builder.opt(&opt, &[]).unwrap();
        let len = builder.finish();
        let view = MessageView::new(&octets[..len]).unwrap();
        let mut reply = Reply::default();
        reply.read(&view, FoldedName::new(QNAME).unwrap(), extent).unwrap();
        let of = |section| reply.records().filter(|record| record.section == section).count();
        ([of(RecordSection::Answer), of(RecordSection::Authority)], reply.has_opt)
    }

    #[test]
    fn what_follows_an_answer_is_left_out_where_that_is_enough_but_for_the_opt_record() {
        assert_eq!(read(Extent::ToAnswer(Rtype::A), true), ([1, 0], true));
        assert_eq!(read(Extent::ToAnswer(Rtype::AAAA), true), ([1, 1], true));
        assert_eq!(read(Extent::ToAnswer(Rtype::A), false), ([0, 1], true));
        assert_eq!(read(Extent::Whole, true), ([1, 1], true));
    }
}
