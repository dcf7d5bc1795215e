//! Replaces the text of a file that people edit, too, without losing their edits.
//!
//! The new text is written to a new file in the same directory. [`replace_if`] then replaces the
//! configuration file with the new file, so that the configuration is complete at any moment.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use avocet_io::file::open_regular;
use avocet_io::replace::{ExpectedFile, ReplaceFault, ReplaceReason, replace_if};

/// The reason why a file was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The file has another text than expected.
    #[error("{0} was changed at the same time; try again")]
    Changed(PathBuf),
    /// Several edits were saved at the same time. Holds the file, and the path of a file with one
    /// of the edits.
    #[error("{0} was changed several times at the same time; {1} has one of the edits")]
    Kept(PathBuf, PathBuf),
    /// The system reports an error.
    #[error(
        "{0} cannot be written: {1}; the account of the server needs write access to the \
             file and its directory"
    )]
    System(PathBuf, #[source] ReplaceFault),
}

/// Replaces the file at `path` if its text is `base`. Owner and permissions do not change. After an
/// error, the file has its old text.
///
/// # Errors
/// The file has another text, or cannot be written.
pub fn replace(path: &Path, base: &str, text: &str) -> Result<(), ReplaceError> {
    let failed = |error: io::Error| ReplaceError::System(path.to_owned(), error.into());
    // If the path is a symbolic link, the file that it leads to is replaced, and the link remains.
    let path = fs::canonicalize(path).map_err(failed)?;
    let beside = path.with_added_extension("avocet-new");
    write_like(&path, &beside, text).map_err(|error| {
        // An incomplete file only takes space.
        let _ = fs::remove_file(&beside);
        failed(error)
    })?;
    let is_base = |path: &Path| {
        let mut octets = Vec::new();
        open_regular(path)?.take(base.len() as u64 + 1).read_to_end(&mut octets)?;
        Ok(octets == base.as_bytes())
    };
    replace_if(&path, &beside, &ExpectedFile::Present(&is_base)).map_err(|fault| match fault {
        ReplaceFault { reason: ReplaceReason::Changed, kept: None } => ReplaceError::Changed(path),
        ReplaceFault { reason: ReplaceReason::Changed, kept: Some(kept) } => {
            ReplaceError::Kept(path, kept)
        }
        fault => ReplaceError::System(path, fault),
    })
}

/// Writes a file with the owner and permissions of another one.
fn write_like(model: &Path, path: &Path, text: &str) -> io::Result<()> {
    let facts = fs::metadata(model)?;
    // A file that a crash has left is removed first: it may be a link, which must not be followed.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (facts.uid(), facts.gid()) {
        fchown(&file, Some(facts.uid()), Some(facts.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(facts.mode() & 0o7777))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_only_if_it_is_as_expected() {
        let directory = std::env::temp_dir().join(format!("avocet-replace-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (path, link) = (directory.join("a.toml"), directory.join("link.toml"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace(&link, "old", "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let changed = replace(&path, "old", "other");
        assert!(matches!(changed, Err(ReplaceError::Changed(_))), "{changed:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let none = replace(&directory.join("none"), "", "x");
        assert!(matches!(none, Err(ReplaceError::System(..))));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "no other file remains");
        // An error after the exchange.
        let folder = directory.join("folder");
        fs::create_dir(&folder).unwrap();
        let unreadable = replace(&folder, "old", "new");
        assert!(matches!(unreadable, Err(ReplaceError::System(..))), "{unreadable:?}");
        assert!(folder.is_dir());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 3, "no other file remains");
        fs::remove_dir_all(&directory).unwrap();
    }
}
