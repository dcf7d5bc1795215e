//! Names that are never forwarded: names in local zones, and names without a dot.
//!
//! A rule on the question precedes local records, so it must exclude the names that have records.

use avocet_policy::rule::MAX_EXPRESSION;

use crate::draft::{Draft, Forward, Rule};
use crate::server::Server;

/// Writes the local zones and adds the rule for names without a dot. All records and forwarding
/// rules must be known already.
pub(crate) fn apply(draft: &mut Draft) {
    let zones = std::mem::take(&mut draft.local_zones);
    // If the source has servers for exactly this zone, they take precedence.
    let zones: Vec<(String, String)> =
        zones.into_iter().filter(|(zone, _)| !draft.forwards.contains_key(zone)).collect();
    if !zones.is_empty() {
        let origins: Vec<&str> = zones.iter().map(|(_, origin)| origin.as_str()).collect();
        let origin = origins.join(", ");
        draft.set(
            "server",
            "local-zones",
            zones.iter().map(|(zone, _)| zone.clone()).collect::<Vec<_>>(),
            &origin,
        );
    }
    // Servers for names without a dot take precedence over blocking them.
    let needs_dot = draft.needs_dot.take();
    if let Some(Forward { origin, servers, .. }) = draft.dotless.take() {
        let to: Vec<String> = servers.iter().map(Server::of_rule).collect();
        let rule =
            |when| Rule::doing("forward", "names without a dot", when, &origin).with("to", to);
        dotless(draft, rule, &origin);
    } else if let Some(origin) = needs_dot {
        dotless(draft, |when| Rule::block("domain needed", when, "nxdomain", &origin), &origin);
    }
}

/// Adds a rule for address queries of names without a dot, except for those with their own records
/// or servers, and for `localhost`, which the server answers itself (RFC 6761 §6.3).
fn dotless(draft: &mut Draft, rule: impl FnOnce(String) -> Rule, origin: &str) {
    let excepted = excepted(draft, |name| !name.contains('.') && name != ".");
    let but = excepted.join(" || ");
    let when = format!("qname.levels() == 1 && qtype in [\"A\", \"AAAA\"] && !({but})");
    if when.len() > MAX_EXPRESSION {
        return draft.note(origin, "too many names for a rule; the others are forwarded");
    }
    draft.rule(rule(when));
}

/// Returns the conditions that exclude `localhost`, and names with their own records or servers.
fn excepted(draft: &Draft, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let owners = draft.records.owners();
    let (wildcards, owners): (Vec<&str>, Vec<&str>) = owners
        .into_iter()
        .filter(|owner| is_wanted(owner))
        .partition(|owner| owner.starts_with("*."));
    let wildcards = wildcards.iter().map(|owner| owner.trim_start_matches("*."));
    let zones = draft.forwards.keys().map(String::as_str).filter(|zone| is_wanted(zone));
    let mut tests: Vec<String> =
        wildcards.chain(zones).map(|name| format!("qname.under(\"{name}\")")).collect();
    let others = owners.into_iter().filter(|owner| *owner != "localhost");
    let names: Vec<String> =
        std::iter::once("localhost").chain(others).map(|owner| format!("\"{owner}\"")).collect();
    tests.push(format!("qname in [{}]", names.join(", ")));
    tests
}
