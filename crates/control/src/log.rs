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

/// A filter that selects logged queries. A query must meet all conditions. A field that is missing
/// is no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogFilter {
    /// The queried name (QNAME).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A name: the filter selects queries for it and for all names below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under: Option<String>,
    /// A text that the queried name must contain, in upper or lower case. The queried name ends
    /// with a dot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// The client: an address, a network such as `192.168.7.0/24`, or the name of a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The name of the client. Unlike `client`, this field never means an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The name of a group to which the client belongs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The queried type (QTYPE), such as `AAAA`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// The RCODE, such as `NXDOMAIN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rcode: Option<String>,
    /// The stage of processing that ended the query, such as a cache, or a block by the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<QueryStage>,
    /// The kind of outcome, a group of several stages, such as `blocked` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<OutcomeKind>,
    /// The name of the rule that decided about the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The name of a list that has the queried name, an alias in the answer, or the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// The address and port of the upstream that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<SocketAddr>,
    /// The Unix second at which the selected time begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The Unix second before which the selected time ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The limits of the user who sends the request. The server sets this field, and a request
    /// cannot contain it.
    #[serde(skip)]
    pub within: Option<UserLimits>,
}

/// A request for each new query as soon as it is answered. The reply goes on until the client
/// closes the connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogTail {
    /// The filter that selects the queries.
    #[serde(default)]
    pub filter: LogFilter,
}

words! {
    /// A kind of outcome: a group of the stages that end queries. Statistics count queries by these
    /// kinds.
    pub enum OutcomeKind {
        /// The query was resolved or answered from a cache, with data or with a negative answer.
        Answered = "answered",
        /// The query was answered from local records, hosted zones, pools or special names, or was
        /// for information about the server (class CH).
        Local = "local",
        /// A rule or list blocked the query.
        Blocked = "blocked",
        /// A rule or list answered the query with other data.
        Rewritten = "rewritten",
        /// The query was refused or truncated: the address of the client is not permitted, a rate
        /// limit or another rule applies, or the query has no RD and the caches have no answer.
        Refused = "refused",
        /// No response was sent.
        Dropped = "dropped",
        /// Resolution failed, or did not begin because the server was overloaded.
        Failed = "failed",
        /// The query is malformed, or of a kind that is not implemented.
        Malformed = "malformed",
    }
}

words! {
    /// The transport of a query.
    pub enum LogTransport {
        /// DNS over UDP.
        Udp = "udp",
        /// DNS over TCP.
        Tcp = "tcp",
        /// DNS over TLS.
        Tls = "tls",
        /// DNS over HTTPS, in HTTP/2 or HTTP/3.
        Https = "https",
        /// DNS over QUIC.
        Quic = "quic",
        /// Oblivious DNS over HTTPS, through a proxy that cannot read the query.
        Odoh = "odoh",
    }
}

/// A logged query with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogEntry {
    /// The ID of the entry in the query log; null if the entry is not in a file yet.
    pub id: Option<u64>,
    /// The time of the response, or of the end of a query without a response, in microseconds since
    /// 1970.
    pub time_us: u64,
    /// The client, as far as the setting `privacy` permits: the address, the network or a
    /// pseudonym. Null if `privacy` permits none of these.
    pub client: Option<String>,
    /// The name of the client; null if the client has no name or `privacy` withholds the name.
    pub client_name: Option<String>,
    /// The groups of the client.
    pub groups: Vec<String>,
    /// The name of the listener at which the query arrived; null for an address of `[server]`.
    pub listener: Option<String>,
    /// The transport of the query.
    pub transport: LogTransport,
    /// The queried name (QNAME) in lower case. Null if the query had no question, or if `privacy`
    /// withholds the name.
    pub name: Option<String>,
    /// The queried type (QTYPE).
    #[serde(rename = "type")]
    pub rtype: String,
    /// The class of the query (QCLASS).
    pub class: String,
    /// The RCODE of the response; null if no response was sent.
    pub rcode: Option<String>,
    /// The flags that are set in the header of the response: `aa`, `tc`, `rd`, `ra`, `ad`, `cd`.
    /// Empty if no response was sent.
    pub flags: Vec<String>,
    /// The code of the extended error in the response (RFC 8914); null if there is none.
    pub ede: Option<u16>,
    /// The stage of processing that ended the query, such as a cache, or a block by the policy.
    pub outcome: QueryStage,
    /// The kind of outcome: the group of stages to which `outcome` belongs.
    pub kind: OutcomeKind,
    /// Whether the caches had an answer.
    pub cache: CacheUse,
    /// The result of DNSSEC validation of the answer.
    pub validated: ValidationState,
    /// The name of the rule that decided; null if no rule decided.
    pub rule: Option<String>,
    /// The lists that match the query or its answer. If a list decided, it comes first.
    pub lists: Vec<String>,
    /// The number of the state of configuration and lists that decided, counted from 1 since the
    /// start of the server. This number is not the number of a revision in the history of the
    /// configuration.
    pub revision: u32,
    /// The upstream that answered; null if the query went to no upstream.
    pub upstream: Option<String>,
    /// The round-trip time of the query to the upstream in milliseconds; null if there was none.
    pub upstream_rtt_ms: Option<u32>,
    /// The time from the arrival of the query to the response, or to the end of a query without a
    /// response, in microseconds.
    pub duration_us: Option<u64>,
    /// The size of the query in octets.
    pub query_octets: u16,
    /// The size of the response in octets; 0 if no response was sent.
    pub reply_octets: u16,
    /// The number of records in the answer section of the response.
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

/// A line of the reply to a request for new queries (`avocet log tail`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogLine {
    /// A new query.
    Query(SharedEntry),
    /// The number of new queries that the server skipped here, because the client reads too slowly.
    Skipped(u64),
    /// A sign that the connection works. The server sends it at the start, and after every ten
    /// seconds without a query.
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

/// The end of a stream of logged queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogFound {
    /// The number of queries in the stream.
    pub entries: u64,
}

/// A request to search the files of the query log, the latest queries first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogSearch {
    /// The filter that selects the queries.
    #[serde(default)]
    pub filter: LogFilter,
    /// The maximum number of queries in the reply, from 1 to 1000; 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The place at which the search continues: the value of `next` in the previous reply. Without
    /// this field, the search begins with the latest query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A page of the logged queries that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPage {
    /// The found queries, the latest first.
    pub queries: Vec<LogEntry>,
    /// The place at which the next page begins; null if the search has reached the end of the log.
    /// A search stops after about three seconds. A page may therefore have few queries, or none,
    /// although `next` is not null.
    pub next: Option<String>,
    /// The number of logged queries that the search examined. If the user has limits, only the
    /// number of found queries.
    pub examined: u64,
    /// Files of the log that could not be searched, or only in part.
    pub damaged: Vec<DamagedFile>,
}

/// A file of the log that the server cannot use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct DamagedFile {
    /// The name of the file in the directory of the query log.
    pub file: String,
    /// The reason why the file cannot be used.
    pub reason: String,
}

/// A request to count queries in the files of the query log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogCount {
    /// The filter that selects the queries.
    #[serde(default)]
    pub filter: LogFilter,
    /// The place at which the count continues: the value of `next` in the previous reply. Without
    /// this field, the count begins with the latest query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The number of queries that a count found so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogCounted {
    /// The number of queries that this request found, without those of earlier requests.
    pub queries: u64,
    /// The place at which the count continues; null if the count is complete. A count stops after
    /// about three seconds.
    pub next: Option<String>,
    /// Files of the log that could not be counted, or only in part.
    pub damaged: Vec<DamagedFile>,
}

/// A request for one entry of the query log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogShow {
    /// The ID of the entry, as the reply to a search shows it.
    pub id: u64,
    /// The limits of the user who sends the request. The server sets this field, and a request
    /// cannot contain it.
    #[serde(skip)]
    pub within: Option<UserLimits>,
}

/// A request to delete queries from the files of the query log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogPrune {
    /// The filter that selects the queries to delete.
    #[serde(default)]
    pub filter: LogFilter,
    /// Whether to delete all queries. A request needs either `all` or a filter, and not both.
    #[serde(default)]
    pub all: bool,
}

/// The reply to a request to delete logged queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPruned {
    /// The number of queries that were deleted.
    pub queries: u64,
    /// Files that the server could not change. These files may still have queries that match the
    /// filter.
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
