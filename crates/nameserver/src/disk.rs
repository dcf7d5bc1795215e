//! Files that are complete at any moment: written under another name, and renamed when synced.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use avocet_io::file::{open_regular, sync_directory};

use crate::file_watch::FileFingerprint;

/// Octets per read or write. On kernels that yield the core only between calls, a worker waits this
/// long: about 30 us.
pub const PIECE: usize = 64 << 10;

/// Octets between two syncs. The kernel keeps the core while it hands data to the disk: 20 MB take
/// a third of a millisecond at a time.
const SYNCED: usize = 1 << 20;

/// A new file that is written in pieces, so that nothing else on this core waits for long.
pub struct Paced {
    file: File,
    /// Octets since the last sync.
    unsynced: usize,
}

impl Paced {
    /// Creates or empties the file.
    ///
    /// # Errors
    ///
    /// The file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, unsynced: 0 })
    }

    /// Waits until the file is on disk.
    ///
    /// # Errors
    ///
    /// The disk reports an error.
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

/// Replaces a file with the concatenation of these parts. After an error the previous file remains.
///
/// # Errors
///
/// The disk is full or cannot be written.
pub fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    replace_known(path, parts).map(|_| ())
}

/// Replaces a file like [`replace`], and returns the fingerprint of what was written. A later one
/// has the same content only if nobody else has written the file since.
///
/// # Errors
///
/// The disk is full or cannot be written.
pub fn replace_known(path: &Path, parts: &[&[u8]]) -> io::Result<Option<FileFingerprint>> {
    let beside = path.with_added_extension("new");
    let written = write(&beside, parts).and_then(|()| {
        let fingerprint = FileFingerprint::of(&beside);
        fs::rename(&beside, path).map(|()| fingerprint)
    });
    let fingerprint = written.inspect_err(|_| {
        // An incomplete file only takes space.
        let _ = fs::remove_file(&beside);
    })?;
    sync_directory(path)?;
    Ok(fingerprint)
}

fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = Paced::create(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.finish()
}

/// Reads a file of at most `most` octets; `None` if it does not exist.
///
/// # Errors
///
/// The file cannot be read, or is larger.
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
    // The file may grow while it is read.
    let (mut file, mut octets) = (file.take(most + 1), Vec::with_capacity(len as usize + PIECE));
    while file.by_ref().take(PIECE as u64).read_to_end(&mut octets)? > 0 {}
    if octets.len() as u64 > most { Err(too_large()) } else { Ok(Some(octets)) }
}
