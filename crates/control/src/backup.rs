//! Requests and replies about backups. A backup is the reply to [`Backup`], line by line: the head,
//! pieces of files, and the end with a digest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::part::Part;

/// A request for a backup of configuration, revisions, users, tokens, pauses and grants, trust
/// anchors, settings of pools, the certificates that the server obtains or issues, and the audit
/// log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Backup {
    /// Whether the backup includes the query log.
    #[serde(default)]
    pub query_log: bool,
}

/// A request to put the uploaded backup in place of the state of the server at its next start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {}

/// A request to cancel a restore that waits for the next start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreCancel {}

/// A backup that waits for the next start of the server, or that waited until its restore was
/// cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WaitingRestore {
    /// The version of the server that made the backup.
    pub version: String,
    /// The Unix second at which it was made.
    pub at: u64,
}

/// A line of a backup before its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BackupLine {
    /// The first line.
    Head(BackupHead),
    /// The next octets of a file.
    Piece(BackupPiece),
}

impl Part for BackupLine {}

/// The first line of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BackupHead {
    /// The version of the format.
    pub avocet_backup: u32,
    /// The version of the server.
    pub version: String,
    /// The Unix second at which the backup began.
    pub at: u64,
}

/// The next octets of a file: either text or data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupPiece {
    /// The name of the file in the data directory, or `configuration`.
    pub file: String,
    /// The octets, if they are text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The octets in base64, if they are not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// The end of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackedUp {
    /// The number of files.
    pub files: u64,
    /// The octets of all files.
    pub octets: u64,
    /// The SHA-256 digest of head and pieces, in hexadecimal.
    pub sha256: String,
}

/// A backup that waits for the next start of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RestoreStaged {
    /// The version of the server that made the backup.
    pub version: String,
    /// The Unix second at which it was made.
    pub at: u64,
    /// The number of its files.
    pub files: u64,
    /// Certificate files that cannot be used, and are not put in place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<UnusableFile>,
}

/// A file of a backup that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnusableFile {
    /// The name of the file in the backup.
    pub file: String,
    /// The reason.
    pub reason: String,
}
