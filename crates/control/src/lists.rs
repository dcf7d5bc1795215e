//! Replies about lists.

use avocet_policy::list::Format;
use avocet_policy::rpz::TriggerKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::part::Part;
use crate::words::words;

/// The state of all lists. The server compiles the lists into one table in memory, the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListsReport {
    /// The lists, in the order of the configuration.
    pub lists: Vec<ListStatus>,
    /// The image in force: the compiled form of all lists. Null if there is no image.
    pub image: Option<ImageStatus>,
}

/// The state of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ListStatus {
    /// The name of the list.
    pub name: String,
    /// The purpose of the list: to block or to allow.
    pub kind: ListPurpose,
    /// The URL or path of the list, or the servers from which the list is transferred.
    pub source: String,
    /// The keywords in `tags` of the list, by which rules can refer to the list.
    pub tags: Vec<String>,
    /// Whether the list has an effect on queries.
    pub in_force: bool,
    /// The format of the list in force; null if the list is not in force.
    pub format: Option<Format>,
    /// The number of entries in force.
    pub entries: u64,
    /// The number of broken lines: lines that the server cannot use.
    pub broken_lines: u64,
    /// The number of lines without an entry, such as comments.
    pub skipped_lines: u64,
    /// The number of entries that are not in force because all lists together exceed a limit.
    pub beyond_limits: u64,
    /// The number of triggers by kind; only for a response policy zone.
    pub triggers: Option<TriggerCounts>,
    /// The size of the last good copy in octets.
    pub octets: u64,
    /// The Unix second at which the last good copy was fetched or read; null if there is no copy.
    pub fetched_at: Option<u64>,
    /// The Unix second of the last successful fetch, or of the last check without changes.
    pub succeeded_at: Option<u64>,
    /// The Unix second of the next fetch; null for a local file.
    pub next_at: Option<u64>,
    /// The number of failed fetches since the last successful one.
    pub failures_in_row: u32,
    /// The reason why the list could not be fetched, or why the list is not in force.
    pub error: Option<String>,
    /// The logged queries that the list blocked. Missing without a query log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ListShare>,
}

/// The logged queries that a list blocked in the last thirty days, including the present day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListShare {
    /// The Unix second at which the counts begin: the start of a day in UTC.
    pub since: u64,
    /// The number of blocked, rewritten and dropped queries for names on the list.
    pub queries: u64,
    /// The number of queries that were blocked because of this list alone: the name is on no other
    /// list, and no rule decided. If the list blocked the target of an alias, the server did not
    /// search other lists for this target.
    pub alone: u64,
    /// The number by which `alone` may be too high, because the server counts a limited number of
    /// texts.
    pub error: u64,
}

words! {
    /// The purpose of a list.
    pub enum ListPurpose {
        /// The list blocks its names.
        Block = "block",
        /// No list blocks the names of this list.
        Allow = "allow",
    }
}

/// The number of triggers of a response policy zone, by kind. A trigger is the condition of an
/// entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TriggerCounts {
    /// Triggers on addresses of clients.
    pub client_ip: u64,
    /// Triggers on addresses in answers.
    pub ip: u64,
    /// Triggers on names of name servers.
    pub nsdname: u64,
    /// Triggers on addresses of name servers.
    pub nsip: u64,
    /// Triggers on the queried name or on names to which an answer leads.
    pub qname: u64,
    /// Triggers on name servers that cannot match, because the server forwards all queries and sees
    /// no delegations.
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

/// The image: the compiled form of all lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ImageStatus {
    /// A digest of the image. Equal images have equal digests.
    pub digest: String,
    /// The size of the image in octets.
    pub octets: usize,
    /// The number of names in the image.
    pub names: u64,
    /// The number of patterns in the image, such as regular expressions.
    pub patterns: usize,
    /// The Unix second at which the image was compiled.
    pub made_at: u64,
    /// The time of the compilation in milliseconds.
    pub made_in_ms: u64,
}

/// A line that says that the server is still at work on the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AtWork {
    /// Always `true`.
    pub waiting: bool,
}

impl Part for AtWork {
    const IS_URGENT: bool = true;
}

/// The reply to a request to fetch lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refreshed {
    /// The lists that the server tried to fetch.
    pub lists: Vec<RefreshedList>,
    /// The image in force now: the compiled form of all lists.
    pub image: Option<ImageStatus>,
}

/// The result of the fetch of one list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RefreshedList {
    /// The name of the list.
    pub name: String,
    /// Whether the text in force differs from the previous text.
    pub changed: bool,
    /// The reason why the fetch failed or the text was not accepted; null if the text was accepted.
    pub error: Option<String>,
    /// The reason why the disk does not have a copy of the accepted text; null if the disk has the
    /// copy.
    pub unsaved: Option<String>,
    /// The number of entries in force before the fetch; null if the list was not in force.
    pub entries_before: Option<u64>,
    /// The number of entries in force now; null if the list is not in force.
    pub entries: Option<u64>,
}

/// A check of a list: the number of lines by kind, and the first lines that have no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ListReport {
    /// The name of the list.
    pub name: String,
    /// The format of the list.
    pub format: Format,
    /// The number of all lines.
    pub lines: u32,
    /// The number of entries.
    pub entries: u64,
    /// The number of lines without an entry, such as comments.
    pub skipped_lines: u64,
    /// The number of lines that are valid and have no effect, without comments and empty lines.
    pub passed_over_lines: u64,
    /// The first lines that are valid and have no effect, at most 100.
    pub first_passed_over_lines: Vec<PassedOverLine>,
    /// The number of entries that are not in force because all lists together exceed a limit.
    pub beyond_limits: u64,
    /// The number of triggers by kind; only for a response policy zone.
    pub triggers: Option<TriggerCounts>,
    /// The number of broken lines: lines that the server cannot use.
    pub broken_lines: u64,
    /// The first broken lines, at most 100.
    pub first_broken_lines: Vec<BrokenLine>,
}

/// A line of a list that is valid and has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PassedOverLine {
    /// The number of the line, from 1.
    pub line: u32,
    /// The text of the line, possibly shortened. Null for a local file, because a user who may set
    /// the path of a list need not have the right to read every file that the server can read.
    pub text: Option<String>,
    /// The reason why the line has no effect.
    pub reason: String,
}

/// A line of a list that the server cannot use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenLine {
    /// The number of the broken line, from 1.
    pub line: u32,
    /// The problem with the line.
    pub reason: String,
}
