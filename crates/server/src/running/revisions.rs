//! The revisions of the configuration file: the revision in force, and the one on probation.
//!
//! All changes go through [`Reloader`]: an edit by hand is read from the file, and an edit or
//! rollback by a request is written to it. Each accepted text becomes a revision before it is in
//! force; see [`avocet_revisions`].

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use avocet_config::{MAX_CONFIG_FILE, RevisionsConfig};
use avocet_control::revisions::Submitter;
use avocet_io::file::read_text;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::file_watch::{FileFingerprint, QuietWatch};
use avocet_nameserver::metrics::Stage;
use avocet_revisions::{
    Band, ChangeOrigin, Facts, Health, Probation, Reason, RevisionError, Store, Submission, replace,
};

use crate::error::BackgroundError;
use crate::running::Running;
use crate::running::conditions::Condition;
use crate::running::reload::Reloader;
use avocet_worker::state::Shared;

/// The time for which a file that differs from the text in force must stay the same before the
/// server edits it.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum wait for such a file to stay the same.
const LONGEST_SAVE: Duration = Duration::from_secs(10);
/// Time between two checks of the file.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The directory of the revisions, in the data directory.
const DIRECTORY: &str = "revisions";
/// The results of queries that count as failures of this server: the client gets no data.
const FAILED: [Stage; 3] = [Stage::Failed, Stage::FailureHit, Stage::Shed];
/// The results of messages that anybody on the network can cause, whether it is a permitted client
/// or not.
const OF_STRANGERS: [Stage; 3] = [Stage::Malformed, Stage::Refused, Stage::Ignored];
/// The reasons for automatic rollbacks, in the order of the counters.
pub(crate) const REASONS: [&str; 4] = ["unconfirmed", "unresolved", "failures", "latency"];
/// The first bucket of latencies that counts as slow: above 2^19 microseconds.
const SLOW_BUCKET: usize = 20;

/// A change of the configuration that is about to come into force.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The origin of the change.
    pub(crate) origin: ChangeOrigin,
    /// The author of the change.
    pub(crate) by: Submitter,
    /// Whether the file must be written.
    pub(crate) write: FileWrite,
}

/// Whether a change is written to the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileWrite {
    /// The change comes from the file.
    Done,
    /// The change must replace this text in the file, or it is refused.
    Must(String),
    /// The change should replace this text in the file. It comes into force even if the file cannot
    /// be written.
    Try(String),
}

impl Change {
    /// Returns a change that was read from the file.
    pub(crate) fn of_file() -> Self {
        Self { origin: ChangeOrigin::File, by: Submitter::default(), write: FileWrite::Done }
    }
}

/// A change that is stored, but is not in force yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KeptChange {
    /// The revision; `None` if revisions are not available.
    pub(crate) number: Option<u32>,
    /// The reason why the file does not have the text.
    pub(crate) unwritten: Option<String>,
}

/// The revisions of the configuration file.
pub(crate) struct Revisions {
    /// The configuration file; without it, there are no revisions.
    file: Option<PathBuf>,
    state: Mutex<RevisionState>,
    /// Automatic rollbacks by [reason](REASONS).
    pub(crate) rollbacks: [AtomicU64; REASONS.len()],
}

#[derive(Default)]
struct RevisionState {
    /// The store; `None` without a configuration file, or if the directory cannot be used.
    store: Option<Store>,
    /// The text in force.
    text: String,
    /// The number of the revision in force.
    in_force: Option<u32>,
    probation: Option<Probation>,
    band: Band,
    /// Whether no name could be resolved even before the probation began.
    was_unresolved: bool,
    /// The counts of queries at the last tick.
    health: Health,
    /// The reason why the file does not have the text in force.
    unwritten: Option<String>,
    /// The text of the file that a rollback could not replace. It does not come into force again.
    rolled_back: Option<String>,
}

impl Revisions {
    /// Opens the revisions in a data directory for a server that started with this text. The text
    /// becomes a revision if it is not the latest one.
    pub(crate) fn begin(directory: &Path, file: Option<PathBuf>, text: &str) -> Self {
        let mut state = RevisionState { text: text.to_owned(), ..RevisionState::default() };
        if file.is_some()
            && let Err(error) = state.open(&directory.join(DIRECTORY))
        {
            tracing::warn!("no history of the configuration: {error}");
        }
        Self { file, state: Mutex::new(state), rollbacks: Default::default() }
    }

    #[cfg(test)]
    pub(crate) fn without_history() -> Self {
        Self { file: None, state: Mutex::default(), rollbacks: Default::default() }
    }

    fn state(&self) -> MutexGuard<'_, RevisionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the revision in force.
    pub(crate) fn in_force(&self) -> Option<u32> {
        self.state().in_force
    }

    /// Returns the text in force.
    pub(crate) fn text(&self) -> String {
        self.state().text.clone()
    }

    /// Returns the revision on probation, if there is one.
    pub(crate) fn probation(&self) -> Option<Probation> {
        self.state().probation.clone()
    }

    /// Returns the reason why the file does not have the text in force, if this is so.
    pub(crate) fn unwritten(&self) -> Option<String> {
        self.state().unwritten.clone()
    }

    /// Returns whether this is the text of the file that a rollback could not replace.
    pub(crate) fn is_rolled_back(&self, text: &str) -> bool {
        self.state().rolled_back.as_deref() == Some(text)
    }

    /// Returns the text of the file.
    ///
    /// # Errors
    /// There is no file, or it cannot be read.
    pub(crate) fn file_text(&self) -> Result<String, BackgroundError> {
        let path = self.file.clone().ok_or(BackgroundError::NoFile)?;
        read_text(&path, MAX_CONFIG_FILE)
            .map_err(|source| BackgroundError::Unreadable { path, source })
    }

    /// Returns the text of the file, for an edit. A program that saves the file in place empties it
    /// first, and a partly written file may be valid. Therefore, a text that is not in force is
    /// returned only if the file has not changed for a while.
    ///
    /// # Errors
    /// The file cannot be read, or is being written.
    pub(crate) fn quiet_text(&self) -> Result<String, BackgroundError> {
        let path = self.file.clone().ok_or(BackgroundError::NoFile)?;
        let began = Instant::now();
        let mut watch = QuietWatch::begin(FileFingerprint::of(&path), began);
        loop {
            // If the file has the text in force, it is complete.
            let text = self.file_text()?;
            let quiet_for = watch.quiet_for(FileFingerprint::of(&path), Instant::now());
            if text == self.text() || self.is_rolled_back(&text) || quiet_for >= QUIET {
                return Ok(text);
            }
            if began.elapsed() >= LONGEST_SAVE {
                return Err(BackgroundError::BeingWritten(path));
            }
            thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// Calls `read` with the store.
    ///
    /// # Errors
    /// There are no revisions, or `read` fails.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Store) -> Result<T, RevisionError>,
    ) -> Result<T, BackgroundError> {
        let state = self.state();
        let store = state.store.as_ref().ok_or(BackgroundError::NoFile)?;
        Ok(read(store)?)
    }

    /// Stores a valid text as a revision and in the file, before it comes into force.
    ///
    /// # Errors
    /// A change by a request cannot be stored or written. A change of the file by hand, and an
    /// automatic rollback, are never refused.
    pub(crate) fn keep(
        &self,
        text: &str,
        change: &Change,
        config: &RevisionsConfig,
    ) -> Result<KeptChange, BackgroundError> {
        let mut state = self.state();
        if change.origin == ChangeOrigin::File && text == state.text && state.in_force.is_some() {
            return Ok(KeptChange { number: state.in_force, unwritten: None });
        }
        let added = state.add(text, change, config.keep);
        let is_request = matches!(change.write, FileWrite::Must(_));
        let number = match added {
            Ok(number) => number,
            Err(error) if is_request => return Err(error),
            Err(error) => {
                if self.file.is_some() {
                    tracing::warn!("this change is not in the history: {error}");
                }
                None
            }
        };
        let write = |base: &str| {
            let file = self.file.as_deref().ok_or(BackgroundError::NoFile)?;
            replace(file, base, text).map_err(BackgroundError::from)
        };
        let written = match &change.write {
            FileWrite::Done => Ok(()),
            FileWrite::Must(base) | FileWrite::Try(base) => write(base),
        };
        match written {
            Ok(()) => Ok(KeptChange { number, unwritten: None }),
            Err(error) if is_request => {
                if let (Some(store), Some(number)) = (&mut state.store, number) {
                    store.forget(number);
                }
                Err(error)
            }
            Err(error) => {
                if let FileWrite::Try(base) = &change.write {
                    state.rolled_back = Some(base.clone());
                }
                Ok(KeptChange { number, unwritten: Some(error.to_string()) })
            }
        }
    }

    /// Stores the text of a file with errors before a rollback replaces it.
    pub(crate) fn keep_refused(&self, text: &str, keep: usize) {
        let change = Change { origin: ChangeOrigin::Refused, ..Change::of_file() };
        if let Err(error) = self.state().add(text, &change, keep) {
            tracing::warn!("the replaced file is not in the history: {error}");
        }
    }

    /// Records that a stored text is in force, and begins its probation.
    pub(crate) fn came_into_force(
        &self,
        (text, kept): (String, &KeptChange),
        origin: ChangeOrigin,
        probation_secs: u32,
    ) {
        let mut state = self.state();
        state.unwritten = kept.unwritten.clone();
        if kept.unwritten.is_none() {
            state.rolled_back = None;
        }
        let before = state.in_force;
        if kept.number == before && before.is_some() {
            return;
        }
        state.text = text;
        state.in_force = kept.number;
        let fallback = state.probation.as_ref().map(|one| one.fallback).or(before);
        let is_on_probation = probation_secs > 0 && origin != ChangeOrigin::Probation;
        let probation = match (kept.number, fallback.filter(|_| is_on_probation)) {
            (Some(number), Some(fallback)) if !state.is_equal(number, fallback) => {
                let until = wall_secs().saturating_add(probation_secs.into());
                let health = state.health;
                Some(Probation::begin((number, fallback), until, (&state.band, health)))
            }
            _ => None,
        };
        state.set_probation(probation);
    }

    /// Moves the end of a probation to an earlier wall time.
    pub(crate) fn end_probation_earlier(&self, secs: u64) {
        let mut state = self.state();
        let Some(mut probation) = state.probation.clone() else { return };
        probation.until_secs = probation.until_secs.saturating_sub(secs);
        state.set_probation(Some(probation));
    }

    /// Ends the probation; returns the revision that was on probation.
    pub(crate) fn confirm(&self) -> Option<u32> {
        let mut state = self.state();
        let revision = state.probation.as_ref().map(|probation| probation.revision);
        state.set_probation(None);
        revision
    }

    /// Evaluates the state of the service. Returns the probation that failed, with the reason;
    /// `None` if none failed.
    pub(crate) fn tick(
        &self,
        (now_secs, monotonic_secs): (u64, u64),
        health: Health,
        unresolved: Option<String>,
    ) -> Option<(Probation, Reason)> {
        let mut state = self.state();
        state.health = health;
        let Some(probation) = state.probation.clone() else {
            state.band.note(monotonic_secs, health);
            state.was_unresolved = unresolved.is_some();
            return None;
        };
        let unresolved = unresolved.filter(|_| !state.was_unresolved);
        let reason = probation.judge(now_secs, health, unresolved)?;
        Some((probation, reason))
    }

    /// Counts an automatic rollback.
    pub(crate) fn count(&self, reason: &Reason) {
        let place = REASONS.iter().position(|name| *name == reason.name());
        if let Some(counter) = place.and_then(|place| self.rollbacks.get(place)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl RevisionState {
    /// Opens the store, and finds or adds the revision of the text in force.
    fn open(&mut self, directory: &Path) -> Result<(), BackgroundError> {
        let store = Store::open(directory)?;
        let latest = store.all().rev().find(|facts| facts.origin != ChangeOrigin::Refused);
        let latest = latest.map(|facts| facts.number);
        let is_same = |number: &u32| store.text(*number).is_ok_and(|text| text == self.text);
        self.in_force = latest.filter(is_same);
        self.probation = store.probation();
        self.store = Some(store);
        if self.in_force.is_none() {
            let change = Change { origin: ChangeOrigin::Start, ..Change::of_file() };
            let text = self.text.clone();
            self.in_force = self.add(&text, &change, usize::MAX)?;
        }
        if let (Some(stored), Some(in_force)) = (self.probation.clone(), self.in_force) {
            self.go_on(&stored, in_force);
        }
        Ok(())
    }

    /// Continues a probation after a restart. If the file was changed while the server did not run,
    /// the probation begins again, as after a second change.
    fn go_on(&mut self, stored: &Probation, in_force: u32) {
        let mut probation = Probation { revision: in_force, ..stored.clone() };
        if stored.revision == in_force {
            probation.follow_clock(wall_secs());
        } else {
            let lasts_secs = stored.until_secs.saturating_sub(stored.saved_at_secs);
            probation.until_secs = wall_secs().saturating_add(lasts_secs);
        }
        let probation = Some(probation).filter(|one| !self.is_equal(one.revision, one.fallback));
        if probation.as_ref() != Some(stored) {
            self.set_probation(probation);
        }
    }

    fn add(
        &mut self,
        text: &str,
        change: &Change,
        keep: usize,
    ) -> Result<Option<u32>, BackgroundError> {
        let probation = self.probation.as_ref().map(|one| [one.revision, one.fallback]);
        let needed: Vec<u32> = probation.into_iter().flatten().chain(self.in_force).collect();
        let store = self.store.as_mut().ok_or(BackgroundError::NoFile)?;
        let by = change.by.clone();
        let new = Submission {
            at_secs: wall_secs(),
            origin: change.origin,
            author: by.author,
            source: by.source,
            comment: by.comment,
        };
        Ok(Some(store.add(text, new, (keep, &needed))?))
    }

    fn is_equal(&self, a: u32, b: u32) -> bool {
        let facts = |number| self.store.as_ref()?.facts(number).ok();
        let content = |facts: &Facts| (facts.octets, facts.crc32);
        facts(a).map(content) == facts(b).map(content)
    }

    fn set_probation(&mut self, probation: Option<Probation>) {
        let probation = probation.map(|one| Probation { saved_at_secs: wall_secs(), ..one });
        if let Some(store) = &self.store
            && let Err(error) = store.set_probation(probation.as_ref())
        {
            tracing::warn!("a restart will forget the probation: {error}");
        }
        self.probation = probation;
    }
}

/// Returns the counts of client queries since the start.
pub(crate) fn health(shared: &Shared) -> Health {
    let at_secs = shared.name_server.clock.now().secs().into();
    let mut health = Health { at_secs, ..Health::default() };
    for worker in &shared.metrics {
        let count = |stages: &[Stage]| {
            stages.iter().map(|stage| worker.stages[*stage as usize].value()).sum::<u64>()
        };
        let all = worker.stages.iter().map(|stage| stage.value()).sum::<u64>();
        health.queries += all.saturating_sub(count(&OF_STRANGERS));
        health.failed += count(&FAILED);
        health.refused += count(&[Stage::Refused]);
        let (buckets, _) = worker.miss_latency.read();
        health.waited += buckets.iter().sum::<u64>();
        health.slow += buckets[SLOW_BUCKET..].iter().sum::<u64>();
    }
    health
}

impl Reloader {
    /// Evaluates the state of the service, and rolls back the revision on probation if the
    /// probation failed.
    pub(crate) fn judge_probation(
        &self,
        (now_secs, monotonic_secs): (u64, u64),
        health: Health,
        unresolved: Option<String>,
    ) {
        let ticked = self.revisions.tick((now_secs, monotonic_secs), health, unresolved);
        let Some((probation, reason)) = ticked else { return };
        let Probation { revision, fallback, .. } = probation;
        tracing::warn!("rolling revision {revision} back to {fallback}: {reason}");
        self.revisions.count(&reason);
        let comment = Some(format!("revision {revision} rolled back to {fallback}: {reason}"));
        let by = Submitter { comment, ..Submitter::default() };
        if let Err(error) = self.roll_back(fallback, ChangeOrigin::Probation, by) {
            tracing::error!(
                "revision {revision} stays in force, it cannot be rolled back: {error}"
            );
        }
        // The probation ends, because another rollback would fail as well.
        self.revisions.confirm();
    }
}

impl Running {
    /// Checks once a second whether the revision on probation must be rolled back.
    pub(crate) fn tick_revisions(&self) {
        let unresolved = self.conditions.text(Condition::Resolution);
        let now = self.shared.name_server.clock.now().secs();
        self.reloader.judge_probation((wall_secs(), now.into()), health(&self.shared), unresolved);
    }
}

#[cfg(test)]
mod tests;
