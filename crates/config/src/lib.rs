//! The configuration: one TOML file, overridden by environment variables, as plain typed values.
//!
//! ```text
//!   file ──┐
//!          ├─ Source ── Spec ── Config          Source: text and locations      (source.rs)
//!   env ───┘             │         │            Spec:   what may be written     (spec.rs)
//!                        └ Errors ─┘            Config: what the server uses    (this file)
//! ```
//! Everything in a [`Config`] has been checked; the server never checks it again. This module opens
//! no socket and decides nothing about a running server: building state out of a `Config` is the
//! snapshot's part.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use avocet_dnssec::anchor::Anchor;
use avocet_resolver::{RootServer, StubZone};
use avocet_wire::Rtype;
use ipnet::IpNet;

pub mod block;
mod check;
pub mod dns64;
mod error;
mod forward;
mod hints;
mod known;
mod listener;
mod location;
pub mod name;
pub mod policy;
mod policy_spec;
pub mod ports;
mod record;
pub mod recurse;
pub mod salvage;
mod schema;
mod setting;
mod show;
mod show_policy;
mod source;
mod spec;
pub mod upstream;
pub mod validate;

use dns64::Dns64Config;
pub use error::{HintFault, KeyAdvice, SettingError};
pub use listener::ListenerConfig;
pub use location::find;
use ports::AvoidPorts;
use recurse::{LocalRootSource, Mode};
pub use schema::json_schema;
pub use source::{ConfigError, ConfigErrors};

/// The data directory where none is written.
const DEFAULT_DIRECTORY: &str = "./avocet-data";

/// The whole configuration, validated, with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file sets nothing: it is empty, or has comments and headers only. So is none.
    pub is_bare: bool,
    /// Listeners, admission and the shape of answers.
    pub server: ServerConfig,
    /// How names are resolved.
    pub resolver: ResolverConfig,
    /// The ports that queries to servers do not leave from.
    pub avoid_ports: AvoidPorts,
    /// Zones with configured authoritative servers, each once.
    pub stubs: Vec<StubZone>,
    /// How answers are validated.
    pub dnssec: DnssecConfig,
    /// How addresses are translated.
    pub dns64: Dns64Config,
    /// Forwarding rules, at most one for a zone; not empty where names are resolved by them only.
    pub forwards: Vec<ForwardConfig>,
    /// Sizes and time limits of the two answer caches.
    pub cache: CacheConfig,
    /// Local RRsets, one entry for each name and type, derived PTR records included.
    pub records: Vec<RecordConfig>,
    /// What is filtered, for whom.
    pub policy: policy::PolicyConfig,
    /// Response rate limiting; `None` when it is off.
    pub rate_limit: Option<RateLimitConfig>,
    /// What the server writes about itself.
    pub log: LogConfig,
    /// Where state is kept.
    pub data: DataConfig,
}

/// `[server]`: listeners, admission and the shape of answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Addresses served over UDP and TCP; distinct, never empty.
    pub listen: Vec<SocketAddr>,
    /// More addresses, with names.
    pub listeners: Vec<ListenerConfig>,
    /// Hot threads and resolution shards, 1 to 256.
    pub workers: usize,
    /// Whether each hot thread is tied to one core.
    pub pin_workers: bool,
    /// Metrics and health; a loopback or private address. `None` when off.
    pub http: Option<SocketAddr>,
    /// Whose queries are answered; all others are refused.
    pub allow: AllowConfig,
    /// Whether the special names of RFC 6761, RFC 6303 and their like are answered here.
    pub local_names: bool,
    /// Names in wire form, lower case: below them there is nothing but local records.
    pub local_zones: Vec<Box<[u8]>>,
    /// Largest UDP answer and the EDNS buffer size advertised, in bytes, 512 to 4096.
    pub max_udp_size: u16,
    /// Whether records that the client did not ask for are left out.
    pub minimal_responses: bool,
    /// Account to become once the sockets are bound.
    pub user: Option<String>,
    /// Names by which metrics are asked beside those of the local network; folded, without closing
    /// dot.
    pub http_names: Vec<String>,
    /// Group whose members may use the control socket.
    pub control_group: Option<String>,
    /// Text of `version.bind` and `version.server`; `None`: refused.
    pub version: Option<String>,
    /// Text of `id.server` and `hostname.bind` (RFC 4892); `None`: refused.
    pub id_server: Option<String>,
    /// Name server identifier given to clients that ask for it (RFC 5001).
    pub nsid: Option<String>,
    /// Whether DNS cookies are given and checked (RFC 7873).
    pub cookies: bool,
    /// Secret of the server cookies (RFC 9018); `None`: drawn at start.
    pub cookie_secret: Option<[u8; 16]>,
    /// Limits of TCP connections from clients.
    pub tcp: TcpConfig,
}

/// `allow` of `[server]`: whose queries are answered.
#[derive(Debug, Clone, PartialEq)]
pub struct AllowConfig {
    /// Private networks and those of the host's own interfaces.
    pub local: bool,
    /// Networks that are written.
    pub networks: Vec<IpNet>,
}

impl AllowConfig {
    /// All networks, for a host whose interfaces are in these.
    pub fn with_own(&self, own: &[IpNet]) -> Vec<IpNet> {
        let mut networks = self.networks.clone();
        if self.local {
            networks.extend(validate::private_networks());
            networks.extend(own);
        }
        networks
    }
}

/// The `tcp-*` keys of `[server]`.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpConfig {
    /// Connections open at once, all clients together.
    pub connections: usize,
    /// Connections open at once from one client address.
    pub connections_per_client: usize,
    /// How long a connection may stay open with no query in flight.
    pub idle: Duration,
    /// How long a query that has begun to arrive may take.
    pub read: Duration,
}

/// `[resolver]`: how names are resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolverConfig {
    /// By rules only, or by recursion too.
    pub mode: Mode,
    /// The file with the root's servers; `None`: those built in.
    pub root_hints: Option<PathBuf>,
    /// The root's servers.
    pub hints: Vec<RootServer>,
    /// Whether there is a copy of the root zone, and where from (RFC 8806).
    pub local_root: LocalRootSource,
    /// Servers that give it.
    pub local_root_primaries: Vec<SocketAddr>,
    /// Whether the root's servers are asked who they are (RFC 8109).
    pub priming: bool,
    /// Whether servers see no more of a name than they need to (RFC 9156).
    pub qname_minimisation: bool,
    /// Whether letters are sent in random case to authoritative servers.
    pub case_randomisation: bool,
    /// Whether cookies are sent to authoritative servers (RFC 7873).
    pub cookies: bool,
    /// Whether servers are asked over IPv4.
    pub ipv4: bool,
    /// Whether servers are asked over IPv6.
    pub ipv6: bool,
    /// Whether authoritative servers at private addresses are asked.
    pub query_private: bool,
    /// Whether validated proofs answer for other names (RFC 8198).
    pub aggressive_nsec: bool,
    /// Whether errors are reported to whom zones name for that (RFC 9567).
    pub error_reports: bool,
    /// EDNS buffer size told to authoritative servers, in bytes, 512 to 4096.
    pub edns_buffer_size: u16,
    /// Inquiries under way at the servers of one zone, in all workers.
    pub fetches_per_zone: u32,
    /// Queries that one server has not answered yet, in all workers.
    pub fetches_per_server: u32,
}

/// `[dnssec]`: how answers are validated.
#[derive(Debug, Clone, PartialEq)]
pub struct DnssecConfig {
    /// Whether they are.
    pub validate: bool,
    /// DS and DNSKEY records; empty: those of the root that are built in.
    pub trust_anchors: Vec<Anchor>,
    /// Whether changes of the anchors' keys are followed (RFC 5011).
    pub trust_anchor_updates: bool,
    /// Whether zones are told which of their keys are trusted (RFC 8145).
    pub key_tag_signal: bool,
    /// Names in wire form, lower case, below which nothing is validated (RFC 7646).
    pub negative_anchors: Vec<Box<[u8]>>,
    /// Whether signatures by SHA-1 count.
    pub validate_sha1: bool,
}

/// One `[[forward]]`: where the names under a zone are asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardConfig {
    /// Name in wire form, lower case.
    pub zone: Box<[u8]>,
    /// Written `!zone`: the rule of the nearest zone above does not reach the names from here down.
    pub exception: bool,
    /// Servers to ask; empty for an exception only.
    pub upstreams: Vec<Upstream>,
    /// In which order the servers are asked.
    pub strategy: Strategy,
    /// Whether the letters of the question are sent in random case (0x20).
    pub case_randomisation: bool,
    /// What becomes of a client subnet option.
    pub ecs: EcsPolicy,
    /// Shortest time that one server is given to answer.
    pub timeout_min: Duration,
    /// Longest time that one server is given to answer.
    pub timeout_max: Duration,
}

/// A server that queries are forwarded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Upstream {
    /// Where it listens.
    pub addr: SocketAddr,
    /// How it is asked.
    pub transport: UpstreamTransport,
}

/// How a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpstreamTransport {
    /// UDP, and TCP where an answer was truncated.
    Udp,
    /// TCP only.
    Tcp,
}

/// In which order the servers of a rule are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// As written; the next one when the one before fails.
    Ordered,
    /// Each in its turn.
    RoundRobin,
    /// The one with the lowest measured round-trip time.
    Fastest,
    /// So many at once (2 to 8); the first good answer counts.
    Race(u8),
}

/// What becomes of a client subnet option (RFC 7871).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EcsPolicy {
    /// It is taken out: upstreams learn nothing about clients.
    Strip,
    /// It is sent on as the client sent it.
    Pass,
}

/// `[cache]`: sizes and time limits of the two answer caches.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheConfig {
    /// Memory of the packet cache.
    pub packet_bytes: usize,
    /// Memory of the RRset cache.
    pub rrset_bytes: usize,
    /// Shorter TTLs are raised to this.
    pub min_ttl_secs: u32,
    /// Longer TTLs are cut to this; never below `min_ttl_secs`.
    pub max_ttl_secs: u32,
    /// Shortest time that a negative answer is kept, within the longest.
    pub negative_min_ttl_secs: u32,
    /// Longest time that a negative answer is kept (RFC 2308 §5).
    pub negative_max_ttl_secs: u32,
    /// Answers past their TTL where no server answers (RFC 8767); `None` when off.
    pub serve_stale: Option<ServeStaleConfig>,
    /// Whether much-used names are asked again shortly before they expire.
    pub prefetch: bool,
    /// How often the RRset cache is written to disk; `None`: never.
    pub snapshot_interval: Option<Duration>,
}

/// The keys of `[cache]` that say how expired records are used.
#[derive(Debug, Clone, PartialEq)]
pub struct ServeStaleConfig {
    /// How long past its TTL a record may be used.
    pub max_secs: u32,
    /// How long a client waits for a fresh answer before it gets the stale one.
    pub client_timeout: Duration,
}

/// One local RRset, of class IN.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordConfig {
    /// Owner in wire form, lower case; a first label `*` is a wildcard (RFC 4592).
    pub name: Box<[u8]>,
    /// Record type; never a meta type.
    pub rtype: Rtype,
    /// Record data in uncompressed wire form; distinct, never empty.
    pub rdata: Vec<Box<[u8]>>,
    /// Time to live.
    pub ttl_secs: u32,
}

/// `[rate-limit]`: limits of equal answers to one client network (RRL).
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimitConfig {
    /// Equal answers a second to one network; never 0.
    pub responses_per_second: u32,
    /// Each so many-th answer over the limit is sent truncated, the others not at all; 0: none is
    /// sent.
    pub slip: u8,
    /// Length of an IPv4 client network.
    pub ipv4_prefix_length: u8,
    /// Length of an IPv6 client network.
    pub ipv6_prefix_length: u8,
    /// Networks that are not limited.
    pub exempt: Vec<IpNet>,
}

/// `[log]`: what the server writes about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// Least important lines that are written.
    pub level: LogLevel,
    /// Form of a line.
    pub format: LogFormat,
}

/// Importance of a log line, most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something the operator must mend.
    Error,
    /// Something the operator should look at.
    Warn,
    /// Start, stop, reload.
    Info,
    /// Decisions about upstreams and connections.
    Debug,
    /// The most detail.
    Trace,
}

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `[data]`: where state is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct DataConfig {
    /// Directory of cache snapshots and the control socket; a relative one is below the working
    /// directory.
    pub directory: PathBuf,
}

/// The variables of this process, without those that are not Unicode: none of ours is.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

impl Config {
    /// Reads `file` (none: all defaults), lays the `AVOCET_SECTION__KEY` variables of `environment`
    /// over it, and checks the whole.
    ///
    /// # Errors
    /// All that is wrong, each with `FILE:LINE:COLUMN` or the name of the variable.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigErrors> {
        let environment: BTreeMap<String, String> = environment.into_iter().collect();
        let text = match file {
            Some(path) => source::read_file(path)?,
            None => String::new(),
        };
        Self::from_text(file, &text, &environment)
    }

    /// The same with the text of the file; `file` is only named in errors.
    pub fn from_text(
        file: Option<&Path>,
        text: &str,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigErrors> {
        let source = source::ConfigSource::new(file, text, environment);
        let parsed = source.parse()?;
        let directory = file.and_then(Path::parent).unwrap_or(Path::new(""));
        validate::validate(parsed, directory).map_err(|faults| source.errors(faults))
    }
}

#[cfg(test)]
mod tests;
