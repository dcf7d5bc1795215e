//! The reply about a reload.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// The result of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Reloaded {
    /// The keys with new values that take effect after a restart.
    pub restart_needed_for: Vec<String>,
    /// The addresses that are served after a restart.
    pub opens_at_restart: Vec<SocketAddr>,
    /// The addresses that are no longer served after a restart.
    pub closes_at_restart: Vec<SocketAddr>,
    /// Names that the previous configuration has and the new one does not.
    pub removed: BTreeMap<RemovedKind, RemovedNames>,
    /// The removed names as a sentence.
    pub removed_text: String,
}

words! {
    /// The kinds of named tables that a configuration has.
    pub enum RemovedKind {
        /// Lists.
        Lists = "lists",
        /// Rules.
        Rules = "rules",
        /// Groups.
        Groups = "groups",
        /// Clients.
        Clients = "clients",
        /// Local records.
        Records = "records",
        /// Forwarding rules.
        Forwards = "forwards",
        /// Stub zones.
        Stubs = "stubs",
        /// Local zones.
        LocalZones = "local zones",
        /// Hosted zones.
        HostedZones = "hosted zones",
        /// Pools of addresses.
        Pools = "pools",
        /// Keys of transfers and updates.
        Keys = "keys",
        /// Policies of signing.
        SigningPolicies = "signing policies",
        /// Certificates.
        Certificates = "certificates",
        /// Listeners.
        Listeners = "listeners",
        /// Selections of traces that are exported.
        Traces = "traces",
        /// Other settings, which have their default values again.
        Settings = "settings",
    }
}

/// The removed tables of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemovedNames {
    /// The number of names.
    pub count: usize,
    /// The first of the removed names.
    pub first: Vec<String>,
}
