//! Requests that change the records of hosted zones, and their history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;
use crate::zones::ZoneRecord;

/// Maximum number of removed records, and of added records, that a reply shows.
pub const MAX_SHOWN_RECORDS: usize = 1000;
/// Maximum number of changes of a page of the history, by default 20.
pub const MAX_HISTORY: u32 = 100;

/// A request to change records of a hosted zone: all edits or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ZoneEdit {
    /// The zone.
    pub name: String,
    /// An item of its view, if only some clients see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// The serial that must be in force; any without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// Only check the edits, and report the difference.
    #[serde(default)]
    pub dry_run: bool,
    /// The edits, in their order; 4096 records at most.
    pub edits: Vec<RecordEdit>,
}

words! {
    /// The effect of an edit on an RRset.
    pub enum EditAction {
        /// The RRset has exactly these records.
        Replace = "replace",
        /// The RRset has these records, too.
        Add = "add",
        /// The RRset does not have these records; without data, it is removed.
        Remove = "remove",
    }
}

/// An edit of an RRset: the records of one name and type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RecordEdit {
    /// The effect.
    pub action: EditAction,
    /// The owner, which may be relative to the zone; `@` is the zone itself.
    pub owner: String,
    /// The type. Without it, all records of the owner are removed.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// The TTL of the RRset in seconds; by default its present one, or that of the SOA record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
    /// The data of each record, as in a master file. Names are relative to the zone unless they end
    /// with a dot.
    #[serde(default)]
    pub data: Vec<String>,
}

/// The difference between two versions of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneDifference {
    /// The records that were removed, the first 1000.
    pub removed: Vec<ZoneRecord>,
    /// The records that were added, the first 1000.
    pub added: Vec<ZoneRecord>,
    /// The number of all records that were removed. The SOA record counts only if more than its
    /// serial differs.
    pub removed_count: u32,
    /// The number of all records that were added.
    pub added_count: u32,
}

/// The result of edits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneEdited {
    /// The zone.
    pub name: String,
    /// The serial in force, which a further request can name.
    pub serial: u32,
    /// Whether the edits are in force: not after a dry run, and not if they change nothing.
    pub published: bool,
    /// The difference that they make.
    pub difference: ZoneDifference,
    /// The file from which comments are lost when the server writes the zone into it; a copy with
    /// them is kept with the ending `.before-updates`. None if the server wrote the file.
    pub rewrites: Option<String>,
    /// Why the new version is held back; it is on disk and comes into force once it can be signed.
    pub error: Option<String>,
}

/// A request for the latest changes of a hosted zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneHistory {
    /// The zone.
    pub name: String,
    /// An item of its view, if only some clients see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// Maximum number of changes, 1 to 100; 20 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The latest changes of a hosted zone, without signatures of this server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneChanges {
    /// The zone.
    pub name: String,
    /// The number of changes that the server keeps.
    pub kept: u32,
    /// The changes, the latest first.
    pub changes: Vec<ZoneStep>,
}

/// A step from one version of a zone to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneStep {
    /// The serial before the update.
    pub from: u32,
    /// The serial after. A signed zone may have a higher one in its answers.
    pub to: u32,
    /// The records that the update changed.
    pub difference: ZoneDifference,
}
