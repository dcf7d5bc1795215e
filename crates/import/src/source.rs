//! Where a source is read from, how much of it is read at most, and what can be wrong with it.

use std::fmt;

/// Most octets of a file of text: the largest configurations hold hundreds of thousands of names.
pub(crate) const MAX_TEXT: u64 = 64 << 20;
/// Most octets of an archive.
pub(crate) const MAX_ARCHIVE: u64 = 256 << 20;
/// Most octets that the wanted members of an archive unpack to, all together, and of a database.
pub(crate) const MAX_UNPACKED: u64 = 512 << 20;
/// Most members of an archive, wanted or not.
pub(crate) const MAX_MEMBERS: usize = 10_000;
/// Most octets of a line; longer ones are left out with a note.
pub(crate) const MAX_LINE: usize = 4_096;
/// Most lines of a file and rows of a table.
pub(crate) const MAX_ROWS: usize = 1_000_000;
/// Most files that one configuration includes.
pub(crate) const MAX_INCLUDES: usize = 256;

/// The disk, or what stands for it.
pub trait Files {
    /// The octets of a file.
    ///
    /// # Errors
    /// It cannot be read, or has more than `most` octets; the text says why.
    fn read(&self, path: &str, most: u64) -> Result<Vec<u8>, String>;

    /// The names in a directory, sorted; `None` where `path` is none.
    fn list(&self, path: &str) -> Option<Vec<String>>;
}

/// Why a source could not be imported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The machine does not give it out: no such file, no permission, too large.
    Unreadable {
        /// The file.
        path: String,
        /// What the machine said.
        reason: String,
    },
    /// It is not what it should be.
    Malformed {
        /// The file, or the member of an archive.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It exceeds a limit.
    TooLarge {
        /// The file, or the member of an archive.
        path: String,
        /// Of what there may be how much.
        limit: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, reason } => write!(f, "{path} cannot be read: {reason}"),
            Self::Malformed { path, reason } => write!(f, "{path}: {reason}"),
            Self::TooLarge { path, limit } => write!(f, "{path} is too large: at most {limit}"),
        }
    }
}

impl std::error::Error for Error {}

/// The error of a source that is not what it should be.
pub(crate) fn malformed(path: &str, reason: impl fmt::Display) -> Error {
    Error::Malformed { path: path.to_owned(), reason: reason.to_string() }
}

/// Reads a file of at most `most` octets.
pub(crate) fn octets(files: &dyn Files, path: &str, most: u64) -> Result<Vec<u8>, Error> {
    files.read(path, most).map_err(|reason| Error::Unreadable { path: path.to_owned(), reason })
}

/// The text of octets that should be one: without a byte order mark, and what is not UTF-8
/// replaced.
pub(crate) fn text(path: &str, octets: &[u8]) -> Result<String, Error> {
    if octets.len() as u64 > MAX_TEXT {
        return Err(Error::TooLarge {
            path: path.to_owned(),
            limit: format!("{} MiB", MAX_TEXT >> 20),
        });
    }
    if octets.contains(&0) {
        return Err(malformed(path, "this is no text"));
    }
    let text = String::from_utf8_lossy(octets);
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

/// The lines of a text with their numbers, without blanks around them; empty and endless ones are
/// left out.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().take(MAX_ROWS).enumerate();
    numbered
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| (1..=MAX_LINE).contains(&line.len()))
}

/// How many lines of a text [`lines`] leaves out because of a limit.
pub(crate) fn lines_left_out(text: &str) -> usize {
    let over = |(index, line): (usize, &str)| index >= MAX_ROWS || line.trim().len() > MAX_LINE;
    text.lines().enumerate().filter(|numbered| over(*numbered)).count()
}
