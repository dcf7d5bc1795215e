//! Requests to the running server: the types that both ends of the control socket use.
//!
//! A client sends one line of JSON and gets lines of JSON; the last has `done` or `error`.

#![forbid(unsafe_code)]

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use avocet_policy::rule::Scope;
use serde::{Deserialize, Serialize};

/// Most octets of a request.
pub const MAX_LINE: usize = 4096;
/// The file name of the socket, in the data directory.
pub const SOCKET: &str = "control.sock";

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Show the numbers of cached entries.
    Stats,
    /// Show all cached data.
    Dump,
    /// Drop the cached data of a name.
    Flush {
        /// The name.
        name: String,
    },
    /// Drop the cached data of a name and all names below it.
    FlushTree {
        /// The name.
        name: String,
    },
    /// Show the state of the server.
    Status,
    /// Show the state of the lists.
    ListsStatus,
    /// Fetch a list, or all lists, now.
    ListsRefresh {
        /// The list; `None` for all.
        name: Option<String>,
        /// Whether to accept a text that would be held back.
        force: bool,
    },
    /// Show the broken lines of a list.
    ListsCheck {
        /// The list.
        name: String,
    },
    /// Suspend filtering.
    Pause {
        /// The clients.
        #[serde(default)]
        scope: Scope,
        /// For how many seconds; 0 ends the pause.
        secs: u64,
    },
    /// Allow a name.
    Grant {
        /// The name; subdomains are included.
        name: String,
        /// The clients.
        #[serde(default)]
        scope: Scope,
        /// For how many seconds; 0 ends the grant.
        secs: u64,
    },
    /// Show the pauses and grants in force.
    Switches,
    /// Resolve a question again and show each step.
    Trace {
        /// The name.
        name: String,
        /// The type; A by default.
        #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
        rtype: Option<String>,
        /// Include DNSSEC records (DO).
        #[serde(default)]
        dnssec: bool,
        /// Disable validation (CD).
        #[serde(default)]
        checking_disabled: bool,
    },
    /// Explain a name: its last failures and cached data; without these, like `trace`.
    Why {
        /// The name.
        name: String,
        /// The type; all types by default.
        #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
        rtype: Option<String>,
        /// The address or name of the client; this machine by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
        /// The Unix time for the policy; now by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<u64>,
    },
    /// Show the state of the trust anchors.
    Anchors,
    /// Show all negative trust anchors.
    NtaList,
    /// Set a negative trust anchor.
    NtaAdd {
        /// The name.
        name: String,
        /// For how many seconds.
        secs: u64,
    },
    /// Remove a negative trust anchor.
    NtaRemove {
        /// The name.
        name: String,
    },
    /// Reload the configuration.
    Reload,
    /// Hand the sockets over to the new process that sends this.
    TakeOver,
}

impl Request {
    /// The request as one line of JSON.
    pub fn line(&self) -> String {
        format!("{}\n", serde_json::json!(self))
    }
}

/// Connects to the server that runs with this data directory.
pub fn connect(directory: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(directory.join(SOCKET))
}
