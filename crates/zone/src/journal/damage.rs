//! The entries of a journal behind damage, such as an octet that changed on the disk.
//!
//! ```text
//! usable entries │ damaged │ entry │ entry │ ...
//!                     └─ one of its lengths leads to an entry, or the next entry is searched for:
//!                        its lengths must agree, and it and all entries behind it must be readable
//! ```
//! An entry whose own length is damaged is readable by the lengths of its content. An entry at the
//! end that is cut, or whose last octets are zero, is what a process or machine leaves that stopped
//! while it wrote: nobody searches in it, because the data of its records may look like an entry.

use std::sync::Arc;

use super::{
    ENTRY_HEAD, EntryKind, JournalContent, MAX_JOURNAL_ENTRY, VERSION, entry, place_in, step,
    version,
};
use crate::change::{ZoneChange, ZoneVersion};

/// Length of an entry that says that the file was written: the kind and a version.
const WRITTEN: usize = 1 + VERSION;
/// Number of octets that the search for an entry reads at most, for each octet of the journal.
const MAX_READINGS: usize = 4;
/// Minimum number of zero octets at the end of an entry whose data did not reach the disk.
const ZERO_END: usize = 64;
/// Number of octets of the shortest change that is likely.
const SHORT_CHANGE: usize = 50;
/// Number of changes that a journal without any readable entry may have had.
const CHANGES_OF_NOTHING: u32 = 100;

/// The readable entries behind the first damage of a journal.
#[derive(Clone, Debug, Default)]
pub struct BehindDamage {
    /// The changes, in the order of the journal. Changes between them may be missing.
    pub changes: Vec<Arc<ZoneChange>>,
    /// The version that the server wrote to the master file last, by an entry behind the damage.
    pub written: Option<ZoneVersion>,
    /// The change from the master file to the version in force, by an entry behind the damage.
    pub read: Option<Arc<ZoneChange>>,
    /// Number of `changes` before the entry with `written` or `read`.
    known_after: usize,
    /// Number of damaged octets behind which there is no change, without those of entries that are
    /// no changes.
    octets_at_end: usize,
    /// Whether a change is damaged behind which no entry has `written`.
    is_damaged_since_written: bool,
}

impl BehindDamage {
    /// Reads the octets behind the last usable entry, which leads to the version `last`. Returns
    /// `None` if they are what a process leaves that was killed while it wrote.
    pub(super) fn of(octets: &[u8], mut last: Option<ZoneVersion>) -> Option<Self> {
        let mut budget = octets.len().saturating_mul(MAX_READINGS);
        let (mut found, mut is_damaged, mut at) = (Self::default(), false, 0);
        while at < octets.len() && !is_unwritten(&octets[at..], last) {
            let rest = &octets[at..];
            if let Some(len) = found.take(rest) {
                (at, is_damaged) = (at + len, true);
                last = found.changes.last().map(|last| last.to).or(last);
                continue;
            }
            let ends = [announced(rest), formed(rest)].into_iter().flatten();
            let next = ends.filter(|end| is_readable(&rest[*end..])).min();
            let next = next.or_else(|| search(rest, &mut budget));
            if next != Some(ENTRY_HEAD + WRITTEN) {
                found.is_damaged_since_written = true;
                found.octets_at_end += next.unwrap_or(rest.len());
            }
            // What follows need not begin with the version of a readable change.
            (is_damaged, last) = (true, None);
            let Some(next) = next else { break };
            at += next;
        }
        is_damaged.then_some(found)
    }

    /// Returns what is found in a file that does not begin like the journal of the zone.
    pub(super) fn whole(octets: &[u8]) -> Self {
        let most = SHORT_CHANGE * CHANGES_OF_NOTHING as usize;
        let octets_at_end = octets.len().max(most);
        Self { octets_at_end, is_damaged_since_written: true, ..Self::default() }
    }

    /// Adds the first entry. Returns its length, or `None` if it is not readable.
    fn take(&mut self, octets: &[u8]) -> Option<usize> {
        let (len, body) = entry(octets).or_else(|| entry_by_content(octets))?;
        let (kind, mut rest) = body.split_first()?;
        match *kind {
            kind if kind == EntryKind::Change as u8 => {
                self.changes.push(Arc::new(step(rest)?));
                self.octets_at_end = 0;
                return Some(len);
            }
            kind if kind == EntryKind::Written as u8 => {
                (self.written, self.read) = (Some(version(&mut rest)?), None);
                self.is_damaged_since_written = false;
            }
            kind if kind == EntryKind::Read as u8 => self.read = Some(Arc::new(step(rest)?)),
            _ => return None,
        }
        self.known_after = self.changes.len();
        Some(len)
    }

    /// Returns the highest number of changes that may be missing behind the last one.
    #[must_use]
    pub fn missing_at_end(&self) -> u32 {
        self.octets_at_end.div_ceil(SHORT_CHANGE) as u32
    }
}

/// Returns whether the octets are an entry that is cut, or whose data did not reach the disk. Its
/// start, which leads from the version `last`, is then as it was written.
fn is_unwritten(octets: &[u8], last: Option<ZoneVersion>) -> bool {
    let zeros = octets.iter().rev().take_while(|octet| **octet == 0).count();
    let is_last = octets.first_chunk().is_none_or(|len| {
        let len = u32::from_be_bytes(*len);
        len <= MAX_JOURNAL_ENTRY && len as usize + ENTRY_HEAD >= octets.len()
    });
    let is_cut = announced(octets).or(formed(octets)).is_none() || zeros >= ZERO_END;
    zeros == octets.len() || is_last && is_cut && leads_from(octets, last)
}

/// Returns whether the first entry is a change that leads from this version, or an entry about the
/// master file, as far as its octets are there.
fn leads_from(octets: &[u8], last: Option<ZoneVersion>) -> bool {
    let Some((kind, rest)) = octets.get(ENTRY_HEAD..).and_then(<[u8]>::split_first) else {
        return true;
    };
    let is_last = |at: usize| {
        let found = rest.get(at..).and_then(|mut rest| version(&mut rest));
        found.is_none_or(|found| last.is_none_or(|last| found == last))
    };
    match *kind {
        kind if kind == EntryKind::Change as u8 => is_last(0),
        kind if kind == EntryKind::Read as u8 => is_last(VERSION),
        kind => kind == EntryKind::Written as u8,
    }
}

/// Returns the number of octets that the first entry has by its own length, if they are all there.
fn announced(octets: &[u8]) -> Option<usize> {
    let len = u32::from_be_bytes(*octets.first_chunk()?) as usize;
    (len > 0 && len <= octets.len().checked_sub(ENTRY_HEAD)?).then_some(ENTRY_HEAD + len)
}

/// Splits off the first entry if only its own length is damaged.
fn entry_by_content(octets: &[u8]) -> Option<(usize, &[u8])> {
    let len = formed(octets)?;
    let check = octets.get(4..ENTRY_HEAD)?.first_chunk()?;
    let body = octets.get(ENTRY_HEAD..len)?;
    (crc32fast::hash(body) == u32::from_be_bytes(*check)).then_some((len, body))
}

/// Returns whether the octets are empty, or begin with an entry that has a correct checksum.
fn is_readable(octets: &[u8]) -> bool {
    octets.is_empty() || entry(octets).is_some_and(|(_, body)| !body.is_empty())
}

/// Searches behind the first octet for the first place from which on all entries are readable,
/// except for an incomplete one at the end. The data of a record may look like an entry, but not
/// like the rest of the file.
fn search(octets: &[u8], budget: &mut usize) -> Option<usize> {
    (1..octets.len()).find(|start| has_form(&octets[*start..]) && leads(&octets[*start..], budget))
}

/// Returns whether all entries are readable, except for an incomplete one at the end, and each
/// change begins with the version to which the previous one leads.
fn leads(mut octets: &[u8], budget: &mut usize) -> bool {
    let mut last = None;
    while let Some(len) = announced(octets) {
        let Some(left) = budget.checked_sub(len) else { return false };
        *budget = left;
        if !has_form(octets) || !is_readable(octets) {
            break;
        }
        if octets[ENTRY_HEAD] == EntryKind::Change as u8 {
            let mut versions = &octets[ENTRY_HEAD + 1..];
            let (from, to) = (version(&mut versions), version(&mut versions));
            if last.is_some_and(|last| Some(last) != from) {
                return false;
            }
            last = to;
        }
        octets = &octets[len..];
    }
    // No entry follows. Otherwise, the octets before it are not the end of the file. Without a
    // budget, whatever may be an entry counts as one.
    let mut is_entry = |at: usize| {
        let len = announced(&octets[at..]).filter(|_| has_form(&octets[at..]));
        len.is_some_and(|len| {
            budget.checked_sub(len).is_none_or(|left| {
                *budget = left;
                is_readable(&octets[at..])
            })
        })
    };
    let is_end = |octets: &[u8]| announced(octets).is_none() || is_unwritten(octets, None);
    is_end(octets) && !(0..octets.len()).any(&mut is_entry)
}

/// Returns whether the first entry is complete, and its lengths agree with each other.
fn has_form(octets: &[u8]) -> bool {
    announced(octets).is_some_and(|len| formed(octets) == Some(len))
}

/// Returns the number of octets that the first entry has by the lengths of its content.
fn formed(octets: &[u8]) -> Option<usize> {
    let (kind, content) = octets.get(ENTRY_HEAD..)?.split_first()?;
    if *kind == EntryKind::Written as u8 {
        return (content.len() >= VERSION).then_some(ENTRY_HEAD + WRITTEN);
    }
    let is_step = *kind == EntryKind::Change as u8 || *kind == EntryKind::Read as u8;
    let mut rest = content.get(2 * VERSION..).filter(|_| is_step)?;
    for _ in 0..2 {
        let len = u32::from_be_bytes(*rest.get(4..)?.first_chunk()?);
        rest = rest.get(8..)?.get(len as usize..)?;
    }
    Some(octets.len() - rest.len())
}

impl JournalContent {
    /// Returns all readable changes, and the place of the first one after the last gap.
    fn with_gaps(&self) -> (Vec<Arc<ZoneChange>>, usize) {
        let behind = self.damage.iter().flat_map(|damage| &damage.changes);
        let all: Vec<_> = self.changes.iter().chain(behind).cloned().collect();
        let gap = all.windows(2).rposition(|pair| pair[0].to != pair[1].from);
        (all, gap.map_or(0, |gap| gap + 1))
    }

    /// Returns the last entries about the master file: the version that was written, and the change
    /// from the version that was read.
    fn of_file(&self) -> (Option<ZoneVersion>, Option<Arc<ZoneChange>>) {
        match &self.damage {
            Some(BehindDamage { written, read, .. }) if written.is_some() || read.is_some() => {
                (*written, read.clone())
            }
            _ => (self.written, self.read.clone()),
        }
    }

    /// Returns the content of a damaged journal after its last gap, if a master file with this
    /// version already has all changes that are missing. A file with an unknown version was edited
    /// after the version that it had last.
    #[must_use]
    pub fn after_damage(&self, file: ZoneVersion) -> Option<Self> {
        let damage = self.damage.as_ref()?;
        let (mut changes, start) = self.with_gaps();
        let is_known = place_in(&changes, file).is_some();
        let (written, read) = self.of_file();
        if !is_known && damage.written == Some(file) && !damage.is_damaged_since_written {
            // A change that is missing has led to the version that the server wrote.
            return Some(Self { written, ..Self::default() });
        }
        let had = if is_known { Some(file) } else { read.as_ref().map(|read| read.to).or(written) };
        let last = Self { changes: changes.split_off(start), written, read, ..Self::default() };
        let is_behind = had.is_some_and(|had| last.place_of(had).is_some());
        (damage.octets_at_end == 0 && is_behind).then_some(last)
    }

    /// Returns the readable changes of a damaged journal that a master file with this version
    /// lacks. Changes between them may be missing.
    #[must_use]
    pub fn lacked_by(&self, file: ZoneVersion) -> Vec<Arc<ZoneChange>> {
        let (changes, _) = self.with_gaps();
        if let Some(place) = place_in(&changes, file) {
            return changes[place..].to_vec();
        }
        let (written, read) = self.of_file();
        let had = read.as_ref().map(|read| read.to).or(written);
        let behind = self.damage.as_ref().map_or(&[][..], |damage| match had {
            Some(_) => &damage.changes[damage.known_after..],
            None => &damage.changes,
        });
        let place = had.and_then(|had| place_in(&changes, had));
        let later = place.map_or(behind, |place| &changes[place..]);
        let read = read.iter().filter(|read| read.from != read.to);
        read.chain(later).cloned().collect()
    }
}
