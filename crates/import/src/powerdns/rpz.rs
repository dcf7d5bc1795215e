//! Policy zones of the Recursor, and the default policy that overrides the actions of such a zone.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Map, Value};

use crate::draft::{Draft, List, Place, Purpose, Rule, Trust};
use crate::hosted::{self, SharedKey, zone_name};
use crate::section::shown;

/// Options that do not affect answers.
const QUIET: [&str; 10] = [
    "axfrtimeout",
    "dumpfile",
    "ignoreduplicates",
    "includesoa",
    "maxreceivedmbytes",
    "overridesgettag",
    "policyname",
    "refresh",
    "seedfile",
    "zonesizehint",
];

/// A policy zone of `recursor.yml`.
pub(super) struct PolicyZone {
    /// Where the zone is configured: the file, and the path of its key in it.
    pub(super) place: String,
    pub(super) keys: Map<String, Value>,
}

impl PolicyZone {
    /// Adds the zone: with `addresses` from its servers, and otherwise from a file.
    pub(super) fn add(mut self, draft: &mut Draft) {
        let written = ["zone", "name"].into_iter().find_map(|key| self.keys.remove(key));
        let file = self.keys.remove("file").as_ref().and_then(shown);
        let Some(name) = written.as_ref().and_then(shown).or(file.clone()) else {
            return draft.note(self.place, "a policy zone has a name");
        };
        let origin = format!("{}: {name}", self.place);
        let (tsig, addresses) = (self.keys.remove("tsig"), self.keys.remove("addresses"));
        let addresses: Vec<String> = match &addresses {
            Some(Value::Array(items)) => items.iter().filter_map(shown).collect(),
            Some(other) => shown(other).into_iter().collect(),
            None => Vec::new(),
        };
        let place = match addresses.is_empty() {
            true => Place::parse(file.as_ref().unwrap_or(&name)),
            false => match primaries(&name, &addresses, tsig.as_ref(), &origin, draft) {
                Some(place) => Some(place),
                None => return,
            },
        };
        let option = |(key, value): (&String, &Value)| {
            (key.replace('_', ""), shown(value).unwrap_or_default())
        };
        add(&name, place, self.keys.iter().map(option), &origin, draft);
    }
}

/// Returns the servers of a policy zone, or `None` with a note if it cannot be transferred.
fn primaries(
    name: &str,
    addresses: &[String],
    tsig: Option<&Value>,
    origin: &str,
    draft: &mut Draft,
) -> Option<Place> {
    let Some(zone) = zone_name(name) else {
        draft.note(origin, "it is no zone");
        return None;
    };
    let key = match tsig.filter(|tsig| tsig.get("name").and_then(shown).is_some()) {
        Some(tsig) => Some(key(tsig, origin, draft)?),
        None => None,
    };
    let mut servers = Vec::new();
    for address in addresses {
        match (address.parse::<IpAddr>().is_ok() || address.parse::<SocketAddr>().is_ok(), &key) {
            (true, Some(key)) => servers.push(format!("{address} key {key}")),
            (true, None) => servers.push(address.clone()),
            (false, _) => draft.note(
                format!("{origin}: {address}"),
                "servers of a policy zone are specified by address",
            ),
        }
    }
    if servers.is_empty() {
        draft.note(origin, "a policy zone without the address of a primary");
        return None;
    }
    Some(Place::Primaries(zone, servers))
}

/// Adds the key of a policy zone, unless another zone has it, and returns its name.
fn key(tsig: &Value, origin: &str, draft: &mut Draft) -> Option<String> {
    let text = |key: &str| tsig.get(key).and_then(shown).unwrap_or_default();
    let (name, secret) = (zone_name(&text("name")), text("secret"));
    let algorithm = hosted::algorithm(&text("algo"));
    match (name, algorithm) {
        (Some(name), Some(algorithm)) if hosted::is_secret(&secret) => {
            if !draft.hosted.has("key", &name) {
                draft.key(&SharedKey { name: &name, algorithm, secret: &secret }, origin);
            }
            Some(name)
        }
        _ => {
            let reason = "its algorithm or its secret is not supported: the zone is left out";
            draft.note(format!("{origin}: tsig"), reason);
            None
        }
    }
}

/// Returns the options in a table of Lua: `KEY=VALUE`, separated by commas.
pub(super) fn lua_options(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split(',').filter_map(|option| {
        let option = option.trim_matches(|c: char| c.is_whitespace() || "{})".contains(c));
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let value = value.trim().trim_matches(['"', '\'']);
        (!key.is_empty()).then(|| (key.trim().to_owned(), value.to_owned()))
    })
}

/// Adds a policy zone with its options.
pub(super) fn add(
    name: &str,
    place: Option<Place>,
    options: impl Iterator<Item = (String, String)>,
    origin: &str,
    draft: &mut Draft,
) {
    let Some(at) = place else {
        let reason = "neither an absolute path nor a URL: for a zone from a server, set \
                      `primaries` of a `[[list]]`";
        return draft.note(origin, reason);
    };
    let mut policy = String::new();
    for (key, value) in options {
        match key.to_ascii_lowercase().as_str() {
            "defpol" => {
                policy = value.strip_prefix("Policy.").unwrap_or(&value).to_ascii_lowercase();
            }
            key if QUIET.contains(&key) => draft.quiet(format!("policy zones: {key}")),
            _ => draft.note(format!("{origin}: {key}"), "no equivalent for a policy zone"),
        }
    }
    let wanted = Place::parse(name).map_or(name.to_owned(), |place| place.short().to_owned());
    let list = List { format: "rpz", trust: Trust::Answers, ..List::at(at, origin) };
    let rule: fn(&str, String, &str) -> Rule = match policy.as_str() {
        "noaction" => {
            |name, when, origin| Rule::block(name, when, "", origin).with("log-only", true)
        }
        "nxdomain" => |name, when, origin| Rule::block(name, when, "nxdomain", origin),
        "nodata" => |name, when, origin| Rule::block(name, when, "nodata", origin),
        "drop" => |name, when, origin| Rule::doing("drop", name, when, origin),
        "truncate" => |name, when, origin| Rule::doing("truncate", name, when, origin),
        other => {
            if !other.is_empty() {
                draft.note(format!("{origin}: defpol = {other}"), "the actions of the zone apply");
            }
            draft.list(&wanted, list);
            return;
        }
    };
    let purpose = Purpose::Conditions;
    // A zone before this one decides first about the names on which it acts.
    let earlier = draft.acting_zones();
    let list = draft.list(&wanted, List { purpose, trust: Trust::Verdicts, ..list });
    let when = std::iter::once(format!("list({list:?})"));
    let when = when.chain(earlier.iter().map(|earlier| format!("!list({earlier:?})")));
    draft.rule(rule(&list, when.collect::<Vec<_>>().join(" && "), origin));
    let what = format!("{origin}: defpol = {policy}");
    if policy != "noaction" {
        draft.note(
            &what,
            "converted to a rule; names that the zone excepts (rpz-passthru) remain excepted",
        );
    }
    let others = "the rule applies to the names of the zone: its triggers on addresses and on name \
                  servers have no effect";
    draft.note(&what, others);
    if !earlier.is_empty() && policy != "noaction" {
        let reason = "the rule comes before the zones above: what they except (rpz-passthru), or \
                      decide by address or name server, is not excepted from it";
        draft.note(what, reason);
    }
}
