//! Roll-ups from entries: those of a directory, which are the stored state and the entries after
//! it, which a process that was killed did not store; and those of a part of the entries alone.

use std::ops::ControlFlow;
use std::path::Path;

use crate::column::Int;
use crate::error::LogError;
use crate::rollup::Rollups;
use crate::search::{Filter, LogReader, SearchExtent};

/// Entries that roll-ups without a stored state count again: some seconds of work.
const MAX_RECOUNT: u64 = 1 << 20;
/// Number of entries per read.
pub(crate) const RECOUNT_PAGE: usize = 4096;
/// Rows that are examined between two questions whether to go on.
const SLICE_ROWS: u64 = 1 << 18;

/// The counts of some of the entries.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PartCounts {
    /// The counts.
    pub rollups: Rollups,
    /// Entries before this time in microseconds are not counted, because the caller ended the work;
    /// 0 if all are.
    pub cut_us: u64,
}

impl PartCounts {
    /// Counts the entries that a filter selects, the newest first. `rest` is called now and then,
    /// and ends the work if it breaks.
    pub fn of(reader: &LogReader, filter: &Filter, rest: impl FnMut() -> ControlFlow<()>) -> Self {
        Self::in_slices(reader, filter, SLICE_ROWS, rest)
    }

    /// Counts as [`of`](Self::of) does, in slices of `max_rows`.
    pub(crate) fn in_slices(
        reader: &LogReader,
        filter: &Filter,
        max_rows: u64,
        mut rest: impl FnMut() -> ControlFlow<()>,
    ) -> Self {
        let mut counts = Self::default();
        let mut extent = SearchExtent { before_id: u64::MAX, entries: RECOUNT_PAGE, max_rows };
        loop {
            let page = reader.search(filter, extent);
            page.entries.iter().for_each(|entry| counts.rollups.add_entry(entry));
            let Some(next) = page.next_before_id else { return counts };
            extent.before_id = next;
            if rest().is_break() {
                counts.cut_us = time_us(reader, next).min(filter.time_us.end);
                return counts;
            }
        }
    }
}

/// Returns the time of the entry with an id, which a search has reached, in microseconds.
fn time_us(reader: &LogReader, id: u64) -> u64 {
    let before_id = id.saturating_add(1);
    let extent = SearchExtent { before_id, entries: 1, max_rows: SLICE_ROWS };
    let page = reader.search(&Filter::default(), extent);
    page.entries.first().and_then(|entry| entry.int(Int::Time)).unwrap_or(0).max(0) as u64
}

impl Rollups {
    /// Reads the roll-ups of a log, which another process may be writing.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn read(directory: &Path) -> Result<Self, LogError> {
        let mut rollups = Self::load(directory);
        let reader = LogReader::open(directory.to_owned())?;
        let counted = rollups.end_id();
        let mut extent =
            SearchExtent { before_id: u64::MAX, entries: RECOUNT_PAGE, max_rows: u64::MAX };
        let mut added = 0;
        while added < MAX_RECOUNT {
            let page = reader.search(&Filter::default(), extent);
            let missing = page.entries.iter().take_while(|entry| entry.id >= counted);
            let before = added;
            missing.for_each(|entry| {
                rollups.add_entry(entry);
                added += 1;
            });
            match page.next_before_id {
                Some(next) if added - before == page.entries.len() as u64 => {
                    extent.before_id = next;
                }
                _ => break,
            }
        }
        Ok(rollups)
    }
}
