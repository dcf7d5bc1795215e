//! The files of hosted zones: read, checked and watched. An unusable file never replaces a zone.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avocet_config::Config;
use avocet_config::pool::PoolConfig;
use avocet_config::transfer::AliasTransfer;
use avocet_config::zone::ZoneConfig;
use avocet_dnssec::zonemd::Fault as DigestFault;
use avocet_io::replace::{ReplaceFault, ReplaceReason};
use avocet_resolver::Timers;
use avocet_wire::name::is_under;
use avocet_wire::{FoldedName, NameBuf};
use avocet_zone::{Faults, HostedZone, HostedZones, OpenFile, Severity, ZoneId, ZoneProblem};

use crate::clock::wall_secs;
use crate::zone_comments::with_comments;
use crate::zone_digest::fault_of_digest;
use crate::zone_journal::ZoneJournal;
use crate::zone_source::load_from;
use crate::zone_versions::changes_behind;
use crate::{disk, pools};

mod addresses;
mod fetched;
mod kept;
mod prepared;
mod published;
mod renamed;
mod signing;
mod unsigned;
mod written;

pub use addresses::{AddressLookUp, AwaitedAddresses};
pub use fetched::{FetchedFault, FetchedRecords, compare_fetched};
use kept::KeptZone;
use prepared::PreparedZone;
use signing::KnownSigners;
pub use written::{check_copy, make_way};

/// Maximum number of octets of a changed file that is checked before a take-over.
const MAX_CHECKED: u64 = 16 << 20;

/// Reads and checks a zone from its file. Returns all faults, and the zone if it has no errors.
#[must_use]
pub fn load(name: FoldedName<'_>, file: &Path) -> (Option<HostedZone>, Faults) {
    avocet_zone::load(name, file, wall_secs(), &mut open)
}

/// Reads and checks a zone of the configuration from its file, and verifies its digest as the
/// server does. Returns all faults.
#[must_use]
pub fn faults_of(config: &ZoneConfig) -> Faults {
    checked(config, &mut open).map_or_else(Faults::default, |(_, faults)| faults)
}

/// Returns a sentence about each pool that has no effect, because the file of its zone has an alias
/// at its name.
#[must_use]
pub fn doubts_of_pools(config: &Config) -> BTreeSet<String> {
    let mut doubts = BTreeSet::new();
    let apex_of = |pool: &PoolConfig| {
        let above = config.zones.iter().filter(|zone| is_under(&pool.name, &zone.name));
        above.map(|zone| &zone.name).max_by_key(|apex| apex.len())
    };
    for zone in &config.zones {
        let mut pools = config.pools.iter().filter(|pool| apex_of(pool) == Some(&zone.name));
        let Some(first) = pools.next() else { continue };
        let Some((Some(hosted), _)) = checked(zone, &mut open) else { continue };
        let is_alias = |pool: &&PoolConfig| {
            hosted.leads_elsewhere(FoldedName::from_folded_unchecked(&pool.name))
        };
        let hidden = [first].into_iter().chain(pools).filter(is_alias);
        doubts.extend(hidden.map(|pool| pools::hidden_text(&pool.name)));
    }
    doubts
}

/// Reads a zone and checks it against its settings. The faults include an error if the zone cannot
/// be served.
fn checked(config: &ZoneConfig, open: OpenFile<'_>) -> Option<(Option<HostedZone>, Faults)> {
    let (zone, mut faults) = load_from(config, open)?;
    if let Some(zone) = &zone {
        let mut errors: Vec<_> = fault_of_digest(config.zonemd, zone)
            .map(ZoneProblem::Digest)
            .into_iter()
            .chain(signing::fault_of_signing(config, zone))
            .collect();
        if !config.allow_transfer.is_empty()
            && config.transfer_alias == AliasTransfer::Refuse
            && let Some(alias) = zone.first_alias()
        {
            let owner = NameBuf::from_wire(alias.wire()).unwrap_or(NameBuf::ROOT);
            let reason = ZoneProblem::AliasNotTransferred(owner);
            faults.add(Severity::Warning, &config.file, reason);
        }
        if zone.is_signed() && config.digest.is_some() && config.signing.is_none() {
            errors.push(ZoneProblem::DigestOfSigned);
        }
        errors.into_iter().for_each(|one| faults.add(Severity::Error, &config.file, one));
    }
    Some((zone, faults))
}

/// Reads a file with at most this many octets.
///
/// # Errors
/// The file is missing, unreadable, too large or no regular file.
pub fn open(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no such file");
    disk::read(path, most)?.ok_or_else(missing)
}

/// The zones of the configuration in force with the state of their files. No lock is held while a
/// file is read, so a slow disk does not delay requests for the state.
#[derive(Default)]
pub struct ZoneFiles {
    kept: Mutex<KeptZones>,
    /// The number of readings that have begun.
    readings: AtomicU64,
    signers: KnownSigners,
}

/// The zones of a configuration that is not in force yet.
pub struct ReadZones(KeptZones);

/// The reason why a changed version of a zone cannot be put in force.
#[derive(Debug, thiserror::Error)]
pub enum ZoneChangeError<E> {
    /// The zone has no version in force.
    #[error("no version of the zone is in force")]
    NotLoaded,
    /// The change is refused.
    #[error("{0}")]
    Refused(E),
    /// The change cannot be written to the disk.
    #[error("cannot keep the change on disk: {0}")]
    Disk(io::Error),
    /// The change would replace a file that was edited, if the edit is not read yet or has errors.
    #[error("the file was edited and is not read yet, or has errors")]
    Edited {
        /// The file with a copy of an earlier edit, which a later edit replaced.
        kept: Option<PathBuf>,
    },
    /// The zone can no longer be signed.
    #[error("{0}")]
    Unsignable(Box<ZoneProblem>),
    /// The digest that `zonemd` verified would differ from the digest of the records.
    #[error("{0}; set zonemd = \"ignore\", or write the file with its new digest")]
    Digest(DigestFault),
}

impl<E> From<ReplaceFault> for ZoneChangeError<E> {
    fn from(fault: ReplaceFault) -> Self {
        match fault.reason {
            ReplaceReason::Changed => Self::Edited { kept: fault.kept },
            ReplaceReason::System(_) => Self::Disk(io::Error::other(fault)),
        }
    }
}

/// The serials of a zone that is loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneSerials {
    /// The serial of the source, which is the version before this server signs it.
    pub source: u32,
    /// The serial of the version in force. If the source cannot be published, the serial of the
    /// source.
    pub current: u32,
    /// The reason why the source cannot be published, if there is one.
    pub signing_fault: Option<String>,
}

/// Zones by name and view.
type KeptZones = BTreeMap<ZoneId, KeptZone>;

/// The state of a zone and its file.
pub struct ZoneFileState {
    /// The zone.
    pub id: ZoneId,
    /// The file.
    pub file: PathBuf,
    /// The version in force.
    pub zone: Option<Arc<HostedZone>>,
    /// The Unix second at which the zone was read.
    pub loaded_at_secs: Option<u64>,
    /// Number of times that reading the file failed.
    pub failures: u64,
    /// The first error of the last reading.
    pub fault: Option<String>,
    /// The Unix second at which a zone of another server expires.
    pub expires_at_secs: Option<u64>,
}

impl ZoneFiles {
    /// Reads the zones of the configuration that a server starts with.
    #[must_use]
    pub fn of(configured: &[ZoneConfig]) -> Self {
        let files = Self::default();
        renamed::adopt(configured);
        files.put(files.read(configured));
        files
    }

    /// Reads the files of zones that another process may still change. No zone is in force until
    /// [`Self::begin`].
    #[must_use]
    pub fn prepared(configured: &[ZoneConfig]) -> Self {
        let files = Self::default();
        let mut kept = files.kept();
        for config in configured {
            let prepared = PreparedZone::read(config);
            kept.insert(config.id(), KeptZone { prepared, ..KeptZone::new(config.clone()) });
        }
        drop(kept);
        files
    }

    /// Reads the state of the zones that this process owns from now on, and puts it in force.
    pub fn begin(&self, configured: &[ZoneConfig]) {
        renamed::adopt(configured);
        let prepared: Vec<_> = self
            .kept()
            .values_mut()
            .map(|zone| {
                let prepared = std::mem::take(&mut zone.prepared);
                // The other files of the zone may have changed since the zone was prepared.
                KeptZone { prepared, ..KeptZone::new(zone.config.clone()) }
            })
            .collect();
        *self.kept() = prepared.into_iter().map(|zone| (zone.config.id(), zone)).collect();
        self.put(self.read(configured));
    }

    /// Returns the zones of a configuration, to be passed to [`Self::put`] if the configuration
    /// comes into force. Reads zones that are new or have changed files, even if a file was just
    /// written. A zone with errors keeps its earlier version.
    pub fn read(&self, configured: &[ZoneConfig]) -> ReadZones {
        let mut zones = self.kept().clone();
        let ids: Vec<_> = configured.iter().map(ZoneConfig::id).collect();
        let wanted: BTreeSet<_> = ids.iter().collect();
        zones.retain(|id, _| wanted.contains(id));
        for (config, id) in configured.iter().zip(&ids) {
            let new = || KeptZone::new(config.clone());
            let zone = zones.entry(id.clone()).or_insert_with(new);
            let journal = zone.journal.clone();
            let mut journal = lock(&journal);
            if let Some(now) = self.kept().get(id) {
                *zone = now.clone();
            }
            let is_read = zone.reading > 0 && zone.is_read_alike(config);
            let is_published_so = is_published_alike(&zone.config, config);
            zone.config = config.clone();
            let is_new = (!is_read || zone.now() != zone.seen)
                && zone.load(self.next_reading(), &mut journal, &self.signers);
            if !is_new && !is_published_so {
                zone.reading = self.next_reading();
                zone.sign(&self.signers);
            }
        }
        ReadZones(zones)
    }

    /// Puts the zones of a configuration that is now in force in place of the previous zones.
    pub fn put(&self, ReadZones(mut zones): ReadZones) {
        // A zone that gets another file does not change until it is in force with this file. Its
        // changes since it was read are on disk already, and must not be lost.
        let journals = self.moved(&zones);
        let mut locked: Vec<_> = journals.iter().map(|(id, journal)| (id, lock(journal))).collect();
        for (id, journal) in &mut locked {
            let present = self.kept().get(*id).cloned();
            if let (Some(zone), Some(present)) = (zones.get_mut(*id), present)
                && present.reading > zone.reading
            {
                *zone = KeptZone { config: zone.config.clone(), ..present };
                zone.load(self.next_reading(), journal, &self.signers);
            }
        }
        let mut kept = self.kept();
        for (id, zone) in &mut zones {
            // Another thread began a later reading of this zone, so the version of that thread is
            // kept.
            if let Some(other) = kept.remove(id)
                && other.config.file == zone.config.file
                && other.reading > zone.reading
            {
                let is_published_so = is_published_alike(&other.config, &zone.config);
                *zone = KeptZone { config: zone.config.clone(), ..other };
                if !is_published_so {
                    zone.sign(&self.signers);
                }
            }
        }
        self.signers.retain(|id| zones.get(id).is_some_and(|zone| zone.config.signing.is_some()));
        *kept = zones;
    }

    /// Returns the zones in force that have another file in `zones`, with their journals.
    fn moved(&self, zones: &KeptZones) -> Vec<(ZoneId, Arc<Mutex<ZoneJournal>>)> {
        let kept = self.kept();
        let moved = kept.iter().filter(|(id, present)| {
            zones.get(*id).is_some_and(|zone| zone.config.file != present.config.file)
        });
        moved.map(|(id, present)| (id.clone(), present.journal.clone())).collect()
    }

    /// Reads the zones with files that have changed and then stayed the same for the configured
    /// time, and writes the files of changed zones. Returns whether a zone was replaced. `now_secs`
    /// may come from any clock.
    pub fn watch(&self, now_secs: u64) -> bool {
        let ids: Vec<_> = self.kept().keys().cloned().collect();
        let mut is_replaced = false;
        for id in ids {
            let look = |zone: &mut KeptZone, journal: &mut ZoneJournal| {
                let is_edited = !zone.config.is_secondary() && zone.has_settled(now_secs);
                let is_new = is_edited && zone.load(self.next_reading(), journal, &self.signers);
                if zone.write_back(now_secs, journal) {
                    // A reading that began earlier does not know that the server wrote the file.
                    zone.reading = self.next_reading();
                }
                zone.retry_publication();
                zone.review_aside(journal);
                is_new
            };
            is_replaced |= self.alter(&id, look) == Some(true);
        }
        is_replaced
    }

    /// Changes the state of a zone with `alter`. Returns the result of `alter`; `None` if the zone
    /// or its file changed meanwhile, so that the new state is discarded.
    fn alter<T>(
        &self,
        id: &ZoneId,
        alter: impl FnOnce(&mut KeptZone, &mut ZoneJournal) -> T,
    ) -> Option<T> {
        let journal = self.kept().get(id)?.journal.clone();
        let mut journal = lock(&journal);
        let mut zone = self.kept().get(id)?.clone();
        let altered = alter(&mut zone, &mut journal);
        self.store(zone).then_some(altered)
    }

    /// Makes a new version from the version in force with `make`, and puts the new version in
    /// force, signed if the zone is signed here. When this function returns, the change is in the
    /// journal, on disk. If `make` returns `None`, nothing changes. `make` takes and returns a zone
    /// without the signatures of this server.
    ///
    /// # Errors
    /// There is no version in force, `make` has an error, or the disk is full.
    pub fn change<E>(
        &self,
        id: &ZoneId,
        make: impl FnOnce(&HostedZone) -> Result<Option<HostedZone>, E>,
    ) -> Result<Option<Arc<HostedZone>>, ZoneChangeError<E>> {
        let change = |zone: &mut KeptZone, journal: &mut ZoneJournal| {
            let before = zone.source.clone().ok_or(ZoneChangeError::NotLoaded)?;
            let Some(after) = make(&before).map_err(ZoneChangeError::Refused)? else {
                return Ok(None);
            };
            // A restart would refuse this version. Transfers are checked when they arrive.
            if !zone.config.is_secondary()
                && let Some(fault) = fault_of_digest(zone.config.zonemd, &after)
            {
                return Err(ZoneChangeError::Digest(fault));
            }
            if let Some(fault) = signing::fault_of_signing(&zone.config, &after) {
                return Err(ZoneChangeError::Unsignable(Box::new(fault)));
            }
            zone.begin_journal(&before);
            let needed = changes_behind(&before, zone.taken.as_ref().map(|taken| taken.to));
            let after = Arc::new(after.following(&before, needed));
            let keeps_changes = zone.config.keeps_changes();
            if !keeps_changes || after.changes().is_empty() {
                // The file is written immediately if there is no journal, or if the change is
                // longer than the zone.
                if zone.has_unread_edit() {
                    return Err(ZoneChangeError::Edited { kept: None });
                }
                zone.write(&after).inspect_err(|fault| {
                    if fault.kept.is_some() {
                        tracing::error!("zone {id}: {fault}");
                    }
                })?;
            }
            if keeps_changes {
                journal.follow(&after, zone.taken.as_ref()).map_err(ZoneChangeError::Disk)?;
            }
            if zone.base.is_none()
                && zone.config.is_own_file()
                && zone.on_file == Some(before.version())
            {
                zone.base = Some(before);
            }
            zone.is_changed_here |= !zone.config.is_secondary();
            // The fault stays, because an edited file with errors still has these errors.
            (zone.source, zone.loaded_at_secs) = (Some(after.clone()), Some(wall_secs()));
            zone.reading = self.next_reading();
            // The change is kept even if it cannot be signed now. The next attempt signs it.
            zone.sign(&self.signers);
            Ok(Some(after))
        };
        self.alter(id, change).unwrap_or(Err(ZoneChangeError::NotLoaded))
    }

    /// Reads the zone with this ID, or all zones without an ID, even if the files have not changed.
    /// Returns whether the zone exists.
    pub fn reload(&self, id: Option<&ZoneId>) -> bool {
        let mut ids: Vec<_> = self.kept().keys().cloned().collect();
        ids.retain(|zone| id.is_none_or(|id| zone == id));
        let is_known = id.is_none() || !ids.is_empty();
        for id in ids {
            self.alter(&id, |zone, journal| zone.load(self.next_reading(), journal, &self.signers));
        }
        is_known
    }

    /// Returns the version of a zone that is in force, without the signatures of this server.
    #[must_use]
    pub fn source(&self, id: &ZoneId) -> Option<Arc<HostedZone>> {
        self.kept().get(id)?.source.clone()
    }

    /// Returns the serials of a zone.
    #[must_use]
    pub fn serials(&self, id: &ZoneId) -> Option<ZoneSerials> {
        let kept = self.kept();
        let zone = kept.get(id)?;
        let source = zone.source.as_ref()?.serial();
        let published = zone.zone.as_ref().filter(|_| zone.signing_fault.is_none());
        let current = published.map_or(source, |zone| zone.serial());
        Some(ZoneSerials { source, current, signing_fault: zone.signing_fault.clone() })
    }

    /// Returns the file of a zone if the file would lose its comments when the server writes the
    /// version `after`.
    #[must_use]
    pub fn losing_comments(&self, id: &ZoneId, after: &HostedZone) -> Option<PathBuf> {
        let zone = self.kept().get(id)?.clone();
        let is_ours = zone.is_written().ok()?;
        let file = zone.config.file;
        (!is_ours && with_comments(&file, after).is_none()).then_some(file)
    }

    /// Returns the timers of the SOA record of a zone in force.
    #[must_use]
    pub fn timers(&self, id: &ZoneId) -> Option<Timers> {
        timers_of(&*self.source(id)?)
    }

    /// Records that a primary has the version in force.
    ///
    /// # Errors
    /// The modification time of the zone's file cannot be set.
    pub fn confirm(&self, id: &ZoneId) -> io::Result<()> {
        let confirm = |zone: &mut KeptZone, _: &mut ZoneJournal| {
            zone.reading = self.next_reading();
            zone.confirm(wall_secs())
        };
        self.alter(id, confirm).unwrap_or(Ok(()))
    }

    /// Withdraws zones of other servers that no primary has confirmed for the expiry time in their
    /// SOA record. Returns whether any zone was withdrawn.
    pub fn expire(&self, now_secs: u64) -> bool {
        let mut is_expired = false;
        for zone in self.kept().values_mut() {
            if zone.source.is_some() && zone.expires_at_secs().is_some_and(|at| at <= now_secs) {
                tracing::error!("zone {} has expired", zone.config.id());
                zone.withdraw();
                // A reading that began with the earlier state must not restore that state.
                zone.reading = self.next_reading();
                is_expired = true;
            }
        }
        is_expired
    }

    /// Keeps the new state of a zone, unless the configuration has changed meanwhile, or a later
    /// reading has ended. Returns whether the state is kept.
    fn store(&self, zone: KeptZone) -> bool {
        let mut kept = self.kept();
        let Some(place) = kept.get_mut(&zone.config.id()) else { return false };
        let is_latest = place.config == zone.config && place.reading <= zone.reading;
        if is_latest {
            *place = zone;
        }
        is_latest
    }

    fn kept(&self) -> MutexGuard<'_, KeptZones> {
        lock(&self.kept)
    }

    fn next_reading(&self) -> u64 {
        self.readings.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns all zones.
    pub fn current(&self) -> Arc<HostedZones> {
        all(&self.kept())
    }

    /// Returns the state of each zone, by name and view.
    pub fn states(&self) -> Vec<ZoneFileState> {
        let kept = self.kept();
        let state = |zone: &KeptZone| ZoneFileState {
            id: zone.config.id(),
            file: zone.config.file.clone(),
            zone: zone.zone.clone(),
            loaded_at_secs: zone.loaded_at_secs,
            failures: zone.failures,
            fault: zone.fault.as_ref().or(zone.signing_fault.as_ref()).cloned(),
            expires_at_secs: zone.expires_at_secs(),
        };
        kept.values().map(state).collect()
    }

    /// Returns a zone that another process could not serve, because the zone's file now has errors
    /// and this process serves an earlier version.
    pub fn not_readable(&self) -> Option<ZoneId> {
        let served: Vec<_> =
            self.kept().values().filter(|zone| zone.zone.is_some()).cloned().collect();
        let has_errors = |zone: &KeptZone| {
            let is_large = || {
                let facts = std::fs::metadata(&zone.config.file);
                facts.is_ok_and(|facts| facts.len() > MAX_CHECKED)
            };
            // To check a very large file would delay the take-over.
            (zone.fault.is_some() || zone.now() != zone.seen && !is_large())
                && checked(&zone.config, &mut open).is_some_and(|(read, faults)| {
                    let mut faults = faults.list().into_iter();
                    read.is_none() || faults.any(|fault| fault.severity == Severity::Error)
                })
        };
        served.iter().find(|zone| has_errors(zone)).map(|zone| zone.config.id())
    }

    /// Returns the errors of the last readings, one sentence for each zone with an error; `None`
    /// without errors.
    pub fn fault(&self) -> Option<String> {
        let kept = self.kept();
        let faults: Vec<_> = kept.values().filter_map(KeptZone::sentence).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}

impl ReadZones {
    /// Returns all zones.
    #[must_use]
    pub fn zones(&self) -> Arc<HostedZones> {
        all(&self.0)
    }
}

/// Returns whether the same source is published in the same form, and the answers of its pools have
/// the same TTL, with both settings of a zone.
fn is_published_alike(one: &ZoneConfig, other: &ZoneConfig) -> bool {
    one.signing == other.signing
        && one.pools_ttl_secs == other.pools_ttl_secs
        && one.digest == other.digest
        && one.transfer_alias == other.transfer_alias
}

fn timers_of(zone: &HostedZone) -> Option<Timers> {
    Timers::of(zone.soa()?.rdata)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn all(kept: &KeptZones) -> Arc<HostedZones> {
    let zones = || kept.iter().map(|(id, kept)| (id, kept.zone.clone()));
    let common = zones().filter(|(id, _)| id.is_common());
    let common: HostedZones = common.map(|(id, zone)| (id.name.clone(), zone)).collect();
    let viewed = zones().filter(|(id, _)| !id.is_common());
    Arc::new(common.with_views(viewed.map(|(id, zone)| (id.clone(), zone))))
}

#[cfg(test)]
mod kept_changes_tests;
#[cfg(test)]
mod tests;
