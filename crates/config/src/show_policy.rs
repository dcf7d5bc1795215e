//! The policy in the syntax of the configuration file.

use std::path::Path;

use avocet_policy::client::IdPrecedence;
use serde::Serialize;
use toml::{Table, Value};

use super::name::shown;
use super::policy::{ListConfig, ListKind, ListSource};
use super::show::{table, texts};
use super::{Config, primary_settings, query_log};

/// Adds the tables of the policy by `put`.
pub(super) fn policy(config: &Config, put: &mut impl FnMut(&str, Value)) {
    let Config { policy, query_log, .. } = config;
    let exceptions: Vec<String> =
        policy.rebinding.iter().flatten().map(|name| shown(name)).collect();
    let entries = [
        ("block-answer", Value::try_from(policy.block.answer).unwrap_or_else(|_| "zero".into())),
        ("block-addresses", texts(&policy.block.addresses)),
        ("block-ttl-secs", policy.block.ttl_secs.into()),
        ("block-page", texts(&policy.block.page)),
        ("time-zone", policy.time_zone.clone().into()),
        ("block-private", policy.rebinding.is_some().into()),
        ("private-exceptions", texts(&exceptions)),
        ("block-firefox-dns", policy.signals.firefox_dns.into()),
        ("block-private-relay", policy.signals.private_relay.into()),
        ("ids-override-addresses", (policy.id_precedence == IdPrecedence::Device).into()),
        ("leases", file(policy.leases.as_deref())),
        ("geo-database", file(policy.geo_database.as_deref())),
    ];
    put("policy", table(entries).into());
    put("list", policy.lists.iter().map(list).collect::<Vec<_>>().into());
    let mut groups = policy.groups.iter().map(shown_table).collect::<Vec<_>>().into();
    query_log::show_in(&mut groups, &query_log.groups);
    put("group", groups);
    let mut clients = policy.clients.iter().map(shown_table).collect::<Vec<_>>().into();
    query_log::show_in(&mut clients, &query_log.clients);
    put("client", clients);
    put("rule", policy.rules.iter().map(shown_table).collect::<Vec<_>>().into());
}

/// Returns the path as a value; an empty text if there is no path.
fn file(path: Option<&Path>) -> Value {
    path.map_or_else(String::new, |path| path.display().to_string()).into()
}

fn list(list: &ListConfig) -> Table {
    let kind = match list.kind {
        ListKind::Block => "block",
        ListKind::Allow => "allow",
    };
    let (key, source) = match &list.source {
        ListSource::Url(url) => ("url", url.clone()),
        ListSource::File(path) => ("file", path.to_string_lossy().into_owned()),
        ListSource::Zone(transferred) => ("zone", shown(&transferred.zone)),
    };
    let mut shown = table([
        ("name", list.name.clone().into()),
        (key, source.into()),
        ("format", list.format.0.into()),
        ("kind", kind.into()),
        ("refresh", shown_time(list.refresh.as_secs()).into()),
        ("rewrites", list.rewrites.into()),
        ("tags", texts(&list.tags)),
    ]);
    if let Some(transferred) = list.source.zone() {
        primary_settings::show(&transferred.primaries, &mut shown);
        shown.remove("refresh");
    }
    shown
}

/// Returns a duration in the largest unit (hours, minutes or seconds) that divides it.
fn shown_time(secs: u64) -> String {
    match (secs % 3_600, secs % 60) {
        (0, _) => format!("{}h", secs / 3_600),
        (_, 0) => format!("{}m", secs / 60),
        _ => format!("{secs}s"),
    }
}

/// Returns a table of a type that serializes itself.
fn shown_table<T: Serialize>(entry: &T) -> Value {
    let mut value = Value::try_from(entry).unwrap_or_else(|_| Table::new().into());
    if let Some(table) = value.as_table_mut() {
        table.retain(|key, value| {
            key != "to" || value.as_array().is_some_and(|items| !items.is_empty())
        });
    }
    value
}
