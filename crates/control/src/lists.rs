//! Replies about lists.

use avocet_policy::list::Format;
use avocet_policy::rpz::TriggerKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::part::Part;
use crate::words::words;

/// All lists, and their compiled form (the image).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListsReport {
    /// The lists, in the order of the configuration.
    pub lists: Vec<ListStatus>,
    /// The compiled lists in force (the image).
    pub image: Option<ImageStatus>,
}

/// A list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ListStatus {
    /// The name of the list.
    pub name: String,
    /// The kind of the list.
    pub kind: ListPurpose,
    /// The URL or path of the list.
    pub source: String,
    /// The tags of the list.
    pub tags: Vec<String>,
    /// Whether the list is in force.
    pub in_force: bool,
    /// The format of the text in force.
    pub format: Option<Format>,
    /// Entries in force.
    pub entries: u64,
    /// Broken lines.
    pub broken_lines: u64,
    /// Lines without entries, such as comments.
    pub skipped_lines: u64,
    /// Broken lines that exceed a limit which all lists share.
    pub beyond_limits: u64,
    /// The triggers of a policy zone.
    pub triggers: Option<TriggerCounts>,
    /// Number of octets of the last good copy.
    pub octets: u64,
    /// The Unix second at which the text was fetched.
    pub fetched_at: Option<u64>,
    /// The Unix second of the last successful fetch or check for changes.
    pub succeeded_at: Option<u64>,
    /// The Unix second of the next fetch.
    pub next_at: Option<u64>,
    /// Failed fetches since the last that succeeded.
    pub failures_in_row: u32,
    /// The reason for the last failure.
    pub error: Option<String>,
    /// The share of the query log that the list blocks; none without a query log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ListShare>,
}

/// The part of the logged queries that a list blocks, over up to thirty days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListShare {
    /// The Unix second from which queries count: the start of a day, in UTC.
    pub since: u64,
    /// Blocked, rewritten and dropped queries with a name that the list has.
    pub queries: u64,
    /// Queries that are blocked because of this list only: no other list has the name, and no rule
    /// decided. If the list blocks the target of an alias, other lists are not searched for this
    /// target.
    pub alone: u64,
    /// The margin of error: `queries` may be too high by this number.
    pub error: u64,
}

words! {
    /// The kind of a list.
    pub enum ListPurpose {
        /// A block list.
        Block = "block",
        /// An allow list.
        Allow = "allow",
    }
}

/// The number of triggers of a policy zone, by kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TriggerCounts {
    /// Addresses of clients.
    pub client_ip: u64,
    /// Addresses in answers.
    pub ip: u64,
    /// Names of name servers.
    pub nsdname: u64,
    /// Addresses of name servers.
    pub nsip: u64,
    /// Names.
    pub qname: u64,
    /// Triggers that cannot match, because a server that only forwards sees no delegations.
    pub cannot_fire: u64,
}

impl TriggerCounts {
    /// Returns the counts of a zone, which are in the order of [`TriggerKind::ALL`].
    pub fn new(counts: [u64; TriggerKind::ALL.len()], cannot_fire: u64) -> Self {
        let mut all = Self { client_ip: 0, ip: 0, nsdname: 0, nsip: 0, qname: 0, cannot_fire };
        for (kind, count) in TriggerKind::ALL.iter().zip(counts) {
            *match kind {
                TriggerKind::ClientAddress => &mut all.client_ip,
                TriggerKind::Qname => &mut all.qname,
                TriggerKind::AnswerAddress => &mut all.ip,
                TriggerKind::NsName => &mut all.nsdname,
                TriggerKind::NsAddress => &mut all.nsip,
            } = count;
        }
        all
    }
}

/// The compiled form of all lists (the image).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ImageStatus {
    /// A digest, which is equal for equal images.
    pub digest: String,
    /// The size of the image.
    pub octets: usize,
    /// The number of its names.
    pub names: u64,
    /// The number of its patterns.
    pub patterns: usize,
    /// The Unix second at which it was compiled.
    pub made_at: u64,
    /// The time that it took.
    pub made_in_ms: u64,
}

/// A sign that the server is still at work on the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AtWork {
    /// Always true.
    pub waiting: bool,
}

impl Part for AtWork {
    const IS_URGENT: bool = true;
}

/// The result of a refresh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refreshed {
    /// The lists that were fetched.
    pub lists: Vec<RefreshedList>,
    /// The compiled lists in force (the image).
    pub image: Option<ImageStatus>,
}

/// The result of a refresh for one list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RefreshedList {
    /// The name.
    pub name: String,
    /// Whether the text differs from the one that was in force before.
    pub changed: bool,
    /// The reason why the text was not accepted.
    pub error: Option<String>,
    /// The reason why the disk does not have the copy in force.
    pub unsaved: Option<String>,
    /// Entries in force before.
    pub entries_before: Option<u64>,
    /// Entries in force now.
    pub entries: Option<u64>,
}

/// The lines of a list that have no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ListReport {
    /// The name of the list.
    pub name: String,
    /// The format of the list.
    pub format: Format,
    /// The number of lines.
    pub lines: u32,
    /// Entries.
    pub entries: u64,
    /// Lines without entries, such as comments.
    pub skipped_lines: u64,
    /// Skipped lines that are no comments.
    pub passed_over_lines: u64,
    /// The first of the passed-over lines.
    pub first_passed_over_lines: Vec<PassedOverLine>,
    /// Entries of the list in force that exceed a limit which all lists share.
    pub beyond_limits: u64,
    /// The triggers of a policy zone.
    pub triggers: Option<TriggerCounts>,
    /// Broken lines.
    pub broken_lines: u64,
    /// The first of the broken lines.
    pub first_broken_lines: Vec<BrokenLine>,
}

/// A line that is valid and has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PassedOverLine {
    /// The number of the line, from 1.
    pub line: u32,
    /// The text of the line, possibly shortened; none if the list is a local file. A user who may
    /// set the path of a list, or see its state, need not have the permission to read every file
    /// that the server can read.
    pub text: Option<String>,
    /// The reason why it has no effect.
    pub reason: String,
}

/// A broken line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenLine {
    /// The number of the broken line, from 1.
    pub line: u32,
    /// The problem with the line.
    pub reason: String,
}
