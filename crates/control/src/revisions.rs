//! Requests and replies about revisions of the configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::reload::Reloaded;
use crate::words::words;

words! {
    /// The origin of a revision.
    pub enum RevisionOrigin {
        /// The file as it was when the server started.
        Start = "start",
        /// A change of the file by hand.
        File = "file",
        /// A change by a request.
        Edit = "edit",
        /// A rollback by a request.
        Rollback = "rollback",
        /// An automatic rollback.
        Probation = "probation",
        /// A file with errors that a rollback replaced; it was never in force.
        Refused = "refused",
    }
}

words! {
    /// The keys that a change may concern.
    #[derive(Default)]
    pub enum ChangeReach {
        /// All keys.
        #[default]
        All = "all",
        /// Everything except the settings that decide who may use the server, and which files it
        /// reads outside its own directories.
        NotAccess = "not-access",
    }
}

impl ChangeReach {
    /// Returns whether a change may concern all keys.
    #[must_use]
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// The author of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Submitter {
    /// The name of the person or program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The origin of the change, such as an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A comment for the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The keys that the change may concern. The HTTP interface sets it from the scopes.
    #[serde(default, skip_serializing_if = "ChangeReach::is_all")]
    pub reach: ChangeReach,
}

/// A request for the revisions of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigHistory {
    /// The number of revisions; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// A request for the difference between two revisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigDiff {
    /// The number of the earlier revision.
    pub from: u32,
    /// The number of the later revision; the one in force without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
}

/// A request for the text of a revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigText {
    /// The number of the revision; the one in force without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
}

/// A request to put an earlier revision in force again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigRollback {
    /// The number of the revision.
    pub number: u32,
    /// The author of the change.
    #[serde(default)]
    pub by: Submitter,
}

/// A request to confirm the revision that is on probation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigConfirm {}

/// A request for the configuration in force: every key with its value, defaults included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigShow {
    /// A table, such as `list`, `rule`, `client` or `policy`; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
}

/// The configuration in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShownConfig {
    /// The number of its revision; `null` without a configuration file.
    pub revision: Option<u32>,
    /// The tables by name, as in the configuration file.
    pub tables: Map<String, Value>,
}

/// A request to check changes of the configuration file without making them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigCheck {
    /// The changes, in order.
    pub edits: Vec<ConfigEdit>,
    /// The keys that the changes may concern. The HTTP interface sets it from the scopes.
    #[serde(default, skip_serializing_if = "ChangeReach::is_all")]
    pub reach: ChangeReach,
}

/// Changes that are valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedChange {
    /// The difference that they would make, in the unified format; empty if they change nothing.
    pub text: String,
    /// Settings of the result that are valid and have no effect.
    pub warnings: Vec<String>,
}

/// A request to change keys of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigChange {
    /// The changes, in order; all or none are made.
    pub edits: Vec<ConfigEdit>,
    /// The revision that the changes are based on. If another revision is in force, the server
    /// refuses the changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// The author of the change.
    #[serde(default)]
    pub by: Submitter,
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigEdit {
    /// `TABLE.KEY`, `TABLE[NAME].KEY` or `TABLE[NAME]`.
    pub key: String,
    /// The new value as TOML; without it, the key or table is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// A revision of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Revision {
    /// The number of the revision.
    pub number: u32,
    /// The Unix second at which the revision was accepted.
    pub at: u64,
    /// The origin of the revision.
    pub origin: RevisionOrigin,
    /// The author of the change, if known.
    pub author: Option<String>,
    /// The origin of the change, if known.
    pub source: Option<String>,
    /// The comment of the author.
    pub comment: Option<String>,
    /// Number of octets of the text.
    pub octets: usize,
}

/// A revision that is rolled back unless it is confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OnProbation {
    /// The revision.
    pub revision: u32,
    /// The revision that comes into force if this one is rolled back.
    pub fallback: u32,
    /// Seconds left to confirm the revision.
    pub left_secs: u64,
}

/// The revisions of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Revisions {
    /// The revision in force; `null` without a configuration file.
    pub in_force: Option<u32>,
    /// The revision on probation, if there is one.
    pub probation: Option<OnProbation>,
    /// The revisions, latest first.
    pub revisions: Vec<Revision>,
}

/// The difference between two revisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RevisionDifference {
    /// The number of the earlier revision.
    pub from: u32,
    /// The number of the later revision.
    pub to: u32,
    /// The difference in the unified format; empty if the texts are equal.
    pub text: String,
}

/// The text of a revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RevisionText {
    /// The number of the revision.
    pub number: u32,
    /// The text of the configuration.
    pub text: String,
}

/// A change that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RevisionAccepted {
    /// The number of the new revision.
    pub revision: u32,
    /// The probation of the change, if it is on probation.
    pub probation: Option<OnProbation>,
    /// The result of the reload that put the revision in force.
    pub reloaded: Reloaded,
}

/// A revision that is no longer on probation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RevisionConfirmed {
    /// The number of the revision.
    pub revision: u32,
}
