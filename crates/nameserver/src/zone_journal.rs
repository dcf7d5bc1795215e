//! The file with the changes of a zone: the changes that serve IXFR after a restart, and the
//! changes that the master file does not have yet. The server appends to the file until it is
//! larger than the changes that the zone keeps, and then replaces the file as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use avocet_wire::FoldedName;
use avocet_zone::{
    HostedZone, JournalContent, ZoneChange, ZoneVersion, append_change, append_written,
    journal_head, read_journal,
};

use crate::disk;

/// Maximum number of octets of a journal that is read: more than the journal of the largest zone
/// has.
const MAX_JOURNAL: u64 = 8 << 30;
/// Number of octets that a journal may have before it is replaced, even for a small zone.
const MIN_JOURNAL: u64 = 1 << 20;

/// The journal of a zone.
pub(crate) struct ZoneJournal {
    path: PathBuf,
    open: Option<OpenJournal>,
}

/// A journal that was read.
struct OpenJournal {
    file: File,
    /// Number of octets of complete entries.
    len: u64,
    /// The version to which the last change leads.
    end: Option<ZoneVersion>,
    /// The version that the master file has.
    written: Option<ZoneVersion>,
}

impl ZoneJournal {
    /// Creates the journal in this file, which need not exist.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// Reads the changes, and cuts off the octets after the last usable entry.
    pub(crate) fn read(&mut self, apex: FoldedName<'_>) -> io::Result<JournalContent> {
        self.open = None;
        let Some(octets) = disk::read(&self.path, MAX_JOURNAL)? else {
            return Ok(JournalContent::default());
        };
        let content = read_journal(&octets, apex);
        if content.usable > 0 {
            let file = File::options().append(true).open(&self.path)?;
            let len = content.usable as u64;
            if content.cut > 0 {
                file.set_len(len)?;
                file.sync_all()?;
            }
            let end = content.changes.last().map(|last| last.to);
            self.open = Some(OpenJournal { file, len, end, written: content.written });
        }
        Ok(content)
    }

    /// Writes the changes of a zone to the file. They are on disk when this returns.
    pub(crate) fn follow(&mut self, zone: &HostedZone) -> io::Result<()> {
        let (changes, version) = (zone.changes(), zone.version());
        let Some(open) = &self.open else {
            let is_needed = !changes.is_empty() || self.path.exists();
            return if is_needed { self.replace(zone, None) } else { Ok(()) };
        };
        let is_empty = open.end.is_none() && changes.is_empty();
        if is_empty || open.end == Some(version) && !changes.is_empty() {
            return Ok(());
        }
        let written = open.written;
        match open.end.and_then(|end| changes.iter().position(|change| change.from == end)) {
            Some(at) => self.append(|out| {
                changes[at..].iter().for_each(|change| append_change(out, change));
            })?,
            // The changes in the file do not lead to the version of the zone.
            None => return self.replace(zone, written),
        }
        if let Some(open) = &mut self.open {
            open.end = Some(version);
        }
        Ok(())
    }

    /// Records that the master file has this version of the zone.
    pub(crate) fn note_written(&mut self, zone: &HostedZone) -> io::Result<()> {
        let version = zone.version();
        let most = MIN_JOURNAL.max(2 * zone.most_change_octets() as u64);
        match &mut self.open {
            Some(open) if open.len < most => {
                open.written = Some(version);
                self.append(|out| append_written(out, version))
            }
            _ => self.replace(zone, Some(version)),
        }
    }

    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut entries = Vec::new();
        write(&mut entries);
        let written = open.file.write_all(&entries).and_then(|()| open.file.sync_data());
        match written {
            Ok(()) => open.len += entries.len() as u64,
            // The disk is full: an incomplete entry must not stay in the middle.
            Err(_) => {
                let is_cut = open.file.set_len(open.len).is_ok();
                self.open = self.open.take().filter(|_| is_cut);
            }
        }
        written
    }

    /// Replaces the file by one with only the changes of a zone.
    fn replace(&mut self, zone: &HostedZone, written: Option<ZoneVersion>) -> io::Result<()> {
        let changes = zone.changes();
        let mut octets = journal_head(zone.apex());
        let append = |change: &Arc<ZoneChange>| append_change(&mut octets, change);
        changes.iter().for_each(append);
        if let Some(version) = written {
            append_written(&mut octets, version);
        }
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        disk::replace(&self.path, &[&octets])?;
        let file = File::options().append(true).open(&self.path)?;
        let (len, end) = (octets.len() as u64, changes.last().map(|last| last.to));
        self.open = Some(OpenJournal { file, len, end, written });
        Ok(())
    }
}
