//! A past decision about a query, and the decision that the same query would get now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::log::LogEntry;
use crate::revisions::Revision;
use crate::why::QueryStage;
use crate::words::words;

/// A past query of a client: the logged decision, and the decision that the same query would get
/// now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PastDecision {
    /// The Unix second for which the request asks.
    pub at: u64,
    /// The number of seconds before and after `at` in which the server searched the query log.
    pub window_secs: u64,
    /// The result of the search of the query log.
    pub log: LogSearch,
    /// The reason why the query log could not be read, or only in part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// The logged query of this client for this name that is nearest to `at`; missing if none was
    /// found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<Box<LogEntry>>,
    /// The time of the found query in the time zone of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_local: Option<String>,
    /// The revision of the configuration that was in force at the time of the query; missing if the
    /// history does not go back to this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// The time at which the server accepted this revision, in the time zone of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_local: Option<String>,
    /// The number of the revision in force now; null without a configuration file.
    pub present_revision: Option<u32>,
    /// The decision that the same query would get now. Only the schedules of rules are evaluated as
    /// at the past time.
    pub present: PresentDecision,
    /// The parts of the decision that would differ now; empty if no part differs, or if no query
    /// was found.
    pub differences: Vec<DecisionPart>,
    /// The changes since then that can explain the differences; empty if nothing differs.
    pub reasons: Vec<ChangeReason>,
    /// The lists with this name that the server has fetched or read again since then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_lists: Vec<String>,
}

/// The decision that a past query would get now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PresentDecision {
    /// The stage of processing that would end the query.
    pub outcome: QueryStage,
    /// The name of the rule that would decide, or the name of a protection of the server such as
    /// `block-private`. Null if a list would decide, or if nothing would block or change the
    /// answer.
    pub rule: Option<String>,
    /// The name of the list that would decide; null if no list would.
    pub list: Option<String>,
    /// The RCODE of the response; null if no response would be sent.
    pub rcode: Option<String>,
}

words! {
    /// The result of a search of the query log.
    pub enum LogSearch {
        /// The log has such a query near this time.
        Found = "found",
        /// The log has no such query near this time.
        NotFound = "not-found",
        /// The log has too many queries near this time to search them all.
        TooMany = "too-many",
        /// No such query was found. The setting `privacy` may keep the address of the client or the
        /// queried names out of the log.
        Withheld = "withheld",
        /// The query log is off, and has no files.
        NoLog = "no-log",
        /// The query log cannot be read.
        Unreadable = "unreadable",
    }
}

words! {
    /// A part of a decision in which two decisions can differ.
    pub enum DecisionPart {
        /// The kind of outcome, such as answered, blocked or failed.
        Outcome = "outcome",
        /// The rule or list that decided.
        Decider = "decider",
        /// The RCODE.
        Rcode = "rcode",
    }
}

words! {
    /// A reason why a decision may differ from one in the past.
    pub enum ChangeReason {
        /// Another revision of the configuration is in force.
        Configuration = "configuration",
        /// The history of the configuration does not go back to that time.
        HistoryTooShort = "history-too-short",
        /// A list was fetched or read again.
        List = "list",
        /// The client had another name or other groups.
        Client = "client",
        /// A pause or a grant suspends filtering now.
        Lifted = "lifted",
        /// The servers of the zone, or the upstreams, may have sent another answer.
        Resolution = "resolution",
        /// No other reason was found. For example, a pause or a grant has ended since then.
        Unknown = "unknown",
    }
}
