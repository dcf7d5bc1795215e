//! Replies about the caches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::part::Part;
use crate::words::words;

/// Counts of the caches since the start of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CacheStats {
    /// The packet cache: responses per kind of client.
    pub packet_cache: PacketCacheStats,
    /// The RRset cache.
    pub rrset_cache: RrsetCacheStats,
    /// The cache of failures (RFC 9520).
    pub failure_cache: StoreCounts,
    /// Responses with expired data.
    pub stale_answers: u64,
    /// Popular answers that were resolved again before they expired.
    pub prefetches: u64,
}

/// Counts of the store of one cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct StoreCounts {
    /// Entries now.
    pub entries: u64,
    /// Number of octets in use.
    pub bytes: usize,
    /// Maximum number of octets.
    pub bytes_limit: usize,
    /// Entries that were stored.
    pub inserts: u64,
    /// Entries that were removed for lack of room.
    pub evictions: u64,
    /// Entries that were removed because they had expired.
    pub expired: u64,
}

/// Counts of the packet cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PacketCacheStats {
    /// Counts of the store.
    #[serde(flatten)]
    pub store: StoreCounts,
    /// Queries that it answered.
    pub hits: u64,
    /// Queries that it did not answer.
    pub misses: u64,
}

/// Counts of the RRset cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RrsetCacheStats {
    /// Counts of the store.
    #[serde(flatten)]
    pub store: StoreCounts,
    /// Queries that it answered.
    pub hits: u64,
}

/// The number of removed entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flushed {
    /// RRsets and negative answers.
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

/// The end of a dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dumped {
    /// Entries of the RRset cache.
    pub rrsets: u64,
    /// Entries of the packet cache.
    pub packets: u64,
}

/// An RRset or a negative answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CachedRrset {
    /// The owner.
    pub name: String,
    /// The class.
    pub class: String,
    /// Whether the records only serve to find servers, and answer no query.
    pub to_find_servers: bool,
    /// The cached data.
    #[serde(flatten)]
    pub content: RrsetContent,
    /// The time that is left.
    #[serde(flatten)]
    pub age: CacheAge,
}

/// The cached data of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RrsetContent {
    /// The cached records of a type.
    Records {
        /// The type.
        #[serde(rename = "type")]
        rtype: String,
        /// The data of each record, as in a zone file.
        data: Vec<String>,
        /// The number of signatures that are cached with the records.
        signatures: usize,
        /// The rank of the source.
        rank: DataRank,
        /// The security status.
        security: SecurityStatus,
    },
    /// A negative answer.
    Denial {
        /// The kind of data that does not exist.
        denies: DenialKind,
        /// The type, for NODATA.
        #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
        rtype: Option<String>,
    },
}

words! {
    /// The kinds of data that a negative answer denies.
    pub enum DenialKind {
        /// The type does not exist at the name.
        Nodata = "NODATA",
        /// The name does not exist.
        Nxdomain = "NXDOMAIN",
    }
}

/// The time that an entry has left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CacheAge {
    /// The entry is valid.
    Fresh {
        /// Seconds that it stays valid.
        ttl: u32,
    },
    /// The entry has expired, and is used if resolution fails.
    Expired {
        /// Seconds since the data expired.
        #[serde(rename = "expired-secs")]
        expired_secs: u32,
    },
}

words! {
    /// The rank of the source of data (RFC 2181 §5.4.1).
    pub enum DataRank {
        /// The additional section.
        Additional = "additional",
        /// The answer section of a server without authority.
        NonAuthoritativeAnswer = "non-authoritative-answer",
        /// The authority section of an authoritative server.
        AuthoritativeAuthority = "authoritative-authority",
        /// The answer section of an authoritative server.
        AuthoritativeAnswer = "authoritative-answer",
    }
}

words! {
    /// The security status of data (RFC 4035 §4.3).
    pub enum SecurityStatus {
        /// The data was not validated.
        Unchecked = "unchecked",
        /// No trust anchor covers the data.
        Indeterminate = "indeterminate",
        /// A signed zone above proves that the data is not signed.
        Insecure = "insecure",
        /// The data does not validate.
        Bogus = "bogus",
        /// The data validates.
        Secure = "secure",
    }
}

/// A response that is cached for a kind of client.
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
    /// The flags of the queries that it answers.
    pub flags: Vec<QueryFlag>,
    /// Seconds that it stays valid.
    pub ttl: u32,
}

words! {
    /// A flag of a query that selects the response.
    pub enum QueryFlag {
        /// Recursion desired.
        Rd = "RD",
        /// Checking disabled.
        Cd = "CD",
        /// DNSSEC OK.
        Do = "DO",
    }
}
