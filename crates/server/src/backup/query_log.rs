//! Puts the query log of a backup in place.
//!
//! The ids of each log begin at zero, so the files of two logs cannot share a directory: their
//! names are the same, and one log would hide entries of the other. The files of the log that is in
//! place therefore remain only if the backup is of the same log.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::QUERY_LOG;
use super::restore::{BEFORE, NEW, create_directory, sync, write_new};

/// The secret key of pseudonyms, which each log draws for itself.
const PSEUDONYM_KEY: &str = "pseudonym.key";

/// The directory that becomes `before/query-log` once all files of the other log are there.
const PART: &str = "query-log.before";

/// Adds the files that the directory does not have. Before that, moves another log to `before`.
/// After a crash, the next start can call this function again.
pub(super) fn put(pending: &Path, directory: &Path, names: &[String]) -> io::Result<()> {
    let names: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix(QUERY_LOG)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let (log, new) = (directory.join(QUERY_LOG), pending.join(NEW).join(QUERY_LOG));
    let part = pending.join(PART);
    let kept = pending.join(BEFORE).join(QUERY_LOG);
    if log.exists() && !kept.exists() && (part.exists() || is_another(&log, &new, &names)?) {
        put_aside(&log, &part)?;
        fs::rename(&part, &kept)?;
    }
    if !log.exists() {
        create_directory(&log)?;
    }
    for name in names {
        let (from, target) = (new.join(name), log.join(name));
        if !target.exists() && from.exists() {
            move_file(&from, &target)?;
        }
    }
    sync(&log)
}

/// Moves the files of a log to another directory. The directory of the log itself remains: it may
/// be a symbolic link or a mount point.
fn put_aside(log: &Path, aside: &Path) -> io::Result<()> {
    if !aside.exists() {
        create_directory(aside)?;
    }
    for entry in fs::read_dir(log)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            move_file(&entry.path(), &aside.join(entry.file_name()))?;
        }
    }
    sync(aside)
}

/// Moves a file, also to another file system.
fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let part = to.with_added_extension("part");
            write_new(&part, File::open(from)?)?;
            fs::rename(part, to)?;
            fs::remove_file(from)
        }
        moved => moved,
    }
}

/// Returns whether two directories are of different logs, or of copies of a log to which different
/// servers have added entries. Each log draws its own key, and its files of blocks only grow.
fn is_another(log: &Path, new: &Path, names: &[&str]) -> io::Result<bool> {
    if let Some(key) = content(&log.join(PSEUDONYM_KEY))?
        && content(&new.join(PSEUDONYM_KEY))?.is_some_and(|other| other != key)
    {
        return Ok(true);
    }
    for name in names.iter().filter(|name| name.ends_with(".blocks")) {
        if let (Ok(present), Ok(other)) = (File::open(log.join(name)), File::open(new.join(name)))
            && !begins_with(present, other)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn content(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Returns whether a file begins with the content of another one.
fn begins_with(mut file: File, mut other: File) -> io::Result<bool> {
    const PIECE: u64 = 64 << 10;
    loop {
        let (mut expected, mut octets) = (Vec::new(), Vec::new());
        other.by_ref().take(PIECE).read_to_end(&mut expected)?;
        file.by_ref().take(expected.len() as u64).read_to_end(&mut octets)?;
        if octets != expected {
            return Ok(false);
        }
        if expected.is_empty() {
            return Ok(true);
        }
    }
}
