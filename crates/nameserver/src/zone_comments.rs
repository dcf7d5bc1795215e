//! Master files of zones that people edit: if possible, the server changes only the lines of
//! changed records.

use std::path::Path;

use avocet_zone::{HostedZone, retouched};

use crate::clock::wall_secs;
use crate::disk;

/// Maximum number of octets of a file that is changed line by line. Such a file is read twice for
/// each change. A larger file is written as a whole.
const MAX_TEXT: u64 = 1 << 20;

/// Returns the zone as the text of a master file that keeps the comments of `file`; `None` if this
/// is not possible.
pub(crate) fn with_comments(file: &Path, zone: &HostedZone) -> Option<String> {
    let octets = disk::read(file, MAX_TEXT).ok()??;
    retouched(std::str::from_utf8(&octets).ok()?, zone, wall_secs())
}
