//! Files that are whole at any moment: written beside their place, and renamed when all is on the
//! disk.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use avocet_io::file::open_regular;

/// Octets that are read or written at once. Where the kernel gives up the core only between calls,
/// a worker waits for as long as this takes: some 30 us.
pub const PIECE: usize = 64 << 10;

/// Octets after which the disk is waited for. What the kernel hands to the disk in one go keeps the
/// core for as long: 20 MB a third of a millisecond, again and again.
const SYNCED: usize = 1 << 20;

/// A new file that is written in pieces, so that nothing on this core has to wait for long.
pub struct Paced {
    file: File,
    /// Octets since the disk was waited for.
    unsynced: usize,
}

impl Paced {
    /// Creates the file, or empties the one that is there.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, unsynced: 0 })
    }

    /// Waits until all of it is on the disk.
    ///
    /// # Errors
    /// The disk says so.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Write for Paced {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let written = self.file.write(&octets[..octets.len().min(PIECE)])?;
        self.unsynced += written;
        if self.unsynced >= SYNCED {
            self.unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Replaces a file with these parts, one behind the other. On failure the last one stays.
///
/// # Errors
/// The disk is full or cannot be written.
pub fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
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
    let mut file = Paced::create(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.finish()
}

/// Reads a file of at most `most` octets; none where it is not there.
///
/// # Errors
/// It cannot be read, or is larger.
pub fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let too_large =
        || io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {most} octets"));
    let len = file.metadata()?.len();
    if len > most {
        return Err(too_large());
    }
    // It may grow while it is read.
    let (mut file, mut octets) = (file.take(most + 1), Vec::with_capacity(len as usize + PIECE));
    while file.by_ref().take(PIECE as u64).read_to_end(&mut octets)? > 0 {}
    if octets.len() as u64 > most { Err(too_large()) } else { Ok(Some(octets)) }
}
