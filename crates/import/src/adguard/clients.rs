//! Clients of AdGuard Home, blocked services with their schedules, and safe search.
//!
//! Each client with its own settings gets a group for them; all others are in `default`. Tags
//! become groups without lists: lists can refer to them, and nothing else changes. Clients and tags
//! keep their names, because `$client` and `$ctag` refer to them in the user's rules and in fetched
//! lists.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::draft::{Client, Draft, Group, Rule};
use crate::name::{self, AssignedNames};
use crate::section::{Section, millis};

use super::LOOKED_UP;
use super::exceptions::Exceptions;

/// Services with another name in Avocet.
const SERVICES: &[(&str, &str)] = &[("disneyplus", "disney-plus"), ("twitter", "x")];
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY_MINUTES: u64 = 24 * 60;

/// The settings of all clients that have none of their own.
pub(super) struct Defaults {
    lists: Vec<String>,
    safe_search: bool,
    services: Services,
}

impl Defaults {
    /// Reads `blocked_services` and `safe_search`. All lists must be known already.
    pub(super) fn read(filtering: &mut Section, dns: &mut Section, draft: &mut Draft) -> Self {
        let mut services = Services::read(filtering, "filtering.blocked_services", draft);
        services.ids.extend(known(dns.texts("blocked_services"), "dns.blocked_services", draft));
        let safe_search = safe_search(filtering, "filtering.safe_search", draft)
            || dns.flag("safesearch_enabled");
        Self { lists: draft.lists_for_groups(), safe_search, services }
    }
}

/// Names of groups and clients in use.
#[derive(Default)]
struct Taken {
    clients: AssignedNames,
    groups: AssignedNames,
}

/// Reads `clients`.
pub(super) fn read(
    root: &mut Section,
    defaults: &Defaults,
    exceptions: &mut Exceptions,
    draft: &mut Draft,
) {
    let mut taken = Taken::default();
    taken.groups.unique("default".to_owned());
    let origin = "all clients without settings of their own".to_owned();
    let group = Group {
        name: "default".to_owned(),
        origin,
        lists: defaults.lists.clone(),
        ..Group::default()
    };
    let restrictions =
        Restrictions { safe_search: defaults.safe_search, services: &defaults.services };
    add_group(group, &restrictions, exceptions, draft);
    let mut section = root.section("clients");
    let clients: Vec<Persistent> = section
        .sections("persistent")
        .into_iter()
        .map(|client| Persistent::read(client, draft))
        .collect();
    let tags: BTreeSet<&String> = clients.iter().flat_map(|client| &client.tags).collect();
    // Reserves the names of tags first, so that generated names of groups differ from them.
    tags.iter().for_each(|tag| drop(taken.groups.unique((*tag).clone())));
    let tags: Vec<Group> = tags.iter().map(|tag| tag_group(tag)).collect();
    for client in clients {
        persistent(client, defaults, (&mut taken, exceptions), draft);
    }
    draft.groups.extend(tags);
    section.quiet(&["runtime_sources"], draft);
    section.leave(&[], draft);
}

fn tag_group(tag: &str) -> Group {
    Group { name: tag.to_owned(), origin: format!("the tag {tag}"), ..Group::default() }
}

/// A client of the file, with its name and its tags removed.
struct Persistent {
    section: Section,
    title: String,
    origin: String,
    tags: Vec<String>,
}

impl Persistent {
    fn read(mut section: Section, draft: &mut Draft) -> Self {
        let title = section.text("name").unwrap_or_default();
        let origin = format!("clients.persistent: {title}");
        let (tags, wrong): (Vec<String>, Vec<String>) = section
            .texts("tags")
            .into_iter()
            .partition(|tag| name::is_title(tag) && tag != "default");
        for tag in wrong {
            draft.note(format!("{origin}: tags: {tag}"), "it cannot be the name of a group");
        }
        Self { section, title, origin, tags }
    }
}

fn persistent(
    client: Persistent,
    defaults: &Defaults,
    known: (&mut Taken, &mut Exceptions),
    draft: &mut Draft,
) {
    let Persistent { section: mut client, title, origin, tags } = client;
    let (taken, exceptions) = known;
    let written = client.texts("ids");
    let (written, client_ids): (Vec<String>, Vec<String>) =
        written.into_iter().partition(|id| is_address(id));
    let mut ids: Vec<String> =
        written.iter().filter_map(|id| draft.client_id(id, &origin)).collect();
    ids.extend(client_ids.iter().filter_map(|id| draft.device_word(id, &origin)));
    if ids.is_empty() {
        return draft.note(origin, "no identifier is left");
    }
    let mut name =
        if name::is_title(&title) { taken.clients.unique(title.clone()) } else { String::new() };
    if name != title || name.is_empty() {
        name = taken.clients.unique(name::slug(&title, "client"));
        draft.note(&origin, format!("renamed to {name}; rules with $client must use this name"));
    }
    let group =
        Group { name: name::slug(&title, "client"), origin: origin.clone(), ..Group::default() };
    let mut groups = vec![own_group(&mut client, group, defaults, (taken, exceptions), draft)];
    groups.extend(tags);
    for server in client.texts("upstreams") {
        draft.note(
            format!("{origin}: upstreams: {server}"),
            "servers for some clients only are not supported",
        );
    }
    client.quiet(&["uid", "upstreams_cache_enabled", "upstreams_cache_size"], draft);
    let logs = "query logging is set for all clients";
    let reasons = [
        ("safebrowsing_enabled", LOOKED_UP),
        ("parental_enabled", LOOKED_UP),
        ("ignore_querylog", logs),
        ("ignore_statistics", logs),
    ];
    client.leave(&reasons, draft);
    draft.clients.push(Client { name, origin, ids, groups });
}

/// Reports whether the text is an address, a network or a MAC address. Anything else is a ClientID.
fn is_address(id: &str) -> bool {
    let id = id.trim();
    let is_network = id.parse::<std::net::IpAddr>().is_ok() || id.parse::<ipnet::IpNet>().is_ok();
    let is_octet = |part: &str| part.len() == 2 && u8::from_str_radix(part, 16).is_ok();
    is_network
        || id.contains([':', '-'])
            && id.split([':', '-']).count() == 6
            && id.split([':', '-']).all(is_octet)
}

/// Returns the name of the group with the settings of a client. Creates a group based on `group` if
/// the settings differ from the defaults.
fn own_group(
    client: &mut Section,
    mut group: Group,
    defaults: &Defaults,
    known: (&mut Taken, &mut Exceptions),
    draft: &mut Draft,
) -> String {
    let (taken, exceptions) = known;
    let uses_global = client.flag("use_global_settings");
    let uses_global_services = client.flag("use_global_blocked_services");
    let is_filtered = uses_global || client.flag("filtering_enabled");
    client.skip(&["filtering_enabled"]);
    let own_safe_search =
        safe_search(client, &group.origin, draft) || client.flag("safesearch_enabled");
    let own_services = Services::read(client, &group.origin, draft);
    if uses_global && uses_global_services {
        return "default".to_owned();
    }
    if is_filtered {
        group.lists.clone_from(&defaults.lists);
    } else if exceptions.has_rewrites() {
        draft.note(
            format!("{}: filtering_enabled = false", group.origin),
            "rewrites still apply to it",
        );
    }
    group.name = taken.groups.unique(group.name);
    let name = group.name.clone();
    let services = if uses_global_services { &defaults.services } else { &own_services };
    let safe_search = if uses_global { defaults.safe_search } else { own_safe_search };
    add_group(group, &Restrictions { safe_search, services }, exceptions, draft);
    name
}

/// The settings of a group that are not lists.
struct Restrictions<'s> {
    safe_search: bool,
    services: &'s Services,
}

/// Adds a group, and rules for the settings that are not lists. Blocked services precede safe
/// search.
fn add_group(
    group: Group,
    restrictions: &Restrictions<'_>,
    exceptions: &mut Exceptions,
    draft: &mut Draft,
) {
    let Restrictions { safe_search, services } = *restrictions;
    if safe_search || !services.ids.is_empty() {
        let subject = format!("client.group(\"{}\")", group.name);
        // A client without filtering needs no exceptions.
        let but = if group.lists.is_empty() { String::new() } else { exceptions.but(draft) };
        services.block((&subject, &but), &group, draft);
        if safe_search {
            let name = format!("safe search {}", group.name);
            draft.rule(Rule::doing("safe-search", &name, format!("{subject}{but}"), &group.origin));
        }
    }
    draft.groups.push(group);
}

/// Returns whether safe search is enabled. Avocet cannot exclude single search engines.
fn safe_search(owner: &mut Section, origin: &str, draft: &mut Draft) -> bool {
    let mut section = owner.section("safe_search");
    let is_on = section.flag("enabled");
    for (engine, value) in section.drain() {
        if is_on && value == Value::Bool(false) {
            draft.note(
                format!("{origin}: {engine} is left out"),
                "safe search covers all engines or none",
            );
        }
    }
    is_on
}

/// Blocked services, and the times at which they are allowed.
struct Services {
    ids: Vec<String>,
    pause: Option<Pause>,
}

impl Services {
    fn read(owner: &mut Section, origin: &str, draft: &mut Draft) -> Self {
        let mut section = owner.section("blocked_services");
        let ids = known(section.texts("ids"), origin, draft);
        Self { ids, pause: Pause::read(section.section("schedule")) }
    }

    /// Adds the rule that blocks the services for some clients.
    fn block(&self, (subject, but): (&str, &str), group: &Group, draft: &mut Draft) {
        if self.ids.is_empty() {
            return;
        }
        let ids: Vec<String> = self.ids.iter().map(|id| format!("\"{id}\"")).collect();
        let when = format!("{subject} && service({}){but}", ids.join(", "));
        let name = format!("services {}", group.name);
        let rule = match &self.pause {
            None => Rule::block(&name, when, "", &group.origin),
            Some(pause) => {
                let when = format!("{when} && !({})", pause.times.join(" || "));
                let rule = Rule::block(&name, when, "", &group.origin);
                if draft.has_time_zone(&pause.zone) {
                    rule.with("time-zone", pause.zone.as_str())
                } else {
                    let reason = "set `time-zone` of [policy] to that of the machine; the default \
                                  is UTC";
                    draft.note(format!("{}: time_zone = {}", group.origin, pause.zone), reason);
                    rule
                }
            }
        };
        draft.rule(rule);
    }
}

/// Returns the known services under their Avocet names.
fn known(ids: Vec<String>, origin: &str, draft: &mut Draft) -> Vec<String> {
    let renamed = |id: String| match SERVICES.iter().find(|(theirs, _)| *theirs == id) {
        Some((_, ours)) => (*ours).to_owned(),
        None => id.replace('_', "-"),
    };
    draft.services(ids.into_iter().map(renamed).collect(), origin)
}

/// The times at which services are permitted.
struct Pause {
    zone: String,
    /// Conditions for the times. At least one of them must be true.
    times: Vec<String>,
}

impl Pause {
    /// Reads a schedule: a time zone, and for each day `start` and `end` as offsets from midnight.
    fn read(mut schedule: Section) -> Option<Self> {
        let zone = schedule.text("time_zone").unwrap_or_else(|| "Local".to_owned());
        let mut times = Vec::new();
        for day in DAYS {
            let mut range = schedule.section(day);
            let mut minute = |key: &str| Some(millis(&range.text(key)?)? / 60_000);
            let (Some(start), Some(end)) = (minute("start").or(Some(0)), minute("end")) else {
                continue;
            };
            if start >= end || end > DAY_MINUTES {
                continue;
            }
            let clock = |minute: u64| format!("\"{:02}:{:02}\"", minute / 60, minute % 60);
            let between = match (start, end) {
                (0, DAY_MINUTES) => String::new(),
                _ => format!(" && now.between({}, {})", clock(start), clock(end)),
            };
            times.push(format!("(now.weekday in [\"{day}\"]{between})"));
        }
        (!times.is_empty()).then_some(Self { zone, times })
    }
}
