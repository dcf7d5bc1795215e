//! Checks the zones with a view: which settings they cannot have, and next to which other zones
//! they cannot be.

use std::ops::Range;

use avocet_policy::client::{DEFAULT_GROUP, GroupSpec};

use super::check::Check;
use super::name::shown;
use super::policy::PolicyConfig;
use super::view_item::{MAX_VIEW_ITEMS, ViewItem, ZoneView};
use super::zone::ZoneConfig;

/// Maximum number of zones with a view. The server makes a set of the zones that a client sees, for
/// each kind of client.
const MAX_VIEWED_ZONES: usize = 1_000;

/// Returns the fault of a zone with a view next to another zone with the same name; `None` if both
/// are possible.
pub(super) fn clash(zone: &ZoneConfig, other: &ZoneConfig) -> Option<String> {
    let name = shown(&zone.name);
    let both = zone.view.iter().find(|item| other.view.contains(item));
    match both {
        _ if zone.name != other.name => None,
        Some(item) => {
            let files = (other.file.display(), zone.file.display());
            Some(format!(
                "the zone {name} has another table with \"{item}\" in its view: these clients \
                 would see both {} and {}",
                files.0, files.1
            ))
        }
        None if zone.view.is_empty() && other.view.is_empty() => {
            Some(format!("the zone {name} has another table"))
        }
        None => None,
    }
}

/// Returns the reason why a zone with a view cannot have one of its other settings; `None` if it
/// can have all of them.
pub(super) fn refusal(zone: &ZoneConfig) -> Option<String> {
    if zone.view.is_empty() {
        return None;
    }
    let provider = zone.provided.as_ref().map_or("", |provided| provided.kind.name());
    let provider = format!("provider = \"{provider}\"");
    let settings = [
        ("primaries", zone.is_secondary(), "transfer it to another server for these clients"),
        ("catalog", zone.catalog.is_catalog(), "a catalog is for servers, not for clients"),
        ("member-of", zone.catalog.is_listed(), "a catalog lists a name once, for all clients"),
        (&provider, zone.source_url().is_some(), "fetch its records to a file"),
    ];
    let refused = settings.into_iter().find(|(_, is_set, _)| *is_set);
    refused.map(|(setting, _, advice)| {
        let name = shown(&zone.name);
        format!("the zone {name} has a `view`, and cannot have `{setting}`: {advice}")
    })
}

/// Checks the views of all zones against the groups and listeners, and registers them with the
/// policy. `places` are the places of the zones in the file.
pub(super) fn apply(
    zones: &[ZoneConfig],
    places: &[Range<usize>],
    policy: &mut PolicyConfig,
    check: &mut Check,
) {
    let mut different: Vec<&ViewItem> = Vec::new();
    let viewed = zones.iter().zip(places).filter(|(zone, _)| !zone.view.is_empty());
    for (count, (zone, at)) in viewed.enumerate() {
        if count == MAX_VIEWED_ZONES {
            let message = format!("more than {MAX_VIEWED_ZONES} zones with a view");
            return check.fault(at.clone(), message);
        }
        for item in &zone.view {
            let name = shown(&zone.name);
            if let Some(kind) = unknown(item, &policy.groups, &policy.listeners) {
                check.fault(at.clone(), format!("view of the zone {name}: {kind}"));
            }
            if !different.contains(&item) {
                different.push(item);
                if different.len() > MAX_VIEW_ITEMS {
                    let message = format!("more than {MAX_VIEW_ITEMS} different items of views");
                    return check.fault(at.clone(), message);
                }
            }
        }
        policy.views.push(ZoneView { zone: zone.name.clone(), items: zone.view.clone() });
    }
}

/// Returns the fault of an item that names a missing group or listener.
fn unknown(item: &ViewItem, groups: &[GroupSpec], listeners: &[String]) -> Option<String> {
    match item {
        ViewItem::Group(name) => {
            let is_known = name == DEFAULT_GROUP || groups.iter().any(|group| group.name == *name);
            (!is_known).then(|| format!("no [[group]] has the name \"{name}\""))
        }
        ViewItem::Listener(name) => {
            let is_known = listeners.contains(name);
            (!is_known).then(|| format!("no [[listener]] has the name \"{name}\""))
        }
        ViewItem::Network(_) => None,
    }
}
