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
    /// The version.
    pub version: String,
    /// The configuration file, if there is one.
    pub configuration: Option<String>,
    /// The addresses that it listens on.
    pub listen: Vec<String>,
    /// The way in which the server resolves names.
    pub mode: ResolverMode,
    /// The Unix second of its start.
    pub started_at: u64,
    /// Seconds since its start.
    pub uptime_secs: u64,
    /// Whether every worker thread has completed a turn of its event loop recently.
    pub healthy: bool,
    /// Whether the server accepts queries; false while it shuts down.
    pub serving: bool,
    /// Queries since its start.
    pub queries: QueryCounts,
    /// Queries since its start by transport, of all transports.
    #[serde(default)]
    pub transports: Vec<TransportQueries>,
    /// The lists.
    pub lists: Vec<ListStatus>,
    /// The upstreams of forwarding rules.
    pub upstreams: Vec<UpstreamStatus>,
    /// The upstreams that are queried for the encrypted servers that they designate.
    #[serde(default)]
    pub discoveries: Vec<DiscoveryStatus>,
    /// Queries to authoritative servers; none unless the server uses opportunistic encryption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<AuthorityQueries>,
    /// The hosted zones.
    #[serde(default)]
    pub zones: Vec<ZoneStatus>,
    /// The certificates that clients are shown.
    #[serde(default)]
    pub certificates: Vec<CertificateStatus>,
    /// The target of Oblivious DNS over HTTPS; none if the server is no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub odoh: Option<OdohStatus>,
    /// The backup that the next start puts in place, if one waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_restore: Option<WaitingRestore>,
    /// Problems that the operator has to solve.
    pub warnings: Vec<String>,
}

words! {
    /// The way in which names without a forwarding rule are resolved.
    pub enum ResolverMode {
        /// Upstreams resolve.
        Forward = "forward",
        /// The server resolves, from the root.
        Recurse = "recurse",
    }
}

/// The numbers of queries, by the stage that ended them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct QueryCounts {
    /// The number of all queries.
    pub all: u64,
    /// Queries answered from a cache.
    pub from_cache: u64,
    /// Queries answered from local records or special names.
    pub local: u64,
    /// Queries blocked, dropped or limited by the policy.
    pub blocked: u64,
    /// Queries rewritten by the policy.
    pub rewritten: u64,
    /// Queries that were resolved.
    pub resolved: u64,
    /// Queries that failed.
    pub failed: u64,
    /// Queries refused because of the client's address.
    pub refused: u64,
}

/// The queries over a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TransportQueries {
    /// The transport.
    pub transport: LogTransport,
    /// The number of queries since the start.
    pub queries: u64,
}

/// The target of Oblivious DNS over HTTPS (RFC 9230).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OdohStatus {
    /// The first octets of the ID of the present key, in hexadecimal form.
    pub key_id: String,
    /// The Unix second at which the key was created.
    pub created_at: u64,
    /// The Unix second at which the next key replaces it. The server accepts the key for a day
    /// after that.
    pub next_at: u64,
}

/// An upstream of forwarding rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct UpstreamStatus {
    /// The address of the upstream.
    pub address: SocketAddr,
    /// The transport.
    pub transport: UpstreamTransport,
    /// The host name in its certificate, if TLS must prove one.
    pub name: Option<String>,
    /// The reason why TLS fails, if it does.
    pub tls_error: Option<String>,
    /// Number of queries to the upstream.
    pub queries: u64,
    /// Number of responses from the upstream.
    pub replies: u64,
    /// Timeouts, network errors, and the RCODEs SERVFAIL and REFUSED.
    pub failures: u64,
    /// The mean round-trip time in milliseconds, once there is a response.
    pub rtt_ms: Option<u64>,
    /// Whether the upstream gets queries.
    pub state: UpstreamState,
}

/// Queries to authoritative servers with opportunistic encryption (RFC 9539), since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct AuthorityQueries {
    /// All queries to authoritative servers.
    pub queries: u64,
    /// The queries that were sent over TLS.
    pub encrypted: u64,
    /// Connections over TLS that answered.
    pub probes_answered: u64,
    /// Connections over TLS that ended without an answer.
    pub probes_failed: u64,
}

/// An upstream that is queried for the encrypted servers that it designates (RFC 9462).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DiscoveryStatus {
    /// The address of the upstream.
    pub upstream: SocketAddr,
    /// The designated server that gets the queries, such as `tls://192.0.2.1:853`; none if no such
    /// server is in use.
    pub designated: Option<String>,
    /// The reason why the designated server may get the queries.
    pub proof: Option<DiscoveryProof>,
    /// The reason why no designated server is in use, or why the last attempt failed.
    pub error: Option<String>,
    /// Whether the upstream itself gets no queries.
    pub strict: bool,
    /// The Unix second of the next attempt.
    pub next_at: u64,
}

words! {
    /// The reason why a designated server may get the queries of the upstream.
    pub enum DiscoveryProof {
        /// The certificate of the designated server contains the address of the upstream.
        Verified = "verified",
        /// The designated server has the same address as the upstream; it has not proved its
        /// identity.
        SameAddress = "same address",
    }
}

words! {
    /// The transport of queries to an upstream.
    pub enum UpstreamTransport {
        /// TCP.
        Tcp = "tcp",
        /// TLS.
        Tls = "tls",
        /// HTTPS in HTTP/2.
        Https = "https",
        /// QUIC.
        Quic = "quic",
        /// HTTPS in HTTP/3.
        H3 = "h3",
        /// UDP, and TCP for truncated responses.
        Udp = "udp",
    }
}

words! {
    /// Whether an upstream gets queries.
    pub enum UpstreamState {
        /// The upstream gets queries.
        Asked = "asked",
        /// The upstream gets only probes, because it failed in all workers.
        Avoided = "avoided after failures",
    }
}
