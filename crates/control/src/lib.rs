//! Requests to the running server: the types that both ends of the control socket use.
//!
//! A client sends one line of JSON and gets lines of JSON; the last has `done` or `error`.

#![forbid(unsafe_code)]

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use avocet_policy::rule::Scope;
use serde::{Deserialize, Serialize};

/// Octets of a request at most.
pub const MAX_LINE: usize = 4096;
/// The file of the socket in the data directory.
pub const SOCKET: &str = "control.sock";

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Counts of the caches.
    Stats,
    /// All that the caches hold.
    Dump,
    /// Drop what is cached for a name.
    Flush {
        /// The name.
        name: String,
    },
    /// Drop what is cached for a name and all names below it.
    FlushTree {
        /// The name.
        name: String,
    },
    /// How the server is.
    Status,
    /// What there is of the lists.
    ListsStatus,
    /// Look at the source of a list, or of all.
    ListsRefresh {
        /// The list.
        name: Option<String>,
        /// Whether what would be held back is taken.
        force: bool,
    },
    /// The broken lines of a list.
    ListsCheck {
        /// The list.
        name: String,
    },
    /// Filter nothing for a while.
    Pause {
        /// For whom.
        #[serde(default)]
        scope: Scope,
        /// For how many seconds; 0 ends the pause.
        secs: u64,
    },
    /// Do not filter a name for a while.
    Grant {
        /// The name; those below it too.
        name: String,
        /// For whom.
        #[serde(default)]
        scope: Scope,
        /// For how many seconds; 0 ends the grant.
        secs: u64,
    },
    /// The pauses and grants in force.
    Switches,
    /// Resolve a question anew, and tell how.
    Trace {
        /// The name.
        name: String,
        /// The type; A where none is given.
        #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
        rtype: Option<String>,
        /// Give DNSSEC records (DO).
        #[serde(default)]
        dnssec: bool,
        /// Do not validate (CD).
        #[serde(default)]
        checking_disabled: bool,
    },
    /// Tell what is known of a name: its last failures, what is cached; or else as `trace`.
    Why {
        /// The name.
        name: String,
        /// The type; without one, of all types.
        #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
        rtype: Option<String>,
        /// For the client with this address or name; this machine where none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
        /// As the policy is at this Unix second; now where none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<u64>,
    },
    /// What is known of the trust anchors.
    Anchors,
    /// All negative trust anchors.
    NtaList,
    /// Take a name out of validation for so many seconds.
    NtaAdd {
        /// The name.
        name: String,
        /// For how long.
        secs: u64,
    },
    /// Validate a name again.
    NtaRemove {
        /// The name.
        name: String,
    },
    /// Read the configuration again.
    Reload,
    /// Hand the sockets over.
    TakeOver,
}

impl Request {
    /// The request as it is sent.
    pub fn line(&self) -> String {
        format!("{}\n", serde_json::json!(self))
    }
}

/// Connects to the server that runs in a data directory.
pub fn connect(directory: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(directory.join(SOCKET))
}
