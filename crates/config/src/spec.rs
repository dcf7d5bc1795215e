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
    /// Addresses on which the server listens, permitted clients, and the form of responses.
    pub(super) server: ServerSpec,
    /// Listening addresses with a name, such as those for a guest network. Conditions of rules test
    /// the name as `client.listener`.
    #[schemars(with = "Vec<ListenerSpec>")]
    pub(super) listener: Vec<Spanned<ListenerSpec>>,
    /// Certificates for addresses with TLS or QUIC. A client sees the certificate for the name that
    /// it requests, or the first certificate if there is none for this name.
    #[schemars(with = "Vec<CertificateSpec>")]
    pub(super) certificate: Vec<Spanned<CertificateSpec>>,
    /// A certificate that the server obtains by itself with ACME (RFC 8555).
    pub(super) acme: AcmeSpec,
    /// A certification authority that the server runs itself, for devices at home.
    pub(super) home_ca: HomeCaSpec,
    /// Resolution of names that the server does not answer itself.
    pub(super) resolver: ResolverSpec,
    /// Forwarding rules: servers for queries under a zone. The longest matching zone applies. In
    /// mode "forward" without any rule, the server uses the servers in /etc/resolv.conf.
    #[schemars(with = "Vec<ForwardSpec>")]
    pub(super) forward: Vec<Spanned<ForwardSpec>>,
    /// Zones with known authoritative servers, for mode "recurse".
    #[schemars(with = "Vec<StubSpec>")]
    pub(super) stub: Vec<Spanned<StubSpec>>,
    /// DNSSEC validation of the results of recursion.
    pub(super) dnssec: DnssecSpec,
    /// IPv6 addresses made from IPv4 addresses, for clients that have only IPv6 (DNS64, RFC 6147).
    pub(super) dns64: Dns64Spec,
    /// The packet cache and the RRset cache.
    pub(super) cache: CacheSpec,
    /// Local records, which the server answers itself.
    #[schemars(with = "Vec<RecordSpec>")]
    pub(super) record: Vec<Spanned<RecordSpec>>,
    /// Zones that the server hosts as an authoritative server.
    #[schemars(with = "Vec<ZoneSpec>")]
    pub(super) zone: Vec<Spanned<ZoneSpec>>,
    /// Policies that say how the server signs hosted zones.
    #[schemars(with = "Vec<SigningPolicySpec>")]
    pub(super) signing_policy: Vec<Spanned<SigningPolicySpec>>,
    /// Keys that this server shares with other servers and clients, to sign messages (TSIG).
    #[schemars(with = "Vec<KeySpec>")]
    pub(super) key: Vec<Spanned<KeySpec>>,
    /// Names with several addresses. Answers contain the addresses of healthy hosts.
    #[schemars(with = "Vec<PoolSpec>")]
    pub(super) pool: Vec<Spanned<PoolSpec>>,
    /// Responses for blocked names, the time zone of rules, and files with data about clients.
    pub(super) policy: PolicySpec,
    /// Lists of names that are blocked or allowed.
    #[schemars(with = "Vec<ListTable>")]
    pub(super) list: Vec<Spanned<ListTable>>,
    /// Groups of clients to which the same lists apply.
    #[schemars(with = "Vec<GroupTable>")]
    pub(super) group: Vec<Spanned<GroupTable>>,
    /// Clients to which the configuration gives a name.
    #[schemars(with = "Vec<ClientTable>")]
    pub(super) client: Vec<Spanned<ClientTable>>,
    /// Rules for queries and answers. The first matching rule with a deciding action decides.
    #[schemars(with = "Vec<RuleTable>")]
    pub(super) rule: Vec<Spanned<RuleTable>>,
    /// A limit on equal responses to the same client network (response rate limiting).
    pub(super) rate_limit: RateLimitSpec,
    /// The web interface and the HTTP API over HTTPS, and behind reverse proxies.
    pub(super) web: WebSpec,
    /// Log-in of users by an OpenID Connect provider.
    pub(super) oidc: OidcSpec,
    /// Queries that a proxy forwards and cannot read (Oblivious DNS over HTTPS, RFC 9230).
    pub(super) odoh: OdohSpec,
    /// The log of queries and answers.
    pub(super) query_log: QueryLogSpec,
    /// The export of each query and reply to a program, in dnstap messages.
    pub(super) dnstap: DnstapSpec,
    /// The export of traces of queries to a collector of OpenTelemetry.
    pub(super) otlp: OtlpSpec,
    /// Selections of queries with an exported trace, in addition to the share in `[otlp]`.
    #[schemars(with = "Vec<TraceSpec>")]
    pub(super) trace: Vec<Spanned<TraceSpec>>,
    /// The log of the server itself.
    pub(super) log: LogSpec,
    /// The directory for the state of the server.
    pub(super) data: DataSpec,
    /// The history of the configuration.
    pub(super) config: RevisionsSpec,
}

/// The table `[server]`: listening addresses, permitted clients, and the form of responses.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct ServerSpec {
    /// Addresses with port. An address without a prefix serves UDP and TCP; `tls://`, `https://`
    /// and `quic://` before it serve TLS, HTTPS and QUIC. At least one address must have no prefix.
    /// `0.0.0.0:53` and `[::]:53` mean all addresses of this machine.
    #[schemars(extend("default" = ["127.0.0.1:5300"]))]
    pub(super) listen: Setting<List<Text<Listen>>>,
    /// Whether the server serves HTTP/3 on the UDP port of each address with `https://`.
    #[schemars(extend("default" = true))]
    pub(super) h3: Setting<bool>,
    /// Whether resumed sessions may send queries before the end of the handshake (0-RTT).
    #[schemars(extend("default" = false))]
    pub(super) early_data: Setting<bool>,
    /// File with the certificates of the authorities that issue certificates of clients, in PEM
    /// form. If the key is empty or missing, the server requests no certificate from clients.
    pub(super) client_ca: Setting<String>,
    /// If `client-ca` is set: "required" ends connections of clients without a certificate,
    /// "optional" accepts them.
    #[schemars(extend("default" = "optional"))]
    pub(super) client_certificate: Setting<Text<Presence>>,
    /// Number of worker threads; by default one per core.
    pub(super) workers: Setting<Int<1, 256>>,
    /// Whether each worker thread runs on one core only.
    #[schemars(extend("default" = false))]
    pub(super) pin_workers: Setting<bool>,
    /// Address with port at which the server serves metrics, health, the API and the web interface
    /// over HTTP. The address must be loopback or private. "" turns HTTP off.
    #[schemars(extend("default" = "127.0.0.1:8053"))]
    pub(super) http: Setting<String>,
    /// Networks from which clients may send queries; the server refuses all others. "local" means
    /// private networks and the networks of the interfaces of this host.
    #[schemars(extend("default" = ["local"]))]
    pub(super) allow: Setting<List<Text<Allowed>>>,
    /// Whether the server itself answers `localhost` and other special-use names, and the reverse
    /// names of private addresses (RFC 6761, RFC 6303).
    #[schemars(extend("default" = true))]
    pub(super) local_names: Setting<bool>,
    /// Whether the server announces its encrypted addresses to clients (RFC 9462, RFC 9461).
    #[schemars(extend("default" = true))]
    pub(super) announce: Setting<bool>,
    /// Zones of this network, such as "lan". The server answers them from its local records alone:
    /// names without a record do not exist, and no query leaves this server.
    #[schemars(extend("default" = []))]
    pub(super) local_zones: Setting<List<Text<Name>>>,
    /// Largest UDP response in octets, and EDNS buffer size that the server advertises to clients.
    #[schemars(extend("default" = 1232))]
    pub(super) max_udp_size: Setting<Int<512, 4096>>,
    /// Whether responses leave out records that the client did not ask for.
    #[schemars(extend("default" = true))]
    pub(super) minimal_responses: Setting<bool>,
    /// Account that the server uses after it has opened its sockets; "" changes no account.
    #[schemars(extend("default" = ""))]
    pub(super) user: Setting<String>,
    /// Additional names that the header field `Host` may have in requests for metrics and the API.
    /// Addresses and names of the local network are always permitted.
    #[schemars(extend("default" = []))]
    pub(super) http_names: Setting<List<String>>,
    /// Group that may use the control socket; "" permits only root and the server account.
    #[schemars(extend("default" = ""))]
    pub(super) control_group: Setting<String>,
    /// Answer to queries for version.bind and version.server; "" refuses these queries.
    #[schemars(extend("default" = "avocet"))]
    pub(super) version: Setting<String>,
    /// Answer to queries for id.server and hostname.bind (RFC 4892); "" refuses these queries.
    #[schemars(extend("default" = ""))]
    pub(super) id_server: Setting<String>,
    /// Name server identifier for clients that request it (NSID, RFC 5001); "" sends none.
    #[schemars(extend("default" = ""))]
    pub(super) nsid: Setting<String>,
    /// Whether the server sends DNS cookies to clients and checks them (RFC 7873).
    #[schemars(extend("default" = true))]
    pub(super) cookies: Setting<bool>,
    /// Secret for the DNS cookies, 32 hexadecimal digits, the same on servers behind one address
    /// (RFC 9018). With "", the server draws a secret at each start and every 24 hours.
    #[schemars(extend("default" = ""))]
    pub(super) cookie_secret: Setting<String>,
    /// Maximum number of open TCP connections of all clients; each worker has an equal share.
    #[schemars(extend("default" = 1000))]
    pub(super) tcp_connections: Setting<Int<1, 1_000_000>>,
    /// Maximum number of open TCP connections from one client address.
    #[schemars(extend("default" = 20))]
    pub(super) tcp_connections_per_client: Setting<Int<1, 1_000_000>>,
    /// Milliseconds after which the server closes a TCP connection without queries in flight.
    #[schemars(extend("default" = 10_000))]
    pub(super) tcp_idle_ms: Setting<Int<100, 600_000>>,
    /// Time in milliseconds within which a client must send the rest of a query over TCP.
    #[schemars(extend("default" = 3_000))]
    pub(super) tcp_read_ms: Setting<Int<100, 600_000>>,
}

/// The table `[resolver]`: resolution of names that the server does not answer itself.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct ResolverSpec {
    /// "recurse": the server resolves names from the root down, except names under a `[[forward]]`
    /// or `[[stub]]`. "forward": it sends queries only to the servers in `[[forward]]`. By default,
    /// "forward" if a `[[forward]]` is for the zone ".", and otherwise "recurse".
    pub(super) mode: Setting<Text<Mode>>,
    /// Zone file with the root servers and an address of at least one; "" uses a built-in list.
    #[schemars(extend("default" = ""))]
    pub(super) root_hints: Setting<String>,
    /// Copy of the root zone to use instead of the root servers (RFC 8806), with a verified digest
    /// (RFC 8976): false for none, true for a transfer, or the path of a zone file.
    #[schemars(extend("default" = false))]
    pub(super) local_root: Setting<LocalRootSource>,
    /// Servers from which the root zone is transferred (RFC 5936). By default, ten public servers.
    pub(super) local_root_primaries: Setting<List<Text<ServerAddress>>>,
    /// Whether the server first queries the root servers for their addresses (RFC 8109).
    #[schemars(extend("default" = true))]
    pub(super) priming: Setting<bool>,
    /// Whether authoritative servers get only the necessary labels of a name (RFC 9156).
    #[schemars(extend("default" = true))]
    pub(super) qname_minimisation: Setting<bool>,
    /// Whether names in queries to authoritative servers have random letter case (0x20).
    #[schemars(extend("default" = true))]
    pub(super) case_randomisation: Setting<bool>,
    /// Send DNS cookies to authoritative servers (RFC 7873).
    #[schemars(extend("default" = true))]
    pub(super) cookies: Setting<bool>,
    /// Whether the server encrypts queries to authoritative servers that support TLS on port 853.
    /// It does not check their certificates (RFC 9539).
    #[schemars(extend("default" = false))]
    pub(super) encrypt_authoritative: Setting<bool>,
    /// Whether the server sends queries to other servers over IPv4.
    #[schemars(extend("default" = true))]
    pub(super) ipv4: Setting<bool>,
    /// Whether the server sends queries to other servers over IPv6.
    #[schemars(extend("default" = true))]
    pub(super) ipv6: Setting<bool>,
    /// Whether the server also queries authoritative servers at private and loopback addresses. If
    /// false, it does so only for servers in a `[[stub]]`, and for zones below one at private
    /// addresses.
    #[schemars(extend("default" = false))]
    pub(super) query_private: Setting<bool>,
    /// Whether cached NSEC records answer queries for other names that do not exist (RFC 8198).
    #[schemars(extend("default" = true))]
    pub(super) aggressive_nsec: Setting<bool>,
    /// Whether the server reports validation failures to the reporting agent that the owner of the
    /// zone names (RFC 9567). A report contains the queried name.
    #[schemars(extend("default" = false))]
    pub(super) error_reports: Setting<bool>,
    /// EDNS buffer size in queries to authoritative servers, in octets.
    #[schemars(extend("default" = 1232))]
    pub(super) edns_buffer_size: Setting<Int<512, 4096>>,
    /// UDP source ports that queries to other servers never use: numbers, ranges such as
    /// "10000-20000", and "registered". "registered" means the ports that IANA has assigned, and
    /// those of some other programs.
    #[schemars(extend("default" = ["registered"]))]
    pub(super) avoid_ports: Setting<List<AvoidItem>>,
    /// Maximum number of look-ups in progress at the servers of one zone. At the limit, queries for
    /// further names in the zone get SERVFAIL, or expired data.
    #[schemars(extend("default" = 200))]
    pub(super) fetches_per_zone: Setting<Int<1, 100_000>>,
    /// Maximum number of unanswered queries at one authoritative server. Further queries go to
    /// other servers.
    #[schemars(extend("default" = 1_000))]
    pub(super) fetches_per_server: Setting<Int<1, 100_000>>,
    /// Overrides `max-udp-size` of `[server]`. By default, the value there.
    #[schemars(extend("default" = 1232))]
    pub(super) max_udp_size: Setting<Int<512, 4096>>,
    /// Overrides `minimal-responses` of `[server]`. By default, the value there.
    #[schemars(extend("default" = true))]
    pub(super) minimal_responses: Setting<bool>,
}

/// A table `[[listener]]`: listening addresses with a name of their own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "listen"]))]
pub(super) struct ListenerSpec {
    /// Name of the listener, for `client.listener` in conditions of rules.
    pub(super) name: Setting<String>,
    /// Addresses with port, in the same form as `listen` of `[server]`, and in addition to those.
    /// No address may occur twice in the file.
    pub(super) listen: Setting<List<Text<Listen>>>,
    /// Networks from which clients may send queries; by default, the networks of `[server]`.
    pub(super) allow: Setting<List<Text<Allowed>>>,
    /// Name of the `[[certificate]]` that all clients of this listener see. By default, clients see
    /// the certificate for the name that they request.
    pub(super) certificate: Setting<String>,
    /// File with the certificates of the authorities that issue certificates of clients of this
    /// listener, in PEM form. By default, the file of `[server]`.
    pub(super) client_ca: Setting<String>,
    /// If `client-ca` is set: "required" ends connections of clients without a certificate,
    /// "optional" accepts them.
    #[schemars(extend("default" = "optional"))]
    pub(super) client_certificate: Setting<Text<Presence>>,
    /// Networks of proxies. Datagrams and connections from these networks must begin with a header
    /// of the PROXY protocol, which names the client.
    #[schemars(extend("default" = []))]
    pub(super) proxy_protocol_from: Setting<List<Text<IpNet>>>,
}

/// A table `[[certificate]]`: a certificate for addresses with TLS or QUIC.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["cert", "key"]))]
pub(super) struct CertificateSpec {
    /// Host names for which the server shows this certificate, such as "dns.example" or
    /// "*.example". By default, the names in the certificate.
    pub(super) names: Setting<List<String>>,
    /// File with the certificate, followed by the certificates of its issuers, in PEM form.
    pub(super) cert: Setting<String>,
    /// File with the private key of the certificate, in PEM form.
    pub(super) key: Setting<String>,
}

/// A table `[[stub]]`: the authoritative servers of a zone, such as an internal zone.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["zone", "servers"]))]
pub(super) struct StubSpec {
    /// Name of the zone.
    pub(super) zone: Setting<Text<Name>>,
    /// Authoritative servers of the zone: `192.0.2.1` (port 53) or `192.0.2.1:5353`.
    pub(super) servers: Setting<List<Text<ServerAddress>>>,
}

/// The table `[dnssec]`: DNSSEC validation of the results of recursion.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct DnssecSpec {
    /// Whether to validate results of recursion (RFC 4035). Mode "forward" does not validate.
    #[schemars(extend("default" = true))]
    pub(super) validate: Setting<bool>,
    /// DS or DNSKEY records as in a zone file; if empty, the built-in anchors of the root apply.
    #[schemars(extend("default" = []))]
    pub(super) trust_anchors: Setting<List<Text<Anchor>>>,
    /// Whether trust anchors follow the key rollovers of their zones (RFC 5011).
    #[schemars(extend("default" = true))]
    pub(super) trust_anchor_updates: Setting<bool>,
    /// Whether DNSKEY queries to a zone with a trust anchor name the trusted keys (RFC 8145).
    #[schemars(extend("default" = true))]
    pub(super) key_tag_signal: Setting<bool>,
    /// Names that are not validated, with all names below them (negative anchors, RFC 7646).
    #[schemars(extend("default" = []))]
    pub(super) negative_anchors: Setting<List<Text<Name>>>,
    /// Whether the server accepts signatures with SHA-1. RFC 9905 advises against this.
    #[schemars(extend("default" = false))]
    pub(super) validate_sha1: Setting<bool>,
}

/// The table `[dns64]`: IPv6 addresses made from IPv4 addresses, for clients that have only IPv6.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct Dns64Spec {
    /// Prefix of the translator (NAT64), such as "64:ff9b::/96". If a name has no IPv6 address, the
    /// server makes one from each of its IPv4 addresses and this prefix. "" turns DNS64 off.
    #[schemars(extend("default" = ""))]
    pub(super) prefix: Setting<String>,
    /// IPv6 networks: addresses in these networks count as missing.
    #[schemars(extend("default" = ["::ffff:0.0.0.0/96"]))]
    pub(super) exclude: Setting<List<Text<IpNet>>>,
}

/// A table `[[forward]]`: the servers to which queries for a zone are forwarded.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["zone"]))]
pub(super) struct ForwardSpec {
    /// Zone to forward, with all names below it; "." means all names. "!corp.example" is an
    /// exception: for its names, the table with the next shorter zone applies.
    pub(super) zone: Setting<Text<RuleZone>>,
    /// Servers: an address (UDP, port 53), `udp://192.0.2.1:53`, `tcp://[2001:db8::1]:53`, or an
    /// encrypted server. `tls://dns.example@192.0.2.1` and `quic://` use port 853,
    /// `https://dns.example@192.0.2.1/dns-query` (HTTP/2) and `h3://` (HTTP/3) use port 443. The
    /// certificate of an encrypted server must have the name, or without a name the address.
    pub(super) upstreams: Setting<List<Text<Upstream>>>,
    /// File with `nameserver` lines, such as /etc/resolv.conf, instead of `upstreams`.
    pub(super) resolv_conf: Setting<String>,
    /// Choice of the server: "ordered", the first that works; "round-robin", each in turn;
    /// "fastest", by round-trip time; "race 2" to "race 8", this number of servers at once.
    #[schemars(extend("default" = "fastest"))]
    pub(super) strategy: Setting<Text<Strategy>>,
    /// Whether names in queries have random letter case, against spoofed responses (0x20).
    #[schemars(extend("default" = true))]
    pub(super) case_randomisation: Setting<bool>,
    /// What happens to client subnet options in queries of clients (RFC 7871): "strip" removes
    /// them. "pass" forwards them, in mode "forward" only.
    #[schemars(extend("default" = "strip"))]
    pub(super) ecs: Setting<Text<EcsPolicy>>,
    /// Whether the server sends the address of the client to the upstreams, in a header of the
    /// PROXY protocol, version 2. This works in mode "forward" only. Answers are then for one
    /// client only, and are not cached.
    #[schemars(extend("default" = false))]
    pub(super) proxy_protocol: Setting<bool>,
    /// Whether the header of the PROXY protocol comes without encryption before the TLS handshake.
    /// If false, it comes encrypted after the handshake.
    #[schemars(extend("default" = false))]
    pub(super) proxy_protocol_outside_tls: Setting<bool>,
    /// Shortest time in milliseconds that the server waits for a response of one upstream.
    #[schemars(extend("default" = 50))]
    pub(super) timeout_min_ms: Setting<Int<10, 5_000>>,
    /// Longest time in milliseconds that the server waits for a response of one upstream.
    #[schemars(extend("default" = 2_000))]
    pub(super) timeout_max_ms: Setting<Int<10, 5_000>>,
    /// Encrypted servers: "strict" sends no query before the certificate is verified;
    /// "opportunistic" accepts any certificate, which does not stop attackers who change traffic.
    #[schemars(extend("default" = "strict"))]
    pub(super) authentication: Setting<Text<Authentication>>,
    /// File with the certificates of the authorities that may issue the certificates of encrypted
    /// servers, in PEM form; "" trusts the authorities of the system.
    #[schemars(extend("default" = ""))]
    pub(super) ca: Setting<String>,
    /// SHA-256 digests of public keys in base64 (RFC 7858). Each encrypted server must have one of
    /// them. Without `ca`, neither the authority nor the name of the certificate is then checked.
    #[schemars(extend("default" = []))]
    pub(super) pins: Setting<List<Text<Pin>>>,
    /// File with the certificate that this server shows to encrypted servers (PEM); "" for none.
    #[schemars(extend("default" = ""))]
    pub(super) client_cert: Setting<String>,
    /// File with the private key of `client-cert`, in PEM form.
    #[schemars(extend("default" = ""))]
    pub(super) client_key: Setting<String>,
    /// HTTP method of requests to servers with `https://` and `h3://`: "post" or "get". HTTP caches
    /// on the way can store responses to "get".
    #[schemars(extend("default" = "post"))]
    pub(super) https_method: Setting<Text<HttpsMethod>>,
    /// Whether to use HTTP/3 if a server with `https://` announces it (`alt-svc`): "auto" uses
    /// HTTP/3 once it works, "off" stays with HTTP/2.
    #[schemars(extend("default" = "auto"))]
    pub(super) h3: Setting<Text<AnnouncedH3>>,
    /// Whether to ask the unencrypted servers which encrypted servers they designate (RFC 9462).
    /// "auto" uses the encrypted servers, and the unencrypted ones if those fail. "strict" uses
    /// only the encrypted servers. "off" does not ask.
    #[schemars(extend("default" = "off"))]
    pub(super) discover: Setting<Text<Discovery>>,
    /// Addresses of servers for plain DNS. From these, the server gets the addresses of upstreams
    /// that have only a name, such as `https://dns.example/dns-query`.
    #[schemars(extend("default" = []))]
    pub(super) bootstrap: Setting<List<Text<ServerAddress>>>,
}

/// The table `[cache]`: the memory of the caches, and the bounds of TTLs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct CacheSpec {
    /// Memory of the packet cache, which has complete responses for clients.
    #[schemars(extend("default" = "64MiB"))]
    pub(super) packet_bytes: Setting<ByteSize>,
    /// Memory of the RRset cache, which has the records that other servers returned.
    #[schemars(extend("default" = "128MiB"))]
    pub(super) rrset_bytes: Setting<ByteSize>,
    /// Lower limit of TTLs in seconds. Validated records keep their own TTL.
    #[schemars(extend("default" = 0))]
    pub(super) min_ttl_secs: Setting<Int<0, 86_400>>,
    /// Upper limit of TTLs in seconds.
    #[schemars(extend("default" = 86_400))]
    pub(super) max_ttl_secs: Setting<Int<0, 604_800>>,
    /// Lower limit of the TTL of a negative answer in seconds, at most `negative-max-ttl-secs`.
    /// Validated answers keep their own TTL.
    #[schemars(extend("default" = 0))]
    pub(super) negative_min_ttl_secs: Setting<Int<0, 3_600>>,
    /// Upper limit of the TTL of a negative answer in seconds (RFC 2308).
    #[schemars(extend("default" = 3_600))]
    pub(super) negative_max_ttl_secs: Setting<Int<0, 86_400>>,
    /// Whether the server answers with expired records if resolution fails, or takes longer than
    /// `stale-client-timeout-ms` (RFC 8767).
    #[schemars(extend("default" = true))]
    pub(super) serve_stale: Setting<bool>,
    /// Number of seconds for which an expired record may still be used, from the end of its TTL.
    #[schemars(extend("default" = 86_400))]
    pub(super) serve_stale_max_secs: Setting<Int<1, 604_800>>,
    /// Time in milliseconds that a client waits for a fresh answer before it gets an expired one.
    #[schemars(extend("default" = 1_800))]
    pub(super) stale_client_timeout_ms: Setting<Int<0, 5_000>>,
    /// Whether the server resolves popular names again shortly before they expire.
    #[schemars(extend("default" = true))]
    pub(super) prefetch: Setting<bool>,
    /// Number of seconds between two writes of the caches to disk; 0 means never.
    #[schemars(extend("default" = 300))]
    pub(super) snapshot_interval_secs: Setting<Int<0, 86_400>>,
}

/// A table `[[record]]`: local records of one name and type.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "type", "values"]))]
pub(super) struct RecordSpec {
    /// Owner of the records; "*.lan" is a wildcard.
    pub(super) name: Setting<Text<Name>>,
    /// Type of the records, such as "A" or "TYPE65280".
    pub(super) r#type: Setting<Text<Rtype>>,
    /// Data of each record as in a zone file. All names must be fully qualified.
    pub(super) values: Setting<List<String>>,
    /// TTL of the records in seconds.
    #[schemars(extend("default" = 300))]
    pub(super) ttl_secs: Setting<Int<0, 604_800>>,
    /// Whether the server also answers the reverse name of an A or AAAA record with a PTR record.
    #[schemars(extend("default" = true))]
    pub(super) ptr: Setting<bool>,
}

/// A table `[[key]]`: a secret with which two servers sign messages (TSIG, RFC 8945).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "secret-file"]))]
pub(super) struct KeySpec {
    /// Name of the key, which must be the same on both sides.
    pub(super) name: Setting<Text<Name>>,
    /// Algorithm of the key, which must be the same on both sides.
    #[schemars(extend("default" = "hmac-sha256"))]
    pub(super) algorithm: Setting<Text<TsigAlgorithm>>,
    /// File with the secret in base64; mode 0640 or less.
    pub(super) secret_file: Setting<String>,
}

/// The table `[rate-limit]`: a limit on equal responses to the same client network.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct RateLimitSpec {
    /// Maximum number of equal responses per second to one client network; 0 turns the limit off.
    #[schemars(extend("default" = 0))]
    pub(super) responses_per_second: Setting<Int<0, MAX_RESPONSES_PER_SECOND>>,
    /// Of the responses over the limit, every nth is sent truncated, so that a real client repeats
    /// the query over TCP. The other ones are dropped; 0 drops all.
    #[schemars(extend("default" = 2))]
    pub(super) slip: Setting<Int<0, 10>>,
    /// Prefix length of a client network for IPv4.
    #[schemars(extend("default" = 24))]
    pub(super) ipv4_prefix_length: Setting<Int<1, 32>>,
    /// Prefix length of a client network for IPv6.
    #[schemars(extend("default" = 56))]
    pub(super) ipv6_prefix_length: Setting<Int<1, 128>>,
    /// Client networks to which the limit does not apply.
    #[schemars(extend("default" = []))]
    pub(super) exempt: Setting<List<Text<IpNet>>>,
}

/// The table `[web]`: the web interface and the HTTP API over HTTPS, and behind reverse proxies.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct WebSpec {
    /// Loopback or private address with port at which the server serves metrics, health, the API
    /// and the web interface over HTTPS; "" turns HTTPS off.
    #[schemars(extend("default" = ""))]
    pub(super) https: Setting<String>,
    /// File with the certificate and those of its issuers (PEM). The server reads a changed file
    /// again. "" uses the certificates of `[[certificate]]`, `[acme]` and `[home-ca]`.
    #[schemars(extend("default" = ""))]
    pub(super) tls_cert: Setting<String>,
    /// File with the private key of `tls-cert`, in PEM form. The server reads a changed file again.
    #[schemars(extend("default" = ""))]
    pub(super) tls_key: Setting<String>,
    /// Networks of reverse proxies. The server takes the address of the client from the header
    /// `X-Forwarded-For` of requests that come from these networks.
    #[schemars(extend("default" = []))]
    pub(super) trusted_proxies: Setting<List<Text<IpNet>>>,
}

/// The table `[oidc]`: log-in of users by an OpenID Connect provider.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct OidcSpec {
    /// URL of the OpenID Connect provider (the issuer); "" turns this log-in off.
    #[schemars(extend("default" = ""))]
    pub(super) issuer: Setting<String>,
    /// Identifier of this server at the provider (client ID).
    #[schemars(extend("default" = ""))]
    pub(super) client_id: Setting<String>,
    /// Secret of this server at the provider (client secret); "" for a public client.
    #[schemars(extend("default" = ""))]
    pub(super) client_secret: Setting<String>,
    /// URL at which browsers reach this server, such as "https://dns.lan:8443".
    #[schemars(extend("default" = ""))]
    pub(super) public_url: Setting<String>,
    /// Scopes that the server requests from the provider, in addition to `openid`.
    #[schemars(extend("default" = ["profile"]))]
    pub(super) scopes: Setting<List<String>>,
    /// Claim of the provider that has the name of the user.
    #[schemars(extend("default" = "preferred_username"))]
    pub(super) name_claim: Setting<String>,
    /// Claim of the provider that has the groups or roles of the user.
    #[schemars(extend("default" = "groups"))]
    pub(super) role_claim: Setting<String>,
    /// Values of `role-claim` that make a user an admin.
    #[schemars(extend("default" = []))]
    pub(super) admins: Setting<List<String>>,
    /// Values of `role-claim` that make a user an operator.
    #[schemars(extend("default" = []))]
    pub(super) operators: Setting<List<String>>,
    /// Values of `role-claim` that make a user a viewer.
    #[schemars(extend("default" = []))]
    pub(super) viewers: Setting<List<String>>,
}

/// The table `[query-log]`: the log of queries and answers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct QueryLogSpec {
    /// Whether the server logs each query with its answer and the reason for the answer.
    #[schemars(extend("default" = false))]
    pub(super) enabled: Setting<bool>,
    /// Directory of the query log; "" is `query-log` in the data directory.
    #[schemars(extend("default" = ""))]
    pub(super) directory: Setting<String>,
    /// Age in days at which the server deletes entries; 0 sets no limit by age.
    #[schemars(extend("default" = 90))]
    pub(super) retention_days: Setting<Int<0, 36_500>>,
    /// Largest size of the log. The server deletes the oldest entries if the log is larger.
    #[schemars(extend("default" = "1GiB"))]
    pub(super) retention_bytes: Setting<ByteSize>,
    /// Shorter ages in days for entries with certain outcomes, such as "answered:30": the server
    /// deletes answered queries after 30 days.
    #[schemars(extend("default" = []))]
    pub(super) retention_outcomes: Setting<List<Text<KindDays>>>,
    /// How much the log stores about clients: "full", the address and name; "truncated", the
    /// network (/24 or /56); "pseudonym", an encrypted address; "no-names", the address and name,
    /// but neither the queried name nor the answer; "off", no entry.
    #[schemars(extend("default" = "full"))]
    pub(super) privacy: Setting<Text<Privacy>>,
}

/// The table `[dnstap]`: the export of each query and reply to a program.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct DnstapSpec {
    /// Receiver of a dnstap message for each reply: "unix:PATH" or "tcp://ADDRESS:PORT"; "" for
    /// none.
    #[schemars(extend("default" = ""))]
    pub(super) output: Setting<String>,
    /// Name of this server in each dnstap message.
    #[schemars(extend("default" = ""))]
    pub(super) identity: Setting<String>,
}

/// The table `[log]`: the log of the server itself.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct LogSpec {
    /// Lowest level of messages that the server logs: "error", "warn", "info", "debug" or "trace".
    #[schemars(extend("default" = "info"))]
    pub(super) level: Setting<Text<LogLevel>>,
    /// Format of the messages: "text" for people, "json" for programs.
    #[schemars(extend("default" = "text"))]
    pub(super) format: Setting<Text<LogFormat>>,
}

/// The table `[data]`: the directory for the state of the server.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct DataSpec {
    /// Directory for the control socket, caches, lists, users, revisions and other state. A
    /// relative path starts at the working directory of the server.
    #[schemars(extend("default" = "./avocet-data"))]
    pub(super) directory: Setting<String>,
}

/// The table `[config]`: the history of the configuration.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct RevisionsSpec {
    /// Number of seconds within which a change must be confirmed by `avocet config confirm`.
    /// Otherwise, the server rolls the change back. 0 requires no confirmation.
    #[schemars(extend("default" = 0))]
    pub(super) probation_secs: Setting<Int<0, 86_400>>,
    /// Maximum number of revisions in the history.
    #[schemars(extend("default" = 100))]
    pub(super) keep_revisions: Setting<Int<1, 10_000>>,
}
