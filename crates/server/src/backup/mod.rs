//! Backups: the configuration and state of a server, in one file of JSON lines.
//!
//! ```text
//!   backup   files ──write──> lines ──> socket or HTTP ──> file
//!   restore  file ──read: all checks──> restore.pending/ ──next start──> files in place
//!                                                                        restored-TIME/before/
//! ```
//! No file is replaced before the whole backup is checked and all its files are on the disk.
//! Replaced files stay in `restored-TIME/before`. After a crash at any moment, the state is
//! unchanged, or the next start completes the restore.
//!
//! A backup has state that cannot be fetched or resolved again: no caches, no copies of lists. It
//! has the query log only on request, and it lacks the keys and serials of signed zones.

mod query_log;
mod read;
mod restore;
mod waiting;
mod write;

use std::io;
use std::path::{Path, PathBuf};

use avocet_config::ConfigErrors;
use avocet_revisions::ReplaceError;
use thiserror::Error;

pub use restore::{BackupFacts, check, finish, has_pending, own, place_upload, restore};
pub(crate) use restore::{has_begun, stage};
pub use waiting::{cancel, waiting};
pub(crate) use write::{BackupSource, write};

/// The version of the format.
const VERSION: u32 = 1;
/// The name of the configuration file in a backup, independent of the path of the file.
const CONFIGURATION: &str = "configuration";
/// The files of the data directory that each backup has, other than audit log, revisions and
/// certificates.
const STATE: [&str; 5] =
    ["access.json", "negative-anchors.state", "pools.json", "switches.json", "trust-anchors.state"];
/// The directories with certificates that the server obtains or issues, in the data directory.
const CERTIFICATES: [CertificateDirectory; 2] = [
    CertificateDirectory {
        name: "acme",
        files: ["account.json", "certificate.pem", "state.json"],
        essential: None,
    },
    CertificateDirectory {
        name: "home-ca",
        files: ["authority.key", "authority.pem", "certificate.pem"],
        // The server makes the other files from the key.
        essential: Some("authority.key"),
    },
];
/// Maximum number of octets of a file outside the query log.
const MAX_FILE: usize = 64 << 20;
/// The prefix of the names of revisions.
const REVISIONS: &str = "revisions/";
/// The prefix of the names of files of the query log.
const QUERY_LOG: &str = "query-log/";

/// The paths of the state of a server.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The data directory.
    pub directory: &'a Path,
    /// The configuration file, if there is one.
    pub configuration: Option<&'a Path>,
}

/// The reason why a backup cannot be made or restored.
#[derive(Debug, Error)]
pub enum BackupError {
    /// A file or directory cannot be read or written.
    #[error("{}: {source}", .path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The reason given by the system.
        source: io::Error,
    },
    /// A line is malformed or in the wrong place. Holds the number of the line and the problem.
    #[error("line {0} is damaged or not of a backup: {1}")]
    Line(u64, String),
    /// The end of the backup is missing.
    #[error("the backup is cut off: its last line is missing")]
    CutOff,
    /// The digest does not match: the content has changed since the backup was made.
    #[error("the backup is damaged: its digest does not match")]
    Damaged,
    /// The format is of another version.
    #[error("the backup has format {0}, and this version of Avocet reads format {VERSION}")]
    Version(u32),
    /// A file has a name that no file of a backup has.
    #[error("the backup has a file {0:?}, which is not part of a backup")]
    Name(String),
    /// A file is too large.
    #[error("{0} is larger than {1} octets")]
    TooLarge(String, usize),
    /// A file has content that the server cannot use. Holds its name and the problem.
    #[error("{0} in the backup cannot be used: {1}")]
    Content(String, String),
    /// The configuration has errors.
    #[error("the configuration in the backup has errors:\n{0}")]
    Config(#[from] ConfigErrors),
    /// The configuration names another data directory.
    #[error(
        "the configuration in the backup has the data directory {}; restore it with a \
         configuration that has the same, or set AVOCET_DATA__DIRECTORY", .0.display()
    )]
    OtherDirectory(PathBuf),
    /// The configuration has another account than the present one. Holds its file.
    #[error(
        "the configuration in the backup has another `user` or `control-group` in [server] than \
         {}, and the server would run with other rights: set the same there first", .0.display()
    )]
    OtherAccount(PathBuf),
    /// A server owns the data directory.
    #[error("a server runs, starts or ends in {}: try again, or stop it", .0.display())]
    Owned(PathBuf),
    /// The configuration of the backup has no file to replace.
    #[error("the backup has a configuration: name the file for it with --config")]
    NoConfiguration,
    /// The configuration file cannot be replaced.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// No backup waits for a start.
    #[error("no backup waits for the next start")]
    NoneWaits,
    /// A restore was interrupted after it had replaced files.
    #[error("an earlier restore was interrupted: start the server, which completes it")]
    Begun,
}

impl BackupError {
    fn at(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        |source| Self::System { path: path.to_owned(), source }
    }
}

/// A directory with certificates and keys. A restore replaces all its files, because they belong
/// together.
struct CertificateDirectory {
    name: &'static str,
    files: [&'static str; 3],
    /// The file without which a backup replaces no file of the directory.
    essential: Option<&'static str>,
}

impl CertificateDirectory {
    /// Returns whether a name in a backup is the name of one of the files.
    fn has(&self, name: &str) -> bool {
        let file = name.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('/'));
        file.is_some_and(|file| self.files.contains(&file))
    }

    /// Returns whether a backup with files of these names replaces the directory.
    fn is_replaced_by(&self, names: &[String]) -> bool {
        match self.essential {
            Some(file) => names.contains(&format!("{}/{file}", self.name)),
            None => names.iter().any(|name| self.has(name)),
        }
    }
}

/// Checks the form of a file of [`CERTIFICATES`].
fn check_certificate(name: &str, octets: &[u8]) -> Result<(), BackupError> {
    let unusable = |reason: String| BackupError::Content(name.to_owned(), reason);
    if octets.len() > MAX_FILE {
        return Err(BackupError::TooLarge(name.to_owned(), MAX_FILE));
    }
    let text = str::from_utf8(octets).map_err(|error| unusable(error.to_string()))?;
    if name.ends_with(".json") {
        let read = serde_json::from_str::<serde_json::Value>(text);
        return read.map(drop).map_err(|error| unusable(error.to_string()));
    }
    match text.contains("-----BEGIN ") {
        true => Ok(()),
        false => Err(unusable("it is not in PEM form".to_owned())),
    }
}

/// The kind of a file in a backup, which its name determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    /// The configuration file.
    Configuration,
    /// A file of [`STATE`].
    State,
    /// A file of the audit log.
    Audit,
    /// A revision, with its number.
    Revision(u32),
    /// A file of [`CERTIFICATES`].
    Certificate,
    /// A file of the query log.
    QueryLog,
}

impl FileKind {
    /// Returns the kind of the file with this name; `None` if no file of a backup has such a name,
    /// for example a name with `..`.
    fn of(name: &str) -> Option<Self> {
        if name == CONFIGURATION {
            return Some(Self::Configuration);
        }
        if STATE.contains(&name) {
            return Some(Self::State);
        }
        if is_audit(name) {
            return Some(Self::Audit);
        }
        if let Some(rest) = name.strip_prefix(REVISIONS) {
            let digits = rest.strip_suffix(".revision")?;
            let number: u32 = digits.parse().ok()?;
            return (number.to_string() == digits).then_some(Self::Revision(number));
        }
        if CERTIFICATES.iter().any(|one| one.has(name)) {
            return Some(Self::Certificate);
        }
        name.strip_prefix(QUERY_LOG).filter(|rest| is_of_query_log(rest)).map(|_| Self::QueryLog)
    }
}

/// Returns whether a file belongs to the audit log.
fn is_audit(name: &str) -> bool {
    let number = name.strip_prefix("audit.").and_then(|rest| rest.strip_suffix(".jsonl"));
    name == "audit.jsonl" || number.is_some_and(|text| matches!(text.as_bytes(), [b'1'..=b'9']))
}

/// Returns whether a backup has the file of the query log with this name: a file of entries, the
/// roll-ups or a key.
fn is_of_query_log(name: &str) -> bool {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'.' | b'-');
    let ends = [".parquet", ".blocks", ".key"].iter().any(|ending| name.ends_with(ending));
    (ends || name == "rollups") && name.bytes().all(is_plain) && !name.starts_with('.')
}

#[cfg(test)]
mod tests;
