//! Messages of a scenario: as written, as octets, and as a server's view of a query.

use std::net::IpAddr;

use avocet_wire::header::{AA, AD, CD, HEADER_LEN, QR, RA, RD, TC};
use avocet_wire::name::is_under;
use avocet_wire::{MessageView, QueryView, Rtype};

use super::record::Rr;

/// UDP payload size of scripted servers and clients.
const UDP_SIZE: u16 = 4096;
/// DO among the flags of OPT (RFC 3225).
const DO: u32 = 0x8000;

/// The flags of the header by name.
pub(super) const FLAGS: [(&str, u16); 7] =
    [("QR", QR), ("AA", AA), ("TC", TC), ("RD", RD), ("RA", RA), ("AD", AD), ("CD", CD)];
/// All flags.
pub(super) const ALL_FLAGS: u16 = QR | AA | TC | RD | RA | AD | CD;

/// A question.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) qname: Vec<u8>,
    pub(super) qtype: Rtype,
    pub(super) qclass: u16,
}

impl Question {
    pub(super) fn octets(&self) -> Vec<u8> {
        let mut octets = self.qname.clone();
        octets.extend(self.qtype.0.to_be_bytes());
        octets.extend(self.qclass.to_be_bytes());
        octets
    }

    pub(super) fn is_of(&self, qname: &[u8]) -> bool {
        same_name(&self.qname, qname)
    }
}

/// A message of a scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct Packet {
    pub(super) questions: Vec<Question>,
    /// The records of answer, authority and additional section.
    pub(super) sections: [Vec<Rr>; 3],
    pub(super) flags: u16,
    pub(super) opcode: u16,
    pub(super) rcode: u16,
    pub(super) dnssec_ok: bool,
    /// Raw octets that replace the whole message.
    pub(super) raw: Option<Vec<u8>>,
    /// Data of OPT.
    pub(super) options: Option<Vec<u8>>,
}

/// The parts of a message that the scenario does not determine.
#[derive(Clone, Copy, Default)]
pub(super) struct Envelope<'a> {
    pub(super) id: u16,
    /// A question that replaces the question of the packet.
    pub(super) question: Option<&'a [u8]>,
    /// Data of the OPT record, `None` without OPT.
    pub(super) opt: Option<&'a [u8]>,
    pub(super) dnssec_ok: bool,
}

impl Packet {
    pub(super) fn question(&self) -> Option<&Question> {
        self.questions.first()
    }

    /// Returns a response without records.
    pub(super) fn response(flags: u16, rcode: u16) -> Self {
        Self { flags: QR | flags, rcode, ..Self::default() }
    }

    /// Returns the octets of the message, without compression.
    pub(super) fn octets(&self, envelope: &Envelope<'_>) -> Vec<u8> {
        let flags = self.flags | self.opcode << 11 | self.rcode & 0xf;
        let questions = match envelope.question {
            Some(question) => u16::from(!question.is_empty()),
            None => self.questions.len() as u16,
        };
        let [answers, authorities, additionals] =
            self.sections.each_ref().map(|section| section.len() as u16);
        let additionals = additionals + u16::from(envelope.opt.is_some());
        let words = [envelope.id, flags, questions, answers, authorities, additionals];
        let mut out: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        match envelope.question {
            Some(question) => out.extend(question),
            None => self.questions.iter().for_each(|question| out.extend(question.octets())),
        }
        self.sections.iter().flatten().for_each(|rr| rr.write(&mut out));
        if let Some(options) = envelope.opt {
            let ttl = u32::from(self.rcode >> 4) << 24 | if envelope.dnssec_ok { DO } else { 0 };
            out.extend([0, 0, Rtype::OPT.0 as u8]);
            out.extend(UDP_SIZE.to_be_bytes());
            out.extend(ttl.to_be_bytes());
            out.extend((options.len() as u16).to_be_bytes());
            out.extend(options);
        }
        out
    }
}

/// The transport of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// A query as seen by a server.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) server: IpAddr,
    pub(super) transport: Transport,
    pub(super) id: u16,
    pub(super) flags: u16,
    /// QNAME as sent.
    pub(super) qname: Vec<u8>,
    pub(super) qtype: Rtype,
    /// The question as sent.
    pub(super) question: Vec<u8>,
    /// Data of the OPT record, `None` without OPT.
    pub(super) opt: Option<Vec<u8>>,
    pub(super) udp_size: usize,
    pub(super) dnssec_ok: bool,
}

impl Asked {
    /// Reads a query of the resolver.
    ///
    /// # Panics
    /// The query is malformed, which is a fault of the resolver.
    pub(super) fn read(octets: &[u8], server: IpAddr, transport: Transport) -> Self {
        let view = QueryView::parse(octets).expect("a well-formed query");
        Self {
            server,
            transport,
            id: view.header().id,
            flags: view.header().flags & ALL_FLAGS,
            qname: view.qname().to_vec(),
            qtype: view.qtype,
            question: view.question().to_vec(),
            opt: view.edns.map(|_| opt_data(octets)),
            udp_size: view.edns.map_or(512, |edns| usize::from(edns.udp_size).max(512)),
            dnssec_ok: view.edns.is_some_and(|edns| edns.dnssec_ok),
        }
    }

    /// Returns the common parts of all replies to the query.
    pub(super) fn envelope(&self) -> Envelope<'_> {
        Envelope {
            id: self.id,
            question: Some(&self.question),
            opt: self.opt.as_ref().map(|_| &[][..]),
            dnssec_ok: self.dnssec_ok,
        }
    }

    pub(super) fn is_under(&self, zone: &[u8]) -> bool {
        is_under(&self.qname, zone)
    }

    /// Formats the query.
    pub(super) fn shown(&self) -> String {
        let by = if self.transport == Transport::Tcp { " by TCP" } else { "" };
        format!("{} {} to {}{by}", crate::shown(&self.qname), self.qtype, self.server)
    }
}

fn opt_data(octets: &[u8]) -> Vec<u8> {
    let records = MessageView::new(octets).and_then(|view| view.records());
    let mut records = records.into_iter().flatten().flatten();
    records
        .find(|record| record.rtype == Rtype::OPT)
        .map(|record| record.rdata().to_vec())
        .unwrap_or_default()
}

pub(super) fn same_name(a: &[u8], b: &[u8]) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// Room for the header and the longest question.
pub(super) const HEAD_ROOM: usize = HEADER_LEN + 255 + 4;
