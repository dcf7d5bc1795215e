//! Requests and replies about requests for access, which clients send from the block page.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The durations of a grant that answers a request, in minutes.
const GRANT_MINUTES: [u16; 3] = [15, 45, 120];

/// A request for the list of waiting requests for access. A user who sees the block page for a name
/// can request access to this name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestList {
    /// The name of a group. With it, the reply has only requests of clients in this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// A request to allow a name for the client that asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestGrant {
    /// The ID of the client's request, as the list of requests shows it.
    pub id: u32,
    /// The duration of the grant in minutes: 15, 45 or 120.
    #[serde(deserialize_with = "grant_minutes")]
    #[schemars(extend("enum" = [15, 45, 120]))]
    pub minutes: u16,
    /// The name of a group. With it, the server refuses if the client is not in this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

fn grant_minutes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let minutes = u16::deserialize(deserializer)?;
    match GRANT_MINUTES.contains(&minutes) {
        true => Ok(minutes),
        false => Err(D::Error::custom(format_args!("expected 15, 45 or 120 minutes"))),
    }
}

/// A request to refuse the request of a client for access. The name stays blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestRefuse {
    /// The ID of the client's request, as the list of requests shows it.
    pub id: u32,
    /// The name of a group. With it, the server refuses if the client is not in this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// The list of requests for access that clients sent from the block page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestsReport {
    /// The requests that still wait for an operator, the oldest first.
    pub requests: Vec<AccessRequest>,
}

/// A request of a client for access to a blocked name. The client chose the blocked name and the
/// text, so neither proves anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct AccessRequest {
    /// The ID of the request, which an answer to the request repeats.
    pub id: u32,
    /// The blocked name to which the client requests access.
    pub name: String,
    /// The address of the client.
    pub client: IpAddr,
    /// The name of the client; null if the client has none.
    pub client_name: Option<String>,
    /// The message that the user of the client wrote; empty if the user wrote none.
    pub text: String,
    /// The Unix second at which the client sent the request.
    pub at: u64,
}

/// The reply to the refusal of a request for access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRefused {
    /// The refused request.
    #[serde(flatten)]
    pub request: AccessRequest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_has_one_of_three_durations() {
        let read = |minutes: i64| {
            serde_json::from_value::<RequestGrant>(serde_json::json!({"id": 1, "minutes": minutes}))
        };
        assert!(GRANT_MINUTES.into_iter().all(|minutes| read(minutes.into()).is_ok()));
        for minutes in [0, 1, 16, 121, -15, 65_551] {
            assert!(read(minutes).is_err(), "{minutes}");
        }
    }
}
