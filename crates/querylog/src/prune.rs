//! Deletion on request of the entries that a filter selects.
//!
//! Single entries cannot be removed from a segment, so a new segment without the entries replaces
//! it. A file of the head is first sealed as a segment. After a crash, each file is either
//! unchanged or replaced.

use std::path::Path;

use crate::chunk::Chunk;
use crate::directory::{Listing, SegmentLabel, SegmentName};
use crate::error::LogError;
use crate::lock::LogLock;
use crate::rollup::Rollups;
use crate::search::{Broken, Filter, Overlap};
use crate::segment::{RowGroup, RowSource, Sealer, Segment};
use crate::upkeep::{Retention, Upkeep, delete, group_times, write_groups};

/// The result of deleting entries.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Pruned {
    /// Number of entries that were deleted.
    pub entries: u64,
    /// Files that could not be read or replaced. They are unchanged.
    pub broken: Vec<Broken>,
}

impl Upkeep {
    /// Deletes the entries that a filter selects from all complete files. These are the segments,
    /// and the files of the head that begin before an id. Calls `goes_on` before each file, and
    /// stops if that returns `false`.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn prune_entries(
        &mut self,
        filter: &Filter,
        before_id: u64,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Pruned, LogError> {
        let mut pruned = Pruned::default();
        let mut note = |path: &Path, done: Result<u64, LogError>| match done {
            Ok(entries) => pruned.entries += entries,
            Err(error) => {
                pruned.broken.push(Broken { path: path.to_owned(), reason: error.to_string() });
            }
        };
        for head in Listing::read(self.directory())?.heads {
            if head.first_id < before_id && goes_on() {
                note(&head.path, self.seal(&head).map(|_| 0));
            }
        }
        for segment in Listing::read(self.directory())?.segments {
            if goes_on() {
                note(&segment.path, self.prune_segment(&segment, filter));
            }
        }
        let discarded = Rollups::discard_damaged(self.directory());
        note(&Rollups::damaged_path(self.directory()), discarded.map(|()| 0));
        self.count_deleted(pruned.entries);
        Ok(pruned)
    }

    /// Replaces a segment with a segment that lacks the selected entries. Returns the number of
    /// deleted entries.
    fn prune_segment(&self, name: &SegmentName, filter: &Filter) -> Result<u64, LogError> {
        let is_whole = filter.overlap(0..u64::MAX) == Overlap::All && filter.conditions.is_empty();
        if is_whole {
            let rows = Segment::open(name).map_or(0, |segment| segment.rows());
            return delete(&name.path).map(|()| rows);
        }
        let segment = Segment::open(name)?;
        let is_met = |group: &RowGroup| {
            filter.overlap(group_times(group)) != Overlap::None && filter.may_match(group)
        };
        if !segment.groups().any(|group| is_met(&group)) {
            return Ok(0);
        }
        let sources: Result<Vec<_>, _> =
            segment.groups().map(|group| without(group, filter)).collect();
        let sources = sources?;
        let left: u64 = sources.iter().map(|source| source.len() as u64).sum();
        let deleted = segment.rows() - left;
        if deleted == 0 {
            return Ok(0);
        }
        if left > 0 {
            let mut sealer = Sealer::create(self.directory(), *name.label.ids.start())?;
            write_groups(&mut sealer, sources.into_iter().map(Ok))?;
            let generation = name.label.generation.saturating_add(1);
            sealer.finish(&SegmentLabel { generation, ..name.label.clone() })?;
        }
        delete(&name.path)?;
        Ok(deleted)
    }
}

fn without(group: RowGroup, filter: &Filter) -> Result<RowSource, LogError> {
    let overlap = filter.overlap(group_times(&group));
    let (rows, chunk) = (0..group.len(), Chunk::RowGroup(group));
    let mut kept = match overlap {
        Overlap::None => Vec::new(),
        Overlap::Some | Overlap::All => filter.select(&chunk, &rows, overlap)?,
    };
    kept.iter_mut().for_each(|wanted| *wanted = !*wanted);
    Ok(RowSource { chunk, kept })
}

/// Deletes the entries that a filter selects from a log that no other process is writing. Calls
/// `progress` before each file.
///
/// # Errors
/// Another process writes the log, the directory cannot be read, or the roll-ups cannot be written.
pub fn prune(
    directory: &Path,
    filter: &Filter,
    mut progress: impl FnMut(),
) -> Result<Pruned, LogError> {
    let _lock = LogLock::take(directory)?;
    let mut rollups = Rollups::read(directory)?;
    let mut upkeep = Upkeep::open(directory.to_owned(), Retention::default())?;
    let pruned = upkeep.prune_entries(filter, u64::MAX, || {
        progress();
        true
    })?;
    rollups.forget(filter);
    rollups.store(directory)?;
    Ok(pruned)
}

#[cfg(test)]
mod tests;
