//! Replies about pauses, grants, and the counts of rules and lists.

use avocet_policy::rule::{Action, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// The reply to a request that begins or ends a pause or a grant. A pause suspends all filtering
/// for some clients, and a grant suspends filtering of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchesChanged {
    /// The pauses and grants that are in force now.
    #[serde(flatten)]
    pub switches: SwitchesInForce,
    /// The reason why the change is not on the disk: a restart undoes the change. Null if the
    /// change is on the disk.
    pub unsaved: Option<String>,
}

/// The state of the policy: pauses, grants, and the numbers of matches of rules and lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyStatus {
    /// The pauses and grants that are in force now.
    #[serde(flatten)]
    pub switches: SwitchesInForce,
    /// The numbers of matches of rules and lists, if the configuration has any.
    #[serde(flatten)]
    pub counts: Option<PolicyCounts>,
}

/// The numbers of matches of rules and lists since the last change of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyCounts {
    /// The number of matches of each rule.
    pub rules: Vec<RuleCount>,
    /// The number of decisions of each list.
    pub lists: Vec<ListCount>,
    /// The state of the geo database, which has the countries of addresses; null if none is
    /// configured.
    pub geo_database: Option<GeoStatus>,
}

/// The pauses and grants in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchesInForce {
    /// The pauses: each suspends all filtering for some clients.
    pub pauses: Vec<PauseInForce>,
    /// The grants: each suspends filtering of one name for some clients.
    pub grants: Vec<GrantInForce>,
}

/// A pause in force. A pause suspends all filtering for some clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PauseInForce {
    /// The clients that the pause applies to.
    pub scope: Scope,
    /// The Unix second at which the pause ends.
    pub until: u64,
    /// Seconds until the pause ends.
    pub left_secs: u64,
}

/// A grant in force. A grant suspends filtering of one name for some clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct GrantInForce {
    /// The name that the grant allows, with all names below it.
    pub name: String,
    /// The clients that the grant applies to.
    pub scope: Scope,
    /// The Unix second at which the grant ends.
    pub until: u64,
    /// Seconds until the grant ends.
    pub left_secs: u64,
}

/// The number of matches of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RuleCount {
    /// The name of the rule.
    pub name: String,
    /// The action of the rule.
    pub action: RuleAction,
    /// Whether the rule only counts its matches and does not act.
    pub log_only: bool,
    /// The number of queries and answers that the rule matched.
    pub held: u64,
}

/// The number of decisions of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListCount {
    /// The name of the list.
    pub name: String,
    /// The number of responses that the list blocked or changed.
    pub answers: u64,
}

words! {
    /// The action of a rule.
    pub enum RuleAction {
        /// Answer as for a blocked name.
        Block = "block",
        /// Resolve the name: neither later rules nor lists apply.
        Allow = "allow",
        /// Answer with other addresses, or with the records of another name.
        Redirect = "redirect",
        /// Send the query to other servers.
        Forward = "forward",
        /// Answer for names of search engines and video sites with the addresses of their strict
        /// mode.
        SafeSearch = "safe-search",
        /// Limit the TTLs of the answer.
        Ttl = "ttl",
        /// Send no response.
        Drop = "drop",
        /// Send a truncated response over UDP, so that the client repeats the query over TCP.
        Truncate = "truncate",
        /// Limit the number of answered queries per second.
        RateLimit = "rate-limit",
        /// Count the matches. The response does not change.
        Tag = "tag",
    }
}

impl From<&Action> for RuleAction {
    fn from(action: &Action) -> Self {
        match action {
            Action::Block(_) => Self::Block,
            Action::Allow => Self::Allow,
            Action::Redirect(..) => Self::Redirect,
            Action::Forward(_) => Self::Forward,
            Action::SafeSearch => Self::SafeSearch,
            Action::Ttl { .. } => Self::Ttl,
            Action::Drop => Self::Drop,
            Action::Truncate => Self::Truncate,
            Action::RateLimit(_) => Self::RateLimit,
            Action::Tag(_) => Self::Tag,
        }
    }
}

/// The geo database in force. A geo database has the countries of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GeoStatus {
    /// The properties of the database in force.
    #[serde(flatten)]
    pub file: GeoFile,
    /// The reason why the file on the disk cannot be used now, so that an earlier version stays in
    /// force. Null if the file can be used.
    pub error: Option<String>,
}

/// A geo database: a MaxMind DB file with the countries of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct GeoFile {
    /// The path of the file.
    pub file: String,
    /// The type that the file states, such as `GeoLite2-Country`.
    #[serde(rename = "type")]
    pub database_type: String,
    /// The Unix second at which the provider built the file.
    pub built_at: u64,
    /// The number of nodes of the search tree in the file.
    pub nodes: u32,
    /// The number of different countries in the file.
    pub countries: usize,
    /// The memory of the database in octets.
    pub octets: usize,
}
