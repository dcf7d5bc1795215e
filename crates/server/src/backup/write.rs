//! Writes a backup.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use avocet_control::backup::{BackedUp, BackupHead, BackupLine, BackupPiece};
use avocet_control::{ControlError, Parts};
use avocet_revisions::store;
use data_encoding::BASE64;
use tracing::warn;

use super::read::BackupDigest;
use super::{
    CERTIFICATES, CONFIGURATION, FileKind, QUERY_LOG, REVISIONS, STATE, VERSION, check_certificate,
    is_audit, is_of_query_log,
};

/// Number of octets of one piece.
const PIECE: usize = 48 << 10;

/// The sources of a backup.
pub(crate) struct BackupSource {
    /// The data directory.
    pub(crate) directory: PathBuf,
    /// The text of the configuration in force, if there is a file.
    pub(crate) configuration: Option<String>,
    /// The directory of the query log, if the backup has it.
    pub(crate) query_log: Option<PathBuf>,
    /// The time in Unix seconds.
    pub(crate) at: u64,
}

/// A backup while it is written.
struct Writing<'a> {
    lines: Parts<'a, BackupLine>,
    digest: BackupDigest,
    files: u64,
    octets: u64,
}

/// Sends the lines of a backup. The server replaces its files atomically, so each copy is a
/// complete file.
///
/// # Errors
/// A file cannot be read, or the client has disconnected.
pub(crate) fn write(
    source: &BackupSource,
    lines: Parts<'_, BackupLine>,
) -> Result<BackedUp, ControlError> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let head = BackupHead { avocet_backup: VERSION, version, at: source.at };
    let mut writing = Writing { lines, digest: BackupDigest::of(&head), files: 0, octets: 0 };
    (writing.lines)(BackupLine::Head(head))?;
    if let Some(text) = &source.configuration {
        writing.file(CONFIGURATION, &mut text.as_bytes())?;
    }
    let is_state = |name: &str| STATE.contains(&name) || is_audit(name);
    writing.files_in(&source.directory, "", is_state)?;
    writing.files_in(&source.directory.join(REVISIONS), REVISIONS, |name| {
        is_intact(&source.directory, &format!("{REVISIONS}{name}"))
    })?;
    for one in &CERTIFICATES {
        for file in one.files {
            writing.certificate(&source.directory, &format!("{}/{file}", one.name))?;
        }
    }
    if let Some(directory) = &source.query_log {
        writing.files_in(directory, QUERY_LOG, is_of_query_log)?;
    }
    let Writing { digest, files, octets, .. } = writing;
    Ok(BackedUp { files, octets, sha256: digest.finish() })
}

/// Returns whether a name is the name of a revision with an intact file.
fn is_intact(directory: &Path, name: &str) -> bool {
    let Some(FileKind::Revision(number)) = FileKind::of(name) else { return false };
    fs::read_to_string(directory.join(name)).is_ok_and(|text| store::is_intact(number, &text))
}

fn failed(path: &Path, error: &io::Error) -> ControlError {
    ControlError::BackupFailed(format!("{}: {error}", path.display()))
}

impl Writing<'_> {
    /// Writes the files of a directory with names that `fits` accepts, in the order of their names.
    fn files_in(
        &mut self,
        directory: &Path,
        prefix: &str,
        fits: impl Fn(&str) -> bool,
    ) -> Result<(), ControlError> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(|error| failed(directory, &error))?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| fits(name)).collect();
        names.sort_unstable();
        for name in names {
            let path = directory.join(&name);
            match File::open(&path) {
                // The file was removed meanwhile, such as an old revision or a merged segment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&path, &error)),
                Ok(mut file) => self.file(&format!("{prefix}{name}"), &mut file)?,
            }
        }
        Ok(())
    }

    /// Writes a file of [`CERTIFICATES`], unless it is missing or a restore could not use it.
    fn certificate(&mut self, directory: &Path, name: &str) -> Result<(), ControlError> {
        let path = directory.join(name);
        let octets = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            octets => octets.map_err(|error| failed(&path, &error))?,
        };
        if let Err(error) = check_certificate(name, &octets) {
            warn!("{} is left out of the backup: {error}", path.display());
            return Ok(());
        }
        self.file(name, &mut octets.as_slice())
    }

    fn file(&mut self, name: &str, content: &mut impl Read) -> Result<(), ControlError> {
        let mut is_empty = true;
        loop {
            let mut octets = Vec::with_capacity(PIECE);
            let read = content.by_ref().take(PIECE as u64).read_to_end(&mut octets);
            read.map_err(|error| failed(Path::new(name), &error))?;
            if octets.is_empty() && !is_empty {
                break;
            }
            is_empty = false;
            self.digest.add(name, &octets);
            self.octets += octets.len() as u64;
            let file = name.to_owned();
            let piece = match String::from_utf8(octets) {
                Ok(text) => BackupPiece { file, text: Some(text), data: None },
                Err(error) => {
                    let data = Some(BASE64.encode(error.as_bytes()));
                    BackupPiece { file, text: None, data }
                }
            };
            (self.lines)(BackupLine::Piece(piece))?;
        }
        self.files += 1;
        Ok(())
    }
}
