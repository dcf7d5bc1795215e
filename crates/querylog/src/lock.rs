//! The lock of a directory. It ensures that only one process writes a log.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::error::LogError;

const LOCK: &str = "lock";

/// The exclusive right to change the log in a directory. The right ends when the value is dropped.
pub(crate) struct LogLock(#[expect(dead_code, reason = "the lock lasts as long as the file")] File);

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
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(LogError::Locked(directory.to_owned())),
            Err(TryLockError::Error(source)) => Err(LogError::file("lock", &path)(source)),
        }
    }
}
