//! Converts the keys of the file to the values in force: adds defaults, and checks values against
//! each other.

use std::mem;
use std::net::SocketAddr;
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use avocet_io::memory;
use avocet_resolver::StubZone;
use avocet_wire::special_purpose::Scope;
use ipnet::IpNet;
use toml::Spanned;

use super::acme::AcmeContext;
use super::certificate::{self, CertificateTables, Certificates};
use super::check::Check;
use super::client_certificate::ClientKeys;
use super::error::SettingError;
use super::files::NamedFiles;
use super::list_primaries::primaries_by;
use super::listen::TakenPorts;
use super::name::{Name, shown};
use super::query_log::{self, PrivacyTables};
use super::recurse::{self, Mode};
use super::setting::{Allowed, FromText, List, Setting, Text, address_with_port};
use super::source::Parsed;
use super::spec::{
    CacheSpec, DataSpec, ForwardSpec, LogSpec, RateLimitSpec, ResolverSpec, RevisionsSpec,
    ServerSpec, Spec,
};
use super::{
    AllowConfig, CacheConfig, Config, DEFAULT_DIRECTORY, DataConfig, ForwardConfig, LogConfig,
    LogFormat, LogLevel, Protocol, RateLimitConfig, RevisionsConfig, ServeStaleConfig,
    ServerConfig, TcpConfig, client_certificate, dns64, dnstap, forward, key, listener, odoh, oidc,
    otlp, policy, pool, ports, record, setting::SettingFault, signing, web, zone, zone_view,
};

/// Maximum number of workers.
const MAX_WORKERS: usize = 256;

/// Returns the mode of resolution. The default is forwarding if a rule covers all names, otherwise
/// recursion.
fn mode(resolver: &mut ResolverSpec, forwards: &[Spanned<ForwardSpec>], check: &mut Check) -> Mode {
    let default = if forward::forwards_all(forwards) { Mode::Forward } else { Mode::Recurse };
    check.take(mem::take(&mut resolver.mode)).map_or(default, |text| text.0)
}

/// A configuration with its settings without effect, or all faults of its file, including those
/// found by the parser.
pub(super) type Validated = Result<(Config, Vec<SettingFault>), Vec<SettingFault>>;

/// Returns the configuration of a parsed file in `directory`, and the other files that it names.
pub(super) fn validate(parsed: Parsed, directory: &Path) -> (NamedFiles, Validated) {
    let Parsed { mut spec, faults, is_bare } = parsed;
    let mut check = Check::new(faults, directory);
    let tables = CertificateTables::take(&mut spec);
    let (tls_at, http_places) = (listener::first_tls(&spec.server.listen), http_places(&spec));
    let mut resolver = spec.resolver;
    let mode = mode(&mut resolver, &spec.forward, &mut check);
    let local_zones = mem::take(&mut spec.server.local_zones);
    let mut server = responses(&mut resolver, server(spec.server, &mut check), &mut check);
    let (data, keys) = (data(spec.data, &mut check), key::keys(spec.key, &mut check));
    let policies = signing::policies(spec.signing_policy, &mut check);
    let context = zone::ZoneContext { keys: &keys, policies: &policies, data: &data.directory };
    let (zone_places, zones) = zone::zones(spec.zone, &context, &mut check);
    let context = AcmeContext { zones: &zones, keys: &keys, data: &data.directory };
    let Certificates { all: certificates, acme, home_ca } =
        certificate::certificates(tables, &context, &mut check);
    tls_at.iter().for_each(|at| certificate::need_one(&certificates, at, &mut check));
    server.listeners = listener::listeners(spec.listener, &server, &certificates, &mut check);
    let dns64 = dns64::dns64(spec.dns64, &mut check);
    let forwards = forward::rules(spec.forward, dns64.by(mode), &server.addresses(), &mut check);
    let stubs = recurse::stubs(spec.stub, mode, &mut check);
    server.local_zones = self::local_zones(local_zones, (&forwards, &stubs), &mut check);
    let privacy = PrivacyTables::take(&mut spec.client, &mut spec.group, &mut check);
    let tables = policy::Tables {
        policy: spec.policy,
        lists: spec.list,
        groups: spec.group,
        clients: spec.client,
        rules: spec.rule,
        listeners: server.listeners.iter().map(|listener| listener.name.clone()).collect(),
    };
    let records = record::rrsets(spec.record, &zones, &mut check);
    let mut policy = policy::policy(tables, (&forwards, &primaries_by(&keys)), &mut check);
    zone_view::apply(&zones, &zone_places, &mut policy, &mut check);
    let pools = pool::pools(spec.pool, (&records, &mut policy), &mut check);
    let config = Config {
        is_bare,
        web: web::web(spec.web, &certificates, &mut check),
        certificates,
        acme,
        home_ca,
        avoid_ports: ports::avoid_ports(mem::take(&mut resolver.avoid_ports), &mut check),
        resolver: recurse::resolver(resolver, mode, (&forwards, &stubs), &mut check),
        stubs,
        dnssec: recurse::dnssec(spec.dnssec, &mut check),
        dns64,
        odoh: odoh::odoh(spec.odoh, protocols(&server), &mut check),
        server,
        cache: cache(spec.cache, &mut check),
        zones: zone::with_pools(zones, &pools),
        pools,
        records,
        keys,
        signing_policies: policies,
        policy,
        forwards,
        rate_limit: rate_limit(spec.rate_limit, &mut check),
        oidc: oidc::oidc(spec.oidc, &mut check),
        query_log: query_log::query_log(spec.query_log, privacy, &mut check),
        dnstap: dnstap::dnstap(spec.dnstap, &mut check),
        otlp: otlp::otlp(spec.otlp, spec.trace, &mut check),
        log: log(spec.log, &mut check),
        data,
        revisions: revisions(spec.config, &mut check),
        doubts: Vec::new(),
    };
    check_streams(&config, http_places, &mut check);
    let (files, found) = check.finish();
    (files, found.map(|doubts| (config, doubts)))
}

/// Returns the positions of `http`, `https` and `block-page` in the file.
fn http_places(spec: &Spec) -> [Option<Range<usize>>; 3] {
    [spec.server.http.span(), spec.web.https.span(), spec.policy.block_page.span()]
}

/// Checks that no address for HTTP is in use for something else. `places` has the positions of
/// `http`, `https` and `block-page`.
fn check_streams(config: &Config, places: [Option<Range<usize>>; 3], check: &mut Check) {
    let dns = config.server.open_addresses().into_iter().filter(|one| one.protocol.uses_streams());
    let mut taken: Vec<(SocketAddr, &str)> = dns.map(|one| (one.address, "DNS clients")).collect();
    let [http_at, https_at, page_at] = places;
    let http = config.server.http.map(|address| (address, http_at, "[server] http"));
    let https = config.web.https.as_ref().map(|https| (https.address, https_at, "[web] https"));
    let page = config.policy.block.page.iter();
    let page = page.map(|address| (*address, page_at.clone(), "block-page"));
    for (address, at, name) in http.into_iter().chain(https).chain(page) {
        if let Some((_, other)) = taken.iter().find(|(one, _)| *one == address) {
            let message = format!("{name} has the address {address}, which is for {other}");
            check.fault(at.unwrap_or_default(), message);
        }
        taken.push((address, name));
    }
}

/// Returns the protocols of the addresses of a server.
fn protocols(server: &ServerConfig) -> impl Iterator<Item = Protocol> {
    server.open_addresses().into_iter().map(|one| one.protocol)
}

/// Takes the settings of responses from the table of the resolver. They override those of
/// `[server]`.
fn responses(
    resolver: &mut ResolverSpec,
    mut server: ServerConfig,
    check: &mut Check,
) -> ServerConfig {
    if let Some(size) = check.take(mem::take(&mut resolver.max_udp_size)) {
        server.max_udp_size = size.0 as u16;
    }
    if let Some(minimal) = check.take(mem::take(&mut resolver.minimal_responses)) {
        server.minimal_responses = minimal;
    }
    server
}

fn server(mut spec: ServerSpec, check: &mut Check) -> ServerConfig {
    let h3 = check.take(spec.h3).unwrap_or(true);
    let taken = TakenPorts { h3, ..TakenPorts::default() };
    let tls_at = listener::first_tls(&spec.listen);
    let keys = ClientKeys { ca: &mut spec.client_ca, certificate: &mut spec.client_certificate };
    let client_certificates = client_certificate::read(keys, tls_at.as_ref(), check);
    let (listen, encrypted) = listener::listen_of_server(spec.listen, taken, check);
    ServerConfig {
        listen,
        encrypted,
        h3,
        early_data: check.take(spec.early_data).unwrap_or(false),
        client_certificates,
        listeners: Vec::new(),
        open: Vec::new(),
        workers: check.take(spec.workers).map_or_else(cores, |workers| workers.0 as usize),
        pin_workers: check.take(spec.pin_workers).unwrap_or(false),
        http: http(spec.http, check),
        allow: allow(spec.allow, check),
        local_names: check.take(spec.local_names).unwrap_or(true),
        announce: check.take(spec.announce).unwrap_or(true),
        local_zones: Vec::new(),
        max_udp_size: check.take(spec.max_udp_size).map_or(1232, |size| size.0 as u16),
        minimal_responses: check.take(spec.minimal_responses).unwrap_or(true),
        user: check.take(spec.user).filter(|user| !user.is_empty()),
        http_names: check.take(spec.http_names).map_or_else(Vec::new, |list| {
            let folded = |name: Spanned<String>| {
                name.into_inner().trim_end_matches('.').to_ascii_lowercase()
            };
            list.0.into_iter().map(folded).collect()
        }),
        control_group: check.take(spec.control_group).filter(|group| !group.is_empty()),
        version: match spec.version {
            Setting(None) => Some("avocet".to_owned()),
            written => check.client_text(written),
        },
        id_server: check.client_text(spec.id_server),
        nsid: check.client_text(spec.nsid),
        cookies: check.take(spec.cookies).unwrap_or(true),
        cookie_secret: cookie_secret(spec.cookie_secret, check),
        tcp: TcpConfig {
            connections: check.take(spec.tcp_connections).map_or(1000, |n| n.0 as usize),
            connections_per_client: check
                .take(spec.tcp_connections_per_client)
                .map_or(20, |n| n.0 as usize),
            idle: millis(check.take(spec.tcp_idle_ms).map_or(10_000, |ms| ms.0)),
            read: millis(check.take(spec.tcp_read_ms).map_or(3_000, |ms| ms.0)),
        },
    }
}

pub(super) fn allow(setting: Setting<List<Text<Allowed>>>, check: &mut Check) -> AllowConfig {
    if setting.0.is_none() {
        return AllowConfig { local: true, networks: Vec::new() };
    }
    let items = check.take(setting).map_or_else(Vec::new, |list| list.0);
    let mut allow = AllowConfig { local: false, networks: Vec::new() };
    for item in items {
        match item.into_inner().0 {
            Allowed::Local => allow.local = true,
            Allowed::Network(network) => allow.networks.push(network),
        }
    }
    allow
}

fn millis(count: u32) -> Duration {
    Duration::from_millis(count.into())
}

/// Returns the local zones without duplicates. The root is a fault, because no name would be
/// resolved. A zone of a forwarding rule or a stub zone is a fault too.
fn local_zones(
    setting: Setting<List<Text<Name>>>,
    (forwards, stubs): (&[ForwardConfig], &[StubZone]),
    check: &mut Check,
) -> Vec<Name> {
    let elsewhere = forwards.iter().map(|forward| &forward.zone);
    let elsewhere: Vec<_> = elsewhere.chain(stubs.iter().map(|stub| &stub.zone)).collect();
    let mut zones: Vec<Name> = Vec::new();
    for written in check.take(setting).map_or_else(Vec::new, |list| list.0) {
        let (at, Text(zone)) = (written.span(), written.into_inner());
        if zone.len() == 1 {
            check.fault(
                at,
                "the root cannot be a local zone; name the zones of this network, such as \"lan\"",
            );
        } else if elsewhere.contains(&&zone) {
            check.fault(
                at,
                format!(
                    "{:?} also has servers in a [[forward]] or [[stub]]; remove one",
                    shown(&zone)
                ),
            );
        } else if zones.contains(&zone) {
            check.fault(at, format!("duplicate zone {:?}", shown(&zone)));
        } else {
            zones.push(zone);
        }
    }
    zones
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_WORKERS)
}

/// Returns loopback, link-local and private networks.
pub fn private_networks() -> Vec<IpNet> {
    let network = |(address, bits)| IpNet::new(address, bits).ok();
    Scope::Local.prefixes().filter_map(network).collect()
}

fn http(setting: Setting<String>, check: &mut Check) -> Option<SocketAddr> {
    if setting.span().is_none() {
        return Some(SocketAddr::from(([127, 0, 0, 1], 8053)));
    }
    local_address(setting, "127.0.0.1:8053", 8053, check)
}

/// Returns a loopback or private address with port; `None` if the key is not set or empty.
pub(super) fn local_address(
    setting: Setting<String>,
    example: &str,
    port: u16,
    check: &mut Check,
) -> Option<SocketAddr> {
    let span = setting.span()?;
    let text = check.take(setting).filter(|text| !text.is_empty())?;
    let address = match address_with_port(&text, port) {
        Ok(address) => address,
        Err(error) => {
            let expected =
                format!("an address with port, such as \"{example}\", or \"\" to turn it off");
            check.fault(
                span,
                error.map_or_else(
                    || format!("expected {expected}; found {text:?}"),
                    |error| error.to_string(),
                ),
            );
            return None;
        }
    };
    if !Scope::Local.contains(address.ip()) {
        let message = format!(
            "{address} is neither loopback nor private; write \"{example}\" or an address of your \
             own network"
        );
        check.fault(span, message);
    }
    Some(address)
}

fn cookie_secret(setting: Setting<String>, check: &mut Check) -> Option<[u8; 16]> {
    let span = setting.span()?;
    let digits = check.take(setting).filter(|digits| !digits.is_empty())?;
    let is_hex = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let secret = u128::from_str_radix(&digits, 16).ok().filter(|_| is_hex);
    if secret.is_none() {
        // The value is a secret: it does not appear in the message.
        let found = digits.chars().count();
        let message =
            format!("expected 32 hexadecimal digits (16 octets), found {found} characters");
        check.fault(span, message);
    }
    secret.map(u128::to_be_bytes)
}

fn cache(spec: CacheSpec, check: &mut Check) -> CacheConfig {
    const MIB: usize = 1 << 20;
    let min_at = spec.min_ttl_secs.span();
    let max_at = spec.max_ttl_secs.span();
    let min_ttl_secs = check.take(spec.min_ttl_secs).map_or(0, |secs| secs.0);
    let max_ttl_secs = check.take(spec.max_ttl_secs).map_or(86_400, |secs| secs.0);
    if let Some(at) = min_at.or(max_at).filter(|_| min_ttl_secs > max_ttl_secs) {
        let message =
            format!("min-ttl-secs ({min_ttl_secs}) is above max-ttl-secs ({max_ttl_secs})");
        check.fault(at, message);
    }
    let stale = ServeStaleConfig {
        max_secs: check.take(spec.serve_stale_max_secs).map_or(86_400, |secs| secs.0),
        client_timeout: millis(check.take(spec.stale_client_timeout_ms).map_or(1_800, |ms| ms.0)),
    };
    let interval = check.take(spec.snapshot_interval_secs).map_or(300, |secs| secs.0);
    let sizes_at = [spec.packet_bytes.span(), spec.rrset_bytes.span()];
    let packet_bytes = check.take(spec.packet_bytes).map_or(64 * MIB, |bytes| bytes.0);
    let rrset_bytes = check.take(spec.rrset_bytes).map_or(128 * MIB, |bytes| bytes.0);
    fits_memory([packet_bytes, rrset_bytes], sizes_at, check);
    CacheConfig {
        packet_bytes,
        rrset_bytes,
        min_ttl_secs,
        max_ttl_secs,
        negative_min_ttl_secs: check.take(spec.negative_min_ttl_secs).map_or(0, |secs| secs.0),
        negative_max_ttl_secs: check.take(spec.negative_max_ttl_secs).map_or(3_600, |secs| secs.0),
        serve_stale: check.take(spec.serve_stale).unwrap_or(true).then_some(stale),
        prefetch: check.take(spec.prefetch).unwrap_or(true),
        snapshot_interval: (interval > 0).then(|| Duration::from_secs(interval.into())),
    }
}

/// Adds a fault if both caches together exceed the memory of the machine and the file sets one of
/// the sizes.
fn fits_memory(sizes: [usize; 2], at: [Option<Range<usize>>; 2], check: &mut Check) {
    let [packets, rrsets] = sizes;
    let total = packets.saturating_add(rrsets) as u64;
    let Some(limit) = memory::limit().filter(|limit| total > *limit) else { return };
    let [packets_at, rrsets_at] = at;
    let larger = if packets > rrsets { packets_at.or(rrsets_at) } else { rrsets_at.or(packets_at) };
    let Some(larger) = larger else { return };
    let message = format!(
        "packet-bytes and rrset-bytes together are {} MiB, and the server may use {} MiB of memory",
        total >> 20,
        limit >> 20
    );
    check.fault(larger, message);
}

fn rate_limit(spec: RateLimitSpec, check: &mut Check) -> Option<RateLimitConfig> {
    let config = RateLimitConfig {
        responses_per_second: check.take(spec.responses_per_second).map_or(0, |n| n.0),
        slip: check.take(spec.slip).map_or(2, |n| n.0 as u8),
        ipv4_prefix_length: check.take(spec.ipv4_prefix_length).map_or(24, |bits| bits.0 as u8),
        ipv6_prefix_length: check.take(spec.ipv6_prefix_length).map_or(56, |bits| bits.0 as u8),
        exempt: check.networks(spec.exempt).unwrap_or_default(),
    };
    (config.responses_per_second > 0).then_some(config)
}

fn log(spec: LogSpec, check: &mut Check) -> LogConfig {
    LogConfig {
        level: check.take(spec.level).map_or(LogLevel::Info, |text| text.0),
        format: check.take(spec.format).map_or(LogFormat::Text, |text| text.0),
    }
}

impl FromText for LogLevel {
    const EXPECTED: &'static str = "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"";
    const CHOICES: &'static [&'static str] = &["error", "warn", "info", "debug", "trace"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            "trace" => Ok(Self::Trace),
            _ => Err(None),
        }
    }
}

impl FromText for LogFormat {
    const EXPECTED: &'static str = "\"text\" or \"json\"";
    const CHOICES: &'static [&'static str] = &["text", "json"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(None),
        }
    }
}

fn revisions(spec: RevisionsSpec, check: &mut Check) -> RevisionsConfig {
    RevisionsConfig {
        probation_secs: check.take(spec.probation_secs).map_or(0, |secs| secs.0),
        keep: check.take(spec.keep_revisions).map_or(100, |count| count.0 as usize),
    }
}

fn data(spec: DataSpec, check: &mut Check) -> DataConfig {
    let at = spec.directory.span();
    let directory =
        check.take(spec.directory).map_or_else(|| PathBuf::from(DEFAULT_DIRECTORY), PathBuf::from);
    if let Some(at) = at.filter(|_| directory.as_os_str().is_empty()) {
        check.fault(at, "expected a directory such as \"./avocet-data\", found \"\"");
    }
    DataConfig { directory }
}
