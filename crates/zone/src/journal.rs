//! The journal of a zone, a file to which changes are appended.
//!
//! ```text
//! file     "AVOJRNL1"  name of the zone  entries
//! entry    length(4)  CRC-32 of the rest(4)  kind(1)  content
//! change   kind 1: from(12)  to(12)  removed  added
//! version  serial(4)  digest(8)
//! list     records(4)  octets(4)  records
//! written  kind 2: version(12) that the master file has
//! read     kind 3: like a change, from the version of the master file, which the server has read,
//!          to the version that it put in force
//! ```
//! A process that is killed leaves at most one incomplete entry at the end, which is cut off. Other
//! unusable octets are damage, and the entries behind them are searched for.

use std::sync::Arc;

use avocet_wire::FoldedName;

mod damage;

pub use damage::BehindDamage;

use crate::change::{RecordList, ZoneChange, ZoneVersion};

/// The first octets of a journal, which identify its format.
const MAGIC: &[u8; 8] = b"AVOJRNL1";
/// Number of octets before the kind of an entry: the length and the checksum.
const ENTRY_HEAD: usize = 8;
/// Number of octets of an encoded version.
const VERSION: usize = 12;
/// Maximum number of octets of an entry. A change is at most as long as its zone, and 1 GiB is 30
/// million records.
const MAX_JOURNAL_ENTRY: u32 = 1 << 30;

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EntryKind {
    Change = 1,
    Written = 2,
    Read = 3,
}

/// The content of a journal, up to the last usable entry.
#[derive(Debug, Default)]
pub struct JournalContent {
    /// The changes. Each begins at the version at which the previous one ends.
    pub changes: Vec<Arc<ZoneChange>>,
    /// The version that the server wrote to the master file last.
    pub written: Option<ZoneVersion>,
    /// The change from the master file to the version in force, at the time when the server last
    /// read the file; `None` if the server has written the file since.
    pub read: Option<Arc<ZoneChange>>,
    /// Number of octets up to the end of the last usable entry.
    pub usable: usize,
    /// Number of octets after the last usable entry.
    pub cut: usize,
    /// The readable entries behind the last usable entry, if the octets there are damaged; `None`
    /// if they are at most one incomplete entry.
    pub damage: Option<BehindDamage>,
}

/// Returns the first octets of the journal of a zone, before its entries.
#[must_use]
pub fn journal_head(apex: FoldedName<'_>) -> Vec<u8> {
    [&MAGIC[..], apex.wire()].concat()
}

/// Appends a change as an entry.
pub fn append_change(out: &mut Vec<u8>, change: &ZoneChange) {
    append_entry(out, EntryKind::Change, |out| append_step(out, change));
}

/// Appends an entry that says that the master file was read. `step` is the change from the version
/// of the file to the version in force; it has no records if both are the same.
pub fn append_read(out: &mut Vec<u8>, step: &ZoneChange) {
    append_entry(out, EntryKind::Read, |out| append_step(out, step));
}

fn append_step(out: &mut Vec<u8>, change: &ZoneChange) {
    append_version(out, change.from);
    append_version(out, change.to);
    for list in [&change.removed, &change.added] {
        out.extend_from_slice(&list.len().to_be_bytes());
        out.extend_from_slice(&(list.octets().len() as u32).to_be_bytes());
        out.extend_from_slice(list.octets());
    }
}

/// Appends an entry that says that this version was written to the master file.
pub fn append_written(out: &mut Vec<u8>, version: ZoneVersion) {
    append_entry(out, EntryKind::Written, |out| append_version(out, version));
}

fn append_version(out: &mut Vec<u8>, ZoneVersion { serial, digest }: ZoneVersion) {
    out.extend_from_slice(&serial.to_be_bytes());
    out.extend_from_slice(&digest.to_be_bytes());
}

fn append_entry(out: &mut Vec<u8>, kind: EntryKind, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; ENTRY_HEAD]);
    out.push(kind as u8);
    content(out);
    let body = &out[start + ENTRY_HEAD..];
    let (len, check) = (body.len() as u32, crc32fast::hash(body));
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
    out[start + 4..start + 8].copy_from_slice(&check.to_be_bytes());
}

/// Parses the journal of a zone, up to the first unusable octet, and searches for entries behind
/// it. An empty file is damaged, because the server never writes one.
#[must_use]
pub fn read_journal(octets: &[u8], apex: FoldedName<'_>) -> JournalContent {
    let mut content = JournalContent { cut: octets.len(), ..JournalContent::default() };
    let head = journal_head(apex);
    if !octets.starts_with(&head) {
        // Entries in this file may be changes of another zone.
        content.damage = Some(BehindDamage::whole(octets));
        return content;
    }
    let mut at = head.len();
    while let Some((len, entry)) = octets.get(at..).and_then(entry)
        && content.take(entry).is_some()
    {
        at += len;
    }
    (content.usable, content.cut) = (at, octets.len() - at);
    let last = content.changes.last().map(|last| last.to);
    content.damage = BehindDamage::of(&octets[at..], last);
    content
}

/// Splits off the first entry: returns its length and its content. Returns `None` if the entry is
/// incomplete or damaged.
fn entry(octets: &[u8]) -> Option<(usize, &[u8])> {
    let (head, rest) = octets.split_first_chunk::<ENTRY_HEAD>()?;
    let [a, b, c, d, check @ ..] = *head;
    let len = u32::from_be_bytes([a, b, c, d]);
    let body = rest.get(..len as usize).filter(|_| len <= MAX_JOURNAL_ENTRY)?;
    let is_whole = crc32fast::hash(body) == u32::from_be_bytes(check);
    is_whole.then_some((ENTRY_HEAD + body.len(), body))
}

impl JournalContent {
    /// Adds an entry to the content. Returns `None` if the entry does not continue the previous
    /// ones.
    fn take(&mut self, entry: &[u8]) -> Option<()> {
        let (kind, mut rest) = entry.split_first()?;
        match *kind {
            kind if kind == EntryKind::Change as u8 => {
                let change = step(rest)?;
                if self.changes.last().is_some_and(|last| last.to != change.from) {
                    return None;
                }
                self.changes.push(Arc::new(change));
            }
            kind if kind == EntryKind::Written as u8 => {
                (self.written, self.read) = (Some(version(&mut rest)?), None);
            }
            kind if kind == EntryKind::Read as u8 => self.read = Some(Arc::new(step(rest)?)),
            _ => return None,
        }
        Some(())
    }

    /// Returns the number of changes up to a version; `None` if no change leads to that version.
    #[must_use]
    pub fn place_of(&self, version: ZoneVersion) -> Option<usize> {
        place_in(&self.changes, version)
    }

    /// Returns the changes that the master file lacked when the server read or wrote it last.
    #[must_use]
    pub fn not_on_file(&self) -> Vec<Arc<ZoneChange>> {
        let known = self.read.as_ref().map(|read| read.to).or(self.written);
        let place = known.and_then(|version| self.place_of(version));
        let later = place.map_or(&[][..], |place| &self.changes[place..]);
        let read = self.read.iter().filter(|read| read.from != read.to);
        read.chain(later).cloned().collect()
    }
}

/// Returns the number of changes up to a version; `None` if no change leads to that version or
/// begins with it.
fn place_in(changes: &[Arc<ZoneChange>], version: ZoneVersion) -> Option<usize> {
    let after = changes.iter().rposition(|change| change.to == version);
    let before = || changes.iter().position(|change| change.from == version);
    after.map(|at| at + 1).or_else(before)
}

/// Parses a change. Returns `None` unless it takes all octets.
fn step(mut rest: &[u8]) -> Option<ZoneChange> {
    let (from, to) = (version(&mut rest)?, version(&mut rest)?);
    let (removed, added) = (list(&mut rest)?, list(&mut rest)?);
    rest.is_empty().then_some(ZoneChange { from, to, removed, added })
}

fn version(rest: &mut &[u8]) -> Option<ZoneVersion> {
    let (octets, after) = rest.split_first_chunk::<VERSION>()?;
    *rest = after;
    let (serial, digest) = (octets.first_chunk()?, octets.last_chunk()?);
    Some(ZoneVersion { serial: u32::from_be_bytes(*serial), digest: u64::from_be_bytes(*digest) })
}

fn list(rest: &mut &[u8]) -> Option<RecordList> {
    let (head, after) = rest.split_first_chunk::<8>()?;
    let [a, b, c, d, octets @ ..] = *head;
    let (list, after) = after.split_at_checked(u32::from_be_bytes(octets) as usize)?;
    *rest = after;
    RecordList::read(list, u32::from_be_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::tests::{APEX, zone};

    fn three() -> (Vec<Arc<ZoneChange>>, Vec<u8>) {
        let text = |serial: u8| {
            format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\nns A 10.0.0.{serial}\n")
        };
        let mut octets = journal_head(APEX);
        let changes: Vec<_> = (1..4)
            .map(|serial| {
                let (before, after) = (zone(&text(serial)), zone(&text(serial + 1)));
                let change = ZoneChange::between(&before, &after, 1 << 20).unwrap();
                append_change(&mut octets, &change);
                Arc::new(change)
            })
            .collect();
        append_written(&mut octets, changes[1].to);
        (changes, octets)
    }

    #[test]
    fn a_journal_is_read_as_it_was_written_and_only_by_its_zone() {
        let (changes, octets) = three();
        let content = read_journal(&octets, APEX);
        assert_eq!(content.changes, changes);
        assert_eq!((content.written, content.cut), (Some(changes[1].to), 0));
        assert_eq!(content.usable, octets.len());
        assert_eq!(content.place_of(changes[0].from), Some(0));
        assert_eq!(content.place_of(changes[2].to), Some(3));
        assert_eq!(content.place_of(ZoneVersion { serial: 2, digest: 0 }), None);
        let other = FoldedName::from_folded_unchecked(b"\x05other\0");
        assert_eq!(read_journal(&octets, other).cut, octets.len());
    }

    #[test]
    fn a_file_that_was_read_or_written_lacks_only_the_later_changes() {
        let (changes, mut octets) = three();
        let not_on_file = |octets: &[u8]| read_journal(octets, APEX).not_on_file();
        assert_eq!(not_on_file(&octets), changes[2..]);
        // The file has the second version with another serial, and lacks the third.
        let file = ZoneVersion { serial: 1, ..changes[1].from };
        let step = ZoneChange { from: file, ..(*changes[1]).clone() };
        append_read(&mut octets, &step);
        let content = read_journal(&octets, APEX);
        assert_eq!((content.cut, content.written), (0, Some(changes[1].to)));
        assert_eq!(content.read.as_deref(), Some(&step));
        assert_eq!(content.not_on_file(), [Arc::new(step), changes[2].clone()]);
        append_read(&mut octets, &ZoneChange::none(changes[2].to));
        assert_eq!(not_on_file(&octets), []);
        append_written(&mut octets, changes[0].to);
        assert_eq!(not_on_file(&octets), changes[1..]);
        assert_eq!(read_journal(&octets, APEX).read, None);
    }

    #[test]
    fn what_is_behind_the_last_whole_entry_is_cut_off() {
        let (changes, octets) = three();
        for len in 0..octets.len() {
            let content = read_journal(&octets[..len], APEX);
            assert_eq!(content.usable + content.cut, len);
            assert_eq!(content.changes, changes[..content.changes.len()]);
            if content.usable == 0 {
                assert!(content.damage.unwrap().missing_at_end() > 0);
                continue;
            }
            assert!(content.damage.is_none(), "{len}");
            let again = read_journal(&octets[..content.usable], APEX);
            assert_eq!((again.cut, again.changes), (0, content.changes));
        }
    }

    #[test]
    fn the_length_of_a_file_may_reach_the_disk_without_its_data() {
        let (changes, mut octets) = three();
        octets.resize(octets.len() + 4_096, 0);
        let content = read_journal(&octets, APEX);
        assert_eq!((content.changes, content.cut), (changes, 4_096));
        assert!(content.damage.is_none());
    }

    #[test]
    fn a_changed_octet_never_changes_what_is_read_before_it() {
        let (changes, octets) = three();
        for at in journal_head(APEX).len()..octets.len() {
            let mut damaged = octets.clone();
            damaged[at] ^= 0x10;
            let content = read_journal(&damaged, APEX);
            assert!(content.usable <= at && content.cut > 0, "{at}");
            assert_eq!(content.changes, changes[..content.changes.len()]);
        }
    }

    #[test]
    fn a_changed_bit_costs_only_its_own_entry() {
        let (changes, _) = three();
        let mut octets = journal_head(APEX);
        let mut ends = vec![octets.len()];
        for (number, change) in changes.iter().enumerate() {
            append_change(&mut octets, change);
            ends.push(octets.len());
            if number == 1 {
                append_written(&mut octets, change.to);
                ends.push(octets.len());
            }
        }
        let edited = ZoneVersion { serial: 9, digest: 9 };
        for at in ends[0]..octets.len() {
            let hit = ends.iter().rposition(|end| *end <= at).unwrap();
            for bit in 0..8 {
                let mut damaged = octets.clone();
                damaged[at] ^= 1 << bit;
                let content = read_journal(&damaged, APEX);
                let place = format!("{at} {bit} in {hit}");
                let is_length = at < ends[hit] + 4;
                if hit < 3 || is_length {
                    // The file has the damaged changes, or nothing is missing.
                    if hit == 2 && !is_length {
                        // The version that the file had is missing.
                        assert!(content.after_damage(edited).is_none(), "{place}");
                        assert_eq!(content.lacked_by(edited), changes[2..], "{place}");
                    } else {
                        let after = content.after_damage(edited).expect(&place);
                        assert_eq!(after.not_on_file(), changes[2..], "{place}");
                    }
                    let after = content.after_damage(changes[1].to).expect(&place);
                    let later = after.place_of(changes[1].to).unwrap();
                    assert_eq!(after.changes[later..], changes[2..], "{place}");
                    continue;
                }
                assert!(content.damage.as_ref().unwrap().missing_at_end() > 0, "{place}");
                assert!(content.after_damage(edited).is_none(), "{place}");
                assert!(content.after_damage(changes[1].to).is_none(), "{place}");
                assert_eq!(content.lacked_by(changes[1].to), [], "{place}");
                assert_eq!(content.lacked_by(edited), [], "{place}");
                assert_eq!(content.lacked_by(changes[0].to), changes[1..2], "{place}");
            }
        }
    }

    #[test]
    fn changes_behind_damage_are_lacked_by_a_file_that_was_not_written_since() {
        let (changes, _) = three();
        let mut octets = journal_head(APEX);
        let first = octets.len();
        append_read(&mut octets, &ZoneChange::none(changes[0].from));
        let second = octets.len();
        changes.iter().for_each(|change| append_change(&mut octets, change));
        octets[second + 40] ^= 1;
        let content = read_journal(&octets, APEX);
        assert!(content.after_damage(changes[0].from).is_none());
        assert_eq!(content.lacked_by(changes[0].from), changes[1..]);
        assert_eq!(content.lacked_by(changes[0].to), changes[1..]);
        assert!(content.after_damage(changes[0].to).is_some());
        // A change at the end whose length and start are damaged is not taken for one that was cut.
        let mut end = octets.clone();
        let last = octets.len() - octets_of(&changes[2]);
        end[last..last + ENTRY_HEAD + 20].fill(0xff);
        let content = read_journal(&end, APEX);
        assert!(content.damage.as_ref().unwrap().missing_at_end() > 0);
        assert_eq!(content.lacked_by(changes[0].to), changes[1..2]);
        octets[first + 20] ^= 1;
        assert_eq!(read_journal(&octets, APEX).lacked_by(changes[0].from), changes[1..]);
    }

    /// Returns the number of octets of the entry of a change.
    fn octets_of(change: &ZoneChange) -> usize {
        let mut octets = Vec::new();
        append_change(&mut octets, change);
        octets.len()
    }

    #[test]
    fn an_entry_that_was_not_written_completely_is_not_searched() {
        let (changes, _) = three();
        let mut forged = Vec::new();
        append_change(&mut forged, &changes[1]);
        let mut octets = journal_head(APEX);
        append_change(&mut octets, &changes[0]);
        let end = octets.len();
        let list = RecordList::default();
        let (from, to) = (changes[0].to, changes[1].to);
        append_change(&mut octets, &ZoneChange { from, to, removed: list.clone(), added: list });
        // The data of its records look like an entry.
        octets.truncate(end + ENTRY_HEAD + 1 + 2 * VERSION);
        octets[end..end + 4].copy_from_slice(&4_000_u32.to_be_bytes());
        octets.extend([0, 0, 0, 1, 0, 0, 10, 0]);
        octets.extend(&forged);
        octets.extend([0xff; 8]);
        let content = read_journal(&octets, APEX);
        assert!(content.damage.is_none() && content.changes == changes[..1]);
        // Nor is such an entry taken if others follow.
        octets[end + ENTRY_HEAD] ^= 0x20;
        append_change(&mut octets, &changes[2]);
        let content = read_journal(&octets, APEX);
        assert_eq!(content.damage.unwrap().changes, changes[2..]);
    }

    #[test]
    fn an_entry_in_the_data_of_a_record_is_not_taken_for_an_entry() {
        let (changes, _) = three();
        let mut forged = Vec::new();
        append_change(&mut forged, &changes[2]);
        let data: String = forged.iter().map(|octet| format!("\\{octet:03}")).collect();
        assert!(forged.len() < 256, "the entry fits into one string");
        let text = |serial: u8, data: &str| {
            let head = format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\n");
            zone(&format!("{head}ns A 10.0.0.1\nt TXT \"{data}\"\n"))
        };
        let (before, after, next) = (text(1, "x"), text(2, &data), text(3, "y"));
        let mut octets = journal_head(APEX);
        let first = octets.len();
        append_change(&mut octets, &ZoneChange::between(&before, &after, 1 << 20).unwrap());
        let last = ZoneChange::between(&after, &next, 1 << 20).unwrap();
        append_change(&mut octets, &last);
        // The length and the kind are damaged, so that the next entry must be searched for.
        octets[first] ^= 0x40;
        octets[first + ENTRY_HEAD] ^= 0x10;
        let content = read_journal(&octets, APEX);
        assert_eq!(content.lacked_by(before.version()), [Arc::new(last)]);
    }
}
