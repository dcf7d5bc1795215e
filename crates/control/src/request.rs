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
    /// A request for the memory of the caches, and for counts of their entries and hits.
    Stats;
    /// A request for all entries of the packet cache and the RRset cache.
    Dump;
    /// A request for the state of the server.
    Status;
    /// A request for the load of the server: its worker threads, memory, caches and the writer of
    /// the query log.
    Load;
    /// A request for the state of the lists: entries, fetches and problems.
    ListsStatus;
    /// A request for the pauses and grants in force, and for the matches of rules and lists.
    Switches;
    /// A request for the state of the trust anchors and of the copy of the root zone.
    Anchors;
    /// A request for all negative trust anchors: the names below which validation is suspended.
    NtaList;
    /// A request to read the configuration again and put it in force.
    Reload;
}

/// A request for the cached data of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lookup {
    /// The name to look up.
    pub name: String,
    /// The type of the records. If the field is missing, the reply has cached data of all types,
    /// and the cached failure for type A.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
}

/// A request to remove a name from the caches. Names below the name stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flush {
    /// The name to remove.
    pub name: String,
}

/// A request to remove a name and all names below it from the caches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlushTree {
    /// The name to remove, with all names below it.
    pub name: String,
}

/// A request to fetch lists and put them in force. The reply comes when the lists are in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListsRefresh {
    /// The name of the list; all lists if the field is missing or null.
    pub name: Option<String>,
    /// Whether to accept a text without entries, or a text that has lost most of its entries; false
    /// by default.
    #[serde(default)]
    pub force: bool,
}

/// A request for the lines of a list that have no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListsCheck {
    /// The name of the list.
    pub name: String,
}

/// A request to suspend all filtering for some clients (a pause), or to end a pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// The clients to which the pause applies; all clients if the field is missing.
    #[serde(default)]
    pub scope: Scope,
    /// The duration of the pause in seconds, at most 365 days; 0 ends the pause.
    pub secs: u64,
}

/// A request to suspend filtering of one name for some clients (a grant), or to end a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The name to allow. The grant includes all names below the name.
    pub name: String,
    /// The clients to which the grant applies; all clients if the field is missing.
    #[serde(default)]
    pub scope: Scope,
    /// The duration of the grant in seconds, at most 365 days; 0 ends the grant.
    pub secs: u64,
}

/// A request to resolve a question without the cached answer, and to report each step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The name to resolve.
    pub name: String,
    /// The type to resolve; A if the field is missing.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// Whether the reply shows DNSSEC records (the flag DO of a query).
    #[serde(default)]
    pub dnssec: bool,
    /// Whether to skip DNSSEC validation (the flag CD of a query).
    #[serde(default)]
    pub checking_disabled: bool,
}

/// A request for the answer that a client gets for a name, and for the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// The name that the client queries.
    pub name: String,
    /// The type that the client queries. If the field is missing, the type is A, and the reply
    /// shows cached data of all types.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// The client: an address or a name. If the field is missing, 127.0.0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The identity that the device of the client sends or proves: `id:WORD`, `certificate:NAME` or
    /// `pin:DIGEST`, as in `ids` of a `[[client]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the listener at which the query arrives. If the field is missing, the query
    /// arrives at an address of `[server]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
    /// The transport of the query. If the field is missing, the transport of the listening address.
    /// For an address that serves UDP and TCP, this is UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<LogTransport>,
    /// The Unix second at which schedules of rules are evaluated; now if the field is missing. For
    /// a time in the past, the reply also has the logged query that is nearest to this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Whether to search the query log for a time in the past; true if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logged: Option<bool>,
}

/// A request to suspend DNSSEC validation of a name and all names below it for a while (RFC 7646).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NtaAdd {
    /// The name below which validation is suspended, including the name itself.
    pub name: String,
    /// The duration in seconds, from 1 to 604,800 (a week).
    pub secs: u64,
}

/// A request to end a negative trust anchor, so that the server validates the name and the names
/// below it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NtaRemove {
    /// The name of the negative trust anchor.
    pub name: String,
}
