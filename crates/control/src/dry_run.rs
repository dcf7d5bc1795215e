//! A request for the names that another configuration would block and unblock, and its reply.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::log::{DamagedFile, LogFilter};
use crate::revisions::{ChangeReach, ConfigEdit};
use crate::words::words;

/// A request to try a proposed configuration on logged queries. The server compares the result with
/// that of the configuration in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct PolicyDryRun {
    /// Changes of the configuration file, in order. If a request has neither changes nor `text`,
    /// the server tries the configuration file as it is on the disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<ConfigEdit>,
    /// A whole configuration in TOML, instead of changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The filter that selects the logged queries.
    pub filter: LogFilter,
    /// Whether the rules with `log-only` in the proposed configuration act as if they were not
    /// log-only.
    pub enforce_log_only: bool,
    /// The maximum number of names, and of clients, that the reply lists for each kind of change: 1
    /// to 1000, by default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The keys that the proposal may change. Over HTTP, the server sets this field from the
    /// permissions of the user or token.
    #[serde(skip_serializing_if = "ChangeReach::is_all")]
    pub reach: ChangeReach,
}

words! {
    /// The limit that ended a dry run before the oldest logged query.
    pub enum DryRunLimit {
        /// The dry run took 30 seconds.
        Time = "time",
        /// The dry run examined 20 million logged queries.
        Entries = "entries",
    }
}

/// The effects that the proposed configuration would have had on the logged queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DryRunFound {
    /// The number of the revision in force, with which the proposal was compared; null without a
    /// configuration file.
    pub revision: Option<u32>,
    /// The number of logged queries that the server read. It reads the newest first.
    pub examined: u64,
    /// The limit that ended the dry run before the oldest query; null if the server read all
    /// queries.
    pub cut: Option<DryRunLimit>,
    /// The number of logged queries that were evaluated with both configurations.
    pub judged: u64,
    /// The number of logged queries that were not evaluated, because they have no name or a class
    /// other than IN.
    pub left_out: u64,
    /// The number of evaluated queries without a known answer. Rules that test answers do not match
    /// these queries.
    pub without_answer: u64,
    /// The number of rules that test answers: in the proposed configuration or in the present one,
    /// whichever is higher.
    pub rules_on_answers: usize,
    /// Queries that the proposed configuration would block, and the present one does not.
    pub newly_blocked: DryRunChanges,
    /// Queries that the present configuration blocks, and that the proposed one would answer
    /// without a change.
    pub newly_answered: DryRunChanges,
    /// Queries with any other change, for example queries that would be rewritten instead of
    /// blocked.
    pub otherwise_changed: DryRunChanges,
    /// Lists of the proposed configuration that the server has never fetched. They count as empty.
    pub lists_without_copy: Vec<String>,
    /// Files of the query log that could not be read, or only in part.
    pub damaged: Vec<DamagedFile>,
}

/// The queries with one kind of change, by name and by client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DryRunChanges {
    /// The number of queries with this kind of change.
    pub queries: u64,
    /// The number of different names among these queries, at most 50,000.
    pub name_count: u64,
    /// The number of different clients among these queries, at most 50,000.
    pub client_count: u64,
    /// The number of queries for further names. The server counts at most 50,000 names separately.
    pub unlisted: u64,
    /// The names with the highest numbers of queries, the highest first.
    pub names: Vec<DryRunName>,
    /// The clients with the highest numbers of queries, the highest first.
    pub clients: Vec<DryRunClient>,
}

/// A name with queries that would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DryRunName {
    /// The name.
    pub name: String,
    /// The rule or list of the proposed configuration that decides; empty if none does.
    pub why: String,
    /// The number of queries for the name.
    pub queries: u64,
}

/// A client with queries that would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DryRunClient {
    /// The name of the client, or the address if the client has no name.
    pub client: String,
    /// The number of queries of the client.
    pub queries: u64,
}
