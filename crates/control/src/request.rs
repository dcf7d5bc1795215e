//! The requests of the control socket: a struct for each, with its fields.

use avocet_policy::rule::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::log::LogTransport;

macro_rules! without_fields {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {}
    )*};
}

without_fields! {
    /// A request for the counts of the caches.
    Stats;
    /// A request for everything in the caches.
    Dump;
    /// A request for the state of the server.
    Status;
    /// A request for the load of the workers, the caches and the query log.
    Load;
    /// A request for the state of the lists.
    ListsStatus;
    /// A request for the pauses and grants in force.
    Switches;
    /// A request for the trust anchors.
    Anchors;
    /// A request for all negative trust anchors.
    NtaList;
    /// A request to read the configuration again.
    Reload;
}

/// A request for the cached data of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lookup {
    /// The name.
    pub name: String,
    /// The type. Without it, the reply has data of all types, and the cached failure for type A.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
}

/// A request to remove a name from the caches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flush {
    /// The name.
    pub name: String,
}

/// A request to remove a name and all names below it from the caches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlushTree {
    /// The name.
    pub name: String,
}

/// A request to fetch lists and put them in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListsRefresh {
    /// The list; all lists without it.
    pub name: Option<String>,
    /// Whether to accept a text that would be held back; false without it.
    #[serde(default)]
    pub force: bool,
}

/// A request for the broken lines of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListsCheck {
    /// The list.
    pub name: String,
}

/// A request to suspend filtering for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// The clients that the pause applies to.
    #[serde(default)]
    pub scope: Scope,
    /// The duration in seconds; 0 ends the pause.
    pub secs: u64,
}

/// A request to suspend filtering of one name for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The name; the grant includes all names below it.
    pub name: String,
    /// The clients that the grant applies to.
    #[serde(default)]
    pub scope: Scope,
    /// The duration in seconds; 0 ends the grant.
    pub secs: u64,
}

/// A request to resolve a question again and to report each step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The name.
    pub name: String,
    /// The type; A without it.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// Whether to show DNSSEC records (DO).
    #[serde(default)]
    pub dnssec: bool,
    /// Whether to skip validation (CD).
    #[serde(default)]
    pub checking_disabled: bool,
}

/// A request for the answer that a client gets, and for the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// The name.
    pub name: String,
    /// The type. Without it, the answer is for type A, and the cached data is of all types.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// The address or name of the client; this machine without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The identity that the client's device sends or proves: `id:WORD`, `certificate:NAME` or
    /// `pin:DIGEST`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the listener at which the query arrives; without it an address of `[server]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
    /// The transport of the query; without it, the transport of the listening address, or UDP if
    /// the address serves UDP and TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<LogTransport>,
    /// The Unix second at which the rules apply; the present time without it. For a time in the
    /// past, the reply also contains the entry of the query log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Whether to search the query log; `true` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logged: Option<bool>,
}

/// A request to suspend validation below a name for a while (RFC 7646).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NtaAdd {
    /// The name.
    pub name: String,
    /// The duration in seconds.
    pub secs: u64,
}

/// A request to validate below a name again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NtaRemove {
    /// The name.
    pub name: String,
}
