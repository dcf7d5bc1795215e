//! Names that are answered from local records or not at all: rules that deny the others.
//!
//! A rule on the question counts before local records, so it has to except the names that have some.

use crate::draft::{Draft, Rule};
use crate::name;

/// Most octets of an expression that is made here; the language of rules takes twice that.
const MAX_EXPRESSION: usize = 32_768;

/// Adds the rules, when all records and forwarding rules are known.
pub(crate) fn rules(draft: &mut Draft) {
    for (zone, origin) in std::mem::take(&mut draft.local_zones) {
        // Servers for the very zone count; the source may say both.
        if !draft.forwards.contains_key(&zone) {
            let base = format!("qname.under(\"{zone}\")");
            let is_excepted = |name: &str| name::is_under(name, &zone);
            let excepted = excepted(draft, is_excepted);
            deny(draft, &format!("local {zone}"), &base, excepted, origin);
        }
    }
    if let Some(origin) = draft.needs_dot.take() {
        let base = "qname.levels() == 1 && qtype in [\"A\", \"AAAA\"]";
        let excepted = excepted(draft, |name| !name.contains('.') && name != ".");
        deny(draft, "domain needed", base, excepted, origin);
    }
}

/// What is to be excepted of names with records or servers of their own.
fn excepted(draft: &Draft, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut owners: Vec<&str> = draft.records.keys().map(|(owner, _)| owner.as_str()).collect();
    owners.dedup();
    let (wildcards, owners): (Vec<&str>, Vec<&str>) =
        owners.into_iter().filter(|owner| is_wanted(owner)).partition(|owner| owner.starts_with("*."));
    let wildcards = wildcards.iter().map(|owner| owner.trim_start_matches("*."));
    let zones = draft.forwards.keys().map(String::as_str).filter(|zone| is_wanted(zone));
    let mut tests: Vec<String> = wildcards.chain(zones).map(|name| format!("qname.under(\"{name}\")")).collect();
    if !owners.is_empty() {
        let names: Vec<String> = owners.iter().map(|owner| format!("\"{owner}\"")).collect();
        tests.push(format!("qname in [{}]", names.join(", ")));
    }
    tests
}

fn deny(draft: &mut Draft, name: &str, base: &str, excepted: Vec<String>, origin: String) {
    let but = if excepted.is_empty() { String::new() } else { format!(" && !({})", excepted.join(" || ")) };
    let when = format!("{base}{but}");
    if when.len() > MAX_EXPRESSION {
        return draft.note(origin, "it has too many names here for a rule; the others are asked for upstream");
    }
    draft.rule(Rule::block(name, when, "nxdomain", &origin));
}
