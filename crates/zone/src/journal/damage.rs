//! The entries of a journal behind damage, such as an octet that changed on the disk.
//!
//! ```text
//! usable entries │ damaged │ entry │ entry │ ...
//!                     └─ one of its lengths leads to an entry, or the next entry is searched for:
//!                        its lengths must agree, and it and all entries behind it must be readable
//! ```

use std::sync::Arc;

use super::{ENTRY_HEAD, EntryKind, JournalContent, VERSION, entry, place_in, step, version};
use crate::change::{ZoneChange, ZoneVersion};

/// Length of an entry that says that the file was written: the kind and a version.
const WRITTEN: usize = 1 + VERSION;
/// Number of octets that the search for an entry reads at most, for each octet of the journal.
const MAX_READINGS: usize = 4;

/// The readable entries behind the first damage of a journal.
#[derive(Clone, Debug, Default)]
pub struct BehindDamage {
    /// The changes, in the order of the journal. Changes between them may be missing.
    pub changes: Vec<Arc<ZoneChange>>,
    /// The version that the server wrote to the master file last, by an entry behind the damage.
    pub written: Option<ZoneVersion>,
    /// The change from the master file to the version in force, by an entry behind the damage.
    pub read: Option<Arc<ZoneChange>>,
    /// Whether an entry is damaged behind which there is no change.
    pub ends_damaged: bool,
    /// Whether an entry is damaged behind which the server did not write the master file.
    pub is_damaged_since_written: bool,
}

impl BehindDamage {
    /// Reads the octets behind the last usable entry. Returns `None` if they are what a process
    /// leaves that was killed while it wrote.
    pub(super) fn of(octets: &[u8]) -> Option<Self> {
        let mut budget = octets.len().saturating_mul(MAX_READINGS);
        let (mut found, mut is_damaged, mut at) = (Self::default(), false, 0);
        while at < octets.len() && !is_zero(&octets[at..]) {
            if let Some(len) = found.take(&octets[at..]) {
                (at, is_damaged) = (at + len, true);
                continue;
            }
            let end = announced(&octets[at..]);
            let ends = [end, formed(&octets[at..])].into_iter().flatten();
            let next = ends.map(|len| at + len).find(|end| is_readable(&octets[*end..]));
            let next = next.or_else(|| search(octets, at + 1, &mut budget));
            if next.is_some() || end.is_some() {
                let is_change = next.is_none_or(|next| next - at != ENTRY_HEAD + WRITTEN);
                is_damaged = true;
                found.ends_damaged |= is_change;
                found.is_damaged_since_written |= is_change;
            }
            let Some(next) = next else { break };
            at = next;
        }
        is_damaged.then_some(found)
    }

    /// Returns what is found in a file that does not begin like the journal of the zone.
    pub(super) fn whole() -> Self {
        Self { ends_damaged: true, is_damaged_since_written: true, ..Self::default() }
    }

    /// Adds the first entry. Returns its length, or `None` if it is not readable.
    fn take(&mut self, octets: &[u8]) -> Option<usize> {
        let (len, body) = entry(octets)?;
        let (kind, mut rest) = body.split_first()?;
        match *kind {
            kind if kind == EntryKind::Change as u8 => {
                self.changes.push(Arc::new(step(rest)?));
                self.ends_damaged = false;
            }
            kind if kind == EntryKind::Written as u8 => {
                (self.written, self.read) = (Some(version(&mut rest)?), None);
                self.is_damaged_since_written = false;
            }
            kind if kind == EntryKind::Read as u8 => self.read = Some(Arc::new(step(rest)?)),
            _ => return None,
        }
        Some(len)
    }

    /// Returns whether the server wrote this version to the master file after the damaged changes.
    fn is_written(&self, file: ZoneVersion) -> bool {
        self.written == Some(file) && !self.is_damaged_since_written
    }
}

/// Returns whether only the length of the file, but not its data, reached the disk.
fn is_zero(octets: &[u8]) -> bool {
    octets.iter().all(|octet| *octet == 0)
}

/// Returns the number of octets that the first entry has by its own length, if they are all there.
fn announced(octets: &[u8]) -> Option<usize> {
    let len = u32::from_be_bytes(*octets.first_chunk()?) as usize;
    (len > 0 && len <= octets.len().checked_sub(ENTRY_HEAD)?).then_some(ENTRY_HEAD + len)
}

/// Returns whether the octets are empty, or begin with an entry that has a correct checksum.
fn is_readable(octets: &[u8]) -> bool {
    octets.is_empty() || entry(octets).is_some_and(|(_, body)| !body.is_empty())
}

/// Searches for the first place from which on all entries are readable, except for an incomplete
/// one at the end. The data of a record may look like an entry, but not like the rest of the file.
fn search(octets: &[u8], from: usize, budget: &mut usize) -> Option<usize> {
    (from..octets.len())
        .find(|start| has_form(&octets[*start..]) && leads(&octets[*start..], budget))
}

/// Returns whether all entries are readable, except for an incomplete one at the end.
fn leads(mut octets: &[u8], budget: &mut usize) -> bool {
    while let Some(len) = announced(octets) {
        let Some(left) = budget.checked_sub(len) else { return false };
        *budget = left;
        if !has_form(octets) || !is_readable(octets) {
            return is_zero(octets);
        }
        octets = &octets[len..];
    }
    true
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

    /// Returns the content of a damaged journal without the changes before the damage, if a master
    /// file with this version already has all changes that are missing.
    #[must_use]
    pub fn after_damage(&self, file: ZoneVersion) -> Option<Self> {
        let damage = self.damage.as_ref()?;
        let (mut changes, start) = self.with_gaps();
        if place_in(&changes, file).is_none() && damage.is_written(file) {
            // A change that is missing has led to the version that the server wrote.
            return Some(Self { written: damage.written, ..Self::default() });
        }
        let (written, read) = match (damage.written, &damage.read) {
            (None, None) => (self.written, self.read.clone()),
            (written, read) => (written, read.clone()),
        };
        let last = Self { changes: changes.split_off(start), written, read, ..Self::default() };
        (!damage.ends_damaged && last.place_of(file).is_some()).then_some(last)
    }

    /// Returns the readable changes of a damaged journal that a master file with this version
    /// lacks. Changes between them may be missing.
    #[must_use]
    pub fn lacked_by(&self, file: ZoneVersion) -> Vec<Arc<ZoneChange>> {
        let (changes, _) = self.with_gaps();
        let behind = self.damage.iter().flat_map(|damage| &damage.changes);
        match place_in(&changes, file) {
            Some(place) => changes[place..].to_vec(),
            None => self.not_on_file().into_iter().chain(behind.cloned()).collect(),
        }
    }
}
