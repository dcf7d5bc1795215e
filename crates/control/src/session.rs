//! Requests and replies about the sessions of users.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request for the sessions that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionList {}

/// A request to end a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionEnd {
    /// The identifier of the session.
    pub id: String,
}

/// Sessions that have not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsReport {
    /// The sessions, the last used first.
    pub sessions: Vec<UserSession>,
}

/// A session of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct UserSession {
    /// The identifier of the session, which is no secret: the cookie has another text.
    pub id: String,
    /// The name of the user.
    pub user: String,
    /// Whether the user logged in by the provider.
    pub by_provider: bool,
    /// The address of the log-in.
    pub from: IpAddr,
    /// The Unix second at which it began.
    pub began_at: u64,
    /// The Unix second of the last request.
    pub used_at: u64,
    /// The Unix second at which it ends if there is no further request.
    pub ends_at: u64,
}

/// A session that was ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionEnded {
    /// The identifier of the session.
    pub id: String,
    /// The name of the user.
    pub user: String,
}
