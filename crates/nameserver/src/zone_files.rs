//! The files of hosted zones: read, checked and watched. An unusable file never replaces a zone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use avocet_config::name::shown;
use avocet_config::zone::ZoneConfig;
use avocet_resolver::Timers;
use avocet_wire::FoldedName;
use avocet_zone::{
    Faults, HostedZone, HostedZones, JournalContent, OpenFile, Severity, ZoneVersion,
};

use crate::clock::wall_secs;
use crate::disk;
use crate::file_watch::FileFingerprint;
use crate::zone_comments::with_comments;
use crate::zone_journal::ZoneJournal;
use crate::zone_source::load_from;
use crate::zone_versions::{RestoredZone, changes_behind, merged, raised, raised_over, restored};

mod signing;

use signing::KnownSigners;

/// Reads and checks a zone from its file. Returns it if it has no errors, and all faults.
#[must_use]
pub fn load(name: FoldedName<'_>, file: &Path) -> (Option<HostedZone>, Faults) {
    avocet_zone::load(name, file, wall_secs(), &mut open)
}

/// Reads and checks a zone of the configuration from its file. Returns all faults.
#[must_use]
pub fn faults_of(config: &ZoneConfig) -> Faults {
    load_from(config, &mut open).map(|(_, faults)| faults).unwrap_or_default()
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
/// file is read: a slow disk delays nobody who asks for the state.
#[derive(Default)]
pub struct ZoneFiles {
    kept: Mutex<KeptZones>,
    /// The number of readings that have begun.
    readings: AtomicU64,
    signers: KnownSigners,
}

/// The zones of a configuration that is not in force yet.
pub struct ReadZones(KeptZones);

/// The state of a zone of another server that no primary has confirmed for too long.
const EXPIRED: &str = "it has expired: no primary has confirmed it for the time in its SOA record";
/// The state of a zone of another server without a copy.
const NO_COPY: &str = "it has not been transferred yet";

/// The first line of a file that the server writes, without the serial.
const WRITTEN: &str = "; Written by Avocet from its changes; comments are not kept. Serial ";
/// Seconds between two writings of a file for each second that one takes.
const WRITE_PAUSE: u64 = 20;
/// Octets of a zone that are written in a second, at least.
const WRITTEN_IN_SECOND: u64 = 16 << 20;

/// Why a version cannot be put in force.
#[derive(Debug, thiserror::Error)]
pub enum ZoneChangeError<E> {
    /// There is no version to change.
    #[error("no version of the zone is in force")]
    NotLoaded,
    /// The change is refused.
    #[error("{0}")]
    Refused(E),
    /// The change cannot be kept.
    #[error("cannot keep the change on disk: {0}")]
    Disk(io::Error),
    /// The change would replace a file that was edited and not read yet, or that has errors.
    #[error("the file was edited and is not read yet, or has errors")]
    Edited,
}

/// The serials of a zone that is loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneSerials {
    /// The serial without signing by this server.
    pub source: u32,
    /// The serial in force; that of the source while that is held back.
    pub current: u32,
    /// Why the source is held back.
    pub signing_fault: Option<String>,
}

/// Zones by name.
type KeptZones = BTreeMap<Box<[u8]>, KeptZone>;

/// The fingerprints of the files that a zone was read from, the included ones too, each from before
/// the file was opened: a change while a file is read counts as one after it.
type SeenFiles = BTreeMap<PathBuf, Option<FileFingerprint>>;

/// The state of a zone and its file.
pub struct ZoneFileState {
    /// The name, folded, in wire form.
    pub name: Box<[u8]>,
    /// The file.
    pub file: PathBuf,
    /// The version in force.
    pub zone: Option<Arc<HostedZone>>,
    /// The Unix second at which it was read.
    pub loaded_at_secs: Option<u64>,
    /// Readings with errors.
    pub failures: u64,
    /// The first error of the last reading.
    pub fault: Option<String>,
    /// The Unix second at which a zone of another server expires.
    pub expires_at_secs: Option<u64>,
}

/// A zone and the state of its files.
#[derive(Clone)]
struct KeptZone {
    config: ZoneConfig,
    /// The number of the last reading. Of two at the same time, the one that began later counts.
    reading: u64,
    seen: SeenFiles,
    /// The fingerprints of a change that has not settled, and the second they were first seen.
    unsettled: Option<(SeenFiles, u64)>,
    /// The version that was read, with the changes since: without the signatures of this server.
    source: Option<Arc<HostedZone>>,
    /// The version in force: the same, or the last one that could be signed if it is to be.
    zone: Option<Arc<HostedZone>>,
    loaded_at_secs: Option<u64>,
    failures: u64,
    /// The first error of the last reading.
    fault: Option<String>,
    /// Held while the zone changes.
    journal: Arc<Mutex<ZoneJournal>>,
    /// The version that the file has.
    on_file: Option<ZoneVersion>,
    /// The same, while `source` is another one, so that an edited file can be merged.
    base: Option<Arc<HostedZone>>,
    /// Whether this server has changed the zone of a file since the start.
    is_changed_here: bool,
    /// The second, on the clock of [`ZoneFiles::watch`], at which the file may be written next.
    next_write_secs: u64,
    /// Why the file could not be written.
    write_fault: Option<String>,
    /// Why `source` is held back.
    signing_fault: Option<String>,
}

impl ZoneFiles {
    /// Reads the zones of the configuration that a server starts with.
    #[must_use]
    pub fn of(configured: &[ZoneConfig]) -> Self {
        let files = Self::default();
        files.put(files.read(configured));
        files
    }

    /// Returns the zones of a configuration, to be passed to [`Self::put`] if that comes into
    /// force. Reads those that are new or have changed files, even if a file was just written. A
    /// zone with errors keeps its earlier version.
    pub fn read(&self, configured: &[ZoneConfig]) -> ReadZones {
        let mut zones = self.kept().clone();
        zones.retain(|name, _| configured.iter().any(|zone| zone.name == *name));
        for config in configured {
            let new = || KeptZone::new(config.clone());
            let zone = zones.entry(config.name.clone()).or_insert_with(new);
            let journal = zone.journal.clone();
            let mut journal = lock(&journal);
            if let Some(now) = self.kept().get(&config.name) {
                *zone = now.clone();
            }
            let is_read = zone.reading > 0 && zone.config.file == config.file;
            let is_signed_so = zone.config.signing == config.signing;
            zone.config = config.clone();
            let is_new = (!is_read || zone.now() != zone.seen)
                && zone.load(self.next_reading(), &mut journal, &self.signers);
            if !is_new && !is_signed_so {
                zone.reading = self.next_reading();
                zone.sign(&self.signers);
            }
        }
        ReadZones(zones)
    }

    /// Keeps the zones of a configuration that is in force now.
    pub fn put(&self, ReadZones(mut zones): ReadZones) {
        let mut kept = self.kept();
        for (name, zone) in &mut zones {
            // A version that another thread began to read later.
            if let Some(other) = kept.remove(name)
                && other.config.file == zone.config.file
                && other.reading > zone.reading
            {
                *zone = KeptZone { config: zone.config.clone(), ..other };
            }
        }
        *kept = zones;
    }

    /// Reads the zones with files that have changed and then stayed the same for the time of their
    /// configuration. Returns whether a zone was replaced. `now_secs` is on any clock.
    pub fn watch(&self, now_secs: u64) -> bool {
        let names: Vec<_> = self.kept().keys().cloned().collect();
        let mut is_replaced = false;
        for name in names {
            let look = |zone: &mut KeptZone, journal: &mut ZoneJournal| {
                let is_edited = !zone.config.is_secondary() && zone.has_settled(now_secs);
                let is_new = is_edited && zone.load(self.next_reading(), journal, &self.signers);
                zone.write_back(now_secs, journal);
                is_new
            };
            is_replaced |= self.alter(&name, look) == Some(true);
        }
        is_replaced
    }

    /// Changes the state of a zone while nothing else does. Returns what `alter` does, if the
    /// state is kept.
    fn alter<T>(
        &self,
        name: &[u8],
        alter: impl FnOnce(&mut KeptZone, &mut ZoneJournal) -> T,
    ) -> Option<T> {
        let journal = self.kept().get(name)?.journal.clone();
        let mut journal = lock(&journal);
        let mut zone = self.kept().get(name)?.clone();
        let altered = alter(&mut zone, &mut journal);
        self.store(zone).then_some(altered)
    }

    /// Puts the version in force that `make` makes from the one before, signed if it is to be. It
    /// is in the journal, on disk, when this returns. `None` from `make` changes nothing. Both are
    /// versions without the signatures of this server.
    ///
    /// # Errors
    /// There is no version in force, `make` has an error, or the disk is full.
    pub fn change<E>(
        &self,
        name: &[u8],
        make: impl FnOnce(&HostedZone) -> Result<Option<HostedZone>, E>,
    ) -> Result<Option<Arc<HostedZone>>, ZoneChangeError<E>> {
        let change = |zone: &mut KeptZone, journal: &mut ZoneJournal| {
            let before = zone.source.clone().ok_or(ZoneChangeError::NotLoaded)?;
            let Some(after) = make(&before).map_err(ZoneChangeError::Refused)? else {
                return Ok(None);
            };
            let needed = changes_behind(&before, zone.on_file);
            let after = Arc::new(after.following(&before, needed));
            let keeps_changes = zone.config.keeps_changes();
            if !keeps_changes || after.changes().is_empty() {
                // Without a journal, or with a change that is longer than the zone.
                if zone.has_unread_edit() {
                    return Err(ZoneChangeError::Edited);
                }
                zone.write(&after).map_err(ZoneChangeError::Disk)?;
            }
            if keeps_changes {
                journal.follow(&after).map_err(ZoneChangeError::Disk)?;
            }
            if zone.base.is_none()
                && zone.config.is_own_file()
                && zone.on_file == Some(before.version())
            {
                zone.base = Some(before);
            }
            zone.is_changed_here |= !zone.config.is_secondary();
            // An edited file with errors still has them.
            (zone.source, zone.loaded_at_secs) = (Some(after.clone()), Some(wall_secs()));
            zone.reading = self.next_reading();
            // The change is kept even if it cannot be signed now: the next attempt signs it.
            zone.sign(&self.signers);
            Ok(Some(after))
        };
        self.alter(name, change).unwrap_or(Err(ZoneChangeError::NotLoaded))
    }

    /// Reads a zone, or all without a name, even if the files have not changed. Returns whether
    /// there is such a zone.
    pub fn reload(&self, name: Option<&[u8]>) -> bool {
        let is_chosen = |zone: &[u8]| name.is_none_or(|name| *zone == *name);
        let mut names: Vec<_> = self.kept().keys().cloned().collect();
        names.retain(|zone| is_chosen(zone));
        let is_known = name.is_none() || !names.is_empty();
        for name in names {
            self.alter(&name, |zone, journal| {
                zone.load(self.next_reading(), journal, &self.signers)
            });
        }
        is_known
    }

    /// Returns the version of a zone that is in force, without the signatures of this server.
    #[must_use]
    pub fn source(&self, name: &[u8]) -> Option<Arc<HostedZone>> {
        self.kept().get(name)?.source.clone()
    }

    /// Returns the serials of a zone.
    #[must_use]
    pub fn serials(&self, name: &[u8]) -> Option<ZoneSerials> {
        let kept = self.kept();
        let zone = kept.get(name)?;
        let source = zone.source.as_ref()?.serial();
        let published = zone.zone.as_ref().filter(|_| zone.signing_fault.is_none());
        let current = published.map_or(source, |zone| zone.serial());
        Some(ZoneSerials { source, current, signing_fault: zone.signing_fault.clone() })
    }

    /// Returns the file of a zone if it loses its comments when the server writes this version.
    #[must_use]
    pub fn losing_comments(&self, name: &[u8], after: &HostedZone) -> Option<PathBuf> {
        let zone = self.kept().get(name)?.clone();
        let is_ours = zone.is_written().ok()?;
        let file = zone.config.file;
        (!is_ours && with_comments(&file, after).is_none()).then_some(file)
    }

    /// Returns the timers of the SOA record of a zone in force.
    #[must_use]
    pub fn timers(&self, name: &[u8]) -> Option<Timers> {
        timers_of(&*self.source(name)?)
    }

    /// Records that a primary has the version in force.
    ///
    /// # Errors
    /// The time of its file cannot be set.
    pub fn confirm(&self, name: &[u8]) -> io::Result<()> {
        let Some(file) = self.kept().get(name).map(|zone| zone.config.file.clone()) else {
            return Ok(());
        };
        File::options()
            .append(true)
            .open(file)?
            .set_modified(UNIX_EPOCH + Duration::from_secs(wall_secs()))
    }

    /// Withdraws zones of other servers that no primary has confirmed for the time in their SOA
    /// record. Returns whether there are any.
    pub fn expire(&self, now_secs: u64) -> bool {
        let mut is_expired = false;
        for zone in self.kept().values_mut() {
            if zone.source.is_some() && zone.expires_at_secs().is_some_and(|at| at <= now_secs) {
                tracing::error!("zone {} has expired", shown(&zone.config.name));
                zone.withdraw();
                is_expired = true;
            }
        }
        is_expired
    }

    /// Keeps the state of a zone, unless the configuration has changed or a later reading has
    /// ended meanwhile. Returns whether it is kept.
    fn store(&self, zone: KeptZone) -> bool {
        let mut kept = self.kept();
        let Some(place) = kept.get_mut(&zone.config.name) else { return false };
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

    /// Returns the state of each zone, by name.
    pub fn states(&self) -> Vec<ZoneFileState> {
        let kept = self.kept();
        let state = |zone: &KeptZone| ZoneFileState {
            name: zone.config.name.clone(),
            file: zone.config.file.clone(),
            zone: zone.zone.clone(),
            loaded_at_secs: zone.loaded_at_secs,
            failures: zone.failures,
            fault: zone.fault.as_ref().or(zone.signing_fault.as_ref()).cloned(),
            expires_at_secs: zone.expires_at_secs(),
        };
        kept.values().map(state).collect()
    }

    /// Returns the errors of the last readings in one sentence each, if there are any.
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

fn timers_of(zone: &HostedZone) -> Option<Timers> {
    Timers::of(zone.soa()?.rdata)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn all(kept: &KeptZones) -> Arc<HostedZones> {
    let zones = kept.iter().map(|(name, kept)| (name.clone(), kept.zone.clone()));
    Arc::new(zones.collect())
}

impl KeptZone {
    fn new(config: ZoneConfig) -> Self {
        let journal = ZoneJournal::at(config.journal.clone());
        Self {
            config,
            journal: Arc::new(Mutex::new(journal)),
            on_file: None,
            base: None,
            is_changed_here: false,
            next_write_secs: 0,
            write_fault: None,
            signing_fault: None,
            reading: 0,
            seen: SeenFiles::new(),
            unsettled: None,
            source: None,
            zone: None,
            loaded_at_secs: None,
            failures: 0,
            fault: None,
        }
    }

    /// Returns the present fingerprints of the known files.
    fn now(&self) -> SeenFiles {
        let files = self.seen.keys();
        files.map(|path| (path.clone(), FileFingerprint::of(path))).collect()
    }

    fn has_settled(&mut self, now_secs: u64) -> bool {
        let now = self.now();
        if now == self.seen {
            self.unsettled = None;
            return false;
        }
        let since = match &self.unsettled {
            Some((seen, since)) if *seen == now => *since,
            _ => {
                self.unsettled = Some((now, now_secs));
                return false;
            }
        };
        now_secs.saturating_sub(since) >= u64::from(self.config.settle_secs)
    }

    /// Reads the file. Returns whether the zone was replaced.
    fn load(&mut self, reading: u64, journal: &mut ZoneJournal, signers: &KnownSigners) -> bool {
        self.load_by(reading, journal, &mut open) && self.publish(signers)
    }

    /// Takes the version of the file, which a function opens. Returns whether there is one.
    fn load_by(&mut self, reading: u64, journal: &mut ZoneJournal, open: OpenFile<'_>) -> bool {
        (self.reading, self.unsettled) = (reading, None);
        if self.config.is_secondary() && !self.config.file.exists() {
            self.fault = Some(NO_COPY.to_owned());
            return false;
        }
        let seen = &mut self.seen;
        seen.clear();
        let mut open_seen = |path: &Path, most: u64| {
            seen.entry(path.into()).or_insert_with(|| FileFingerprint::of(path));
            open(path, most)
        };
        let Some((zone, faults)) = load_from(&self.config, &mut open_seen) else { return false };
        let text = shown(&self.config.name);
        for fault in faults.list() {
            match fault.severity {
                Severity::Error => tracing::error!("zone {text} {fault}"),
                Severity::Warning => tracing::warn!("zone {text} {fault}"),
            }
        }
        let Some(zone) = zone else {
            let first = faults.list().into_iter().find(|fault| fault.severity == Severity::Error);
            self.fault = first.map(|fault| fault.to_string());
            self.failures += 1;
            return false;
        };
        if self.expiry_of(&zone).is_some_and(|at| at <= wall_secs()) {
            self.withdraw();
            return false;
        }
        let zone = self.settled_version(zone, journal);
        let (serial, records) = (zone.serial(), zone.records());
        tracing::info!(serial, records, "zone {text} loaded");
        self.source = Some(zone);
        true
    }

    /// Returns the version to serve after the file was read, and keeps its changes.
    fn settled_version(&mut self, file: HostedZone, journal: &mut ZoneJournal) -> Arc<HostedZone> {
        if !self.config.keeps_changes() {
            let served = self.source.as_deref().filter(|_| self.config.is_raised());
            return Arc::new(served.and_then(|served| raised(served, &file)).unwrap_or(file));
        }
        let before = self.on_file.replace(file.version());
        let (other, changes) = match &self.source {
            // The file is as the server wrote it, before the changes that it does not have yet.
            Some(served) if before == self.on_file && before != Some(served.version()) => {
                return served.clone();
            }
            Some(served) => {
                let base = self.base.as_ref().filter(|_| before != Some(served.version()));
                let other = match base {
                    Some(base) => merged(served, base, &file),
                    // Who wrote the file may not know the serials of this server.
                    None if self.config.is_raised() || self.is_changed_here => {
                        raised(served, &file)
                    }
                    None => None,
                };
                (other, Vec::new())
            }
            None => {
                let content = self.read_journal(journal);
                let RestoredZone { other, changes } = restored(&file, &content);
                let is_provided = other.is_none() && self.config.provided.is_some();
                let raised = is_provided.then(|| raised_over(&content, &file)).flatten();
                (other.or(raised), changes)
            }
        };
        let served = self.source.as_deref();
        let (zone, base) = match (other, served) {
            (Some(other), Some(served)) if other.changes().is_empty() => {
                (other.following(served, usize::MAX - 1), Some(file))
            }
            (Some(other), _) => (other, Some(file)),
            (None, Some(served)) => (file.following(served, 0), None),
            (None, None) => (file.with_changes(changes), None),
        };
        self.base = base.filter(|_| self.config.is_own_file()).map(Arc::new);
        if let Err(error) = journal.follow(&zone) {
            let name = shown(&self.config.name);
            tracing::error!("zone {name}: cannot keep its changes on disk: {error}");
        }
        Arc::new(zone)
    }

    fn read_journal(&self, journal: &mut ZoneJournal) -> JournalContent {
        let file = self.config.journal.display();
        let name = shown(&self.config.name);
        let content = FoldedName::new(&self.config.name).map(|apex| journal.read(apex));
        let content = content.unwrap_or_else(|| Ok(JournalContent::default()));
        let content = content.unwrap_or_else(|error| {
            tracing::error!("zone {name}: cannot read the journal {file}: {error}");
            JournalContent::default()
        });
        if content.cut > 0 {
            tracing::warn!(
                octets = content.cut,
                "zone {name}: the end of the journal {file} is not usable and was cut off: the \
                 server was killed while it wrote"
            );
        }
        content
    }

    /// Puts the version that was read in force, signed if it is to be. Returns whether it is.
    fn publish(&mut self, signers: &KnownSigners) -> bool {
        self.fault = None;
        let is_signed = self.sign(signers);
        if is_signed {
            self.loaded_at_secs = Some(wall_secs());
        }
        is_signed
    }

    /// Withdraws a zone of another server.
    fn withdraw(&mut self) {
        (self.source, self.zone) = (None, None);
        (self.fault, self.signing_fault) = (Some(EXPIRED.to_owned()), None);
    }

    /// Writes the version without signatures to the file if that has another one, but not more
    /// often than takes a twentieth of the time, and never over an edit that was not read.
    fn write_back(&mut self, now_secs: u64, journal: &mut ZoneJournal) {
        let Some(zone) = self.source.clone().filter(|_| self.fault.is_none()) else { return };
        let is_written = !self.config.keeps_changes()
            || self.config.provided.is_some()
            || self.on_file == Some(zone.version());
        if is_written || now_secs < self.next_write_secs || self.now() != self.seen {
            return;
        }
        let written = self.write(&zone).and_then(|()| journal.note_written(&zone));
        let large = zone.memory_octets() as u64 / WRITTEN_IN_SECOND;
        self.next_write_secs = now_secs + 1 + large * WRITE_PAUSE;
        let (name, file) = (shown(&self.config.name), self.config.file.display());
        self.write_fault = written.err().map(|error| {
            let fault = format!("zone {name}: its changes are kept, but not in {file}: {error}");
            tracing::error!("{fault}");
            fault
        });
    }

    /// Returns whether the file of a primary zone has an edit that is not in force.
    fn has_unread_edit(&self) -> bool {
        !self.config.is_secondary() && (self.fault.is_some() || self.now() != self.seen)
    }

    /// Returns whether the server wrote the file.
    fn is_written(&self) -> io::Result<bool> {
        let mut head = [0; WRITTEN.len()];
        let read = File::open(&self.config.file)?.read_exact(&mut head);
        Ok(read.is_ok() && head == *WRITTEN.as_bytes())
    }

    fn write(&mut self, zone: &Arc<HostedZone>) -> io::Result<()> {
        let file = &self.config.file;
        let confirmed = std::fs::metadata(file).and_then(|facts| facts.modified());
        let is_ours = self.config.is_secondary() || self.is_written()?;
        let text = if is_ours { None } else { with_comments(file, zone) };
        let written = if let Some(text) = text {
            disk::replace_known(file, &[text.as_bytes()])?
        } else {
            if !is_ours {
                // Comments and $INCLUDE of a file that was written by hand.
                std::fs::copy(file, file.with_added_extension("before-updates"))?;
            }
            let head = format!("{WRITTEN}{}.\n", zone.serial());
            disk::replace_known(file, &[head.as_bytes(), zone.text().as_bytes()])?
        };
        let seen = if self.config.is_secondary() {
            // The time of the last confirmation.
            File::options().append(true).open(file)?.set_modified(confirmed?)?;
            FileFingerprint::of(file)
        } else {
            // An edit of the new file, however soon, is one that has not been read.
            let is_same = |now: &FileFingerprint| written.is_some_and(|it| now.has_content_of(&it));
            FileFingerprint::of(file).filter(is_same).or(written)
        };
        self.seen = SeenFiles::from([(file.clone(), seen)]);
        (self.on_file, self.base) = (Some(zone.version()), None);
        Ok(())
    }

    /// Returns when the zone in force expires, if it is one of another server.
    fn expires_at_secs(&self) -> Option<u64> {
        self.expiry_of(self.source.as_ref()?)
    }

    /// The time of the file is that of the last confirmation.
    fn expiry_of(&self, zone: &HostedZone) -> Option<u64> {
        if !self.config.is_secondary() {
            return None;
        }
        let confirmed = std::fs::metadata(&self.config.file).and_then(|facts| facts.modified());
        let since = confirmed.ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
        Some(since + u64::from(timers_of(zone)?.expire_secs))
    }

    fn sentence(&self) -> Option<String> {
        let fault = self.fault.as_ref().or(self.signing_fault.as_ref());
        let Some(fault) = fault else { return self.write_fault.clone() };
        let name = shown(&self.config.name);
        Some(match &self.zone {
            Some(zone) => {
                format!("zone {name} has errors; serial {} stays in force: {fault}", zone.serial())
            }
            None => format!("zone {name} has errors and is answered with SERVFAIL: {fault}"),
        })
    }
}

#[cfg(test)]
mod tests;
