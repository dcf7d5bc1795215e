//! Requests for overviews of the query log. They are computed from roll-ups, at the same cost for
//! any number of queries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::UserLimits;
use crate::words::words;

/// A request for the counts and rankings of logged queries in a period.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogStatistics {
    /// The Unix second at which the period begins; a day before `to` if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The Unix second before which the period ends; now if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The maximum number of entries in each ranking, from 1 to 100; 10 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The limits of the user who sends the request. The server sets this field, and a request
    /// cannot contain it.
    #[serde(skip)]
    pub within: Option<UserLimits>,
}

/// The counts and rankings of logged queries in a period. The server adds up counts that it keeps
/// for each hour and day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogOverview {
    /// The Unix second at which the counts begin, rounded down to a whole hour or day. For a user
    /// with limits, the server counts logged queries for some seconds only. The counts may then
    /// begin later than requested.
    pub from: u64,
    /// The Unix second before which the counts end, rounded up to a whole hour or day.
    pub to: u64,
    /// The length of the time units that were added up. It determines the rounding.
    pub period: PeriodLength,
    /// The number of queries.
    pub queries: u64,
    /// The number of queries by kind of outcome.
    pub outcomes: OutcomeCounts,
    /// The times to answer the queries.
    pub delays: Delays,
    /// The most frequent names, clients and other texts.
    pub tops: Vec<TopRanking>,
    /// The present rates of queries. For a user with limits, all rates are 0 and `secs` is 0.
    pub rates: QueryRates,
}

words! {
    /// The length of a time unit for which the server keeps counts of queries.
    pub enum PeriodLength {
        /// A minute; the counts are kept for a day.
        Minute = "minute",
        /// An hour; the counts are kept for a week.
        Hour = "hour",
        /// A day in UTC; the counts are kept for a year.
        Day = "day",
    }
}

/// The number of queries by kind of outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeCounts {
    /// Queries that were resolved or answered from a cache, with data or with a negative answer.
    pub answered: u64,
    /// Queries answered from local records, hosted zones, pools or special names, and queries for
    /// information about the server.
    pub local: u64,
    /// Queries that a rule or list blocked.
    pub blocked: u64,
    /// Queries that a rule or list answered with other data.
    pub rewritten: u64,
    /// Queries that were refused or truncated: because of the address of the client, by a rate
    /// limit or another rule, or without RD.
    pub refused: u64,
    /// Queries without a response.
    pub dropped: u64,
    /// Queries for which resolution failed, or did not begin because the server was overloaded.
    pub failed: u64,
    /// Queries that were malformed, or of a kind that the server does not implement.
    pub malformed: u64,
}

/// The times to answer queries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Delays {
    /// The time in microseconds within which half of the queries were answered, rounded up to a
    /// power of two; null without queries.
    pub median_us: Option<u64>,
    /// The time in microseconds within which 95 of 100 queries were answered, rounded up to a power
    /// of two; null without queries.
    pub p95_us: Option<u64>,
    /// The time in microseconds within which 99 of 100 queries were answered, rounded up to a power
    /// of two; null without queries.
    pub p99_us: Option<u64>,
    /// The histogram of the times, without classes that contain no queries.
    pub histogram: Vec<DelayClass>,
}

/// A class of the histogram: queries with similar times to answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DelayClass {
    /// The upper bound of the class in microseconds. The queries of the class took less than this
    /// time, and at least half of it.
    pub below_us: u64,
    /// The number of queries in the class.
    pub queries: u64,
}

words! {
    /// The kind of values that a ranking counts.
    pub enum RankingKind {
        /// Queried types (QTYPE).
        Types = "types",
        /// RCODEs of responses.
        Rcodes = "rcodes",
        /// Queried names (QNAME).
        Names = "names",
        /// Addresses of clients.
        Clients = "clients",
        /// Rules that decided.
        Rules = "rules",
        /// Lists that contain the queried name.
        Lists = "lists",
        /// Upstreams that answered.
        Upstreams = "upstreams",
        /// Queried names of blocked queries.
        BlockedNames = "blocked-names",
        /// Addresses of clients whose queries were blocked.
        BlockedClients = "blocked-clients",
        /// Lists that alone caused a block: no other list has the name, and no rule decided.
        LoneLists = "lone-lists",
    }
}

/// A ranking: the most frequent values of one kind. The server counts a limited number of values,
/// so a count may be too high.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TopRanking {
    /// The kind of the values.
    pub of: RankingKind,
    /// The values, the most frequent first.
    pub texts: Vec<RankedText>,
    /// The maximum number of queries for any value that is not in `texts`.
    pub others_at_most: u64,
}

/// A value in a ranking, with its number of queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankedText {
    /// The value, such as a name or the address of a client.
    pub text: String,
    /// The number of queries. The true number is at most this, and at least this minus `error`.
    pub queries: u64,
    /// The amount by which `queries` may be too high.
    pub error: u64,
}

/// The present rates of logged queries, measured over at most the last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct QueryRates {
    /// The number of seconds over which the rates were measured; 0 immediately after the start.
    pub secs: f64,
    /// The number of logged queries per second.
    pub queries: f64,
    /// The number of blocked queries per second.
    pub blocked: f64,
    /// The number of queries per second for which resolution failed.
    pub failed: f64,
}

/// A request for the counts of logged queries in a period, divided into steps of equal length.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogSeries {
    /// The Unix second at which the period begins; a day before `to` if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The Unix second before which the period ends; now if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The length of a step in seconds, at least 1. By default, the period has about 100 steps. The
    /// server uses longer steps if it has no counts for such short steps, or if the reply would
    /// have more than 1500 steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The limits of the user who sends the request. The server sets this field, and a request
    /// cannot contain it.
    #[serde(skip)]
    pub within: Option<UserLimits>,
}

/// The counts of logged queries in a period, divided into steps of equal length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogSteps {
    /// The length of a step in seconds.
    pub step: u64,
    /// The length of the time units that were added up for each step.
    pub period: PeriodLength,
    /// The steps without gaps, the earliest first. For a user with limits, the server counts logged
    /// queries for some seconds only. The steps may then begin later than requested.
    pub steps: Vec<LogStep>,
}

/// The counts of one step of a period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogStep {
    /// The Unix second at which the step begins, a multiple of the length of a step.
    pub at: u64,
    /// The number of queries.
    pub queries: u64,
    /// The number of queries by kind of outcome.
    pub outcomes: OutcomeCounts,
    /// The time in microseconds within which half of the queries were answered, rounded up to a
    /// power of two; null without queries.
    pub median_us: Option<u64>,
    /// The time in microseconds within which 99 of 100 queries were answered, rounded up to a power
    /// of two; null without queries.
    pub p99_us: Option<u64>,
}
