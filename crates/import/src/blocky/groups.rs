//! `clientGroupsBlock` of blocky, and the clients of `clientLookup`.
//!
//! In blocky, a client gets the lists of all keys that match: its names, its address, and each
//! network that contains the address. The lists of `default` apply only if none matches. In Avocet
//! an address belongs to a single client, so the lists of a network are copied to the groups of
//! addresses and networks within it.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use avocet_policy::client::{MAX_CLIENTS, MAX_GROUPS};

use crate::draft::{Client, Draft, Group};
use crate::name::{self, AssignedNames};
use crate::section::shown;

use super::blocking::ByName;

const DEFAULT: &str = "default";

/// A key and the group created for it.
struct Key {
    text: String,
    network: Option<IpNet>,
    group: Group,
}

/// A client with a name.
struct KnownClient {
    name: String,
    networks: Vec<IpNet>,
    ids: Vec<String>,
}

impl Key {
    fn is_for(&self, client: &KnownClient) -> bool {
        let holds = |network: IpNet| client.networks.iter().any(|id| network.contains(id));
        match self.network {
            Some(network) => holds(network),
            None => {
                self.text != DEFAULT
                    && matches(&self.text.to_lowercase(), &client.name.to_lowercase())
            }
        }
    }
}

/// Reads both tables. Stops at one entry more than a configuration can hold, which later causes an
/// error.
pub(super) fn read(
    by_client: Vec<(String, Value)>,
    clients: Vec<(String, Value)>,
    lists: &ByName,
    draft: &mut Draft,
) {
    let clients: Vec<KnownClient> = clients
        .into_iter()
        .take(MAX_CLIENTS + 1)
        .map(|(name, value)| known(name, &value))
        .collect();
    let mut names = AssignedNames::default();
    names.unique(DEFAULT.to_owned());
    let mut keys: Vec<Key> = by_client
        .into_iter()
        .take(MAX_GROUPS + 1)
        .filter_map(|(text, value)| key(text, &value, lists, &mut names))
        .collect();
    if !keys.iter().any(|key| key.text == DEFAULT) {
        let origin = "without a group `default`, nothing is blocked for other clients".to_owned();
        let group = Group { name: DEFAULT.to_owned(), origin, ..Group::default() };
        keys.push(Key { text: DEFAULT.to_owned(), network: None, group });
    }
    claim(&mut keys, &clients, draft);
    inherit(&mut keys);
    let mut names = AssignedNames::default();
    for client in &clients {
        let origin = format!("clientLookup.clients: {}", client.name);
        let ids: Vec<String> =
            client.ids.iter().filter_map(|id| draft.client_id(id, &origin)).collect();
        let mut groups: Vec<String> = keys
            .iter()
            .filter(|key| key.is_for(client))
            .map(|key| key.group.name.clone())
            .collect();
        if groups.is_empty() {
            groups.push(DEFAULT.to_owned());
        }
        if !ids.is_empty() {
            let name = names.unique(name::slug(&client.name, "client"));
            draft.clients.push(Client { name, origin, ids, groups });
        }
    }
    draft.groups.extend(keys.into_iter().map(|key| key.group));
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(shown).collect(),
        value => shown(value).into_iter().collect(),
    }
}

fn network(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .ok()
        .map(|network| network.trunc())
}

fn known(name: String, value: &Value) -> KnownClient {
    let ids = texts(value);
    KnownClient { name, networks: ids.iter().filter_map(|id| network(id)).collect(), ids }
}

fn key(text: String, value: &Value, lists: &ByName, names: &mut AssignedNames) -> Option<Key> {
    let wanted = texts(value);
    let lists = wanted.iter().filter_map(|name| lists.get(name)).flatten().cloned().collect();
    let name =
        if text == DEFAULT { text.clone() } else { names.unique(name::slug(&text, "group")) };
    let origin = format!("blocking.clientGroupsBlock: {text}");
    let group = Group { name, origin, clients: Vec::new(), lists };
    Some(Key { network: network(&text), text, group })
}

/// Assigns to each group the clients that its key matches, except for those whose name is itself a
/// key.
fn claim(keys: &mut Vec<Key>, clients: &[KnownClient], draft: &mut Draft) {
    keys.retain_mut(|key| {
        let is_own = key
            .network
            .is_some_and(|network| clients.iter().any(|known| known.networks.contains(&network)));
        let is_name = key.network.is_none() && clients.iter().any(|known| key.is_for(known));
        if key.text.contains(['*', '?', '[']) && key.text != DEFAULT {
            let reason = "groups cannot match client names by wildcard, except those of \
                          clientLookup.clients";
            draft.note(&key.group.origin, reason);
        } else if key.text != DEFAULT && !is_own && !is_name {
            let id = draft.client_id(&key.text, &key.group.origin);
            key.group.clients.extend(id);
            return !key.group.clients.is_empty();
        }
        key.text == DEFAULT || is_own || is_name
    });
}

/// Copies the lists of networks to the groups of clients within them.
fn inherit(keys: &mut [Key]) {
    let networks: Vec<(IpNet, Vec<String>)> =
        keys.iter().filter_map(|key| Some((key.network?, key.group.lists.clone()))).collect();
    for key in keys {
        let Some(own) = key.network else { continue };
        for (_, lists) in
            networks.iter().filter(|(network, _)| *network != own && network.contains(&own))
        {
            let absent: Vec<String> =
                lists.iter().filter(|list| !key.group.lists.contains(list)).cloned().collect();
            key.group.lists.extend(absent);
        }
    }
}

/// Reports whether a name matches a pattern in which `*` is any text and `?` any character.
/// Character sets are not supported.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut in_name) = (0, 0);
    // The positions at which matching continues after the last `*`.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match (pattern.get(at), star) {
            (Some('*'), _) => {
                star = Some((at, in_name));
                at += 1;
            }
            (Some(&c), _) if c == '?' || Some(&c) == name.get(in_name) => {
                (at, in_name) = (at + 1, in_name + 1)
            }
            (_, Some((star_at, taken))) => {
                star = Some((star_at, taken + 1));
                (at, in_name) = (star_at + 1, taken + 1);
            }
            (_, None) => return false,
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("laptop*", "laptop-1", true),
            ("*top?1", "laptop-1", true),
            ("*", "", true),
            ("laptop", "laptop-1", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
