//! Zones that a process reads from their files while another process still changes them. When this
//! process takes over, it reads only the files again that have changed since.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use avocet_config::zone::ZoneConfig;
use avocet_zone::{Faults, HostedZone};

use super::{lock, open};
use crate::file_watch::FileFingerprint;
use crate::zone_source::load_from;

/// The fingerprints of the files that were read.
type SeenFiles = BTreeMap<PathBuf, Option<FileFingerprint>>;

/// The version in the file of a zone. It is used once.
#[derive(Clone, Default)]
pub(super) struct PreparedZone(Option<Arc<Mutex<Option<ReadFile>>>>);

/// The result of reading the file of a zone.
pub(super) struct ReadFile {
    pub(super) seen: SeenFiles,
    pub(super) read: Option<(Option<HostedZone>, Faults)>,
}

impl PreparedZone {
    /// Reads the file. Leaves out zones that depend on more than their files.
    pub(super) fn read(config: &ZoneConfig) -> Self {
        if config.provided.is_some() || !config.file.exists() {
            return Self::default();
        }
        let mut seen = SeenFiles::new();
        let mut open_seen = |path: &Path, most: u64| {
            seen.entry(path.into()).or_insert_with(|| FileFingerprint::of(path));
            open(path, most)
        };
        let read = load_from(config, &mut open_seen);
        Self(Some(Arc::new(Mutex::new(Some(ReadFile { seen, read })))))
    }

    /// Returns the version; `None` if there is none, or if a file has changed.
    pub(super) fn take(&mut self) -> Option<ReadFile> {
        let shared = self.0.take()?;
        let read = lock(&shared).take()?;
        let is_same =
            |(path, seen): (_, &Option<FileFingerprint>)| FileFingerprint::of(path) == *seen;
        read.seen.iter().all(|(path, seen)| is_same((path, seen))).then_some(read)
    }
}
