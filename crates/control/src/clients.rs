//! Requests for the clients that the query log has seen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::UserLimits;

/// A request for the clients in the query log, with the times of their first and latest queries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogClients {
    /// A client: its address as the log has it, or the name of its device. Without this field, the
    /// reply has all clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The maximum number of clients in the reply, from 1 to 4096; 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The limits of the user who sends the request. The server sets this field, and a request
    /// cannot contain it.
    #[serde(skip)]
    pub within: Option<UserLimits>,
}

/// The clients in the query log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LoggedClients {
    /// The clients, in the order of their latest queries, the latest first.
    pub clients: Vec<LoggedClient>,
    /// The number of further clients above the limit, which the reply does not have.
    pub left_out: u64,
}

/// A client in the query log. The times of the client stay when the log deletes its queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LoggedClient {
    /// The address of the client. If the setting `privacy` withholds the address, this is the
    /// network or the pseudonym of the client.
    pub client: String,
    /// The name of the device that sent the latest query; missing if the device had no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// The Unix second of the first query of the client.
    pub first: u64,
    /// The Unix second of the latest query of the client.
    pub last: u64,
}
