//! The reply about a reload.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// The reply to a reload of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Reloaded {
    /// The keys of the configuration that have new values, and need a restart to take effect.
    pub restart_needed_for: Vec<String>,
    /// The listening addresses that the server opens only at the next restart.
    pub opens_at_restart: Vec<SocketAddr>,
    /// The listening addresses that the server closes only at the next restart.
    pub closes_at_restart: Vec<SocketAddr>,
    /// The entries that the previous configuration has and the new one does not, by kind.
    pub removed: BTreeMap<RemovedKind, RemovedNames>,
    /// The removed entries as text; empty if there are none.
    pub removed_text: String,
}

words! {
    /// The kinds of entries that a configuration can have.
    pub enum RemovedKind {
        /// Lists.
        Lists = "lists",
        /// Rules.
        Rules = "rules",
        /// Groups.
        Groups = "groups",
        /// Clients.
        Clients = "clients",
        /// Local records (`[[record]]`).
        Records = "records",
        /// Forwarding rules (`[[forward]]`).
        Forwards = "forwards",
        /// Stub zones (`[[stub]]`): zones with known authoritative servers.
        Stubs = "stubs",
        /// Local zones (`local-zones` of `[server]`).
        LocalZones = "local zones",
        /// Hosted zones (`[[zone]]`).
        HostedZones = "hosted zones",
        /// Pools of addresses.
        Pools = "pools",
        /// Keys for signatures of messages (`[[key]]`).
        Keys = "keys",
        /// Signing policies of hosted zones (`[[signing-policy]]`).
        SigningPolicies = "signing policies",
        /// Certificates.
        Certificates = "certificates",
        /// Listeners.
        Listeners = "listeners",
        /// Selections of queries for exported traces (`[[trace]]`).
        Traces = "traces",
        /// Other settings. They have their default values again.
        Settings = "settings",
    }
}

/// The removed entries of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemovedNames {
    /// The number of removed entries.
    pub count: usize,
    /// The names of the first removed entries, at most five.
    pub first: Vec<String>,
}
