//! The upkeep of a log: seals files of the head, merges the segments of a day, and deletes segments
//! beyond the limits of age and size.
//!
//! ```text
//!  head-*.blocks ──seal──> segments of up to an hour ──merge──> a segment for each day ──> deleted
//!  complete ones                                     when the day is over                by age,
//!                                                                              octets or outcome
//! ```
//!
//! The upkeep and the writer share only the directory, so the upkeep may run on another thread. It
//! may be interrupted at any step: a file is complete before it gets its name, and the name says
//! which files it replaces. [`Upkeep::step`] does one piece of work at a time.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::chunk::Chunk;
use crate::column::{Int, Text};
use crate::directory::{HeadName, Listing, SegmentLabel, SegmentName};
use crate::entry::Outcome;
use crate::error::LogError;
use crate::head::{HeadReader, is_written};
use crate::segment::{
    FileColumn, GROUP_NAME_OCTETS, GROUP_ROWS, RowGroup, RowSource, Sealer, Segment,
};

const DAY_US: u64 = 86_400_000_000;

/// The times for which entries are kept.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Retention {
    /// Number of days after which a segment is deleted; zero means never.
    pub days: u64,
    /// Number of octets that all files together may have before the oldest segment is deleted; zero
    /// means no limit.
    pub octets: u64,
    /// Outcomes whose entries are deleted earlier.
    pub outcomes: Vec<OutcomeDays>,
}

/// The retention of entries with one outcome.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OutcomeDays {
    /// The outcome.
    pub outcome: Outcome,
    /// Number of days after which entries with this outcome are deleted.
    pub days: u64,
}

/// Whether the ages of entries are known. A wrong clock may make recent entries look old.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ages {
    /// The clock has been consistent for long enough.
    Known,
    /// The clock was changed, or was not observed for long enough. Nothing is deleted by age.
    Doubtful,
}

/// Counters since the start, for metrics.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct UpkeepCounters {
    /// Number of entries that were sealed.
    pub sealed: u64,
    /// Number of segments that were merged into a segment of their day.
    pub merged: u64,
    /// Number of entries that were deleted because of age or size.
    pub deleted: u64,
    /// Number of octets in files of the head that belong to no intact block.
    pub lost_octets: u64,
    /// Number of entries in damaged blocks, according to the headers of these blocks.
    pub lost_entries: u64,
}

/// The upkeep of one directory. It runs in the process of the writer.
pub struct Upkeep {
    directory: PathBuf,
    retention: Retention,
    ages: Ages,
    counters: UpkeepCounters,
    /// Files that could not be processed. They are skipped until the next start.
    refused: HashSet<PathBuf>,
    /// Segments that have no entries to delete yet under the limit of an outcome.
    examined: HashSet<(PathBuf, OutcomeDays)>,
}

impl Upkeep {
    /// Prepares the upkeep of a directory and deletes incomplete files of a former process.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn open(directory: PathBuf, retention: Retention) -> Result<Self, LogError> {
        for part in Listing::read(&directory)?.parts {
            delete(&part)?;
        }
        Ok(Self {
            directory,
            retention,
            ages: Ages::Known,
            counters: UpkeepCounters::default(),
            refused: HashSet::new(),
            examined: HashSet::new(),
        })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn count_deleted(&mut self, entries: u64) {
        self.counters.deleted += entries;
    }

    /// Changes the retention of entries.
    pub fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Sets whether the ages of entries are known, so that they may be deleted by age.
    pub fn set_ages(&mut self, ages: Ages) {
        self.ages = ages;
    }

    /// Returns whether the ages of entries are known.
    #[must_use]
    pub fn ages(&self) -> Ages {
        self.ages
    }

    /// Returns the counters since the start.
    #[must_use]
    pub fn counters(&self) -> UpkeepCounters {
        self.counters
    }

    /// Does one piece of work and reports whether there may be more. Skips the file of the head to
    /// which the writer appends. The writer completes that file after a time even if no entry
    /// arrives, so the limits apply to all entries.
    ///
    /// # Errors
    /// The directory cannot be read, or a file cannot be read, written or deleted. A file that
    /// cannot be sealed, merged or rewritten stays unchanged, and further steps skip it.
    pub fn step(&mut self, now_us: u64) -> Result<bool, LogError> {
        let mut listing = Listing::read(&self.directory)?;
        if let Some(replaced) = listing.replaced.first() {
            delete(replaced)?;
            return Ok(true);
        }
        // The writer creates a file before it locks the file. Until then, the file is empty.
        let is_empty =
            |head: &mut HeadName| !fs::metadata(&head.path).is_ok_and(|file| file.len() > 0);
        listing.heads.pop_if(is_empty);
        // Other programs may add files, so names are not reliable. The lock marks the file to which
        // the writer appends.
        let is_complete = |head: &&HeadName| {
            !self.refused.contains(&head.path) && !is_written(&head.path).is_ok_and(|it_is| it_is)
        };
        if let Some(head) = listing.heads.iter().find(is_complete) {
            let sealed = self.seal(head);
            return self.refuse_if_failed(sealed, [&head.path]);
        }
        if let Some(day) = self.mergeable(&listing, now_us) {
            let merged = self.merge(day);
            return self.refuse_if_failed(merged, day.iter().map(|segment| &segment.path));
        }
        if self.prune(now_us)? {
            return Ok(true);
        }
        if self.ages == Ages::Doubtful {
            return Ok(false);
        }
        listing.segments.retain(|segment| !self.refused.contains(&segment.path));
        for segment in &listing.segments {
            let thinned = self.thin(segment, now_us);
            if self.refuse_if_failed(thinned, [&segment.path])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes the oldest segment if all files together are too large, or one that is too old.
    ///
    /// # Errors
    /// The directory cannot be read, or a file cannot be deleted.
    pub fn prune(&mut self, now_us: u64) -> Result<bool, LogError> {
        let listing = Listing::read(&self.directory)?;
        let files = listing.segments.iter().map(|segment| &segment.path);
        let files = files.chain(listing.heads.iter().map(|head| &head.path));
        let octets: u64 = files.map(|path| fs::metadata(path).map_or(0, |file| file.len())).sum();
        let is_large = self.retention.octets > 0 && octets > self.retention.octets;
        // The oldest segment may be damaged, or have times of a wrong clock. It must not hold back
        // the others.
        let too_old = || listing.segments.iter().find(|segment| self.is_too_old(segment, now_us));
        let excess = listing.segments.first().filter(|_| is_large);
        let Some(segment) = excess.or_else(too_old) else { return Ok(false) };
        let rows = Segment::open(segment).map_or(0, |segment| segment.rows());
        delete(&segment.path)?;
        self.counters.deleted += rows;
        Ok(true)
    }

    /// Reports whether all entries of a segment are older than the limit of age.
    fn is_too_old(&self, name: &SegmentName, now_us: u64) -> bool {
        if self.retention.days == 0 || self.ages == Ages::Doubtful {
            return false;
        }
        let limit_us = now_us.saturating_sub(self.retention.days.saturating_mul(DAY_US));
        if name.label.stamp > SegmentLabel::new(limit_us, 0..=0).stamp {
            return false;
        }
        match Segment::open(name) {
            Ok(segment) => latest(&segment).is_some_and(|last_us| last_us < limit_us),
            Err(_) => is_before(name, limit_us.saturating_sub(DAY_US)),
        }
    }

    fn refuse_if_failed<'p>(
        &mut self,
        outcome: Result<bool, LogError>,
        files: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Result<bool, LogError> {
        if outcome.is_err() {
            self.refused.extend(files.into_iter().cloned());
        }
        outcome
    }

    /// Replaces a file of the head by a segment, unless the writer still appends to it.
    pub(crate) fn seal(&mut self, head: &HeadName) -> Result<bool, LogError> {
        if is_written(&head.path)? {
            return Ok(false);
        }
        let reader = HeadReader::open(&head.path)?;
        let loss = reader.final_loss();
        if let (Some(first), Some(end)) = (reader.blocks.first(), reader.end_id()) {
            if first.header.first_id < head.first_id {
                return Err(LogError::damaged(&head.path, "its name is that of another file"));
            }
            let read = |place| {
                let chunk = Chunk::Block(Box::new(reader.block(place)?));
                Ok(RowSource { chunk, kept: Vec::new() })
            };
            let sources: Result<Vec<RowSource>, LogError> =
                reader.blocks.iter().map(read).collect();
            let sources = sources?;
            let mut sealer = Sealer::create(&self.directory, head.first_id)?;
            sealer.row_group(&sources)?;
            let label = SegmentLabel::new(first.header.first_us, head.first_id..=end - 1);
            sealer.finish(&label)?;
            self.counters.sealed += sources.iter().map(|source| source.len() as u64).sum::<u64>();
        }
        self.counters.lost_octets += loss.octets;
        self.counters.lost_entries += loss.entries;
        delete(&head.path)?;
        Ok(true)
    }

    /// Returns several segments of one past day that can be merged, if there are any.
    fn mergeable<'l>(&self, listing: &'l Listing, now_us: u64) -> Option<&'l [SegmentName]> {
        let today = SegmentLabel::new(now_us, 0..=0);
        // Between two segments of one run, no file of the head may wait to be sealed.
        let same_run = |a: &SegmentName, b: &SegmentName| {
            let between = a.label.ids.end() + 1..*b.label.ids.start();
            a.label.day() == b.label.day()
                && !listing.heads.iter().any(|head| between.contains(&head.first_id))
        };
        listing.segments.chunk_by(same_run).find(|run| {
            run.len() > 1
                && run[0].label.day() < today.day()
                && !run.iter().any(|segment| self.refused.contains(&segment.path))
        })
    }

    /// Merges segments of one day into one segment.
    fn merge(&mut self, day: &[SegmentName]) -> Result<bool, LogError> {
        let segments: Result<Vec<_>, _> = day.iter().map(Segment::open).collect();
        let segments = segments?;
        let (first, last) = (&day[0].label, &day[day.len() - 1].label);
        let ids = *first.ids.start()..=*last.ids.end();
        let groups = segments.iter().flat_map(Segment::groups);
        let mut sealer = Sealer::create(&self.directory, *ids.start())?;
        write_groups(&mut sealer, groups.map(whole))?;
        sealer.finish(&SegmentLabel { stamp: first.stamp.clone(), ids, generation: 0 })?;
        for segment in day {
            delete(&segment.path)?;
        }
        self.counters.merged += day.len() as u64;
        Ok(true)
    }

    /// Replaces a segment by one without the entries that the limit of their outcome no longer
    /// keeps.
    fn thin(&mut self, name: &SegmentName, now_us: u64) -> Result<bool, LogError> {
        let limits = self.retention.outcomes.clone();
        let is_unknown =
            |limit: &&OutcomeDays| !self.examined.contains(&(name.path.clone(), **limit));
        let unknown: Vec<_> = limits.iter().filter(is_unknown).collect();
        if unknown.is_empty() {
            return Ok(false);
        }
        let segment = Segment::open(name)?;
        let is_due = |limit: &&&OutcomeDays| {
            let limit_us = now_us.saturating_sub(limit.days.saturating_mul(DAY_US));
            latest(&segment).is_some_and(|last| last < limit_us)
        };
        let due: Vec<OutcomeDays> = unknown.iter().filter(is_due).map(|limit| **limit).collect();
        if due.is_empty() {
            return Ok(false);
        }
        let sources: Result<Vec<_>, _> =
            segment.groups().map(|group| without(group, &due)).collect();
        let sources = sources?;
        let left: u64 = sources.iter().map(|source| source.len() as u64).sum();
        self.examined.extend(due.iter().map(|limit| (name.path.clone(), *limit)));
        if left == segment.rows() {
            return Ok(false);
        }
        self.counters.deleted += segment.rows() - left;
        if left > 0 {
            let mut sealer = Sealer::create(&self.directory, *name.label.ids.start())?;
            write_groups(&mut sealer, sources.into_iter().map(Ok))?;
            let generation = name.label.generation.saturating_add(1);
            let thinned = sealer.finish(&SegmentLabel { generation, ..name.label.clone() })?;
            self.examined.extend(due.iter().map(|limit| (thinned.path.clone(), *limit)));
        }
        delete(&name.path)?;
        Ok(true)
    }
}

/// Returns the time range of the entries of a row group, from the statistics in the file.
pub(crate) fn group_times(group: &RowGroup) -> Range<u64> {
    let (first, last) = group.bounds(FileColumn::Int(Int::Time)).unwrap_or((0, i64::MAX - 1));
    first.max(0) as u64..last.max(0) as u64 + 1
}

/// Returns the time of the latest entry in a segment.
fn latest(segment: &Segment) -> Option<u64> {
    let bounds = segment.groups().filter_map(|group| group.bounds(FileColumn::Int(Int::Time)));
    bounds.map(|(_, last)| last.max(0) as u64).max()
}

/// Reports whether the name of a segment shows a day before the day of a time. If a segment is
/// damaged, only its name shows its age. Its last entry is at most a day after the day in its name,
/// because a file of the head may contain a midnight.
fn is_before(name: &SegmentName, time_us: u64) -> bool {
    let day = name.label.day();
    let is_date = day.len() == 8 && day.bytes().all(|digit| digit.is_ascii_digit());
    is_date && day < SegmentLabel::new(time_us, 0..=0).day()
}

fn whole(group: RowGroup) -> Result<RowSource, LogError> {
    Ok(RowSource { chunk: Chunk::RowGroup(group), kept: Vec::new() })
}

fn without(group: RowGroup, limits: &[OutcomeDays]) -> Result<RowSource, LogError> {
    let column = group.texts(Text::Outcome, 0..group.len())?;
    let is_kept = |number: u32| {
        let outcome = column.dictionary.get(number);
        !limits.iter().any(|limit| limit.outcome.name().as_bytes() == outcome)
    };
    let by_number: Vec<bool> = (0..column.dictionary.len() as u32).map(is_kept).collect();
    let kept = column.numbers.iter().map(|number| by_number[*number as usize]).collect();
    Ok(RowSource { chunk: Chunk::RowGroup(group), kept })
}

/// Writes sources as row groups of up to [`GROUP_ROWS`].
pub(crate) fn write_groups(
    sealer: &mut Sealer,
    sources: impl Iterator<Item = Result<RowSource, LogError>>,
) -> Result<(), LogError> {
    let (mut waiting, mut rows, mut names) = (Vec::new(), 0, 0);
    for source in sources {
        let source = source?;
        if source.len() == 0 {
            continue;
        }
        let is_full =
            rows + source.len() > GROUP_ROWS || names + source.name_octets() > GROUP_NAME_OCTETS;
        if rows > 0 && is_full {
            sealer.row_group(&waiting)?;
            waiting.clear();
            (rows, names) = (0, 0);
        }
        rows += source.len();
        names += source.name_octets();
        waiting.push(source);
    }
    if waiting.is_empty() { Ok(()) } else { sealer.row_group(&waiting) }
}

pub(crate) fn delete(path: &Path) -> Result<(), LogError> {
    fs::remove_file(path).map_err(LogError::file("delete", path))
}

#[cfg(test)]
mod tests;
