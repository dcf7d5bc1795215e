//! The files of hosted zones: read, checked and watched. An unusable file never replaces a zone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use avocet_config::name::shown;
use avocet_config::zone::ZoneConfig;
use avocet_resolver::Timers;
use avocet_wire::{FoldedName, Rtype};
use avocet_zone::{Faults, HostedZone, HostedZones, OpenFile, Severity};

use crate::clock::wall_secs;
use crate::disk;
use crate::file_watch::FileFingerprint;

/// Reads and checks a zone from its file. Returns it if it has no errors, and all faults.
#[must_use]
pub fn load(name: FoldedName<'_>, file: &Path) -> (Option<HostedZone>, Faults) {
    avocet_zone::load(name, file, wall_secs(), &mut open)
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
}

/// The zones of a configuration that is not in force yet.
pub struct ReadZones(KeptZones);

/// The state of a zone of another server that no primary has confirmed for too long.
const EXPIRED: &str = "it has expired: no primary has confirmed it for the time in its SOA record";
/// The state of a zone of another server without a copy.
const NO_COPY: &str = "it has not been transferred yet";

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
    zone: Option<Arc<HostedZone>>,
    loaded_at_secs: Option<u64>,
    failures: u64,
    /// The first error of the last reading.
    fault: Option<String>,
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
            let is_read = zone.reading > 0 && zone.config.file == config.file;
            zone.config = config.clone();
            if !is_read || zone.now() != zone.seen {
                zone.load(self.next_reading());
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
        let zones: Vec<_> = self.kept().values().cloned().collect();
        let mut is_replaced = false;
        for mut zone in zones.into_iter().filter(|zone| !zone.config.is_secondary()) {
            let is_new = zone.has_settled(now_secs) && zone.load(self.next_reading());
            is_replaced |= self.store(zone) && is_new;
        }
        is_replaced
    }

    /// Reads a zone, or all without a name, even if the files have not changed. Returns whether
    /// there is such a zone.
    pub fn reload(&self, name: Option<&[u8]>) -> bool {
        let is_chosen = |zone: &&KeptZone| name.is_none_or(|name| *zone.config.name == *name);
        let zones: Vec<_> = self.kept().values().filter(is_chosen).cloned().collect();
        let is_known = name.is_none() || !zones.is_empty();
        for mut zone in zones {
            zone.load(self.next_reading());
            self.store(zone);
        }
        is_known
    }

    /// Returns the timers of the SOA record of a zone in force.
    #[must_use]
    pub fn timers(&self, name: &[u8]) -> Option<Timers> {
        let zone = self.kept().get(name)?.zone.clone()?;
        timers_of(&zone)
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
            if zone.zone.is_some() && zone.expires_at_secs().is_some_and(|at| at <= now_secs) {
                tracing::error!("zone {} has expired", shown(&zone.config.name));
                (zone.zone, zone.fault) = (None, Some(EXPIRED.to_owned()));
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
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
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
            fault: zone.fault.clone(),
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
    let mut sets = zone.sets_of(zone.apex())?;
    let soa = sets.find(|set| set.rtype == Rtype::SOA)?.iter().next()?;
    Timers::of(soa.rdata)
}

fn all(kept: &KeptZones) -> Arc<HostedZones> {
    let zones = kept.iter().map(|(name, kept)| (name.clone(), kept.zone.clone()));
    Arc::new(zones.collect())
}

impl KeptZone {
    fn new(config: ZoneConfig) -> Self {
        Self {
            config,
            reading: 0,
            seen: SeenFiles::new(),
            unsettled: None,
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
    fn load(&mut self, reading: u64) -> bool {
        self.load_by(reading, &mut open)
    }

    /// Like [`Self::load`], with a function that opens files.
    fn load_by(&mut self, reading: u64, open: OpenFile<'_>) -> bool {
        (self.reading, self.unsettled) = (reading, None);
        if self.config.is_secondary() && !self.config.file.exists() {
            self.fault = Some(NO_COPY.to_owned());
            return false;
        }
        let Some(name) = FoldedName::new(&self.config.name) else { return false };
        let seen = &mut self.seen;
        seen.clear();
        let mut open_seen = |path: &Path, most: u64| {
            seen.entry(path.into()).or_insert_with(|| FileFingerprint::of(path));
            open(path, most)
        };
        let file = &self.config.file;
        let (zone, faults) = avocet_zone::load(name, file, wall_secs(), &mut open_seen);
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
            (self.zone, self.fault) = (None, Some(EXPIRED.to_owned()));
            return false;
        }
        let (serial, records) = (zone.serial(), zone.records());
        tracing::info!(serial, records, "zone {text} loaded");
        (self.zone, self.fault) = (Some(Arc::new(zone)), None);
        self.loaded_at_secs = Some(wall_secs());
        true
    }

    /// Returns when the zone in force expires, if it is one of another server.
    fn expires_at_secs(&self) -> Option<u64> {
        self.expiry_of(self.zone.as_ref()?)
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
        let (fault, name) = (self.fault.as_ref()?, shown(&self.config.name));
        Some(match &self.zone {
            Some(zone) => {
                format!("zone {name} has errors; serial {} stays in force: {fault}", zone.serial())
            }
            None => format!("zone {name} has errors and is answered with SERVFAIL: {fault}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read_in_force(files: &ZoneFiles, config: &[ZoneConfig]) -> Arc<HostedZones> {
        files.put(files.read(config));
        files.current()
    }

    #[test]
    fn a_changed_file_is_read_when_it_has_settled_and_a_bad_one_changes_nothing() {
        let file = std::env::temp_dir().join(format!("avocet-zone-{}", std::process::id()));
        let text = |serial: u32, rest: &str| {
            format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{rest}\n")
        };
        let name: Box<[u8]> = b"\x07example\x00"[..].into();
        let serial = |zones: &HostedZones| {
            let zone = zones.get(b"\x07example\x00").and_then(Option::as_ref);
            zone.map(|zone| zone.serial())
        };
        let config = [ZoneConfig {
            name,
            file: file.clone(),
            settle_secs: 10,
            primaries: Vec::new(),
            key: None,
            allow_transfer: Vec::new(),
        }];
        let files = ZoneFiles::default();
        assert_eq!(serial(&read_in_force(&files, &config)), None);
        assert!(files.fault().is_some_and(|fault| fault.contains("SERVFAIL")));
        fs::write(&file, text(1, "")).unwrap();
        assert!(!files.watch(100) && !files.watch(109) && files.watch(110));
        assert_eq!(serial(&files.current()), Some(1));
        assert_eq!((files.fault(), files.watch(120)), (None, false));
        fs::write(&file, text(2, "a A 1.2.3 ; longer")).unwrap();
        assert!(!files.watch(130) && !files.watch(140));
        let fault = files.fault().unwrap();
        assert!(fault.contains("serial 1 stays in force") && fault.contains(":5:5: "), "{fault}");
        assert_eq!(serial(&read_in_force(&files, &config)), Some(1));
        fs::write(&file, text(3, "; better and longer still")).unwrap();
        assert_eq!(serial(&read_in_force(&files, &config)), Some(3));
        assert_eq!(files.fault(), None);
        fs::remove_file(&file).unwrap();
        assert!(!files.watch(200) && !files.watch(210));
        assert_eq!(serial(&read_in_force(&files, &config)), Some(3));
        assert_eq!(serial(&read_in_force(&files, &[])), None);
    }

    /// Returns a zone whose file includes another, and the path of that.
    fn including(name: &str) -> (ZoneConfig, PathBuf) {
        let file = std::env::temp_dir().join(format!("avocet-{name}-{}", std::process::id()));
        let included = file.with_extension("included");
        let text = format!("@ 60 SOA ns h 1 2 3 4 5\n$INCLUDE {}\n", included.display());
        fs::write(&file, text).unwrap();
        let name = b"\x07example\x00"[..].into();
        (
            ZoneConfig {
                name,
                file,
                settle_secs: 10,
                primaries: Vec::new(),
                key: None,
                allow_transfer: Vec::new(),
            },
            included,
        )
    }

    #[test]
    fn an_included_file_that_is_missing_is_read_when_it_comes() {
        let (config, included) = including("missing");
        let files = ZoneFiles::of(std::slice::from_ref(&config));
        assert!(files.fault().is_some() && !files.watch(100) && !files.watch(110));
        fs::write(&included, "@ 60 NS ns.other.\n").unwrap();
        assert!(!files.watch(120) && files.watch(130));
        assert_eq!(files.fault(), None);
        fs::remove_file(&config.file).unwrap();
        fs::remove_file(&included).unwrap();
    }

    #[test]
    fn a_change_of_an_included_file_while_it_is_read_is_noticed() {
        let (config, included) = including("changing");
        fs::write(&included, "@ 60 NS ns.other.\n").unwrap();
        let mut zone = KeptZone::new(config.clone());
        let mut open_and_change = |path: &Path, most: u64| {
            let text = open(path, most);
            if path == included {
                fs::write(path, "@ 60 NS ns.other.\n; one line more\n").unwrap();
            }
            text
        };
        assert!(zone.load_by(1, &mut open_and_change));
        assert!(!zone.has_settled(100) && zone.has_settled(110));
        assert!(zone.load(2) && !zone.has_settled(120));
        fs::remove_file(&config.file).unwrap();
        fs::remove_file(&included).unwrap();
    }
}
