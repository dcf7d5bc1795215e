//! A request for the names that another configuration would block and unblock, and its reply.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::log::{DamagedFile, LogFilter};
use crate::revisions::{ChangeReach, ConfigEdit};
use crate::words::words;

/// A request to compare the configuration in force with a proposed one, over logged queries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct PolicyDryRun {
    /// Changes of the configuration file, in order. Without changes and without `text`, the file as
    /// it is on disk is compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<ConfigEdit>,
    /// A whole configuration in TOML, instead of changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The logged queries.
    pub filter: LogFilter,
    /// Whether log-only rules of the proposed configuration count as if they were in force.
    pub enforce_log_only: bool,
    /// Maximum number of names and clients of each kind of change, from 1 to 1000; 100 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The keys that the proposal may concern. The HTTP interface sets it from the scopes.
    #[serde(skip_serializing_if = "ChangeReach::is_all")]
    pub reach: ChangeReach,
}

words! {
    /// The limit that ended a dry run before the end of the log.
    pub enum DryRunLimit {
        /// The limit on time.
        Time = "time",
        /// The limit on the number of logged queries.
        Entries = "entries",
    }
}

/// The effects of the proposed configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DryRunFound {
    /// The revision in force that the proposal was compared with.
    pub revision: Option<u32>,
    /// Logged queries that were examined, the newest first.
    pub examined: u64,
    /// The limit that ended the dry run before the oldest query; `null` if none did.
    pub cut: Option<DryRunLimit>,
    /// Queries that were evaluated with both configurations.
    pub judged: u64,
    /// Queries that were not evaluated: without a name, or of a class other than IN.
    pub left_out: u64,
    /// Evaluated queries without a known answer: rules on answers do not match these.
    pub without_answer: u64,
    /// The number of rules on answers in the proposed configuration, or in the present one if it
    /// has more.
    pub rules_on_answers: usize,
    /// Queries that only the proposed configuration blocks.
    pub newly_blocked: DryRunChanges,
    /// Queries that the configuration in force blocks, and that the proposed one neither blocks nor
    /// changes.
    pub newly_answered: DryRunChanges,
    /// Queries with another change, such as those that are rewritten instead of blocked.
    pub otherwise_changed: DryRunChanges,
    /// Lists of the proposed configuration without a copy: they count as empty.
    pub lists_without_copy: Vec<String>,
    /// Files of the log that were not read, or not completely.
    pub damaged: Vec<DamagedFile>,
}

/// Queries with one kind of change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DryRunChanges {
    /// The number of all queries with this change.
    pub queries: u64,
    /// The number of different names among those that the dry run kept.
    pub name_count: u64,
    /// The number of different clients among those that the dry run kept.
    pub client_count: u64,
    /// Queries for names that were not kept, because there were too many names.
    pub unlisted: u64,
    /// The names with the highest numbers of queries.
    pub names: Vec<DryRunName>,
    /// The clients with the highest numbers of queries.
    pub clients: Vec<DryRunClient>,
}

/// A name whose queries change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DryRunName {
    /// The name.
    pub name: String,
    /// The rule or list of the proposed configuration; empty if none applies.
    pub why: String,
    /// The number of its queries.
    pub queries: u64,
}

/// A client whose queries change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DryRunClient {
    /// The name of the client, or its address.
    pub client: String,
    /// The number of its queries.
    pub queries: u64,
}
