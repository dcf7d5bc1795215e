//! `pihole.toml`, the settings of version 6.

use std::net::SocketAddr;

use serde_json::Value;

use super::SETTINGS;
use crate::dnsmasq::{self, Statement};
use crate::draft::{Draft, Rule, UNKNOWN_BLOCK};
use crate::section::Section;
use crate::source::{Error, Files, malformed};
use crate::{hosts, name};

/// The tables of the file.
const TABLES: &[&str] =
    &["database", "debug", "dhcp", "dns", "files", "misc", "ntp", "resolver", "webserver"];
/// Keys of `dns` that do not affect answers, or whose effect is what Avocet does anyway.
const QUIET: &[&str] = &[
    "CNAMEdeepInspect",
    "EDNS0ECS",
    "analyzeOnlyAandAAAA",
    "blockESNI",
    "bogusPriv",
    "cache",
    "ignoreLocalhost",
    "interface",
    "localise",
    "piholePTR",
    "queryLogging",
    "replyWhenBusy",
    "showDNSSEC",
];
pub(super) const TTL_RANGE: (u64, u64) = (0, 86_400);
/// Permitted range of the numbers in a rule with a rate limit: queries per second, and queries at
/// once.
const RATE_RANGE: (u64, u64) = (1, 1_000_000);

/// Reads the text of the file.
pub(super) fn read(text: &str, files: &dyn Files, draft: &mut Draft) -> Result<(), Error> {
    let document: Value =
        toml::from_str(text).map_err(|error| malformed(SETTINGS, error.message()))?;
    let root = Section::of(document).filter(|root| root.has_any(TABLES));
    let mut root = root.ok_or_else(|| malformed(SETTINGS, "no Pi-hole tables found"))?;
    let mut dns = root.section("dns");
    for server in dns.texts("upstreams") {
        draft.forward(".", &server, "dns.upstreams");
    }
    listen(&mut dns, draft);
    // The first name of an address counts, so these statements come first.
    statements("host-record", dns.texts("hostRecord"), files, draft);
    names(&mut dns, draft);
    for server in dns.texts("revServers") {
        reverse_server(&server, draft);
    }
    forget_dotless(draft);
    statements("cname", dns.texts("cnameRecords"), files, draft);
    blocking(&mut dns, draft);
    rate_limit(&mut dns, draft);
    special_domains(&mut dns, draft);
    dns.quiet(QUIET, draft);
    let dnssec = "recursion validates here; what comes from forwarding is not validated";
    dns.leave(&[("dnssec", dnssec)], draft);
    leave(root, files, draft);
    Ok(())
}

fn leave(mut root: Section, files: &dyn Files, draft: &mut Draft) {
    let mut dhcp = root.section("dhcp");
    if dhcp.flag("active") {
        draft.note("dhcp", "addresses are not assigned here (DHCP)");
    } else if !dhcp.is_empty() {
        draft.quiet("dhcp");
    }
    let mut misc = root.section("misc");
    let lines = misc.texts("dnsmasq_lines").join("\n");
    dnsmasq::apply(&dnsmasq::statements("misc.dnsmasq_lines", &lines), files, draft);
    if misc.flag("etc_dnsmasq_d") {
        draft.note(
            "misc.etc_dnsmasq_d",
            "other files of dnsmasq are not read: import them as dnsmasq",
        );
    }
    misc.quiet(
        &[
            "addr2line",
            "check",
            "delay_startup",
            "extraLogging",
            "hide_connection_error",
            "hide_dnsmasq_warn",
            "nice",
            "normalizeCPU",
            "privacylevel",
            "readOnly",
        ],
        draft,
    );
    misc.leave(&[], draft);
    root.quiet(&["debug", "files", "ntp", "resolver"], draft);
    root.remark("database", "not imported: see [query-log]", draft);
    root.remark("webserver", "the interface is at `[server] http`", draft);
    root.leave(&[], draft);
}

fn listen(dns: &mut Section, draft: &mut Draft) {
    let port = dns.number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(53);
    let mode = dns.text("listeningMode").unwrap_or_default();
    all_addresses(port, ("dns.listeningMode", &mode), draft);
}

/// Listens on all addresses. Pi-hole does the same unless a mode restricts it.
pub(super) fn all_addresses(port: u16, (setting, mode): (&str, &str), draft: &mut Draft) {
    if port == 0 || mode.eq_ignore_ascii_case("NONE") {
        return draft.note("dns.port", "Pi-hole answered no queries; `listen` keeps its default");
    }
    let all = [SocketAddr::from(([0; 4], port)), SocketAddr::from(([0; 16], port))];
    draft.listen(&all, "Pi-hole listened there: stop it first");
    match mode.to_ascii_uppercase().as_str() {
        "ALL" => draft.note(
            format!("{setting} = ALL"),
            "only private networks may send queries; see `allow` of [server]",
        ),
        "SINGLE" | "BIND" => {
            let reason = "listeners are specified by address: write those of the interface in \
                          `listen` \
                          of [server]";
            draft.note(format!("{setting} = {mode}"), reason);
        }
        _ => {}
    }
}

/// Reads local names and the domain of the network.
fn names(dns: &mut Section, draft: &mut Draft) {
    // The domain is a text in the first releases of version 6, and a table in later ones.
    let mut table = dns.section("domain");
    let is_local = table.flag("local");
    let text = dns.text("domain");
    let was_text = text.is_some();
    let domain = table.text("name").or(text).and_then(|text| name::domain(&text));
    let expands = dns.flag("expandHosts");
    table.leave(&[], draft);
    for line in dns.texts("hosts") {
        let Some(mut host) = hosts::line(&line) else {
            draft.note(format!("dns.hosts: {line}"), "expected an address and a name");
            continue;
        };
        host.expand(domain.as_deref().filter(|_| expands));
        draft.host(&host, None, "dns.hosts");
    }
    let needs_dot = dns.flag("domainNeeded");
    if let Some(domain) = &domain {
        // The first releases had no setting that makes the domain local.
        match (is_local, was_text && needs_dot) {
            (true, _) => draft.local_zone(domain, "dns.domain.local"),
            (_, true) => draft.local_zone(domain, "dns.domainNeeded"),
            _ => {}
        }
    }
    if needs_dot {
        draft.needs_dot = Some("dns.domainNeeded".to_owned());
    }
}

/// Forwards names without a dot to the servers of conditional forwarding, unless they are never
/// forwarded.
pub(super) fn forget_dotless(draft: &mut Draft) {
    if draft.needs_dot.is_some() {
        draft.dotless = None;
    }
}

/// Reads `ENABLED,NETWORK,SERVER[,DOMAIN]`.
fn reverse_server(written: &str, draft: &mut Draft) {
    let fields: Vec<&str> = written.split(',').map(str::trim).collect();
    match fields.as_slice() {
        ["true", network, server, rest @ ..] => {
            conditional(network, server, rest.first().copied(), draft)
        }
        ["false", ..] => draft.note(format!("dns.revServers: {written}"), "it was turned off"),
        _ => draft
            .note(format!("dns.revServers: {written}"), "expected ENABLED,NETWORK,SERVER,DOMAIN"),
    }
}

/// Adds conditional forwarding: a server for the reverse names of a network and for a domain.
pub(super) fn conditional(network: &str, server: &str, domain: Option<&str>, draft: &mut Draft) {
    let origin = "conditional forwarding";
    dnsmasq::reverse_names(network, server, origin, draft);
    draft.forward_dotless(server, origin);
    if let Some(domain) = domain.filter(|domain| !domain.is_empty()) {
        draft.forward(domain, server, origin);
    }
}

fn statements(key: &str, values: Vec<String>, files: &dyn Files, draft: &mut Draft) {
    let statement = |value| Statement { key: key.to_owned(), value, place: SETTINGS.to_owned() };
    let statements: Vec<Statement> =
        values.into_iter().filter(|value| !value.is_empty()).map(statement).collect();
    dnsmasq::apply(&statements, files, draft);
}

fn blocking(dns: &mut Section, draft: &mut Draft) {
    let mut blocking = dns.section("blocking");
    if blocking.is_off("active") {
        draft.note(
            "dns.blocking.active = false",
            "lists are carried over and filter: pause it, or remove them",
        );
    }
    blocking.skip(&["active"]);
    blocking.quiet(&["edns"], draft);
    let mut replies = dns.section("reply");
    let mut reply = replies.section("blocking");
    let addresses: Vec<String> = [("force4", "IPv4"), ("force6", "IPv6")]
        .into_iter()
        .filter_map(|(force, address)| reply.flag(force).then(|| reply.text(address))?)
        .collect();
    let mode = blocking.text("mode").unwrap_or_else(|| "NULL".to_owned());
    block_answer(&mode, addresses, "dns.blocking.mode", draft);
    blocking.leave(&[], draft);
    reply.leave(&[], draft);
    replies.leave(&[("host", "the host name of the machine needs a [[record]]")], draft);
    if let Some(secs) = dns.number("blockTTL") {
        draft.set_within(("policy", "block-ttl-secs"), secs, TTL_RANGE, "dns.blockTTL");
    }
}

/// Reads the answer to blocked names. `addresses` are the addresses of the machine, if given.
pub(super) fn block_answer(mode: &str, addresses: Vec<String>, origin: &str, draft: &mut Draft) {
    let answer = match mode {
        // Version 6 writes `NX`, version 5 writes `NXDOMAIN`.
        "NX" | "NXDOMAIN" => "nxdomain",
        "NODATA" => "nodata",
        "IP" | "IP_NODATA_AAAA" | "IP-NODATA-AAAA" if !addresses.is_empty() => "addresses",
        "IP" | "IP_NODATA_AAAA" | "IP-NODATA-AAAA" => {
            draft.note(
                format!("{origin} = {mode}"),
                "it does not contain the address of Pi-hole: see `block-addresses`",
            );
            "zero"
        }
        "NULL" => "zero",
        _ => {
            draft.note(format!("{origin} = {mode}"), UNKNOWN_BLOCK);
            "zero"
        }
    };
    draft.set("policy", "block-answer", answer, origin);
    if answer == "addresses" {
        draft.set("policy", "block-addresses", addresses, origin);
    }
}

fn rate_limit(dns: &mut Section, draft: &mut Draft) {
    let mut limit = dns.section("rateLimit");
    if let (Some(count), Some(interval)) = (limit.number("count"), limit.number("interval")) {
        limit_clients(count, interval, "dns.rateLimit", draft);
    }
    limit.leave(&[], draft);
}

/// Adds a rule that limits one client to `count` queries in `interval` seconds.
pub(super) fn limit_clients(count: u64, interval: u64, origin: &str, draft: &mut Draft) {
    if count == 0 || interval == 0 {
        return;
    }
    let within = |number: u64| i64::try_from(number.clamp(RATE_RANGE.0, RATE_RANGE.1)).unwrap_or(1);
    let rule = Rule::doing("rate-limit", "queries of a client", "true".to_owned(), origin)
        .with("rps", within(count.div_ceil(interval)))
        .with("burst", within(count))
        .with("per", "client")
        .with("over", "refuse");
    draft.rule(rule);
}

/// The settings that signal to programs whether they may bypass the server: their names in version
/// 6, in version 5 and in Avocet.
pub(super) const SIGNALS: [(&str, &str, &str); 2] = [
    ("mozillaCanary", "MOZILLA_CANARY", "block-firefox-dns"),
    ("iCloudPrivateRelay", "BLOCK_ICLOUD_PR", "block-private-relay"),
];

/// Reads the settings of [`SIGNALS`]. A setting that is off is written too, because Avocet has
/// another default.
fn special_domains(dns: &mut Section, draft: &mut Draft) {
    let mut special = dns.section("specialDomains");
    for (name, _, key) in SIGNALS {
        if special.has_any(&[name]) {
            draft.set("policy", key, special.flag(name), &format!("dns.specialDomains.{name}"));
        }
    }
    // `resolver.arpa` is built into the server (RFC 9462).
    special.quiet(&["designatedResolver"], draft);
    special.leave(&[], draft);
}
