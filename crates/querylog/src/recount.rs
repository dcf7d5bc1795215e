//! Roll-ups that are made by counting entries. To read the roll-ups of a directory, the entries
//! after the stored state are counted, because a killed process did not store these counts. Other
//! roll-ups are counts of only a part of the entries.

use std::ops::ControlFlow;
use std::path::Path;

use crate::column::Int;
use crate::error::LogError;
use crate::rollup::Rollups;
use crate::search::{Filter, LogReader, SearchExtent};

/// Maximum number of entries that are counted again if there is no stored state. Counting them
/// takes some seconds.
const MAX_RECOUNT: u64 = 1 << 20;
/// Number of entries that a recount reads at once.
pub(crate) const RECOUNT_PAGE: usize = 4096;
/// Number of rows that are examined between two calls of the function `rest`.
const SLICE_ROWS: u64 = 1 << 18;

/// The counts of a part of the entries.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PartCounts {
    /// The roll-ups of the counted entries.
    pub rollups: Rollups,
    /// The time in microseconds before which entries were not counted, because the caller stopped
    /// the work. It is 0 if all entries were counted.
    pub cut_us: u64,
}

impl PartCounts {
    /// Counts the entries that a filter selects, the newest first. Calls `rest` occasionally, and
    /// stops if that returns `Break`.
    pub fn of(reader: &LogReader, filter: &Filter, rest: impl FnMut() -> ControlFlow<()>) -> Self {
        Self::in_slices(reader, filter, SLICE_ROWS, rest)
    }

    /// Counts entries like [`of`](Self::of), in slices of at most `max_rows` rows.
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

/// Returns the time, in microseconds, of the entry with this id. A search has continued up to this
/// entry.
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
