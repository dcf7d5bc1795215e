//! Files that are whole at any moment: written beside their place, and renamed when all is on the disk.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

/// Replaces a file with these parts, one behind the other. On failure the last one stays.
///
/// # Errors
/// The disk is full or cannot be written.
pub(crate) fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let beside = path.with_added_extension("new");
    let written = write(&beside, parts).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is half written only takes room.
        let _ = fs::remove_file(&beside);
        return written;
    }
    // The name is on the disk too.
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = File::create(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.sync_all()
}

/// Reads a file of at most `most` octets; none where it is not there.
///
/// # Errors
/// It cannot be read, or is larger.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let facts = file.metadata()?;
    if facts.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut octets = Vec::with_capacity(facts.len().min(most) as usize);
    file.take(most + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {most} octets")));
    }
    Ok(Some(octets))
}
