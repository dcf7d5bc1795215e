//! The effective configuration in the form of a file. That file would give the same configuration.

use std::net::SocketAddr;
use std::time::Duration;

use avocet_resolver::StubZone;
use avocet_wire::rdata;
use toml::{Table, Value};

use super::dns64::Dns64Config;
use super::name::shown;
use super::recurse::{LocalRootSource, Mode};
use super::{
    AllowConfig, CacheConfig, Config, DnssecConfig, EcsPolicy, ForwardConfig, Listen,
    ListenerConfig, LogFormat, LogLevel, RateLimitConfig, RecordConfig, RevisionsConfig,
    ServerConfig, Strategy, Upstream, acme, certificate, client_certificate, dnstap, home_ca,
    introduction, key, odoh, oidc, otlp, pool, query_log, show_policy, signing, upstream_proof,
    web, zone,
};

impl Config {
    /// Returns every key with its value, as the tables of the file. The cookie secret is among the
    /// values.
    pub fn effective(&self) -> Table {
        let mut tables = Table::new();
        let mut put = |name: &str, value: Value| {
            tables.insert(name.to_owned(), value);
        };
        put("server", server(&self.server).into());
        put("resolver", resolver(self).into());
        put("listener", self.server.listeners.iter().map(listener).collect::<Vec<_>>().into());
        put(
            "certificate",
            certificate::of_files(&self.certificates)
                .map(certificate::shown)
                .collect::<Vec<_>>()
                .into(),
        );
        put("acme", acme::shown(self.acme.as_ref()).into());
        put("home-ca", home_ca::shown(self.home_ca.as_ref()).into());
        put("stub", self.stubs.iter().map(stub).collect::<Vec<_>>().into());
        put("dnssec", dnssec(&self.dnssec).into());
        put("dns64", dns64(&self.dns64).into());
        put("forward", self.forwards.iter().map(forward).collect::<Vec<_>>().into());
        put("cache", cache(&self.cache).into());
        put("record", self.records.iter().map(record).collect::<Vec<_>>().into());
        put(
            "signing-policy",
            self.signing_policies.iter().map(signing::shown).collect::<Vec<_>>().into(),
        );
        put("key", self.keys.iter().map(key::shown).collect::<Vec<_>>().into());
        put("zone", self.zones.iter().map(zone::shown).collect::<Vec<_>>().into());
        put("pool", self.pools.iter().map(pool::shown).collect::<Vec<_>>().into());
        show_policy::policy(self, &mut put);
        put("rate-limit", rate_limit(self.rate_limit.as_ref()).into());
        put("query-log", query_log::shown(&self.query_log).into());
        put("dnstap", dnstap::shown(&self.dnstap).into());
        put("otlp", otlp::shown(&self.otlp).into());
        put("trace", self.otlp.rules.iter().map(otlp::shown_rule).collect::<Vec<_>>().into());
        let level = match self.log.level {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        };
        let format = match self.log.format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        };
        put("web", web::shown(&self.web).into());
        put("odoh", odoh::shown(&self.odoh).into());
        put("oidc", oidc::shown(self.oidc.as_ref()).into());
        put("log", table([("level", level.into()), ("format", format.into())]).into());
        let directory = self.data.directory.to_string_lossy().into_owned();
        put("data", table([("directory", directory.into())]).into());
        let RevisionsConfig { probation_secs, keep } = self.revisions;
        let keep = i64::try_from(keep).unwrap_or(i64::MAX);
        put(
            "config",
            table([
                ("probation-secs", i64::from(probation_secs).into()),
                ("keep-revisions", keep.into()),
            ])
            .into(),
        );
        tables
    }
}

pub(super) fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

pub(super) fn texts<T: ToString>(items: &[T]) -> Value {
    items.iter().map(|item| Value::from(item.to_string())).collect::<Vec<_>>().into()
}

fn count(number: usize) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

fn millis(time: Duration) -> Value {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).into()
}

fn secs(number: u32) -> Value {
    i64::from(number).into()
}

fn or_empty(text: Option<&str>) -> Value {
    text.unwrap_or_default().into()
}

fn allow(allow: &AllowConfig) -> Value {
    let local = allow.local.then(|| "local".to_owned());
    let networks = allow.networks.iter().map(ToString::to_string);
    Value::Array(local.into_iter().chain(networks).map(Value::from).collect())
}

fn server(server: &ServerConfig) -> Table {
    let http = server.http.map(|address| address.to_string());
    let secret = server.cookie_secret.map(|octets| format!("{:032x}", u128::from_be_bytes(octets)));
    let mut out = table([
        ("listen", listen(&server.listen, &server.encrypted)),
        ("h3", server.h3.into()),
        ("early-data", server.early_data.into()),
        ("workers", count(server.workers)),
        ("pin-workers", server.pin_workers.into()),
        ("http", or_empty(http.as_deref())),
        ("allow", allow(&server.allow)),
        ("local-names", server.local_names.into()),
        ("announce", server.announce.into()),
        (
            "local-zones",
            texts(&server.local_zones.iter().map(|zone| shown(zone)).collect::<Vec<_>>()),
        ),
        ("max-udp-size", i64::from(server.max_udp_size).into()),
        ("minimal-responses", server.minimal_responses.into()),
        ("user", or_empty(server.user.as_deref())),
        ("http-names", texts(&server.http_names)),
        ("control-group", or_empty(server.control_group.as_deref())),
        ("version", or_empty(server.version.as_deref())),
        ("id-server", or_empty(server.id_server.as_deref())),
        ("nsid", or_empty(server.nsid.as_deref())),
        ("cookies", server.cookies.into()),
        ("cookie-secret", or_empty(secret.as_deref())),
        ("tcp-connections", count(server.tcp.connections)),
        ("tcp-connections-per-client", count(server.tcp.connections_per_client)),
        ("tcp-idle-ms", millis(server.tcp.idle)),
        ("tcp-read-ms", millis(server.tcp.read)),
    ]);
    client_certificate::show(server.client_certificates.as_ref(), &mut out);
    out
}

fn resolver(config: &Config) -> Table {
    let resolver = &config.resolver;
    let mode = match resolver.mode {
        Mode::Forward => "forward",
        Mode::Recurse => "recurse",
    };
    let hints = resolver.root_hints.as_ref().map(|path| path.to_string_lossy().into_owned());
    table([
        ("mode", mode.into()),
        ("root-hints", or_empty(hints.as_deref())),
        ("local-root", local_root(&resolver.local_root)),
        ("local-root-primaries", texts(&servers(&resolver.local_root_primaries))),
        ("priming", resolver.priming.into()),
        ("qname-minimisation", resolver.qname_minimisation.into()),
        ("case-randomisation", resolver.case_randomisation.into()),
        ("cookies", resolver.cookies.into()),
        ("encrypt-authoritative", resolver.encrypt_authoritative.into()),
        ("ipv4", resolver.ipv4.into()),
        ("ipv6", resolver.ipv6.into()),
        ("query-private", resolver.query_private.into()),
        ("aggressive-nsec", resolver.aggressive_nsec.into()),
        ("error-reports", resolver.error_reports.into()),
        ("edns-buffer-size", i64::from(resolver.edns_buffer_size).into()),
        ("avoid-ports", texts(&config.avoid_ports.shown())),
        ("fetches-per-zone", i64::from(resolver.fetches_per_zone).into()),
        ("fetches-per-server", i64::from(resolver.fetches_per_server).into()),
        ("max-udp-size", i64::from(config.server.max_udp_size).into()),
        ("minimal-responses", config.server.minimal_responses.into()),
    ])
}

fn local_root(source: &LocalRootSource) -> Value {
    match source {
        LocalRootSource::None => false.into(),
        LocalRootSource::Primaries => true.into(),
        LocalRootSource::File(path) => path.to_string_lossy().into_owned().into(),
    }
}

fn servers(addrs: &[SocketAddr]) -> Vec<String> {
    addrs.iter().map(|addr| format!("{}@{}", addr.ip(), addr.port())).collect()
}

/// Returns the addresses of a listener, with their protocols.
fn listen(plain: &[SocketAddr], encrypted: &[Listen]) -> Value {
    let plain = plain.iter().map(ToString::to_string);
    let encrypted = encrypted.iter().map(|one| format!("{}{}", one.protocol.prefix(), one.address));
    texts(&plain.chain(encrypted).collect::<Vec<_>>())
}

fn listener(listener: &ListenerConfig) -> Table {
    let addresses = listen(&listener.listen, &listener.encrypted);
    let mut shown = table([("name", listener.name.as_str().into()), ("listen", addresses)]);
    if let Some(certificate) = &listener.certificate {
        shown.insert("certificate".to_owned(), certificate.as_str().into());
    }
    if let Some(clients) = &listener.client_certificates {
        client_certificate::show(Some(clients), &mut shown);
    }
    if let Some(own) = &listener.allow {
        shown.insert("allow".to_owned(), allow(own));
    }
    shown.insert("proxy-protocol-from".to_owned(), texts(&listener.proxies));
    shown
}

fn stub(stub: &StubZone) -> Table {
    table([("zone", shown(&stub.zone).into()), ("servers", texts(&servers(&stub.servers)))])
}

fn dnssec(dnssec: &DnssecConfig) -> Table {
    let negative: Vec<String> = dnssec.negative_anchors.iter().map(|name| shown(name)).collect();
    table([
        ("validate", dnssec.validate.into()),
        ("trust-anchors", texts(&dnssec.trust_anchors)),
        ("trust-anchor-updates", dnssec.trust_anchor_updates.into()),
        ("key-tag-signal", dnssec.key_tag_signal.into()),
        ("negative-anchors", texts(&negative)),
        ("validate-sha1", dnssec.validate_sha1.into()),
    ])
}

fn dns64(dns64: &Dns64Config) -> Table {
    let prefix = dns64.prefix.map(|net| net.to_string());
    table([("prefix", or_empty(prefix.as_deref())), ("exclude", texts(&dns64.exclude))])
}

fn forward(rule: &ForwardConfig) -> Table {
    let mark = if rule.exception { "!" } else { "" };
    let strategy = match rule.strategy {
        Strategy::Ordered => "ordered".to_owned(),
        Strategy::RoundRobin => "round-robin".to_owned(),
        Strategy::Fastest => "fastest".to_owned(),
        Strategy::Race(count) => format!("race {count}"),
    };
    let ecs = match rule.ecs {
        EcsPolicy::Strip => "strip",
        EcsPolicy::Pass => "pass",
    };
    let mut out = table([
        ("zone", format!("{mark}{}", shown(&rule.zone)).into()),
        ("strategy", strategy.into()),
        ("case-randomisation", rule.case_randomisation.into()),
        ("ecs", ecs.into()),
        ("timeout-min-ms", millis(rule.timeout_min)),
        ("timeout-max-ms", millis(rule.timeout_max)),
    ]);
    if !rule.exception {
        let upstreams: Vec<Value> = rule.upstreams.iter().map(upstream).collect();
        out.insert("upstreams".to_owned(), upstreams.into());
        introduction::show(rule, &mut out);
        upstream_proof::show(rule, &mut out);
    }
    out
}

fn upstream(upstream: &Upstream) -> Value {
    let scheme = upstream.transport.scheme();
    format!("{scheme}://{}{}", upstream.host(), upstream.path).into()
}

fn cache(cache: &CacheConfig) -> Table {
    let interval = cache.snapshot_interval.map_or(0, |interval| interval.as_secs());
    let mut out = table([
        ("packet-bytes", count(cache.packet_bytes)),
        ("rrset-bytes", count(cache.rrset_bytes)),
        ("min-ttl-secs", secs(cache.min_ttl_secs)),
        ("max-ttl-secs", secs(cache.max_ttl_secs)),
        ("negative-min-ttl-secs", secs(cache.negative_min_ttl_secs)),
        ("negative-max-ttl-secs", secs(cache.negative_max_ttl_secs)),
        ("serve-stale", cache.serve_stale.is_some().into()),
        ("prefetch", cache.prefetch.into()),
        ("snapshot-interval-secs", i64::try_from(interval).unwrap_or(i64::MAX).into()),
    ]);
    if let Some(stale) = &cache.serve_stale {
        out.insert("serve-stale-max-secs".to_owned(), secs(stale.max_secs));
        out.insert("stale-client-timeout-ms".to_owned(), millis(stale.client_timeout));
    }
    out
}

fn record(record: &RecordConfig) -> Table {
    let values: Vec<String> =
        record.rdata.iter().map(|data| rdata::display(record.rtype.0, data).to_string()).collect();
    table([
        ("name", shown(&record.name).into()),
        ("type", record.rtype.to_string().into()),
        ("values", texts(&values)),
        ("ttl-secs", secs(record.ttl_secs)),
        // Derived records have entries of their own.
        ("ptr", false.into()),
    ])
}

fn rate_limit(limit: Option<&RateLimitConfig>) -> Table {
    let Some(limit) = limit else {
        return table([("responses-per-second", 0.into())]);
    };
    table([
        ("responses-per-second", secs(limit.responses_per_second)),
        ("slip", i64::from(limit.slip).into()),
        ("ipv4-prefix-length", i64::from(limit.ipv4_prefix_length).into()),
        ("ipv6-prefix-length", i64::from(limit.ipv6_prefix_length).into()),
        ("exempt", texts(&limit.exempt)),
    ])
}
