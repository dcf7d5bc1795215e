//! The file with the changes of a zone: the changes that serve IXFR after a restart, and the
//! changes that the master file does not have yet. The server appends to the file until the file is
//! larger than all changes that the zone keeps. The file is then replaced as a whole.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avocet_io::file::rename_to_missing;
use avocet_io::ownership;
use avocet_wire::{FoldedName, Rtype};
use avocet_zone::{
    HostedZone, JournalContent, ZoneChange, ZoneVersion, append_change, append_line, append_read,
    append_written, journal_head, read_journal,
};

use crate::disk;

/// Maximum number of octets of a journal that is read. The journal of the largest zone is smaller.
const MAX_JOURNAL: u64 = 8 << 30;
/// Minimum size in octets at which a journal is replaced, even for a small zone.
const MIN_JOURNAL: u64 = 1 << 20;

/// Maximum number of files of each kind with changes that were not put in force.
const MAX_ASIDE: u32 = 9;
/// The extension, before its number, of a file with changes that contradict an edited file.
const NOT_APPLIED: &str = "not-applied";
/// The extension, before its number, of a copy of a journal that is damaged or unreadable.
const DAMAGED: &str = "damaged";

/// A file with acknowledged changes that are not in force. It stays until the operator removes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FileAside {
    /// The file has the changes as text.
    NotApplied(PathBuf),
    /// The file is a journal, in which changes are damaged.
    Damaged(PathBuf),
}

/// The journal of a zone.
pub(crate) struct ZoneJournal {
    path: PathBuf,
    open: Option<OpenJournal>,
}

/// A journal that is open for appending.
struct OpenJournal {
    file: File,
    /// Number of octets of complete entries.
    len: u64,
    /// The version to which the last change leads.
    end: Option<ZoneVersion>,
    /// The version that the master file had when the server wrote it last.
    written: Option<ZoneVersion>,
    /// The change from the version in the master file to the version that came into force when the
    /// server read that file.
    read: Option<Arc<ZoneChange>>,
}

impl OpenJournal {
    /// Returns whether the file at the path is this one, and nobody else has written to it.
    fn is_at(&self, path: &Path) -> bool {
        let facts = |facts: Metadata| (facts.dev(), facts.ino(), facts.len());
        let own = self.file.metadata().map(facts);
        let found = fs::metadata(path).map(facts);
        own.is_ok_and(|own| own.2 == self.len && found.is_ok_and(|found| found == own))
    }

    /// Returns whether the journal already records the version in the master file, which `read`
    /// starts from.
    fn knows(&self, read: &ZoneChange) -> bool {
        match &self.read {
            Some(known) => (known.from, known.to) == (read.from, read.to),
            None => is_of_written(read, self.written),
        }
    }
}

/// Returns whether the master file still has the version that the server wrote last.
fn is_of_written(read: &ZoneChange, written: Option<ZoneVersion>) -> bool {
    read.from == read.to && Some(read.to) == written
}

impl ZoneJournal {
    /// Creates the journal in this file, which need not exist.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// Sets the path of the file after it was renamed.
    pub(crate) fn rename(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Reads the changes, and cuts off an incomplete entry at the end. A damaged journal stays as
    /// it is until [`Self::follow`] replaces it.
    pub(crate) fn read(&mut self, apex: FoldedName<'_>) -> io::Result<JournalContent> {
        self.open = None;
        let Some(octets) = disk::read(&self.path, MAX_JOURNAL)? else {
            return Ok(JournalContent::default());
        };
        let content = read_journal(&octets, apex);
        if content.damage.is_none() {
            let file = File::options().append(true).open(&self.path)?;
            let len = content.usable as u64;
            if content.cut > 0 {
                let _permit = ownership::write()?;
                file.set_len(len)?;
                file.sync_all()?;
            }
            let end = content.changes.last().map(|last| last.to);
            let (written, read) = (content.written, content.read.clone());
            self.open = Some(OpenJournal { file, len, end, written, read });
        }
        Ok(content)
    }

    /// Makes the file contain the changes of a zone. They are on disk when this function returns.
    /// `read` is the change from the version in the master file to the version that came into force
    /// when that file was read.
    pub(crate) fn follow(
        &mut self,
        zone: &HostedZone,
        read: Option<&Arc<ZoneChange>>,
    ) -> io::Result<()> {
        let (changes, version) = (zone.changes(), zone.version());
        // A process that failed to take over may have replaced the file.
        if let Some(open) = self.open.take_if(|open| !open.is_at(&self.path)) {
            let read = read.cloned().or(open.read);
            return self.replace(zone, open.written, read.as_ref());
        }
        let Some(open) = &self.open else {
            let is_needed = !changes.is_empty()
                || read.is_some_and(|read| read.from != read.to)
                || self.path.exists();
            return if is_needed { self.replace(zone, None, read) } else { Ok(()) };
        };
        let read = read.filter(|read| !open.knows(read));
        let is_empty = open.end.is_none() && changes.is_empty();
        let has_changes = is_empty || open.end == Some(version) && !changes.is_empty();
        if has_changes && read.is_none() {
            return Ok(());
        }
        let written = open.written;
        let place = open.end.and_then(|end| changes.iter().position(|change| change.from == end));
        let later = match place {
            _ if has_changes => &[][..],
            Some(at) => &changes[at..],
            // The changes in the file do not lead to this zone.
            None => {
                let read = read.or(open.read.as_ref()).cloned();
                return self.replace(zone, written, read.as_ref());
            }
        };
        self.append(|out| {
            later.iter().for_each(|change| append_change(out, change));
            if let Some(read) = read {
                append_read(out, read);
            }
        })?;
        if let Some(open) = &mut self.open {
            open.end = if has_changes { open.end } else { Some(version) };
            open.read = read.or(open.read.as_ref()).cloned();
        }
        Ok(())
    }

    /// Records that the master file now has this version of the zone.
    pub(crate) fn note_written(&mut self, zone: &HostedZone) -> io::Result<()> {
        let version = zone.version();
        let most = MIN_JOURNAL.max(2 * zone.most_change_octets() as u64);
        match &mut self.open {
            Some(open) if open.len < most && open.is_at(&self.path) => {
                (open.written, open.read) = (Some(version), None);
                self.append(|out| append_written(out, version))
            }
            _ => self.replace(zone, Some(version), None),
        }
    }

    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let _permit = ownership::write()?;
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut entries = Vec::new();
        write(&mut entries);
        let written = open.file.write_all(&entries).and_then(|()| open.file.sync_data());
        match written {
            Ok(()) => open.len += entries.len() as u64,
            // The disk is full. An incomplete entry must not stay before later entries.
            Err(_) => {
                let is_cut = open.file.set_len(open.len).is_ok();
                self.open = self.open.take().filter(|_| is_cut);
            }
        }
        written
    }

    /// Replaces the journal with one that has only the changes of the zone.
    fn replace(
        &mut self,
        zone: &HostedZone,
        written: Option<ZoneVersion>,
        read: Option<&Arc<ZoneChange>>,
    ) -> io::Result<()> {
        let changes = zone.changes();
        let mut octets = journal_head(zone.apex());
        let append = |change: &Arc<ZoneChange>| append_change(&mut octets, change);
        changes.iter().for_each(append);
        if let Some(version) = written {
            append_written(&mut octets, version);
        }
        let read = read.filter(|read| !is_of_written(read, written)).cloned();
        if let Some(read) = &read {
            append_read(&mut octets, read);
        }
        let _permit = ownership::write()?;
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        disk::replace(&self.path, &[&octets])?;
        let file = File::options().append(true).open(&self.path)?;
        let (len, end) = (octets.len() as u64, changes.last().map(|last| last.to));
        self.open = Some(OpenJournal { file, len, end, written, read });
        Ok(())
    }

    /// Writes changes that cannot be put in force to a separate file, as text. Returns its path.
    pub(crate) fn put_aside(&self, changes: &[Arc<ZoneChange>]) -> io::Result<PathBuf> {
        let mut text = String::new();
        for change in changes {
            let (from, to) = (change.from.serial, change.to.serial);
            text.push_str(&format!("; serial {from} to {to}\n"));
            for (sign, list) in [('-', &change.removed), ('+', &change.added)] {
                for one in list.iter().filter(|one| one.record.rtype != Rtype::SOA) {
                    text.push(sign);
                    append_line(&mut text, one.owner, &one.record);
                }
            }
        }
        let path = self.free_name(NOT_APPLIED)?;
        disk::replace(&path, &[text.as_bytes()])?;
        Ok(path)
    }

    /// Copies a damaged journal to a separate file. Returns its path.
    pub(crate) fn copy_aside(&self) -> io::Result<PathBuf> {
        let octets = disk::read(&self.path, MAX_JOURNAL)?.unwrap_or_default();
        let path = self.free_name(DAMAGED)?;
        disk::replace(&path, &[&octets])?;
        Ok(path)
    }

    /// Renames an unreadable journal, so that it is not replaced. Returns the new path.
    pub(crate) fn move_aside(&mut self) -> io::Result<PathBuf> {
        self.open = None;
        let _permit = ownership::write()?;
        let path = self.free_name(DAMAGED)?;
        rename_to_missing(&self.path, &path)?;
        Ok(path)
    }

    /// Returns the first file with changes that are not in force.
    pub(crate) fn aside(&self) -> Option<FileAside> {
        let not_applied = self.names_aside(NOT_APPLIED).map(FileAside::NotApplied);
        let damaged = self.names_aside(DAMAGED).map(FileAside::Damaged);
        not_applied.chain(damaged).find(FileAside::exists)
    }

    fn free_name(&self, extension: &'static str) -> io::Result<PathBuf> {
        let mut names = self.names_aside(extension);
        let free = names.find(|path| fs::symlink_metadata(path).is_err());
        free.ok_or_else(|| io::Error::other("there are too many files with changes"))
    }

    fn names_aside(&self, extension: &'static str) -> impl Iterator<Item = PathBuf> {
        (1..=MAX_ASIDE).map(move |n| self.path.with_added_extension(format!("{extension}-{n}")))
    }
}

impl FileAside {
    /// Returns whether the operator has not removed the file.
    pub(crate) fn exists(&self) -> bool {
        let (Self::NotApplied(path) | Self::Damaged(path)) = self;
        path.exists()
    }
}

/// Shows what has happened and what to do.
impl fmt::Display for FileAside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reason, path) = match self {
            Self::NotApplied(path) => ("acknowledged changes contradict its edited file", path),
            Self::Damaged(path) => ("acknowledged changes in its journal were damaged", path),
        };
        let path = path.display();
        write!(f, "{reason} and are not in force: make them again, and remove {path}")
    }
}
