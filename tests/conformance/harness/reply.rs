//! A reply, parsed by our own wire crate into values that can be compared.

use std::collections::BTreeSet;
use std::fmt;

use avocet_wire::canonical;
use avocet_wire::header::{Header, TC};
use avocet_wire::view::{MessageView, RecordSection};
use avocet_wire::{NameBuf, Rcode, Rtype};

/// A record without its TTL. Owner and names are in canonical form, so that case does not matter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    /// Owner, folded.
    pub(crate) owner: Vec<u8>,
    /// TYPE.
    pub(crate) rtype: Rtype,
    /// CLASS.
    pub(crate) class: u16,
    /// RDATA, uncompressed.
    pub(crate) rdata: Vec<u8>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = NameBuf::from_wire(&self.owner).map_err(|_| fmt::Error)?;
        write!(
            f,
            "{owner} {} {}",
            self.rtype,
            avocet_wire::rdata::display(self.rtype.0, &self.rdata)
        )
    }
}

/// The OPT record of a reply.
#[derive(Clone, Debug)]
pub(crate) struct ReplyOpt {
    /// The server's buffer size.
    pub(crate) udp_size: u16,
    /// EDNS version.
    pub(crate) version: u8,
    /// The sixteen bits of flags.
    pub(crate) flags: u16,
    /// Options by code.
    pub(crate) options: Vec<(u16, Vec<u8>)>,
}

/// A reply. The records of each section are in message order.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// Octets of the message.
    pub(crate) len: usize,
    /// Header.
    pub(crate) header: Header,
    /// The RCODE with its upper bits.
    pub(crate) rcode: Rcode,
    /// The question as received; empty if there is none.
    pub(crate) question: Vec<u8>,
    /// Records and TTLs.
    pub(crate) answer: Vec<(Record, u32)>,
    /// Records and TTLs.
    pub(crate) authority: Vec<(Record, u32)>,
    /// Records and TTLs, without OPT.
    pub(crate) additional: Vec<(Record, u32)>,
    /// OPT.
    pub(crate) opt: Option<ReplyOpt>,
}

impl Reply {
    /// Parses a reply. Panics if it is malformed.
    #[track_caller]
    pub(crate) fn read(octets: &[u8]) -> Self {
        Self::try_read(octets).unwrap_or_else(|| panic!("a malformed answer: {octets:02x?}"))
    }

    fn try_read(octets: &[u8]) -> Option<Self> {
        let view = MessageView::new(octets).ok()?;
        let header = view.header();
        let question = if header.counts[0] == 0 {
            Vec::new()
        } else {
            view.question().ok()?.octets().to_vec()
        };
        let mut reply = Self {
            len: octets.len(),
            header,
            rcode: header.rcode(),
            question,
            answer: Vec::new(),
            authority: Vec::new(),
            additional: Vec::new(),
            opt: None,
        };
        let mut records = view.records().ok()?;
        let mut expanded = vec![0; 65_535];
        for record in &mut records {
            let record = record.ok()?;
            if record.rtype == Rtype::OPT {
                let opt = read_opt(record.class.0, record.ttl_field, record.rdata())?;
                reply.rcode = Rcode(header.rcode().0 | ((record.ttl_field >> 24) as u16) << 4);
                assert!(reply.opt.replace(opt).is_none(), "two OPT records");
                continue;
            }
            let len = record.expand_rdata(&mut expanded).ok()?;
            let mut rdata = Vec::new();
            canonical::append_rdata(record.rtype.0, &expanded[..len], &mut rdata);
            let owner = record.owner().ok()?.folded().wire().to_vec();
            let section = match record.section {
                RecordSection::Answer => &mut reply.answer,
                RecordSection::Authority => &mut reply.authority,
                RecordSection::Additional => &mut reply.additional,
            };
            section.push((
                Record { owner, rtype: record.rtype, class: record.class.0, rdata },
                record.ttl_field,
            ));
        }
        (records.position() == octets.len()).then_some(reply)
    }

    /// Whether TC is set.
    pub(crate) fn is_truncated(&self) -> bool {
        self.header.has(TC)
    }

    /// The data of the answer as text, sorted and without duplicates.
    pub(crate) fn texts(&self) -> Vec<String> {
        let text = |(record, _): &(Record, u32)| {
            avocet_wire::rdata::display(record.rtype.0, &record.rdata).to_string()
        };
        self.answer.iter().map(text).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The highest TTL of the answer.
    pub(crate) fn ttl(&self) -> Option<u32> {
        self.answer.iter().map(|(_, ttl)| *ttl).max()
    }

    /// The data of an option.
    pub(crate) fn option(&self, code: u16) -> Option<&[u8]> {
        let opt = self.opt.as_ref()?;
        opt.options.iter().find(|(found, _)| *found == code).map(|(_, data)| &data[..])
    }

    /// The code of the extended DNS error.
    pub(crate) fn ede(&self) -> Option<u16> {
        let data = self.option(avocet_wire::edns::option::EDE)?;
        Some(u16::from_be_bytes([*data.first()?, *data.get(1)?]))
    }
}

fn read_opt(class: u16, ttl: u32, mut rdata: &[u8]) -> Option<ReplyOpt> {
    let mut options = Vec::new();
    while !rdata.is_empty() {
        let (head, rest) = rdata.split_first_chunk::<4>()?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let (data, rest) = rest.split_at_checked(len)?;
        options.push((u16::from_be_bytes([head[0], head[1]]), data.to_vec()));
        rdata = rest;
    }
    Some(ReplyOpt { udp_size: class, version: (ttl >> 16) as u8, flags: ttl as u16, options })
}
