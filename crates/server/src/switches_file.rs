//! The content of `switches.json` in the data directory: pauses and grants.

use avocet_policy::rule::{Grant, Pause};
use serde::{Deserialize, Serialize};

/// The name of the file.
pub(crate) const NAME: &str = "switches.json";

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct SavedSwitches {
    /// The pauses.
    #[serde(default)]
    pub(crate) pauses: Vec<Pause>,
    /// The grants.
    #[serde(default)]
    pub(crate) grants: Vec<Grant>,
    /// The wall time at which the file was saved, in seconds; 0 in a file of an earlier version.
    #[serde(default)]
    pub(crate) saved_at_secs: u64,
}

/// Checks the content of a file.
///
/// # Errors
/// It is not a file of pauses and grants.
pub(crate) fn check(octets: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<SavedSwitches>(octets).map(drop)
}
