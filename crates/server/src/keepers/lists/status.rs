//! The status of lists, for commands and metrics.

use std::path::Path;

use avocet_config::policy::{ListConfig, ListKind, ListSource};
use avocet_nameserver::policy::load::{Compiled, shown_triggers};
use avocet_nameserver::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::lists::store::{check as check_copy, digest, source_text};
use crate::running::Running;

/// The compiled list in force.
pub(crate) fn compiled<'s>(state: &'s Snapshot, name: &str) -> Option<&'s Compiled> {
    state.parts.lists.as_ref()?.making().lists.iter().find(|list| list.name == name)
}

/// The image in force; null if there is none.
pub(crate) fn image(state: &Snapshot) -> Value {
    let Some(lists) = &state.parts.lists else { return Value::Null };
    json!({
        "digest": digest(lists),
        "octets": lists.octets(),
        "names": lists.names(),
        "patterns": lists.patterns(),
        "made-at": lists.making().at_secs,
        "made-in-ms": lists.making().millis,
    })
}

/// All lists and the image.
pub(crate) fn of_all(running: &Running) -> Value {
    let state = running.shared.snapshot();
    let lists: Vec<Value> =
        state.config.policy.lists.iter().map(|list| of_one(running, &state, list)).collect();
    json!({ "done": true, "lists": lists, "image": image(&state) })
}

fn of_one(running: &Running, state: &Snapshot, list: &ListConfig) -> Value {
    let source = running.lists.sources().get(&list.name).cloned().unwrap_or_default();
    let compiled = compiled(state, &list.name).filter(|compiled| compiled.stamp.is_some());
    json!({
        "name": list.name,
        "kind": match list.kind { ListKind::Block => "block", ListKind::Allow => "allow" },
        "source": source_text(list),
        "tags": list.tags,
        "in-force": compiled.is_some(),
        "format": compiled.map(|compiled| &compiled.format),
        "entries": compiled.map_or(0, |compiled| compiled.entries),
        "broken-lines": compiled.map_or(0, |compiled| compiled.faults),
        "skipped-lines": compiled.map_or(0, |compiled| compiled.skipped),
        "beyond-limits": compiled.map_or(0, |compiled| compiled.beyond_limits),
        "triggers": shown_triggers(compiled.and_then(|compiled| compiled.triggers), state.config.resolver.mode),
        "octets": source.octets,
        "fetched-at": some_time(source.fetched_at_secs),
        "succeeded-at": some_time(source.succeeded_at_secs),
        "next-at": some_time(source.due_at_secs).filter(|_| matches!(list.source, ListSource::Url(_))),
        "failures-in-row": source.failures_in_row,
        "error": source.error,
    })
}

fn some_time(secs: u64) -> Option<u64> {
    Some(secs).filter(|secs| *secs > 0)
}

/// The errors in the last good copy of a list.
pub(crate) fn check(running: &Running, name: &str) -> Value {
    let state = running.shared.snapshot();
    let Some(list) = state.config.policy.lists.iter().find(|list| list.name == name) else {
        return json!({ "error": format!("unknown list {name:?}") });
    };
    let directory: &Path = &state.config.data.directory;
    let report = match check_copy(directory, list) {
        Ok(Some(report)) => report,
        Ok(None) => {
            return json!({ "error": format!("{name:?} has not been fetched yet; see `avocet lists status`") });
        }
        Err(error) => {
            return json!({ "error": format!("the copy of {name:?} cannot be used: {error}") });
        }
    };
    let faults = report
        .first_faults
        .iter()
        .map(|fault| json!({ "line": fault.line, "reason": fault.reason.to_string() }));
    let passed_over = report
        .first_passed_over
        .iter()
        .map(|line| json!({ "line": line.line, "text": line.text, "reason": line.why }));
    json!({
        "done": true,
        "name": name,
        "format": report.format.name(),
        "lines": report.lines,
        "entries": report.entries,
        "skipped-lines": report.skipped,
        "passed-over-lines": report.passed_over,
        "first-passed-over-lines": passed_over.collect::<Vec<_>>(),
        "beyond-limits": compiled(&state, name).map_or(0, |compiled| compiled.beyond_limits),
        "triggers": shown_triggers(report.triggers, state.config.resolver.mode),
        "broken-lines": report.faults,
        "first-broken-lines": faults.collect::<Vec<_>>(),
    })
}
