//! The result of a resolution, in the form in which it goes to the clients and the packet cache.
//!
//! [`Gathered`] contains the records of an answer in message order. Writing them gives a message
//! that lacks only the parts that differ between clients: ID, RD, CD, the case of the question,
//! OPT.

use std::collections::HashSet;
use std::ops::Range;

use avocet_cache::Unsupported;
use avocet_wire::builder::Record;
use avocet_wire::header::{HEADER_LEN, QR, RA};
use avocet_wire::{Builder, Class, Ede, FoldedName, Question, Rcode, Rtype, Section};

use crate::exchange::endpoint::EndpointId;

/// The result for one query of a client that waits for this question. The ranges in it refer to the
/// accompanying [`Answers`].
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The RCODE, which the message also contains.
    pub rcode: Rcode,
    /// The message within [`Answers::octets`]: ID zero, flags QR, RA and, if validated, AD; the
    /// question folded at offset 12; no OPT.
    pub message: Range<usize>,
    /// Offsets of the TTL fields in the message, within [`Answers::ttl_offsets`].
    pub ttl_offsets: Range<usize>,
    /// The lowest TTL in seconds; 0 for a message that must not be cached.
    pub ttl_secs: u32,
    /// The extended error for a missing or unvalidated answer, with a text for the operator.
    pub ede: Option<(Ede, &'static str)>,
    /// The SCOPE PREFIX-LENGTH of ECS, if the answer applies only to the client's network.
    pub ecs_scope: Option<u8>,
    /// The upstream that answered; `None` if no upstream did, or if the answer is from the cache.
    pub source: Option<Source>,
}

/// The origin of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// The server.
    pub upstream: EndpointId,
    /// The time from the query to the answer, in ms.
    pub rtt_ms: u32,
    /// Whether the answer came over TCP.
    pub over_tcp: bool,
}

/// Returns the extended error for signed data that was not validated because support is missing.
pub(crate) fn error_of(unsupported: Unsupported) -> (Ede, &'static str) {
    let ede = match unsupported {
        Unsupported::Algorithm => Ede::UNSUPPORTED_DNSKEY_ALGORITHM,
        Unsupported::Digest => Ede::UNSUPPORTED_DS_DIGEST_TYPE,
        Unsupported::Iterations => Ede::UNSUPPORTED_NSEC3_ITERATIONS,
    };
    (ede, ede.meaning())
}

/// The messages of answers and the offsets of their TTL fields. All answers share these two
/// buffers.
#[derive(Debug, Default)]
pub struct Answers {
    /// The messages.
    pub octets: Vec<u8>,
    /// The TTL offsets.
    pub ttl_offsets: Vec<u16>,
}

impl Answers {
    /// Removes everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.octets.clear();
        self.ttl_offsets.clear();
    }
}

/// The fields of a gathered record other than owner and data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordFields {
    pub(crate) section: Section,
    pub(crate) rtype: Rtype,
    pub(crate) class: Class,
    pub(crate) ttl_secs: u32,
}

#[derive(Clone, Copy, Debug)]
struct GatheredRecord {
    kind: RecordFields,
    owner_at: u32,
    rdata_at: u32,
    end: u32,
}

/// The parts of a gathered record: its fields, owner and data.
pub(crate) type GatheredParts<'a> = (RecordFields, FoldedName<'a>, &'a [u8]);

/// Records in message order. The memory is kept between uses.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    octets: Vec<u8>,
    entries: Vec<GatheredRecord>,
}

impl Gathered {
    /// Returns an empty list with room for this number of records, and of octets of their owners
    /// and data.
    pub(crate) fn with_capacity(records: usize, octets: usize) -> Self {
        Self { octets: Vec::with_capacity(octets), entries: Vec::with_capacity(records) }
    }

    pub(crate) fn clear(&mut self) {
        self.octets.clear();
        self.entries.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a record. Names in its data are uncompressed.
    pub(crate) fn push(&mut self, kind: RecordFields, owner: FoldedName<'_>, rdata: &[u8]) {
        let owner_at = self.octets.len() as u32;
        self.octets.extend_from_slice(&owner);
        let rdata_at = self.octets.len() as u32;
        self.octets.extend_from_slice(rdata);
        self.entries.push(GatheredRecord {
            kind,
            owner_at,
            rdata_at,
            end: self.octets.len() as u32,
        });
    }

    pub(crate) fn append(&mut self, other: &Self) {
        for (kind, owner, rdata) in other.iter() {
            self.push(kind, owner, rdata);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = GatheredParts<'_>> + Clone {
        self.entries.iter().map(|entry| {
            let (owner_at, rdata_at) = (entry.owner_at as usize, entry.rdata_at as usize);
            (
                entry.kind,
                FoldedName::from_folded_unchecked(&self.octets[owner_at..rdata_at]),
                &self.octets[rdata_at..entry.end as usize],
            )
        })
    }

    /// Returns the TTL of an RRset among the records.
    pub(crate) fn ttl_of(&self, owner: FoldedName<'_>, rtype: Rtype) -> Option<u32> {
        self.iter()
            .find(|(kind, at, _)| kind.rtype == rtype && *at == owner)
            .map(|(kind, ..)| kind.ttl_secs)
    }

    /// Returns whether there is a CNAME at this name.
    pub(crate) fn has_alias(&self, owner: FoldedName<'_>) -> bool {
        self.iter().any(|(kind, at, _)| kind.rtype == Rtype::CNAME && at == owner)
    }

    /// Returns whether the message is a negative response: its authority section has an SOA record.
    pub(crate) fn is_denial(&self) -> bool {
        self.iter().any(|(kind, ..)| kind.section == Section::Authority && kind.rtype == Rtype::SOA)
    }

    /// Returns the host names in NS, MX and SRV data, in lower case.
    pub(crate) fn targets(&self) -> HashSet<Vec<u8>> {
        let targets = self.iter().filter_map(|(kind, _, rdata)| {
            let fixed = match kind.rtype.0 {
                2 => 0,
                15 => 2,
                33 => 6,
                _ => return None,
            };
            rdata.get(fixed..).map(<[u8]>::to_ascii_lowercase)
        });
        targets.collect()
    }

    /// Lowers the TTLs of the authority section to this limit.
    pub(crate) fn cap_authority_ttl(&mut self, ttl_secs: u32) {
        for entry in &mut self.entries {
            if entry.kind.section == Section::Authority {
                entry.kind.ttl_secs = entry.kind.ttl_secs.min(ttl_secs);
            }
        }
    }

    /// Returns an upper bound of the message's length, with its question.
    fn bound(&self, question: Question<'_>) -> usize {
        HEADER_LEN + question.octets().len() + self.octets.len() + 10 * self.entries.len()
    }
}

/// Writes the answer to a question. `flags` are the RCODE and, if the answer is validated, AD.
/// Returns `None` if the answer is too long for a message.
pub(crate) fn write(
    out: &mut Answers,
    question: Question<'_>,
    flags: u16,
    gathered: &Gathered,
) -> Option<Resolved> {
    let start = out.octets.len();
    let bound = gathered.bound(question).min(usize::from(u16::MAX));
    out.octets.resize(start + bound, 0);
    let first_offset = out.ttl_offsets.len();
    let Answers { octets, ttl_offsets } = &mut *out;
    let message = &mut octets[start..];
    let Some(len) = write_message((message, ttl_offsets), question, flags, gathered) else {
        out.octets.truncate(start);
        out.ttl_offsets.truncate(first_offset);
        return None;
    };
    out.octets.truncate(start + len);
    let ttl_secs = gathered.iter().fold(u32::MAX, |least, (kind, ..)| least.min(kind.ttl_secs));
    Some(Resolved {
        rcode: Rcode(flags & 0xf),
        message: start..start + len,
        ttl_offsets: first_offset..out.ttl_offsets.len(),
        ttl_secs: if ttl_secs == u32::MAX { 0 } else { ttl_secs },
        ede: None,
        ecs_scope: None,
        source: None,
    })
}

fn write_message(
    (out, ttl_offsets): (&mut [u8], &mut Vec<u16>),
    question: Question<'_>,
    flags: u16,
    gathered: &Gathered,
) -> Option<usize> {
    let first_offset = ttl_offsets.len();
    let mut builder = Builder::new(out, usize::MAX, 0, QR | RA | flags).ok()?;
    builder.question(&question.qname(), question.qtype(), question.qclass()).ok()?;
    for (kind, owner, rdata) in gathered.iter() {
        let RecordFields { section, rtype, class, ttl_secs } = kind;
        ttl_offsets.push(builder.len() as u16);
        builder.record(section, &Record { owner: &owner, rtype, class, ttl_secs, rdata }).ok()?;
    }
    let len = builder.finish();
    for place in &mut ttl_offsets[first_offset..] {
        *place = ttl_offset(out, *place);
    }
    Some(len)
}

/// Returns the offset of the TTL of a record, after its name, type and class.
fn ttl_offset(message: &[u8], record: u16) -> u16 {
    let mut at = record;
    loop {
        match message.get(usize::from(at)) {
            // The name ends with the root or with a pointer.
            Some(0) | None => return at + 5,
            Some(0xc0..) => return at + 6,
            Some(length) => at += 1 + u16::from(*length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_its_ttl_offsets_and_its_shortest_ttl() {
        let question = Question::new(b"\x03www\x07example\x00\x00\x01\x00\x01").unwrap();
        let qname = question.qname();
        let mut gathered = Gathered::default();
        let kind = |rtype, ttl_secs| RecordFields {
            section: Section::Answer,
            rtype,
            class: Class::IN,
            ttl_secs,
        };
        gathered.push(kind(Rtype::CNAME, 300), qname, b"\x01a\x07example\x00");
        let target = FoldedName::new(b"\x01a\x07example\x00").unwrap();
        gathered.push(kind(Rtype::A, 60), target, &[192, 0, 2, 1]);
        let mut out = Answers::default();
        out.octets.extend_from_slice(b"before");
        let resolved = write(&mut out, question, 0, &gathered).unwrap();
        let message = &out.octets[resolved.message];
        assert_eq!(message.len(), 12 + 17 + (12 + 4) + (2 + 10 + 4));
        assert_eq!(message[..4], [0, 0, 0x80, 0x80]);
        let ttls: Vec<_> = out.ttl_offsets[resolved.ttl_offsets]
            .iter()
            .map(|&at| u32::from_be_bytes(*message[usize::from(at)..].first_chunk().unwrap()))
            .collect();
        assert_eq!(ttls, [300, 60]);
        assert_eq!(resolved.ttl_secs, 60);
    }
}
