//! Writes the versions of a zone that this server has changed to its master file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use avocet_config::name::shown;
use avocet_config::zone::ZoneConfig;
use avocet_io::file::open_regular;
use avocet_io::replace::{ReplaceFault, ReplaceReason};
use avocet_zone::{HostedZone, ZoneChange};

use super::kept::{KeptZone, SeenFiles};
use super::open;
use crate::disk;
use crate::file_watch::FileFingerprint;
use crate::zone_comments::with_comments;
use crate::zone_journal::ZoneJournal;
use crate::zone_source::load_from;

/// The first line of a file that the server writes, without the serial.
const WRITTEN: &str = "; Written by Avocet from its changes; comments are not kept. Serial ";
/// Number of octets at the start of a file that show whether this server wrote it.
const HEAD: usize = 1024;
/// The pause between two writes of a file, in seconds for each second that one write takes.
const WRITE_PAUSE: u64 = 20;
/// Minimum number of octets of a zone that are written in a second.
const WRITTEN_IN_SECOND: u64 = 16 << 20;

/// The reason why the file of a zone is not replaced.
const OTHER_CONTENT: &str = "the file has something else than the zone, and is not replaced: move \
                             it away, or set another `file`";

/// The contents of the file of a zone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileContent {
    /// The file is empty, or missing.
    Nothing,
    /// A copy that this server wrote.
    Ours,
    /// The zone, as another program wrote it.
    Foreign,
}

/// Checks that the file of a zone may be replaced by a zone from other servers: it is missing,
/// empty, a copy that this server wrote, or another file with the zone. A mistake in a setting must
/// not destroy the data of another program.
///
/// # Errors
/// The file has something else, or cannot be read.
pub fn check_copy(config: &ZoneConfig) -> io::Result<()> {
    content(config).map(drop)
}

/// Checks the file like [`check_copy`], and keeps a copy of a file that another program wrote.
///
/// # Errors
/// The file has something else, or cannot be read or copied.
pub fn make_way(config: &ZoneConfig) -> io::Result<()> {
    if content(config)? == FileContent::Foreign {
        let file = &config.file;
        disk::keep_copy(file)?;
    }
    Ok(())
}

fn content(config: &ZoneConfig) -> io::Result<FileContent> {
    let file = &config.file;
    let mut head = Vec::with_capacity(HEAD);
    match file_head(file, &mut head) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileContent::Nothing),
        read => read?,
    }
    if head.is_empty() {
        return Ok(FileContent::Nothing);
    }
    // The check also covers a copy that was damaged after it was written.
    let own = format!("{} ", shown(&config.name));
    let is_own = |line: &str| {
        let mut fields = line.strip_prefix(&own).unwrap_or_default().split(' ');
        fields.next().is_some_and(|ttl| ttl.parse::<u32>().is_ok())
            && fields.next() == Some("IN")
            && fields.next() == Some("SOA")
    };
    let text = String::from_utf8_lossy(&head);
    if text.lines().find(|line| !line.starts_with(';')).is_some_and(is_own) {
        return Ok(FileContent::Ours);
    }
    match load_from(config, &mut open) {
        Some((Some(_), _)) => Ok(FileContent::Foreign),
        _ => Err(io::Error::new(io::ErrorKind::AlreadyExists, OTHER_CONTENT)),
    }
}

/// Reads the start of a file.
fn file_head(file: &Path, head: &mut Vec<u8>) -> io::Result<()> {
    open_regular(file)?.take(HEAD as u64).read_to_end(head).map(|_| ())
}

impl KeptZone {
    /// Writes the version without signatures to the file if the file has another version. Does so
    /// during at most a twentieth of the time, and never over an edit that was not read.
    pub(super) fn write_back(&mut self, now_secs: u64, journal: &mut ZoneJournal) {
        let Some(zone) = self.source.clone().filter(|_| self.fault.is_none()) else { return };
        let is_written = !self.config.keeps_changes() && self.base.is_none()
            || self.config.provided.is_some()
            || self.on_file == Some(zone.version());
        if is_written || now_secs < self.next_write_secs || self.now() != self.seen {
            return;
        }
        let written =
            self.write(&zone).and_then(|()| journal.note_written(&zone).map_err(Into::into));
        let large = zone.memory_octets() as u64 / WRITTEN_IN_SECOND;
        self.next_write_secs = now_secs + 1 + large * WRITE_PAUSE;
        let (name, file) = (self.config.id(), self.config.file.display());
        // An edit that was saved meanwhile is read and merged before the file is written again.
        let is_edited = |fault: &ReplaceFault| {
            matches!(fault, ReplaceFault { reason: ReplaceReason::Changed, kept: None })
        };
        self.write_fault = written.err().filter(|fault| !is_edited(fault)).map(|error| {
            let fault = format!("zone {name}: its changes are kept, but not in {file}: {error}");
            tracing::error!("{fault}");
            fault
        });
    }

    /// Records in the modification time of the file that a primary has the version in force. The
    /// file still counts as read, so that later changes are written to it.
    pub(super) fn confirm(&mut self, now_secs: u64) -> io::Result<()> {
        let is_read = self.now() == self.seen;
        let confirmed = UNIX_EPOCH + Duration::from_secs(now_secs);
        File::options().append(true).open(&self.config.file)?.set_modified(confirmed)?;
        if is_read {
            self.seen = self.now();
        }
        Ok(())
    }

    /// Returns whether the server wrote the file.
    pub(super) fn is_written(&self) -> io::Result<bool> {
        let mut head = [0; WRITTEN.len()];
        let read = File::open(&self.config.file)?.read_exact(&mut head);
        Ok(read.is_ok() && head == *WRITTEN.as_bytes())
    }

    /// Writes a version to the file. The file of a primary zone is replaced only if it is still the
    /// file that was read: an edit that is saved meanwhile stays in the file.
    pub(super) fn write(&mut self, zone: &Arc<HostedZone>) -> Result<(), ReplaceFault> {
        let file = &self.config.file;
        let confirmed = std::fs::metadata(file).and_then(|facts| facts.modified());
        if self.config.is_secondary() {
            make_way(&self.config)?;
        }
        let is_ours = self.config.is_secondary() || self.is_written()?;
        let text = if is_ours { None } else { with_comments(file, zone) };
        let replace = |parts: &[&[u8]]| match self.config.is_secondary() {
            true => disk::replace_shared(file, parts).map_err(ReplaceFault::from),
            false => disk::replace_if(file, parts, self.seen.get(file).copied().flatten()),
        };
        let written = if let Some(text) = text {
            replace(&[text.as_bytes()])?
        } else {
            if !is_ours {
                // Comments and $INCLUDE of a file that was written by hand.
                disk::keep_copy(file)?;
            }
            let head = format!("{WRITTEN}{}.\n", zone.serial());
            replace(&[head.as_bytes(), zone.text().as_bytes()])?
        };
        let seen = if self.config.is_secondary() {
            // The modification time remains the time of the last confirmation.
            File::options().append(true).open(file)?.set_modified(confirmed?)?;
            FileFingerprint::of(file)
        } else {
            // An edit of the new file counts as not read, even if it is made immediately.
            let is_same = |now: &FileFingerprint| written.is_some_and(|it| now.has_content_of(&it));
            FileFingerprint::of(file).filter(is_same).or(written)
        };
        self.seen = SeenFiles::from([(file.clone(), seen)]);
        (self.on_file, self.base) = (Some(zone.version()), None);
        let is_own = self.config.is_own_file();
        self.taken = is_own.then(|| Arc::new(ZoneChange::none(zone.version())));
        Ok(())
    }
}
