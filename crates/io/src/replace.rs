//! Replaces a file that other programs may edit at the same time, without losing their edits.
//!
//! The kernel exchanges the two files, so that there is always a file at the path. The file that
//! was at the path is then compared with the file that the caller expects. If they differ, somebody
//! has saved the file meanwhile, and the files are exchanged back. The file that was at the path
//! then is compared, too, because somebody may have saved the file once more.
//!
//! ```text
//! exchange -> what comes out is expected: remove it                                  done
//!          -> anything else: exchange back -> our file comes out: remove it          Changed
//!                               ^          -> a later edit comes out --+
//!                               +--------------------------------------+
//! ```
//!
//! Only the caller's file and a file that is as expected are removed. An edit that is no longer at
//! the path is kept next to the file.
//!
//! One risk remains: if a program opens the file before the exchange and writes into it after the
//! comparison, the edit is lost, because the file no longer has a name.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::file::{exchange, rename_to_missing, sync_directory};
use crate::ownership;

/// Maximum number of times that files are exchanged back. An exchange back happens only if another
/// program saves the file between two system calls.
const MAX_RETURNS: usize = 16;
/// Maximum number of edits that are kept next to one file.
const MAX_KEPT: usize = 99;

/// The state of a file that is about to be replaced.
pub enum ExpectedFile<'a> {
    /// The file does not exist.
    Missing,
    /// The file exists. The function returns whether the file at a path is the expected one.
    Present(&'a dyn Fn(&Path) -> io::Result<bool>),
}

/// The reason why a file was not replaced.
#[derive(Debug)]
pub struct ReplaceFault {
    /// The reason.
    pub reason: ReplaceReason,
    /// The path of the file that keeps an edit, if an edit is no longer at its path.
    pub kept: Option<PathBuf>,
}

/// The reason why a file was not replaced.
#[derive(Debug)]
pub enum ReplaceReason {
    /// Another program saved or removed the file meanwhile. The last edit is at the path.
    Changed,
    /// The system reports an error.
    System(io::Error),
}

impl From<ReplaceReason> for ReplaceFault {
    fn from(reason: ReplaceReason) -> Self {
        Self { reason, kept: None }
    }
}

impl From<io::Error> for ReplaceFault {
    fn from(error: io::Error) -> Self {
        ReplaceReason::System(error).into()
    }
}

impl fmt::Display for ReplaceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            ReplaceReason::Changed => f.write_str("the file was changed at the same time")?,
            ReplaceReason::System(error) => error.fmt(f)?,
        }
        match &self.kept {
            Some(kept) => write!(f, "; an edit of it is in {}", kept.display()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ReplaceFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            ReplaceReason::Changed => None,
            ReplaceReason::System(error) => Some(error),
        }
    }
}

/// Replaces the file `path` by the file `written`, if `path` is as expected. Both are in the same
/// directory, and `path` is not a link. The name `written` is free afterwards, also after an error.
///
/// # Errors
/// Another program has changed the file, the system reports an error, or another process owns the
/// state of the server.
pub fn replace_if(
    path: &Path,
    written: &Path,
    expected: &ExpectedFile<'_>,
) -> Result<(), ReplaceFault> {
    let _permit = ownership::write()?;
    match expected {
        ExpectedFile::Missing => put_in_gap(path, written, &rename_to_missing),
        ExpectedFile::Present(is_expected) => {
            Replacement { path, written, exchange: &exchange }.run(is_expected)
        }
    }?;
    sync_directory(path).map_err(ReplaceFault::from)
}

/// Renames the file `written` to `path`, if no file has that name.
fn put_in_gap(
    path: &Path,
    written: &Path,
    rename_to_missing: &dyn Fn(&Path, &Path) -> io::Result<()>,
) -> Result<(), ReplaceFault> {
    let renamed = match rename_to_missing(written, path) {
        // If a file is saved in the microseconds between the two calls, it is lost.
        Err(error) if is_unsupported(&error) => match fs::symlink_metadata(path) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(written, path),
        },
        renamed => renamed,
    };
    renamed.map_err(|error| {
        // The removal may fail: an incomplete file only takes space.
        let _ = fs::remove_file(written);
        match error.kind() {
            io::ErrorKind::AlreadyExists => ReplaceReason::Changed.into(),
            _ => error.into(),
        }
    })
}

/// A file, the file that replaces it, and the function that exchanges the two.
struct Replacement<'a> {
    path: &'a Path,
    written: &'a Path,
    exchange: &'a dyn Fn(&Path, &Path) -> io::Result<()>,
}

impl Replacement<'_> {
    fn run(&self, is_expected: &dyn Fn(&Path) -> io::Result<bool>) -> Result<(), ReplaceFault> {
        let own = Identity::of(self.written);
        match self.exchange() {
            Ok(()) => {}
            Err(error) if is_unsupported(&error) => return self.rename(is_expected),
            Err(error) => return Err(self.give_up(error)),
        }
        let reason = match is_expected(self.written) {
            Ok(true) => {
                let _ = fs::remove_file(self.written);
                return Ok(());
            }
            Ok(false) => ReplaceReason::Changed,
            Err(error) => ReplaceReason::System(error),
        };
        Err(ReplaceFault { reason, kept: self.put_back(own) })
    }

    /// Replaces the file on a file system that cannot exchange two files. An edit that is saved in
    /// the microseconds between the comparison and the next call is lost.
    fn rename(&self, is_expected: &dyn Fn(&Path) -> io::Result<bool>) -> Result<(), ReplaceFault> {
        match is_expected(self.path) {
            Ok(true) => fs::rename(self.written, self.path).map_err(|error| self.give_up(error)),
            Ok(false) => {
                let _ = fs::remove_file(self.written);
                Err(ReplaceReason::Changed.into())
            }
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// Puts the edit in `written` back to `path`, by exchanging the two files until the file that
    /// was last put at `path` is found there. The first such file is `own`. Returns the path of an
    /// edit that could not be put back.
    fn put_back(&self, own: Option<Identity>) -> Option<PathBuf> {
        let mut awaited = own;
        for _ in 0..MAX_RETURNS {
            let edit = Identity::of(self.written);
            match self.exchange() {
                Ok(()) => {}
                // Another process has removed the file that this process had put at `path`, and
                // does not know of the edit in `written`.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match rename_to_missing(self.written, self.path) {
                        Ok(()) => return None,
                        Err(_) => continue,
                    }
                }
                Err(_) => continue,
            }
            let out = Identity::of(self.written);
            if out.is_some() && out == awaited {
                if awaited == own {
                    let _ = fs::remove_file(self.written);
                    return None;
                }
                break;
            }
            // A later edit was at `path`. The earlier edit is now at `path`.
            awaited = edit;
        }
        Some(self.keep())
    }

    /// Renames the edit in `written` so that no cleanup removes it.
    fn keep(&self) -> PathBuf {
        let names = (1..=MAX_KEPT).map(|n| self.path.with_added_extension(format!("edit-{n}")));
        let mut kept = names.filter(|name| {
            let renamed = rename_to_missing(self.written, name);
            let is_missing = || fs::symlink_metadata(name).is_err();
            let is_unsupported = renamed.as_ref().is_err_and(is_unsupported);
            renamed.is_ok()
                || is_unsupported && is_missing() && fs::rename(self.written, name).is_ok()
        });
        kept.next().unwrap_or_else(|| self.written.to_owned())
    }

    fn exchange(&self) -> io::Result<()> {
        (self.exchange)(self.path, self.written)
    }

    /// Returns the fault for an error that occurs before the first exchange.
    fn give_up(&self, error: io::Error) -> ReplaceFault {
        // The removal may fail: an incomplete file only takes space.
        let _ = fs::remove_file(self.written);
        match error.kind() {
            io::ErrorKind::NotFound => ReplaceReason::Changed.into(),
            _ => error.into(),
        }
    }
}

/// Properties that change when a file is written, but not when it is renamed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    place: (u64, u64),
    size: u64,
    modified: (i64, i64),
}

impl Identity {
    /// Returns the identity of a file or link.
    fn of(path: &Path) -> Option<Self> {
        let of = |facts: Metadata| Self {
            place: (facts.dev(), facts.ino()),
            size: facts.size(),
            modified: (facts.mtime(), facts.mtime_nsec()),
        };
        fs::symlink_metadata(path).ok().map(of)
    }
}

/// Returns whether the file system or the kernel does not know the operation.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The method by which a file is renamed.
    type Rename = dyn Fn(&Path, &Path) -> io::Result<()>;

    /// A directory with a file, and another file that replaces it.
    struct Case {
        directory: PathBuf,
        path: PathBuf,
        written: PathBuf,
    }

    impl Case {
        fn of(name: &str) -> Self {
            let name = format!("avocet-replace-if-{name}-{}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&directory);
            fs::create_dir_all(&directory).unwrap();
            let (path, written) = (directory.join("zone"), directory.join("zone.new"));
            fs::write(&path, "base").unwrap();
            fs::write(&written, "ours").unwrap();
            Self { directory, path, written }
        }

        /// Saves the file as most editors do: writes another file and renames it.
        fn save(&self, text: &str) {
            let saved = self.directory.join("saved");
            fs::write(&saved, text).unwrap();
            fs::rename(&saved, &self.path).unwrap();
        }

        /// Replaces the file. Calls `before` with the index of each exchange, so that it can act as
        /// another program.
        fn run(&self, before: &dyn Fn(usize) -> io::Result<()>) -> Result<(), ReplaceFault> {
            let count = Cell::new(0);
            let exchange = |a: &Path, b: &Path| {
                before(count.replace(count.get() + 1))?;
                exchange(a, b)
            };
            Replacement { path: &self.path, written: &self.written, exchange: &exchange }
                .run(&|path| Ok(fs::read_to_string(path)? == "base"))
        }

        /// Asserts the contents of the directory: the text of the file, and the names and texts of
        /// all other files.
        fn check(&self, text: &str, others: &[(&str, &str)]) {
            assert_eq!(fs::read_to_string(&self.path).unwrap(), text);
            for (name, text) in others {
                assert_eq!(fs::read_to_string(self.directory.join(name)).unwrap(), *text);
            }
            assert_eq!(fs::read_dir(&self.directory).unwrap().count(), 1 + others.len());
        }
    }

    impl Drop for Case {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }

    fn is_changed(result: &Result<(), ReplaceFault>) -> bool {
        matches!(result, Err(ReplaceFault { reason: ReplaceReason::Changed, .. }))
    }

    #[test]
    fn a_file_is_replaced_if_nobody_saves_it() {
        let case = Case::of("undisturbed");
        let is_base = |path: &Path| Ok(fs::read_to_string(path)? == "base");
        replace_if(&case.path, &case.written, &ExpectedFile::Present(&is_base)).unwrap();
        case.check("ours", &[]);
    }

    #[test]
    fn an_edit_before_the_exchange_returns_to_its_place() {
        let case = Case::of("edited");
        let result = case.run(&|number| {
            if number == 0 {
                case.save("edit");
            }
            Ok(())
        });
        assert!(is_changed(&result), "{result:?}");
        case.check("edit", &[]);
    }

    #[test]
    fn a_second_edit_between_the_exchanges_stays_and_the_first_one_is_kept() {
        for in_place in [false, true] {
            let case = Case::of("second");
            fs::write(case.directory.join("zone.edit-1"), "earlier").unwrap();
            let result = case.run(&|number| {
                match number {
                    0 => case.save("first"),
                    1 if in_place => fs::write(&case.path, "second").unwrap(),
                    1 => case.save("second"),
                    _ => {}
                }
                Ok(())
            });
            assert!(is_changed(&result), "{result:?}");
            let kept = result.unwrap_err().kept;
            assert_eq!(kept, Some(case.directory.join("zone.edit-2")));
            case.check("second", &[("zone.edit-1", "earlier"), ("zone.edit-2", "first")]);
        }
    }

    #[test]
    fn edits_without_end_end_with_the_last_two() {
        let case = Case::of("endless");
        let result = case.run(&|number| {
            case.save(&format!("edit {number}"));
            Ok(())
        });
        assert_eq!(result.unwrap_err().kept, Some(case.directory.join("zone.edit-1")));
        let (before, last) = (format!("edit {}", MAX_RETURNS - 1), format!("edit {MAX_RETURNS}"));
        case.check(&before, &[("zone.edit-1", &last)]);
    }

    #[test]
    fn an_edit_returns_to_a_place_from_which_our_file_was_removed() {
        let case = Case::of("removed");
        let result = case.run(&|number| {
            match number {
                0 => case.save("edit"),
                1 => fs::remove_file(&case.path).unwrap(),
                _ => {}
            }
            Ok(())
        });
        assert!(is_changed(&result) && result.unwrap_err().kept.is_none());
        case.check("edit", &[]);
    }

    #[test]
    fn a_file_that_cannot_be_read_after_the_exchange_returns_to_its_place() {
        let case = Case::of("unreadable");
        let Case { path, written, .. } = &case;
        let result = Replacement { path, written, exchange: &exchange }
            .run(&|_| Err(io::ErrorKind::PermissionDenied.into()));
        let Err(ReplaceFault { reason: ReplaceReason::System(error), kept: None }) = result else {
            panic!("{result:?}")
        };
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        case.check("base", &[]);
    }

    #[test]
    fn an_edit_is_kept_if_it_cannot_return() {
        let case = Case::of("stuck");
        let result = case.run(&|number| {
            if number > 0 {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            case.save("edit");
            Ok(())
        });
        assert_eq!(result.unwrap_err().kept, Some(case.directory.join("zone.edit-1")));
        case.check("ours", &[("zone.edit-1", "edit")]);
    }

    #[test]
    fn a_file_that_was_removed_is_not_written_again() {
        let case = Case::of("missing");
        fs::remove_file(&case.path).unwrap();
        let result = case.run(&|_| Ok(()));
        assert!(is_changed(&result), "{result:?}");
        assert_eq!(fs::read_dir(&case.directory).unwrap().count(), 0);
    }

    #[test]
    fn a_file_system_without_exchange_is_compared_right_before() {
        let unsupported = |_| Err(io::Error::from_raw_os_error(libc::EINVAL));
        let case = Case::of("unsupported");
        case.run(&unsupported).unwrap();
        case.check("ours", &[]);
        fs::write(&case.written, "again").unwrap();
        assert!(is_changed(&case.run(&unsupported)));
        case.check("ours", &[]);
    }

    #[test]
    fn a_missing_file_is_written_only_while_it_is_missing() {
        let unsupported = |_: &Path, _: &Path| Err(io::Error::from_raw_os_error(libc::EINVAL));
        let checks: [&Rename; 2] = [&rename_to_missing, &unsupported];
        for rename in checks {
            let case = Case::of("gap");
            let result = put_in_gap(&case.path, &case.written, rename);
            assert!(is_changed(&result), "{result:?}");
            case.check("base", &[]);
            fs::write(&case.written, "ours").unwrap();
            fs::remove_file(&case.path).unwrap();
            put_in_gap(&case.path, &case.written, rename).unwrap();
            case.check("ours", &[]);
        }
    }
}
