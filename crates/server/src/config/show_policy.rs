//! The policy as it would be written in a file.

use serde::Serialize;
use toml::{Table, Value};

use super::name::shown;
use super::policy::{ListConfig, ListKind, ListSource, PolicyConfig};
use super::show::{table, texts};

/// Puts the tables of the policy where they belong.
pub(super) fn policy(policy: &PolicyConfig, put: &mut impl FnMut(&str, Value)) {
    let exceptions: Vec<String> = policy.rebinding.iter().flatten().map(|name| shown(name)).collect();
    let entries = [
        ("block-answer", Value::try_from(policy.block.answer).unwrap_or_else(|_| "zero".into())),
        ("block-addresses", texts(&policy.block.addresses)),
        ("block-ttl-secs", policy.block.ttl_secs.into()),
        ("time-zone", policy.time_zone.clone().into()),
        ("block-private", policy.rebinding.is_some().into()),
        ("private-exceptions", texts(&exceptions)),
    ];
    put("policy", table(entries).into());
    put("list", policy.lists.iter().map(list).collect::<Vec<_>>().into());
    put("group", policy.groups.iter().map(shown_table).collect::<Vec<_>>().into());
    put("client", policy.clients.iter().map(shown_table).collect::<Vec<_>>().into());
    put("rule", policy.rules.iter().map(shown_table).collect::<Vec<_>>().into());
}

fn list(list: &ListConfig) -> Table {
    let kind = match list.kind {
        ListKind::Block => "block",
        ListKind::Allow => "allow",
    };
    let (key, source) = match &list.source {
        ListSource::Url(url) => ("url", url.clone()),
        ListSource::File(path) => ("file", path.to_string_lossy().into_owned()),
    };
    table([
        ("name", list.name.clone().into()),
        (key, source.into()),
        ("format", list.format.0.into()),
        ("kind", kind.into()),
        ("refresh", format!("{}s", list.refresh.as_secs()).into()),
        ("rewrites", list.rewrites.into()),
        ("tags", texts(&list.tags)),
    ])
}

/// A table of a kind that knows its own form; what is empty or of no use here is left out.
fn shown_table<T: Serialize>(entry: &T) -> Value {
    let mut value = Value::try_from(entry).unwrap_or_else(|_| Table::new().into());
    if let Some(table) = value.as_table_mut() {
        table.retain(|_, value| value.as_array().is_none_or(|items| !items.is_empty()));
    }
    value
}
