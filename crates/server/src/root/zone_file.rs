//! The root zone as a master file (RFC 1035 §5): a file of the operator, or the stored copy of a
//! transfer.

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use avocet_io::ownership;
use avocet_nameserver::{disk, zone_files};
use avocet_wire::{NameBuf, rdata};
use avocet_zone::Faults;

use crate::error::BackgroundError;
use crate::transfer::UnverifiedRecord;

/// Maximum number of octets of the zone, as text or in a transfer: the root has about two million.
pub(crate) const MAX_ZONE_OCTETS: u64 = 32 << 20;
/// Maximum number of records: the root has about 25,000.
pub(crate) const MAX_ZONE_RECORDS: usize = 400_000;

/// Reads a zone. Returns its records, and the Unix second at which the file was written.
///
/// # Errors
///
/// The file cannot be read, is too large, or has a line that is not a record.
pub(crate) fn read(path: &Path) -> Result<(Vec<UnverifiedRecord>, u64), BackgroundError> {
    let failed = |source| BackgroundError::Unreadable { path: path.to_owned(), source };
    let written = std::fs::metadata(path).and_then(|facts| facts.modified()).map_err(failed)?;
    let (mut lines, mut faults) = (Vec::new(), Faults::default());
    let mut open = |path: &Path, most: u64| zone_files::open(path, most.min(MAX_ZONE_OCTETS));
    avocet_zone::read(&NameBuf::ROOT, path, &mut open, &mut faults, &mut |record, _, _| {
        // If one line more than permitted can be read, there are too many lines.
        if lines.len() <= MAX_ZONE_RECORDS {
            let (owner, rdata) = (record.owner.wire().into(), record.rdata.clone().into());
            let (rtype, ttl_secs) = (record.rtype, record.ttl_secs);
            lines.push(UnverifiedRecord { owner, rtype, ttl_secs, rdata });
        }
    });
    if let Some(fault) = faults.list().into_iter().next() {
        return Err(BackgroundError::Zone(Box::new(fault)));
    }
    if lines.len() > MAX_ZONE_RECORDS {
        return Err(BackgroundError::ZoneRecords { path: path.to_owned(), most: MAX_ZONE_RECORDS });
    }
    let written = written.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok((lines, written.as_secs()))
}

/// Writes a zone to disk.
///
/// # Errors
///
/// The disk is full or cannot be written.
pub(crate) fn write(path: &Path, lines: &[UnverifiedRecord]) -> io::Result<()> {
    let mut text = String::new();
    for UnverifiedRecord { owner, rtype, ttl_secs, rdata } in lines {
        let owner = NameBuf::from_wire(owner).unwrap_or(NameBuf::ROOT);
        let _ = writeln!(text, "{owner} {ttl_secs} IN {rtype} {}", rdata::display(rtype.0, rdata));
    }
    disk::replace(path, &[text.as_bytes()])
}

/// Sets the modification time of the file, which records when the copy was last confirmed as the
/// latest version.
///
/// # Errors
///
/// The file is missing or cannot be written.
pub(crate) fn touch(path: &Path, at_secs: u64) -> io::Result<()> {
    let _permit = ownership::write()?;
    let at: SystemTime = UNIX_EPOCH + Duration::from_secs(at_secs);
    File::options().append(true).open(path)?.set_modified(at)
}
