//! The state of a zone that gets another view and keeps its file: the identity of the zone changes,
//! and its journal, keys, serials and versions move with it.
//!
//! The files of the state have names that begin with the view. While a server runs, a reload moves
//! them. At a start, a zone without state takes the state that no zone has, if that state belongs
//! to its file.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use avocet_config::zone::ZoneConfig;
use avocet_io::file::{rename_to_missing, sync_directory};
use avocet_io::ownership;
use avocet_wire::FoldedName;

use super::published::Publication;
use super::{ZoneFiles, lock, open};
use crate::zone_journal::ZoneJournal;
use crate::zone_source::load_from;

/// Maximum number of files with one name that are kept aside.
const MAX_ASIDE: u32 = 99;

/// A zone before and after its view changes.
#[derive(Clone, Copy)]
struct Move<'z> {
    from: &'z ZoneConfig,
    to: &'z ZoneConfig,
}

/// The files with the state of a zone.
#[derive(Clone, PartialEq, Eq, Debug)]
struct StateFiles {
    journal: PathBuf,
}

impl StateFiles {
    fn of(zone: &ZoneConfig) -> Self {
        Self { journal: zone.journal.clone() }
    }

    /// Returns the name of the files without their ending: the view and the name of the zone.
    fn stem(&self) -> Option<&str> {
        self.journal.file_stem()?.to_str()
    }

    /// Returns the end of [`Self::stem`] that all zones with the same name share.
    fn name(&self) -> Option<&str> {
        let stem = self.stem()?;
        Some(stem.rsplit_once('@').map_or(stem, |(_, name)| name))
    }

    fn with_stem(&self, stem: &str) -> Self {
        Self { journal: self.journal.with_file_name(format!("{stem}.journal")) }
    }

    /// Returns the directory of the keys. It has the name of the zone, next to the directory of the
    /// journal.
    fn keys(&self) -> PathBuf {
        let stem = self.journal.file_stem().unwrap_or_default();
        let data = self.journal.parent().and_then(Path::parent).unwrap_or(Path::new(""));
        data.join("keys").join(stem)
    }

    fn all(&self) -> [PathBuf; 5] {
        let with = |ending: &str| self.journal.with_extension(ending);
        [self.journal.clone(), with("published"), with("addresses"), with("ttls"), self.keys()]
    }

    fn exist(&self) -> bool {
        self.all().iter().any(|path| fs::symlink_metadata(path).is_ok())
    }

    /// Renames the files. A file that has one of the new names is kept under another name.
    fn rename(&self, to: &Self, done: &mut Renames) -> io::Result<()> {
        for (from, to) in self.all().into_iter().zip(to.all()) {
            if fs::symlink_metadata(&from).is_err() {
                continue;
            }
            if fs::symlink_metadata(&to).is_ok() {
                let mut names =
                    (1..=MAX_ASIDE).map(|n| to.with_added_extension(format!("old-{n}")));
                let is_free = |name: &PathBuf| fs::symlink_metadata(name).is_err();
                let aside = names.find(is_free).ok_or(io::ErrorKind::AlreadyExists)?;
                tracing::warn!("{} is now {}", to.display(), aside.display());
                rename_to_missing(&to, &aside)?;
                done.0.push((to.clone(), aside));
            }
            fs::rename(&from, &to)?;
            done.0.push((from, to.clone()));
            sync_directory(&to)?;
        }
        Ok(())
    }
}

/// The renames that were made: the name before and after each.
#[derive(Default)]
struct Renames(Vec<(PathBuf, PathBuf)>);

impl Renames {
    /// Renames the files back, because a later rename failed: the server uses them with their names
    /// before.
    fn undo(self) {
        for (before, after) in self.0.into_iter().rev() {
            if let Err(error) = fs::rename(&after, &before).and_then(|()| sync_directory(&before)) {
                let (after, before) = (after.display(), before.display());
                tracing::error!("cannot rename {after} back to {before}: {error}");
            }
        }
    }
}

/// Returns the zones that keep their file and get another identity.
fn moves<'z>(before: &'z [ZoneConfig], after: &'z [ZoneConfig]) -> Vec<Move<'z>> {
    let of = |to: &'z ZoneConfig| {
        let is_same =
            |from: &&ZoneConfig| from.name == to.name && from.file == to.file && from.is_own_file();
        let from = before.iter().find(is_same).filter(|_| to.is_own_file())?;
        (from.id() != to.id()).then_some(Move { from, to })
    };
    after.iter().filter_map(of).collect()
}

/// Renames the files of all zones, each only when no other zone has its new name any more. After an
/// error, the files have their names before.
fn rename_files(moves: &[Move<'_>]) -> io::Result<()> {
    let mut done = Renames::default();
    let renamed = rename_each(moves, &mut done);
    if renamed.is_err() {
        done.undo();
    }
    renamed
}

fn rename_each(moves: &[Move<'_>], done: &mut Renames) -> io::Result<()> {
    let mut left: Vec<_> =
        moves.iter().map(|one| (StateFiles::of(one.from), StateFiles::of(one.to))).collect();
    while !left.is_empty() {
        let is_free = |(_, to): &(StateFiles, StateFiles)| left.iter().all(|(from, _)| from != to);
        let (from, mut to) = match left.iter().position(is_free) {
            Some(place) => left.swap_remove(place),
            // The remaining moves form a cycle: each zone gets the name of the next one. The first
            // zone moves to a temporary name.
            None => left.swap_remove(0),
        };
        if left.iter().any(|(other, _)| *other == to) {
            let moving = from.with_stem(&format!("moving@{}", from.stem().unwrap_or_default()));
            left.push((moving.clone(), std::mem::replace(&mut to, moving)));
        }
        from.rename(&to, done)?;
    }
    Ok(())
}

impl ZoneFiles {
    /// Moves the state of the zones that keep their file and have another view in the configuration
    /// `after`. Until that configuration is in force, these zones cannot be changed. If it does not
    /// come into force, the state must be moved back.
    ///
    /// # Errors
    /// A file cannot be renamed.
    pub fn rename(&self, before: &[ZoneConfig], after: &[ZoneConfig]) -> io::Result<()> {
        let moves = moves(before, after);
        if moves.is_empty() {
            return Ok(());
        }
        let _permit = ownership::write()?;
        let journals: Vec<_> = {
            let kept = self.kept();
            let journal = |one: &Move<'_>| Some(kept.get(&one.from.id())?.journal.clone());
            moves.iter().map(journal).collect()
        };
        // The locks of the journals prevent changes of the zones until their files are renamed.
        let mut journals: Vec<_> =
            journals.iter().map(|journal| journal.as_deref().map(lock)).collect();
        rename_files(&moves)?;
        let mut kept = self.kept();
        let zones: Vec<_> = moves.iter().map(|one| kept.remove(&one.from.id())).collect();
        for ((one, zone), journal) in moves.iter().zip(zones).zip(&mut journals) {
            let (Some(mut zone), Some(journal)) = (zone, journal) else { continue };
            let files = StateFiles::of(one.to);
            journal.rename(files.journal.clone());
            zone.config.view.clone_from(&one.to.view);
            zone.config.journal.clone_from(&files.journal);
            if let Some(signing) = &mut zone.config.signing {
                signing.directory = files.keys();
            }
            tracing::info!(
                "the changes of zone {} are now those of {}",
                one.from.id(),
                one.to.id()
            );
            kept.insert(one.to.id(), zone);
        }
        drop(kept);
        let ids: Vec<_> = moves.iter().map(|one| (one.from.id(), one.to.id())).collect();
        self.signers.rename(&ids, |id| {
            moves.iter().find(|one| one.to.is(id)).map(|one| StateFiles::of(one.to).keys())
        });
        Ok(())
    }
}

/// Gives each zone without state the state that no zone has, if it belongs to the file of the zone:
/// the view of the zone was changed while no server ran.
pub(super) fn adopt(configured: &[ZoneConfig]) {
    let used: BTreeSet<_> = configured
        .iter()
        .filter_map(|zone| StateFiles::of(zone).stem().map(str::to_owned))
        .collect();
    for zone in configured.iter().filter(|zone| zone.is_own_file()) {
        let files = StateFiles::of(zone);
        if files.exist() {
            continue;
        }
        let left = left_over(&files, &used);
        if left.is_empty() {
            continue;
        }
        let Some(found) = left.into_iter().find(|left| belongs(left, zone)) else {
            continue;
        };
        let renamed = ownership::write().and_then(|_permit| {
            let mut done = Renames::default();
            found.rename(&files, &mut done).inspect_err(|_| done.undo())
        });
        match renamed {
            Ok(()) => tracing::info!(
                "zone {} has another view now, and takes its changes from {}",
                zone.id(),
                found.journal.display()
            ),
            Err(error) => tracing::error!(
                "zone {}: cannot take its changes from {}: {error}",
                zone.id(),
                found.journal.display()
            ),
        }
    }
}

/// Returns the files of the states that belong to a zone with the same name but are used by no
/// configured zone.
fn left_over(files: &StateFiles, used: &BTreeSet<String>) -> Vec<StateFiles> {
    let (Some(directory), Some(name)) = (files.journal.parent(), files.name()) else {
        return Vec::new();
    };
    let mut stems = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = PathBuf::from(entry.file_name());
        let is_state = ["journal", "published"].map(OsStr::new).map(Some);
        let stem = path.file_stem().and_then(OsStr::to_str);
        let Some(stem) = stem.filter(|_| is_state.contains(&path.extension())) else { continue };
        let one = files.with_stem(stem);
        if one.name() == Some(name) && !used.contains(stem) {
            stems.insert(stem.to_owned());
        }
    }
    stems.iter().map(|stem| files.with_stem(stem)).collect()
}

/// Returns whether the state has the version in the file of a zone.
fn belongs(files: &StateFiles, zone: &ZoneConfig) -> bool {
    let read = load_from(zone, &mut open).and_then(|(read, _)| read);
    let (Some(read), Some(apex)) = (read, FoldedName::new(&zone.name)) else { return false };
    let version = read.version();
    if files.journal.exists() {
        let Ok(content) = ZoneJournal::at(files.journal.clone()).read(apex) else { return false };
        content.written == Some(version)
            || content.read.as_ref().is_some_and(|read| read.from == version)
            || content.changes.iter().any(|one| one.from == version || one.to == version)
    } else {
        let published = Publication::kept_in(&files.journal.with_extension("published"));
        published.is_some_and(|published| published.is_made_from(version))
    }
}
