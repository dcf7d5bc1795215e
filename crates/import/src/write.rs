//! Completes the draft and writes the text of `avocet.toml` table by table.

use std::fmt::{self, Write};
use std::net::SocketAddr;

use avocet_policy::client::{MAX_CLIENTS, MAX_GROUPS};
use avocet_policy::list::MAX_LISTS;
use avocet_policy::rule::MAX_RULES;
use toml::Value;

use crate::draft::{Draft, Forward, Group, List, ListKind, Place, Reverse, Rule, Trust, one_line};
use crate::hosted::Hosted;
use crate::records::Table;
use crate::server::{NO_ADDRESS, Server};
use crate::source::Error;
use crate::{Imported, Origin, local, types};

/// The default listen address of the server.
const DEFAULT_LISTEN: &str = "127.0.0.1:5300";
/// The default of `max-ttl-secs`.
const DEFAULT_MAX_TTL_SECS: i64 = 86_400;

/// Completes the draft and writes it.
///
/// # Errors
/// The draft exceeds the limits of a configuration.
pub(crate) fn finish(origin: Origin, path: &str, mut draft: Draft) -> Result<Imported, Error> {
    drop_own_addresses(&mut draft);
    order_ttls(&mut draft);
    if matches!(origin, Origin::Dnsmasq | Origin::Pihole) {
        types::settle(&mut draft);
    }
    spread_wildcards(&mut draft);
    settle_exceptions(&mut draft);
    local::apply(&mut draft);
    give_to_all_groups(&mut draft);
    limit_lists(&mut draft);
    drop_absent_lists(&mut draft);
    check_counts(path, &draft)?;
    draft.note_quiet();
    let over = draft.notes_over();
    let mut config = String::new();
    // Writing to a `String` does not fail.
    let _ = write_all(&mut config, origin, path, &draft);
    let mut notes = draft.notes;
    if over > 0 {
        notes.push(format!("{over} more notes are not shown"));
    }
    let Hosted { secrets, zone_files, .. } = draft.hosted;
    Ok(Imported { config, files: draft.files, secrets, zone_files, notes })
}

/// Drops the last fetched lists if there are more lists than a configuration can have.
fn limit_lists(draft: &mut Draft) {
    let mut over = draft.lists.len().saturating_sub(MAX_LISTS);
    let mut kept = Vec::new();
    for list in std::mem::take(&mut draft.lists).into_iter().rev() {
        match &list.place {
            Place::Url(url) if over > 0 && list.kind == ListKind::Block => {
                over -= 1;
                draft.note(
                    format!("{}: {url}", list.origin),
                    format!("at most {MAX_LISTS} lists are possible"),
                );
            }
            _ => kept.push(list),
        }
    }
    kept.reverse();
    draft.lists = kept;
}

/// Checks the numbers of lists, groups, clients and rules. Others may refer to them, so none is
/// dropped.
fn check_counts(path: &str, draft: &Draft) -> Result<(), Error> {
    for (count, most, what) in [
        (draft.lists.len(), MAX_LISTS, "lists"),
        (draft.groups.len(), MAX_GROUPS, "groups"),
        (draft.clients.len(), MAX_CLIENTS, "clients"),
        (draft.rules.len(), MAX_RULES, "rules"),
    ] {
        if count > most {
            return Err(Error::TooLarge { path: path.to_owned(), limit: format!("{most} {what}") });
        }
    }
    Ok(())
}

/// The reason why a server at the address of Avocet is dropped.
const OWN_ADDRESS: &str = "this server itself will listen there";

/// Drops servers at addresses where this server will listen: queries would loop.
fn drop_own_addresses(draft: &mut Draft) {
    let written = draft.settings.get(&("server", "listen")).and_then(|(value, _)| value.as_array());
    let listen: Vec<SocketAddr> = match written {
        Some(items) => items.iter().filter_map(|item| item.as_str()?.parse().ok()).collect(),
        None => DEFAULT_LISTEN.parse().into_iter().collect(),
    };
    let mut dropped = Vec::new();
    draft.bootstrap.retain(|server| !listen.iter().any(|own| server.is_own(own)));
    let knows_addresses = !draft.bootstrap.is_empty();
    draft.forwards.retain(|_, forward| {
        let was_exception = forward.servers.is_empty();
        forward.servers.retain(|server| {
            let is_own = listen.iter().any(|own| server.is_own(own));
            let is_lost = server.address().is_none() && !knows_addresses;
            if is_own || is_lost {
                let reason = if is_own { OWN_ADDRESS } else { NO_ADDRESS };
                dropped.push((format!("{}: {}", forward.origin, server.upstream()), reason));
            }
            !is_own && !is_lost
        });
        was_exception || !forward.servers.is_empty()
    });
    for (what, reason) in dropped {
        draft.note(what, reason);
    }
}

/// Lowers the minimum TTL to the maximum TTL if the source has a larger minimum.
fn order_ttls(draft: &mut Draft) {
    let number =
        |key| draft.settings.get(&("cache", key)).and_then(|(value, _)| value.as_integer());
    let max = number("max-ttl-secs").unwrap_or(DEFAULT_MAX_TTL_SECS);
    if let Some(min) = number("min-ttl-secs").filter(|min| *min > max) {
        draft.note(format!("min-ttl-secs = {min}"), format!("above max-ttl-secs: set to {max}"));
        draft.set("cache", "min-ttl-secs", max, "lowered to max-ttl-secs");
    }
}

/// Makes wildcards cover names with their own records, as all source products do.
fn spread_wildcards(draft: &mut Draft) {
    if !draft.records.spread() {
        draft.note("wildcards", "too many to repeat below names with their own records");
    }
}

/// Converts exceptions, which use the servers for all names. In Avocet, an exception only removes
/// names from one rule, so that the rule of the next zone above applies. An exception needs no
/// conversion if the only rule above it is the rule for all names.
fn settle_exceptions(draft: &mut Draft) {
    let zones_above = |zone: &str| {
        let above = std::iter::successors(zone.split_once('.'), |(_, up)| up.split_once('.'));
        above.map(|(_, up)| up.to_owned()).collect::<Vec<_>>()
    };
    let exceptions: Vec<String> = draft
        .forwards
        .iter()
        .filter(|(_, rule)| rule.servers.is_empty())
        .map(|(zone, _)| zone.clone())
        .collect();
    for zone in exceptions {
        let is_rule = |up: &String| {
            draft.local_zones.contains_key(up)
                || draft.forwards.get(up).is_some_and(|rule| !rule.servers.is_empty())
        };
        let all = draft.forwards.get(".").map(|rule| (rule.servers.clone(), rule.strategy.clone()));
        let above: Vec<String> = zones_above(&zone).into_iter().filter(is_rule).collect();
        // An exception removes names from a rule, but not from a local zone.
        let is_local = above.iter().any(|up| draft.local_zones.contains_key(up));
        match (above.len(), all) {
            (0, _) => drop(draft.forwards.remove(&zone)),
            (1, _) if !is_local => {}
            (_, Some((servers, strategy))) => {
                if let Some(rule) = draft.forwards.get_mut(&zone) {
                    (rule.servers, rule.strategy) = (servers, strategy);
                }
            }
            (_, None) if is_local => {
                draft.forwards.remove(&zone);
                draft.note(
                    format!("names under {zone}"),
                    "they end in the local zone above, because no servers for all names were \
                     converted",
                );
            }
            (_, None) => draft.note(
                format!("names under {zone}"),
                "they follow the next rule above, because no rule for all names was converted",
            ),
        }
    }
}

/// Adds the lists that apply to all clients to each group.
fn give_to_all_groups(draft: &mut Draft) {
    for group in &mut draft.groups {
        let absent = draft.for_everybody.iter().filter(|name| !group.lists.contains(name));
        let absent: Vec<String> = absent.cloned().collect();
        group.lists.extend(absent);
    }
}

/// Removes references to lists that do not exist, which disabled lists leave in groups.
fn drop_absent_lists(draft: &mut Draft) {
    let lists: Vec<&str> = draft.lists.iter().map(|list| list.name.as_str()).collect();
    for group in &mut draft.groups {
        group.lists.retain(|name| lists.contains(&name.as_str()));
        group.lists.dedup();
    }
}

fn write_all(out: &mut String, origin: Origin, path: &str, draft: &Draft) -> fmt::Result {
    writeln!(out, "# Imported from {}: {}", origin.product(), one_line(path))?;
    let mut table = "";
    for ((name, key), (value, origin)) in &draft.settings {
        if *name != table {
            table = name;
            writeln!(out, "\n[{table}]")?;
        }
        writeln!(out, "{key} = {value}   # {}", one_line(origin))?;
    }
    draft
        .forwards
        .iter()
        .try_for_each(|(zone, forward)| write_forward(out, zone, forward, &draft.bootstrap))?;
    draft
        .records
        .tables()
        .try_for_each(|(table, values, ttl_secs)| write_record(out, table, (&values, ttl_secs)))?;
    draft.hosted.tables().try_for_each(|table| {
        header(out, table.kind, &table.origin)?;
        table.pairs.iter().try_for_each(|(key, value)| pair(out, key, value.clone()))
    })?;
    draft.lists.iter().try_for_each(|list| write_list(out, list))?;
    draft.groups.iter().try_for_each(|group| write_group(out, group))?;
    for client in &draft.clients {
        header(out, "client", &client.origin)?;
        pair(out, "name", client.name.as_str())?;
        pair(out, "ids", client.ids.clone())?;
        pair(out, "groups", client.groups.clone())?;
    }
    draft.rules.iter().try_for_each(|rule| write_rule(out, rule))
}

fn write_forward(
    out: &mut String,
    zone: &str,
    forward: &Forward,
    bootstrap: &[Server],
) -> fmt::Result {
    header(out, "forward", &forward.origin)?;
    if forward.servers.is_empty() {
        return pair(out, "zone", format!("!{zone}"));
    }
    pair(out, "zone", zone)?;
    let upstreams: Vec<String> = forward.servers.iter().map(|server| server.upstream()).collect();
    pair(out, "upstreams", upstreams)?;
    if forward.servers.iter().any(|server| server.address().is_none()) {
        let servers: Vec<String> = bootstrap.iter().map(|server| server.of_stub()).collect();
        pair(out, "bootstrap", servers)?;
    }
    match &forward.strategy {
        Some(strategy) => pair(out, "strategy", strategy.as_str()),
        None => Ok(()),
    }
}

fn write_record(
    out: &mut String,
    table: &Table,
    (values, ttl_secs): (&[&str], u32),
) -> fmt::Result {
    header(out, "record", &table.origin)?;
    pair(out, "name", table.owner.as_str())?;
    pair(out, "type", table.rtype.as_str())?;
    pair(out, "values", values.iter().copied().map(Value::from).collect::<Vec<_>>())?;
    pair(out, "ttl-secs", i64::from(ttl_secs))?;
    match table.reverse {
        Reverse::Absent => pair(out, "ptr", false),
        Reverse::Answered => Ok(()),
    }
}

fn write_list(out: &mut String, list: &List) -> fmt::Result {
    header(out, "list", &list.origin)?;
    pair(out, "name", list.name.as_str())?;
    match &list.place {
        Place::Url(url) => pair(out, "url", url.as_str())?,
        Place::File(path) => pair(out, "file", path.as_str())?,
        Place::Primaries(zone, primaries) => {
            pair(out, "zone", zone.as_str())?;
            pair(out, "primaries", primaries.clone())?;
        }
    }
    pair(out, "format", list.format)?;
    pair(out, "kind", if list.kind == ListKind::Allow { "allow" } else { "block" })?;
    if let Some(hours) = list.refresh_hours {
        pair(out, "refresh", format!("{hours}h"))?;
    }
    if list.trust == Trust::Answers && list.kind == ListKind::Block {
        pair(out, "rewrites", true)?;
    }
    if list.tags.is_empty() { Ok(()) } else { pair(out, "tags", list.tags.clone()) }
}

fn write_group(out: &mut String, group: &Group) -> fmt::Result {
    header(out, "group", &group.origin)?;
    pair(out, "name", group.name.as_str())?;
    if !group.clients.is_empty() {
        pair(out, "clients", group.clients.clone())?;
    }
    pair(out, "lists", group.lists.clone())
}

fn write_rule(out: &mut String, rule: &Rule) -> fmt::Result {
    header(out, "rule", &rule.origin)?;
    pair(out, "name", rule.name.as_str())?;
    pair(out, "when", rule.when.as_str())?;
    pair(out, "action", rule.action)?;
    rule.more.iter().try_for_each(|(key, value)| pair(out, key, value.clone()))
}

fn header(out: &mut String, table: &str, origin: &str) -> fmt::Result {
    writeln!(out, "\n# {}\n[[{table}]]", one_line(origin).trim_end())
}

fn pair(out: &mut String, key: &str, value: impl Into<Value>) -> fmt::Result {
    writeln!(out, "{key} = {}", value.into())
}
