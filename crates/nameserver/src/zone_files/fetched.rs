//! Text that was fetched for a zone, before it replaces the file with the copy of the zone.

use std::path::Path;

use avocet_config::zone::ZoneConfig;
use avocet_zone::{Severity, ZoneProblem};
use thiserror::Error;

use super::{checked, open};
use crate::zone_source::load_from;

/// The comparison of a fetched zone with the present copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchedRecords {
    /// The records are the same, although the texts may differ.
    Same,
    /// The records differ, or there is no usable copy.
    Changed,
}

/// The first error of a fetched text.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct FetchedFault(Box<ZoneProblem>);

/// Checks a fetched text like a file of the zone, and compares its records with the present copy.
///
/// # Errors
/// The first error of the zone.
pub fn compare_fetched(config: &ZoneConfig, text: &[u8]) -> Result<FetchedRecords, FetchedFault> {
    let mut open_text = |path: &Path, most: u64| match path == config.file {
        true => Ok(text.to_vec()),
        false => open(path, most),
    };
    let Some((zone, faults)) = checked(config, &mut open_text) else {
        return Ok(FetchedRecords::Same);
    };
    let mut all = faults.list().into_iter();
    if let Some(fault) = all.find(|fault| fault.severity == Severity::Error) {
        return Err(FetchedFault(Box::new(fault.reason)));
    }
    // The fetched version and the stored version get the serial from the same file, so only their
    // records can differ.
    let copy = config.file.exists().then(|| load_from(config, &mut open)).flatten();
    let version = copy.and_then(|(zone, _)| Some(zone?.version()));
    let is_same = version.is_some() && version == zone.map(|zone| zone.version());
    Ok(if is_same { FetchedRecords::Same } else { FetchedRecords::Changed })
}
