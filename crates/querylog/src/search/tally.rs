//! A scan that groups equal entries. Questions about millions of entries can often be answered from
//! the distinct ones.
//!
//! The entries of a chunk are grouped by the indices of their texts in its dictionaries, without
//! reading a text. Equal entries in two chunks form two groups, so memory is bounded by one row
//! group.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use super::filter::Overlap;
use super::{Broken, Filter, LogReader, Place};
use crate::chunk::TextColumn;
use crate::column::{Int, Text};
use crate::error::LogError;

/// Maximum number of columns by which entries are grouped.
pub const MAX_TALLY_COLUMNS: usize = 10;
const MINUTE_US: i64 = 60_000_000;

/// Whether entries must be close in time to be equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TallyTimes {
    /// Equal entries may be logged at any time.
    Any,
    /// Equal entries are logged in the same minute.
    ByMinute,
}

/// Entries of one chunk that are equal in the requested columns.
pub struct EqualEntries<'t> {
    columns: &'t [TextColumn],
    numbers: &'t [u32],
    /// The start of the minute of the entries in Unix seconds; 0 if times are not compared.
    pub minute_secs: u64,
    /// The number of entries.
    pub entries: u64,
}

impl EqualEntries<'_> {
    /// Returns the text of a column, by the column's position in the request.
    #[must_use]
    pub fn text(&self, place: usize) -> &str {
        let (Some(column), Some(number)) = (self.columns.get(place), self.numbers.get(place))
        else {
            return "";
        };
        std::str::from_utf8(column.dictionary.get(*number)).unwrap_or_default()
    }
}

/// The result of [`LogReader::tally`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tallied {
    /// Number of entries that were counted.
    pub entries: u64,
    /// Files that were skipped, or scanned only in part.
    pub broken: Vec<Broken>,
    /// Whether `found` stopped the scan before the end of the log.
    pub is_cut: bool,
}

/// The columns by which entries are grouped.
#[derive(Clone, Copy, Debug)]
pub struct TallyBy<'c> {
    /// The columns with texts, at most [`MAX_TALLY_COLUMNS`]; further ones are ignored.
    pub texts: &'c [Text],
    /// Whether entries must be of the same minute to be equal.
    pub times: TallyTimes,
}

/// The minute of a group of entries, and the index of its text in each column.
type GroupKey = (u32, [u32; MAX_TALLY_COLUMNS]);

impl LogReader {
    /// Calls `found` with each group of equal entries. The newest chunk comes first, and the groups
    /// of a chunk are in the order of their minutes. `found` is also called with `None` before each
    /// chunk. The scan ends when `found` returns `Break`.
    pub fn tally(
        &self,
        filter: &Filter,
        by: TallyBy<'_>,
        mut found: impl FnMut(Option<&EqualEntries<'_>>) -> ControlFlow<()>,
    ) -> Tallied {
        let mut tallied = Tallied::default();
        let mut broken: HashSet<Broken> = self.broken.clone();
        for place in self.places.iter().filter(|place| !self.is_excluded(place, filter)) {
            tallied.is_cut = found(None).is_break();
            if tallied.is_cut {
                break;
            }
            match self.tally_place(place, filter, by, &mut found) {
                Ok(part) => {
                    tallied.entries += part.entries;
                    tallied.is_cut = part.is_cut;
                }
                Err(error) => drop(broken.insert(place.broken(&error))),
            }
            if tallied.is_cut {
                break;
            }
        }
        tallied.broken = broken.into_iter().collect();
        tallied
    }

    fn tally_place(
        &self,
        place: &Place,
        filter: &Filter,
        by: TallyBy<'_>,
        found: &mut impl FnMut(Option<&EqualEntries<'_>>) -> ControlFlow<()>,
    ) -> Result<Tallied, LogError> {
        let chunk = self.chunk(place)?;
        let rows = 0..chunk.len();
        let overlap = filter.overlap(place.times.clone());
        let is_whole = overlap == Overlap::All && filter.conditions.is_empty();
        let wanted = (!is_whole).then(|| filter.select(&chunk, &rows, overlap)).transpose()?;
        let texts = by.texts.iter().take(MAX_TALLY_COLUMNS);
        let columns: Vec<TextColumn> =
            texts.map(|text| chunk.texts(*text, rows.clone())).collect::<Result<_, _>>()?;
        let times = match by.times {
            TallyTimes::Any => Vec::new(),
            TallyTimes::ByMinute => chunk.ints(Int::Time, rows.clone())?,
        };
        let mut groups: HashMap<GroupKey, u64> = HashMap::new();
        for row in rows {
            if wanted.as_ref().is_some_and(|wanted| !wanted[row]) {
                continue;
            }
            let minute = times.get(row).map_or(0, |time| (*time / MINUTE_US).max(0) as u32);
            let mut numbers = [0; MAX_TALLY_COLUMNS];
            for (number, column) in numbers.iter_mut().zip(&columns) {
                *number = column.numbers.get(row).copied().unwrap_or_default();
            }
            *groups.entry((minute, numbers)).or_default() += 1;
        }
        let mut groups: Vec<(GroupKey, u64)> = groups.into_iter().collect();
        groups.sort_unstable();
        let mut tallied = Tallied::default();
        for ((minute, numbers), entries) in groups {
            tallied.entries += entries;
            let minute_secs = u64::from(minute) * 60;
            let equal = EqualEntries { columns: &columns, numbers: &numbers, minute_secs, entries };
            tallied.is_cut = found(Some(&equal)).is_break();
            if tallied.is_cut {
                break;
            }
        }
        Ok(tallied)
    }
}
