//! Replies about pauses, grants, and the counts of rules and lists.

use avocet_policy::rule::{Action, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// The pauses and grants in force after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchesChanged {
    /// The pauses and grants.
    #[serde(flatten)]
    pub switches: SwitchesInForce,
    /// The reason why the disk does not have the change: a restart undoes it.
    pub unsaved: Option<String>,
}

/// The policy: its pauses and grants, and the effects of its rules and lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyStatus {
    /// The pauses and grants.
    #[serde(flatten)]
    pub switches: SwitchesInForce,
    /// The counts of rules and lists, if there are any.
    #[serde(flatten)]
    pub counts: Option<PolicyCounts>,
}

/// The effects of rules and lists since the last change of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyCounts {
    /// The rules.
    pub rules: Vec<RuleCount>,
    /// The lists.
    pub lists: Vec<ListCount>,
    /// The geo database, if there is one.
    pub geo_database: Option<GeoStatus>,
}

/// Pauses and grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchesInForce {
    /// The pauses.
    pub pauses: Vec<PauseInForce>,
    /// The grants.
    pub grants: Vec<GrantInForce>,
}

/// A pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PauseInForce {
    /// The clients that the pause applies to.
    pub scope: Scope,
    /// The Unix second at which it ends.
    pub until: u64,
    /// Seconds until the pause ends.
    pub left_secs: u64,
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct GrantInForce {
    /// The name; the grant includes all names below it.
    pub name: String,
    /// The clients that the grant applies to.
    pub scope: Scope,
    /// The Unix second at which it ends.
    pub until: u64,
    /// Seconds until the grant ends.
    pub left_secs: u64,
}

/// The number of matches of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RuleCount {
    /// The name.
    pub name: String,
    /// The action.
    pub action: RuleAction,
    /// Whether the rule only counts its matches.
    pub log_only: bool,
    /// The number of queries and answers that the rule matched.
    pub held: u64,
}

/// The responses that a list decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListCount {
    /// The name.
    pub name: String,
    /// The number of responses that the list decided.
    pub answers: u64,
}

words! {
    /// The action of a rule.
    pub enum RuleAction {
        /// Block.
        Block = "block",
        /// End the rules; lists do not apply.
        Allow = "allow",
        /// Answer with other records.
        Redirect = "redirect",
        /// Send the query to other servers.
        Forward = "forward",
        /// Answer with the safe form of a search engine.
        SafeSearch = "safe-search",
        /// Change TTLs.
        Ttl = "ttl",
        /// Send no response.
        Drop = "drop",
        /// Send a truncated response, so that the client uses TCP.
        Truncate = "truncate",
        /// Limit the rate.
        RateLimit = "rate-limit",
        /// Set a tag.
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

/// The geo database in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GeoStatus {
    /// The database.
    #[serde(flatten)]
    pub file: GeoFile,
    /// The reason why the file as it is now cannot be used.
    pub error: Option<String>,
}

/// A database of the countries of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct GeoFile {
    /// The path of the database.
    pub file: String,
    /// The type of the database, as it names itself.
    #[serde(rename = "type")]
    pub database_type: String,
    /// The Unix second at which it was made.
    pub built_at: u64,
    /// The number of its nodes.
    pub nodes: u32,
    /// The number of its countries.
    pub countries: usize,
    /// Number of octets in memory.
    pub octets: usize,
}
