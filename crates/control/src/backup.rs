//! Requests and replies about backups. A backup is the reply to [`Backup`], line by line: the head,
//! pieces of files, and the end with a digest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::part::Part;

/// A request for a backup. A backup has the configuration with its revisions, users, tokens,
/// pauses, grants, trust anchors, settings of pools, the audit log, and the certificates that the
/// server obtains or issues. It has neither the keys of signed zones nor the caches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Backup {
    /// Whether the backup also has the query log; false by default.
    #[serde(default)]
    pub query_log: bool,
}

/// A request to restore the uploaded backup. At its next start, the server replaces its state by
/// the state in the backup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {}

/// A request to cancel a restore before the next start of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreCancel {}

/// A backup that the server restores at its next start; in the reply to a cancellation, the backup
/// that is no longer restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WaitingRestore {
    /// The version of Avocet that made the backup.
    pub version: String,
    /// The Unix second at which the backup was made.
    pub at: u64,
}

/// A line of a backup, except the last line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BackupLine {
    /// The first line, which describes the backup.
    Head(BackupHead),
    /// A line with a piece of a file.
    Piece(BackupPiece),
}

impl Part for BackupLine {}

/// The first line of a backup, which describes the backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BackupHead {
    /// The version number of the backup format.
    pub avocet_backup: u32,
    /// The version of Avocet that made the backup.
    pub version: String,
    /// The Unix second at which the backup began.
    pub at: u64,
}

/// A piece of a file in a backup. The pieces of a file follow one another. Either `text` or `data`
/// is present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupPiece {
    /// The path of the file below the data directory, or `configuration` for the configuration
    /// file.
    pub file: String,
    /// The piece as text; missing if the octets are not valid text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The piece in base64; missing if the piece is in `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// The last line of a backup, which confirms that the backup is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackedUp {
    /// The number of files in the backup.
    pub files: u64,
    /// The total size of these files in octets.
    pub octets: u64,
    /// The SHA-256 digest of the first line and all pieces, in hexadecimal form.
    pub sha256: String,
}

/// The reply to a request for a restore: the backup is valid, and the server restores it at its
/// next start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RestoreStaged {
    /// The version of Avocet that made the backup.
    pub version: String,
    /// The Unix second at which the backup was made.
    pub at: u64,
    /// The number of files in the backup.
    pub files: u64,
    /// Certificate files that the restore leaves out, because they cannot be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<UnusableFile>,
}

/// A file of a backup that the restore leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnusableFile {
    /// The name of the file in the backup.
    pub file: String,
    /// The reason why the file cannot be used.
    pub reason: String,
}
