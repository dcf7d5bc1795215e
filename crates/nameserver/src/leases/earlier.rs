//! The earlier files of Kea. Kea cleans its lease file up every hour (LFC): it begins the file
//! again, with only the leases that change from then on. The other leases are in files next to it.
//!
//! ```text
//! FILE.1           the file until the cleanup, while that takes place
//! FILE.2           the result of the last cleanup
//! FILE.completed   the result of a cleanup until it replaces both
//! ```

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use avocet_zone::OpenFile;

use super::text::{KEA_HEADER, NEXT_FILE};

/// Reads a lease file with `open`, and the earlier files of Kea, the latest first.
///
/// # Errors
/// A file cannot be read, or all files together have more than `most` octets.
pub(crate) fn read_with_earlier(path: &Path, most: u64, open: OpenFile<'_>) -> io::Result<Vec<u8>> {
    let mut octets = open(path, most)?;
    if !octets.starts_with(KEA_HEADER.as_bytes()) {
        return Ok(octets);
    }
    let with_ending = |ending: &str| path.with_added_extension(ending);
    let files: Vec<PathBuf> = match with_ending("completed") {
        completed if completed.exists() => vec![completed],
        _ => ["1", "2"].map(with_ending).into(),
    };
    for file in files {
        match open(&file, most.saturating_sub(octets.len() as u64)) {
            Ok(earlier) => octets.extend([NEXT_FILE.as_bytes(), &earlier].concat()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("{}: {error}", file.display())));
            }
        }
    }
    Ok(octets)
}
