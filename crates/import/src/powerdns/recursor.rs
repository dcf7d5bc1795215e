//! The Recursor: forwarded zones, hosted zones, clients and caches.

use std::net::IpAddr;

use toml::Value;

use crate::draft::{Draft, Place};
use crate::hosted::{ArrayTable, ZoneFile, zone_name};
use crate::networks::Networks;
use crate::source::{self, Files, MAX_TEXT};

use super::rpz;
use super::settings::Setting;
use super::{beside, leave, listeners, take};

/// Settings that do not affect answers, or whose usual value is what Avocet does anyway.
const QUIET: &[&str] = &[
    "aggressive-nsec-cache-size",
    "allow-notify-*",
    "any-to-tcp",
    "api-*",
    "carbon-*",
    "chroot",
    "client-tcp-timeout",
    "config-dir",
    "config-name",
    "cpu-map",
    "daemon",
    "disable-packetcache",
    "disable-syslog",
    "distribut*",
    "dont-throttle-*",
    "entropy-source",
    "event-trace-enabled",
    "include-dir",
    "latency-statistic-size",
    "log-*",
    "logging-facility",
    "loglevel",
    "max-cache-bogus-ttl",
    "max-cache-entries",
    "max-concurrent-requests-per-tcp-connection",
    "max-mthreads",
    "max-packetcache-entries",
    "max-tcp-clients",
    "max-tcp-per-client",
    "max-tcp-queries-per-connection",
    "new-domain-*",
    "network-timeout",
    "nothing-below-nxdomain",
    "packetcache-*",
    "pdns-distributes-queries",
    "processes",
    "protobuf-*",
    "public-suffix-list-file",
    "qname-minimization",
    "quiet",
    "record-cache-*",
    "refresh-on-ttl-perc",
    "reuseport",
    "root-nx-trust",
    "security-poll-suffix",
    "server-down-*",
    "server-id",
    "set*id",
    "setgid",
    "setuid",
    "signature-inception-skew",
    "single-socket",
    "snmp-*",
    "socket-*",
    "spoof-nearmiss-max",
    "stack-*",
    "stats-*",
    "statistics-interval",
    "structured-logging*",
    "tcp-*",
    "threads",
    "trace",
    "udp-*",
    "unique-response-*",
    "version-string",
    "webserver*",
    "write-pid",
    "x-dnssec-names",
];

/// Converts the settings.
pub(super) fn apply(mut settings: Vec<Setting>, path: &str, files: &dyn Files, draft: &mut Draft) {
    let source = RecursorFiles { path, files };
    draft.set("resolver", "mode", "recurse", "PowerDNS Recursor resolves names itself");
    listeners(&mut settings, &["127.0.0.1"], draft);
    source.allow(&mut settings, draft);
    for (key, servers) in [
        ("forward-zones", ForwardServers::OfZone),
        ("forward-zones-recurse", ForwardServers::Resolvers),
    ] {
        if let Some(setting) = take(&mut settings, key) {
            for item in setting.value.split([',', ' ', '\t']).filter(|item| !item.is_empty()) {
                forward(item, servers, &setting.place, draft);
            }
        }
    }
    if let Some(setting) = take(&mut settings, "forward-zones-file") {
        source.forward_file(&setting, draft);
    }
    if let Some(setting) = take(&mut settings, "auth-zones") {
        for item in setting.items() {
            match item.split_once('=') {
                Some((name, file)) => source.zone(name, file, &setting, draft),
                None => draft.note(&setting, format!("{item}: expected ZONE=FILE")),
            }
        }
    }
    for key in ["etc-hosts-file", "export-etc-hosts", "export-etc-hosts-search-suffix"] {
        let setting = take(&mut settings, key);
        if let Some(setting) = setting.filter(|one| key != "export-etc-hosts" || one.is_on()) {
            draft.note(&setting, "write `[[record]]`, or a list of the format `hosts`");
        }
    }
    dnssec(&mut settings, draft);
    caches(&mut settings, draft);
    if let Some(setting) =
        take(&mut settings, "lua-config-file").filter(|one| !one.value.is_empty())
    {
        source.lua(&setting, draft);
    }
    for key in ["lua-dns-script", "hint-file", "serve-rfc1918", "dns64-prefix"] {
        let Some(setting) = take(&mut settings, key) else { continue };
        match (key, setting.value.as_str()) {
            (_, "") => {}
            ("serve-rfc1918", _) => {
                draft.set("server", "local-names", setting.is_on(), &setting.place);
            }
            ("hint-file", "no" | "no-refresh") => {}
            ("hint-file", file) if file.ends_with("root.hints") => draft.quiet("hint-file"),
            ("hint-file", file) => {
                draft.set("resolver", "root-hints", beside(path, file), &setting.place);
            }
            ("dns64-prefix", prefix) => draft.dns64(&[prefix.to_owned()], &setting.place),
            _ => draft.note(&setting, "programs are not converted"),
        }
    }
    leave(settings, QUIET, draft);
}

/// The path of the configuration, and access to other files.
struct RecursorFiles<'s> {
    path: &'s str,
    files: &'s dyn Files,
}

impl RecursorFiles<'_> {
    fn text(&self, setting: &Setting, draft: &mut Draft) -> Option<(String, String)> {
        let path = beside(self.path, &setting.value);
        let read = source::octets(self.files, &path, MAX_TEXT);
        match read.and_then(|octets| source::text(&path, &octets)) {
            Ok(text) => {
                draft.note_lines_left_out(&path, &text);
                Some((path, text))
            }
            Err(error) => {
                draft.note(setting, error);
                None
            }
        }
    }

    /// Sets `allow`. An exception begins with an exclamation mark.
    fn allow(&self, settings: &mut Vec<Setting>, draft: &mut Draft) {
        let from_file = take(settings, "allow-from-file").filter(|one| !one.value.is_empty());
        let written = take(settings, "allow-from");
        let (items, place): (Vec<String>, String) = match (&from_file, &written) {
            (Some(setting), _) => {
                let Some((path, text)) = self.text(setting, draft) else { return };
                let lines = source::lines(&text).map(|(_, line)| line);
                let lines = lines.map(|line| line.split('#').next().unwrap_or(line).trim());
                (lines.filter(|line| !line.is_empty()).map(str::to_owned).collect(), path)
            }
            (None, Some(setting)) => {
                (setting.items().map(str::to_owned).collect(), setting.place.clone())
            }
            (None, None) => return,
        };
        let (mut admitted, mut excepted) = (Networks::default(), Networks::default());
        for item in items {
            let (item, set) = match item.strip_prefix('!') {
                Some(item) => (item, &mut excepted),
                None => (item.as_str(), &mut admitted),
            };
            let net = item.parse().ok().or_else(|| item.parse::<IpAddr>().ok().map(Into::into));
            match net {
                Some(net) => *set = set.with(&Networks::of(net)),
                None => draft.note(&place, format!("{item:?} is no network")),
            }
        }
        match admitted.without(&excepted).filter(|set| !set.is_empty()) {
            Some(set) => draft.set("server", "allow", set.texts(), &place),
            None => {
                draft.note(&place, "no client may ask: `allow` has the loopback addresses");
                draft.set("server", "allow", vec!["127.0.0.0/8", "::1/128"], &place);
            }
        }
    }

    /// Reads the lines `[+]ZONE=SERVER,SERVER` of a file.
    fn forward_file(&self, setting: &Setting, draft: &mut Draft) {
        if setting.value.ends_with(".yml") {
            return draft.note(setting, "write it as lines, or into the configuration");
        }
        let Some((path, text)) = self.text(setting, draft) else { return };
        for (number, line) in source::lines(&text) {
            let line = line.split('#').next().unwrap_or(line).trim();
            if !line.is_empty() {
                forward(line, ForwardServers::OfZone, &format!("{path}:{number}"), draft);
            }
        }
    }

    /// Hosts a zone from its file.
    fn zone(&self, written: &str, file: &str, setting: &Setting, draft: &mut Draft) {
        let Some(name) = zone_name(written) else {
            return draft.note(setting, format!("{written:?} is no zone"));
        };
        let path = beside(self.path, file);
        let mut table = ArrayTable::of("zone", &setting.place);
        table.set("name", name.as_str());
        table.set("file", path.as_str());
        draft.hosted.add(table);
        let origin = setting.place.clone();
        draft.hosted.zone_files.push(ZoneFile { zone: name, path, origin });
    }

    /// Reads a configuration in Lua that has one call in each line.
    fn lua(&self, setting: &Setting, draft: &mut Draft) {
        let Some((path, text)) = self.text(setting, draft) else { return };
        let mut negative = Vec::new();
        for (number, line) in source::lines(&text) {
            let line = line.split("--").next().unwrap_or(line).trim();
            let place = format!("{path}:{number}");
            let argument = |call: &str| {
                let rest = line.strip_prefix(call)?.trim_start().strip_prefix(['(', '{'])?;
                let rest = rest.trim_start().strip_prefix(['"', '\''])?;
                rest.split(['"', '\'']).next().map(str::to_owned)
            };
            if line.is_empty() || line.starts_with("dofile(") && line.contains("rootkeys.lua") {
                continue;
            }
            if let Some(name) = argument("addNTA").as_deref().and_then(zone_name) {
                negative.push(Value::from(name));
            } else if let Some(file) = argument("rpzFile") {
                let options = line.split_once('{').map_or("", |(_, options)| options);
                let at = Place::parse(&file);
                let origin = format!("{place}: rpzFile");
                rpz::add(&file, at, rpz::lua_options(options), &origin, draft);
            } else {
                draft.note(place, "of Lua, only addNTA and rpzFile are read");
            }
        }
        if !negative.is_empty() {
            draft.set("dnssec", "negative-anchors", negative, &path);
        }
    }
}

/// The kind of servers of a forwarded zone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ForwardServers {
    /// Servers that are authoritative for the zone.
    OfZone,
    Resolvers,
}

/// Reads `[+]ZONE=SERVER;SERVER`. Forwards the zone if the servers accept recursive queries, and
/// otherwise resolves the zone at these servers.
fn forward(item: &str, kind: ForwardServers, place: &str, draft: &mut Draft) {
    let Some((written, servers)) = item.split_once('=') else {
        return draft.note(format!("{place}: {item}"), "expected ZONE=SERVER");
    };
    let marks = written.len() - written.trim_start_matches(['+', '^']).len();
    let (marks, name) = written.trim().split_at(marks);
    if marks.contains('^') {
        draft.note(format!("{place}: {name}"), "NOTIFY does not empty the cache");
    }
    let Some(name) = zone_name(name.trim()) else {
        return draft.note(format!("{place}: {item}"), "it is no zone");
    };
    let servers: Vec<&str> =
        servers.split([';', ',']).map(str::trim).filter(|server| !server.is_empty()).collect();
    if kind == ForwardServers::Resolvers || marks.contains('+') {
        return servers.iter().for_each(|server| draft.forward(&name, server, place));
    }
    let parsed = servers.iter().filter_map(|server| match crate::server::Server::parse(server) {
        Ok(server) if server.has_udp() => Some(server.of_stub()),
        _ => {
            draft.note(format!("{place}: {server}"), "servers of a zone are addresses");
            None
        }
    });
    let parsed: Vec<String> = parsed.collect();
    if parsed.is_empty() || draft.hosted.has("stub", &name) {
        return draft.note(format!("{place}: {name}"), "it has no servers, or has them already");
    }
    let mut table = ArrayTable::of("stub", place);
    table.set("zone", name);
    table.set("servers", parsed);
    draft.hosted.add(table);
}

fn dnssec(settings: &mut Vec<Setting>, draft: &mut Draft) {
    let Some(setting) = take(settings, "dnssec") else {
        return note_process("the default of PowerDNS", draft);
    };
    match setting.value.as_str() {
        "off" | "process-no-validate" => draft.set("dnssec", "validate", false, &setting.place),
        "validate" => draft.set("dnssec", "validate", true, &setting.place),
        _ => {
            draft.set("dnssec", "validate", true, &setting.place);
            note_process(&setting.to_string(), draft);
        }
    }
    if let Some(setting) = take(settings, "negative-trust-anchors") {
        let names: Vec<String> = setting.items().filter_map(zone_name).collect();
        draft.set("dnssec", "negative-anchors", names, &setting.place);
    }
    if let Some(setting) = take(settings, "trust-anchors") {
        draft.note(&setting, "those of the root are built in; add others to `trust-anchors`");
    }
}

fn note_process(what: &str, draft: &mut Draft) {
    draft.note(what, "names that fail to validate get SERVFAIL for all clients");
}

fn caches(settings: &mut Vec<Setting>, draft: &mut Draft) {
    for (from, to, range) in [
        ("max-cache-ttl", "max-ttl-secs", (1, 604_800)),
        ("max-negative-ttl", "negative-max-ttl-secs", (0, 86_400)),
        ("minimum-ttl-override", "min-ttl-secs", (0, 86_400)),
    ] {
        let Some(setting) = take(settings, from) else { continue };
        match setting.value.parse() {
            Ok(secs) => draft.set_within(("cache", to), secs, range, &setting.place),
            Err(_) => draft.note(&setting, "expected a number of seconds"),
        }
    }
    if let Some(setting) = take(settings, "serve-stale-extensions") {
        draft.set("cache", "serve-stale", setting.value != "0", &setting.place);
    }
}
