//! The files of hosted zones: read, checked and watched. An unusable file never replaces a zone.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use avocet_config::name::shown;
use avocet_config::zone::ZoneConfig;
use avocet_wire::FoldedName;
use avocet_zone::{Faults, HostedZone, HostedZones, Severity};

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

/// The zones of a configuration with the state of their files.
#[derive(Default)]
pub struct ZoneFiles {
    kept: Mutex<BTreeMap<Box<[u8]>, KeptZone>>,
}

/// The fingerprints of the files that a zone was read from, the included ones too.
type SeenFiles = Vec<(PathBuf, Option<FileFingerprint>)>;

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
}

/// A zone and the state of its files.
struct KeptZone {
    config: ZoneConfig,
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
    /// Returns the zones of a configuration. Reads those that are new or have changed files, even
    /// if a file was just written. A zone with errors keeps its earlier version.
    pub fn read(&self, configured: &[ZoneConfig]) -> Arc<HostedZones> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|name, _| configured.iter().any(|zone| zone.name == *name));
        for config in configured {
            match kept.get_mut(&config.name) {
                Some(zone) if zone.config.file == config.file && zone.now() == zone.seen => {
                    zone.config = config.clone();
                }
                Some(zone) => {
                    zone.config = config.clone();
                    zone.load();
                }
                None => {
                    let mut zone = KeptZone::new(config.clone());
                    zone.load();
                    kept.insert(config.name.clone(), zone);
                }
            }
        }
        all(&kept)
    }

    /// Reads the zones with files that have changed and then stayed the same for the time of their
    /// configuration. Returns whether a zone was replaced. `now_secs` is on any clock.
    pub fn watch(&self, now_secs: u64) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_replaced = false;
        for zone in kept.values_mut() {
            if zone.has_settled(now_secs) {
                is_replaced |= zone.load();
            }
        }
        is_replaced
    }

    /// Reads a zone, or all without a name, even if the files have not changed. Returns whether
    /// there is such a zone.
    pub fn reload(&self, name: Option<&[u8]>) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chosen =
            kept.iter_mut().filter(|(apex, _)| name.is_none_or(|name| ***apex == *name));
        let mut is_known = name.is_none();
        chosen.by_ref().for_each(|(_, zone)| {
            zone.load();
            is_known = true;
        });
        is_known
    }

    /// Returns all zones.
    pub fn current(&self) -> Arc<HostedZones> {
        all(&self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the state of each zone, by name.
    pub fn states(&self) -> Vec<ZoneFileState> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let state = |zone: &KeptZone| ZoneFileState {
            name: zone.config.name.clone(),
            file: zone.config.file.clone(),
            zone: zone.zone.clone(),
            loaded_at_secs: zone.loaded_at_secs,
            failures: zone.failures,
            fault: zone.fault.clone(),
        };
        kept.values().map(state).collect()
    }

    /// Returns the errors of the last readings in one sentence each, if there are any.
    pub fn fault(&self) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let faults: Vec<_> = kept.values().filter_map(KeptZone::sentence).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}

fn all(kept: &BTreeMap<Box<[u8]>, KeptZone>) -> Arc<HostedZones> {
    let zones = kept.iter().map(|(name, kept)| (name.clone(), kept.zone.clone()));
    Arc::new(zones.collect())
}

impl KeptZone {
    fn new(config: ZoneConfig) -> Self {
        Self {
            config,
            seen: Vec::new(),
            unsettled: None,
            zone: None,
            loaded_at_secs: None,
            failures: 0,
            fault: None,
        }
    }

    /// Returns the present fingerprints of the known files.
    fn now(&self) -> SeenFiles {
        let files = self.seen.iter().map(|(path, _)| path);
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
    fn load(&mut self) -> bool {
        self.unsettled = None;
        let Some(name) = FoldedName::new(&self.config.name) else { return false };
        // Fingerprints are taken first: a change while the file is read counts as one after it.
        let before = FileFingerprint::of(&self.config.file);
        let (zone, faults) = load(name, &self.config.file);
        self.seen = vec![(self.config.file.clone(), before)];
        let included = faults.files().iter().skip(1);
        self.seen.extend(included.map(|path| (path.clone(), FileFingerprint::of(path))));
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
        let (serial, records) = (zone.serial(), zone.records());
        tracing::info!(serial, records, "zone {text} loaded");
        (self.zone, self.fault) = (Some(Arc::new(zone)), None);
        self.loaded_at_secs = Some(wall_secs());
        true
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
        let config = [ZoneConfig { name, file: file.clone(), settle_secs: 10 }];
        let files = ZoneFiles::default();
        assert_eq!(serial(&files.read(&config)), None);
        assert!(files.fault().is_some_and(|fault| fault.contains("SERVFAIL")));
        fs::write(&file, text(1, "")).unwrap();
        assert!(!files.watch(100) && !files.watch(109) && files.watch(110));
        assert_eq!(serial(&files.current()), Some(1));
        assert_eq!((files.fault(), files.watch(120)), (None, false));
        fs::write(&file, text(2, "a A 1.2.3 ; longer")).unwrap();
        assert!(!files.watch(130) && !files.watch(140));
        let fault = files.fault().unwrap();
        assert!(fault.contains("serial 1 stays in force") && fault.contains(":5:5: "), "{fault}");
        assert_eq!(serial(&files.read(&config)), Some(1));
        fs::write(&file, text(3, "; better and longer still")).unwrap();
        assert_eq!(serial(&files.read(&config)), Some(3));
        assert_eq!(files.fault(), None);
        fs::remove_file(&file).unwrap();
        assert!(!files.watch(200) && !files.watch(210));
        assert_eq!(serial(&files.read(&config)), Some(3));
        assert_eq!(serial(&files.read(&[])), None);
    }
}
