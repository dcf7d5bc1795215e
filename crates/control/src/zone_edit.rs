//! Requests that change the records of hosted zones, and their history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;
use crate::zones::ZoneRecord;

/// Maximum number of removed records, and of added records, that a reply shows.
pub const MAX_SHOWN_RECORDS: usize = 1000;
/// Maximum number of changes on a page of the history.
pub const MAX_HISTORY: u32 = 100;

/// A request to change records of a hosted zone: all edits or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ZoneEdit {
    /// The zone.
    pub name: String,
    /// An item of the zone's view, if only some clients see the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// The serial that must be in force; without it, any serial is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// Whether to only check the edits and report the difference.
    #[serde(default)]
    pub dry_run: bool,
    /// The edits, in their order; at most 4096 records.
    pub edits: Vec<RecordEdit>,
}

words! {
    /// The effect of an edit on an RRset.
    pub enum EditAction {
        /// The RRset has exactly these records.
        Replace = "replace",
        /// The RRset keeps its records and gets these records.
        Add = "add",
        /// The RRset does not have these records. Without data, the whole RRset is removed.
        Remove = "remove",
    }
}

/// An edit of an RRset: the records of one name and type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RecordEdit {
    /// The effect of this edit.
    pub action: EditAction,
    /// The owner, which may be relative to the zone; `@` is the zone itself.
    pub owner: String,
    /// The type. Without it, all records of the owner are removed.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// The TTL of the RRset in seconds. Without it, the RRset keeps its TTL, and a new RRset has
    /// the TTL of the SOA record.
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
    /// serial changes.
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
    /// Whether the edits are in force. They are not after a dry run, or if they change nothing.
    pub published: bool,
    /// The difference that the edits make.
    pub difference: ZoneDifference,
    /// The master file that loses its comments when the server writes the zone into it. The server
    /// keeps a copy with the comments under the ending `.before-updates`. None if the server itself
    /// wrote the file.
    pub rewrites: Option<String>,
    /// The reason why the new version is not in force. It is on disk, and comes into force once it
    /// can be signed.
    pub error: Option<String>,
}

/// A request for the latest changes of a hosted zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneHistory {
    /// The zone.
    pub name: String,
    /// An item of the zone's view, if only some clients see the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// Maximum number of changes, 1 to 100; 20 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The latest changes of a hosted zone, without the signatures that the server makes.
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
    /// The serial after the update. A signed zone may have a higher serial in its answers.
    pub to: u32,
    /// The records that the update changed.
    pub difference: ZoneDifference,
}
