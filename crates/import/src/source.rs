//! Access to the source, with its limits and errors.

use std::{fmt, io};

/// Maximum number of octets of a text file. The largest configurations have hundreds of thousands
/// of names.
pub(crate) const MAX_TEXT: u64 = 64 << 20;
/// Maximum number of octets of an archive.
pub(crate) const MAX_ARCHIVE: u64 = 256 << 20;
/// Maximum number of octets of all wanted members of an archive together, and of a database.
pub(crate) const MAX_UNPACKED: u64 = 512 << 20;
/// Maximum number of members of an archive, wanted or not.
pub(crate) const MAX_MEMBERS: usize = 10_000;
/// Maximum number of octets of a line. Longer lines are omitted with a note.
pub(crate) const MAX_SOURCE_LINE: usize = 4_096;
/// Maximum number of lines of a file, and of rows of a table.
pub(crate) const MAX_ROWS: usize = 1_000_000;
/// Maximum number of files that one configuration includes.
pub(crate) const MAX_INCLUDES: usize = 256;

/// Access to files.
pub trait Files {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or has more than `most` octets.
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>>;

    /// Returns the sorted names in a directory, or `None` if `path` is not a directory.
    fn list(&self, path: &str) -> Option<Vec<String>>;
}

/// The reason why an import failed.
#[derive(Debug)]
pub enum Error {
    /// The file cannot be read: it does not exist, access is denied, or it is too large.
    Unreadable {
        /// The file.
        path: String,
        /// The reason given by the system.
        source: io::Error,
    },
    /// The content is malformed.
    Malformed {
        /// The file, or the member of an archive.
        path: String,
        /// The problem.
        reason: String,
    },
    /// A limit is exceeded.
    TooLarge {
        /// The file, or the member of an archive.
        path: String,
        /// The limit.
        limit: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => write!(f, "{path} cannot be read: {source}"),
            Self::Malformed { path, reason } => write!(f, "{path}: {reason}"),
            Self::TooLarge { path, limit } => write!(f, "{path} is too large: at most {limit}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            Self::Malformed { .. } | Self::TooLarge { .. } => None,
        }
    }
}

/// Returns an error for malformed content.
pub(crate) fn malformed(path: &str, reason: impl fmt::Display) -> Error {
    Error::Malformed { path: path.to_owned(), reason: reason.to_string() }
}

/// Reads a file of at most `most` octets.
pub(crate) fn octets(files: &dyn Files, path: &str, most: u64) -> Result<Vec<u8>, Error> {
    files.read(path, most).map_err(|source| Error::Unreadable { path: path.to_owned(), source })
}

/// Decodes a text without its byte order mark. Octets that are not UTF-8 are replaced.
pub(crate) fn text(path: &str, octets: &[u8]) -> Result<String, Error> {
    if octets.len() as u64 > MAX_TEXT {
        return Err(Error::TooLarge {
            path: path.to_owned(),
            limit: format!("{} MiB", MAX_TEXT >> 20),
        });
    }
    if octets.contains(&0) {
        return Err(malformed(path, "not a text file"));
    }
    let text = String::from_utf8_lossy(octets);
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

/// Returns the trimmed lines of a text with their numbers. Empty and overlong lines are omitted.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().take(MAX_ROWS).enumerate();
    numbered
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| (1..=MAX_SOURCE_LINE).contains(&line.len()))
}

/// Returns the number of lines that [`lines`] omits because of a limit.
pub(crate) fn lines_left_out(text: &str) -> usize {
    let over =
        |(index, line): (usize, &str)| index >= MAX_ROWS || line.trim().len() > MAX_SOURCE_LINE;
    text.lines().enumerate().filter(|numbered| over(*numbered)).count()
}
