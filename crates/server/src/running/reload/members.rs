//! The zones of a new configuration, and the members of catalogs among the zones in force.

use std::sync::{Arc, PoisonError};

use avocet_config::Config;
use avocet_config::zone::ZoneConfig;
use avocet_nameserver::StateError;
use avocet_nameserver::snapshot::{Snapshot, Unconfigured};
use avocet_nameserver::zone_files::ReadZones;
use avocet_zone::ZoneId;

use super::Reloader;
use crate::running::catalogs::{CatalogChange, TakenFiles, purge, renew_catalogs};

impl Reloader {
    /// Serves the zones that catalogs list at present, if these have changed. Returns the new
    /// zones, which must be transferred at once.
    pub(crate) fn follow_catalogs(&self) -> Vec<Box<[u8]>> {
        let snapshot = self.shared.snapshot();
        let source = |name: &[u8]| self.zones.source(&ZoneId::common(name));
        let Some(change) = self.catalogs.follow(&snapshot.config, source) else {
            return Vec::new();
        };
        let CatalogChange { members, staying, purged, begun } = change;
        if !purged.is_empty() {
            let is_purged =
                |zone: &&ZoneConfig| zone.catalog.is_member() && purged.contains(&zone.name);
            let leaving: Vec<_> = snapshot.config.zones.iter().filter(is_purged).collect();
            // The purged zones are withdrawn first, so that the server no longer writes their
            // files when these are deleted below.
            self.catalogs.put(staying);
            // If that fails, they remain in force, and keep their files.
            if self.serve_members().is_ok() {
                // A configuration that came into force in the meantime may use some of the files.
                let taken = TakenFiles::of(&self.shared.snapshot().config);
                leaving.into_iter().filter(|zone| !taken.has(&zone.name)).for_each(purge);
            }
        }
        let count = members.len();
        // After a crash before this point, the next start repeats the change.
        self.catalogs.put(members);
        self.catalogs.save();
        if self.serve_members().is_ok() {
            tracing::info!(members = count, "catalogs were applied");
        }
        begun
    }

    /// Writes the catalogs of this server whose next step in the move of a zone is due.
    pub(crate) fn renew_catalogs(&self) {
        // A reload writes the catalogs before its zones are in force.
        let _lock = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        renew_catalogs(&self.shared.snapshot().config.zones);
    }

    /// Reads the zones of a snapshot that is not in force yet. Returns the snapshot with them.
    pub(super) fn with_zones(
        &self,
        staged: Snapshot,
        unconfigured: &mut Unconfigured,
    ) -> Result<(Snapshot, ReadZones), StateError> {
        let read = self.zones.read(&staged.config.zones);
        let zones = read.zones();
        if zones.changed_to(&unconfigured.zones).is_empty() {
            return Ok((staged, read));
        }
        unconfigured.zones = zones;
        let snapshot =
            staged.replaced(staged.config.clone(), unconfigured, staged.parts.clone())?;
        Ok((snapshot, read))
    }

    /// Puts the currently known members in force.
    ///
    /// # Errors
    /// The state is not usable with these zones, and the previous zones stay in force.
    fn serve_members(&self) -> Result<(), StateError> {
        let mut unconfigured = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.shared.snapshot();
        let mut config = Config::clone(&old.config);
        self.catalogs.extend(&mut config);
        let read = self.zones.read(&config.zones);
        let zones = read.zones();
        let mut changed = unconfigured.clone();
        if !zones.changed_to(&changed.zones).is_empty() {
            changed.zones = zones;
        }
        let snapshot = old
            .replaced(Arc::new(config), &changed, old.parts.clone())
            .inspect_err(|error| tracing::error!(%error, "cannot serve the members of catalogs"))?;
        *unconfigured = changed;
        self.zones.put(read);
        self.shared.replace(snapshot);
        Ok(())
    }
}
