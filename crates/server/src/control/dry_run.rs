//! Answers the request for a dry run.

use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;

use avocet_config::Config;
use avocet_control::dry_run::{DryRunFound, PolicyDryRun};
use avocet_control::lists::AtWork;
use avocet_control::log_fault::LogFault;
use avocet_control::{ControlError, Parts};

use super::PATIENCE;
use super::log::directory;
use super::revisions::{CHECK_PATIENCE, key_edits, refused};
use crate::dry_run::background::{self, Proposal};
use crate::query_log::filter::stored_filter;
use crate::running::Running;

/// Maximum number of names that a reply lists for each kind of change.
const MAX_SHOWN: u64 = 1_000;
/// Default number of names that a reply lists for each kind of change.
const USUAL_SHOWN: u64 = 100;
/// The error of the reply after a panic.
const FAULT: &str = "a panic interrupted the dry run, see the log";

/// Compares the configuration in force with a proposed one, over logged queries.
pub(super) fn run(
    running: &Running,
    request: PolicyDryRun,
    waiting: Parts<'_, AtWork>,
) -> Result<DryRunFound, ControlError> {
    let shown = match request.limit.unwrap_or(USUAL_SHOWN) {
        limit @ 1..=MAX_SHOWN => limit as usize,
        _ => return Err(LogFault::OutOfBounds("a limit from 1 to 1000").into()),
    };
    let mut config = proposed(running, &request)?;
    if request.enforce_log_only {
        config.policy.rules.iter_mut().for_each(|rule| rule.log_only = false);
    }
    let proposal = Proposal {
        config,
        revision: running.reloader.revisions.in_force(),
        directory: directory(running)?,
        filter: stored_filter(&request.filter)?,
        shown,
    };
    let found = background::begin(running, proposal)?;
    loop {
        match found.recv_timeout(PATIENCE) {
            Ok(found) => return found,
            Err(RecvTimeoutError::Disconnected) => return Err(ControlError::Interrupted(FAULT)),
            Err(RecvTimeoutError::Timeout) if running.draining.load(Ordering::Relaxed) => {
                return Err(ControlError::ShuttingDown);
            }
            // Sending this sign of progress fails if the client has disconnected.
            Err(RecvTimeoutError::Timeout) => waiting(AtWork { waiting: true })?,
        }
    }
}

/// Returns the proposed configuration.
fn proposed(running: &Running, request: &PolicyDryRun) -> Result<Config, ControlError> {
    if request.text.is_some() && !request.edits.is_empty() {
        let both = "give either changes or a whole text";
        return Err(ControlError::InvalidEdit(both.to_owned()));
    }
    let reloader = &running.reloader;
    let turn = reloader.turn_to_check(CHECK_PATIENCE)?;
    let config = match &request.text {
        Some(text) => reloader.check_text(text, request.reach, &turn),
        None => {
            let edits = key_edits(&request.edits);
            reloader.check_edit(&edits, request.reach, &turn).map(|edit| edit.config)
        }
    };
    config.map_err(refused)
}
