//! Reports and cancels the backup that waits for the next start.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use avocet_control::backup::{BackupHead, WaitingRestore};
use avocet_io::account::Account;
use avocet_io::ownership;

use super::BackupError;
use super::restore::{BACKUP, PENDING, has_begun, has_pending, sync};

/// Maximum number of octets of the first line of a backup.
const MAX_HEAD: u64 = 4096;

/// Returns the facts about the waiting backup in a data directory, from its first line; `None` if
/// no backup waits. If the first line is damaged, the version is empty.
pub fn waiting(directory: &Path) -> Option<WaitingRestore> {
    if !has_pending(directory).is_ok_and(|waits| waits) {
        return None;
    }
    let head = || {
        let file = File::open(directory.join(PENDING).join(BACKUP)).ok()?;
        let mut line = String::new();
        BufReader::new(file.take(MAX_HEAD)).read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    };
    let damaged = || WaitingRestore { version: String::new(), at: 0 };
    let of = |BackupHead { version, at, .. }| WaitingRestore { version, at };
    Some(head().map_or_else(damaged, of))
}

/// Cancels the restore that waits in a data directory.
///
/// # Errors
/// No restore waits, the restore has already replaced files, or a file cannot be removed.
pub fn cancel(directory: &Path) -> Result<WaitingRestore, BackupError> {
    if has_begun(directory) {
        return Err(BackupError::Begun);
    }
    let waiting = waiting(directory).ok_or(BackupError::NoneWaits)?;
    let pending = directory.join(PENDING);
    let remove = || remove(&pending);
    let removed = Account::owner_of(directory).and_then(|owner| owner.run(remove)?);
    removed.map_err(BackupError::at(&pending))?;
    Ok(waiting)
}

fn remove(pending: &Path) -> io::Result<()> {
    // Without this file, the next start does not take the rest of the directory for a restore.
    ownership::write()
        .and_then(|_permit| fs::remove_file(pending.join(BACKUP)))
        .and_then(|()| sync(pending))
        .and_then(|()| fs::remove_dir_all(pending))
}
