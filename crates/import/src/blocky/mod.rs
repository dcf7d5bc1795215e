//! blocky: `config.yml`, or a directory of YAML files (its documentation, "Configuration").

mod blocking;
mod groups;

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use crate::draft::{Draft, Record, Reverse, Rule};
use crate::section::{Section, millis, shown};
use crate::source::{self, Error, Files, MAX_INCLUDES, MAX_TEXT, malformed};
use crate::{hosts, name, yaml};

/// Keys that identify a file of blocky.
const KNOWN: &[&str] = &[
    "blocking",
    "bootstrapDns",
    "caching",
    "clientLookup",
    "conditional",
    "customDNS",
    "hostsFile",
    "port",
    "ports",
    "upstream",
    "upstreams",
];
/// Keys that do not affect answers.
const QUIET: &[&str] = &[
    "certFile",
    "connectIPVersion",
    "ede",
    "keyFile",
    "log",
    "logFormat",
    "logLevel",
    "logPrivacy",
    "logTimestamp",
    "minTlsServeVersion",
    "specialUseDomains",
    "startVerifyUpstream",
];
const TTL_RANGE: (u64, u64) = (0, 86_400);

/// Reads the file or directory at `path`.
pub(crate) fn read(path: &str, files: &dyn Files, draft: &mut Draft) -> Result<(), Error> {
    let document = yaml::parse(path, &text(path, files)?)?;
    let root = Section::of(document).filter(|root| root.has_any(KNOWN));
    let mut root = root.ok_or_else(|| malformed(path, "not a configuration of blocky"))?;
    listen(&mut root, draft);
    bootstrap(&mut root, draft);
    upstreams(&mut root, draft);
    custom(root.section("customDNS"), draft);
    conditional(root.section("conditional"), draft);
    caching(root.section("caching"), draft);
    translation(root.section("dns64"), draft);
    filters(&mut root, draft);
    hosts_files(&mut root, files, draft);
    let lookup = root.section("clientLookup");
    blocking::read(root.section("blocking"), lookup, draft);
    draft.drop_needless_bootstrap("bootstrapDns");
    root.quiet(QUIET, draft);
    let reasons = [
        ("prometheus", "metrics are at /metrics of `http` in [server]"),
        ("queryLog", "not imported: see [query-log]"),
        ("redis", "shared caches are not supported"),
        ("dnssec", "recursion validates; forwarded answers are not validated"),
        ("ecs", "client subnets are not added; `ecs` of [[forward]] forwards those of clients"),
    ];
    root.leave(&reasons, draft);
    Ok(())
}

/// Returns the text of the file. The files of a directory are concatenated, as blocky does.
fn text(path: &str, files: &dyn Files) -> Result<Vec<u8>, Error> {
    let Some(names) = files.list(path) else {
        return source::octets(files, path, MAX_TEXT);
    };
    let mut joined = Vec::new();
    let is_yaml = |name: &&String| name.ends_with(".yml") || name.ends_with(".yaml");
    for name in names.iter().filter(is_yaml).take(MAX_INCLUDES) {
        joined.extend(source::octets(
            files,
            &format!("{path}/{name}"),
            MAX_TEXT - joined.len() as u64,
        )?);
        joined.push(b'\n');
    }
    Ok(joined)
}

fn listen(root: &mut Section, draft: &mut Draft) {
    let mut ports = root.section("ports");
    let mut listen = Vec::new();
    let mut written = ports.texts("dns");
    written.extend(root.text("port"));
    for text in written.iter().flat_map(|text| text.split(',')).map(str::trim) {
        match (text.trim_start_matches(':').parse::<u16>(), text.parse::<SocketAddr>()) {
            (Ok(port), _) if port > 0 => {
                listen.push(SocketAddr::from(([0; 4], port)));
                listen.push(SocketAddr::from(([0; 16], port)));
            }
            (_, Ok(address)) => listen.push(address),
            _ => {
                draft.note(format!("ports.dns: {text}"), "expected a port, or an address with one")
            }
        }
    }
    if listen.is_empty() {
        listen = vec![SocketAddr::from(([0; 4], 53)), SocketAddr::from(([0; 16], 53))];
    }
    draft.listen(&listen, "ports.dns: blocky listened there: stop it first");
    ports.quiet(&["http"], draft);
    let encrypted = "not imported: write `tls://` and `https://` addresses in `[server] listen`";
    ports.leave(&[("tls", encrypted), ("https", encrypted)], draft);
}

/// Reads `bootstrapDns`: a server, or several. Each is a text, or a table with `upstream`.
fn bootstrap(root: &mut Section, draft: &mut Draft) {
    const KEY: &str = "bootstrapDns";
    let mut tables = vec![root.section(KEY)];
    let mut servers = root.texts_and_tables(KEY, &mut tables);
    for mut table in tables {
        servers.extend(table.text("upstream"));
        table.leave(&[("ips", "addresses of upstreams are queried in plain DNS")], draft);
    }
    servers.iter().for_each(|server| draft.bootstrap(server, KEY));
}

fn upstreams(root: &mut Section, draft: &mut Draft) {
    let mut upstreams = root.section("upstreams");
    let mut groups = upstreams.section("groups");
    let mut default = groups.texts("default");
    // Releases before 0.22 have the section under the name `upstream`, with the groups directly in
    // it.
    let mut former = root.section("upstream");
    default.extend(former.texts("default"));
    for server in &default {
        draft.forward(".", server, "upstreams.groups.default");
    }
    let count = draft.forwards.get(".").map_or(0, |forward| forward.servers.len());
    match upstreams.text("strategy").as_deref() {
        Some("strict") => draft.strategy(".", "ordered"),
        Some("random") => draft.strategy(".", "round-robin"),
        // The strategy `parallel_best` queries two servers at once.
        Some("parallel_best") | None if count > 1 => draft.strategy(".", "race 2"),
        _ => {}
    }
    if count == 0 {
        draft.note(
            "upstreams",
            "no server for all names could be converted: names are resolved from the root",
        );
    }
    for (client, _) in groups.drain().into_iter().chain(former.drain()) {
        if client != "default" {
            draft.note(
                format!("upstreams.groups.{client}"),
                "servers for some clients only are not supported",
            );
        }
    }
    upstreams.quiet(&["init", "timeout", "userAgent"], draft);
    upstreams.leave(&[], draft);
}

/// Reads `customDNS`: names that are answered locally, together with all names below them.
fn custom(mut section: Section, draft: &mut Draft) {
    let ttl = section.text("customTTL").and_then(|text| millis(&text));
    let ttl_secs = ttl.and_then(|millis| u32::try_from(millis / 1_000).ok());
    for (owner, value) in section.section("mapping").drain() {
        let place = format!("customDNS.mapping: {owner}");
        let text = value_text(&value);
        for data in text.split(',').map(str::trim).filter(|data| !data.is_empty()) {
            let alias = data
                .strip_prefix("CNAME(")
                .and_then(|rest| rest.strip_suffix(')'))
                .and_then(name::domain);
            let (rtype, data) = match (data.parse::<IpAddr>(), alias) {
                (Ok(IpAddr::V4(_)), _) => ("A", data.to_owned()),
                (Ok(IpAddr::V6(_)), _) => ("AAAA", data.to_owned()),
                (_, Some(target)) => ("CNAME", format!("{target}.")),
                _ => {
                    draft.note(format!("{place}: {data}"), "expected an address");
                    continue;
                }
            };
            for owner in [owner.clone(), format!("*.{owner}")] {
                let reverse = Reverse::Answered;
                draft.record(
                    Record { owner: &owner, rtype, data: &data, ttl_secs, reverse },
                    &place,
                );
            }
        }
    }
    if section.is_off("filterUnmappedTypes") {
        draft.note(
            "customDNS.filterUnmappedTypes = false",
            "other types of these names have no data",
        );
    }
    section.quiet(&["filterUnmappedTypes"], draft);
    let zone = "zone files are not imported; write the records as [[record]]";
    section.leave(
        &[("zone", zone), ("rewrite", "rewriting of names before lookup is not supported")],
        draft,
    );
}

/// Returns a text, or the texts of a list separated by commas.
fn value_text(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().filter_map(shown).collect::<Vec<_>>().join(","),
        value => shown(value).unwrap_or_default(),
    }
}

/// Reads `conditional`: zones with their own servers.
fn conditional(mut section: Section, draft: &mut Draft) {
    for (zones, value) in section.section("mapping").drain() {
        let place = format!("conditional.mapping: {zones}");
        for zone in zones.split(',').map(str::trim) {
            if zone == "." {
                let servers = value_text(&value);
                servers.split(',').for_each(|server| draft.forward_dotless(server, &place));
                continue;
            }
            for server in
                value_text(&value).split(',').map(str::trim).filter(|server| !server.is_empty())
            {
                draft.forward(zone, server, &place);
            }
        }
    }
    let fallback = "names unknown to a conditional server are not forwarded elsewhere";
    section.leave(
        &[
            ("fallbackUpstream", fallback),
            ("rewrite", "rewriting of names before lookup is not supported"),
        ],
        draft,
    );
}

fn caching(mut section: Section, draft: &mut Draft) {
    let mut secs = |key: &str| {
        // In blocky, a plain number means minutes.
        let text = section.text(key)?;
        text.parse::<u64>()
            .map(|minutes| minutes.saturating_mul(60))
            .ok()
            .or_else(|| Some(millis(&text)? / 1_000))
    };
    let (min, max, negative) = (secs("minTime"), secs("maxTime"), secs("cacheTimeNegative"));
    if let Some(min) = min.filter(|secs| *secs > 0) {
        draft.set_within(("cache", "min-ttl-secs"), min, TTL_RANGE, "caching.minTime");
    }
    if let Some(max) = max.filter(|secs| *secs > 0) {
        draft.set_within(("cache", "max-ttl-secs"), max, TTL_RANGE, "caching.maxTime");
    }
    if let Some(negative) = negative {
        draft.set_within(
            ("cache", "negative-max-ttl-secs"),
            negative,
            TTL_RANGE,
            "caching.cacheTimeNegative",
        );
    }
    let prefetches = section.flag("prefetching");
    draft.set("cache", "prefetch", prefetches, "caching.prefetching");
    let own = "prefetch is based on the popularity of names";
    let reasons =
        ["prefetchExpires", "prefetchThreshold", "prefetchMaxItemsCount"].map(|key| (key, own));
    section.leave(
        &[&reasons[..], &[("maxItemsCount", "cache sizes are in octets: see [cache]")]].concat(),
        draft,
    );
}

/// Reads `dns64`, if enabled.
fn translation(mut section: Section, draft: &mut Draft) {
    if !section.flag("enable") {
        return section.quiet(&["enable", "prefixes", "exclusionSet"], draft);
    }
    draft.dns64(&section.texts("prefixes"), "dns64.prefixes");
    let written = section.texts("exclusionSet");
    let (networks, wrong): (Vec<String>, Vec<String>) =
        written.into_iter().partition(|text| text.parse::<ipnet::Ipv6Net>().is_ok());
    for text in wrong {
        draft.note(format!("dns64.exclusionSet: {text}"), "not an IPv6 network");
    }
    if !networks.is_empty() {
        draft.set("dns64", "exclude", networks, "dns64.exclusionSet");
    }
    section.leave(&[], draft);
}

/// Reads the query types that blocky does not forward.
fn filters(root: &mut Section, draft: &mut Draft) {
    let mut filtering = root.section("filtering");
    let types: Vec<String> = filtering.texts("queryTypes");
    let known = |name: &&String| avocet_wire::rdata::from_mnemonic(name).is_some();
    for name in types.iter().filter(|name| !known(name)) {
        draft.note(format!("filtering.queryTypes: {name}"), "unknown record type");
    }
    let quoted: Vec<String> =
        types.iter().filter(known).map(|name| format!("\"{name}\"")).collect();
    if !quoted.is_empty() {
        let when = format!("qtype in [{}]", quoted.join(", "));
        draft.rule(Rule::block("query types", when, "nodata", "filtering.queryTypes"));
    }
    filtering.leave(&[], draft);
    let mut fqdn_only = root.section("fqdnOnly");
    if fqdn_only.flag("enable") || root.flag("fqdnOnly") {
        draft.needs_dot = Some("fqdnOnly.enable".to_owned());
        // In blocky, `fqdnOnly` takes precedence over `conditional`.
        draft.dotless = None;
    }
    fqdn_only.leave(&[], draft);
}

/// Reads `hostsFile`. Its files are imported; its URLs only become notes.
fn hosts_files(root: &mut Section, files: &dyn Files, draft: &mut Draft) {
    let mut section = root.section("hostsFile");
    let ttl = section.text("hostsTTL").and_then(|text| millis(&text));
    let ttl_secs = ttl.and_then(|millis| u32::try_from(millis / 1_000).ok());
    let leaves_out_loopback = section.flag("filterLoopback");
    let sources = match section.text("sources") {
        Some(path) => vec![Value::from(path)],
        None => section.items("sources"),
    };
    for source in &sources {
        // As in blocky, a text that contains a line break is the content itself.
        let is_inline = source.as_str().is_some_and(|text| text.contains('\n'));
        let Some(source) = shown(source) else {
            draft.note("hostsFile.sources", "expected a path or a text");
            continue;
        };
        if source.starts_with("https://") || source.starts_with("http://") {
            draft.note(
                format!("hostsFile.sources: {source}"),
                "an import sends no network traffic; make it a [[list]]",
            );
            continue;
        }
        let text = match is_inline {
            true => Ok(source),
            false => source::octets(files, &source, MAX_TEXT)
                .and_then(|octets| source::text(&source, &octets)),
        };
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                draft.note("hostsFile.sources", error);
                continue;
            }
        };
        let (found, wrong) = hosts::hosts(&text);
        let is_wanted = |host: &&hosts::Host| !(leaves_out_loopback && host.address.is_loopback());
        found
            .iter()
            .filter(is_wanted)
            .for_each(|host| draft.host(host, ttl_secs, "hostsFile.sources"));
        wrong.iter().for_each(|line| {
            draft.note(format!("hostsFile.sources: line {line}"), "expected an address and a name")
        });
    }
    section.skip(&["filterLoopback"]);
    section.leave(&[("loading", "hosts files are read once, by the import")], draft);
}
