//! The difference between two versions of a zone in the form of IXFR (RFC 1995 §4): the removed
//! records, then the added records. Each list begins with the SOA record of its version.
//!
//! A [`HostedZone`] keeps the changes that led to it, so that they always fit the version.

use std::collections::HashSet;
use std::sync::Arc;

use avocet_wire::canonical::compare_names;
use avocet_wire::{FoldedName, Rtype, hash};

use crate::tree::{HostedRecord, HostedZone, Node, RECORD_HEAD};

/// Maximum number of changes that a zone keeps.
pub const MAX_KEPT_CHANGES: usize = 1_024;
/// Number of octets of changes that every zone may keep. A larger zone may keep as many octets of
/// changes as it has itself, because a difference longer than the zone is never sent.
const MIN_KEPT_OCTETS: usize = 64 << 10;

/// A list of records with any owners, encoded one after another: the owner, then the record as in a
/// message.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct RecordList {
    octets: Vec<u8>,
    count: u32,
}

/// A record of a list with its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnedRecord<'l> {
    /// The owner.
    pub owner: FoldedName<'l>,
    /// TTL, type and data.
    pub record: HostedRecord<'l>,
    /// The offset of the next record in the list.
    pub(crate) next: usize,
}

impl RecordList {
    /// Adds a record.
    pub fn push(&mut self, owner: FoldedName<'_>, record: &HostedRecord<'_>) {
        let HostedRecord { rtype, ttl_secs, rdata } = *record;
        self.octets.extend_from_slice(owner.wire());
        self.octets.extend_from_slice(&rtype.0.to_be_bytes());
        self.octets.extend_from_slice(&ttl_secs.to_be_bytes());
        self.octets.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        self.octets.extend_from_slice(rdata);
        self.count += 1;
    }

    /// Parses a list of `count` records from a file. Returns `None` if the octets are not exactly
    /// these records.
    pub(crate) fn read(octets: &[u8], count: u32) -> Option<Self> {
        let list = Self { octets: octets.to_vec(), count };
        let mut at = 0;
        for _ in 0..count {
            let record = list.at(at)?;
            FoldedName::new(record.owner.wire())?;
            at = record.next;
        }
        (at == list.octets.len()).then_some(list)
    }

    /// Returns the records.
    pub fn iter(&self) -> impl Iterator<Item = OwnedRecord<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let record = self.at(at)?;
            at = record.next;
            Some(record)
        })
    }

    /// Returns the number of records.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Returns whether there is no record.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Returns the record at an offset.
    pub(crate) fn at(&self, at: usize) -> Option<OwnedRecord<'_>> {
        let rest = self.octets.get(at..)?;
        let (mut len, mut label) = (0, usize::from(*rest.first()?));
        while label > 0 {
            len += 1 + label;
            label = usize::from(*rest.get(len)?);
        }
        let (owner, rest) = rest.split_at_checked(len + 1)?;
        let (head, rest) = rest.split_first_chunk::<8>()?;
        let [high, low, a, b, c, d, len_high, len_low] = *head;
        let rdata = rest.get(..usize::from(u16::from_be_bytes([len_high, len_low])))?;
        let rtype = Rtype(u16::from_be_bytes([high, low]));
        let record = HostedRecord { rtype, ttl_secs: u32::from_be_bytes([a, b, c, d]), rdata };
        let owner = FoldedName::from_folded_unchecked(owner);
        Some(OwnedRecord { owner, record, next: at + owner.len() + 8 + rdata.len() })
    }
}

/// A version of a zone, identified by its serial and by a digest of its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneVersion {
    /// The serial.
    pub serial: u32,
    /// The digest of the records, regardless of their order. It detects mistakes, not forgeries.
    pub digest: u64,
}

/// A change: the records that lead from one version of a zone to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneChange {
    /// The version before the change.
    pub from: ZoneVersion,
    /// The version after the change.
    pub to: ZoneVersion,
    /// The removed records, of which the first is the SOA record of the version before.
    pub removed: RecordList,
    /// The added records, of which the first is the SOA record of the version after.
    pub added: RecordList,
}

/// The numbers of records that a change removes and adds, without SOA records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangeSize {
    /// Number of removed records.
    pub removed: u32,
    /// Number of added records.
    pub added: u32,
}

impl ZoneChange {
    /// Creates an empty change, from a version to itself.
    #[must_use]
    pub fn none(version: ZoneVersion) -> Self {
        let none = RecordList::default;
        Self { from: version, to: version, removed: none(), added: none() }
    }

    /// Computes the change between two versions. Returns `None` if it has more than `most` octets,
    /// or if the serial of the second version is not newer. The work is linear in the size of both.
    #[must_use]
    pub fn between(before: &HostedZone, after: &HostedZone, most: usize) -> Option<Self> {
        let is_newer = crate::is_newer(after.serial(), before.serial());
        is_newer.then(|| Self::difference(before, after, most)).flatten()
    }

    /// Computes the difference of two versions, whose serials may be in any order. Returns `None`
    /// if it has more than `most` octets.
    #[must_use]
    pub fn difference(before: &HostedZone, after: &HostedZone, most: usize) -> Option<Self> {
        let mut change = Self {
            from: before.version(),
            to: after.version(),
            removed: RecordList::default(),
            added: RecordList::default(),
        };
        for (zone, list) in [(before, &mut change.removed), (after, &mut change.added)] {
            list.push(zone.apex(), &zone.soa()?);
        }
        let (mut left, mut right) = (before.iter().peekable(), after.iter().peekable());
        while change.octets() <= most {
            let order = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => compare_names(a.name().wire(), b.name().wire()),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return Some(change),
            };
            let old = left.next_if(|_| order.is_le());
            let new = right.next_if(|_| order.is_ge());
            change.compare(old, new);
        }
        None
    }

    /// Adds the differences between the records of a name in the old and the new version.
    fn compare(&mut self, old: Option<Node<'_>>, new: Option<Node<'_>>) {
        if let (Some(old), Some(new)) = (old, new)
            && old.content() == new.content()
        {
            return;
        }
        let missing = |of: Option<Node<'_>>, than: Option<Node<'_>>, list: &mut RecordList| {
            let Some(of) = of else { return };
            let known: HashSet<_> = than.iter().flat_map(|node| records_of(*node)).collect();
            for record in records_of(of).filter(|record| !known.contains(record)) {
                list.push(of.name(), &record);
            }
        };
        missing(old, new, &mut self.removed);
        missing(new, old, &mut self.added);
    }

    /// Returns the number of octets of all records.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.removed.octets.len() + self.added.octets.len()
    }

    /// Returns the numbers of removed and added records.
    #[must_use]
    pub const fn size(&self) -> ChangeSize {
        ChangeSize {
            removed: self.removed.count.saturating_sub(1),
            added: self.added.count.saturating_sub(1),
        }
    }
}

/// Returns the records of a name, with signatures, but without the SOA record.
fn records_of(node: Node<'_>) -> impl Iterator<Item = HostedRecord<'_>> {
    let sets = node.sets();
    let all = sets.flat_map(|set| set.iter().chain(set.signatures()));
    all.filter(|record| record.rtype != Rtype::SOA)
}

impl HostedZone {
    /// Returns the SOA record of the zone.
    #[must_use]
    pub fn soa(&self) -> Option<HostedRecord<'_>> {
        self.node(self.apex().wire())?.set(Rtype::SOA)?.iter().next()
    }

    /// Returns the serial and the digest of this version. The first call reads the whole zone.
    #[must_use]
    pub fn version(&self) -> ZoneVersion {
        let digest = *self.digest.get_or_init(|| {
            let mut digest = 0_u64;
            let mut room = Vec::new();
            for node in self.iter() {
                for record in node.sets().flat_map(|set| set.iter().chain(set.signatures())) {
                    room.clear();
                    room.extend_from_slice(node.name().wire());
                    room.extend_from_slice(&record.rtype.0.to_be_bytes());
                    room.extend_from_slice(&record.ttl_secs.to_be_bytes());
                    room.extend_from_slice(record.rdata);
                    digest = digest.wrapping_add(hash::without_secret(&room));
                }
            }
            digest
        });
        ZoneVersion { serial: self.serial(), digest }
    }

    /// Returns the changes that led to this version, the latest last.
    #[must_use]
    pub fn changes(&self) -> &[Arc<ZoneChange>] {
        &self.changes
    }

    /// Returns the changes since the version with this serial. The list is empty if the serial is
    /// that of this version. Returns `None` if the changes are not kept, must not be sent, or are
    /// longer than the zone.
    #[must_use]
    pub fn changes_since(&self, serial: u32) -> Option<&[Arc<ZoneChange>]> {
        if serial == self.serial() {
            return Some(&[]);
        }
        if self.is_withheld(serial) {
            return None;
        }
        // Serials wrap, so the same serial may occur twice.
        let at = self.changes.iter().rposition(|change| change.from.serial == serial)?;
        let since = &self.changes[at..];
        let octets: usize = since.iter().map(|change| change.octets()).sum();
        (octets <= self.block.len()).then_some(since)
    }

    /// Returns the maximum number of octets of the changes that the zone may keep.
    #[must_use]
    pub fn most_change_octets(&self) -> usize {
        self.block.len().max(MIN_KEPT_OCTETS)
    }

    /// Takes over the changes of the previous version, and adds the change from that version to
    /// this one. The oldest changes are dropped beyond the limits, but the last `needed` ones are
    /// always kept. If the new change cannot be computed or is too long, no changes are kept.
    #[must_use]
    pub fn following(mut self, before: &Self, needed: usize) -> Self {
        // This limit on the octets of a change exceeds the effect of any single update.
        let most = 4 * before.most_change_octets().max(self.most_change_octets());
        self.changes = Vec::new();
        if before.version() == self.version() {
            self.changes = before.changes.clone();
        } else if let Some(change) = ZoneChange::between(before, &self, most) {
            self.changes = before.changes.clone();
            self.changes.push(Arc::new(change));
            self.trim(needed + 1);
        }
        self
    }

    /// Sets the changes that led to this version. The oldest changes are dropped beyond the limits,
    /// but the last `needed` ones are always kept.
    #[must_use]
    pub fn with_changes(mut self, changes: Vec<Arc<ZoneChange>>, needed: usize) -> Self {
        self.changes = changes;
        self.trim(needed);
        self
    }

    /// Marks the changes from versions up to this serial as not to be sent, because other servers
    /// have different versions with these serials. Reports whether there are such changes. They
    /// stay in [`Self::changes`].
    pub fn withhold_changes_from(&self, serial: u32) -> bool {
        self.withheld_from.get_or_init(|| serial);
        self.changes.iter().any(|change| self.is_withheld(change.from.serial))
    }

    /// Returns the serial that was passed to the first call of [`Self::withhold_changes_from`].
    #[must_use]
    pub fn withheld_from(&self) -> Option<u32> {
        self.withheld_from.get().copied()
    }

    /// Returns the oldest serial from which changes are sent.
    #[must_use]
    pub fn first_sent_serial(&self) -> Option<u32> {
        let mut serials = self.changes.iter().map(|change| change.from.serial);
        serials.find(|serial| !self.is_withheld(*serial))
    }

    fn is_withheld(&self, serial: u32) -> bool {
        self.withheld_from.get().is_some_and(|from| !crate::is_newer(serial, *from))
    }

    /// Drops the oldest changes beyond the limits, but keeps the last `needed` ones.
    fn trim(&mut self, needed: usize) {
        let most = self.most_change_octets();
        let (mut octets, mut kept) = (0, 0);
        for change in self.changes.iter().rev() {
            octets += change.octets();
            if kept >= needed && (octets > most || kept >= MAX_KEPT_CHANGES) {
                break;
            }
            kept += 1;
        }
        let surplus = self.changes.len() - kept;
        self.changes.drain(..surplus);
    }
}

/// Proof that a record of the zone always fits into a list: its uncompressed form is not too long.
const _: () = assert!(8 < RECORD_HEAD);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edits::ZoneEdits;
    use crate::outbound::tests::zone;

    const BEFORE: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\na.b A 192.0.2.2\n\
                          a.b TXT x\nc A 192.0.2.3\nc A 192.0.2.4\n";
    const AFTER: &str = "$TTL 60\n@ SOA ns h 7 2 3 4 5\n@ NS ns\nns A 192.0.2.1\na.b A 192.0.2.2\n\
                         a.b 30 TXT x\nc A 192.0.2.4\nc A 192.0.2.5\nd A 192.0.2.6\n";

    #[test]
    fn a_change_has_what_differs_and_leads_from_one_version_to_the_other() {
        let (before, after) = (zone(BEFORE), zone(AFTER));
        let change = ZoneChange::between(&before, &after, 1 << 20).unwrap();
        assert_eq!(change.size(), ChangeSize { removed: 2, added: 3 });
        assert_eq!((change.from, change.to), (before.version(), after.version()));
        assert!(ZoneChange::between(&after, &before, 1 << 20).is_none());
        assert!(ZoneChange::between(&before, &after, 10).is_none());
        let mut edits = ZoneEdits::of(&before);
        edits.apply(&change).unwrap();
        assert_eq!(edits.finish(0).unwrap().version(), after.version());
        let mut edits = ZoneEdits::of(&after);
        assert!(edits.apply(&change).is_err());
    }

    #[test]
    fn changes_are_kept_within_bounds_and_found_by_serial() {
        let hosts: String = (0..40).map(|host| format!("h{host} A 10.0.0.{host}\n")).collect();
        let of = |serial: u32| {
            let head = format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\n{hosts}");
            let text = format!("{head}ns A 10.0.0.{}\n", serial & 255);
            Arc::try_unwrap(zone(&text)).unwrap()
        };
        let mut last = of(1);
        for serial in 2..3_000 {
            last = of(serial).following(&last, 0);
            assert!(last.changes().len() <= MAX_KEPT_CHANGES);
        }
        let octets: usize = last.changes().iter().map(|change| change.octets()).sum();
        assert!(octets <= MIN_KEPT_OCTETS && last.changes().len() > 100);
        assert_eq!(last.changes_since(2_999), Some(&[][..]));
        assert_eq!(last.changes_since(2_998).unwrap().len(), 1);
        assert_eq!(last.changes_since(1), None);
        assert!(last.changes_since(2_500).is_none(), "longer than the zone");
        let kept = last.changes().len();
        let same = of(2_999).following(&last, 0);
        assert_eq!(same.changes().len(), kept);
        let backwards = of(5).following(&last, 0);
        assert_eq!(backwards.changes().len(), 0);
    }

    #[test]
    fn withheld_changes_are_kept_and_not_sent() {
        let of = |serial: u32| {
            let head = format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\nns A 10.0.0.1\n");
            // Changes that are longer than the zone are not sent.
            let hosts: String = (0..40).map(|host| format!("h{host} A 10.0.1.{host}\n")).collect();
            let text = format!("{head}{hosts}");
            Arc::try_unwrap(zone(&text)).unwrap()
        };
        let three = of(3).following(&of(2).following(&of(1), 0), 0);
        assert_eq!(three.changes_since(1).map(<[_]>::len), Some(2));
        assert!(three.withhold_changes_from(1));
        assert_eq!((three.changes_since(1), three.first_sent_serial()), (None, Some(2)));
        assert_eq!(three.changes_since(2).map(<[_]>::len), Some(1));
        assert_eq!(three.changes_since(3), Some(&[][..]));
        // Later versions do not inherit which changes are withheld.
        let four = || of(4).following(&three, 0);
        assert_eq!((four().changes().len(), four().first_sent_serial()), (3, Some(1)));
        assert_eq!((three.withheld_from(), four().withheld_from()), (Some(1), None));
        assert!(!four().withhold_changes_from(0), "all changes are from later versions");
        assert!(four().withhold_changes_from(3), "that from the last one, too");
    }

    #[test]
    fn octets_that_are_no_list_are_refused() {
        let (before, after) = (zone(BEFORE), zone(AFTER));
        let list = ZoneChange::between(&before, &after, 1 << 20).unwrap().added;
        assert_eq!(RecordList::read(list.octets(), list.len()), Some(list.clone()));
        assert_eq!(RecordList::read(list.octets(), list.len() + 1), None);
        assert_eq!(RecordList::read(list.octets(), list.len() - 1), None);
        for len in 0..list.octets().len() {
            assert_eq!(RecordList::read(&list.octets()[..len], list.len()), None);
        }
    }
}
