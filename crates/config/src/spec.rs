//! The tables and keys of the file: one struct per table, one field per key.
//!
//! `avocet config schema` shows these comments, and `default` is the value of an absent key; a test
//! compares it with what [`validate`](super::validate) fills in. Nothing is checked here beyond the
//! type of each value.

use avocet_dnssec::anchor::Anchor;
use avocet_wire::Rtype;
use avocet_zone::TsigAlgorithm;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::acme_spec::AcmeSpec;
use super::client_certificate::Presence;
use super::discover::Discovery;
use super::forward::RuleZone;
use super::home_ca::HomeCaSpec;
use super::listen::Listen;
use super::name::Name;
use super::odoh::OdohSpec;
use super::otlp_spec::{OtlpSpec, TraceSpec};
use super::outcome::KindDays;
use super::policy_spec::{ClientTable, GroupTable, ListTable, PolicySpec, RuleTable};
use super::pool_spec::PoolSpec;
use super::ports::AvoidItem;
use super::privacy::Privacy;
use super::recurse::{LocalRootSource, Mode};
use super::setting::{Allowed, ByteSize, Int, List, Setting, Text};
use super::signing::SigningPolicySpec;
use super::upstream::ServerAddress;
use super::upstream_tls::{AnnouncedH3, Authentication, HttpsMethod, Pin};
use super::zone_spec::ZoneSpec;
use super::{EcsPolicy, LogFormat, LogLevel, MAX_RESPONSES_PER_SECOND, Strategy, Upstream};

/// Configuration of Avocet.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(rename = "Avocet")]
pub(super) struct Spec {
    /// Listeners, access and the form of responses.
    pub(super) server: ServerSpec,
    /// Addresses with a name of their own, such as those of a guest network. Conditions test the
    /// name as `client.listener`.
    #[schemars(with = "Vec<ListenerSpec>")]
    pub(super) listener: Vec<Spanned<ListenerSpec>>,
    /// Certificates of the listeners with TLS. A client sees the certificate for the name that it
    /// requests, otherwise the first certificate.
    #[schemars(with = "Vec<CertificateSpec>")]
    pub(super) certificate: Vec<Spanned<CertificateSpec>>,
    /// A certificate that the server obtains by itself (ACME, RFC 8555).
    pub(super) acme: AcmeSpec,
    /// A certification authority that the server runs itself. Devices at home install its
    /// certificate.
    pub(super) home_ca: HomeCaSpec,
    /// Resolution of names that are not answered locally.
    pub(super) resolver: ResolverSpec,
    /// Forwarding rules; the longest matching zone applies. In mode "forward" without any rule, all
    /// names are forwarded to the servers in /etc/resolv.conf.
    #[schemars(with = "Vec<ForwardSpec>")]
    pub(super) forward: Vec<Spanned<ForwardSpec>>,
    /// Zones with known authoritative servers, for recursion.
    #[schemars(with = "Vec<StubSpec>")]
    pub(super) stub: Vec<Spanned<StubSpec>>,
    /// Validation of the results of recursion.
    pub(super) dnssec: DnssecSpec,
    /// DNS64: synthesised addresses for clients with IPv6 only (RFC 6147).
    pub(super) dns64: Dns64Spec,
    /// The two answer caches.
    pub(super) cache: CacheSpec,
    /// Local records.
    #[schemars(with = "Vec<RecordSpec>")]
    pub(super) record: Vec<Spanned<RecordSpec>>,
    /// Zones that this server hosts.
    #[schemars(with = "Vec<ZoneSpec>")]
    pub(super) zone: Vec<Spanned<ZoneSpec>>,
    /// How zones that this server hosts are signed.
    #[schemars(with = "Vec<SigningPolicySpec>")]
    pub(super) signing_policy: Vec<Spanned<SigningPolicySpec>>,
    /// Keys that this server shares with other servers and clients, for transaction signatures
    /// (TSIG).
    #[schemars(with = "Vec<KeySpec>")]
    pub(super) key: Vec<Spanned<KeySpec>>,
    /// Names with addresses that depend on the health of their hosts.
    #[schemars(with = "Vec<PoolSpec>")]
    pub(super) pool: Vec<Spanned<PoolSpec>>,
    /// Responses for blocked names, time zone of schedules, data about clients.
    pub(super) policy: PolicySpec,
    /// Lists of names that are blocked or allowed.
    #[schemars(with = "Vec<ListTable>")]
    pub(super) list: Vec<Spanned<ListTable>>,
    /// Groups of clients.
    #[schemars(with = "Vec<GroupTable>")]
    pub(super) group: Vec<Spanned<GroupTable>>,
    /// Clients that have a name.
    #[schemars(with = "Vec<ClientTable>")]
    pub(super) client: Vec<Spanned<ClientTable>>,
    /// Rules; the first matching rule decides.
    #[schemars(with = "Vec<RuleTable>")]
    pub(super) rule: Vec<Spanned<RuleTable>>,
    /// Response rate limiting: equal responses to one client network.
    pub(super) rate_limit: RateLimitSpec,
    /// The HTTP API over HTTPS, and behind proxies.
    pub(super) web: WebSpec,
    /// Log-in by an OpenID Connect provider.
    pub(super) oidc: OidcSpec,
    /// Oblivious DNS over HTTPS (RFC 9230).
    pub(super) odoh: OdohSpec,
    /// The log of queries.
    pub(super) query_log: QueryLogSpec,
    /// Replies as dnstap messages.
    pub(super) dnstap: DnstapSpec,
    /// Export of traces to a collector of OpenTelemetry.
    pub(super) otlp: OtlpSpec,
    /// Selections of queries with an exported trace, in addition to the share of `[otlp]`.
    #[schemars(with = "Vec<TraceSpec>")]
    pub(super) trace: Vec<Spanned<TraceSpec>>,
    /// The log.
    pub(super) log: LogSpec,
    /// State on disk.
    pub(super) data: DataSpec,
    /// History of the configuration.
    pub(super) config: RevisionsSpec,
}

/// `[server]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct ServerSpec {
    /// Addresses with port to serve over UDP and TCP, and with the prefix `tls://` over TLS, with
    /// `https://` over HTTPS.
    /// `0.0.0.0:53` and `[::]:53` mean all addresses of this machine.
    #[schemars(extend("default" = ["127.0.0.1:5300"]))]
    pub(super) listen: Setting<List<Text<Listen>>>,
    /// Serve HTTP/3 on the UDP port of each address with https://.
    #[schemars(extend("default" = true))]
    pub(super) h3: Setting<bool>,
    /// Answer queries of resumed sessions over tls:// and quic:// before the end of the handshake
    /// (0-RTT).
    #[schemars(extend("default" = false))]
    pub(super) early_data: Setting<bool>,
    /// File with the authorities that issue the certificates of clients, in PEM form; "" requests
    /// no certificates from clients.
    pub(super) client_ca: Setting<String>,
    /// With `client-ca`: "required" refuses connections of clients without certificate, "optional"
    /// accepts them.
    #[schemars(extend("default" = "optional"))]
    pub(super) client_certificate: Setting<Text<Presence>>,
    /// Number of worker threads; by default one per core.
    pub(super) workers: Setting<Int<1, 256>>,
    /// Pin each worker thread to one core.
    #[schemars(extend("default" = false))]
    pub(super) pin_workers: Setting<bool>,
    /// Address with port for metrics, health and the API over HTTP, loopback or private; "" turns
    /// it off.
    #[schemars(extend("default" = "127.0.0.1:8053"))]
    pub(super) http: Setting<String>,
    /// Networks that may send queries; all others are refused. "local" means private networks and
    /// those of the host's interfaces.
    #[schemars(extend("default" = ["local"]))]
    pub(super) allow: Setting<List<Text<Allowed>>>,
    /// Answer special-use names such as "localhost." and the reverse names of private addresses
    /// locally (RFC 6761, RFC 6303).
    #[schemars(extend("default" = true))]
    pub(super) local_names: Setting<bool>,
    /// Announce the encrypted listeners to clients (RFC 9462, RFC 9461).
    #[schemars(extend("default" = true))]
    pub(super) announce: Setting<bool>,
    /// Zones of this network: names in them without a record do not exist, and queries for them
    /// never leave this server.
    #[schemars(extend("default" = []))]
    pub(super) local_zones: Setting<List<Text<Name>>>,
    /// Largest UDP response and advertised EDNS buffer size, in bytes.
    #[schemars(extend("default" = 1232))]
    pub(super) max_udp_size: Setting<Int<512, 4096>>,
    /// Leave out records that the client did not ask for.
    #[schemars(extend("default" = true))]
    pub(super) minimal_responses: Setting<bool>,
    /// Account to switch to after the sockets are bound; "" keeps the current user.
    #[schemars(extend("default" = ""))]
    pub(super) user: Setting<String>,
    /// Additional names in the `Host` of requests for metrics and the API; addresses and names of
    /// the local network are always accepted.
    #[schemars(extend("default" = []))]
    pub(super) http_names: Setting<List<String>>,
    /// Group that may use the control socket; "" allows only the account of the server.
    #[schemars(extend("default" = ""))]
    pub(super) control_group: Setting<String>,
    /// Text of version.bind and version.server; "" refuses the query.
    #[schemars(extend("default" = "avocet"))]
    pub(super) version: Setting<String>,
    /// Text of id.server and hostname.bind (RFC 4892); "" refuses the query.
    #[schemars(extend("default" = ""))]
    pub(super) id_server: Setting<String>,
    /// Name server identifier (NSID, RFC 5001); "" sends none.
    #[schemars(extend("default" = ""))]
    pub(super) nsid: Setting<String>,
    /// Send and check DNS cookies (RFC 7873).
    #[schemars(extend("default" = true))]
    pub(super) cookies: Setting<bool>,
    /// Secret of the server cookies (RFC 9018), 32 hexadecimal digits, shared by servers behind one
    /// address; "" draws one at each start.
    #[schemars(extend("default" = ""))]
    pub(super) cookie_secret: Setting<String>,
    /// Maximum number of open TCP connections.
    #[schemars(extend("default" = 1000))]
    pub(super) tcp_connections: Setting<Int<1, 1_000_000>>,
    /// Maximum number of open TCP connections from one client address.
    #[schemars(extend("default" = 20))]
    pub(super) tcp_connections_per_client: Setting<Int<1, 1_000_000>>,
    /// How long a TCP connection without queries in flight stays open, in milliseconds.
    #[schemars(extend("default" = 10_000))]
    pub(super) tcp_idle_ms: Setting<Int<100, 600_000>>,
    /// How long a client may take to send the rest of a query over TCP, in milliseconds.
    #[schemars(extend("default" = 3_000))]
    pub(super) tcp_read_ms: Setting<Int<100, 600_000>>,
}

/// `[resolver]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct ResolverSpec {
    /// "recurse" resolves from the root down, except names under a forwarding rule or stub zone;
    /// "forward" uses only the servers of the forwarding rules. The default is "forward" if a rule
    /// covers all names, otherwise "recurse".
    pub(super) mode: Setting<Text<Mode>>,
    /// Zone file with the root servers; "" uses the built-in hints.
    #[schemars(extend("default" = ""))]
    pub(super) root_hints: Setting<String>,
    /// Keep a copy of the root zone, verified by its digest (RFC 8976), and use it instead of the
    /// root servers (RFC 8806): true transfers it from the primaries, a string is a zone file.
    #[schemars(extend("default" = false))]
    pub(super) local_root: Setting<LocalRootSource>,
    /// Servers that transfer the root zone (RFC 5936); by default ten public ones.
    pub(super) local_root_primaries: Setting<List<Text<ServerAddress>>>,
    /// Send a priming query to the root servers first (RFC 8109).
    #[schemars(extend("default" = true))]
    pub(super) priming: Setting<bool>,
    /// Minimise the QNAME in queries to authoritative servers (RFC 9156).
    #[schemars(extend("default" = true))]
    pub(super) qname_minimisation: Setting<bool>,
    /// Randomise the letter case of the QNAME in queries to authoritative servers too (0x20).
    #[schemars(extend("default" = true))]
    pub(super) case_randomisation: Setting<bool>,
    /// Send DNS cookies to authoritative servers (RFC 7873).
    #[schemars(extend("default" = true))]
    pub(super) cookies: Setting<bool>,
    /// Encrypt queries to authoritative servers that support TLS on port 853. Their certificates
    /// are not checked (RFC 9539).
    #[schemars(extend("default" = false))]
    pub(super) encrypt_authoritative: Setting<bool>,
    /// Send queries over IPv4.
    #[schemars(extend("default" = true))]
    pub(super) ipv4: Setting<bool>,
    /// Send queries over IPv6.
    #[schemars(extend("default" = true))]
    pub(super) ipv6: Setting<bool>,
    /// Also send queries to authoritative servers at private and loopback addresses.
    #[schemars(extend("default" = false))]
    pub(super) query_private: Setting<bool>,
    /// Synthesise negative answers from validated NSEC records (RFC 8198).
    #[schemars(extend("default" = true))]
    pub(super) aggressive_nsec: Setting<bool>,
    /// Report validation failures to the zone's reporting agent (DNS Error Reporting, RFC 9567).
    #[schemars(extend("default" = false))]
    pub(super) error_reports: Setting<bool>,
    /// EDNS buffer size in queries to authoritative servers, in bytes.
    #[schemars(extend("default" = 1232))]
    pub(super) edns_buffer_size: Setting<Int<512, 4096>>,
    /// Source ports that queries to servers over UDP do not use: numbers, ranges such as
    /// "10000-20000", and "registered" for the ports that IANA has assigned and those of some other
    /// programs.
    #[schemars(extend("default" = ["registered"]))]
    pub(super) avoid_ports: Setting<List<AvoidItem>>,
    /// Maximum number of fetches in flight at the servers of one zone; further names in the zone
    /// get SERVFAIL, or expired data.
    #[schemars(extend("default" = 200))]
    pub(super) fetches_per_zone: Setting<Int<1, 100_000>>,
    /// Maximum number of unanswered queries at one authoritative server; further queries go to
    /// other servers.
    #[schemars(extend("default" = 1_000))]
    pub(super) fetches_per_server: Setting<Int<1, 100_000>>,
    /// Overrides `max-udp-size` of `[server]`.
    #[schemars(extend("default" = 1232))]
    pub(super) max_udp_size: Setting<Int<512, 4096>>,
    /// Overrides `minimal-responses` of `[server]`.
    #[schemars(extend("default" = true))]
    pub(super) minimal_responses: Setting<bool>,
}

/// `[[listener]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "listen"]))]
pub(super) struct ListenerSpec {
    /// The name that conditions use.
    pub(super) name: Setting<String>,
    /// Addresses with port to serve over UDP and TCP, and with the prefix `tls://` over TLS, with
    /// `https://` over HTTPS, in addition to the addresses of [server].
    pub(super) listen: Setting<List<Text<Listen>>>,
    /// Networks that may send queries to this listener; by default the networks of [server].
    pub(super) allow: Setting<List<Text<Allowed>>>,
    /// Name of the [[certificate]] that all clients of this listener see; by default the
    /// certificate for the name that the client requests.
    pub(super) certificate: Setting<String>,
    /// File with the authorities that issue the certificates of clients of this listener; by
    /// default as for [server].
    pub(super) client_ca: Setting<String>,
    /// With `client-ca`: "required" refuses connections of clients without certificate, "optional"
    /// accepts them.
    #[schemars(extend("default" = "optional"))]
    pub(super) client_certificate: Setting<Text<Presence>>,
    /// Networks of proxies: datagrams and connections from them must begin with a header of the
    /// PROXY protocol, which names the client.
    #[schemars(extend("default" = []))]
    pub(super) proxy_protocol_from: Setting<List<Text<IpNet>>>,
}

/// `[[certificate]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["cert", "key"]))]
pub(super) struct CertificateSpec {
    /// Host names for which clients see this certificate, such as "dns.example" or "*.example"; by
    /// default the names in the certificate.
    pub(super) names: Setting<List<String>>,
    /// File with the certificate and the certificates of its issuers, in PEM form.
    pub(super) cert: Setting<String>,
    /// File with the private key of the certificate, in PEM form.
    pub(super) key: Setting<String>,
}

/// `[[stub]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["zone", "servers"]))]
pub(super) struct StubSpec {
    /// Apex of the zone.
    pub(super) zone: Setting<Text<Name>>,
    /// Authoritative servers of the zone: `192.0.2.1`, `192.0.2.1:5353`.
    pub(super) servers: Setting<List<Text<ServerAddress>>>,
}

/// `[dnssec]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct DnssecSpec {
    /// Validate the results of recursion (RFC 4035).
    #[schemars(extend("default" = true))]
    pub(super) validate: Setting<bool>,
    /// DS or DNSKEY records in presentation format; empty means the built-in anchors of the root.
    #[schemars(extend("default" = []))]
    pub(super) trust_anchors: Setting<List<Text<Anchor>>>,
    /// Follow key rollovers of the trust anchors (RFC 5011).
    #[schemars(extend("default" = true))]
    pub(super) trust_anchor_updates: Setting<bool>,
    /// Signal the trusted keys to zones with a trust anchor in each DNSKEY query (RFC 8145).
    #[schemars(extend("default" = true))]
    pub(super) key_tag_signal: Setting<bool>,
    /// Names at which validation is turned off, with all names below them (RFC 7646).
    #[schemars(extend("default" = []))]
    pub(super) negative_anchors: Setting<List<Text<Name>>>,
    /// Accept SHA-1 signatures (RFC 9905 advises against it).
    #[schemars(extend("default" = false))]
    pub(super) validate_sha1: Setting<bool>,
}

/// `[dns64]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct Dns64Spec {
    /// Prefix of the translator, such as "64:ff9b::/96". For a name without an IPv6 address, each
    /// IPv4 address gives an IPv6 address with this prefix. "" turns DNS64 off.
    #[schemars(extend("default" = ""))]
    pub(super) prefix: Setting<String>,
    /// IPv6 networks: an address in one of them counts as missing.
    #[schemars(extend("default" = ["::ffff:0.0.0.0/96"]))]
    pub(super) exclude: Setting<List<Text<IpNet>>>,
}

/// `[[forward]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["zone"]))]
pub(super) struct ForwardSpec {
    /// The zone to forward, with all names below it; "." is all names. "!corp.example" is an
    /// exception: its names follow the rule of the nearest zone above it.
    pub(super) zone: Setting<Text<RuleZone>>,
    /// Servers: `udp://1.1.1.1:53`, `tcp://[2620:fe::fe]:53` or an address (UDP, port 53). After a
    /// truncated response, the query is repeated over TCP. `tls://dns.example@192.0.2.1` uses TLS
    /// (port 853), and never UDP or TCP: the certificate must have the name, or without one the
    /// address. `quic://dns.example@192.0.2.1` is the same with QUIC (port 853),
    /// `https://dns.example@192.0.2.1/dns-query` with HTTPS in HTTP/2 (port 443), and `h3://` in
    /// place of `https://` with HTTP/3.
    pub(super) upstreams: Setting<List<Text<Upstream>>>,
    /// A file with `nameserver` lines, instead of `upstreams`.
    pub(super) resolv_conf: Setting<String>,
    /// Order of the servers: "ordered", "round-robin", "fastest", or "race 2" to "race 8", which
    /// queries that number of servers at once.
    #[schemars(extend("default" = "fastest"))]
    pub(super) strategy: Setting<Text<Strategy>>,
    /// Randomise the letter case of the QNAME, which makes responses hard to spoof (0x20).
    #[schemars(extend("default" = true))]
    pub(super) case_randomisation: Setting<bool>,
    /// Client subnet options (RFC 7871): "strip" removes them; "pass" forwards them, in mode
    /// "forward" only.
    #[schemars(extend("default" = "strip"))]
    pub(super) ecs: Setting<Text<EcsPolicy>>,
    /// Send the servers the address of the client in a header of the PROXY protocol, version 2; in
    /// mode "forward" only. The answers of these servers are for one client only, and are not
    /// cached.
    #[schemars(extend("default" = false))]
    pub(super) proxy_protocol: Setting<bool>,
    /// On encrypted connections, send the header without encryption before the handshake, and not
    /// after it.
    #[schemars(extend("default" = false))]
    pub(super) proxy_protocol_outside_tls: Setting<bool>,
    /// Shortest timeout for one server, in milliseconds.
    #[schemars(extend("default" = 50))]
    pub(super) timeout_min_ms: Setting<Int<10, 5_000>>,
    /// Longest timeout for one server, in milliseconds.
    #[schemars(extend("default" = 2_000))]
    pub(super) timeout_max_ms: Setting<Int<10, 5_000>>,
    /// Encrypted servers: "strict" sends no query before the certificate is verified;
    /// "opportunistic" accepts each certificate, which protects only against passive listeners.
    #[schemars(extend("default" = "strict"))]
    pub(super) authentication: Setting<Text<Authentication>>,
    /// The file with the authorities that issue the certificates of encrypted servers, in PEM form;
    /// "" for the authorities of the system.
    #[schemars(extend("default" = ""))]
    pub(super) ca: Setting<String>,
    /// SHA-256 digests of public keys in base64 (RFC 7858): each encrypted server must have one of
    /// these keys. Without `ca`, the digests replace the check of the authority and the name.
    #[schemars(extend("default" = []))]
    pub(super) pins: Setting<List<Text<Pin>>>,
    /// The file with the certificate that this server shows to encrypted servers, in PEM form.
    #[schemars(extend("default" = ""))]
    pub(super) client_cert: Setting<String>,
    /// The file with the private key of `client-cert`, in PEM form.
    #[schemars(extend("default" = ""))]
    pub(super) client_key: Setting<String>,
    /// The method of requests to servers with `https://` and `h3://`: "post", or "get", which lets
    /// HTTP caches on the way store the responses.
    #[schemars(extend("default" = "post"))]
    pub(super) https_method: Setting<Text<HttpsMethod>>,
    /// Use of HTTP/3 that servers with `https://` announce (`alt-svc`): "auto" uses HTTP/3 once it
    /// works, "off" stays with HTTP/2.
    #[schemars(extend("default" = "auto"))]
    pub(super) h3: Setting<Text<AnnouncedH3>>,
    /// Use of the encrypted servers that unencrypted servers designate (DDR, RFC 9462): "auto" uses
    /// the designated servers, and the unencrypted ones if they fail; "strict" uses only the
    /// designated servers; "off" does not look for any.
    #[schemars(extend("default" = "off"))]
    pub(super) discover: Setting<Text<Discovery>>,
    /// Servers for plain DNS that know the addresses of the upstreams that have only a name, such
    /// as `https://dns.example/dns-query`.
    #[schemars(extend("default" = []))]
    pub(super) bootstrap: Setting<List<Text<ServerAddress>>>,
}

/// `[cache]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct CacheSpec {
    /// Memory of the packet cache, which holds responses ready to send.
    #[schemars(extend("default" = "64MiB"))]
    pub(super) packet_bytes: Setting<ByteSize>,
    /// Memory of the RRset cache, which holds the records that upstreams returned.
    #[schemars(extend("default" = "128MiB"))]
    pub(super) rrset_bytes: Setting<ByteSize>,
    /// Minimum TTL: shorter TTLs are raised to it.
    #[schemars(extend("default" = 0))]
    pub(super) min_ttl_secs: Setting<Int<0, 86_400>>,
    /// Maximum TTL: longer TTLs are cut to it.
    #[schemars(extend("default" = 86_400))]
    pub(super) max_ttl_secs: Setting<Int<0, 604_800>>,
    /// Shortest TTL of a negative answer; at most `negative-max-ttl-secs`.
    #[schemars(extend("default" = 0))]
    pub(super) negative_min_ttl_secs: Setting<Int<0, 3_600>>,
    /// Longest TTL of a negative answer (RFC 2308).
    #[schemars(extend("default" = 3_600))]
    pub(super) negative_max_ttl_secs: Setting<Int<0, 86_400>>,
    /// Answer with expired records if no server responds (RFC 8767).
    #[schemars(extend("default" = true))]
    pub(super) serve_stale: Setting<bool>,
    /// Seconds after the end of its TTL for which a record may be used.
    #[schemars(extend("default" = 86_400))]
    pub(super) serve_stale_max_secs: Setting<Int<1, 604_800>>,
    /// How long a client waits for a fresh answer before it gets an expired one, in milliseconds.
    #[schemars(extend("default" = 1_800))]
    pub(super) stale_client_timeout_ms: Setting<Int<0, 5_000>>,
    /// Refresh popular names shortly before they expire.
    #[schemars(extend("default" = true))]
    pub(super) prefetch: Setting<bool>,
    /// How often the caches are written to disk; 0 is never.
    #[schemars(extend("default" = 300))]
    pub(super) snapshot_interval_secs: Setting<Int<0, 86_400>>,
}

/// `[[record]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "type", "values"]))]
pub(super) struct RecordSpec {
    /// Owner name; "*.lan" is a wildcard.
    pub(super) name: Setting<Text<Name>>,
    /// Record type, such as "A" or "TYPE65280".
    pub(super) r#type: Setting<Text<Rtype>>,
    /// Record data as in a zone file, with all names fully qualified.
    pub(super) values: Setting<List<String>>,
    /// TTL of the records.
    #[schemars(extend("default" = 300))]
    pub(super) ttl_secs: Setting<Int<0, 604_800>>,
    /// Also answer the reverse name of an A or AAAA record.
    #[schemars(extend("default" = true))]
    pub(super) ptr: Setting<bool>,
}

/// `[[key]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "secret-file"]))]
pub(super) struct KeySpec {
    /// Name of the key, the same on both servers.
    pub(super) name: Setting<Text<Name>>,
    /// Algorithm of the key.
    #[schemars(extend("default" = "hmac-sha256"))]
    pub(super) algorithm: Setting<Text<TsigAlgorithm>>,
    /// File with the secret in base64, which only the account of the server may read.
    pub(super) secret_file: Setting<String>,
}

/// `[rate-limit]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct RateLimitSpec {
    /// Equal responses per second to one client network; 0 turns the limit off.
    #[schemars(extend("default" = 0))]
    pub(super) responses_per_second: Setting<Int<0, MAX_RESPONSES_PER_SECOND>>,
    /// Send every nth response over the limit truncated, so that a real client retries over TCP; 0
    /// sends none.
    #[schemars(extend("default" = 2))]
    pub(super) slip: Setting<Int<0, 10>>,
    /// Prefix length of an IPv4 client network.
    #[schemars(extend("default" = 24))]
    pub(super) ipv4_prefix_length: Setting<Int<1, 32>>,
    /// Prefix length of an IPv6 client network.
    #[schemars(extend("default" = 56))]
    pub(super) ipv6_prefix_length: Setting<Int<1, 128>>,
    /// Networks without a limit.
    #[schemars(extend("default" = []))]
    pub(super) exempt: Setting<List<Text<IpNet>>>,
}

/// `[web]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct WebSpec {
    /// Loopback or private address with port for metrics, health and the API over HTTPS; "" turns
    /// HTTPS off.
    #[schemars(extend("default" = ""))]
    pub(super) https: Setting<String>,
    /// File with the certificate and the certificates of its issuers (PEM). The server reads a
    /// changed file again. "" uses the certificates of `[[certificate]]`, `[acme]` and `[home-ca]`.
    #[schemars(extend("default" = ""))]
    pub(super) tls_cert: Setting<String>,
    /// File with the private key of the certificate (PEM). The server reads a changed file again.
    #[schemars(extend("default" = ""))]
    pub(super) tls_key: Setting<String>,
    /// Networks of reverse proxies that may name the client in `X-Forwarded-For`.
    #[schemars(extend("default" = []))]
    pub(super) trusted_proxies: Setting<List<Text<IpNet>>>,
}

/// `[oidc]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct OidcSpec {
    /// URL of the OpenID Connect issuer; "" turns this log-in off.
    #[schemars(extend("default" = ""))]
    pub(super) issuer: Setting<String>,
    /// Name under which the issuer knows this server.
    #[schemars(extend("default" = ""))]
    pub(super) client_id: Setting<String>,
    /// Secret of the client; "" for a public client.
    #[schemars(extend("default" = ""))]
    pub(super) client_secret: Setting<String>,
    /// URL of this server for browsers, such as "https://dns.lan:8443".
    #[schemars(extend("default" = ""))]
    pub(super) public_url: Setting<String>,
    /// Scopes that are requested in addition to `openid`.
    #[schemars(extend("default" = ["profile"]))]
    pub(super) scopes: Setting<List<String>>,
    /// Claim with the name of a user.
    #[schemars(extend("default" = "preferred_username"))]
    pub(super) name_claim: Setting<String>,
    /// Claim with the groups or roles of a user.
    #[schemars(extend("default" = "groups"))]
    pub(super) role_claim: Setting<String>,
    /// Values of the claim that make a user admin.
    #[schemars(extend("default" = []))]
    pub(super) admins: Setting<List<String>>,
    /// Values of the claim that make a user operator.
    #[schemars(extend("default" = []))]
    pub(super) operators: Setting<List<String>>,
    /// Values of the claim that make a user viewer.
    #[schemars(extend("default" = []))]
    pub(super) viewers: Setting<List<String>>,
}

/// `[query-log]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct QueryLogSpec {
    /// Log each query with its answer and the reason.
    #[schemars(extend("default" = false))]
    pub(super) enabled: Setting<bool>,
    /// Directory of the log; "" is `query-log` in the data directory.
    #[schemars(extend("default" = ""))]
    pub(super) directory: Setting<String>,
    /// Age in days at which entries are removed; 0 keeps them until `retention-bytes` is reached.
    #[schemars(extend("default" = 90))]
    pub(super) retention_days: Setting<Int<0, 36_500>>,
    /// Size of the log at which the oldest entries are removed.
    #[schemars(extend("default" = "1GiB"))]
    pub(super) retention_bytes: Setting<ByteSize>,
    /// Ages in days at which entries with certain outcomes are removed earlier, such as
    /// "answered:30".
    #[schemars(extend("default" = []))]
    pub(super) retention_outcomes: Setting<List<Text<KindDays>>>,
    /// How much the log stores about clients: "full" (address and name), "truncated" (network: /24
    /// or /56), "pseudonym" (encrypted address), "no-names" (the queries are counted without QNAME)
    /// or "off" (nothing).
    #[schemars(extend("default" = "full"))]
    pub(super) privacy: Setting<Text<Privacy>>,
}

/// `[dnstap]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct DnstapSpec {
    /// Receiver of a dnstap message for each reply: "unix:PATH" or "tcp://ADDRESS:PORT"; "" sends
    /// none.
    #[schemars(extend("default" = ""))]
    pub(super) output: Setting<String>,
    /// Name of this server in each message.
    #[schemars(extend("default" = ""))]
    pub(super) identity: Setting<String>,
}

/// `[log]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct LogSpec {
    /// Lowest level to log.
    #[schemars(extend("default" = "info"))]
    pub(super) level: Setting<Text<LogLevel>>,
    /// Format of the lines: "text" for people, "json" for machines.
    #[schemars(extend("default" = "text"))]
    pub(super) format: Setting<Text<LogFormat>>,
}

/// `[data]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct DataSpec {
    /// Directory for cache snapshots, lists, other state and the control socket.
    #[schemars(extend("default" = "./avocet-data"))]
    pub(super) directory: Setting<String>,
}

/// `[config]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct RevisionsSpec {
    /// Seconds within which a new revision must be confirmed with `avocet config confirm`, or the
    /// server rolls it back; 0 keeps each revision without a confirmation.
    #[schemars(extend("default" = 0))]
    pub(super) probation_secs: Setting<Int<0, 86_400>>,
    /// Number of revisions to keep.
    #[schemars(extend("default" = 100))]
    pub(super) keep_revisions: Setting<Int<1, 10_000>>,
}
