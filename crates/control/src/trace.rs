//! The resolution of a question: a tree of steps, and the answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cache::SecurityStatus;
use crate::status::UpstreamTransport;
use crate::words::words;

/// A trace: the steps by which the server resolved a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TraceReport {
    /// The name of the question (QNAME).
    pub name: String,
    /// The type of the question (QTYPE).
    #[serde(rename = "type")]
    pub rtype: String,
    /// The Unix second at which the resolution began.
    pub at: u64,
    /// The duration of the resolution in milliseconds.
    pub took_ms: u64,
    /// The number of queries that the server sent to other servers.
    pub queries: usize,
    /// The steps in the order of time, at most 256.
    pub steps: Vec<TraceStep>,
    /// The number of further steps, which the trace does not have.
    pub steps_left_out: u32,
}

/// A step of a resolution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TraceStep {
    /// The time of the step in milliseconds, from the start of the resolution.
    pub at_ms: u32,
    /// The event of this step.
    #[serde(flatten)]
    pub event: TraceEvent,
    /// The steps of a look-up that must end before the next step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<TraceStep>,
}

/// An event in a resolution. The field `step` has the kind of the event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "step", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum TraceEvent {
    /// The resolution has to look something else up first. The steps of this look-up are in
    /// `steps`.
    Seek {
        /// The purpose of the look-up.
        #[serde(rename = "for")]
        purpose: SeekPurpose,
        /// The name that is looked up.
        name: String,
        /// The type that is looked up.
        #[serde(rename = "type")]
        rtype: String,
    },
    /// The look-up of the addresses of a name server has ended.
    Addresses {
        /// The number of addresses that were found.
        found: usize,
    },
    /// A cache had the data, so no query was necessary.
    Cached {
        /// The name of the cached data.
        name: String,
        /// The type of the cached data.
        #[serde(rename = "type")]
        rtype: String,
        /// The remaining TTL in seconds.
        ttl: u32,
        /// The kind of the cached data: records, or a negative answer.
        found: CacheFind,
        /// The security status of the cached data according to DNSSEC.
        security: SecurityStatus,
    },
    /// The resolution continues at the name servers of this zone.
    Cut {
        /// The name of the zone.
        zone: String,
        /// The number of name servers of the zone.
        servers: usize,
        /// The number of known addresses of these name servers.
        addresses: usize,
    },
    /// The server sent a query to another server.
    Ask(SentQuery),
    /// The response comes from the copy of the root zone that this server keeps.
    LocalRoot {
        /// The name that was looked up in the copy.
        name: String,
        /// The type that was looked up in the copy.
        #[serde(rename = "type")]
        rtype: String,
    },
    /// An alias led to a name that this server answers itself, such as a local record.
    Own {
        /// The name to which the alias led.
        name: String,
        /// The type of the question.
        #[serde(rename = "type")]
        rtype: String,
    },
    /// An equal query to the same server was already in flight. This resolution uses its response
    /// too.
    Joined {},
    /// A response arrived.
    Reply {
        /// The address and port of the server.
        server: String,
        /// The round-trip time in milliseconds.
        rtt_ms: u32,
        /// The kind of the response: a usable message, or a problem.
        reply: ReplyKind,
        /// The RCODE of the response; null if the server did not use it, for example because the
        /// response is truncated.
        rcode: Option<String>,
    },
    /// A server did not respond in time.
    Silent {
        /// The address and port of the server.
        server: String,
        /// The time that the server waited, in milliseconds.
        after_ms: u32,
    },
    /// The network reported that the queried server cannot be reached.
    Unreachable {
        /// The address and port of the server.
        server: String,
    },
    /// TLS to the queried server failed. Without TLS, this server gets no query.
    TlsFailed {
        /// The address and port of the server.
        server: String,
        /// The reason why TLS failed.
        why: String,
    },
    /// The response was classified as one of these kinds, and is used accordingly.
    Taken(ReplyClass),
    /// No server of the zone gave a usable response.
    NoReply {
        /// The reason why no response was usable.
        why: String,
    },
    /// The answer is an alias to another name. The resolution continues there.
    Alias {
        /// The name to which the alias leads.
        name: String,
    },
    /// The keys of a zone (DNSKEY records) were validated.
    Keys {
        /// The name of the zone.
        zone: String,
        /// The tags of the DS records or trust anchors that match keys of the zone.
        vouched_by: Vec<u16>,
        /// The tags of the keys of the zone.
        key_tags: Vec<u16>,
        /// The result of the validation of the keys.
        #[serde(flatten)]
        result: ValidationResult,
    },
    /// The keys of a zone had already been validated earlier.
    KnownKeys {
        /// The name of the zone.
        zone: String,
        /// The result of the earlier validation.
        #[serde(flatten)]
        result: ValidationResult,
    },
    /// Records, or a negative answer, were validated.
    Validated(ValidatedData),
    /// The resolution reached a limit, and ended.
    Limit {
        /// The name of the limit.
        limit: String,
    },
    /// The resolution ended with a response.
    Answered {
        /// The RCODE of the response.
        rcode: String,
        /// Whether DNSSEC proves all records of the answer.
        authentic: bool,
    },
    /// The resolution failed. The client gets SERVFAIL, or expired data.
    Failed {
        /// The code of the extended error that the client gets (RFC 8914).
        ede: u16,
        /// The text of the extended error.
        text: String,
    },
}

/// A query that the server sent to another server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentQuery {
    /// The address and port of the queried server.
    pub server: String,
    /// The zone for which the server is queried; null if the query is forwarded to an upstream.
    pub zone: Option<String>,
    /// The name in the query; null if it is the name of the question.
    pub name: Option<String>,
    /// The type in the query.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The transport of the query.
    pub transport: UpstreamTransport,
    /// Whether the query has an OPT record.
    pub edns: bool,
    /// Whether the server sent the address of the client before the query, in a header of the PROXY
    /// protocol.
    #[serde(rename = "proxy-header", default)]
    pub proxy_header: bool,
}

/// Records or a negative answer that were validated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ValidatedData {
    /// The owner of the records, or the name that the negative answer is about.
    pub name: String,
    /// The type of the records, or the type that the negative answer is about.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The zone that signed the records; null if they have no signature.
    pub signer: Option<String>,
    /// The tag of the key that made the signature; null without a signature.
    pub key_tag: Option<u16>,
    /// The number of the DNSSEC algorithm of the signature; null without a signature.
    pub algorithm: Option<u8>,
    /// The result of the validation.
    #[serde(flatten)]
    pub result: ValidationResult,
}

/// The result of DNSSEC validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValidationResult {
    /// The security status.
    pub verdict: SecurityStatus,
    /// The reason for the result; null if the data are secure.
    pub why: Option<String>,
    /// The code of the extended error for this result (RFC 8914); null if there is none.
    pub ede: Option<u16>,
}

words! {
    /// The purpose of a look-up within a resolution.
    pub enum SeekPurpose {
        /// To find the name servers of the root zone (RFC 8109).
        Priming = "the root's servers",
        /// To find the address of a name server.
        Address = "address of a server",
        /// To get the DS and DNSKEY records for validation.
        Trust = "chain of trust",
    }
}

words! {
    /// The kind of data that a cache had.
    pub enum CacheFind {
        /// Records of the name and type.
        Records = "records",
        /// A negative answer: the name exists, and has no records of the type.
        Nodata = "NODATA",
        /// A negative answer: the name does not exist.
        Nxdomain = "NXDOMAIN",
        /// An NSEC or NSEC3 record of another name that proves that this name does not exist (RFC
        /// 8198).
        Gap = "a proven gap",
    }
}

words! {
    /// The kind of a response: a usable message, or a problem.
    pub enum ReplyKind {
        /// A DNS message without any of the following problems.
        Message = "message",
        /// The response is truncated (flag TC). The server repeats the query over TCP.
        Truncated = "truncated",
        /// The question in the response has another letter case than in the query, as in a forged
        /// response. The server repeats the query over TCP.
        OtherCase = "other-case",
        /// The DNS cookie of the client in the response is not the one in the query, as in a forged
        /// response. The server repeats the query over TCP.
        OtherCookie = "other-cookie",
        /// The datagram is no DNS message.
        Malformed = "malformed",
        /// The other server requires a DNS cookie (RCODE BADCOOKIE).
        BadCookie = "bad-cookie",
        /// The response is an error that the DNS cookie may have caused. The server repeats the
        /// query without a cookie.
        NoCookie = "no-cookie",
        /// The response is an error that EDNS may have caused. The server repeats the query without
        /// EDNS.
        NoEdns = "no-edns",
    }
}

/// The class of a response. The field `as` has its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "as", rename_all = "kebab-case")]
pub enum ReplyClass {
    /// The response has the answer to the question.
    Answer {},
    /// The response refers to the name servers of a zone closer to the name.
    Referral {
        /// The zone to which the response refers.
        zone: String,
    },
    /// The response has an answer, but its server does not seem to be authoritative for the zone.
    Hearsay {},
    /// The queried server does not serve the zone (a lame delegation).
    Lame {},
    /// The zone is signed, but the response has no signatures.
    Unsigned {},
    /// The response is an error.
    Error {
        /// The RCODE of the error.
        rcode: String,
    },
    /// The response is unusable for another reason.
    Unusable {},
}

/// A record of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerRecord {
    /// The section of the response that has the record.
    pub section: AnswerSection,
    /// The owner of the record.
    pub name: String,
    /// The TTL in seconds.
    pub ttl: u32,
    /// The type of the record.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The data of the record, as in a zone file.
    pub data: String,
}

words! {
    /// A section of a DNS message.
    pub enum AnswerSection {
        /// The answer section.
        Answer = "answer",
        /// The authority section.
        Authority = "authority",
        /// The additional section.
        Additional = "additional",
    }
}
