//! The content of `switches.json` in the data directory: pauses and grants.

use avocet_policy::rule::{Grant, Pause, Switches};
use serde::{Deserialize, Serialize};

/// The name of the file.
pub(crate) const NAME: &str = "switches.json";

/// The octets before the checksum, which is the last item.
const SUM: &[u8] = b",\"sum\":";

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
    /// The CRC-32 of the file without this item; `None` in a file of an earlier version. A time
    /// that has changed on the disk could make a pause last for years.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sum: Option<u32>,
}

impl SavedSwitches {
    /// Returns the file with these pauses and grants, saved at this wall time.
    ///
    /// # Errors
    /// They cannot be written as JSON.
    pub(crate) fn octets(switches: &Switches, saved_at_secs: u64) -> serde_json::Result<Vec<u8>> {
        let Switches { pauses, grants } = switches.clone();
        let saved = Self { pauses, grants, saved_at_secs, sum: None };
        let sum = Some(crc32fast::hash(&serde_json::to_vec(&saved)?));
        serde_json::to_vec(&Self { sum, ..saved })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is not a file of pauses and grants, or it is damaged.
    pub(crate) fn read(octets: &[u8]) -> serde_json::Result<Self> {
        let saved: Self = serde_json::from_slice(octets)?;
        let Some(sum) = saved.sum else { return Ok(saved) };
        let end = octets.windows(SUM.len()).rposition(|part| part == SUM);
        let content = end.map(|end| [&octets[..end], b"}"].concat());
        if content.is_some_and(|content| sum == crc32fast::hash(&content)) {
            return Ok(saved);
        }
        Err(serde::de::Error::custom("its checksum is wrong"))
    }
}

/// Checks the content of a file.
///
/// # Errors
/// It is not a file of pauses and grants.
pub(crate) fn check(octets: &[u8]) -> serde_json::Result<()> {
    SavedSwitches::read(octets).map(drop)
}
