//! A chunk: entries with consecutive ids that are stored together, by column. A chunk is a block of
//! the head or a row group of a segment. The code that seals, searches and exports reads both
//! through this type.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::block::Block;
use crate::column::{Int, Set, Text};
use crate::error::LogError;
use crate::segment::{FileColumn, RowGroup};

/// The texts of a chunk, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dictionary {
    octets: Bytes,
    places: Vec<Range<u32>>,
}

impl Dictionary {
    /// Creates a dictionary. `places` has the range of each text in `octets`.
    pub(crate) fn new(octets: Bytes, places: Vec<Range<u32>>) -> Self {
        Self { octets, places }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the octets of a text, or an empty slice if the number is unknown.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        let place = self.places.get(number as usize).cloned().unwrap_or(0..0);
        self.octets.get(place.start as usize..place.end as usize).unwrap_or_default()
    }

    /// Returns, for each text, whether it matches.
    fn matching(&self, matches: &dyn Fn(&[u8]) -> bool) -> Vec<bool> {
        (0..self.len() as u32).map(|number| matches(self.get(number))).collect()
    }
}

/// The column that a condition tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Words {
    Text(Text),
    Set(Set),
}

/// The texts of some rows in one column.
pub(crate) struct TextColumn {
    pub(crate) dictionary: Arc<Dictionary>,
    /// The number of each row's text.
    pub(crate) numbers: Vec<u32>,
}

/// The sets of texts of some rows in one column.
pub(crate) struct SetColumn {
    pub(crate) dictionary: Arc<Dictionary>,
    /// For each row, the end of its set in `members`.
    pub(crate) ends: Vec<u32>,
    /// The indices of the texts in all sets, row by row.
    pub(crate) members: Vec<u32>,
}

impl SetColumn {
    /// Returns the indices of the texts of a row.
    pub(crate) fn row(&self, row: usize) -> &[u32] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.members[start as usize..self.ends[row] as usize]
    }
}

/// Entries that are stored together.
pub(crate) enum Chunk {
    Block(Box<Block>),
    RowGroup(RowGroup),
}

impl Chunk {
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Block(block) => block.len(),
            Self::RowGroup(group) => group.len(),
        }
    }

    /// Returns the ids of rows.
    ///
    /// # Errors
    /// The file cannot be read or is damaged. The other functions have the same errors.
    pub(crate) fn ids(&self, rows: Range<usize>) -> Result<Vec<i64>, LogError> {
        match self {
            Self::Block(block) => {
                let first = block.header.first_id as i64;
                Ok(rows.map(|row| first + row as i64).collect())
            }
            Self::RowGroup(group) => group.ids(rows),
        }
    }

    /// Returns the ids of some rows. In this and the other functions, the rows are in ascending
    /// order.
    pub(crate) fn ids_at(&self, rows: &[usize]) -> Result<Vec<i64>, LogError> {
        match self {
            Self::Block(_) => Ok(picked(&self.ids(0..self.len())?, rows)),
            Self::RowGroup(group) => group.ids_at(rows),
        }
    }

    /// Returns the values of a column for some rows.
    pub(crate) fn ints_at(&self, int: Int, rows: &[usize]) -> Result<Vec<i64>, LogError> {
        match self {
            Self::Block(_) => Ok(picked(&self.ints(int, 0..self.len())?, rows)),
            Self::RowGroup(group) => group.ints_at(int, rows),
        }
    }

    /// Returns the texts of a column for some rows.
    pub(crate) fn texts_at(&self, text: Text, rows: &[usize]) -> Result<TextColumn, LogError> {
        match self {
            Self::Block(_) => {
                let TextColumn { dictionary, numbers } = self.texts(text, 0..self.len())?;
                Ok(TextColumn { dictionary, numbers: picked(&numbers, rows) })
            }
            Self::RowGroup(group) => group.texts_at(text, rows),
        }
    }

    /// Returns the sets of a column for some rows.
    pub(crate) fn sets_at(&self, set: Set, rows: &[usize]) -> Result<SetColumn, LogError> {
        match self {
            Self::Block(_) => {
                let all = self.sets(set, 0..self.len())?;
                let (mut ends, mut members) = (Vec::with_capacity(rows.len()), Vec::new());
                for row in rows {
                    members.extend_from_slice(all.row(*row));
                    ends.push(members.len() as u32);
                }
                Ok(SetColumn { dictionary: all.dictionary, ends, members })
            }
            Self::RowGroup(group) => group.sets_at(set, rows),
        }
    }

    /// Clears the elements of `wanted` for rows that have no matching text. The first element of
    /// `wanted` is for row `first`.
    pub(crate) fn restrict(
        &self,
        column: Words,
        matches: &dyn Fn(&[u8]) -> bool,
        first: usize,
        wanted: &mut [bool],
    ) -> Result<(), LogError> {
        let rows = first..first + wanted.len();
        match (self, column) {
            (Self::RowGroup(group), Words::Text(text)) => {
                group.restrict(FileColumn::Text(text), matches, first, wanted)
            }
            (Self::RowGroup(group), Words::Set(set)) => {
                group.restrict(FileColumn::Set(set), matches, first, wanted)
            }
            (Self::Block(_), Words::Text(text)) => {
                let column = self.texts(text, rows)?;
                let matching = column.dictionary.matching(matches);
                for (wanted, number) in wanted.iter_mut().zip(&column.numbers) {
                    *wanted &= matching.get(*number as usize).copied().unwrap_or(false);
                }
                Ok(())
            }
            (Self::Block(_), Words::Set(set)) => {
                let column = self.sets(set, rows)?;
                let matching = column.dictionary.matching(matches);
                for (row, wanted) in wanted.iter_mut().enumerate() {
                    let mut members = column.row(row).iter();
                    *wanted &= members.any(|number| matching[*number as usize]);
                }
                Ok(())
            }
        }
    }

    /// Returns the values of a column for a range of rows.
    pub(crate) fn ints(&self, int: Int, rows: Range<usize>) -> Result<Vec<i64>, LogError> {
        match self {
            Self::Block(block) => {
                let mut values = Vec::with_capacity(block.len());
                block.ints(int, &mut values).ok_or_else(|| block.damaged())?;
                Ok(cut(values, rows))
            }
            Self::RowGroup(group) => group.ints(int, rows),
        }
    }

    /// Returns the texts of a column for a range of rows.
    pub(crate) fn texts(&self, text: Text, rows: Range<usize>) -> Result<TextColumn, LogError> {
        match self {
            Self::Block(block) => {
                let mut numbers = Vec::with_capacity(block.len());
                block.text_numbers(text, &mut numbers).ok_or_else(|| block.damaged())?;
                let dictionary = Arc::clone(block.dictionary());
                Ok(TextColumn { dictionary, numbers: cut(numbers, rows) })
            }
            Self::RowGroup(group) => group.texts(text, rows),
        }
    }

    /// Returns the sets of a column for a range of rows.
    pub(crate) fn sets(&self, set: Set, rows: Range<usize>) -> Result<SetColumn, LogError> {
        match self {
            Self::Block(block) => {
                let mut numbers = Vec::with_capacity(block.len());
                block.set_numbers(set, &mut numbers).ok_or_else(|| block.damaged())?;
                let (mut ends, mut members) = (Vec::with_capacity(rows.len()), Vec::new());
                for number in cut(numbers, rows) {
                    members.extend_from_slice(&block.sets()[number as usize]);
                    ends.push(members.len() as u32);
                }
                let dictionary = Arc::clone(block.dictionary());
                Ok(SetColumn { dictionary, ends, members })
            }
            Self::RowGroup(group) => group.sets(set, rows),
        }
    }
}

fn picked<T: Copy>(values: &[T], rows: &[usize]) -> Vec<T> {
    rows.iter().map(|row| values[*row]).collect()
}

fn cut<T>(mut values: Vec<T>, rows: Range<usize>) -> Vec<T> {
    values.truncate(rows.end);
    values.drain(..rows.start);
    values
}
