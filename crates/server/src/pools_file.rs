//! The format of the file with the health and the settings of addresses of pools.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The contents of the file.
#[derive(Serialize, Deserialize)]
pub(crate) struct PoolsFile {
    pub(crate) saved_at: u64,
    pub(crate) addresses: Vec<SavedMember>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SavedMember {
    pub(crate) pool: String,
    pub(crate) address: IpAddr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) control: Option<String>,
}

/// Checks the form of the file.
///
/// # Errors
/// The file is damaged.
pub(crate) fn check(octets: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<PoolsFile>(octets).map(drop)
}
