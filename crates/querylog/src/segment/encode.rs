//! Encodes one column of a row group in memory.

use std::sync::Arc;

use bytes::Bytes;
use parquet::column::writer::{
    ColumnCloseResult, ColumnWriterImpl, get_column_writer, get_typed_column_writer,
};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::seal::RowSource;
use super::{FileColumn, PAGE_ROWS};
use crate::chunk::{Dictionary, SetColumn, TextColumn};
use crate::column::{Int, NULL};
use crate::error::LogError;

/// A column chunk as it is in the file.
pub(super) struct Encoded {
    pub(super) octets: Bytes,
    pub(super) close: ColumnCloseResult,
}

/// An error of a source, or of the crate `parquet`.
pub(super) enum EncodeError {
    Source(LogError),
    Parquet(ParquetError),
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

/// Encodes a column of some sources, one after another.
pub(super) fn column(
    column: FileColumn,
    description: ColumnDescPtr,
    properties: &WriterPropertiesPtr,
    sources: &[RowSource],
) -> Result<Encoded, EncodeError> {
    let mut sink = TrackedWrite::new(Vec::new());
    let pages = Box::new(SerializedPageWriter::new(&mut sink));
    let writer = get_column_writer(description, Arc::clone(properties), pages);
    let close = match column {
        FileColumn::Id => wide(get_typed_column_writer(writer), sources, |chosen| chosen.ids())?,
        FileColumn::Int(int @ (Int::Time | Int::Revision)) => {
            wide(get_typed_column_writer(writer), sources, |chosen| chosen.ints(int))?
        }
        FileColumn::Int(int) => narrow(get_typed_column_writer(writer), sources, int)?,
        FileColumn::Text(text) => {
            let mut writer = get_typed_column_writer::<ByteArrayType>(writer);
            pieces(sources, |chosen| {
                let column = chosen.source.chunk.texts(text, chosen.rows.clone())?;
                texts(&mut writer, &chosen, &column)
            })?;
            writer.close()?
        }
        FileColumn::Set(set) => {
            let mut writer = get_typed_column_writer::<ByteArrayType>(writer);
            pieces(sources, |chosen| {
                let column = chosen.source.chunk.sets(set, chosen.rows.clone())?;
                sets(&mut writer, &chosen, &column)
            })?;
            writer.close()?
        }
    };
    Ok(Encoded { octets: sink.into_inner()?.into(), close })
}

/// Some rows of a source.
struct Chosen<'s> {
    source: &'s RowSource,
    rows: std::ops::Range<usize>,
}

impl Chosen<'_> {
    fn ids(&self) -> Result<Vec<i64>, LogError> {
        Ok(self.kept(self.source.chunk.ids(self.rows.clone())?))
    }

    fn ints(&self, int: Int) -> Result<Vec<i64>, LogError> {
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

/// Calls `write` for pieces of at most a page, so that memory does not grow with a row group.
fn pieces(
    sources: &[RowSource],
    mut write: impl FnMut(Chosen<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    for source in sources {
        for start in (0..source.chunk.len()).step_by(PAGE_ROWS) {
            let rows = start..source.chunk.len().min(start + PAGE_ROWS);
            write(Chosen { source, rows })?;
        }
    }
    Ok(())
}

fn wide(
    mut writer: ColumnWriterImpl<'_, Int64Type>,
    sources: &[RowSource],
    values: impl Fn(&Chosen<'_>) -> Result<Vec<i64>, LogError>,
) -> Result<ColumnCloseResult, EncodeError> {
    pieces(sources, |chosen| put(&mut writer, &values(&chosen)?, None, None))?;
    Ok(writer.close()?)
}

fn narrow(
    mut writer: ColumnWriterImpl<'_, Int32Type>,
    sources: &[RowSource],
    int: Int,
) -> Result<ColumnCloseResult, EncodeError> {
    pieces(sources, |chosen| {
        let values = chosen.ints(int)?;
        let present = values.iter().filter(|value| **value != NULL);
        // Durations of more than half an hour are shown as half an hour.
        let narrow: Vec<_> =
            present.map(|value| i32::try_from(*value).unwrap_or(i32::MAX)).collect();
        let levels: Option<Vec<i16>> = int
            .may_be_null()
            .then(|| values.iter().map(|value| i16::from(*value != NULL)).collect());
        put(&mut writer, &narrow, levels.as_deref(), None)
    })?;
    Ok(writer.close()?)
}

fn texts(
    writer: &mut ColumnWriterImpl<'_, ByteArrayType>,
    chosen: &Chosen<'_>,
    column: &TextColumn,
) -> Result<(), EncodeError> {
    let mut shared = SharedTexts::of(&column.dictionary);
    let kept = (chosen.rows.clone().zip(&column.numbers))
        .filter(|(row, _)| chosen.source.keeps(*row))
        .map(|(_, number)| shared.get(*number));
    let values: Vec<_> = kept.collect();
    put(writer, &values, None, None)
}

fn sets(
    writer: &mut ColumnWriterImpl<'_, ByteArrayType>,
    chosen: &Chosen<'_>,
    column: &SetColumn,
) -> Result<(), EncodeError> {
    let mut shared = SharedTexts::of(&column.dictionary);
    let (mut values, mut present, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for (index, row) in chosen.rows.clone().enumerate() {
        if !chosen.source.keeps(row) {
            continue;
        }
        let members = column.row(index);
        for (place, number) in members.iter().enumerate() {
            values.push(shared.get(*number));
            present.push(1);
            repeated.push(i16::from(place > 0));
        }
        if members.is_empty() {
            present.push(0);
            repeated.push(0);
        }
    }
    put(writer, &values, Some(&present), Some(&repeated))
}

fn put<T: DataType>(
    writer: &mut ColumnWriterImpl<'_, T>,
    values: &[T::T],
    present: Option<&[i16]>,
    repeated: Option<&[i16]>,
) -> Result<(), EncodeError> {
    if !values.is_empty() || present.is_some_and(|levels| !levels.is_empty()) {
        writer.write_batch(values, present, repeated)?;
    }
    Ok(())
}

/// Texts of a dictionary as values of the crate `parquet`, each made once.
struct SharedTexts<'d> {
    dictionary: &'d Dictionary,
    made: Vec<Option<ByteArray>>,
}

impl<'d> SharedTexts<'d> {
    fn of(dictionary: &'d Dictionary) -> Self {
        Self { dictionary, made: vec![None; dictionary.len()] }
    }

    fn get(&mut self, number: u32) -> ByteArray {
        match self.made.get_mut(number as usize) {
            Some(made) => {
                made.get_or_insert_with(|| ByteArray::from(self.dictionary.share(number))).clone()
            }
            None => ByteArray::from(Bytes::new()),
        }
    }
}
