//! The state of lists, for the commands and for metrics.

use std::path::Path;
use std::sync::PoisonError;

use avocet_config::policy::{ListConfig, ListKind};
use avocet_config::recurse::Mode;
use avocet_control::ControlError;
use avocet_control::lists::{
    BrokenLine, ImageStatus, ListPurpose, ListReport, ListStatus, ListsReport, PassedOverLine,
    TriggerCounts,
};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::policy::load::{Compiled, idle_triggers};
use avocet_nameserver::snapshot::Snapshot;
use avocet_policy::list::Format;
use avocet_policy::rpz::TriggerKind;

use crate::lists::store::{check as check_copy, digest, source_text};
use crate::query_log::list_shares::ListShares;
use crate::running::Running;
use crate::running::conditions::Condition;

/// Returns the compiled list in force.
pub(crate) fn compiled<'s>(state: &'s Snapshot, name: &str) -> Option<&'s Compiled> {
    state.parts.lists.as_ref()?.making().lists.iter().find(|list| list.name == name)
}

/// Returns the state of the compiled lists in force (the image).
pub(crate) fn image(state: &Snapshot) -> Option<ImageStatus> {
    let lists = state.parts.lists.as_ref()?;
    Some(ImageStatus {
        digest: digest(lists),
        octets: lists.octets(),
        names: lists.names(),
        patterns: lists.patterns(),
        made_at: lists.making().at_secs,
        made_in_ms: lists.making().millis,
    })
}

/// Returns the state of all lists and of their compiled form (the image).
pub(crate) fn of_all(running: &Running) -> ListsReport {
    let state = running.shared.snapshot();
    let shares = running.query_log.written().and_then(|log| {
        let rollups = log.rollups.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ListShares::of(&rollups, wall_secs())
    });
    let lists = state.config.policy.lists.iter().map(|list| {
        let share = shares.as_ref().map(|shares| shares.of_list(&list.name));
        ListStatus { share, ..of_one(running, &state, list) }
    });
    ListsReport { lists: lists.collect(), image: image(&state) }
}

fn of_one(running: &Running, state: &Snapshot, list: &ListConfig) -> ListStatus {
    let source = running.lists.sources().get(&list.name).cloned().unwrap_or_default();
    let compiled = compiled(state, &list.name).filter(|compiled| compiled.stamp.is_some());
    let is_fetched = list.source.is_fetched();
    let triggers = compiled.and_then(|compiled| compiled.triggers);
    // The text of a list is good, but the list is not in force.
    let refusal = || {
        let is_refused = compiled.is_none() && source.fetched_at_secs > 0;
        is_refused.then(|| running.conditions.text(Condition::Lists)).flatten()
    };
    let error = source.error.clone().or_else(refusal);
    ListStatus {
        name: list.name.clone(),
        kind: match list.kind {
            ListKind::Block => ListPurpose::Block,
            ListKind::Allow => ListPurpose::Allow,
        },
        source: source_text(list),
        tags: list.tags.clone(),
        in_force: compiled.is_some(),
        format: compiled.and_then(|compiled| Format::from_name(&compiled.format)),
        entries: compiled.map_or(0, |compiled| compiled.entries),
        broken_lines: compiled.map_or(0, |compiled| compiled.faults),
        skipped_lines: compiled.map_or(0, |compiled| compiled.skipped),
        beyond_limits: compiled.map_or(0, |compiled| compiled.beyond_limits),
        triggers: triggers.map(|counts| trigger_counts(counts, state.config.resolver.mode)),
        octets: source.octets,
        fetched_at: some_time(source.fetched_at_secs),
        succeeded_at: some_time(source.succeeded_at_secs),
        next_at: some_time(source.due_at_secs).filter(|_| is_fetched),
        failures_in_row: source.failures_in_row,
        error,
        share: None,
    }
}

fn some_time(secs: u64) -> Option<u64> {
    Some(secs).filter(|secs| *secs > 0)
}

/// Returns the counts of a policy zone's triggers, which are in the order of [`TriggerKind::ALL`].
pub fn trigger_counts(counts: [u64; TriggerKind::ALL.len()], mode: Mode) -> TriggerCounts {
    TriggerCounts::new(counts, idle_triggers(counts, mode))
}

/// Returns the lines without effect in the last good copy of a list.
///
/// # Errors
/// The list is unknown, or has no usable copy.
pub(crate) fn check(running: &Running, name: &str) -> Result<ListReport, ControlError> {
    let state = running.shared.snapshot();
    let Some(list) = state.config.policy.lists.iter().find(|list| list.name == name) else {
        return Err(ControlError::UnknownList(name.to_owned()));
    };
    let directory: &Path = &state.config.data.directory;
    let report = check_copy(directory, list)
        .map_err(|error| ControlError::ListUnusable {
            name: name.to_owned(),
            reason: error.to_string(),
        })?
        .ok_or_else(|| ControlError::ListNotFetched(name.to_owned()))?;
    let faults = report
        .first_faults
        .iter()
        .map(|fault| BrokenLine { line: fault.line, reason: fault.reason.to_string() });
    let is_fetched = list.source.is_fetched();
    let passed_over = report.first_passed_over.iter().map(|line| PassedOverLine {
        line: line.line,
        text: is_fetched.then(|| line.text.to_string()),
        reason: line.why.to_owned(),
    });
    Ok(ListReport {
        name: name.to_owned(),
        format: report.format,
        lines: report.lines,
        entries: report.entries,
        skipped_lines: report.skipped,
        passed_over_lines: report.passed_over,
        first_passed_over_lines: passed_over.collect(),
        beyond_limits: compiled(&state, name).map_or(0, |compiled| compiled.beyond_limits),
        triggers: report.triggers.map(|counts| trigger_counts(counts, state.config.resolver.mode)),
        broken_lines: report.faults,
        first_broken_lines: faults.collect(),
    })
}
