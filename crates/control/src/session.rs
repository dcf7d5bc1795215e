//! Requests and replies about the sessions of users.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request for the sessions of users in browsers that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionList {}

/// A request to end a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionEnd {
    /// The identifier of the session, as the list of sessions shows it.
    pub id: String,
}

/// The sessions of users in browsers that have not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsReport {
    /// The sessions, the one with the latest request first.
    pub sessions: Vec<UserSession>,
}

/// A session of a user, which begins with a log-in in a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct UserSession {
    /// The identifier of the session. The identifier is no secret, because the cookie of the
    /// session has another text.
    pub id: String,
    /// The name of the user.
    pub user: String,
    /// Whether the user logged in by an OpenID Connect provider.
    pub by_provider: bool,
    /// The address from which the user logged in.
    pub from: IpAddr,
    /// The Unix second at which the session began.
    pub began_at: u64,
    /// The Unix second of the last request in the session.
    pub used_at: u64,
    /// The Unix second at which the session ends if no further request arrives.
    pub ends_at: u64,
}

/// The reply to a request that ended a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionEnded {
    /// The identifier of the ended session.
    pub id: String,
    /// The name of the user of the session.
    pub user: String,
}
