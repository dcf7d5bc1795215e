//! Errors of the query log. They do not affect the DNS service: the writer counts lost entries and
//! continues.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// An error of the query log.
#[derive(Debug, Error)]
pub enum LogError {
    /// A file or the directory cannot be used, for example because of permissions, a full disk or a
    /// failing device.
    #[error("cannot {action} {}: {source}", .path.display())]
    File {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process writes the log in this directory.
    #[error("{} is in use by another process; stop it or choose another directory", .0.display())]
    Locked(PathBuf),
    /// A file is damaged and is not used.
    #[error("{} is damaged: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: &'static str,
    },
    /// There is not enough memory for the compressor.
    #[error("cannot compress: {0}")]
    Compressor(#[source] io::Error),
}

impl LogError {
    /// Returns a closure that converts an error of the system, and adds the action and the path.
    pub(crate) fn file<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    pub(crate) fn damaged(path: &Path, reason: &'static str) -> Self {
        Self::Damaged { path: path.to_owned(), reason }
    }
}
