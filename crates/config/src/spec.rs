//! What may be written in the file: one struct a table, one field a key.
//!
//! The comments here are what `avocet config schema` shows, and `default` is what holds when a key
//! is absent; a test compares it with what [`validate`](super::validate) fills in. Nothing is
//! checked here beyond the type of each value.

use std::net::SocketAddr;

use avocet_dnssec::anchor::Anchor;
use avocet_wire::Rtype;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::forward::Zone;
use super::name::Name;
use super::policy_spec::{ClientTable, GroupTable, ListTable, PolicySpec, RuleTable};
use super::recurse::{LocalRootSource, Mode};
use super::setting::{Allowed, ByteSize, Int, List, Setting, Text};
use super::upstream::Server;
use super::{EcsPolicy, LogFormat, LogLevel, Strategy, Upstream};

/// Configuration of Avocet.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(rename = "Avocet")]
pub(super) struct Spec {
    /// Listeners, admission and the shape of answers.
    pub(super) server: ServerSpec,
    /// How names that are not answered here are resolved.
    pub(super) resolver: ResolverSpec,
    /// Forwarding rules; the one with the longest zone that a name is under counts. In mode
    /// "forward" and without any, all names go to the servers in /etc/resolv.conf.
    #[schemars(with = "Vec<ForwardSpec>")]
    pub(super) forward: Vec<Spanned<ForwardSpec>>,
    /// Zones whose authoritative servers are known, for recursion.
    #[schemars(with = "Vec<StubSpec>")]
    pub(super) stub: Vec<Spanned<StubSpec>>,
    /// Validation of what recursion finds.
    pub(super) dnssec: DnssecSpec,
    /// Addresses translated for clients that have IPv6 only, by recursion (RFC 6147).
    pub(super) dns64: Dns64Spec,
    /// The two answer caches.
    pub(super) cache: CacheSpec,
    /// Local records.
    #[schemars(with = "Vec<RecordSpec>")]
    pub(super) record: Vec<Spanned<RecordSpec>>,
    /// What is answered for blocked names, and when schedules hold.
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
    /// Rules; the first whose condition holds says what becomes of a query.
    #[schemars(with = "Vec<RuleTable>")]
    pub(super) rule: Vec<Spanned<RuleTable>>,
    /// Limits of equal answers to one client network.
    pub(super) rate_limit: RateLimitSpec,
    /// What the server writes about itself.
    pub(super) log: LogSpec,
    /// Where state is kept.
    pub(super) data: DataSpec,
}

/// `[server]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct ServerSpec {
    /// Addresses with port that are served over UDP and TCP. `0.0.0.0:53` and `[::]:53` mean all of
    /// this machine.
    #[schemars(extend("default" = ["127.0.0.1:5300"]))]
    pub(super) listen: Setting<List<Text<SocketAddr>>>,
    /// Threads that answer; by default one for each core.
    pub(super) workers: Setting<Int<1, 256>>,
    /// Tie each thread to one core.
    #[schemars(extend("default" = false))]
    pub(super) pin_workers: Setting<bool>,
    /// Address with port of metrics and health, loopback or private; "" turns it off.
    #[schemars(extend("default" = "127.0.0.1:8053"))]
    pub(super) http: Setting<String>,
    /// Networks whose queries are answered; all others are refused. "local" means private networks
    /// and those of the host's own interfaces.
    #[schemars(extend("default" = ["local"]))]
    pub(super) allow: Setting<List<Text<Allowed>>>,
    /// Answer special names such as "localhost." and the reverse names of private addresses here
    /// (RFC 6761, RFC 6303).
    #[schemars(extend("default" = true))]
    pub(super) local_names: Setting<bool>,
    /// Zones of this network: names in them that have no record do not exist, and no other server
    /// is asked about them.
    #[schemars(extend("default" = []))]
    pub(super) local_zones: Setting<List<Text<Name>>>,
    /// Largest UDP answer and advertised EDNS buffer size, in bytes.
    #[schemars(extend("default" = 1232))]
    pub(super) max_udp_size: Setting<Int<512, 4096>>,
    /// Leave out records that were not asked for.
    #[schemars(extend("default" = true))]
    pub(super) minimal_responses: Setting<bool>,
    /// Account to become once the sockets are bound; "" stays what it is.
    #[schemars(extend("default" = ""))]
    pub(super) user: Setting<String>,
    /// Names by which metrics are asked, beside addresses and names of the local network.
    #[schemars(extend("default" = []))]
    pub(super) http_names: Setting<List<String>>,
    /// Group whose members may use the control socket; "" leaves it to the account of the server.
    #[schemars(extend("default" = ""))]
    pub(super) control_group: Setting<String>,
    /// Text of version.bind and version.server; "" refuses the question.
    #[schemars(extend("default" = "avocet"))]
    pub(super) version: Setting<String>,
    /// Text of id.server and hostname.bind (RFC 4892); "" refuses the question.
    #[schemars(extend("default" = ""))]
    pub(super) id_server: Setting<String>,
    /// Name server identifier for clients that ask for it (RFC 5001); "" gives none.
    #[schemars(extend("default" = ""))]
    pub(super) nsid: Setting<String>,
    /// Give and check DNS cookies (RFC 7873).
    #[schemars(extend("default" = true))]
    pub(super) cookies: Setting<bool>,
    /// Secret of the server cookies (RFC 9018), 32 hexadecimal digits, for servers that share an
    /// address; "" draws one at each start.
    #[schemars(extend("default" = ""))]
    pub(super) cookie_secret: Setting<String>,
    /// TCP connections open at once.
    #[schemars(extend("default" = 1000))]
    pub(super) tcp_connections: Setting<Int<1, 1_000_000>>,
    /// TCP connections open at once from one client address.
    #[schemars(extend("default" = 20))]
    pub(super) tcp_connections_per_client: Setting<Int<1, 1_000_000>>,
    /// How long a TCP connection may stay open with no query in flight, in milliseconds.
    #[schemars(extend("default" = 10_000))]
    pub(super) tcp_idle_ms: Setting<Int<100, 600_000>>,
    /// How long a query that has begun to arrive over TCP may take, in milliseconds.
    #[schemars(extend("default" = 3_000))]
    pub(super) tcp_read_ms: Setting<Int<100, 600_000>>,
}

/// `[resolver]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct ResolverSpec {
    /// "recurse" asks the root's servers and those below, but for names that a forwarding rule or a
    /// stub zone says otherwise; "forward" asks the servers of the forwarding rules only. Without
    /// it, "forward" where a rule is for all names, and else "recurse".
    pub(super) mode: Setting<Text<Mode>>,
    /// A file in zone syntax with the root's servers; "" takes those built in.
    #[schemars(extend("default" = ""))]
    pub(super) root_hints: Setting<String>,
    /// Keep a copy of the root zone, verified by its digest (RFC 8976), and ask it in place of the
    /// root's servers (RFC 8806): from the primaries, or from a file in zone syntax.
    #[schemars(extend("default" = false))]
    pub(super) local_root: Setting<LocalRootSource>,
    /// Servers that give the root zone by transfer (RFC 5936); without it, those known to.
    pub(super) local_root_primaries: Setting<List<Text<Server>>>,
    /// Ask the root's servers who they are before anything else (RFC 8109).
    #[schemars(extend("default" = true))]
    pub(super) priming: Setting<bool>,
    /// Tell servers no more of a name than they need to know (RFC 9156).
    #[schemars(extend("default" = true))]
    pub(super) qname_minimisation: Setting<bool>,
    /// Send the letters of a question in random case to authoritative servers, too (0x20).
    #[schemars(extend("default" = true))]
    pub(super) case_randomisation: Setting<bool>,
    /// Send cookies to authoritative servers (RFC 7873).
    #[schemars(extend("default" = true))]
    pub(super) cookies: Setting<bool>,
    /// Ask servers over IPv4.
    #[schemars(extend("default" = true))]
    pub(super) ipv4: Setting<bool>,
    /// Ask servers over IPv6.
    #[schemars(extend("default" = true))]
    pub(super) ipv6: Setting<bool>,
    /// Ask authoritative servers at private and loopback addresses, too.
    #[schemars(extend("default" = false))]
    pub(super) query_private: Setting<bool>,
    /// Deny names by NSEC records that were validated before (RFC 8198).
    #[schemars(extend("default" = true))]
    pub(super) aggressive_nsec: Setting<bool>,
    /// Report names that do not validate to whom the servers of their zones name for that
    /// (RFC 9567).
    #[schemars(extend("default" = false))]
    pub(super) error_reports: Setting<bool>,
    /// EDNS buffer size told to authoritative servers, in bytes.
    #[schemars(extend("default" = 1232))]
    pub(super) edns_buffer_size: Setting<Int<512, 4096>>,
    /// Inquiries under way at the servers of one zone; further names below it get an error, or
    /// expired data.
    #[schemars(extend("default" = 200))]
    pub(super) fetches_per_zone: Setting<Int<1, 100_000>>,
    /// Queries that one authoritative server has not answered yet; then others are asked.
    #[schemars(extend("default" = 1_000))]
    pub(super) fetches_per_server: Setting<Int<1, 100_000>>,
    /// Overrides `max-udp-size` of `[server]`.
    #[schemars(extend("default" = 1232))]
    pub(super) max_udp_size: Setting<Int<512, 4096>>,
    /// Overrides `minimal-responses` of `[server]`.
    #[schemars(extend("default" = true))]
    pub(super) minimal_responses: Setting<bool>,
}

/// `[[stub]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["zone", "servers"]))]
pub(super) struct StubSpec {
    /// Apex of the zone.
    pub(super) zone: Setting<Text<Name>>,
    /// Its authoritative servers: `192.0.2.1`, `192.0.2.1:5353`.
    pub(super) servers: Setting<List<Text<Server>>>,
}

/// `[dnssec]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct DnssecSpec {
    /// Validate what recursion finds (RFC 4035).
    #[schemars(extend("default" = true))]
    pub(super) validate: Setting<bool>,
    /// DS or DNSKEY records in presentation form; without any, those of the root that are built in.
    #[schemars(extend("default" = []))]
    pub(super) trust_anchors: Setting<List<Text<Anchor>>>,
    /// Follow changes of the keys that the trust anchors name (RFC 5011).
    #[schemars(extend("default" = true))]
    pub(super) trust_anchor_updates: Setting<bool>,
    /// Tell zones with a trust anchor, whenever their keys are asked for, which of them are trusted
    /// (RFC 8145).
    #[schemars(extend("default" = true))]
    pub(super) key_tag_signal: Setting<bool>,
    /// Names below which nothing is validated (RFC 7646).
    #[schemars(extend("default" = []))]
    pub(super) negative_anchors: Setting<List<Text<Name>>>,
    /// Take signatures by SHA-1 for valid (RFC 9905 advises against it).
    #[schemars(extend("default" = false))]
    pub(super) validate_sha1: Setting<bool>,
}

/// `[dns64]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct Dns64Spec {
    /// The prefix of a translator such as "64:ff9b::/96": names without an IPv6 address get one
    /// made of it and of their IPv4 address; "" translates nothing.
    #[schemars(extend("default" = ""))]
    pub(super) prefix: Setting<String>,
    /// Networks of IPv6 addresses that are as good as none.
    #[schemars(extend("default" = ["::ffff:0.0.0.0/96"]))]
    pub(super) exclude: Setting<List<Text<IpNet>>>,
}

/// `[[forward]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["zone"]))]
pub(super) struct ForwardSpec {
    /// Names under this one follow the rule; "." is all names. "!corp.example" excludes the names
    /// under it from the rule that would else reach them.
    pub(super) zone: Setting<Text<Zone>>,
    /// Servers to ask: `udp://1.1.1.1:53`, `tcp://[2620:fe::fe]:53` or an address alone, which is
    /// UDP on port 53. A truncated answer is asked for again over TCP.
    pub(super) upstreams: Setting<List<Text<Upstream>>>,
    /// A file with `nameserver` lines, in place of `upstreams`.
    pub(super) resolv_conf: Setting<String>,
    /// "ordered", "round-robin", "fastest", or "race 2" to "race 8": so many at once.
    #[schemars(extend("default" = "fastest"))]
    pub(super) strategy: Setting<Text<Strategy>>,
    /// Send the letters of a question in random case, which makes answers hard to forge (0x20).
    #[schemars(extend("default" = true))]
    pub(super) case_randomisation: Setting<bool>,
    /// Client subnet options: "strip" takes them out, "pass" sends them on (RFC 7871), in mode
    /// "forward" only.
    #[schemars(extend("default" = "strip"))]
    pub(super) ecs: Setting<Text<EcsPolicy>>,
    /// Shortest time that one server is given to answer, in milliseconds.
    #[schemars(extend("default" = 50))]
    pub(super) timeout_min_ms: Setting<Int<10, 5_000>>,
    /// Longest time that one server is given to answer, in milliseconds.
    #[schemars(extend("default" = 2_000))]
    pub(super) timeout_max_ms: Setting<Int<10, 5_000>>,
}

/// `[cache]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct CacheSpec {
    /// Memory of the packet cache, which holds answers ready to send.
    #[schemars(extend("default" = "64MiB"))]
    pub(super) packet_bytes: Setting<ByteSize>,
    /// Memory of the RRset cache, which holds what upstreams said.
    #[schemars(extend("default" = "128MiB"))]
    pub(super) rrset_bytes: Setting<ByteSize>,
    /// Shorter TTLs are raised to this.
    #[schemars(extend("default" = 0))]
    pub(super) min_ttl_secs: Setting<Int<0, 86_400>>,
    /// Longer TTLs are cut to this.
    #[schemars(extend("default" = 86_400))]
    pub(super) max_ttl_secs: Setting<Int<0, 604_800>>,
    /// Shortest time that a negative answer is kept, though never above the longest.
    #[schemars(extend("default" = 0))]
    pub(super) negative_min_ttl_secs: Setting<Int<0, 3_600>>,
    /// Longest time that a negative answer is kept (RFC 2308).
    #[schemars(extend("default" = 3_600))]
    pub(super) negative_max_ttl_secs: Setting<Int<0, 86_400>>,
    /// Answer with expired records where no server answers (RFC 8767).
    #[schemars(extend("default" = true))]
    pub(super) serve_stale: Setting<bool>,
    /// How long past its TTL a record may be used.
    #[schemars(extend("default" = 86_400))]
    pub(super) serve_stale_max_secs: Setting<Int<1, 604_800>>,
    /// How long a client waits for a fresh answer before it gets the stale one, in milliseconds.
    #[schemars(extend("default" = 1_800))]
    pub(super) stale_client_timeout_ms: Setting<Int<0, 5_000>>,
    /// Ask for much-used names again shortly before they expire.
    #[schemars(extend("default" = true))]
    pub(super) prefetch: Setting<bool>,
    /// How often the RRset cache is written to disk; 0: never.
    #[schemars(extend("default" = 300))]
    pub(super) snapshot_interval_secs: Setting<Int<0, 86_400>>,
}

/// `[[record]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "type", "values"]))]
pub(super) struct RecordSpec {
    /// Owner; "*.lan" is a wildcard.
    pub(super) name: Setting<Text<Name>>,
    /// Record type, such as "A" or "TYPE65280".
    pub(super) r#type: Setting<Text<Rtype>>,
    /// Record data as in a zone file, each name in it written in full.
    pub(super) values: Setting<List<String>>,
    /// Time to live.
    #[schemars(extend("default" = 300))]
    pub(super) ttl_secs: Setting<Int<0, 604_800>>,
    /// Answer the reverse name of an A or AAAA record too.
    #[schemars(extend("default" = true))]
    pub(super) ptr: Setting<bool>,
}

/// `[rate-limit]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct RateLimitSpec {
    /// Equal answers a second to one client network; 0: no limit.
    #[schemars(extend("default" = 0))]
    pub(super) responses_per_second: Setting<Int<0, 1_000_000>>,
    /// Each so many-th answer over the limit is sent truncated, so that a real client comes back
    /// over TCP; 0: none.
    #[schemars(extend("default" = 2))]
    pub(super) slip: Setting<Int<0, 10>>,
    /// Length of an IPv4 client network.
    #[schemars(extend("default" = 24))]
    pub(super) ipv4_prefix_length: Setting<Int<1, 32>>,
    /// Length of an IPv6 client network.
    #[schemars(extend("default" = 56))]
    pub(super) ipv6_prefix_length: Setting<Int<1, 128>>,
    /// Networks that are not limited.
    #[schemars(extend("default" = []))]
    pub(super) exempt: Setting<List<Text<IpNet>>>,
}

/// `[log]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct LogSpec {
    /// Least important lines that are written.
    #[schemars(extend("default" = "info"))]
    pub(super) level: Setting<Text<LogLevel>>,
    /// Form of a line.
    #[schemars(extend("default" = "text"))]
    pub(super) format: Setting<Text<LogFormat>>,
}

/// `[data]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct DataSpec {
    /// Directory of cache snapshots and the control socket.
    #[schemars(extend("default" = "./avocet-data"))]
    pub(super) directory: Setting<String>,
}
