//! The texts of `avocet zone list`, `show` and `reload`.

use avocet_control::zone_keys::{ZoneKey, ZoneKeysReport};
use avocet_control::zones::{
    CatalogMove, CatalogMoveStep, CatalogPart, ZoneCatalog, ZoneNotifications, ZoneNotify,
    ZonePage, ZoneRecord, ZoneState, ZoneStatus, ZoneTransfers, ZonesReport,
};

use crate::span::{ago, left};

/// Returns the text of `avocet zone list`.
pub(crate) fn zones_text(report: &ZonesReport) -> String {
    if report.zones.is_empty() {
        return "the configuration has no zones".to_owned();
    }
    report.zones.iter().map(zone_text).collect::<Vec<_>>().join("\n")
}

/// Returns the state of a zone in a line, and its error in another line.
pub(crate) fn zone_text(zone: &ZoneStatus) -> String {
    let ZoneStatus { records, octets, .. } = zone;
    let name = zone_name(zone);
    let mut text = match (zone.state, zone.serial) {
        (ZoneState::Failed, _) | (_, None) => format!("zone {name}: {}", ZoneState::Failed),
        (state, Some(serial)) => {
            let signed = if zone.signed { ", signed" } else { "" };
            let loaded = ago(zone.loaded_at);
            format!(
                "zone {name}: {state}, serial {serial}, {records} records{signed}, {octets} \
                 octets, read {loaded}"
            )
        }
    };
    if let Some(catalog) = &zone.catalog {
        text += &format!("\n  {}", catalog_text(catalog));
    }
    if let Some(transfers) = &zone.transfers {
        text += &format!("\n  {}", transfers_text(transfers, zone));
    }
    if let Some(notifications) = &zone.notifications {
        text += &format!("\n  {}", notifications_text(notifications));
    }
    for one in &zone.notify {
        text += &format!("\n  {}", notify_text(one));
    }
    if let Some(error) = &zone.error {
        text += &format!("\n  {error}");
    }
    text
}

/// Returns a line about the notifications of the database of a zone.
fn notifications_text(notifications: &ZoneNotifications) -> String {
    match notifications {
        ZoneNotifications { listening: true, .. } => "notifications of the database arrive".into(),
        ZoneNotifications { error: Some(error), .. } => {
            format!("no notifications of the database: {error}")
        }
        _ => "no notifications of the database yet".into(),
    }
}

/// Returns the name of a zone, with its view if it has one.
fn zone_name(zone: &ZoneStatus) -> String {
    let name = &zone.name;
    if zone.view.is_empty() { name.clone() } else { format!("{name} for {}", zone.view.join(", ")) }
}

/// Returns the relation of a zone to catalogs in a line, and its errors in others.
fn catalog_text(catalog: &ZoneCatalog) -> String {
    let ZoneCatalog { role, name, groups, members, error, refused, moving } = catalog;
    let name = name.as_deref().unwrap_or_default();
    let mut text = match role {
        CatalogPart::Consumer => format!("a catalog with {} members", members.unwrap_or(0)),
        CatalogPart::Producer => {
            format!("a catalog of this server with {} members", members.unwrap_or(0))
        }
        CatalogPart::Listed => format!("listed in the catalog {name}"),
        CatalogPart::Member => format!("a member of the catalog {name}"),
    };
    if !groups.is_empty() {
        text += &format!(", group {}", groups.join(", "));
    }
    if let Some(error) = error {
        text += &format!("\n  the catalog is broken, its members stay: {error}");
    }
    for one in refused {
        text += &format!("\n  {one}");
    }
    if let Some(moving) = moving {
        text += &format!("\n  {}", move_text(moving));
    }
    text
}

/// Returns a line about a move of a zone between catalogs.
fn move_text(moving: &CatalogMove) -> String {
    let CatalogMove { from, to, step, since, next_at } = moving;
    let (step, next) = match step {
        CatalogMoveStep::Announced => ("announced", "both list it"),
        CatalogMoveStep::ListedTwice => ("listed in both", "it is in the second one alone"),
    };
    let (since, next_at) = (ago(Some(*since)), left(*next_at));
    format!(
        "moves from the catalog {from} to {to}: {step} {since}, {next} in {next_at} at the earliest"
    )
}

/// Returns a line about a server that gets NOTIFY, with the zone version that the server has.
fn notify_text(notify: &ZoneNotify) -> String {
    let ZoneNotify { server, serial, acknowledged, tries, error } = notify;
    let state = match (acknowledged, error) {
        (true, _) => "acknowledged".to_owned(),
        (false, None) => format!("sent {tries} times"),
        (false, Some(error)) => format!("sent {tries} times: {error}"),
    };
    format!("NOTIFY to {server}: serial {serial} {state}")
}

/// Returns the state of the transfers of a zone in a line, and their error in another line.
fn transfers_text(transfers: &ZoneTransfers, zone: &ZoneStatus) -> String {
    let source = zone.url.clone().unwrap_or_else(|| zone.primaries.join(" or "));
    let ZoneTransfers { checked_at, next_check, expires, transferred, failures, error } = transfers;
    let mut text = format!(
        "from {source}: checked {}, next check {}, {transferred} transfers, {failures} failures",
        ago(*checked_at),
        next_check.map_or_else(|| "running".to_owned(), |at| format!("in {}", left(at))),
    );
    if let Some(expires) = expires {
        text += &format!(", expires in {}", left(*expires));
    }
    if let Some(error) = error {
        text += &format!("\n  {error}");
    }
    text
}

/// Returns the keys of a zone, the DS records for its parent, and the next step.
pub(crate) fn keys_text(report: &ZoneKeysReport) -> String {
    let ZoneKeysReport { name, policy, .. } = report;
    let mut lines = vec![format!("zone {name}: signed by the policy {policy}")];
    lines.extend(report.keys.iter().map(|key| {
        let ZoneKey { tag, algorithm, role, state, since, .. } = key;
        let (since, created) = (ago(Some(*since)), ago(Some(key.created)));
        format!("  key {tag}: {role}, {algorithm}, {state} since {since}, made {created}")
    }));
    lines.extend(report.ds.iter().map(|ds| format!("{name} IN DS {ds}")));
    if let Some(tag) = report.awaited_ds {
        let late = if report.overdue { ", for too long" } else { "" };
        lines.push(format!("  the parent should have the DS record of key {tag}{late}"));
    }
    if let Some(end) = report.signatures_end {
        lines.push(format!("  the first signature ends in {}", left(end)));
    }
    if let Some(next) = report.next_event {
        lines.push(format!("  next event in {}", left(next)));
    }
    lines.extend(report.error.iter().map(|error| format!("  {error}")));
    lines.join("\n")
}

/// Returns records as in a master file. A comment at the end has the place of the next page.
pub(crate) fn page_text(page: &ZonePage) -> String {
    let line = |ZoneRecord { name, ttl, rtype, data }: &ZoneRecord| {
        format!("{name} {ttl} IN {rtype} {data}")
    };
    let next = page.next.iter().map(|next| format!("; more: --after \"{next}\""));
    page.records.iter().map(line).chain(next).collect::<Vec<_>>().join("\n")
}
