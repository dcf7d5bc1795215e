//! Requests to the query log and their replies.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::UserLimits;
use crate::part::{Part, write_json};
use crate::why::{CacheUse, QueryStage, ValidationState};
use crate::words::words;

/// The queries that a request is about; an absent field excludes no query.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogFilter {
    /// The QNAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A name: the filter selects queries for it and for all names below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under: Option<String>,
    /// A text: the filter selects queries whose QNAME has it somewhere, in upper or lower case. The
    /// QNAME ends with a dot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// The address or name of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The name of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// A group of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The QTYPE.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// The RCODE, such as `NXDOMAIN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rcode: Option<String>,
    /// The stage of processing that ended the query, such as a cache or a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<QueryStage>,
    /// The kind of outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<OutcomeKind>,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// A list that has the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// The upstream that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<SocketAddr>,
    /// The first Unix second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The Unix second after the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The limits of the user who sends the request. The server sets them: a request cannot contain
    /// them.
    #[serde(skip)]
    pub within: Option<UserLimits>,
}

/// A request for each new query, until the client closes the connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogTail {
    /// The queries.
    #[serde(default)]
    pub filter: LogFilter,
}

words! {
    /// The kind of outcome of a query, as statistics count it.
    pub enum OutcomeKind {
        /// The query was answered with data or a denial, from upstream or from a cache.
        Answered = "answered",
        /// The query was answered from local records or special names.
        Local = "local",
        /// A rule or list blocked the query.
        Blocked = "blocked",
        /// A rule answered the query with other data.
        Rewritten = "rewritten",
        /// The query was refused: the client is not allowed, or a rate limit applies.
        Refused = "refused",
        /// No reply was sent.
        Dropped = "dropped",
        /// Resolution failed.
        Failed = "failed",
        /// The query is malformed, or of a kind that is not implemented.
        Malformed = "malformed",
    }
}

words! {
    /// The transport of a query.
    pub enum LogTransport {
        /// UDP.
        Udp = "udp",
        /// TCP.
        Tcp = "tcp",
        /// TLS.
        Tls = "tls",
        /// HTTPS.
        Https = "https",
        /// QUIC.
        Quic = "quic",
        /// HTTPS, through a proxy that cannot read the query.
        Odoh = "odoh",
    }
}

/// A query with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogEntry {
    /// The ID of the entry; none before the entry is in a file.
    pub id: Option<u64>,
    /// The time of arrival in Unix microseconds.
    pub time_us: u64,
    /// The address of the client, as far as `privacy` permits: the address, its network, or a
    /// pseudonym.
    pub client: Option<String>,
    /// The name of the client.
    pub client_name: Option<String>,
    /// The groups of the client.
    pub groups: Vec<String>,
    /// The listener; none for an address of `[server]`.
    pub listener: Option<String>,
    /// The transport.
    pub transport: LogTransport,
    /// QNAME in lower case; none if there was no question, or if `privacy` withholds it.
    pub name: Option<String>,
    /// QTYPE.
    #[serde(rename = "type")]
    pub rtype: String,
    /// QCLASS.
    pub class: String,
    /// The RCODE; none if no reply was sent.
    pub rcode: Option<String>,
    /// The flags of the reply, such as `rd`, `ra`, `ad`, and those of the query's OPT, such as
    /// `edns` and `do`.
    pub flags: Vec<String>,
    /// The code of the extended error.
    pub ede: Option<u16>,
    /// The stage of processing that ended the query, such as a cache or a list.
    pub outcome: QueryStage,
    /// The kind of outcome.
    pub kind: OutcomeKind,
    /// The use of the caches for the query.
    pub cache: CacheUse,
    /// The result of validation.
    pub validated: ValidationState,
    /// The rule that decided.
    pub rule: Option<String>,
    /// The lists that have the name, the deciding one first.
    pub lists: Vec<String>,
    /// The number of the configuration and lists that decided, counted from 1 since the start. It
    /// is not the number of a revision in the history of the configuration.
    pub revision: u32,
    /// The upstream that answered.
    pub upstream: Option<String>,
    /// The round-trip time of the query in milliseconds.
    pub upstream_rtt_ms: Option<u32>,
    /// The microseconds from arrival to reply.
    pub duration_us: Option<u64>,
    /// Number of octets of the query.
    pub query_octets: u16,
    /// Number of octets of the reply; 0 if none was sent.
    pub reply_octets: u16,
    /// The number of records in the answer section.
    pub answers: u16,
    /// The first addresses and targets of aliases in the answer.
    pub answer: Vec<String>,
}

/// A logged query that several clients get. The first client that needs it as JSON writes the JSON,
/// and the others share it.
#[derive(Debug, Clone)]
pub struct SharedEntry(Arc<WrittenEntry>);

#[derive(Debug)]
struct WrittenEntry {
    entry: LogEntry,
    json: OnceLock<Box<[u8]>>,
}

impl SharedEntry {
    /// Returns the JSON of the entry.
    pub fn json(&self) -> &[u8] {
        let write = || serde_json::to_vec(&self.0.entry).unwrap_or_default().into();
        self.0.json.get_or_init(write)
    }
}

impl From<LogEntry> for SharedEntry {
    fn from(entry: LogEntry) -> Self {
        Self(Arc::new(WrittenEntry { entry, json: OnceLock::new() }))
    }
}

impl Deref for SharedEntry {
    type Target = LogEntry;

    fn deref(&self) -> &LogEntry {
        &self.0.entry
    }
}

impl PartialEq for SharedEntry {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedEntry {}

impl Serialize for SharedEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        LogEntry::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for SharedEntry {
    fn schema_name() -> Cow<'static, str> {
        LogEntry::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        LogEntry::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        LogEntry::json_schema(generator)
    }
}

/// A line of `avocet log tail`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogLine {
    /// A query.
    Query(SharedEntry),
    /// This many new queries were skipped, because the client reads too slowly.
    Skipped(u64),
    /// There are no new queries; the client may check that the server still runs.
    Waiting {},
}

impl Part for LogLine {
    const IS_URGENT: bool = true;

    fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Query(entry) => {
                out.extend_from_slice(b"{\"query\":");
                out.extend_from_slice(entry.json());
                out.push(b'}');
            }
            Self::Skipped(_) | Self::Waiting {} => write_json(self, out),
        }
    }
}

/// The end of a reply with entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogFound {
    /// The number of entries.
    pub entries: u64,
}

/// A request for queries in the files of the log, the latest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogSearch {
    /// The queries.
    #[serde(default)]
    pub filter: LogFilter,
    /// Maximum number of queries in the reply, from 1 to 1000; 100 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The value of `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A page of queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPage {
    /// The queries, the latest first.
    pub queries: Vec<LogEntry>,
    /// The cursor of the next page; none at the end. A search stops after some seconds, so a page
    /// may have fewer queries than requested, or none, although there is a next page.
    pub next: Option<String>,
    /// The number of queries that were examined. For a user with limits, the number of queries that
    /// were found.
    pub examined: u64,
    /// Files that were not searched, or not completely.
    pub damaged: Vec<DamagedFile>,
}

/// A file of the log that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct DamagedFile {
    /// The name of the file in the directory of the log.
    pub file: String,
    /// The reason.
    pub reason: String,
}

/// A request for the number of queries in the files of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogCount {
    /// The queries.
    #[serde(default)]
    pub filter: LogFilter,
    /// The value of `next` of the reply before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The number of queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogCounted {
    /// The number of queries that were found by this request.
    pub queries: u64,
    /// The cursor with which the count continues; none if the count is complete.
    pub next: Option<String>,
    /// Files that were not counted, or not completely.
    pub damaged: Vec<DamagedFile>,
}

/// A request for one query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogShow {
    /// The ID of the entry.
    pub id: u64,
    /// The limits of the user who sends the request. The server sets them: a request cannot contain
    /// them.
    #[serde(skip)]
    pub within: Option<UserLimits>,
}

/// A request to delete queries from the files of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogPrune {
    /// The queries.
    #[serde(default)]
    pub filter: LogFilter,
    /// Whether to delete all queries. With `all`, a filter is not permitted; without it, a filter
    /// is required.
    #[serde(default)]
    pub all: bool,
}

/// The result of deleting logged queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPruned {
    /// The number of queries that were deleted.
    pub queries: u64,
    /// Files that cannot be changed, and still have the queries.
    pub damaged: Vec<DamagedFile>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_clients_share_is_the_same_json_as_its_own() {
        let entry: SharedEntry = serde_json::from_value(serde_json::json!({
            "id": 7, "time-us": 1, "groups": ["all"], "transport": "udp", "name": "\"\n.example.",
            "type": "A", "class": "IN", "flags": ["rd"], "outcome": "packet-hit",
            "kind": "answered", "cache": "hit", "validated": "unknown", "lists": [],
            "revision": 1, "query-octets": 40, "reply-octets": 56, "answers": 1,
            "answer": ["192.0.2.1"],
        }))
        .unwrap();
        for line in [LogLine::Query(entry.clone()), LogLine::Query(entry), LogLine::Skipped(3)] {
            let mut written = b"before".to_vec();
            line.write_json(&mut written);
            let json = written.strip_prefix(b"before").unwrap();
            assert_eq!(json, serde_json::to_vec(&line).unwrap());
            assert_eq!(serde_json::from_slice::<LogLine>(json).unwrap(), line);
        }
    }
}
