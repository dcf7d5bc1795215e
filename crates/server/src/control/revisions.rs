//! Answers requests about revisions of the configuration.

use std::time::Duration;

use avocet_config::edit::KeyEdit;
use avocet_control::ControlError;
use avocet_control::reload::Reloaded;
use avocet_control::revisions::{
    CheckedChange, ConfigChange, ConfigCheck, ConfigDiff, ConfigEdit, ConfigRollback, OnProbation,
    Revision, RevisionAccepted, RevisionConfirmed, RevisionDifference, RevisionOrigin,
    RevisionText, Revisions, ShownConfig,
};
use avocet_nameserver::clock::wall_secs;
use avocet_revisions::{ChangeOrigin, Facts, RevisionError, unified};

use crate::error::BackgroundError;
use crate::running::Running;
use crate::running::reload;

/// Longest wait for another check of the configuration.
pub(super) const CHECK_PATIENCE: Duration = Duration::from_secs(2);

/// Converts the result of a reload to the reply that the client gets.
pub(super) fn reloaded(done: reload::Reloaded) -> Reloaded {
    Reloaded {
        restart_needed_for: done.restart.keys.iter().map(|&key| key.to_owned()).collect(),
        opens_at_restart: done.restart.opens,
        closes_at_restart: done.restart.closes,
        removed_text: done.removed.to_string(),
        removed: done.removed.by_kind(),
    }
}

/// Converts the error of a change of the configuration to the error that the client gets.
pub(super) fn refused(error: BackgroundError) -> ControlError {
    match error {
        BackgroundError::Edit(error) => ControlError::InvalidEdit(error.to_string()),
        BackgroundError::OtherRevision(in_force) => ControlError::OtherRevision(in_force),
        BackgroundError::AccessKeys(keys) => ControlError::AccessKeys(keys),
        BackgroundError::Revision(RevisionError::Unknown(number)) => {
            ControlError::UnknownRevision(number)
        }
        BackgroundError::Revision(error) => ControlError::RevisionUnusable(error.to_string()),
        BackgroundError::Replace(error) => ControlError::FileRefused(error.to_string()),
        BackgroundError::NoFile | BackgroundError::RolledBack(_) => {
            ControlError::FileRefused(error.to_string())
        }
        error => ControlError::ConfigurationRefused(error.to_string()),
    }
}

/// Returns the revisions, latest first.
pub(super) fn history(running: &Running, limit: Option<usize>) -> Result<Revisions, ControlError> {
    let revisions = &running.reloader.revisions;
    let all = |facts: Vec<&Facts>| facts.into_iter().map(revision).collect();
    let list = revisions
        .read(|store| Ok(all(store.all().rev().take(limit.unwrap_or(usize::MAX)).collect())));
    Ok(Revisions {
        in_force: revisions.in_force(),
        probation: probation(running),
        revisions: list.map_err(refused)?,
    })
}

/// Returns a revision in the form of a reply.
pub(super) fn revision(facts: &Facts) -> Revision {
    Revision {
        number: facts.number,
        at: facts.at_secs,
        origin: match facts.origin {
            ChangeOrigin::Start => RevisionOrigin::Start,
            ChangeOrigin::File => RevisionOrigin::File,
            ChangeOrigin::Edit => RevisionOrigin::Edit,
            ChangeOrigin::Rollback => RevisionOrigin::Rollback,
            ChangeOrigin::Probation => RevisionOrigin::Probation,
            ChangeOrigin::Refused => RevisionOrigin::Refused,
        },
        author: facts.author.clone(),
        source: facts.source.clone(),
        comment: facts.comment.clone(),
        octets: facts.octets,
    }
}

fn probation(running: &Running) -> Option<OnProbation> {
    let probation = running.reloader.revisions.probation()?;
    Some(OnProbation {
        revision: probation.revision,
        fallback: probation.fallback,
        left_secs: probation.until_secs.saturating_sub(wall_secs()),
    })
}

/// Returns the text of a revision.
pub(super) fn text(running: &Running, number: Option<u32>) -> Result<RevisionText, ControlError> {
    let number = number.or_else(|| running.reloader.revisions.in_force());
    let number = number.ok_or_else(|| refused(BackgroundError::NoFile))?;
    let text = running.reloader.revisions.read(|store| store.text(number)).map_err(refused)?;
    Ok(RevisionText { number, text })
}

/// Returns the difference between two revisions.
pub(super) fn difference(
    running: &Running,
    request: &ConfigDiff,
) -> Result<RevisionDifference, ControlError> {
    let (from, to) = (text(running, Some(request.from))?, text(running, request.to)?);
    let name = |of: &RevisionText| format!("revision {}", of.number);
    let text = unified((&name(&from), &from.text), (&name(&to), &to.text));
    Ok(RevisionDifference { from: from.number, to: to.number, text })
}

/// Returns the changes of a request as edits of the file.
pub(super) fn key_edits(edits: &[ConfigEdit]) -> Vec<KeyEdit<'_>> {
    let edits = edits.iter();
    edits.map(|ConfigEdit { key, value }| KeyEdit { key, value: value.as_deref() }).collect()
}

/// Returns the configuration in force, or one of its tables.
pub(super) fn show(running: &Running, table: Option<&str>) -> Result<ShownConfig, ControlError> {
    let state = running.shared.snapshot();
    let effective = serde_json::to_value(state.config.effective()).unwrap_or_default();
    let mut tables = effective.as_object().cloned().unwrap_or_default();
    if let Some(table) = table {
        tables.retain(|name, _| name == table);
        if tables.is_empty() {
            return Err(ControlError::UnknownTable(table.to_owned()));
        }
    }
    Ok(ShownConfig { revision: running.reloader.revisions.in_force(), tables })
}

/// Checks changes of the configuration file without making them.
pub(super) fn check(
    running: &Running,
    request: &ConfigCheck,
) -> Result<CheckedChange, ControlError> {
    let (edits, reach) = (key_edits(&request.edits), request.reach);
    let turn = running.reloader.turn_to_check(CHECK_PATIENCE)?;
    let checked = running.reloader.check_edit(&edits, reach, &turn).map_err(refused)?;
    let text = unified(("present", &checked.present), ("changed", &checked.changed));
    Ok(CheckedChange { text, warnings: checked.doubts })
}

/// Edits the configuration file.
pub(super) fn change(
    running: &Running,
    request: ConfigChange,
) -> Result<RevisionAccepted, ControlError> {
    let done = running.reloader.edit(&key_edits(&request.edits), request.base, request.by);
    accepted(running, done)
}

/// Puts an earlier revision in force again.
pub(super) fn roll_back(
    running: &Running,
    request: ConfigRollback,
) -> Result<RevisionAccepted, ControlError> {
    let mut by = request.by;
    by.comment.get_or_insert_with(|| format!("rollback to revision {}", request.number));
    accepted(running, running.reloader.roll_back(request.number, ChangeOrigin::Rollback, by))
}

fn accepted(
    running: &Running,
    done: Result<reload::Reloaded, BackgroundError>,
) -> Result<RevisionAccepted, ControlError> {
    let done = done.map_err(refused)?;
    let revision = done.revision.ok_or_else(|| refused(BackgroundError::NoFile))?;
    Ok(RevisionAccepted { revision, probation: probation(running), reloaded: reloaded(done) })
}

/// Confirms the revision that is on probation.
pub(super) fn confirm(running: &Running) -> Result<RevisionConfirmed, ControlError> {
    let revision = running.reloader.revisions.confirm().ok_or(ControlError::NoProbation)?;
    tracing::info!(revision, "configuration confirmed");
    Ok(RevisionConfirmed { revision })
}
