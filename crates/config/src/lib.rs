//! The configuration: a TOML file, overridden by environment variables, as validated typed values.
//!
//! ```text
//!   file ──┐
//!          ├─ Source ── Spec ── Config          Source: text and locations        (source.rs)
//!   env ───┘             │         │            Spec:   the keys of the file      (spec.rs)
//!                        └ Errors ─┘            Config: the values in force       (this file)
//! ```
//! A [`Config`] is valid: the server does not check it again. This crate opens no socket. The crate
//! `avocet_nameserver` builds the state of a server from a `Config`.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use avocet_dnssec::anchor::Anchor;
use avocet_resolver::{Introduction, RootServer, StubZone};
use avocet_wire::Rtype;
use ipnet::IpNet;

mod access;
pub mod acme;
mod acme_spec;
pub mod block;
pub mod catalog;
pub mod certificate;
pub mod certificate_files;
mod check;
pub mod client_certificate;
pub mod database_address;
pub mod discover;
pub mod dns64;
pub mod dnstap;
pub mod edit;
pub mod entry;
mod error;
pub mod files;
mod forward;
pub mod header_field;
mod hints;
pub mod home_ca;
mod host_name;
mod introduction;
pub mod key;
mod known;
mod list_primaries;
pub mod list_source;
mod listen;
mod listener;
mod location;
mod loops;
mod lost_keys;
pub mod name;
mod named_file;
pub mod odoh;
pub mod oidc;
pub mod otlp;
mod otlp_spec;
pub mod outcome;
pub mod policy;
mod policy_spec;
pub mod pool;
pub mod pool_probe;
mod pool_spec;
pub mod ports;
pub mod primary;
mod primary_settings;
pub mod privacy;
pub mod provided;
mod provider_kind;
pub mod query_log;
mod record;
pub mod recurse;
pub mod salvage;
mod schema;
mod setting;
mod show;
mod show_policy;
pub mod signals;
pub mod signing;
mod source;
mod spec;
pub mod transfer;
pub mod update;
pub mod upstream;
mod upstream_proof;
pub mod upstream_tls;
pub mod validate;
pub mod view_item;
pub mod web;
pub mod zone;
mod zone_spec;
pub mod zone_url;
mod zone_view;
pub mod zonemd;

pub use access::{WrittenConfig, access_keys_between};
use certificate::CertificateConfig;
use client_certificate::ClientCertificates;
use discover::Discovery;
use dns64::Dns64Config;
pub use error::{HintFault, KeyAdvice, SettingError};
use files::NamedFiles;
pub use listen::{Listen, Protocol};
pub use listener::{AddressAllow, ListenerConfig, OpenAddress};
pub use location::find;
pub use lost_keys::lost_keys;
pub use outcome::OutcomeKind;
use ports::AvoidPorts;
use query_log::QueryLogConfig;
use recurse::{LocalRootSource, Mode};
pub use schema::json_schema;
pub use source::{ConfigError, ConfigErrors, MAX_CONFIG_FILE};
use upstream_tls::{AnnouncedH3, HttpsMethod, UpstreamTls};

/// Maximum number of responses per second of `[rate-limit]`, for which the counters of the limit
/// have room.
pub const MAX_RESPONSES_PER_SECOND: u32 = 8_387;
/// The default data directory.
const DEFAULT_DIRECTORY: &str = "./avocet-data";

/// A complete, valid configuration with all defaults.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::path::Path;
///
/// use avocet_config::Config;
///
/// # fn main() -> Result<(), avocet_config::ConfigErrors> {
/// // Variables of the environment override the file.
/// let variable = ("AVOCET_SERVER__WORKERS".to_owned(), "2".to_owned());
/// let text = "[server]\nlisten = [\"127.0.0.1:5353\"]\nworkers = 1\n";
/// let config = Config::from_text(None, text, &BTreeMap::from([variable]))?;
/// assert_eq!(config.server.workers, 2);
///
/// // Errors name the place, and all of them are reported together.
/// let text = "[server]\nworkers = \"some\"\n";
/// let errors = Config::from_text(Some(Path::new("avocet.toml")), text, &BTreeMap::new());
/// assert!(errors.unwrap_err().to_string().starts_with("avocet.toml:2:"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Whether no key is set: there is no file, or the file has only comments and headers.
    pub is_bare: bool,
    /// `[server]` and `[[listener]]`.
    pub server: ServerConfig,
    /// `[[certificate]]` in the order of the file, then those of `[acme]` and `[home-ca]`.
    pub certificates: Vec<CertificateConfig>,
    /// `[acme]`; `None` without names.
    pub acme: Option<acme::AcmeConfig>,
    /// `[home-ca]`; `None` without names.
    pub home_ca: Option<home_ca::HomeCaConfig>,
    /// `[resolver]`.
    pub resolver: ResolverConfig,
    /// The source ports that queries to servers do not use.
    pub avoid_ports: AvoidPorts,
    /// Zones with configured authoritative servers, without duplicates.
    pub stubs: Vec<StubZone>,
    /// `[dnssec]`.
    pub dnssec: DnssecConfig,
    /// `[dns64]`.
    pub dns64: Dns64Config,
    /// Forwarding rules, at most one per zone; not empty if names are resolved only by forwarding.
    pub forwards: Vec<ForwardConfig>,
    /// `[cache]`.
    pub cache: CacheConfig,
    /// Local RRsets, one per name and type, including derived PTR records.
    pub records: Vec<RecordConfig>,
    /// Hosted zones, each name once.
    pub zones: Vec<zone::ZoneConfig>,
    /// `[[pool]]`, each name once.
    pub pools: Vec<pool::PoolConfig>,
    /// `[[signing-policy]]`, each name once.
    pub signing_policies: Vec<signing::SigningPolicy>,
    /// `[[key]]`, each name once.
    pub keys: Vec<key::KeyConfig>,
    /// Lists, groups, clients and rules.
    pub policy: policy::PolicyConfig,
    /// Response rate limiting; `None` if it is off.
    pub rate_limit: Option<RateLimitConfig>,
    /// `[web]`.
    pub web: web::WebConfig,
    /// `[oidc]`; `None` without an issuer.
    pub oidc: Option<oidc::OidcConfig>,
    /// `[odoh]`.
    pub odoh: odoh::OdohConfig,
    /// `[query-log]`.
    pub query_log: QueryLogConfig,
    /// `[dnstap]`.
    pub dnstap: dnstap::DnstapConfig,
    /// `[otlp]` and `[[trace]]`.
    pub otlp: otlp::OtlpConfig,
    /// `[log]`.
    pub log: LogConfig,
    /// `[data]`.
    pub data: DataConfig,
    /// `[config]`.
    pub revisions: RevisionsConfig,
    /// Warnings about valid settings without effect, each with its location.
    pub doubts: Vec<String>,
}

/// `[server]`: listeners, admission and the form of answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Listening addresses for UDP and TCP; distinct, never empty.
    pub listen: Vec<SocketAddr>,
    /// Listening addresses for DNS over TLS, HTTPS and QUIC.
    pub encrypted: Vec<Listen>,
    /// Whether the addresses with HTTPS serve HTTP/3 too.
    pub h3: bool,
    /// Whether queries over TLS and QUIC are answered before the end of the handshake.
    pub early_data: bool,
    /// The client certificates that the server requests over TLS.
    pub client_certificates: Option<ClientCertificates>,
    /// Additional addresses, with names.
    pub listeners: Vec<ListenerConfig>,
    /// The addresses with open sockets, in the order of the sockets. Empty if they equal the
    /// addresses above: see [`Self::keep_open`].
    pub open: Vec<OpenAddress>,
    /// The number of workers, 1 to 256.
    pub workers: usize,
    /// Whether each worker is pinned to one core.
    pub pin_workers: bool,
    /// The loopback or private address of metrics and health; `None` if HTTP is off.
    pub http: Option<SocketAddr>,
    /// The clients with permission to send queries; others are refused.
    pub allow: AllowConfig,
    /// Whether special-use names (RFC 6761, RFC 6303) are answered locally.
    pub local_names: bool,
    /// Whether the server announces its encrypted listeners to clients (RFC 9462, RFC 9461).
    pub announce: bool,
    /// Zones that have only local records, as names in lower case and wire form.
    pub local_zones: Vec<Box<[u8]>>,
    /// Largest UDP answer, and the EDNS buffer size in answers, in octets, 512 to 4096.
    pub max_udp_size: u16,
    /// Whether optional records are omitted from answers.
    pub minimal_responses: bool,
    /// The account that the server runs as after it has bound its sockets.
    pub user: Option<String>,
    /// Host names of the HTTP listener in addition to those of the local network; in lower case,
    /// without final dot.
    pub http_names: Vec<String>,
    /// The group with access to the control socket.
    pub control_group: Option<String>,
    /// Text of `version.bind` and `version.server`; `None` refuses these queries.
    pub version: Option<String>,
    /// Text of `id.server` and `hostname.bind` (RFC 4892); `None` refuses these queries.
    pub id_server: Option<String>,
    /// The name server identifier for clients that request it (RFC 5001).
    pub nsid: Option<String>,
    /// Whether the server sends and checks DNS cookies (RFC 7873).
    pub cookies: bool,
    /// The secret of server cookies (RFC 9018); if `None`, the server draws one when it starts.
    pub cookie_secret: Option<[u8; 16]>,
    /// Limits of TCP connections from clients.
    pub tcp: TcpConfig,
}

/// `allow` of `[server]`: the clients whose queries are answered.
#[derive(Debug, Clone, PartialEq)]
pub struct AllowConfig {
    /// Whether private networks and the networks of the host's own interfaces are included.
    pub local: bool,
    /// The configured networks.
    pub networks: Vec<IpNet>,
}

impl AllowConfig {
    /// Returns all networks of the permitted clients. `own` are the networks of the host's
    /// interfaces.
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
    /// Maximum number of open connections of all clients.
    pub connections: usize,
    /// Maximum number of open connections of one client address. IPv6 networks have a share of
    /// [`Self::connections`].
    pub connections_per_client: usize,
    /// How long a connection may be idle.
    pub idle: Duration,
    /// Maximum time from the first octet of a query to its last.
    pub read: Duration,
}

/// `[resolver]`: the resolution of names.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolverConfig {
    /// Forwarding only, or recursion too.
    pub mode: Mode,
    /// The file with the root servers; `None` for the built-in ones.
    pub root_hints: Option<PathBuf>,
    /// The root servers.
    pub hints: Vec<RootServer>,
    /// The source of a local copy of the root zone (RFC 8806).
    pub local_root: LocalRootSource,
    /// The servers that transfer the root zone.
    pub local_root_primaries: Vec<SocketAddr>,
    /// Whether the root servers are queried for the current root servers (RFC 8109).
    pub priming: bool,
    /// Whether QNAMEs are minimised (RFC 9156).
    pub qname_minimisation: bool,
    /// Whether QNAMEs to authoritative servers have random letter case.
    pub case_randomisation: bool,
    /// Whether queries to authoritative servers have cookies (RFC 7873).
    pub cookies: bool,
    /// Whether queries to authoritative servers that support TLS are encrypted (RFC 9539).
    pub encrypt_authoritative: bool,
    /// Whether servers are queried over IPv4.
    pub ipv4: bool,
    /// Whether servers are queried over IPv6.
    pub ipv6: bool,
    /// Whether authoritative servers at private addresses are queried.
    pub query_private: bool,
    /// Whether validated denials answer for other names (RFC 8198).
    pub aggressive_nsec: bool,
    /// Whether errors are reported to the reporting agents of zones (RFC 9567).
    pub error_reports: bool,
    /// The EDNS buffer size in queries to authoritative servers, in octets, 512 to 4096.
    pub edns_buffer_size: u16,
    /// Maximum number of concurrent inquiries to the servers of one zone, in all workers.
    pub fetches_per_zone: u32,
    /// Maximum number of unanswered queries to one server, in all workers.
    pub fetches_per_server: u32,
}

/// `[dnssec]`: the validation of answers.
#[derive(Debug, Clone, PartialEq)]
pub struct DnssecConfig {
    /// Whether answers are validated.
    pub validate: bool,
    /// The trust anchors, as DS and DNSKEY records; empty for the built-in ones of the root.
    pub trust_anchors: Vec<Anchor>,
    /// Whether the server follows changes of trust anchors (RFC 5011).
    pub trust_anchor_updates: bool,
    /// Whether the server signals to zones which of their keys it trusts (RFC 8145).
    pub key_tag_signal: bool,
    /// Negative trust anchors (RFC 7646), as names in lower case and wire form.
    pub negative_anchors: Vec<Box<[u8]>>,
    /// Whether signatures with SHA-1 are accepted.
    pub validate_sha1: bool,
}

/// A `[[forward]]`: the servers for the names of a zone.
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardConfig {
    /// The name of the zone, in lower case and wire form.
    pub zone: Box<[u8]>,
    /// Whether the zone is excluded from the rule of the nearest zone above it, as `!zone`.
    pub exception: bool,
    /// The servers; empty only for an exception.
    pub upstreams: Vec<Upstream>,
    /// The order in which the servers are queried.
    pub strategy: Strategy,
    /// Whether QNAMEs have random letter case (0x20).
    pub case_randomisation: bool,
    /// The treatment of client subnet options.
    pub ecs: EcsPolicy,
    /// The header that names the client of each query to the servers, if any.
    pub introduction: Introduction,
    /// Shortest timeout of a query to one server.
    pub timeout_min: Duration,
    /// Longest timeout of a query to one server.
    pub timeout_max: Duration,
    /// Proofs that servers with TLS must provide.
    pub tls: UpstreamTls,
    /// The HTTP method of queries to servers with HTTPS.
    pub https_method: HttpsMethod,
    /// How the server uses HTTP/3 that servers with HTTPS announce.
    pub h3: AnnouncedH3,
    /// The use of encrypted servers that unencrypted servers designate.
    pub discover: Discovery,
    /// The servers of `bootstrap`: they know the addresses of the servers that have only a name.
    pub bootstrap: Vec<SocketAddr>,
}

/// A server that queries are forwarded to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Upstream {
    /// The address of the server; `None` if `bootstrap` finds it by the name.
    pub addr: Option<SocketAddr>,
    /// The port of the server.
    pub port: u16,
    /// The transport of queries.
    pub transport: UpstreamTransport,
    /// The host name in the certificate of the server. `None` if the certificate has the address of
    /// the server instead, and for servers without TLS.
    pub name: Option<Box<str>>,
    /// The path of queries; empty without HTTPS.
    pub path: Box<str>,
}

/// The transport of queries to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpstreamTransport {
    /// UDP, and TCP after a truncated answer.
    Udp,
    /// TCP only.
    Tcp,
    /// TLS only (RFC 7858).
    Tls,
    /// HTTPS in HTTP/2 only (RFC 8484).
    Https,
    /// QUIC only (RFC 9250).
    Quic,
    /// HTTPS in HTTP/3 only.
    H3,
}

impl UpstreamTransport {
    /// Reports whether the server has to prove its name.
    pub fn is_encrypted(self) -> bool {
        !matches!(self, Self::Udp | Self::Tcp)
    }

    /// Reports whether queries are in HTTP.
    pub fn is_http(self) -> bool {
        matches!(self, Self::Https | Self::H3)
    }

    /// Returns the prefix of an address with this transport, without `://`.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Quic => "quic",
            Self::H3 => "h3",
        }
    }
}

/// The order in which the servers of a rule are queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The order of the file. If a server fails, the next one is queried.
    Ordered,
    /// Each server in turn.
    RoundRobin,
    /// The server with the shortest measured round-trip time first.
    Fastest,
    /// Several servers at once, 2 to 8. The first usable answer counts.
    Race(u8),
}

/// The treatment of client subnet options (RFC 7871).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EcsPolicy {
    /// Removes the option: upstreams learn nothing about clients.
    Strip,
    /// Forwards the option unchanged.
    Pass,
}

/// `[cache]`: sizes and time limits of the packet cache and the RRset cache.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheConfig {
    /// Memory of the packet cache, in octets.
    pub packet_bytes: usize,
    /// Memory of the RRset cache, in octets.
    pub rrset_bytes: usize,
    /// Shortest TTL, in seconds; shorter ones are raised to it.
    pub min_ttl_secs: u32,
    /// Longest TTL, in seconds; longer ones are cut to it. Never below `min_ttl_secs`.
    pub max_ttl_secs: u32,
    /// Shortest time for which a negative answer is cached, in seconds, up to the longest.
    pub negative_min_ttl_secs: u32,
    /// Longest time for which a negative answer is cached, in seconds (RFC 2308 §5).
    pub negative_max_ttl_secs: u32,
    /// The use of expired data if no server answers (RFC 8767); `None` if this is off.
    pub serve_stale: Option<ServeStaleConfig>,
    /// Whether frequently queried names are resolved again shortly before they expire.
    pub prefetch: bool,
    /// How often the RRset cache is saved to disk; `None` for never.
    pub snapshot_interval: Option<Duration>,
}

/// The keys of `[cache]` on expired records.
#[derive(Debug, Clone, PartialEq)]
pub struct ServeStaleConfig {
    /// How long a record may be used after its TTL, in seconds.
    pub max_secs: u32,
    /// How long a client waits for a fresh answer before it gets a stale one.
    pub client_timeout: Duration,
}

/// A local RRset of class IN.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordConfig {
    /// The owner, in lower case and wire form; a first label `*` is a wildcard (RFC 4592).
    pub name: Box<[u8]>,
    /// The record type; never a meta type.
    pub rtype: Rtype,
    /// The record data in uncompressed wire form; distinct, never empty.
    pub rdata: Vec<Box<[u8]>>,
    /// The TTL in seconds.
    pub ttl_secs: u32,
}

/// `[rate-limit]`: limits on equal answers to one client network (RRL).
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimitConfig {
    /// Maximum number of equal answers per second to one network; never 0.
    pub responses_per_second: u32,
    /// Every N-th answer over the limit is sent truncated and the others are dropped; with 0, all
    /// are dropped.
    pub slip: u8,
    /// The prefix length of an IPv4 client network.
    pub ipv4_prefix_length: u8,
    /// The prefix length of an IPv6 client network.
    pub ipv6_prefix_length: u8,
    /// Networks without a limit.
    pub exempt: Vec<IpNet>,
}

/// `[log]`: the log of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// The lowest importance of the lines that are written.
    pub level: LogLevel,
    /// The form of a line.
    pub format: LogFormat,
}

/// The importance of a log line, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// A problem that the operator must solve.
    Error,
    /// A problem that the operator should examine.
    Warn,
    /// Start, stop, reload.
    Info,
    /// Decisions about upstreams and connections.
    Debug,
    /// The most detail.
    Trace,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text.
    Text,
    /// One JSON object per line.
    Json,
}

/// `[data]`: the place of state on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DataConfig {
    /// The data directory, with the state and the control socket. A relative path starts at the
    /// working directory.
    pub directory: PathBuf,
}

/// `[config]`: the revisions of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevisionsConfig {
    /// Seconds within which a new revision must be confirmed; 0 for no need of a confirmation.
    pub probation_secs: u32,
    /// Maximum number of revisions that are kept.
    pub keep: usize,
}

/// Returns the text of a configuration file.
///
/// # Errors
/// The file cannot be read, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, ConfigErrors> {
    source::read_file(path)
}

/// Returns the environment variables of this process whose text is Unicode. The variables of Avocet
/// are always Unicode.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

impl Config {
    /// Reads and validates `file`, overridden by the `AVOCET_SECTION__KEY` variables of
    /// `environment`. Without a file, the defaults apply.
    ///
    /// # Errors
    /// All errors, each with `FILE:LINE:COLUMN` or the name of a variable.
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

    /// Validates the text of a file, as [`Self::load`] does. `file` appears only in errors.
    ///
    /// # Errors
    /// All errors, as for [`Self::load`].
    pub fn from_text(
        file: Option<&Path>,
        text: &str,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigErrors> {
        Self::with_files(file, text, environment).1
    }

    /// Reads the configuration like [`Self::from_text`], and also returns the files that it names.
    /// If there are faults, these are at least all files that were read.
    pub fn with_files(
        file: Option<&Path>,
        text: &str,
        environment: &BTreeMap<String, String>,
    ) -> (NamedFiles, Result<Self, ConfigErrors>) {
        let source = source::ConfigSource::new(file, text, environment);
        let parsed = match source.parse() {
            Ok(parsed) => parsed,
            Err(errors) => return (NamedFiles::default(), Err(errors)),
        };
        let directory = file.and_then(Path::parent).unwrap_or(Path::new(""));
        let (files, validated) = validate::validate(parsed, directory);
        let config = validated.map_err(|faults| source.errors(faults)).map(|(config, doubts)| {
            let doubts = source.errors(doubts).all().iter().map(ToString::to_string).collect();
            Self { doubts, ..config }
        });
        (files, config)
    }
}

#[cfg(test)]
mod tests;
