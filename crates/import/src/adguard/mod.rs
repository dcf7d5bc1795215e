//! AdGuard Home: `AdGuardHome.yaml` (its wiki, "Configuration").
//!
//! Older releases have the filtering settings under `dns`; both places are read.

mod clients;
mod exceptions;
mod upstreams;

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::draft::{
    Draft, List, ListKind, MAX_LIMITED_RESPONSES, Place, Record, Reverse, Rule, UNKNOWN_BLOCK,
    address_type,
};
use crate::section::Section;
use crate::source::{self, Error, Files, MAX_TEXT, malformed};
use crate::{name, yaml};
use exceptions::Exceptions;

/// Keys that identify a file of AdGuard Home.
const KNOWN: &[&str] = &[
    "clients",
    "dhcp",
    "dns",
    "filters",
    "querylog",
    "schema_version",
    "user_rules",
    "users",
    "whitelist_filters",
];
/// Keys that do not affect answers, or whose usual value is what Avocet does anyway.
const QUIET: &[&str] = &[
    "auth_attempts",
    "block_auth_min",
    "debug_pprof",
    "http_proxy",
    "language",
    "log",
    "os",
    "schema_version",
    "theme",
    "web_session_ttl",
];
const QUIET_DNS: &[&str] = &[
    "anonymize_client_ip",
    "bootstrap_prefer_ipv6",
    "cache_optimistic_answer_ttl",
    "cache_optimistic_max_age",
    "fastest_timeout",
    "handle_ddr",
    "max_goroutines",
    "pending_requests",
    "private_networks",
    "ratelimit_subnet_len_ipv4",
    "ratelimit_subnet_len_ipv6",
    "refuse_any",
    "serve_plain_dns",
    "trusted_proxies",
    "upstream_timeout",
];
const QUIET_FILTERING: &[&str] = &[
    "cache_time",
    "parental_block_host",
    "parental_cache_size",
    "safe_fs_patterns",
    "safebrowsing_block_host",
    "safebrowsing_cache_size",
    "safesearch_cache_size",
];
const ENCRYPTED: &str = "not imported: write `tls://`, `https://` and `quic://` addresses in \
                         `[server] listen`, and a [[certificate]]";
const LOOKED_UP: &str = "lookups at a service are not supported; add a list of such sites";
/// The list of the user's rules.
const USER_RULES: &str = "user-rules";
/// TTL of rewrites in seconds, if the file sets none for blocked names.
const REWRITE_TTL_SECS: u32 = 10;
/// Range of `min-ttl-secs` and `block-ttl-secs`, and upper bound of `max-ttl-secs`, in seconds.
const MIN_TTL_RANGE: (u64, u64) = (0, 86_400);
const MAX_TTL_RANGE: (u64, u64) = (0, 604_800);
/// Maximum number of networks of one condition, whose length in octets is limited.
const NETWORKS_OF_RULE: usize = 1_000;
/// Range of a cache size in octets.
const CACHE_RANGE: (u64, u64) = (1 << 20, 1 << 40);

/// Reads the configuration at `path`.
pub(crate) fn read(path: &str, files: &dyn Files, draft: &mut Draft) -> Result<(), Error> {
    let document = yaml::parse(path, &source::octets(files, path, MAX_TEXT)?)?;
    let root = Section::of(document).filter(|root| root.has_any(KNOWN));
    let mut root = root.ok_or_else(|| malformed(path, "not an AdGuardHome.yaml"))?;
    if !root.has_any(&["schema_version"]) {
        draft.note(
            "schema_version",
            "AdGuard Home writes this key last, and it is missing: the file may be truncated",
        );
    }
    let mut dns = root.section("dns");
    let mut filtering = root.section("filtering");
    server(&mut dns, draft);
    upstreams::read(&mut dns, files, draft);
    cache(&mut dns, draft);
    translation(&mut dns, draft);
    if dns.is_off("hostsfile_enabled") {
        draft.quiet("dns.hostsfile_enabled");
    } else {
        draft.note(
            "/etc/hosts",
            "host names of the machine are not imported; write those of the network as [[record]]",
        );
        dns.skip(&["hostsfile_enabled"]);
    }
    blocking(&mut filtering, &mut dns, draft);
    let mut exceptions = Exceptions::default();
    let all_rewrites = filtering.sections("rewrites").into_iter().chain(dns.sections("rewrites"));
    rewrites(all_rewrites, &mut exceptions, draft);
    lists(&mut root, &mut filtering, &mut dns, draft);
    user_rules(&mut root, &mut exceptions, draft);
    let defaults = clients::Defaults::read(&mut filtering, &mut dns, draft);
    clients::read(&mut root, &defaults, &mut exceptions, draft);
    leave(root, dns, filtering, draft);
    Ok(())
}

/// Adds notes for the settings that no other function read.
fn leave(mut root: Section, mut dns: Section, mut filtering: Section, draft: &mut Draft) {
    let (tls, mut dhcp) = (root.section("tls"), root.section("dhcp"));
    // Names of DHCP leases must not be sent to other servers.
    if let Some(domain) = dhcp.text("local_domain_name").filter(|_| dhcp.is_on("enabled")) {
        draft.local_zone(&domain, "dhcp.local_domain_name");
    }
    for (mut section, what, reason) in
        [(tls, "tls", ENCRYPTED), (dhcp, "dhcp", "DHCP is not supported")]
    {
        if section.flag("enabled") {
            draft.note(what, reason);
        } else if !section.is_empty() {
            draft.quiet(what);
        }
    }
    root.quiet(QUIET, draft);
    let reasons = [
        ("users", "accounts are not imported: `avocet user add` creates them"),
        ("http", "the interface is at `[server] http`"),
        ("querylog", "not imported: see [query-log]"),
        ("statistics", "they come from the query log: see [query-log]"),
    ];
    root.leave(&reasons, draft);
    dns.quiet(QUIET_DNS, draft);
    let reasons = [
        ("enable_dnssec", "recursion validates; forwarded answers are not validated"),
        (
            "edns_client_subnet",
            "client subnets are not added; `ecs` of [[forward]] forwards those of clients",
        ),
        ("ipset", "filling packet filter sets is not supported"),
        ("safebrowsing_enabled", LOOKED_UP),
        ("parental_enabled", LOOKED_UP),
    ];
    dns.leave(&reasons, draft);
    filtering.quiet(QUIET_FILTERING, draft);
    filtering.leave(&[("safebrowsing_enabled", LOOKED_UP), ("parental_enabled", LOOKED_UP)], draft);
}

/// Reads the listeners and the clients that get answers.
fn server(dns: &mut Section, draft: &mut Draft) {
    let port =
        dns.number("port").and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    let mut hosts = dns.texts("bind_hosts");
    hosts.extend(dns.text("bind_host"));
    if hosts.is_empty() && port.is_some() {
        hosts.push("0.0.0.0".to_owned());
    }
    let port = port.unwrap_or(53);
    for host in hosts.iter().filter(|host| host.parse::<IpAddr>().is_err()) {
        draft.note(format!("dns.bind_hosts: {host}"), "listeners are specified by address");
    }
    let mut listen: Vec<SocketAddr> =
        hosts.iter().filter_map(|host| Some(SocketAddr::new(host.parse().ok()?, port))).collect();
    if listen.contains(&SocketAddr::from(([0; 4], port))) {
        listen.push(SocketAddr::from(([0; 16], port)));
    }
    draft.listen(&listen, "dns.bind_hosts: AdGuard Home listened there: stop it first");
    allowed(dns, draft);
    denied(dns, draft);
    blocked_hosts(dns.texts("blocked_hosts"), draft);
    let limit = dns.number("ratelimit").filter(|limit| *limit > 0);
    let exempt: Vec<String> =
        dns.texts("ratelimit_whitelist").iter().filter_map(|text| network(text)).collect();
    if let Some(limit) = limit {
        draft.set_within(
            ("rate-limit", "responses-per-second"),
            limit,
            (1, MAX_LIMITED_RESPONSES),
            "dns.ratelimit",
        );
        draft.note(
            "dns.ratelimit",
            "converted to a limit on equal responses to one network; different responses are not \
             counted together",
        );
        if !exempt.is_empty() {
            draft.set("rate-limit", "exempt", exempt, "dns.ratelimit_whitelist");
        }
    }
    if dns.flag("aaaa_disabled") {
        draft.rule(Rule::block(
            "no ipv6",
            "qtype == \"AAAA\"".to_owned(),
            "nodata",
            "dns.aaaa_disabled",
        ));
    }
    bogus(dns.texts("bogus_nxdomain"), draft);
}

fn network(text: &str) -> Option<String> {
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok()?;
    Some(net.trunc().to_string())
}

fn allowed(dns: &mut Section, draft: &mut Draft) {
    let written = dns.texts("allowed_clients");
    let networks: Vec<String> = written.iter().filter_map(|text| network(text)).collect();
    for text in written.iter().filter(|text| network(text).is_none()) {
        draft.note(format!("dns.allowed_clients: {text}"), "clients are allowed by address only");
    }
    if networks.is_empty() {
        return;
    }
    draft.set("server", "allow", networks, "dns.allowed_clients");
}

/// Reads `blocked_hosts`, the names that get no answer. Names of class CH are settings of the
/// server; the others become a rule.
fn blocked_hosts(written: Vec<String>, draft: &mut Draft) {
    let (of_server, names): (Vec<String>, Vec<String>) = written
        .into_iter()
        .partition(|name| ["version.bind", "id.server", "hostname.bind"].contains(&name.as_str()));
    for name in of_server {
        if name == "version.bind" {
            draft.set("server", "version", "", "dns.blocked_hosts");
            continue;
        }
        draft.quiet(format!("dns.blocked_hosts: {name}"));
    }
    if !names.is_empty() {
        let list = draft.condition_list("refused names", &names, "dns.blocked_hosts");
        draft.rule(Rule::doing(
            "drop",
            "refused names",
            format!("list({list:?})"),
            "dns.blocked_hosts",
        ));
    }
}

fn denied(dns: &mut Section, draft: &mut Draft) {
    let written = dns.texts("disallowed_clients");
    for text in written.iter().filter(|text| network(text).is_none()) {
        draft
            .note(format!("dns.disallowed_clients: {text}"), "clients are refused by address only");
    }
    let networks: Vec<String> =
        written.iter().filter_map(|text| network(text)).map(|net| format!("\"{net}\"")).collect();
    for some in networks.chunks(NETWORKS_OF_RULE) {
        let when = format!("client.ip.in({})", some.join(", "));
        draft.rule(Rule::doing("drop", "refused clients", when, "dns.disallowed_clients"));
    }
}

fn bogus(written: Vec<String>, draft: &mut Draft) {
    let networks: Vec<String> =
        written.iter().filter_map(|text| network(text)).map(|net| format!("\"{net}\"")).collect();
    for some in networks.chunks(NETWORKS_OF_RULE) {
        let when = format!("answer.ip.in({})", some.join(", "));
        draft.rule(Rule::block("bogus nxdomain", when, "nxdomain", "dns.bogus_nxdomain"));
    }
}

fn cache(dns: &mut Section, draft: &mut Draft) {
    let size = dns.number("cache_size");
    if dns.is_off("cache_enabled") || size == Some(0) {
        draft.note("dns.cache_enabled", "the caches cannot be turned off");
    } else if let Some(size) = size {
        draft.set_within(("cache", "packet-bytes"), size, CACHE_RANGE, "dns.cache_size");
    }
    dns.skip(&["cache_enabled"]);
    let (min, max) =
        (dns.number("cache_ttl_min").unwrap_or(0), dns.number("cache_ttl_max").unwrap_or(0));
    if min > 0 {
        draft.set_within(("cache", "min-ttl-secs"), min, MIN_TTL_RANGE, "dns.cache_ttl_min");
    }
    if max > 0 {
        draft.set_within(("cache", "max-ttl-secs"), max, MAX_TTL_RANGE, "dns.cache_ttl_max");
    }
    if dns.flag("cache_optimistic") {
        draft.set("cache", "stale-client-timeout-ms", 0, "dns.cache_optimistic");
    }
}

/// Reads `use_dns64` and its prefixes, which are ignored if it is disabled.
fn translation(dns: &mut Section, draft: &mut Draft) {
    if dns.flag("use_dns64") {
        draft.dns64(&dns.texts("dns64_prefixes"), "dns.use_dns64, dns64_prefixes");
    } else {
        dns.quiet(&["dns64_prefixes"], draft);
    }
}

/// Reads the settings of the answer to blocked names.
fn blocking(filtering: &mut Section, dns: &mut Section, draft: &mut Draft) {
    let mut text = |key: &str| filtering.text(key).or_else(|| dns.text(key));
    let mode = text("blocking_mode").unwrap_or_default();
    let addresses: Vec<String> =
        [text("blocking_ipv4"), text("blocking_ipv6")].into_iter().flatten().collect();
    let is_custom = mode == "custom_ip" && !addresses.is_empty();
    let answer = match mode.as_str() {
        "nxdomain" => "nxdomain",
        "refused" => "refused",
        "custom_ip" if is_custom => "addresses",
        "" | "default" | "null_ip" => "zero",
        _ => {
            draft.note(format!("filtering.blocking_mode = {mode}"), UNKNOWN_BLOCK);
            "zero"
        }
    };
    draft.set("policy", "block-answer", answer, "filtering.blocking_mode");
    if is_custom {
        draft.set("policy", "block-addresses", addresses, "filtering.blocking_ipv4, blocking_ipv6");
    }
    if let Some(secs) =
        filtering.number("blocked_response_ttl").or_else(|| dns.number("blocked_response_ttl"))
    {
        draft.set_within(
            ("policy", "block-ttl-secs"),
            secs,
            MIN_TTL_RANGE,
            "filtering.blocked_response_ttl",
        );
    }
    for key in ["filtering_enabled", "protection_enabled", "rewrites_enabled"] {
        if filtering.is_off(key) || dns.is_off(key) {
            draft.note(
                format!("{key} = false"),
                "disabled filtering is converted and active: pause it, or remove it",
            );
        }
        filtering.skip(&[key]);
        dns.skip(&[key]);
    }
    filtering.quiet(&["protection_disabled_until"], draft);
}

/// Reads rewrites. They become records without reverse names, with the TTL of blocked names.
fn rewrites(
    rewrites: impl Iterator<Item = Section>,
    exceptions: &mut Exceptions,
    draft: &mut Draft,
) {
    let ttl_secs =
        draft.settings.get(&("policy", "block-ttl-secs")).and_then(|(value, _)| value.as_integer());
    let ttl_secs = ttl_secs.and_then(|secs| u32::try_from(secs).ok()).or(Some(REWRITE_TTL_SECS));
    let origin = "filtering.rewrites";
    let mut rules = Vec::new();
    for mut rewrite in rewrites {
        let place = rewrite.name("domain");
        let (Some(owner), Some(answer)) = (rewrite.text("domain"), rewrite.text("answer")) else {
            draft.note(place, "a rewrite without domain or answer");
            continue;
        };
        let what = format!("filtering.rewrites: {owner} -> {answer}");
        let mut record = |rtype, data: &str| {
            draft.record(
                Record { owner: &owner, rtype, data, ttl_secs, reverse: Reverse::Absent },
                origin,
            );
        };
        if rewrite.is_off("enabled") {
            draft.note(what, "disabled in the source");
            continue;
        } else if answer == "A" || answer == "AAAA" || answer.eq_ignore_ascii_case(&owner) {
            draft.note(what, "exceptions of a rewrite are not supported");
            continue;
        } else if let Ok(address) = answer.parse() {
            record(address_type(address), &answer);
        } else if let Some(target) = name::domain(&answer) {
            match wildcard_over(&owner, &target) {
                // As a record, the entry would be an alias to itself.
                Some(zone) => rules.extend([
                    format!("||*.{zone}^$dnsrewrite=NOERROR;CNAME;{target}"),
                    format!("@@|{target}^$dnsrewrite=NOERROR;CNAME;{target}"),
                ]),
                None => record("CNAME", &format!("{target}.")),
            }
        } else {
            draft.note(what, "neither an address nor a name");
            continue;
        }
        exceptions.rewrite(&owner);
    }
    if !rules.is_empty() {
        let list = draft.own_list("rewrites", "adblock", ListKind::Block, &rules, origin);
        draft.for_everybody.push(list);
    }
}

/// Returns the zone of a wildcard whose alias target is below it.
fn wildcard_over(owner: &str, target: &str) -> Option<String> {
    let zone = owner.strip_prefix("*.").and_then(name::domain)?;
    (zone != target && name::is_under(target, &zone)).then_some(zone)
}

/// Reads block lists and allow lists.
fn lists(root: &mut Section, filtering: &mut Section, dns: &mut Section, draft: &mut Draft) {
    let interval = filtering
        .number("filters_update_interval")
        .or_else(|| dns.number("filters_update_interval"));
    if interval == Some(0) {
        draft.note(
            "filtering.filters_update_interval = 0",
            "lists are always refreshed; set `refresh` to a long time",
        );
    }
    for (key, kind) in [("filters", ListKind::Block), ("whitelist_filters", ListKind::Allow)] {
        for mut filter in root.sections(key) {
            let place = filter.name("url");
            let url = filter.text("url").unwrap_or_default();
            let title = filter.text("name").unwrap_or_default();
            let origin = format!("{key}: {title}");
            if filter.is_off("enabled") {
                draft.note(format!("{origin} ({url})"), "disabled in the source");
                continue;
            }
            let Some(list_place) = Place::parse(&url) else {
                draft.note(place, "neither a URL nor a path");
                continue;
            };
            let wanted = if title.is_empty() { list_place.short().to_owned() } else { title };
            let refresh_hours = interval.filter(|hours| *hours > 0);
            draft.list(&wanted, List { kind, refresh_hours, ..List::at(list_place, &origin) });
        }
    }
}

/// Converts the user's rules to a list.
fn user_rules(root: &mut Section, exceptions: &mut Exceptions, draft: &mut Draft) {
    let rules: Vec<String> =
        root.texts("user_rules").into_iter().filter(|rule| !rule.is_empty()).collect();
    if !rules.is_empty() {
        draft.own_list(USER_RULES, "adblock", ListKind::Block, &rules, "user_rules");
        exceptions.rules(&rules);
    }
}
