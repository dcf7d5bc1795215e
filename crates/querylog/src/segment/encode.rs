//! Encodes one column of a row group in memory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::writer::{ColumnCloseResult, get_column_writer, get_typed_column_writer};
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::seal::RowSource;
use super::{FileColumn, PAGE_ROWS, numbered};
use crate::column::Int;
use crate::error::LogError;

/// An encoded column chunk, ready to be written to the file.
pub(super) struct Encoded {
    pub(super) octets: Bytes,
    pub(super) close: ColumnCloseResult,
}

/// A read error of a source of entries, or an error of the crate `parquet`, which may wrap an I/O
/// error.
#[derive(Debug)]
pub(crate) enum EncodeError {
    Source(LogError),
    Parquet(ParquetError),
}

impl EncodeError {
    /// Converts the error to a [`LogError`]. An error of `parquet` gets the path of the file that
    /// is being written.
    pub(super) fn of_file(self, path: &Path) -> LogError {
        match self {
            Self::Source(error) => error,
            Self::Parquet(error) => LogError::file("write", path)(system(error)),
        }
    }
}

impl From<EncodeError> for io::Error {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Source(error) => Self::other(error),
            EncodeError::Parquet(error) => system(error),
        }
    }
}

/// Returns the I/O error that an error of the crate `parquet` wraps.
fn system(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}

impl From<LogError> for EncodeError {
    fn from(error: LogError) -> Self {
        Self::Source(error)
    }
}

impl From<ParquetError> for EncodeError {
    fn from(error: ParquetError) -> Self {
        Self::Parquet(error)
    }
}

/// Encodes one column of the sources, whose rows follow one another.
pub(super) fn column(
    column: FileColumn,
    description: ColumnDescPtr,
    properties: &WriterPropertiesPtr,
    sources: &[RowSource],
) -> Result<Encoded, EncodeError> {
    let int = match column {
        FileColumn::Id => None,
        FileColumn::Int(int) if column.is_numbered() => {
            return numbered::ints(int, description, sources);
        }
        FileColumn::Int(int) => Some(int),
        FileColumn::Text(text) => return numbered::texts(text, description, sources),
        FileColumn::Set(set) => return numbered::sets(set, description, sources),
    };
    let mut sink = TrackedWrite::new(Vec::new());
    let pages = Box::new(SerializedPageWriter::new(&mut sink));
    let writer = get_column_writer(description, Arc::clone(properties), pages);
    let mut writer = get_typed_column_writer::<Int64Type>(writer);
    let values = |chosen: &Chosen<'_>| int.map_or_else(|| chosen.ids(), |int| chosen.ints(int));
    self::pages(sources, values, |values| Ok(writer.write_batch(values, None, None).map(drop)?))?;
    let close = writer.close()?;
    Ok(Encoded { octets: sink.into_inner()?.into(), close })
}

/// Some consecutive rows of a source.
pub(super) struct Chosen<'s> {
    source: &'s RowSource,
    rows: std::ops::Range<usize>,
}

impl Chosen<'_> {
    fn ids(&self) -> Result<Vec<i64>, LogError> {
        Ok(self.kept(self.source.chunk.ids(self.rows.clone())?))
    }

    pub(super) fn ints(&self, int: Int) -> Result<Vec<i64>, LogError> {
        Ok(self.kept(self.source.chunk.ints(int, self.rows.clone())?))
    }

    fn kept<T>(&self, mut values: Vec<T>) -> Vec<T> {
        let mut row = self.rows.start;
        values.retain(|_| {
            row += 1;
            self.source.keeps(row - 1)
        });
        values
    }
}

/// Splits the rows of the sources into pages, and calls `write` with the values of each page.
pub(super) fn pages(
    sources: &[RowSource],
    values: impl Fn(&Chosen<'_>) -> Result<Vec<i64>, LogError>,
    mut write: impl FnMut(&[i64]) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let mut page = Vec::with_capacity(2 * PAGE_ROWS);
    for source in sources {
        for start in (0..source.chunk.len()).step_by(PAGE_ROWS) {
            let rows = start..source.chunk.len().min(start + PAGE_ROWS);
            page.append(&mut values(&Chosen { source, rows })?);
            if page.len() >= PAGE_ROWS {
                write(&page[..PAGE_ROWS])?;
                page.drain(..PAGE_ROWS);
            }
        }
    }
    if page.is_empty() { Ok(()) } else { write(&page) }
}
