//! Writes zones that this server has changed to their master files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use avocet_config::name::shown;
use avocet_config::zone::ZoneConfig;
use avocet_io::file::open_regular;
use avocet_io::ownership;
use avocet_io::replace::{ReplaceFault, ReplaceReason};
use avocet_zone::{HostedZone, ZoneChange};

use super::kept::{KeptZone, SeenFiles};
use super::open;
use crate::checksum::sum_line;
use crate::disk;
use crate::file_watch::FileFingerprint;
use crate::zone_comments::with_comments;
use crate::zone_journal::ZoneJournal;
use crate::zone_source::load_from;

/// The first line of a file that the server writes, without the serial.
const WRITTEN: &str = "; Written by Avocet from its changes; comments are not kept. Serial ";
/// Number of octets at the start of a file that show whether this server wrote it.
const HEAD: usize = 1024;
/// The length of the pause after a write of a file, as a multiple of the duration of the write.
const WRITE_PAUSE: u64 = 20;
/// Assumed minimum speed of writing a zone, in octets per second.
const WRITTEN_IN_SECOND: u64 = 16 << 20;

/// The reason why the file of a zone is not replaced.
const OTHER_CONTENT: &str = "the file has something else than the zone, and is not replaced: move \
                             it away, or set another `file`";

/// The contents of the file of a zone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileContent {
    /// The file is empty, or missing.
    Nothing,
    /// The file has a copy of a zone that this server wrote.
    Ours,
    /// The file has the zone, but another program wrote the file.
    Foreign,
}

/// Checks that the file of a zone may be replaced by a zone from other servers: the file is missing
/// or empty, this server wrote it, or it contains the zone. A mistake in a setting must not destroy
/// the data of another program.
///
/// # Errors
/// The file has other content, or cannot be read.
pub fn check_copy(config: &ZoneConfig) -> io::Result<()> {
    content(config).map(drop)
}

/// Checks the file like [`check_copy`]. If another program wrote the file, keeps a copy of it.
///
/// # Errors
/// The file has other content, or cannot be read or copied.
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
    // The check also accepts a copy that was damaged after this server wrote it.
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
    /// Writes the zone without signatures to its file, if the file has another version. Pauses
    /// between writes, so that writing takes at most a twentieth of the total time. Never
    /// overwrites an edit that was not read. Returns whether it tried to write.
    pub(super) fn write_back(&mut self, now_secs: u64, journal: &mut ZoneJournal) -> bool {
        let Some(zone) = self.source.clone().filter(|_| self.fault.is_none()) else { return false };
        let is_written = !self.config.keeps_changes() && self.base.is_none()
            || self.config.provided.is_some()
            || self.on_file == Some(zone.version());
        if is_written || now_secs < self.next_write_secs || self.now() != self.seen {
            return false;
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
        true
    }

    /// Records in the modification time of the file that a primary has the version in force. The
    /// file counts as unchanged, so that later changes are written to it.
    pub(super) fn confirm(&mut self, now_secs: u64) -> io::Result<()> {
        let _permit = ownership::write()?;
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

    /// Writes a version to the file. The file of a primary zone is replaced only if it has not
    /// changed since it was read, so that no edit is lost.
    pub(super) fn write(&mut self, zone: &Arc<HostedZone>) -> Result<(), ReplaceFault> {
        let _permit = ownership::write()?;
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
                // A file that was written by hand has comments and `$INCLUDE`, which would be lost.
                disk::keep_copy(file)?;
            }
            let (head, text) = (format!("{WRITTEN}{}.\n", zone.serial()), zone.text());
            let parts = [head.as_bytes(), text.as_bytes()];
            let sum = if self.config.is_secondary() { sum_line(&parts) } else { String::new() };
            replace(&[parts[0], parts[1], sum.as_bytes()])?
        };
        let seen = if self.config.is_secondary() {
            // The modification time remains the time of the last confirmation.
            File::options().append(true).open(file)?.set_modified(confirmed?)?;
            FileFingerprint::of(file)
        } else {
            // If the new file differs from what was written, it was edited, and the edit counts as
            // not read.
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
