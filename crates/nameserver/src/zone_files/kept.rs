//! A zone and the state of its files: reads them and decides which version is served.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;

use avocet_config::zone::ZoneConfig;
use avocet_wire::FoldedName;
use avocet_zone::{HostedZone, JournalContent, OpenFile, Severity, ZoneChange, ZoneVersion};

use super::addresses::KnownAddresses;
use super::prepared::PreparedZone;
use super::published::Publication;
use super::signing::{KnownSigners, fault_of_signing};
use super::unsigned::UnsignedTtl;
use super::{open, timers_of};
use crate::clock::wall_secs;
use crate::file_watch::FileFingerprint;
use crate::zone_digest::fault_of_digest;
use crate::zone_journal::{FileAside, ZoneJournal};
use crate::zone_source::{fault_of_leases, load_from};
use crate::zone_versions::{
    RestoredZone, merged, raised, raised_over, restored_from_damaged, restored_of_other,
};

/// The error of a zone from another server if no primary has confirmed the zone for too long.
const EXPIRED: &str = "it has expired: no primary has confirmed it for the time in its SOA record";
/// The error of a zone from another server if there is no copy yet.
const NO_COPY: &str = "it has not been transferred yet";
/// The error of a zone from a URL if there is no copy yet.
const NOT_FETCHED: &str = "it has not been fetched yet";

/// The fingerprints of the files from which a zone was read, including included files. Each
/// fingerprint is taken before the file is opened, so that a change during the reading counts as a
/// later change.
pub(super) type SeenFiles = BTreeMap<PathBuf, Option<FileFingerprint>>;

/// A zone and the state of its files.
#[derive(Clone)]
pub(super) struct KeptZone {
    pub(super) config: ZoneConfig,
    /// The number of the last reading. Of two simultaneous readings, the result of the reading that
    /// began later is used.
    pub(super) reading: u64,
    pub(super) seen: SeenFiles,
    /// Fingerprints of changed files that may still be changing, and the second at which they were
    /// first seen.
    pub(super) unsettled: Option<(SeenFiles, u64)>,
    /// The version that was read, with later changes and without the signatures of this server.
    pub(super) source: Option<Arc<HostedZone>>,
    /// The version in force: `source` or, if the zone is signed here, the last version that could
    /// be signed.
    pub(super) zone: Option<Arc<HostedZone>>,
    pub(super) loaded_at_secs: Option<u64>,
    pub(super) failures: u64,
    /// The first error of the last reading.
    pub(super) fault: Option<String>,
    /// The journal, whose lock is held while the zone changes.
    pub(super) journal: Arc<Mutex<ZoneJournal>>,
    /// The version of the zone that the file contains.
    pub(super) on_file: Option<ZoneVersion>,
    /// The zone as the file contains it, if `source` is a different version. It is needed to merge
    /// edits of the file.
    pub(super) base: Option<Arc<HostedZone>>,
    /// The change from the version in the file to the version that came into force when the file
    /// was read. Only for files that both people and the server write.
    pub(super) taken: Option<Arc<ZoneChange>>,
    /// A file with acknowledged changes that are not in force.
    pub(super) aside: Option<FileAside>,
    /// Whether this server has changed a zone with a file since the server started.
    pub(super) is_changed_here: bool,
    /// The second, on the clock of [`ZoneFiles::watch`], at which the file may be written next.
    pub(super) next_write_secs: u64,
    /// The reason why the file could not be written.
    pub(super) write_fault: Option<String>,
    /// The reason why `source` cannot be published, if there is one.
    pub(super) signing_fault: Option<String>,
    /// The TTLs of the versions that this server has not signed.
    pub(super) unsigned: UnsignedTtl,
    /// The addresses behind the ALIAS records of the zone, if the published version has them.
    pub(super) addresses: KnownAddresses,
    /// The last published version; `None` unless this server has published other records than the
    /// source has.
    pub(super) publication: Option<Publication>,
    /// The reason why the publication could not be written to its file.
    pub(super) publication_fault: Option<String>,
    /// The version in the file, if it was read before the first reading of the zone.
    pub(super) prepared: PreparedZone,
}

impl KeptZone {
    pub(super) fn new(config: ZoneConfig) -> Self {
        let journal = ZoneJournal::at(config.journal.clone());
        Self {
            publication: Publication::kept_in(&config.published_file()),
            unsigned: UnsignedTtl::kept_in(&config.ttls_file()),
            addresses: KnownAddresses::kept_in(&config.addresses_file()),
            aside: journal.aside(),
            config,
            journal: Arc::new(Mutex::new(journal)),
            on_file: None,
            base: None,
            taken: None,
            is_changed_here: false,
            next_write_secs: 0,
            write_fault: None,
            signing_fault: None,
            publication_fault: None,
            prepared: PreparedZone::default(),
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

    /// Returns whether these settings lead to the same version of an unchanged file as the settings
    /// with which it was read.
    pub(super) fn is_read_alike(&self, config: &ZoneConfig) -> bool {
        self.config.file == config.file
            && self.config.provided == config.provided
            && self.config.zonemd == config.zonemd
            // Signatures decide about a zone that may have been refused because of them.
            && (self.fault.is_none() || self.config.signing == config.signing)
    }

    /// Returns the current fingerprints of the files from which the zone was read.
    pub(super) fn now(&self) -> SeenFiles {
        let files = self.seen.keys();
        files.map(|path| (path.clone(), FileFingerprint::of(path))).collect()
    }

    pub(super) fn has_settled(&mut self, now_secs: u64) -> bool {
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

    /// Reads the file, and publishes its version. Returns whether the zone was replaced.
    pub(super) fn load(
        &mut self,
        reading: u64,
        journal: &mut ZoneJournal,
        signers: &KnownSigners,
    ) -> bool {
        self.load_by(reading, journal, &mut open) && self.publish(signers)
    }

    /// Reads the version in the file with `open`. Returns whether the file has a usable version.
    pub(super) fn load_by(
        &mut self,
        reading: u64,
        journal: &mut ZoneJournal,
        open: OpenFile<'_>,
    ) -> bool {
        (self.reading, self.unsettled) = (reading, None);
        self.addresses.look_up_soon();
        if self.config.is_fetched() && !self.config.file.exists() {
            let reason = if self.config.is_secondary() { NO_COPY } else { NOT_FETCHED };
            self.fault = Some(reason.to_owned());
            return false;
        }
        let seen = &mut self.seen;
        seen.clear();
        let mut open_seen = |path: &Path, most: u64| {
            seen.entry(path.into()).or_insert_with(|| FileFingerprint::of(path));
            open(path, most)
        };
        let read = match self.prepared.take() {
            Some(prepared) => {
                *seen = prepared.seen;
                prepared.read
            }
            None => load_from(&self.config, &mut open_seen),
        };
        let Some((zone, faults)) = read else { return false };
        let text = self.config.id();
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
        let of_digest = fault_of_digest(self.config.zonemd, &zone).map(|fault| fault.to_string());
        let of_signing = || fault_of_signing(&self.config, &zone).map(|fault| fault.to_string());
        let of_leases = || fault_of_leases(self.source.as_deref()?, &zone, &faults);
        if let Some(fault) = of_digest.or_else(of_signing).or_else(of_leases) {
            tracing::error!("zone {text}: {fault}");
            self.fault = Some(fault);
            self.failures += 1;
            return false;
        }
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

    /// Returns the version to serve after the file was read, and writes its changes to the journal.
    fn settled_version(&mut self, file: HostedZone, journal: &mut ZoneJournal) -> Arc<HostedZone> {
        if !self.config.keeps_changes() && !self.has_unwritten() {
            self.taken = None;
            let served = self.source.as_deref().filter(|_| self.config.is_raised());
            return Arc::new(served.and_then(|served| raised(served, &file)).unwrap_or(file));
        }
        let before = self.on_file.replace(file.version());
        let (other, changes) = match &self.source {
            // The file is as the server wrote it. Later changes are only in the journal.
            Some(served) if before == self.on_file && before != Some(served.version()) => {
                return served.clone();
            }
            Some(served) => {
                let base = self.base.as_ref().filter(|_| before != Some(served.version()));
                let other = match base {
                    Some(base) => merged(served, base, &file),
                    // The author of the file may not know the serials of this server.
                    None if self.config.is_raised() || self.is_changed_here => {
                        raised(served, &file)
                    }
                    None => None,
                };
                (other, Vec::new())
            }
            None => {
                let content = self.read_journal(journal);
                let is_own_file = self.config.is_own_file();
                let restore = if is_own_file { restored_from_damaged } else { restored_of_other };
                let restored = restore(&file, &content);
                let RestoredZone { other, changes, refused, lacks_changes } = restored;
                self.put_aside(&refused, journal);
                if lacks_changes {
                    self.copy_aside(journal);
                }
                let is_raised = self.config.is_raised() || self.is_written_over(&content);
                let is_raised = is_raised && other.is_none();
                let raised = is_raised.then(|| raised_over(&content, &file)).flatten();
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
            (None, None) => (file.with_changes(changes, 0), None),
        };
        self.base = base.filter(|_| self.config.is_own_file()).map(Arc::new);
        let step = match &self.base {
            Some(base) => ZoneChange::difference(base, &zone, usize::MAX),
            None => Some(ZoneChange::none(zone.version())),
        };
        self.taken = step.filter(|_| self.config.is_own_file()).map(Arc::new);
        if let Err(error) = journal.follow(&zone, self.taken.as_ref()) {
            let name = self.config.id();
            tracing::error!("zone {name}: cannot keep its changes on disk: {error}");
        }
        Arc::new(zone)
    }

    /// Records that the file has the version in force, if the zone had no journal until now.
    pub(super) fn begin_journal(&mut self, version: &HostedZone) {
        if self.taken.is_none() && self.config.keeps_changes() && self.config.is_own_file() {
            self.on_file = Some(version.version());
            self.taken = Some(Arc::new(ZoneChange::none(version.version())));
        }
    }

    /// Returns whether this server has changed a file that people or other programs also write. The
    /// last author of the file may not know the serials that this server has used.
    fn is_written_over(&self, content: &JournalContent) -> bool {
        self.config.is_own_file() && content.written.is_some()
    }

    /// Returns whether changes in the journal may be missing in the file, although the zone no
    /// longer needs a journal with its present settings.
    fn has_unwritten(&self) -> bool {
        let is_journal_unread = || self.source.is_none() && self.config.journal.exists();
        self.config.is_own_file() && (self.base.is_some() || is_journal_unread())
    }

    /// Writes changes that contradict the file to a separate file for the operator.
    fn put_aside(&mut self, refused: &[Arc<ZoneChange>], journal: &ZoneJournal) {
        if refused.is_empty() {
            return;
        }
        let (name, count) = (self.config.id(), refused.len());
        match journal.put_aside(refused) {
            Ok(aside) => {
                let shown = aside.display();
                tracing::error!(
                    "zone {name}: {count} changes that its edited file did not have yet contradict \
                     it and are not in force: they are in {shown}"
                );
                self.aside = Some(FileAside::NotApplied(aside));
            }
            Err(error) => tracing::error!(
                "zone {name}: {count} changes that its edited file did not have yet contradict it \
                 and are dropped, because they cannot be written to another file: {error}"
            ),
        }
    }

    /// Keeps a copy of a damaged journal for the operator.
    fn copy_aside(&mut self, journal: &mut ZoneJournal) {
        let name = self.config.id();
        // Without room for a copy, the journal itself is kept.
        let kept = match journal.copy_aside().or_else(|_| journal.move_aside()) {
            Ok(aside) => {
                let shown = format!("a copy of the journal is in {}", aside.display());
                self.aside = Some(FileAside::Damaged(aside));
                shown
            }
            Err(error) => format!("the journal cannot be copied: {error}"),
        };
        tracing::error!("zone {name}: acknowledged changes in its journal are damaged; {kept}");
    }

    /// Clears `aside` if the operator has removed that file.
    pub(super) fn review_aside(&mut self, journal: &ZoneJournal) {
        if self.aside.as_ref().is_some_and(|aside| !aside.exists()) {
            self.aside = journal.aside();
        }
    }

    fn read_journal(&mut self, journal: &mut ZoneJournal) -> JournalContent {
        let file = self.config.journal.display();
        let name = self.config.id();
        let content = FoldedName::new(&self.config.name).map(|apex| journal.read(apex));
        let content = content.unwrap_or_else(|| Ok(JournalContent::default()));
        let content = content.unwrap_or_else(|error| {
            tracing::error!("zone {name}: cannot read the journal {file}: {error}");
            match journal.move_aside() {
                Ok(aside) => {
                    tracing::error!("zone {name}: the journal is now {}", aside.display());
                    self.aside = Some(FileAside::Damaged(aside));
                }
                Err(error) => tracing::error!("zone {name}: cannot rename the journal: {error}"),
            }
            JournalContent::default()
        });
        match &content.damage {
            Some(damage) => tracing::warn!(
                changes_before = content.changes.len(),
                changes_behind = damage.changes.len(),
                "zone {name}: the journal {file} is damaged, for example by the disk"
            ),
            None if content.cut > 0 => tracing::warn!(
                octets = content.cut,
                "zone {name}: the end of the journal {file} is not usable and was cut off: the \
                 server was killed while it wrote"
            ),
            None => {}
        }
        content
    }

    /// Puts the source in force, signed if the zone is signed here. Returns whether the source is
    /// in force.
    fn publish(&mut self, signers: &KnownSigners) -> bool {
        self.fault = None;
        let is_signed = self.sign(signers);
        if is_signed {
            self.loaded_at_secs = Some(wall_secs());
        }
        is_signed
    }

    /// Stops serving a zone from another server, because it has expired.
    pub(super) fn withdraw(&mut self) {
        (self.source, self.zone) = (None, None);
        (self.fault, self.signing_fault) = (Some(EXPIRED.to_owned()), None);
    }

    /// Returns whether the file of a primary zone has an edit that is not in force.
    pub(super) fn has_unread_edit(&self) -> bool {
        !self.config.is_secondary() && (self.fault.is_some() || self.now() != self.seen)
    }

    /// Returns the Unix second at which the zone in force expires, if it comes from another server.
    pub(super) fn expires_at_secs(&self) -> Option<u64> {
        self.expiry_of(self.source.as_ref()?)
    }

    /// Returns the Unix second of expiry. The modification time of the file is the time at which a
    /// primary last confirmed the zone.
    fn expiry_of(&self, zone: &HostedZone) -> Option<u64> {
        if !self.config.is_secondary() {
            return None;
        }
        let confirmed = std::fs::metadata(&self.config.file).and_then(|facts| facts.modified());
        let since = confirmed.ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
        Some(since + u64::from(timers_of(zone)?.expire_secs))
    }

    pub(super) fn sentence(&self) -> Option<String> {
        let fault = self.fault.as_ref().or(self.signing_fault.as_ref());
        let Some(fault) = fault else {
            let fault = self.write_fault.as_ref().or(self.publication_fault.as_ref()).cloned();
            return fault
                .or_else(|| self.addresses.fault(&self.config.id()))
                .or_else(|| Some(format!("zone {}: {}", self.config.id(), self.aside.as_ref()?)));
        };
        let name = self.config.id();
        Some(match &self.zone {
            Some(zone) => {
                format!("zone {name} has errors; serial {} stays in force: {fault}", zone.serial())
            }
            None => format!("zone {name} is not loaded and is answered with SERVFAIL: {fault}"),
        })
    }
}
