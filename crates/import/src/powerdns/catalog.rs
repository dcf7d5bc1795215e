//! Catalog zones (RFC 9432) of a database: zones of the types PRODUCER and CONSUMER, and the zones
//! that name one of them in the column `catalog`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::draft::Draft;
use crate::hosted::{ArrayTable, zone_name};

use super::database::Stored;

/// Maximum number of octets of a group, as in the configuration reader.
const MAX_GROUP: usize = 255;

/// The relation of a zone to catalogs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum CatalogRole {
    #[default]
    Plain,
    /// A catalog that the server writes.
    Producer,
    /// A catalog of another server.
    Consumer,
    /// A zone that a catalog of this server lists.
    Listed { catalog: String, group: String },
    /// A zone that the server has because a catalog of another server lists it.
    Member { catalog: String },
}

/// The columns of a zone that names a catalog.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) id: i64,
    /// The column `catalog`.
    pub(super) catalog: String,
    /// The column `options`, a JSON object.
    pub(super) options: String,
}

/// Sets the roles of the zones that name a catalog.
pub(super) fn settle(listings: Vec<Listing>, zones: &mut BTreeMap<i64, Stored>, draft: &mut Draft) {
    for Listing { id, catalog, options } in listings {
        let named = zone_name(&catalog);
        let role = named.as_ref().and_then(|name| {
            zones.values().find(|zone| zone.name == *name).map(|zone| zone.role.clone())
        });
        let Some(zone) = zones.get_mut(&id) else { continue };
        let what = format!("{}: catalog {catalog}", zone.origin);
        if zone.role != CatalogRole::Plain {
            draft.note(what, "a catalog is no member of a catalog");
            continue;
        }
        zone.role = match (role, named) {
            (Some(CatalogRole::Producer), Some(catalog)) => {
                CatalogRole::Listed { catalog, group: group(&options, &what, draft) }
            }
            (Some(CatalogRole::Consumer), Some(catalog)) => CatalogRole::Member { catalog },
            _ => {
                draft.note(what, "there is no such zone of the type PRODUCER or CONSUMER");
                CatalogRole::Plain
            }
        };
    }
}

/// Returns the group of a member. Notes the other options.
fn group(options: &str, what: &str, draft: &mut Draft) -> String {
    let parsed: Value = match serde_json::from_str(options) {
        Ok(parsed) => parsed,
        Err(_) if options.trim().is_empty() => Value::Null,
        Err(_) => {
            draft.note(format!("{what}: options"), "expected JSON");
            return String::new();
        }
    };
    let Some(options) = parsed.get("producer").and_then(Value::as_object) else {
        return String::new();
    };
    let mut group = String::new();
    for (key, value) in options {
        let what = format!("{what}: {key}");
        match key.as_str() {
            "group" => group = first_group(value, &what, draft),
            "unique" => draft.note(
                what,
                "the server derives the unique label from the name of the zone: consumers reset \
                 the zone once",
            ),
            "coo" => draft.note(what, "the server gives no member to another catalog"),
            _ => draft.note(what, "no equivalent for a member of a catalog"),
        }
    }
    group
}

fn first_group(value: &Value, what: &str, draft: &mut Draft) -> String {
    let groups: Vec<&str> = match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        value => value.as_str().into_iter().collect(),
    };
    let is_text = |octet: u8| matches!(octet, b' '..=b'~') && !matches!(octet, b'"' | b'\\');
    let (good, bad): (Vec<&str>, Vec<&str>) = groups
        .into_iter()
        .filter(|group| !group.is_empty())
        .partition(|group| group.len() <= MAX_GROUP && group.bytes().all(is_text));
    for group in bad {
        draft.note(format!("{what} {group:?}"), "a group has at most 255 characters of ASCII");
    }
    for group in good.iter().skip(1) {
        draft.note(format!("{what} {group:?}"), "a member has one group");
    }
    good.first().map_or_else(String::new, |group| (*group).to_owned())
}

/// Sets the keys of a zone for catalogs.
pub(super) fn set(table: &mut ArrayTable, role: &CatalogRole, draft: &mut Draft) {
    match role {
        CatalogRole::Producer => {
            table.set("catalog", "producer");
            draft.note(
                &table.origin,
                "the server writes the catalog with its own unique labels: consumers reset the \
                 members once",
            );
        }
        CatalogRole::Consumer => {
            table.set("catalog", "consumer");
            draft.note(
                &table.origin,
                "the rule for names outside of the hosted zones refuses members that are added \
                 later: add their names to it, or remove it if the server has no other clients",
            );
        }
        CatalogRole::Listed { catalog, group } => {
            table.set("member-of", catalog.as_str());
            if !group.is_empty() {
                table.set("group", group.as_str());
            }
        }
        CatalogRole::Plain | CatalogRole::Member { .. } => {}
    }
}
