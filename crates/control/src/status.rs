//! The reply about the state of the server.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backup::WaitingRestore;
use crate::certificates::CertificateStatus;
use crate::lists::ListStatus;
use crate::log::LogTransport;
use crate::words::words;
use crate::zones::ZoneStatus;

/// The state of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ServerStatus {
    /// The version of Avocet that runs.
    pub version: String,
    /// The path of the configuration file; null if the server runs without one.
    pub configuration: Option<String>,
    /// The addresses on which the server listens for queries.
    pub listen: Vec<String>,
    /// How the server resolves names to which no forwarding rule applies.
    pub mode: ResolverMode,
    /// The Unix second at which the server started.
    pub started_at: u64,
    /// The number of seconds since the server started.
    pub uptime_secs: u64,
    /// Whether every worker thread has responded recently; false if a worker is stuck.
    pub healthy: bool,
    /// Whether the server accepts queries; false while the server shuts down.
    pub serving: bool,
    /// The numbers of queries since the start, by result.
    pub queries: QueryCounts,
    /// The numbers of queries since the start, by transport. All transports are present, also those
    /// without queries.
    #[serde(default)]
    pub transports: Vec<TransportQueries>,
    /// The state of each list.
    pub lists: Vec<ListStatus>,
    /// The upstreams to which forwarding rules send queries.
    pub upstreams: Vec<UpstreamStatus>,
    /// The unencrypted upstreams that the server asks for encrypted servers (RFC 9462).
    #[serde(default)]
    pub discoveries: Vec<DiscoveryStatus>,
    /// The numbers of queries to authoritative servers. Missing unless `encrypt-authoritative` is
    /// on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<AuthorityQueries>,
    /// The state of each hosted zone.
    #[serde(default)]
    pub zones: Vec<ZoneStatus>,
    /// The certificates that the server shows to clients.
    #[serde(default)]
    pub certificates: Vec<CertificateStatus>,
    /// The key for oblivious queries, if the server is a target of Oblivious DNS over HTTPS;
    /// missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub odoh: Option<OdohStatus>,
    /// The backup that the server restores at its next start; missing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_restore: Option<WaitingRestore>,
    /// Warnings: problems that the operator has to solve.
    pub warnings: Vec<String>,
}

words! {
    /// How the server resolves names to which no forwarding rule applies.
    pub enum ResolverMode {
        /// The server sends queries only to the upstreams of forwarding rules.
        Forward = "forward",
        /// The server itself resolves names, from the root down.
        Recurse = "recurse",
    }
}

/// The numbers of queries since the start, by result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct QueryCounts {
    /// The number of all queries.
    pub all: u64,
    /// Queries that a cache answered, also with expired data.
    pub from_cache: u64,
    /// Queries that local records, hosted zones, pools or special names answered.
    pub local: u64,
    /// Queries that the policy blocked, dropped, refused by a rate limit, or truncated.
    pub blocked: u64,
    /// Queries that the policy answered with other data.
    pub rewritten: u64,
    /// Queries that were resolved with queries to other servers.
    pub resolved: u64,
    /// Queries for which resolution failed, failed recently, or did not begin because the server
    /// was overloaded.
    pub failed: u64,
    /// Queries that were refused because the address of the client is not permitted.
    pub refused: u64,
}

/// The number of queries over one transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TransportQueries {
    /// The transport.
    pub transport: LogTransport,
    /// The number of queries over this transport since the start.
    pub queries: u64,
}

/// The key with which this server, as a target of Oblivious DNS over HTTPS, decrypts queries (RFC
/// 9230).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OdohStatus {
    /// The first octets of the ID of the present key, in hexadecimal form.
    pub key_id: String,
    /// The Unix second at which the key was created.
    pub created_at: u64,
    /// The Unix second at which another key replaces this key. The server still accepts queries for
    /// this key for one further day.
    pub next_at: u64,
}

/// The state of an upstream: a server to which forwarding rules send queries. Counts begin at the
/// start of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct UpstreamStatus {
    /// The address and port of the upstream.
    pub address: SocketAddr,
    /// The transport of the queries to the upstream.
    pub transport: UpstreamTransport,
    /// The host name that the certificate of the upstream must have; null if none is required.
    pub name: Option<String>,
    /// The reason why TLS to the upstream fails; null if TLS works or is not used.
    pub tls_error: Option<String>,
    /// Number of queries to the upstream.
    pub queries: u64,
    /// Number of responses from the upstream.
    pub replies: u64,
    /// The number of failures: timeouts, network errors, and responses with SERVFAIL or REFUSED.
    pub failures: u64,
    /// The mean round-trip time of all responses in milliseconds; null before the first response.
    pub rtt_ms: Option<u64>,
    /// Whether the server sends queries to the upstream.
    pub state: UpstreamState,
}

/// The numbers of queries to authoritative servers since the start, with opportunistic encryption
/// (RFC 9539).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct AuthorityQueries {
    /// The number of all queries to authoritative servers.
    pub queries: u64,
    /// The number of these queries that were sent over TLS.
    pub encrypted: u64,
    /// The number of attempts to reach an authoritative server over TLS that succeeded.
    pub probes_answered: u64,
    /// The number of attempts to reach an authoritative server over TLS that failed.
    pub probes_failed: u64,
}

/// An unencrypted upstream that the server asks for encrypted servers. The upstream designates
/// these servers in its response (RFC 9462).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DiscoveryStatus {
    /// The address and port of the unencrypted upstream.
    pub upstream: SocketAddr,
    /// The designated server that gets the queries now, such as `tls://192.0.2.1:853`; null if none
    /// is in use.
    pub designated: Option<String>,
    /// The reason why the server trusts the designated server; null if no designated server is in
    /// use.
    pub proof: Option<DiscoveryProof>,
    /// The reason why no designated server is in use, or why the last search for one failed.
    pub error: Option<String>,
    /// Whether the unencrypted upstream itself gets no queries (`discover = "strict"`).
    pub strict: bool,
    /// The Unix second at which the server asks the upstream again.
    pub next_at: u64,
}

words! {
    /// The reason why a designated server may get the queries instead of the upstream.
    pub enum DiscoveryProof {
        /// The certificate of the designated server contains the address of the upstream.
        Verified = "verified",
        /// The designated server has the same address as the upstream. Its certificate was not
        /// checked.
        SameAddress = "same address",
    }
}

words! {
    /// The transport of queries to an upstream.
    pub enum UpstreamTransport {
        /// DNS over TCP.
        Tcp = "tcp",
        /// DNS over TLS.
        Tls = "tls",
        /// DNS over HTTPS, in HTTP/2.
        Https = "https",
        /// DNS over QUIC.
        Quic = "quic",
        /// DNS over HTTPS, in HTTP/3.
        H3 = "h3",
        /// DNS over UDP. After a truncated response, the server repeats the query over TCP.
        Udp = "udp",
    }
}

words! {
    /// Whether the server sends queries to an upstream.
    pub enum UpstreamState {
        /// The server sends queries to the upstream.
        Asked = "asked",
        /// Queries to the upstream failed in all workers, so the server sends only single queries
        /// to test it.
        Avoided = "avoided after failures",
    }
}
