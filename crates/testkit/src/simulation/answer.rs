//! An answer received by a client, decoded.

use std::collections::BTreeMap;

use avocet_wire::header::{AD, CD, QR};
use avocet_wire::view::{RecordSection, RecordView};
use avocet_wire::{Class, MessageView, Rcode, Rtype};

use super::truth::Fact;
use super::zone::Wire;
use crate::shown;

/// Room for the data of any record, in octets.
const MAX_DATA: usize = 1_024;

/// A client's question.
pub(super) struct Asked {
    pub(super) qname: Wire,
    pub(super) qtype: Rtype,
    pub(super) flags: u16,
    pub(super) dnssec_ok: bool,
    pub(super) at_ms: u64,
    /// Answers with their arrival times in ms.
    pub(super) answers: Vec<(u64, Vec<u8>)>,
}

impl Asked {
    /// Reports whether the client relies on the server's validation.
    pub(super) fn is_validated(&self) -> bool {
        self.flags & CD == 0
    }

    /// Returns the query.
    pub(super) fn octets(&self, id: u16) -> Vec<u8> {
        let mut octets = Vec::new();
        for word in [id, self.flags, 1, 0, 0, 1] {
            octets.extend(word.to_be_bytes());
        }
        octets.extend(self.question());
        octets.extend([0, 0, 41, 16, 0, 0, 0, u8::from(self.dnssec_ok) << 7, 0, 0, 0]);
        octets
    }

    pub(super) fn question(&self) -> Vec<u8> {
        [&self.qname[..], &self.qtype.0.to_be_bytes(), &Class::IN.0.to_be_bytes()].concat()
    }

    pub(super) fn shown(&self) -> String {
        format!("{} {}", shown(&self.qname), self.qtype)
    }
}

/// A decoded answer.
pub(super) struct Answer {
    pub(super) rcode: Rcode,
    pub(super) is_authentic: bool,
    /// The answer section without signatures, with TTLs.
    pub(super) facts: BTreeMap<Fact, u32>,
    /// The highest TTL of all records.
    pub(super) ttl_secs: u32,
}

impl Answer {
    /// Reads an answer, or returns the reason why it is invalid.
    pub(super) fn read(octets: &[u8], id: u16, asked: &Asked) -> Result<Self, String> {
        let view = MessageView::new(octets).map_err(|error| format!("{error:?}"))?;
        let header = view.header();
        let is_ours =
            header.id == id && header.has(QR) && octets[12..].starts_with(&asked.question());
        if !is_ours {
            return Err("not the answer to this question".to_owned());
        }
        let (rcode, is_authentic) = (header.rcode(), header.has(AD));
        let mut room = vec![0; MAX_DATA];
        let mut answer = Self { rcode, is_authentic, facts: BTreeMap::new(), ttl_secs: 0 };
        for record in view.records().map_err(|error| format!("{error:?}"))? {
            let record: RecordView<'_> = record.map_err(|error| format!("{error:?}"))?;
            if record.rtype == Rtype::OPT {
                continue;
            }
            answer.ttl_secs = answer.ttl_secs.max(record.ttl_field);
            if record.rtype.is_dnssec_proof() && !asked.dnssec_ok && record.rtype != asked.qtype {
                return Err(format!("{} without DO", record.rtype));
            }
            if record.section == RecordSection::Answer && record.rtype != Rtype::RRSIG {
                let len = record.expand_rdata(&mut room).map_err(|error| format!("{error:?}"))?;
                let data = room[..len].to_vec();
                let owner =
                    record.owner().map_err(|error| format!("{error:?}"))?.folded().wire().to_vec();
                answer.facts.insert((owner, record.rtype.0, data), record.ttl_field);
            }
        }
        Ok(answer)
    }
}

/// Formats the RCODE and the records of an answer section.
pub(super) fn told(rcode: Rcode, facts: &BTreeMap<Fact, u32>) -> String {
    let fact = |(owner, rtype, data): &Fact| format!("{} {} {data:?}", shown(owner), Rtype(*rtype));
    format!("{rcode} [{}]", facts.keys().map(fact).collect::<Vec<_>>().join(", "))
}
