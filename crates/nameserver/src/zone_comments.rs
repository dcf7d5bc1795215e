//! Master files of zones that people edit: the server changes only the lines of changed records, if
//! that is possible.

use std::path::Path;

use avocet_zone::{HostedZone, retouched};

use crate::clock::wall_secs;
use crate::disk;

/// Maximum number of octets of a file that is changed line by line. Such a file is read twice for
/// each change. A larger file is written as a whole.
const MAX_TEXT: u64 = 1 << 20;

/// Returns the text of a file with the records of a zone and the comments of the file; `None` if
/// the whole file must be written.
pub(crate) fn with_comments(file: &Path, zone: &HostedZone) -> Option<String> {
    let octets = disk::read(file, MAX_TEXT).ok()??;
    retouched(std::str::from_utf8(&octets).ok()?, zone, wall_secs())
}
