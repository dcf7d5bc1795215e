//! Replies about the caches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::part::Part;
use crate::words::words;

/// The state of the caches, with counts since the start of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CacheStats {
    /// The packet cache, which has complete responses. Clients that the policy treats differently
    /// have separate responses.
    pub packet_cache: PacketCacheStats,
    /// The RRset cache, which has the records that other servers returned.
    pub rrset_cache: RrsetCacheStats,
    /// The failure cache, which has questions that could not be resolved (RFC 9520).
    pub failure_cache: StoreCounts,
    /// Responses with expired data, sent because resolution failed or took long.
    pub stale_answers: u64,
    /// Popular answers that the server resolved again before they expired.
    pub prefetches: u64,
}

/// The memory of one cache, and counts of its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct StoreCounts {
    /// The number of entries now.
    pub entries: u64,
    /// The number of octets that the cache uses now.
    pub bytes: usize,
    /// The maximum number of octets that the cache may use.
    pub bytes_limit: usize,
    /// Entries that were stored since the start.
    pub inserts: u64,
    /// Entries that were removed for lack of room since the start.
    pub evictions: u64,
    /// Entries that were removed since the start because they had expired.
    pub expired: u64,
}

/// The memory of the packet cache, and counts of queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PacketCacheStats {
    /// The memory of the packet cache, and counts of its entries.
    #[serde(flatten)]
    pub store: StoreCounts,
    /// Queries that the packet cache answered.
    pub hits: u64,
    /// Queries that the packet cache did not answer.
    pub misses: u64,
}

/// The memory of the RRset cache, and the count of answered queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RrsetCacheStats {
    /// The memory of the RRset cache, and counts of its entries.
    #[serde(flatten)]
    pub store: StoreCounts,
    /// Queries that the RRset cache answered.
    pub hits: u64,
}

/// The reply to a request that removed names from the caches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flushed {
    /// The number of removed RRsets and negative answers.
    pub rrsets: usize,
}

/// An entry of a cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "cache", rename_all = "kebab-case")]
pub enum CacheEntry {
    /// An entry of the RRset cache.
    Rrset(CachedRrset),
    /// An entry of the packet cache.
    Packet(CachedPacket),
}

impl Part for CacheEntry {}

/// The last line of a dump of the caches, with the number of entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dumped {
    /// The number of entries of the RRset cache in the dump.
    pub rrsets: u64,
    /// The number of entries of the packet cache in the dump.
    pub packets: u64,
}

/// An RRset or a negative answer in the RRset cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CachedRrset {
    /// The owner of the records, or the name that the negative answer is about.
    pub name: String,
    /// The class of the records, such as `IN`.
    pub class: String,
    /// Whether the server uses the records only to find name servers, and never in an answer.
    pub to_find_servers: bool,
    /// The records, or the negative answer.
    #[serde(flatten)]
    pub content: RrsetContent,
    /// The time until the entry expires, or the time since then.
    #[serde(flatten)]
    pub age: CacheAge,
}

/// The records of a cached RRset, or a cached negative answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RrsetContent {
    /// The records of an RRset.
    Records {
        /// The type of the records.
        #[serde(rename = "type")]
        rtype: String,
        /// The data of each record, as in a zone file.
        data: Vec<String>,
        /// The number of signatures that are cached with the records.
        signatures: usize,
        /// The rank of the data: how far the server trusts their source.
        rank: DataRank,
        /// The security status of the records according to DNSSEC.
        security: SecurityStatus,
    },
    /// A negative answer: the name or the type does not exist.
    Denial {
        /// The data that do not exist: the name, or only a type of the name.
        denies: DenialKind,
        /// The type that does not exist; missing if the name does not exist.
        #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
        rtype: Option<String>,
    },
}

words! {
    /// The data that a negative answer declares as missing.
    pub enum DenialKind {
        /// The name exists, and has no records of the type.
        Nodata = "NODATA",
        /// The name does not exist.
        Nxdomain = "NXDOMAIN",
    }
}

/// The time until a cached entry expires, or the time since then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CacheAge {
    /// The entry has not expired.
    Fresh {
        /// The number of seconds until the entry expires.
        ttl: u32,
    },
    /// The entry has expired. The server uses expired data only if resolution fails or takes long.
    Expired {
        /// The number of seconds since the entry expired.
        #[serde(rename = "expired-secs")]
        expired_secs: u32,
    },
}

words! {
    /// The part of a message from which cached data come. It determines how far the server trusts
    /// the data (RFC 2181 §5.4.1).
    pub enum DataRank {
        /// The additional section of a response: the lowest rank.
        Additional = "additional",
        /// The answer section of a response from a server that is not authoritative.
        NonAuthoritativeAnswer = "non-authoritative-answer",
        /// The authority section of a response from an authoritative server.
        AuthoritativeAuthority = "authoritative-authority",
        /// The answer section of a response from an authoritative server: the highest rank.
        AuthoritativeAnswer = "authoritative-answer",
    }
}

words! {
    /// The security status of data (RFC 4035 §4.3).
    pub enum SecurityStatus {
        /// The data was not validated.
        Unchecked = "unchecked",
        /// No trust anchor is at or above the name.
        Indeterminate = "indeterminate",
        /// A signed zone above proves that the zone of the data is not signed.
        Insecure = "insecure",
        /// Validation of the data failed.
        Bogus = "bogus",
        /// Validation of the data succeeded.
        Secure = "secure",
    }
}

/// A response in the packet cache, for the clients that the policy treats alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachedPacket {
    /// The QNAME of the query.
    pub name: String,
    /// The QTYPE of the query.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The QCLASS of the query.
    pub class: String,
    /// The RCODE of the response.
    pub rcode: String,
    /// The flags that a query must have to get this response.
    pub flags: Vec<QueryFlag>,
    /// The number of seconds until the response expires.
    pub ttl: u32,
}

words! {
    /// A flag of a query. Queries with different flags have separate responses in the packet cache.
    pub enum QueryFlag {
        /// Recursion desired: the query asks for recursion.
        Rd = "RD",
        /// Checking disabled: the client wants no validation.
        Cd = "CD",
        /// DNSSEC OK: the client wants DNSSEC records.
        Do = "DO",
    }
}
