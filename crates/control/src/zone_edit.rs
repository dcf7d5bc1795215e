//! Requests that change the records of hosted zones, and their history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;
use crate::zones::ZoneRecord;

/// Maximum number of removed records, and of added records, that a reply shows.
pub const MAX_SHOWN_RECORDS: usize = 1000;
/// Maximum number of changes on a page of the history.
pub const MAX_HISTORY: u32 = 100;

/// A request to change records of a hosted zone. The server makes all edits or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ZoneEdit {
    /// The name of the zone.
    pub name: String,
    /// An item in `view` of the zone, such as the name of a group. Without this field, the request
    /// is about the zone without a view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// The serial that must be in force. If the zone has another serial, the server refuses the
    /// edits. Without this field, any serial may be in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// Whether the server only checks the edits and reports the difference, without a change of the
    /// zone.
    #[serde(default)]
    pub dry_run: bool,
    /// The edits, in order. All edits together may have at most 4096 records.
    pub edits: Vec<RecordEdit>,
}

words! {
    /// What an edit does with an RRset.
    pub enum EditAction {
        /// Replace all records of the RRset by the records in `data`.
        Replace = "replace",
        /// Add the records in `data` to the RRset.
        Add = "add",
        /// Remove the records in `data` from the RRset. Without `data`, remove the whole RRset.
        Remove = "remove",
    }
}

/// A change of one RRset: all records of one name and type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RecordEdit {
    /// What the edit does with the RRset.
    pub action: EditAction,
    /// The owner of the records: a name relative to the zone, or a name that ends with the name of
    /// the zone. `@` is the zone itself.
    pub owner: String,
    /// The type of the records. Only `remove` permits an edit without a type: it removes all
    /// records of the owner.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// The TTL of the RRset in seconds. Without this field, an existing RRset keeps its TTL, and a
    /// new RRset gets the TTL of the SOA record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
    /// The data of each record, as in a master file. Names in the data are relative to the zone
    /// unless they end with a dot.
    #[serde(default)]
    pub data: Vec<String>,
}

/// The records that differ between two versions of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneDifference {
    /// The removed records, at most the first 1000.
    pub removed: Vec<ZoneRecord>,
    /// The added records, at most the first 1000.
    pub added: Vec<ZoneRecord>,
    /// The number of all removed records. The SOA record counts only if more than its serial
    /// changes.
    pub removed_count: u32,
    /// The number of all added records. The SOA record counts only if more than its serial changes.
    pub added_count: u32,
}

/// The reply to a request that changes records of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneEdited {
    /// The name of the zone.
    pub name: String,
    /// The serial in force now. The next request can require this serial.
    pub serial: u32,
    /// Whether the edits are in force. They are not after a dry run, or if they change nothing.
    pub published: bool,
    /// The records that the edits remove and add.
    pub difference: ZoneDifference,
    /// The path of the master file, if the server must write it again as a whole, so that its
    /// comments are lost. The server then keeps the previous file with the ending
    /// `.before-updates`. Null if comments stay.
    pub rewrites: Option<String>,
    /// The reason why the changed version is not in force yet: the server cannot sign it. The
    /// version is on the disk, and comes into force when the server can sign it. Null otherwise.
    pub error: Option<String>,
}

/// A request for the latest changes of a hosted zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneHistory {
    /// The name of the zone.
    pub name: String,
    /// An item in `view` of the zone, such as the name of a group. Without this field, the request
    /// is about the zone without a view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// The maximum number of changes in the reply, from 1 to 100; 20 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The latest changes of a hosted zone. They do not show the signatures that this server makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneChanges {
    /// The name of the zone.
    pub name: String,
    /// The number of changes that the server keeps now.
    pub kept: u32,
    /// The changes, the latest first.
    pub changes: Vec<ZoneStep>,
}

/// A change of a zone: the difference between one version and the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneStep {
    /// The serial before the change.
    pub from: u32,
    /// The serial after the change. If the server signs the zone, answers may have a higher serial.
    pub to: u32,
    /// The records that the change removed and added.
    pub difference: ZoneDifference,
}
