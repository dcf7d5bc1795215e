//! `blocking` and `clientLookup` of blocky: named lists, and the clients of each list.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::groups;
use crate::draft::{Draft, List, ListKind, Place, UNKNOWN_BLOCK};
use crate::section::{Section, millis, shown};
use crate::{name, reverse};

const TTL_RANGE: (u64, u64) = (0, 86_400);

/// The names of the Avocet lists that were created for each named list of blocky.
pub(super) type ByName = BTreeMap<String, Vec<String>>;

/// Reads both sections.
pub(super) fn read(mut blocking: Section, mut lookup: Section, draft: &mut Draft) {
    answer(&mut blocking, draft);
    let refresh_hours = refresh(&mut blocking, draft);
    let mut lists = ByName::new();
    for (key, former, kind) in [
        ("denylists", "blackLists", ListKind::Block),
        ("allowlists", "whiteLists", ListKind::Allow),
    ] {
        let sections = [blocking.section(key), blocking.section(former)];
        for section in sections {
            named_lists(section, kind, refresh_hours, &mut lists, draft);
        }
    }
    let mut by_client = blocking.section("clientGroupsBlock").drain();
    // The default group comes first, because the other groups are compared with it.
    by_client.sort_by_key(|(client, _)| client != "default");
    let clients = lookup.section("clients").drain();
    groups::read(by_client, clients, &lists, draft);
    blocking.leave(&[], draft);
    names_of_clients(&mut lookup, draft);
    let order = "the name of a client comes from its lease or PTR record";
    lookup.leave(&[("singleNameOrder", order)], draft);
}

/// Reads `clientLookup.upstream`, which resolves the names of clients. Avocet sends these queries
/// to itself, so the reverse zones are forwarded.
fn names_of_clients(lookup: &mut Section, draft: &mut Draft) {
    let origin = "clientLookup.upstream";
    let Some(server) = lookup.text("upstream") else { return };
    let is_name = |id: &String| id.parse::<IpAddr>().is_err() && !id.contains([':', '/']);
    if !draft.groups.iter().flat_map(|group| &group.clients).any(is_name) {
        let reason = "no group uses its names; for reverse names of private addresses write a \
                      [[forward]]";
        return draft.note(format!("{origin} = {server}"), reason);
    }
    let mut is_carried = false;
    for zone in reverse::private_zones() {
        // `conditional` already names the servers of these zones.
        if !draft.forwards.contains_key(&zone) {
            draft.forward(&zone, &server, origin);
            is_carried |= draft.forwards.contains_key(&zone);
        }
        if !is_carried {
            return;
        }
    }
    draft.note(origin, "it also answers clients that query reverse names of private addresses");
}

fn answer(blocking: &mut Section, draft: &mut Draft) {
    let written = blocking.text("blockType").unwrap_or_else(|| "zeroIp".to_owned());
    let addresses: Vec<String> = written
        .split(',')
        .map(|text| text.trim().to_owned())
        .filter(|text| text.parse::<IpAddr>().is_ok())
        .collect();
    let answer = match written.to_ascii_lowercase().as_str() {
        "nxdomain" => "nxdomain",
        _ if !addresses.is_empty() => "addresses",
        "zeroip" => "zero",
        _ => {
            draft.note(format!("blocking.blockType = {written}"), UNKNOWN_BLOCK);
            "zero"
        }
    };
    draft.set("policy", "block-answer", answer, "blocking.blockType");
    if answer == "addresses" {
        draft.set("policy", "block-addresses", addresses, "blocking.blockType");
    }
    if let Some(millis) = blocking.text("blockTTL").and_then(|text| millis(&text)) {
        draft.set_within(
            ("policy", "block-ttl-secs"),
            millis / 1_000,
            TTL_RANGE,
            "blocking.blockTTL",
        );
    }
}

/// Reads the refresh interval of lists, in hours.
fn refresh(blocking: &mut Section, draft: &mut Draft) -> Option<u64> {
    let mut loading = blocking.section("loading");
    let period = loading.text("refreshPeriod").or_else(|| blocking.text("refreshPeriod"));
    loading.quiet(&["downloads", "concurrency", "strategy", "maxErrorsPerSource"], draft);
    loading.leave(&[], draft);
    let period = period?;
    match millis(&period).filter(|millis| *millis > 0) {
        Some(millis) => Some((millis / 3_600_000).max(1)),
        None => {
            draft.note(
                format!("blocking.loading.refreshPeriod = {period}"),
                "lists are always refreshed",
            );
            None
        }
    }
}

fn named_lists(
    mut section: Section,
    kind: ListKind,
    refresh_hours: Option<u64>,
    lists: &mut ByName,
    draft: &mut Draft,
) {
    for (name, sources) in section.drain() {
        let origin = section.name(&name);
        let sources = match sources {
            serde_json::Value::Array(items) => items,
            one => vec![one],
        };
        for source in &sources {
            // A text that contains a line break is the list itself. A YAML block scalar ends with a
            // line break, even if it has only one line.
            let is_inline = source.as_str().is_some_and(|text| text.contains('\n'));
            let Some(source) = shown(source) else {
                draft.note(&origin, "neither text nor an address");
                continue;
            };
            let wanted =
                if kind == ListKind::Allow { format!("{name}-allowed") } else { name.clone() };
            let made = if is_inline {
                let lines: Vec<String> = source.lines().map(str::to_owned).collect();
                draft.own_list(&wanted, "auto", kind, &lines, &origin)
            } else if let Some(place) = Place::parse(&source) {
                draft.list(
                    &wanted,
                    List {
                        kind,
                        refresh_hours,
                        tags: vec![name::slug(&name, "list")],
                        ..List::at(place, &origin)
                    },
                )
            } else {
                draft.note(format!("{origin}: {source}"), "neither a URL nor an absolute path");
                continue;
            };
            if kind == ListKind::Allow && !lists.contains_key(&name) {
                let reason = "with only an allow list, blocky blocks all other names; here the \
                              list only allows names";
                draft.note(&origin, reason);
            }
            lists.entry(name.clone()).or_default().push(made);
        }
    }
}
