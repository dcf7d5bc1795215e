//! Requests for the clients that the query log has seen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::UserLimits;

/// A request for the clients of the query log, with the times of their first and latest queries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogClients {
    /// A client, by its text in the log or the name of its device; all clients without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Maximum number of clients, from 1 to 4096; 100 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The limits of the user who sends the request. The server sets them: a request cannot contain
    /// them.
    #[serde(skip)]
    pub within: Option<UserLimits>,
}

/// Clients of the query log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LoggedClients {
    /// The clients, those with the latest queries first.
    pub clients: Vec<LoggedClient>,
    /// The number of clients that the limit left out.
    pub left_out: u64,
}

/// A client of the query log. Its times remain when the log deletes its queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LoggedClient {
    /// The address of the client; with `privacy`, its network or pseudonym.
    pub client: String,
    /// The name of its device at its latest query, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// The Unix second of its first query.
    pub first: u64,
    /// The Unix second of its latest query.
    pub last: u64,
}
