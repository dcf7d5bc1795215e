//! Upstreams of AdGuard Home: lists of servers in which some lines apply to certain zones only.

use crate::draft::Draft;
use crate::reverse;
use crate::section::Section;
use crate::source::{self, Files, MAX_TEXT};

/// Reads `upstream_dns`, `fallback_dns` and `local_ptr_upstreams`.
pub(super) fn read(dns: &mut Section, files: &dyn Files, draft: &mut Draft) {
    let mut lines = dns.texts("upstream_dns");
    if let Some(path) = dns.text("upstream_dns_file") {
        match source::octets(files, &path, MAX_TEXT).and_then(|octets| source::text(&path, &octets))
        {
            Ok(text) => lines = source::lines(&text).map(|(_, line)| line.to_owned()).collect(),
            Err(error) => draft.note("dns.upstream_dns_file", error),
        }
    }
    let bootstrap = dns.texts("bootstrap_dns");
    for server in bootstrap.iter().filter(|line| !line.trim_start().starts_with('#')) {
        draft.bootstrap(server, "dns.bootstrap_dns");
    }
    for line in &lines {
        upstream(line, "dns.upstream_dns", draft);
    }
    let private = dns.texts("local_ptr_upstreams");
    let is_off = dns.is_off("use_private_ptr_resolvers");
    let has_private = !is_off && !private.is_empty();
    if dns.is_on("use_private_ptr_resolvers") && private.is_empty() {
        let reason = "reverse names of private addresses were forwarded to the servers of the \
                      machine: write a [[forward]]";
        draft.note("dns.use_private_ptr_resolvers", reason);
    }
    dns.skip(&["use_private_ptr_resolvers"]);
    if has_private {
        for zone in reverse::private_zones() {
            private
                .iter()
                .for_each(|server| draft.forward(&zone, server, "dns.local_ptr_upstreams"));
        }
    }
    mode(dns, draft);
    fallback(dns.texts("fallback_dns"), draft);
    draft.drop_needless_bootstrap("dns.bootstrap_dns");
    if !draft.forwards.contains_key(".") {
        draft.note(
            "dns.upstream_dns",
            "no server for all names could be converted: names are resolved from the root",
        );
    }
}

/// Reads one line: `SERVER`, or `[/ZONE/ZONE/]SERVER SERVER`, or `[/ZONE/]#` for the servers of all
/// names.
fn upstream(line: &str, origin: &str, draft: &mut Draft) {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return;
    }
    let Some((zones, servers)) = line.strip_prefix("[/").and_then(|rest| rest.split_once("/]"))
    else {
        return draft.forward(".", line, origin);
    };
    for zone in zones.split('/') {
        if zone.is_empty() {
            let servers = servers.split_whitespace().filter(|server| *server != "#");
            servers.for_each(|server| draft.forward_dotless(server, origin));
            continue;
        }
        let zone = match zone.strip_prefix("*.") {
            Some(parent) => {
                draft.note(
                    format!("{origin}: {line}"),
                    format!("the rule also applies to {parent} itself"),
                );
                parent
            }
            None => zone,
        };
        for server in servers.split_whitespace() {
            match server {
                "#" => draft.exception(zone, origin),
                server => draft.forward(zone, server, origin),
            }
        }
    }
}

/// Maximum number of servers in `strategy = "race N"`.
const MAX_RACED: usize = 8;

/// Reads `upstream_mode` and the two flags that it replaced. The mode applies to the servers of
/// each zone.
fn mode(dns: &mut Section, draft: &mut Draft) {
    let mode = dns.text("upstream_mode").unwrap_or_default();
    let (all, fastest) = (dns.flag("all_servers"), dns.flag("fastest_addr"));
    match mode.as_str() {
        "parallel" => race(draft),
        "" if all => race(draft),
        "" if fastest => note_fastest(draft),
        "fastest_addr" => note_fastest(draft),
        "" | "load_balance" => {}
        other => draft.note(
            format!("dns.upstream_mode = {other}"),
            "no such mode: the fastest server is used",
        ),
    }
}

/// Queries all servers of each zone at once, as far as that is possible.
fn race(draft: &mut Draft) {
    let counts = draft.forwards.iter().map(|(zone, rule)| (zone.clone(), rule.servers.len()));
    let counts: Vec<(String, usize)> = counts.filter(|(_, count)| *count > 1).collect();
    for (zone, count) in counts {
        if count > MAX_RACED {
            draft.note(
                format!("dns.upstream_mode = parallel: {count} servers of {zone:?}"),
                format!("{MAX_RACED} of them are queried at once: the fastest ones"),
            );
        }
        draft.strategy(&zone, &format!("race {}", count.min(MAX_RACED)));
    }
}

fn note_fastest(draft: &mut Draft) {
    draft.note(
        "dns.upstream_mode = fastest_addr",
        "addresses in answers are not probed; the fastest server is used",
    );
}

/// Adds the servers that are queried if all others fail. They become the last servers of an ordered
/// rule.
fn fallback(servers: Vec<String>, draft: &mut Draft) {
    let has_rule = draft.forwards.contains_key(".");
    let lines: Vec<String> =
        servers.into_iter().filter(|line| !line.trim_start().starts_with('#')).collect();
    for server in &lines {
        upstream(server, "dns.fallback_dns", draft);
    }
    if has_rule && !lines.is_empty() {
        let is_race = draft.forwards.get(".").is_some_and(|rule| rule.strategy.is_some());
        if is_race {
            draft.note(
                "dns.upstream_mode = parallel",
                "with `fallback_dns`, the servers are queried one after the other",
            );
        }
        draft.strategy(".", "ordered");
        draft.note(
            "dns.fallback_dns",
            "converted to the last servers of the rule, which are used in order",
        );
    }
}
