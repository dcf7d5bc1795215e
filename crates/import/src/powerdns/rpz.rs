//! Policy zones of the Recursor, and the default policy that overrides the actions of such a zone.

use crate::draft::{Draft, List, Place, Purpose, Rule, Trust};

/// Options that do not affect answers.
const QUIET: [&str; 3] = ["policyname", "zonesizehint", "dumpfile"];

/// Adds the policy zone in `file`. Its options are `KEY=VALUE`, separated by commas or semicolons.
pub(super) fn add(name: &str, file: &str, options: &str, origin: &str, draft: &mut Draft) {
    let Some(at) = Place::parse(file) else {
        let reason = "neither an absolute path nor a URL: for a zone from a server, set \
                      `primaries` of a `[[list]]`";
        return draft.note(origin, reason);
    };
    let mut policy = String::new();
    for option in options.split([',', ';']) {
        let option = option.trim_matches(|c: char| c.is_whitespace() || "{})".contains(c));
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match key.trim().to_ascii_lowercase().as_str() {
            "" => {}
            "defpol" => {
                let value = value.trim().trim_matches(['"', '\'']);
                policy = value.strip_prefix("Policy.").unwrap_or(value).to_ascii_lowercase();
            }
            key if QUIET.contains(&key) => draft.quiet(format!("rpzFile: {key}")),
            key => draft.note(format!("{origin}: {key}"), "no equivalent for a policy zone"),
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
    let list = draft.list(&wanted, List { purpose, trust: Trust::Verdicts, ..list });
    draft.rule(rule(&list, format!("list({list:?})"), origin));
    if policy != "noaction" {
        draft.note(
            format!("{origin}: defpol = {policy}"),
            "converted to a rule; names that the zone excepts (rpz-passthru) remain excepted",
        );
    }
}
