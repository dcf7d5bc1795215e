//! Checks of proposed configurations, which change nothing, and of the rights of those who propose
//! them.
//!
//! One check is made at a time. A check does not look whether its client has disconnected, because
//! its work is bounded: the number of rules, the octets of their regular expressions and the steps
//! for their automata have limits. Until it ends, the next check has to wait or is refused.

use std::time::Duration;

use avocet_config::edit::{KeyEdit, check_effect, edited};
use avocet_config::{Config, WrittenConfig, access_keys_between, environment};
use avocet_control::ControlError;
use avocet_control::revisions::ChangeReach;

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
    /// The text has errors, or names files that a program with this reach may not name.
    pub(crate) fn check_text(
        &self,
        text: &str,
        reach: ChangeReach,
        _: &CheckTurn,
    ) -> Result<Config, BackgroundError> {
        self.permitted(text, reach)
    }

    /// Checks an edit of the configuration file without making it.
    ///
    /// # Errors
    /// The file cannot be read, or the result has errors or names files that a program with this
    /// reach may not name.
    pub(crate) fn check_edit(
        &self,
        edits: &[KeyEdit<'_>],
        reach: ChangeReach,
        turn: &CheckTurn,
    ) -> Result<CheckedEdit, BackgroundError> {
        let present = self.base(&self.revisions.quiet_text()?);
        check_effect(edits, |name| std::env::var_os(name).is_some())?;
        let changed = edited(&present, edits)?;
        let config = self.check_text(&changed, reach, turn)?;
        let doubts = config.doubts.iter().map(ToString::to_string);
        let doubts = doubts.chain(fault_of_certificate(&config.web)).collect();
        Ok(CheckedEdit { present, changed, config, doubts })
    }

    /// Reads the text of a configuration that a program with this reach proposes.
    ///
    /// # Errors
    /// The text names files that the program may not name, or has errors. An error of a file that
    /// the program may not name is not shown, because it may contain parts of the file.
    pub(super) fn permitted(
        &self,
        text: &str,
        reach: ChangeReach,
    ) -> Result<Config, BackgroundError> {
        let environment = environment().collect();
        let (files, config) = Config::with_files(self.path(), text, &environment);
        if !reach.is_all() {
            let present = self.revisions.text();
            let (known, present) = Config::with_files(self.path(), &present, &environment);
            let foreign = files.foreign(&known, &present?.data.directory);
            if let Some(file) = foreign.first() {
                let keys = format!("keys with the file {}", file.display());
                return Err(BackgroundError::AccessKeys(keys));
            }
        }
        Ok(config?)
    }

    /// Refuses a change of keys that determine access, if its author may not change them. The
    /// comparison is with the text in force, even if a part of it waits for a restart.
    pub(super) fn check_reach(
        &self,
        after: WrittenConfig<'_>,
        reach: ChangeReach,
    ) -> Result<(), BackgroundError> {
        if reach.is_all() {
            return Ok(());
        }
        let text = self.revisions.text();
        let present = Config::from_text(self.path(), &text, &environment().collect())?;
        match access_keys_between(WrittenConfig { config: &present, text: &text }, after) {
            keys if keys.is_empty() => Ok(()),
            keys => Err(BackgroundError::AccessKeys(keys.join(", "))),
        }
    }
}
