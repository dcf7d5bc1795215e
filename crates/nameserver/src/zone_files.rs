//! The files of hosted zones: opens them for the reader of the crate `zone`.

use std::io;
use std::path::Path;

use avocet_wire::FoldedName;
use avocet_zone::{Faults, HostedZone};

use crate::clock::wall_secs;
use crate::disk;

/// Reads and checks a zone from its file. Returns it if it has no errors, and all faults.
#[must_use]
pub fn load(name: FoldedName<'_>, file: &Path) -> (Option<HostedZone>, Faults) {
    avocet_zone::load(name, file, wall_secs(), &mut open)
}

/// Reads a file with at most this many octets.
///
/// # Errors
/// The file is missing, unreadable, too large or no regular file.
pub fn open(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    disk::read(path, most)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}
