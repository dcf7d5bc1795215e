//! A past decision about a query, and the decision that the same query would get now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::log::LogEntry;
use crate::revisions::Revision;
use crate::why::QueryStage;
use crate::words::words;

/// The decision about a query in the past, from the query log and the history of the
/// configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PastDecision {
    /// The Unix second that the request is about.
    pub at: u64,
    /// Seconds before and after `at` for which the log was searched.
    pub window_secs: u64,
    /// The result of the search.
    pub log: LogSearch,
    /// The reason why the log, or a part of it, could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// The client's logged query for the name that is nearest to `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<Box<LogEntry>>,
    /// The time of that query in the time zone of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_local: Option<String>,
    /// The revision of the configuration in force at that time, as far as the history goes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// The time at which that revision was accepted, in the time zone of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_local: Option<String>,
    /// The revision of the configuration in force now.
    pub present_revision: Option<u32>,
    /// The decision that the same query would get now, with schedules evaluated for the past time.
    pub present: PresentDecision,
    /// The parts of the decision that differ now; empty if nothing differs, or if the query was not
    /// found.
    pub differences: Vec<DecisionPart>,
    /// The known reasons why the decision may differ.
    pub reasons: Vec<ChangeReason>,
    /// The lists involved that have changed since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_lists: Vec<String>,
}

/// The decision that the query would get now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PresentDecision {
    /// The stage that would end the query.
    pub outcome: QueryStage,
    /// The rule that would decide, or the protection of the server itself.
    pub rule: Option<String>,
    /// The list that would decide.
    pub list: Option<String>,
    /// The RCODE; none if no response would be sent.
    pub rcode: Option<String>,
}

words! {
    /// The result of a search of the query log.
    pub enum LogSearch {
        /// The query was found.
        Found = "found",
        /// The log has no such query near this time.
        NotFound = "not-found",
        /// The log has too many queries near this time to search them all.
        TooMany = "too-many",
        /// The privacy of the client withholds its address or its names from the log.
        Withheld = "withheld",
        /// There is no query log.
        NoLog = "no-log",
        /// The query log cannot be read.
        Unreadable = "unreadable",
    }
}

words! {
    /// A part of a decision.
    pub enum DecisionPart {
        /// The kind of outcome: answered, blocked and others.
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
        /// A pause or a grant is in force now.
        Lifted = "lifted",
        /// The servers that resolve the name may have answered in another way.
        Resolution = "resolution",
        /// The cause is none of the other reasons: for example, a pause, a grant or a tag has
        /// ended.
        Unknown = "unknown",
    }
}
