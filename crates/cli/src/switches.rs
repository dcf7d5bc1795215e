//! The texts of `avocet pause`, `avocet grant` and `avocet policy status`.

use avocet_control::policy::{
    GeoFile, GrantInForce, ListCount, PauseInForce, PolicyStatus, RuleCount, SwitchesChanged,
    SwitchesInForce,
};
use avocet_policy::rule::Scope;

use crate::call::Done;
use crate::span::{ago, span};

/// Returns the text of `avocet policy status`.
pub(crate) fn text(status: &PolicyStatus) -> String {
    let mut lines = in_force(&status.switches);
    if let Some(counts) = &status.counts {
        lines.extend(counts.rules.iter().map(rule_text));
        lines.extend(counts.lists.iter().map(list_text));
        let database = counts.geo_database.as_ref();
        lines.extend(database.map(|database| geo_text(&database.file, database.error.as_ref())));
    }
    lines.join("\n")
}

/// Returns the text of `avocet pause` and `avocet grant`.
pub(crate) fn changed_text(reply: &SwitchesChanged) -> String {
    in_force(&reply.switches).join("\n")
}

/// Classifies a change of pauses and grants by whether it is saved.
pub(crate) fn done(reply: &SwitchesChanged) -> Done {
    Done::of_change(reply.unsaved.as_ref())
}

fn in_force(switches: &SwitchesInForce) -> Vec<String> {
    let pauses = switches.pauses.iter().map(pause_text);
    let lines: Vec<String> = pauses.chain(switches.grants.iter().map(grant_text)).collect();
    if lines.is_empty() { vec!["no pauses or grants".to_owned()] } else { lines }
}

fn pause_text(pause: &PauseInForce) -> String {
    format!("paused for {}, {} left", scope_text(&pause.scope), span(pause.left_secs))
}

fn grant_text(grant: &GrantInForce) -> String {
    let left = span(grant.left_secs);
    format!("{} is allowed for {}, {left} left", grant.name, scope_text(&grant.scope))
}

fn scope_text(scope: &Scope) -> String {
    match scope {
        Scope::All => "all clients".to_owned(),
        Scope::Group(name) => format!("group {name}"),
        Scope::Client(name) => format!("client {name}"),
        Scope::Address(ip) => format!("address {ip}"),
    }
}

fn rule_text(rule: &RuleCount) -> String {
    let mode = if rule.log_only { ", log only" } else { "" };
    format!("rule {} ({}{mode}): {} matches", rule.name, rule.action, rule.held)
}

fn list_text(list: &ListCount) -> String {
    format!("list {}: {} responses", list.name, list.answers)
}

/// Returns the geo database in one line, and the problem with its file in another.
pub(crate) fn geo_text(file: &GeoFile, error: Option<&String>) -> String {
    let mut line = format!(
        "geo database {}: {}, built {}, {} nodes, {} countries, {} octets in memory",
        file.file,
        file.database_type,
        ago(Some(file.built_at)),
        file.nodes,
        file.countries,
        file.octets
    );
    if let Some(error) = error {
        line += &format!("\n  the current file cannot be used: {error}");
    }
    line
}
