//! The caches on disk: `cache.snapshot` in the data directory, so that the caches are filled after
//! a restart.
//!
//! A snapshot is written next to the previous one and renamed over it once it is completely on the
//! disk, so the file is always complete or missing. All of its contents can be resolved again, so
//! an error is logged and does not affect the service.

use std::fs::{self, File};
use std::io::{self, BufWriter, IntoInnerError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use avocet_cache::{PacketKey, SnapshotCounts, SnapshotError, SnapshotMoment};
use avocet_io::ownership::{self, NotOwner};
use avocet_nameserver::clock::{Moment, wall_secs};
use avocet_nameserver::disk::{PIECE, Paced};
use avocet_nameserver::query::{packet_hash, still_holds};
use avocet_nameserver::snapshot::Snapshot;

use crate::running::fingerprint::{answers_fingerprint, policy_fingerprint, sources_fingerprint};
use avocet_worker::state::Shared;

const NAME: &str = "cache.snapshot";

/// The snapshot of the caches in a data directory.
pub(crate) struct CacheFile {
    path: PathBuf,
    /// Snapshots written.
    pub(crate) saves: AtomicU64,
    /// Snapshots that could not be written, or were refused at the start.
    pub(crate) failures: AtomicU64,
    /// Time of the last snapshot, in Unix seconds; 0 before the first one.
    pub(crate) saved_at_secs: AtomicU64,
}

impl CacheFile {
    /// Creates the value for the snapshot in `directory`.
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            path: directory.join(NAME),
            saves: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            saved_at_secs: AtomicU64::new(0),
        }
    }

    /// Fills the caches, if there is a snapshot. A damaged snapshot is rejected completely and
    /// renamed.
    pub(crate) fn load(&self, shared: &Shared) {
        let began = shared.name_server.clock.now();
        match read(&self.path, shared) {
            Ok(None) => {}
            Ok(Some(counts)) => tracing::info!(
                rrsets = counts.rrsets,
                packets = counts.packets,
                dropped = counts.dropped,
                millis = millis_since(shared, began),
                "cache snapshot loaded"
            ),
            Err(SnapshotError::Io(error)) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    "cannot read {}: {error}; starting with empty caches",
                    self.path.display()
                );
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                let aside = self.path.with_added_extension("damaged");
                let kept = match rename(&self.path, &aside) {
                    Ok(()) => format!("renamed to {}", aside.display()),
                    Err(error) => format!("cannot rename it: {error}"),
                };
                tracing::warn!(
                    "{}: {error}; starting with empty caches ({kept})",
                    self.path.display()
                );
            }
        }
    }

    /// Writes the caches. On failure the previous snapshot remains.
    pub(crate) fn save(&self, shared: &Shared) {
        let began = shared.name_server.clock.now();
        let written = self.path.with_added_extension("new");
        match write(&written, shared)
            .and_then(|counts| rename(&written, &self.path).map(|()| counts))
        {
            Ok(counts) => {
                self.saves.fetch_add(1, Ordering::Relaxed);
                self.saved_at_secs.store(wall_secs(), Ordering::Relaxed);
                let millis = millis_since(shared, began);
                tracing::debug!(
                    rrsets = counts.rrsets,
                    packets = counts.packets,
                    millis,
                    "cache snapshot saved"
                );
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                remove_partial(&written, &error);
                tracing::warn!(
                    "cannot save the cache snapshot {}: {error}; the previous one is kept",
                    self.path.display()
                );
            }
        }
    }
}

/// Removes a partial file, which only uses space. If nothing could be written, there is no file to
/// remove. If another process has taken over, the file may be the one that this process is writing.
fn remove_partial(written: &Path, error: &io::Error) {
    let is_owner = error.get_ref().is_none_or(|fault| !fault.is::<NotOwner>());
    if is_owner && let Ok(_permit) = ownership::write() {
        let _ = fs::remove_file(written);
    }
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let _permit = ownership::write()?;
    fs::rename(from, to)
}

fn millis_since(shared: &Shared, began: Moment) -> u64 {
    shared.name_server.clock.now().millis().saturating_sub(began.millis())
}

fn moment(shared: &Shared, state: &Snapshot) -> SnapshotMoment {
    SnapshotMoment {
        wall_now: wall_secs(),
        now: shared.name_server.clock.now().secs(),
        epoch: state.epoch,
        policy: answers_fingerprint(&state.config) ^ policy_fingerprint(state),
        sources: sources_fingerprint(&state.config),
    }
}

fn read(path: &Path, shared: &Shared) -> Result<Option<SnapshotCounts>, SnapshotError> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(SnapshotError::Io)?,
    };
    let state = shared.snapshot();
    let hash = |key: &PacketKey<'_>| {
        packet_hash(shared.name_server.key.hash(key.question.octets(), 0), key.profile, key.flags)
    };
    avocet_cache::load(
        &mut file,
        &shared.name_server.packets,
        &shared.name_server.rrsets,
        &moment(shared, &state),
        hash,
    )
    .map(Some)
}

fn write(path: &Path, shared: &Shared) -> io::Result<SnapshotCounts> {
    let state = shared.snapshot();
    let mut out = BufWriter::with_capacity(PIECE, Paced::create(path)?);
    let counts = avocet_cache::save(
        &mut out,
        &shared.name_server.packets,
        &shared.name_server.rrsets,
        &moment(shared, &state),
        |stored| still_holds(&state, stored),
    )?;
    out.into_inner().map_err(IntoInnerError::into_error)?.finish()?;
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_process_that_has_taken_over_stays() {
        let name = format!("avocet-partial-{}.new", std::process::id());
        let written = std::env::temp_dir().join(name);
        fs::write(&written, "partial").unwrap();
        remove_partial(&written, &NotOwner.into());
        assert!(written.exists());
        remove_partial(&written, &io::ErrorKind::StorageFull.into());
        assert!(!written.exists());
    }
}
