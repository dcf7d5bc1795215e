//! Lists, domains, groups and clients of Pi-hole ("Domain database" in its documentation).
//!
//! Clients that Pi-hole does not list are in the group with ID 0. The contents of a group apply to
//! its clients, and a client in several groups gets the contents of all. Domains become separate
//! lists, one for each kind and set of groups.

use std::collections::BTreeMap;

use crate::draft::{Client, Draft, Group, List, ListKind, Place, Rule};
use crate::name::{self, AssignedNames};

use super::tables::{Row, Tables, is_enabled, number, text};

/// The group of all clients that Pi-hole does not list.
const DEFAULT: i64 = 0;
/// The Avocet name of [`DEFAULT`].
const DEFAULT_NAME: &str = "default";
/// The group for clients that are in no group of the source.
const UNFILTERED: &str = "unfiltered";

/// Groups by their ID in the source.
type Groups = BTreeMap<i64, Group>;

/// Adds the contents of the tables to the draft.
pub(super) fn carry(mut tables: Tables, draft: &mut Draft) {
    let mut names = AssignedNames::default();
    let (mut groups, off) = groups(tables.take("group"), &mut names, draft);
    let links = links(tables.take("adlist_by_group"), "adlist_id");
    for row in tables.take("adlist") {
        adlist(&row, &links, &mut groups, draft);
    }
    let subscribes_to_allowed = draft.lists.iter().any(|list| list.kind == ListKind::Allow);
    let links = self::links(tables.take("domainlist_by_group"), "domainlist_id");
    let own = domains(tables.take("domainlist"), &links, &mut groups, draft);
    if subscribes_to_allowed {
        precedence(own, &groups, &off, draft);
    }
    let links = self::links(tables.take("client_by_group"), "client_id");
    clients(tables.take("client"), &links, &mut groups, &mut names, draft);
    for (id, mut group) in groups {
        if off.contains(&id) {
            group.lists.clear();
        }
        draft.groups.push(group);
    }
}

/// Returns all groups, including the default group, and the IDs of the disabled groups.
fn groups(rows: Vec<Row>, names: &mut AssignedNames, draft: &mut Draft) -> (Groups, Vec<i64>) {
    let mut groups = Groups::new();
    let mut off = Vec::new();
    names.unique(DEFAULT_NAME.to_owned());
    let origin = "all other clients".to_owned();
    groups.insert(DEFAULT, Group { name: DEFAULT_NAME.to_owned(), origin, ..Group::default() });
    for row in &rows {
        let Some(id) = number(row, "id") else {
            continue;
        };
        let title = text(row, "name");
        if !is_enabled(row) {
            draft.note(format!("group {title}"), "disabled in the source, so it has no lists");
            off.push(id);
        }
        if id != DEFAULT {
            let name = names.unique(name::slug(title, "group"));
            let description = text(row, "description");
            let origin = format!("group {title} {description}").trim().to_owned();
            groups.insert(id, Group { name, origin, ..Group::default() });
        }
    }
    (groups, off)
}

/// Returns the sorted group IDs of each entry.
fn links(rows: Vec<Row>, column: &str) -> BTreeMap<i64, Vec<i64>> {
    let mut links: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in &rows {
        if let (Some(entry), Some(group)) = (number(row, column), number(row, "group_id")) {
            links.entry(entry).or_default().push(group);
        }
    }
    for groups in links.values_mut() {
        groups.sort_unstable();
        groups.dedup();
    }
    links
}

fn groups_of<'a>(row: &Row, links: &'a BTreeMap<i64, Vec<i64>>) -> &'a [i64] {
    number(row, "id").and_then(|id| links.get(&id)).map_or(&[], Vec::as_slice)
}

fn put_into(list: &str, ids: &[i64], groups: &mut Groups) {
    for id in ids {
        if let Some(group) = groups.get_mut(id) {
            group.lists.push(list.to_owned());
        }
    }
}

/// Adds one list. Since version 6, the list may be an allow list.
fn adlist(row: &Row, links: &BTreeMap<i64, Vec<i64>>, groups: &mut Groups, draft: &mut Draft) {
    let (address, comment) = (text(row, "address"), text(row, "comment"));
    if !is_enabled(row) {
        return draft.note(format!("list {address}"), "disabled in the source");
    }
    let Some(place) = Place::parse(address) else {
        return draft.note(format!("list {address}"), "neither a URL nor a path");
    };
    let kind = if number(row, "type") == Some(1) { ListKind::Allow } else { ListKind::Block };
    let wanted = if comment.is_empty() { place.short().to_owned() } else { comment.to_owned() };
    let origin = format!("list {} {comment}", number(row, "id").unwrap_or_default());
    let name = draft.list(&wanted, List { kind, ..List::at(place, origin.trim()) });
    put_into(&name, groups_of(row, links), groups);
}

/// A list of names or expressions that the operator wrote.
struct OwnList {
    name: String,
    /// The type in the table of the source.
    kind: i64,
    /// The IDs of its groups.
    groups: Vec<i64>,
}

/// Adds names and expressions, and returns their lists. Types 0 and 1 are allowed and denied names;
/// types 2 and 3 are allowed and denied expressions.
fn domains(
    rows: Vec<Row>,
    links: &BTreeMap<i64, Vec<i64>>,
    groups: &mut Groups,
    draft: &mut Draft,
) -> Vec<OwnList> {
    let mut own = Vec::new();
    let mut sets: BTreeMap<(i64, &[i64]), Vec<String>> = BTreeMap::new();
    let mut off = 0;
    for row in &rows {
        let (Some(kind @ 0..=3), domain) = (number(row, "type"), text(row, "domain")) else {
            draft.note(format!("domain {}", text(row, "domain")), "unknown type");
            continue;
        };
        if !is_enabled(row) {
            off += 1;
            continue;
        }
        if domain.is_empty() {
            continue;
        }
        let lines = sets.entry((kind, groups_of(row, links))).or_default();
        let comment = text(row, "comment");
        if !comment.is_empty() {
            lines.push(format!("# {comment}"));
        }
        lines.push(domain.to_owned());
    }
    if off > 0 {
        draft.note(format!("{off} domains and expressions"), "disabled in the source");
    }
    for ((number, ids), lines) in sets {
        let (format, kind, title) = match number {
            0 => ("domains", ListKind::Allow, "allowed"),
            1 => ("domains", ListKind::Block, "denied"),
            2 => ("pihole-regex", ListKind::Allow, "allowed regex"),
            _ => ("pihole-regex", ListKind::Block, "denied regex"),
        };
        let whom: Vec<&str> =
            ids.iter().filter_map(|id| Some(groups.get(id)?.name.as_str())).collect();
        let origin = format!(
            "names {title} for {}",
            if whom.is_empty() { "nobody".to_owned() } else { whom.join(", ") }
        );
        let of = if ids == [DEFAULT] { String::new() } else { format!(" {}", whom.join(" ")) };
        let list = draft.own_list(&format!("{title}{of}"), format, kind, &lines, &origin);
        put_into(&list, ids, groups);
        own.push(OwnList { name: list, kind: number, groups: ids.to_vec() });
    }
    own
}

/// Adds the rules that give denied names precedence over fetched allow lists, and allowed names and
/// expressions precedence over denied names.
///
/// The order of Pi-hole is: allowed names and expressions, denied names, fetched allow lists, block
/// lists, denied expressions. In Avocet, every allow list precedes all block lists.
fn precedence(own: Vec<OwnList>, groups: &Groups, off: &[i64], draft: &mut Draft) {
    if !own.iter().any(|list| list.kind == 1) {
        return;
    }
    let mut sets: BTreeMap<(bool, Vec<i64>), Vec<String>> = BTreeMap::new();
    for list in own.into_iter().filter(|list| list.kind != 3) {
        sets.entry((list.kind == 1, list.groups)).or_default().push(format!("{:?}", list.name));
    }
    for ((is_denied, ids), lists) in sets {
        let on = ids.iter().filter(|id| !off.contains(id)).filter_map(|id| groups.get(id));
        let on: Vec<String> = on.map(|group| format!("client.group({:?})", group.name)).collect();
        let group = match on.as_slice() {
            [] => continue,
            [one] => one.clone(),
            several => format!("({})", several.join(" || ")),
        };
        let when = format!("{group} && list({})", lists.join(", "));
        let rule = if is_denied {
            Rule::block("denied", when, "", "denied names precede lists of allowed names")
        } else {
            Rule::doing("allow", "allowed", when, "allowed names precede denied names")
        };
        draft.rule(rule);
    }
}

fn clients(
    rows: Vec<Row>,
    links: &BTreeMap<i64, Vec<i64>>,
    groups: &mut Groups,
    group_names: &mut AssignedNames,
    draft: &mut Draft,
) {
    let mut names = AssignedNames::default();
    let mut unfiltered = None;
    for row in &rows {
        let (written, comment) = (text(row, "ip"), text(row, "comment"));
        let origin = format!("client {written} {comment}").trim().to_owned();
        let Some(id) = draft.client_id(written, "client") else {
            continue;
        };
        let mut in_groups: Vec<String> = groups_of(row, links)
            .iter()
            .filter_map(|id| Some(groups.get(id)?.name.clone()))
            .collect();
        if in_groups.is_empty() {
            in_groups.push(
                unfiltered.get_or_insert_with(|| group_names.unique(UNFILTERED.to_owned())).clone(),
            );
        }
        let name =
            names.unique(name::slug(if comment.is_empty() { written } else { comment }, "client"));
        draft.clients.push(Client { name, origin, ids: vec![id], groups: in_groups });
    }
    if let Some(name) = unfiltered {
        let origin = "clients without a group".to_owned();
        draft.groups.push(Group { name, origin, ..Group::default() });
    }
}
