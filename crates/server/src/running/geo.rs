//! Replacement of the geo database, on a reload and when its file has changed.
//!
//! ```text
//! start, reload with another path --> read --error--> the start or the reload fails
//! reload, or another file         --> read --error--> the current database stays in force;
//!                                                     the error is logged, counted and shown
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use avocet_config::policy::PolicyConfig;
use avocet_control::policy::{GeoFile, GeoStatus};
use avocet_nameserver::StateError;
use avocet_nameserver::file_watch::{FileFingerprint, FileWatch};
use avocet_nameserver::policy::{GeoDatabase, Parts};
use avocet_nameserver::snapshot::Snapshot;
use avocet_policy::geo::About;

use crate::running::Running;

/// The results of reading the file since the server started.
#[derive(Default)]
pub(crate) struct GeoReads {
    fault: Mutex<Option<String>>,
    /// Number of rejected files.
    pub(crate) failures: AtomicU64,
}

impl GeoReads {
    /// Reads the geo database that a configuration names, unless it is already in force.
    ///
    /// # Errors
    /// The file cannot be used, and no earlier database of this path is in force.
    pub(crate) fn take(&self, config: &PolicyConfig, parts: &mut Parts) -> Result<(), StateError> {
        let Some(path) = config.geo_file() else {
            self.set_fault(None);
            parts.countries = None;
            return Ok(());
        };
        let before = parts.countries.as_ref().filter(|database| database.path() == path);
        let now = FileFingerprint::of(path);
        if before.is_some_and(|database| now.is_some() && database.fingerprint() == now) {
            self.set_fault(None);
            return Ok(());
        }
        let has_one = before.is_some();
        match GeoDatabase::read(path) {
            Ok(database) => {
                self.set_fault(None);
                parts.countries = Some(Arc::new(database));
                Ok(())
            }
            Err(fault) if has_one => {
                self.note(&fault);
                Ok(())
            }
            Err(fault) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(fault)
            }
        }
    }

    fn note(&self, fault: &StateError) {
        tracing::warn!("{fault}; the loaded database stays in force");
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.set_fault(Some(fault.to_string()));
    }

    fn set_fault(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Returns the database in force, and the fault of the current file.
    pub(crate) fn status(&self, state: &Snapshot) -> Option<GeoStatus> {
        let file = geo_file(state.parts.countries.as_deref()?);
        let error = self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(GeoStatus { file, error })
    }
}

/// Returns the metadata of a database.
pub fn geo_file(database: &GeoDatabase) -> GeoFile {
    let About { database_type, built_at_secs, nodes, countries } = database.about();
    GeoFile {
        file: database.path().display().to_string(),
        database_type: database_type.clone(),
        built_at: *built_at_secs,
        nodes: *nodes,
        countries: *countries,
        octets: database.octets(),
    }
}

/// The check for changes of the geo database's file, which the thread of the lists makes.
#[derive(Default)]
pub(crate) struct GeoWatch {
    in_force: Option<Arc<GeoDatabase>>,
    file: FileWatch,
}

impl GeoWatch {
    /// Reads a changed file once it is the same at two checks.
    pub(crate) fn look(&mut self, running: &Running) {
        let state = running.shared.snapshot();
        let Some(database) = &state.parts.countries else {
            self.in_force = None;
            return;
        };
        if !self.in_force.as_ref().is_some_and(|known| Arc::ptr_eq(known, database)) {
            self.in_force = Some(database.clone());
            self.file = FileWatch::new(database.fingerprint());
        }
        let now = FileFingerprint::of(database.path());
        if self.file.has_settled(now) {
            let octets = std::fs::metadata(database.path()).map_or(0, |facts| facts.len());
            let read = running.lists.leisure.work(octets, || GeoDatabase::read(database.path()));
            replace(running, read);
        }
    }
}

fn replace(running: &Running, read: Result<GeoDatabase, StateError>) {
    let geo = &running.reloader.geo;
    let database = match read {
        Ok(database) => Arc::new(database),
        Err(fault) => return geo.note(&fault),
    };
    geo.set_fault(None);
    // A reload may have read the file in the meantime, or may have selected another file.
    let state = running.shared.snapshot();
    let is_wanted =
        |now: &Arc<GeoDatabase>| now.path() == database.path() && now.digest() != database.digest();
    if !state.parts.countries.as_ref().is_some_and(is_wanted) {
        return;
    }
    let put_in_force = |parts: &mut Parts| {
        if parts.countries.as_ref().is_some_and(is_wanted) {
            parts.countries = Some(database.clone());
        }
    };
    let about = database.about();
    match running.reloader.change_policy(put_in_force) {
        Ok(()) => tracing::info!(
            of = about.database_type,
            nodes = about.nodes,
            "a new geo database is in force"
        ),
        Err(error) => {
            tracing::error!(error = error.to_string(), "cannot switch to a new geo database")
        }
    }
}
