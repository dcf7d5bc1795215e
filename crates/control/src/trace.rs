//! The resolution of a question: a tree of steps, and the answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cache::SecurityStatus;
use crate::status::UpstreamTransport;
use crate::words::words;

/// The steps by which a question was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TraceReport {
    /// QNAME.
    pub name: String,
    /// QTYPE.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The Unix second of its start.
    pub at: u64,
    /// The duration in milliseconds.
    pub took_ms: u64,
    /// Queries to other servers.
    pub queries: usize,
    /// The steps.
    pub steps: Vec<TraceStep>,
    /// Further steps that were not recorded.
    pub steps_left_out: u32,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TraceStep {
    /// The time since the start, in milliseconds.
    pub at_ms: u32,
    /// The event.
    #[serde(flatten)]
    pub event: TraceEvent,
    /// The steps of a lookup that had to complete first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<TraceStep>,
}

/// An event while a question was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "step", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum TraceEvent {
    /// A lookup has to complete first.
    Seek {
        /// The purpose of the lookup.
        #[serde(rename = "for")]
        purpose: SeekPurpose,
        /// The name.
        name: String,
        /// The type.
        #[serde(rename = "type")]
        rtype: String,
    },
    /// The addresses of a server were looked up.
    Addresses {
        /// The number of addresses found.
        found: usize,
    },
    /// A cache had the data.
    Cached {
        /// The name.
        name: String,
        /// The type.
        #[serde(rename = "type")]
        rtype: String,
        /// The remaining TTL in seconds.
        ttl: u32,
        /// The kind of data.
        found: CacheFind,
        /// The security status.
        security: SecurityStatus,
    },
    /// Resolution continues at this zone cut.
    Cut {
        /// The zone.
        zone: String,
        /// The number of its servers.
        servers: usize,
        /// The number of their known addresses.
        addresses: usize,
    },
    /// A query was sent.
    Ask(SentQuery),
    /// The response comes from the server's copy of the root zone.
    LocalRoot {
        /// The name.
        name: String,
        /// The type.
        #[serde(rename = "type")]
        rtype: String,
    },
    /// An alias led to a name that this server answers without other servers.
    Own {
        /// The name.
        name: String,
        /// The type.
        #[serde(rename = "type")]
        rtype: String,
    },
    /// An equal query was already in flight: this query waits for the same response.
    Joined {},
    /// A server responded.
    Reply {
        /// The address and port of the server.
        server: String,
        /// The round-trip time in milliseconds.
        rtt_ms: u32,
        /// The kind of the response.
        reply: ReplyKind,
        /// RCODE.
        rcode: Option<String>,
    },
    /// A server did not respond in time.
    Silent {
        /// The address and port of the server.
        server: String,
        /// The time waited, in milliseconds.
        after_ms: u32,
    },
    /// A network error: the server cannot be reached.
    Unreachable {
        /// The address and port of the server.
        server: String,
    },
    /// TLS to the server failed; it gets no query without TLS.
    TlsFailed {
        /// The address and port of the server.
        server: String,
        /// The reason.
        why: String,
    },
    /// The response was accepted, as one of this class.
    Taken(ReplyClass),
    /// No server of the zone gave a usable response.
    NoReply {
        /// The reason.
        why: String,
    },
    /// The answer leads to another name.
    Alias {
        /// The name.
        name: String,
    },
    /// The keys of a zone were validated.
    Keys {
        /// The zone.
        zone: String,
        /// Key tags of the DS records or trust anchors that match its keys.
        vouched_by: Vec<u16>,
        /// Key tags of its keys.
        key_tags: Vec<u16>,
        /// The result.
        #[serde(flatten)]
        result: ValidationResult,
    },
    /// The keys of a zone were already validated.
    KnownKeys {
        /// The zone.
        zone: String,
        /// The result.
        #[serde(flatten)]
        result: ValidationResult,
    },
    /// Records or a negative answer were validated.
    Validated(ValidatedData),
    /// A limit ended resolution.
    Limit {
        /// The name of the limit.
        limit: String,
    },
    /// Resolution led to a response.
    Answered {
        /// RCODE.
        rcode: String,
        /// Whether all records of the answer are secure.
        authentic: bool,
    },
    /// Resolution failed.
    Failed {
        /// The extended error for the client.
        ede: u16,
        /// The text of the error.
        text: String,
    },
}

/// A query to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentQuery {
    /// The address and port of the server.
    pub server: String,
    /// The zone for which the server is queried; none if the query is forwarded.
    pub zone: Option<String>,
    /// QNAME; none if it is that of the question.
    pub name: Option<String>,
    /// QTYPE.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The transport.
    pub transport: UpstreamTransport,
    /// Whether the query has an OPT record.
    pub edns: bool,
    /// Whether a header of the PROXY protocol came before the query.
    #[serde(rename = "proxy-header", default)]
    pub proxy_header: bool,
}

/// Records or a negative answer that were validated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ValidatedData {
    /// The owner.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The signer, if there is a signature.
    pub signer: Option<String>,
    /// The key tag.
    pub key_tag: Option<u16>,
    /// The algorithm.
    pub algorithm: Option<u8>,
    /// The result.
    #[serde(flatten)]
    pub result: ValidationResult,
}

/// The result of validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValidationResult {
    /// The security status.
    pub verdict: SecurityStatus,
    /// The reason, unless the status is secure.
    pub why: Option<String>,
    /// The extended error.
    pub ede: Option<u16>,
}

words! {
    /// The purposes of a lookup.
    pub enum SeekPurpose {
        /// The servers of the root (RFC 8109).
        Priming = "the root's servers",
        /// The address of a server.
        Address = "address of a server",
        /// DS and DNSKEY records.
        Trust = "chain of trust",
    }
}

words! {
    /// The result of a lookup in a cache.
    pub enum CacheFind {
        /// Records.
        Records = "records",
        /// A denial of the type.
        Nodata = "NODATA",
        /// A denial of the name.
        Nxdomain = "NXDOMAIN",
        /// An NSEC record that proves that the name does not exist (RFC 8198).
        Gap = "a proven gap",
    }
}

words! {
    /// The kind of a response.
    pub enum ReplyKind {
        /// A message.
        Message = "message",
        /// TC is set: the query is repeated over TCP.
        Truncated = "truncated",
        /// The question in the response has another letter case: the query is repeated over TCP.
        OtherCase = "other-case",
        /// The client cookie is not ours: the query is repeated over TCP.
        OtherCookie = "other-cookie",
        /// The datagram is no DNS message.
        Malformed = "malformed",
        /// The RCODE is BADCOOKIE.
        BadCookie = "bad-cookie",
        /// An error because of the cookie: the query is repeated without a cookie.
        NoCookie = "no-cookie",
        /// An error because of EDNS: the query is repeated without EDNS.
        NoEdns = "no-edns",
    }
}

/// The class of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "as", rename_all = "kebab-case")]
pub enum ReplyClass {
    /// An answer.
    Answer {},
    /// A referral.
    Referral {
        /// The delegated zone.
        zone: String,
    },
    /// An answer of a server that is not authoritative for the zone.
    Hearsay {},
    /// The server does not serve the zone.
    Lame {},
    /// Signatures are missing in a signed zone.
    Unsigned {},
    /// An error.
    Error {
        /// RCODE.
        rcode: String,
    },
    /// The response is unusable for another reason.
    Unusable {},
}

/// A record of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerRecord {
    /// The section.
    pub section: AnswerSection,
    /// The owner.
    pub name: String,
    /// The TTL in seconds.
    pub ttl: u32,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The data, as in a zone file.
    pub data: String,
}

words! {
    /// A section of a message.
    pub enum AnswerSection {
        /// The answer section.
        Answer = "answer",
        /// The authority section.
        Authority = "authority",
        /// The additional section.
        Additional = "additional",
    }
}
