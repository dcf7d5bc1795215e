//! Requests to the query log and their replies.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::part::Part;
use crate::why::{CacheUse, QueryStage, ValidationState};
use crate::words::words;

/// The queries that a request is about; a field that is absent excludes none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogFilter {
    /// The QNAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A name; queries for it and for names below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under: Option<String>,
    /// The address or name of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The QTYPE.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// The RCODE, such as `NXDOMAIN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rcode: Option<String>,
    /// The stage that ended the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<QueryStage>,
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
    /// The transport of a query.
    pub enum LogTransport {
        /// UDP.
        Udp = "udp",
        /// TCP.
        Tcp = "tcp",
    }
}

/// A query with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogEntry {
    /// When it arrived, in Unix microseconds.
    pub time_us: u64,
    /// The address of the client, as far as `privacy` permits: the address, its network, or a
    /// pseudonym.
    pub client: Option<String>,
    /// The name of the client.
    pub client_name: Option<String>,
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
    /// The stage that ended the query.
    pub outcome: QueryStage,
    /// What the caches had.
    pub cache: CacheUse,
    /// What validation found.
    pub validated: ValidationState,
    /// The rule that decided.
    pub rule: Option<String>,
    /// The lists that have the name, the deciding one first.
    pub lists: Vec<String>,
    /// The revision of the configuration and policy that decided.
    pub revision: u32,
    /// The upstream that answered.
    pub upstream: Option<String>,
    /// Its round-trip time in milliseconds.
    pub upstream_rtt_ms: Option<u32>,
    /// The microseconds from arrival to reply.
    pub duration_us: Option<u64>,
    /// Octets of the query.
    pub query_octets: u16,
    /// Octets of the reply; 0 if none was sent.
    pub reply_octets: u16,
    /// The number of records in the answer section.
    pub answers: u16,
    /// The first addresses and aliases of the answer.
    pub answer: Vec<String>,
}

/// A line of `avocet log tail`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogLine {
    /// A query.
    Query(Box<LogEntry>),
    /// This many new queries were skipped, because the client reads too slowly.
    Skipped(u64),
    /// There are no new queries; the client may check that the server still runs.
    Waiting {},
}

impl Part for LogLine {
    const IS_URGENT: bool = true;
}

/// The end of a reply with entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogFound {
    /// The number of entries.
    pub entries: u64,
}
