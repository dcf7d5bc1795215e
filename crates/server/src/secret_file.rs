//! Files with secrets for other servers.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use avocet_io::file::read_regular;
use thiserror::Error;
use zeroize::Zeroizing;

/// The bits of a mode with which other accounts than the owner and the group may read or change a
/// file.
const OTHERS: u32 = 0o007;

/// The reason why a file of secrets is not usable. The messages never contain the contents of the
/// file.
#[derive(Debug, Error)]
pub(crate) enum SecretFileError {
    #[error("{} cannot be read: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: io::Error },
    #[error("others may read {}: set its permissions to 0640 or less", .0.display())]
    Readable(PathBuf),
}

/// Reads a regular file of at most `most` octets. The file must not be readable for other accounts.
pub(crate) fn read(path: &Path, most: u64) -> Result<Zeroizing<Vec<u8>>, SecretFileError> {
    let unreadable = |reason| SecretFileError::Unreadable { path: path.to_owned(), reason };
    let octets = Zeroizing::new(read_regular(path, most).map_err(unreadable)?);
    if fs::metadata(path).map_err(unreadable)?.permissions().mode() & OTHERS != 0 {
        return Err(SecretFileError::Readable(path.to_owned()));
    }
    Ok(octets)
}
