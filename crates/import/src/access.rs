//! Maps access to services: the access lists of servers that host zones and resolve names.
//!
//! Such a server decides for each zone, and for recursion, who gets answers. In Avocet, `allow`
//! names all clients, and rules refuse queries that some of them may not send.

use std::collections::{BTreeMap, HashMap};

use crate::draft::{Draft, Rule};
use crate::networks::Networks;

/// Maximum number of zones that one condition names. More zones are written to a list.
const MAX_NAMED: usize = 64;
/// Maximum number of octets of a condition.
const MAX_CONDITION: usize = 60_000;
/// Zones that the server answers without a file. They do not open the server to the Internet.
const SPECIAL: [&str; 8] = [
    "localhost",
    "localdomain",
    "0.in-addr.arpa",
    "127.in-addr.arpa",
    "255.in-addr.arpa",
    "10.in-addr.arpa",
    "168.192.in-addr.arpa",
    "ip6.arpa",
];

/// The services that clients of one view may use. Without views, a single value describes all
/// clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct ViewAccess {
    /// The clients that see the view.
    pub(crate) clients: Networks,
    /// The clients that may query any name.
    pub(crate) recursion: Networks,
    /// Hosted zones, with the clients that may query their names.
    pub(crate) zones: BTreeMap<String, Networks>,
}

/// Sets `allow`, and adds the rules.
pub(crate) fn apply(views: &[ViewAccess], origin: &str, draft: &mut Draft) {
    let union = |all: Networks, one: Networks| all.with(&one);
    let recursion = views
        .iter()
        .map(|view| view.recursion.within(&view.clients))
        .fold(Networks::default(), union);
    let mut zones: BTreeMap<&str, Networks> = BTreeMap::new();
    let names = views.iter().flat_map(|view| view.zones.keys());
    for zone in names.filter(|zone| !is_special(zone) && *zone != ".") {
        if zones.contains_key(zone.as_str()) {
            continue;
        }
        let permitted = |view: &ViewAccess| {
            view.zones.get(zone).unwrap_or(&view.recursion).within(&view.clients)
        };
        zones.insert(zone, views.iter().map(permitted).fold(Networks::default(), union));
    }
    let all = zones.values().fold(recursion.clone(), |all, one| all.with(one));
    if all.is_empty() {
        draft.note(origin, "no client may ask: `allow` has the loopback addresses");
        draft.set("server", "allow", vec!["127.0.0.0/8", "::1/128"], origin);
        return;
    }
    draft.set("server", "allow", all.allowed(), origin);
    let is_guessed = recursion.has_local() && !recursion.covers(&all)
        || zones.values().any(|one| one.has_local() && !one.covers(&all));
    if is_guessed {
        draft.note(
            origin,
            "the rules have the private networks for those of the interfaces (`localnets`): add \
             others to their conditions",
        );
    }
    refuse_zones(&zones, &all, origin, draft);
    if !recursion.covers(&all) {
        let hosted: Vec<&str> = zones.keys().copied().collect();
        refuse_recursion(&hosted, &recursion, origin, draft);
    }
}

/// Returns whether the server answers names of a zone without having a file for the zone.
fn is_special(zone: &str) -> bool {
    let is_private = |zone: &str| {
        let number =
            zone.strip_suffix(".172.in-addr.arpa").and_then(|text| text.parse::<u8>().ok());
        number.is_some_and(|number| (16..32).contains(&number))
    };
    SPECIAL.contains(&zone) || is_private(zone) || zone.ends_with(".ip6.arpa") && zone.len() > 70
}

/// Adds the rules for zones that not all clients may query. Zones for the same clients share a
/// rule.
fn refuse_zones(zones: &BTreeMap<&str, Networks>, all: &Networks, origin: &str, draft: &mut Draft) {
    let mut rules: BTreeMap<String, ClosedZones<'_>> = BTreeMap::new();
    let mut clients_of: HashMap<&str, String> = HashMap::new();
    for (zone, permitted) in zones {
        if !permitted.covers(all) {
            let clients = others(permitted);
            rules.entry(clients.clone()).or_default().names.push(zone);
            clients_of.insert(zone, clients);
        }
    }
    // A zone below a closed zone has its own list of clients.
    for zone in zones.keys() {
        let above = std::iter::successors(zone.split_once('.'), |(_, up)| up.split_once('.'));
        for (_, up) in above {
            let Some(clients) = clients_of.get(up) else { continue };
            if clients_of.get(zone) != Some(clients)
                && let Some(rule) = rules.get_mut(clients)
                && rule.below.last() != Some(zone)
            {
                rule.below.push(zone);
            }
        }
    }
    for (clients, ClosedZones { names, below }) in &rules {
        let mut when = under(names, "closed zones", origin, draft);
        if !below.is_empty() {
            let below = under(below, "zones below closed zones", origin, draft);
            when = format!("{when} && !{below}");
        }
        if !clients.is_empty() {
            when = format!("{when} && {clients}");
        }
        add(draft, Rule::block("zones for some clients", when, "refused", origin));
    }
}

/// Zones for the same clients, and the zones below them that have other clients.
#[derive(Default)]
struct ClosedZones<'z> {
    names: Vec<&'z str>,
    below: Vec<&'z str>,
}

/// Adds the rule for names outside of the hosted zones.
fn refuse_recursion(zones: &[&str], permitted: &Networks, origin: &str, draft: &mut Draft) {
    let mut parts = vec![others(permitted)];
    parts.retain(|part| !part.is_empty());
    if !zones.is_empty() {
        parts.push(format!("!{}", under(zones, "hosted zones", origin, draft)));
    }
    let when = if parts.is_empty() { "true".to_owned() } else { parts.join(" && ") };
    add(draft, Rule::block("no recursion", when, "refused", origin));
    draft.note(
        origin,
        "clients without recursion still get the targets of aliases that lead out of hosted zones, \
         and names below delegations of these",
    );
}

fn add(draft: &mut Draft, rule: Rule) {
    if rule.when.len() > MAX_CONDITION {
        draft.note(&rule.origin, "too many networks for a condition: nobody is refused by a rule");
        draft.set("server", "allow", vec!["local"], "too many networks for a condition");
        return;
    }
    draft.rule(rule);
}

/// Returns the condition that a name is in one of the zones.
fn under(zones: &[&str], list: &str, origin: &str, draft: &mut Draft) -> String {
    let quoted: Vec<String> = zones.iter().map(|zone| format!("qname.under({zone:?})")).collect();
    if zones.len() <= MAX_NAMED {
        return format!("({})", quoted.join(" || "));
    }
    let lines: Vec<String> = zones.iter().map(|zone| format!("||{zone}^")).collect();
    format!("list({:?})", draft.condition_list(list, &lines, origin))
}

/// Returns the condition that a client is in none of the permitted networks, or an empty text if
/// all clients are permitted.
fn others(permitted: &Networks) -> String {
    let (few, rest) = (permitted.texts(), Networks::any().without(permitted));
    match rest.map(|rest| rest.texts()) {
        _ if few.is_empty() => String::new(),
        Some(rest) if rest.len() < few.len() => client_in(&rest),
        _ => format!("!{}", client_in(&few)),
    }
}

fn client_in(networks: &[String]) -> String {
    let quoted: Vec<String> = networks.iter().map(|net| format!("{net:?}")).collect();
    format!("client.ip.in({})", quoted.join(", "))
}
