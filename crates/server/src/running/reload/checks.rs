//! Checks of proposed configurations, which change nothing.
//!
//! One check is made at a time. A check does not look whether its client has disconnected, because
//! its work is bounded: the number of rules, the octets of their regular expressions and the steps
//! for their automata have limits. Until it ends, the next check has to wait or is refused.

use std::time::Duration;

use avocet_config::edit::{KeyEdit, edited};
use avocet_config::{Config, environment};
use avocet_control::ControlError;

use super::Reloader;
use crate::error::BackgroundError;
use crate::running::certificate::fault_of_certificate;
use crate::turns::Turn;

/// Maximum number of checks at once: each may use a processor for seconds.
pub(super) const MAX_CHECKS: usize = 1;

/// The permission to check a proposed configuration, which one check has at a time. Dropping it
/// gives the permission to the next check.
pub(crate) struct CheckTurn(#[expect(dead_code, reason = "held until it is dropped")] Turn);

/// A valid edit of the configuration file.
pub(crate) struct CheckedEdit {
    /// The text of the file before the edit.
    pub(crate) present: String,
    /// The text after the edit.
    pub(crate) changed: String,
    /// The configuration of the changed text.
    pub(crate) config: Config,
    /// Settings without effect in the changed text.
    pub(crate) doubts: Vec<String>,
}

impl Reloader {
    /// Waits for the permission to check a proposed configuration.
    ///
    /// # Errors
    /// Another check is still in progress after `patience`.
    pub(crate) fn turn_to_check(&self, patience: Duration) -> Result<CheckTurn, ControlError> {
        self.checks.take(patience).map(CheckTurn).ok_or(ControlError::TooManyChecks)
    }

    /// Reads and checks the text of a proposed configuration.
    ///
    /// # Errors
    /// The text has errors.
    pub(crate) fn check_text(&self, text: &str, _: &CheckTurn) -> Result<Config, BackgroundError> {
        Ok(Config::from_text(self.path(), text, &environment().collect())?)
    }

    /// Checks an edit of the configuration file without making it.
    ///
    /// # Errors
    /// The file cannot be read, or the result has errors.
    pub(crate) fn check_edit(
        &self,
        edits: &[KeyEdit<'_>],
        turn: &CheckTurn,
    ) -> Result<CheckedEdit, BackgroundError> {
        let present = self.base(&self.revisions.quiet_text()?);
        let changed = edited(&present, edits)?;
        let config = self.check_text(&changed, turn)?;
        let doubts = config.doubts.iter().map(ToString::to_string);
        let doubts = doubts.chain(fault_of_certificate(&config.web)).collect();
        Ok(CheckedEdit { present, changed, config, doubts })
    }
}
