//! Requests for overviews of the query log. They are computed from roll-ups, at the same cost for
//! any number of queries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::UserLimits;
use crate::words::words;

/// A request for the counts of a period.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogStatistics {
    /// The first Unix second; a day before `to` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The Unix second after the last one; now without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Maximum number of texts of a ranking, from 1 to 100; 10 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The limits of the user who sends the request. The server sets them: a request cannot contain
    /// them.
    #[serde(skip)]
    pub within: Option<UserLimits>,
}

/// The counts of a period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogOverview {
    /// The first Unix second. An hour or day that the period includes in part counts as a whole.
    /// For a user with limits, the count may begin later than requested: the server ends it after
    /// some seconds of work.
    pub from: u64,
    /// The Unix second after the last one.
    pub to: u64,
    /// The length of the periods that are added up.
    pub period: PeriodLength,
    /// The number of queries.
    pub queries: u64,
    /// The queries by outcome.
    pub outcomes: OutcomeCounts,
    /// The times to answer.
    pub delays: Delays,
    /// The rankings.
    pub tops: Vec<TopRanking>,
    /// The present rates. A user with limits gets no rates: `secs` is 0.
    pub rates: QueryRates,
}

words! {
    /// The length of a period of the roll-ups.
    pub enum PeriodLength {
        /// A minute; the counts are kept for a day.
        Minute = "minute",
        /// An hour; the counts are kept for a week.
        Hour = "hour",
        /// A day in UTC; the counts are kept for a year.
        Day = "day",
    }
}

/// Numbers of queries by kind of outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeCounts {
    /// Queries answered with data or a denial, from upstream or from a cache.
    pub answered: u64,
    /// Queries answered from local records or special names.
    pub local: u64,
    /// Queries blocked by a rule or list.
    pub blocked: u64,
    /// Queries answered with other data, by a rule.
    pub rewritten: u64,
    /// Queries that were refused.
    pub refused: u64,
    /// Queries without a reply.
    pub dropped: u64,
    /// Queries that were not resolved.
    pub failed: u64,
    /// Queries that are malformed, or of a kind that is not implemented.
    pub malformed: u64,
}

/// The times to answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Delays {
    /// Half of the queries were answered within this many microseconds, rounded up to a power of
    /// two; none without queries.
    pub median_us: Option<u64>,
    /// 95 of 100 queries were answered within this many microseconds, rounded like the median.
    pub p95_us: Option<u64>,
    /// 99 of 100 queries were answered within this many microseconds, rounded like the median.
    pub p99_us: Option<u64>,
    /// The histogram, without its empty classes.
    pub histogram: Vec<DelayClass>,
}

/// A class of the histogram of times to answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DelayClass {
    /// The upper bound of the class: its queries were answered in less than this number of
    /// microseconds, but not in less than half of it.
    pub below_us: u64,
    /// The number of queries.
    pub queries: u64,
}

words! {
    /// The properties whose values a ranking counts.
    pub enum RankingKind {
        /// QTYPEs.
        Types = "types",
        /// RCODEs.
        Rcodes = "rcodes",
        /// QNAMEs.
        Names = "names",
        /// Addresses of clients.
        Clients = "clients",
        /// Rules that decided.
        Rules = "rules",
        /// Lists that contain the name.
        Lists = "lists",
        /// Upstreams that answered.
        Upstreams = "upstreams",
        /// QNAMEs of blocked queries.
        BlockedNames = "blocked-names",
        /// Addresses of clients whose queries were blocked.
        BlockedClients = "blocked-clients",
        /// Lists that alone decided blocked queries: no other list has the name, and no rule
        /// decided.
        LoneLists = "lone-lists",
    }
}

/// The most frequent texts of a kind. The server counts a bounded number of texts, so a count may
/// be too high.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TopRanking {
    /// The kind.
    pub of: RankingKind,
    /// The texts, the most frequent first.
    pub texts: Vec<RankedText>,
    /// The maximum number of queries that a text outside of `texts` can have.
    pub others_at_most: u64,
}

/// A text of a ranking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankedText {
    /// The text, such as a name or the address of a client.
    pub text: String,
    /// The number of queries, which is at least the true one.
    pub queries: u64,
    /// The amount by which the number may be too high.
    pub error: u64,
}

/// Queries per second, over at most the last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct QueryRates {
    /// The seconds over which they were measured; 0 right after the start.
    pub secs: f64,
    /// All logged queries a second.
    pub queries: f64,
    /// Blocked queries a second.
    pub blocked: f64,
    /// Queries a second that were not resolved.
    pub failed: f64,
}

/// A request for the counts of a period, in steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogSeries {
    /// The first Unix second; a day before `to` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The Unix second after the last one; now without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The seconds of a step, from 1; without it, there are about 100 steps. The reply has longer
    /// steps if the counts are coarser, or if there would be more than 1500 steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The limits of the user who sends the request. The server sets them: a request cannot contain
    /// them.
    #[serde(skip)]
    pub within: Option<UserLimits>,
}

/// The counts of a period, in steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogSteps {
    /// The seconds of a step.
    pub step: u64,
    /// The length of the periods that are added up.
    pub period: PeriodLength,
    /// The steps, the earliest first, without a gap. For a user with limits, they may begin later
    /// than requested: the server ends the count after some seconds of work.
    pub steps: Vec<LogStep>,
}

/// The counts of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogStep {
    /// The first Unix second of the step, a multiple of the step.
    pub at: u64,
    /// The number of queries.
    pub queries: u64,
    /// The queries by outcome.
    pub outcomes: OutcomeCounts,
    /// Half of the queries were answered within this many microseconds, rounded up to a power of
    /// two; none without queries.
    pub median_us: Option<u64>,
    /// 99 of 100 queries were answered within this many microseconds, rounded like the median.
    pub p99_us: Option<u64>,
}
