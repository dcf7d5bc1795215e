//! Errors of the background work of the server: reloads, lists, own lookups, state files.

use std::io;
use std::path::PathBuf;

use avocet_config::ConfigErrors;
use avocet_config::edit::EditError;
use avocet_control::ControlError;
use avocet_nameserver::StateError;
use avocet_policy::list::ImageError;
use avocet_revisions::{ReplaceError, RevisionError};
use avocet_wire::Rcode;
use thiserror::Error;

use avocet_worker::certificates::CertificateFault;

/// An error of the background work of the server. The state in force does not change.
#[derive(Debug, Error)]
pub(crate) enum BackgroundError {
    /// The configuration file has errors.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A valid configuration cannot be put in force.
    #[error(transparent)]
    State(#[from] StateError),
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateFault),
    /// TLS to an upstream cannot be used.
    #[error("TLS to other servers: {0}")]
    Upstream(CertificateFault),
    /// The configuration file changed while it was read.
    #[error("{} is being written; try again when it is complete", .0.display())]
    BeingWritten(PathBuf),
    /// The configuration file lost all its settings.
    #[error(
        "{} has no settings any more, which would end all filtering; restart the server if that is \
         intended",
        .0.display()
    )]
    NoSettings(PathBuf),
    /// The configuration file still has the text that was rolled back, because the rollback could
    /// not replace it.
    #[error(
        "{} still has the text that was rolled back; change it, or make it writable and use \
         `avocet config rollback`",
        .0.display()
    )]
    RolledBack(PathBuf),
    /// The server runs without a configuration file, or has no directory for revisions.
    #[error(
        "there are no revisions: the server runs without a configuration file, or cannot \
             use its data directory"
    )]
    NoFile,
    /// The author of a change may not change keys that decide who may use the server.
    #[error("{0} decide who may use the server")]
    AccessKeys(String),
    /// The revision in force is not the one that a change is based on.
    #[error("another revision is in force")]
    OtherRevision(Option<u32>),
    /// A revision is missing, damaged or cannot be written.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// The configuration file cannot be written.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// An edit is invalid.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The stored file with the compiled lists (the image) is unusable.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The system has no random octets.
    #[error("{0}")]
    Random(getrandom::Error),
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason given by the system.
        source: io::Error,
    },
    /// An entry of a zone is not a record.
    #[error("{0}")]
    Zone(Box<avocet_zone::ZoneFileFault>),
    /// A zone has too many records.
    #[error("{}: expected at most {most} records", .path.display())]
    ZoneRecords {
        /// The file.
        path: PathBuf,
        /// The maximum number of records.
        most: usize,
    },
    /// A zone has another view, but the files with its changes cannot be renamed. Their names
    /// contain the view.
    #[error("the changes of a zone with another view cannot be moved: {0}")]
    Unmoved(io::Error),
    /// A state file cannot be written.
    #[error("cannot save {}: {source}", .path.display())]
    Unsaved {
        /// The file.
        path: PathBuf,
        /// The reason given by the system.
        source: io::Error,
    },
}

/// The reason why the server finds no address of a host that it must reach.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum LookupError {
    /// The host has neither A nor AAAA records.
    #[error("{0} has no address")]
    NoAddress(String),
    /// All addresses are unspecified: an upstream filters the name.
    #[error("an upstream blocks {0}")]
    Blocked(String),
    /// This server sends no answer for the host, not even to its own query.
    #[error("this server does not answer for {0}")]
    NoAnswer(String),
    /// Resolution failed. Holds the host and the reason.
    #[error("{0} cannot be resolved: {1}")]
    Unresolved(String, &'static str),
    /// The response has an error.
    #[error("the answer for {0} is {1}")]
    Rcode(String, Rcode),
    /// The name is invalid, or the workers are too busy.
    #[error(transparent)]
    Refused(#[from] ControlError),
}
