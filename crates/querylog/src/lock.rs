//! The locks of the log: on its directory, so that only one process writes, and on each file of the
//! head that is written.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use crate::error::LogError;

const LOCK: &str = "lock";

/// A locked file. It is unlocked when the value is dropped.
///
/// To close the file would not be enough: if another thread starts a program at that moment, the
/// new process has a copy of the descriptor until the program is loaded, which keeps the lock.
pub(crate) struct LockedFile(File);

impl LockedFile {
    /// Takes a lock that others can share. Waits while another process has an exclusive lock.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn share(file: File) -> io::Result<Self> {
        file.lock_shared()?;
        Ok(Self(file))
    }

    /// Takes an exclusive lock.
    ///
    /// # Errors
    /// The file is locked, or the file system refuses.
    pub(crate) fn take(file: File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        Ok(Self(file))
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // If this fails, the lock ends when the last copy of the descriptor is closed.
        let _ = self.0.unlock();
    }
}

/// The exclusive right to change the log in a directory. The right ends when the value is dropped.
pub(crate) struct LogLock(
    #[expect(dead_code, reason = "the lock lasts as long as the file")] LockedFile,
);

impl LogLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// Another process holds the lock, or the file cannot be created.
    pub(crate) fn take(directory: &Path) -> Result<Self, LogError> {
        let path = directory.join(LOCK);
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(LogError::file("open", &path))?;
        match LockedFile::take(file) {
            Ok(file) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(LogError::Locked(directory.to_owned())),
            Err(TryLockError::Error(source)) => Err(LogError::file("lock", &path)(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_a_lock() {
        let directory = Scratch::create();
        let open = || File::options().create(true).append(true).open(directory.0.join("file"));
        let file = open().unwrap();
        let copy = file.try_clone().unwrap();
        let locked = LockedFile::take(file).ok().unwrap();
        assert!(LockedFile::take(open().unwrap()).is_err());
        drop(locked);
        assert!(LockedFile::take(open().unwrap()).is_ok());
        drop(copy);
    }
}
