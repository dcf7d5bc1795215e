//! The messages with which a zone is transferred to another server (AXFR, RFC 5936; IXFR, RFC
//! 1995). They are made one by one and have a limited size.
//!
//! ```text
//! Start --SOA--> Records --all others--> End --SOA--> Done
//!       --SOA--> Changes --removed, added, of each change--> End
//! ```
//! The transfer holds one version of the zone. A new version that comes into force meanwhile has no
//! effect on it.

use std::sync::Arc;

use avocet_wire::Rtype;
use avocet_wire::header::{AA, HEADER_LEN, Header, QR};

use crate::change::{OwnedRecord, ZoneChange};
use crate::tree::{HostedRecord, HostedZone, Node, RECORD_HEAD};
use crate::tsig::MAX_TSIG;

/// Number of octets above which a message is full and is sent. Compression pointers can reach all
/// names in a message of this length.
const MESSAGE: usize = 16 << 10;
/// Maximum number of octets of a message with only one record.
const LONGEST: usize = 65_535 - MAX_TSIG;
/// A compression pointer to the name in the question, which is the name of the zone.
const TO_APEX: [u8; 2] = [0xc0, HEADER_LEN as u8];
/// Proof that the records of a message can be counted with 16 bits, since each record has at least
/// 12 octets.
const _: () = assert!(MESSAGE / 12 < 0xffff);

/// A transfer of a zone to a client.
#[derive(Debug)]
pub struct OutboundTransfer {
    zone: Arc<HostedZone>,
    /// The changes to send; `None` to send the whole zone.
    changes: Option<Box<[Arc<ZoneChange>]>>,
    /// The question of the request, whose name is that of the zone in any letter case.
    question: Box<[u8]>,
    id: u16,
    /// The flags of the request that the reply repeats.
    flags: u16,
    place: TransferPlace,
}

/// The place in the zone at which the transfer continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TransferPlace {
    /// The first SOA record comes next.
    Start,
    /// The node at offset `at` comes next, without its first `sent` records, which were already
    /// sent.
    Records { at: usize, sent: usize },
    /// The record at offset `at` of a list comes next. The removed and added records of all changes
    /// are lists with consecutive indexes.
    Changes { list: usize, at: usize },
    /// The final SOA record comes next.
    End,
    /// All records were sent.
    Done,
}

/// The error that the zone has a record too long for any message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a record is too long for a message")]
pub struct RecordTooLong;

impl OutboundTransfer {
    /// Creates a transfer of the whole zone. `header` and `question` are those of the request.
    #[must_use]
    pub fn new(zone: Arc<HostedZone>, header: Header, question: &[u8]) -> Self {
        let flags = header.flags & avocet_wire::header::RD;
        let (id, place) = (header.id, TransferPlace::Start);
        Self { zone, changes: None, question: question.into(), id, flags, place }
    }

    /// Makes the transfer send the changes since the client's version instead of the zone (RFC 1995
    /// §4).
    #[must_use]
    pub fn of_changes(self, changes: &[Arc<ZoneChange>]) -> Self {
        Self { changes: Some(changes.into()), ..self }
    }

    /// Returns whether the transfer sends changes instead of the whole zone.
    #[must_use]
    pub fn is_incremental(&self) -> bool {
        self.changes.is_some()
    }

    /// Returns the version of the zone that is transferred.
    #[must_use]
    pub fn zone(&self) -> &HostedZone {
        &self.zone
    }

    /// Reports whether all messages were made.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.place == TransferPlace::Done
    }

    /// Replaces the content of `out` with the next message.
    ///
    /// # Errors
    /// The zone cannot be transferred.
    pub fn next(&mut self, out: &mut Vec<u8>) -> Result<(), RecordTooLong> {
        out.clear();
        if self.is_done() {
            return Ok(());
        }
        let (id, flags) = (self.id, QR | AA | self.flags);
        let mut head = [0; HEADER_LEN];
        Header { id, flags, counts: [1, 0, 0, 0] }.write(&mut head);
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.question);
        let zone = self.zone.clone();
        let mut page = Page { out, count: 0, apex_len: zone.apex().len() };
        let written = self.fill(&zone, &mut page);
        let count = page.count.to_be_bytes();
        out[6..8].copy_from_slice(&count);
        written
    }

    /// Adds records until the message is full or the transfer ends.
    fn fill(&mut self, zone: &HostedZone, page: &mut Page<'_>) -> Result<(), RecordTooLong> {
        loop {
            self.place = match self.place {
                TransferPlace::Start => {
                    page.put_soa(zone)?;
                    match self.changes {
                        Some(_) => TransferPlace::Changes { list: 0, at: 0 },
                        None => TransferPlace::Records { at: 0, sent: 0 },
                    }
                }
                TransferPlace::Changes { list, at } => {
                    let changes = self.changes.as_deref().unwrap_or_default();
                    let Some(change) = changes.get(list / 2) else {
                        self.place = TransferPlace::End;
                        continue;
                    };
                    let records = if list % 2 == 0 { &change.removed } else { &change.added };
                    match records.at(at) {
                        Some(one) if !page.has_room(&one) => return Ok(()),
                        Some(one) => {
                            page.put_owned(&one)?;
                            TransferPlace::Changes { list, at: one.next }
                        }
                        None => TransferPlace::Changes { list: list + 1, at: 0 },
                    }
                }
                TransferPlace::Records { at, .. } if at >= zone.block.len() => TransferPlace::End,
                TransferPlace::Records { at, sent } => {
                    let node = Node { block: &zone.block, at };
                    match page.put_node(node, sent)? {
                        Some(sent) => {
                            self.place = TransferPlace::Records { at, sent };
                            return Ok(());
                        }
                        None => TransferPlace::Records { at: node.end(), sent: 0 },
                    }
                }
                TransferPlace::End if page.is_full() => return Ok(()),
                TransferPlace::End => {
                    page.put_soa(zone)?;
                    TransferPlace::Done
                }
                TransferPlace::Done => return Ok(()),
            };
        }
    }
}

/// A message that is being filled.
struct Page<'o> {
    out: &'o mut Vec<u8>,
    count: u16,
    apex_len: usize,
}

impl Page<'_> {
    fn is_full(&self) -> bool {
        self.count > 0 && self.out.len() >= MESSAGE
    }

    /// Reports whether a record fits into the message.
    fn has_room(&self, one: &OwnedRecord<'_>) -> bool {
        let len = one.owner.len() + RECORD_HEAD + one.record.rdata.len();
        self.count == 0 || self.out.len() + len <= MESSAGE
    }

    fn put_owned(&mut self, one: &OwnedRecord<'_>) -> Result<(), RecordTooLong> {
        let own = &one.owner.wire()[..one.owner.len() - self.apex_len];
        self.put(&[own, &TO_APEX].concat(), &one.record)
    }

    fn put_soa(&mut self, zone: &HostedZone) -> Result<(), RecordTooLong> {
        let apex = zone.node(zone.apex().wire());
        let soa = apex.and_then(|apex| apex.set(Rtype::SOA)).and_then(|set| set.iter().next());
        soa.map_or(Ok(()), |soa| self.put(&TO_APEX, &soa))
    }

    /// Adds the records of a node, without the first `sent` ones. If some do not fit, returns the
    /// number of records that were sent.
    fn put_node(&mut self, node: Node<'_>, sent: usize) -> Result<Option<usize>, RecordTooLong> {
        let own = &node.name().wire()[..node.name().len() - self.apex_len];
        let mut owner = [own, &TO_APEX].concat();
        let sets = node.sets();
        let soa = |record: &HostedRecord<'_>| record.rtype != Rtype::SOA;
        let records = sets.flat_map(|set| set.iter().filter(soa).chain(set.signatures()));
        for (number, record) in records.enumerate().skip(sent) {
            let len = owner.len() + RECORD_HEAD - 2 + record.rdata.len();
            if self.count > 0 && self.out.len() + len > MESSAGE {
                return Ok(Some(number));
            }
            let at = self.out.len();
            self.put(&owner, &record)?;
            if owner.len() > 2 {
                owner = (0xc000 | at as u16).to_be_bytes().to_vec();
            }
        }
        Ok(None)
    }

    fn put(&mut self, owner: &[u8], record: &HostedRecord<'_>) -> Result<(), RecordTooLong> {
        let HostedRecord { rtype, ttl_secs, rdata } = *record;
        if self.out.len() + owner.len() + RECORD_HEAD + rdata.len() > LONGEST {
            return Err(RecordTooLong);
        }
        self.out.extend_from_slice(owner);
        self.out.extend_from_slice(&rtype.0.to_be_bytes());
        self.out.extend_from_slice(&[0, 1]);
        self.out.extend_from_slice(&ttl_secs.to_be_bytes());
        self.out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        self.out.extend_from_slice(rdata);
        self.count += 1;
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;

    use avocet_wire::view::MessageView;
    use avocet_wire::{FoldedName, rdata};

    use super::*;

    pub(crate) const APEX: FoldedName<'static> =
        FoldedName::from_folded_unchecked(b"\x07example\0");

    pub(crate) fn zone(text: &str) -> Arc<HostedZone> {
        let mut open = |_: &std::path::Path, _: u64| Ok(text.as_bytes().to_vec());
        let (zone, faults) = crate::load(APEX, std::path::Path::new("z"), 0, &mut open);
        Arc::new(zone.unwrap_or_else(|| panic!("{:?}", faults.list())))
    }

    /// Returns the messages of a transfer, and their records.
    fn transfer(zone: &Arc<HostedZone>) -> (Vec<Vec<u8>>, Vec<String>) {
        messages_of(begin(zone))
    }

    fn begin(zone: &Arc<HostedZone>) -> OutboundTransfer {
        let header = Header { id: 9, flags: 0x0100, counts: [1, 0, 0, 0] };
        OutboundTransfer::new(zone.clone(), header, b"\x07eXample\0\0\xfc\0\x01")
    }

    fn messages_of(mut transfer: OutboundTransfer) -> (Vec<Vec<u8>>, Vec<String>) {
        let (mut messages, mut records) = (Vec::new(), Vec::new());
        while !transfer.is_done() {
            let mut message = Vec::new();
            transfer.next(&mut message).unwrap();
            let view = MessageView::new(&message).unwrap();
            assert_eq!((view.header().id, view.header().flags), (9, 0x8500));
            for record in view.records().unwrap() {
                let record = record.unwrap();
                let mut room = vec![0; 65_535];
                let len = record.expand_rdata(&mut room).unwrap();
                let data = rdata::display(record.rtype.0, &room[..len]).to_string();
                let owner = record.owner().unwrap().folded();
                records.push(format!("{owner} {} {} {data}", record.ttl_secs(), record.rtype));
            }
            messages.push(message);
        }
        (messages, records)
    }

    const HEAD: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

    #[test]
    fn a_transfer_has_each_record_once_between_two_soa_records() {
        let mut text = HEAD.to_owned();
        for number in 0..5_000 {
            let _ = writeln!(text, "h{number}.a A 10.0.{}.{}", number >> 8, number & 255);
            let _ = writeln!(text, "h{number}.a TXT t{number}");
        }
        let zone = zone(&text);
        let (messages, records) = transfer(&zone);
        assert!(messages.len() > 5 && messages.iter().all(|message| message.len() <= MESSAGE + 64));
        assert_eq!(records.len(), zone.records() as usize + 1);
        assert_eq!(records.first(), records.last());
        let distinct: BTreeSet<_> = records.iter().collect();
        assert_eq!(distinct.len(), zone.records() as usize);
        assert_eq!(records.iter().filter(|record| record.contains(" SOA ")).count(), 2);
    }

    #[test]
    fn long_records_have_messages_of_their_own() {
        let mut text = HEAD.to_owned();
        for name in ["a", "b"] {
            let _ = writeln!(text, "{name} TYPE65400 \\# 40000 {}", "00".repeat(40_000));
        }
        let (messages, records) = transfer(&zone(&text));
        assert_eq!((messages.len(), records.len()), (4, 6));
    }

    #[test]
    fn changes_are_sent_in_their_order_each_with_the_soa_records_of_its_versions() {
        let text = |serial: u32, hosts: u32| {
            let mut text =
                format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\nns A 10.1.1.1\n");
            for host in 0..hosts {
                let _ = writeln!(text, "h{host}.a A 10.0.{}.{}", host >> 8, host & 255);
            }
            Arc::try_unwrap(zone(&text)).unwrap()
        };
        let (one, two, three) = (text(1, 3_000), text(2, 3_001), text(3, 2_000));
        let two = two.following(&one, 0);
        let three = Arc::new(three.following(&two, 0));
        let changes = three.changes_since(1).unwrap();
        let (messages, records) = messages_of(begin(&three).of_changes(changes));
        assert!(messages.len() > 1 && messages.iter().all(|message| message.len() <= MESSAGE + 64));
        let soa = |serial: u32| format!("example. 60 SOA ns.example. h.example. {serial} 2 3 4 5");
        let places = records.iter().enumerate().filter(|(_, record)| record.contains(" SOA "));
        let (places, found): (Vec<_>, Vec<_>) = places.map(|(at, one)| (at, one.clone())).unzip();
        assert_eq!(found, [3, 1, 2, 2, 3, 3].map(soa));
        assert_eq!(places, [0, 1, 2, 4, 1_006, 1_007]);
        assert_eq!(three.changes_since(2).map(<[_]>::len), Some(1));
    }
}
