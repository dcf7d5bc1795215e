//! Requests and replies about revisions of the configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::reload::Reloaded;
use crate::words::words;

words! {
    /// The event that made a revision. A revision is a configuration that the server has accepted.
    pub enum RevisionOrigin {
        /// The server read the configuration file at its start.
        Start = "start",
        /// A person or another program changed the configuration file.
        File = "file",
        /// A command or the API changed keys of the configuration.
        Edit = "edit",
        /// A command or the API restored an earlier revision.
        Rollback = "rollback",
        /// The server restored an earlier revision by itself, because a change on probation was not
        /// confirmed or made answers worse.
        Probation = "probation",
        /// A file with errors, which a rollback replaced. It was never in force.
        Refused = "refused",
    }
}

words! {
    /// The keys of the configuration that a change may set.
    #[derive(Default)]
    pub enum ChangeReach {
        /// All keys.
        #[default]
        All = "all",
        /// All keys except those that decide who may use the server, which programs it starts,
        /// where it sends secrets, and which files outside its own directories it reads or writes.
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

/// The author of a change of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Submitter {
    /// The name of the person or program that makes the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The place from which the change comes, such as an address or `command line`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A comment that the history shows with the revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The keys that the change may set. Over HTTP, the server sets this field from the permissions
    /// of the user or token.
    #[serde(default, skip_serializing_if = "ChangeReach::is_all")]
    pub reach: ChangeReach,
}

/// A request for the history: the list of revisions of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigHistory {
    /// The maximum number of revisions in the reply; all revisions if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// A request for the difference between two revisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigDiff {
    /// The number of the earlier revision.
    pub from: u32,
    /// The number of the later revision; the revision in force if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
}

/// A request for the text of a revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigText {
    /// The number of the revision; the revision in force if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
}

/// A request to put an earlier revision in force again, and to write it to the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigRollback {
    /// The number of the earlier revision.
    pub number: u32,
    /// The author of the change.
    #[serde(default)]
    pub by: Submitter,
}

/// A request to keep the revision on probation, so that the server does not roll it back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigConfirm {}

/// A request for the configuration in force: every key with its value, also keys with default
/// values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigShow {
    /// The name of a table, such as `list`, `rule`, `client` or `policy`; all tables if the field
    /// is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
}

/// The configuration in force: every key with its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShownConfig {
    /// The number of the revision in force; `null` without a configuration file.
    pub revision: Option<u32>,
    /// The tables by their names, as in the configuration file.
    pub tables: Map<String, Value>,
}

/// A request to check changes of the configuration, without making them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigCheck {
    /// The changes, in order.
    pub edits: Vec<ConfigEdit>,
    /// The keys that the changes may set. Over HTTP, the server sets this field from the
    /// permissions of the user or token.
    #[serde(default, skip_serializing_if = "ChangeReach::is_all")]
    pub reach: ChangeReach,
}

/// The reply to a check of changes: the changes are valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedChange {
    /// The difference in the configuration file that the changes would make, in the unified format.
    /// Empty if they would change nothing.
    pub text: String,
    /// Warnings about settings that are valid and would have no effect.
    pub warnings: Vec<String>,
}

/// A request to change keys of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigChange {
    /// The changes, in order. The server makes either all of them or none.
    pub edits: Vec<ConfigEdit>,
    /// The number of the revision that must be in force. If another revision is in force, the
    /// server refuses the changes. Without this field, any revision may be in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// The author of the change.
    #[serde(default)]
    pub by: Submitter,
}

/// A change of one key or table of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigEdit {
    /// The key or table: `TABLE.KEY`, `TABLE[NAME].KEY` or `TABLE[NAME]`, such as
    /// `policy.block-ttl-secs` or `list[ads]`.
    pub key: String,
    /// The new value in TOML. If the field is missing, the key or table is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// A revision of the configuration in the history. A revision is a configuration that the server
/// has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Revision {
    /// The number of the revision.
    pub number: u32,
    /// The Unix second at which the revision was accepted.
    pub at: u64,
    /// The event that made the revision.
    pub origin: RevisionOrigin,
    /// The name of the person or program that made the change; null if it is not known.
    pub author: Option<String>,
    /// The place from which the change came, such as an address; null if it is not known.
    pub source: Option<String>,
    /// The comment of the author; null if there is none.
    pub comment: Option<String>,
    /// The size of the configuration text in octets.
    pub octets: usize,
}

/// A revision on probation: without a confirmation in time, the server restores an earlier
/// revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OnProbation {
    /// The number of the revision on probation.
    pub revision: u32,
    /// The number of the revision that the server restores without a confirmation.
    pub fallback: u32,
    /// The number of seconds that are left for the confirmation.
    pub left_secs: u64,
}

/// The history: the revisions of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Revisions {
    /// The number of the revision in force; `null` without a configuration file.
    pub in_force: Option<u32>,
    /// The revision on probation, which needs a confirmation; null if there is none.
    pub probation: Option<OnProbation>,
    /// The revisions, the latest first.
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

/// The reply to a change or rollback of the configuration that is in force now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RevisionAccepted {
    /// The number of the new revision.
    pub revision: u32,
    /// The probation of the new revision; null if the revision needs no confirmation.
    pub probation: Option<OnProbation>,
    /// The result of the reload that put the revision in force.
    pub reloaded: Reloaded,
}

/// The reply to a confirmation: the revision is no longer on probation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RevisionConfirmed {
    /// The number of the revision.
    pub revision: u32,
}
