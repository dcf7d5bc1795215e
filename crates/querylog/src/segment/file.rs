//! Opens and reads a sealed file of the log, a segment.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::bloom_filter::Sbbf;
use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;

use super::pages::{self, Decoded, Shape};
use super::pieces::{self, Piece};
use super::{FileColumn, PAGE_ROWS, PARQUET, PIECES};
use crate::chunk::{SetColumn, TextColumn};
use crate::column::{Int, NULL, Set, Text};
use crate::directory::SegmentName;
use crate::error::LogError;

/// Number of octets at the end of a Parquet file that have the length of the footer and the magic
/// number.
const FOOTER_END: usize = 8;
/// Maximum number of octets of the tail, which is enough for hundreds of row groups.
const MAX_TAIL: u64 = 1 << 28;
const MALFORMED: &str = "a column cannot be decoded";

/// An open segment whose tail matches the checksum in the file name.
pub(crate) struct Segment {
    inner: Arc<Inner>,
}

struct Inner {
    file: File,
    path: PathBuf,
    metadata: ParquetMetaData,
    tail: Bytes,
    /// The offset of the tail in the file.
    tail_start: u64,
    /// The pages of the file, which cover all octets between the magic number and the tail.
    pieces: Vec<Piece>,
}

impl Segment {
    /// Opens a file and checks its tail.
    ///
    /// # Errors
    /// The file cannot be read, or it is damaged.
    pub(crate) fn open(name: &SegmentName) -> Result<Self, LogError> {
        let path = &name.path;
        let file = File::open(path).map_err(LogError::file("open", path))?;
        let len = file.metadata().map_err(LogError::file("read", path))?.len();
        let damaged = |reason| LogError::damaged(path, reason);
        let tail_start = len.checked_sub(name.tail).ok_or_else(|| damaged("it is too short"))?;
        if !(FOOTER_END as u64..=MAX_TAIL).contains(&name.tail) {
            return Err(damaged("its name has an impossible length"));
        }
        let mut tail = vec![0; name.tail as usize];
        let mut magic = [0; PARQUET.len()];
        file.read_exact_at(&mut tail, tail_start).map_err(LogError::file("read", path))?;
        file.read_exact_at(&mut magic, 0).map_err(LogError::file("read", path))?;
        if crc32fast::hash(&tail) != name.crc || magic != PARQUET {
            return Err(damaged("its end or start does not match its name"));
        }
        let metadata = footer(&tail).ok_or_else(|| damaged("its footer is invalid"))?;
        let pieces = checked_pieces(&metadata, tail_start);
        let pieces = pieces.ok_or_else(|| damaged("its checksums do not cover it"))?;
        let path = path.clone();
        let inner = Inner { file, path, metadata, tail: tail.into(), tail_start, pieces };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the number of row groups in the segment.
    pub(crate) fn group_count(&self) -> usize {
        self.inner.metadata.num_row_groups()
    }

    /// Returns the number of entries in the segment.
    pub(crate) fn rows(&self) -> u64 {
        self.inner.metadata.file_metadata().num_rows().max(0) as u64
    }

    /// Returns the row group with this index.
    pub(crate) fn group(&self, index: usize) -> RowGroup {
        RowGroup { inner: Arc::clone(&self.inner), index }
    }

    /// Returns all row groups in the order of their ids.
    pub(crate) fn groups(&self) -> impl DoubleEndedIterator<Item = RowGroup> {
        (0..self.group_count()).map(|index| self.group(index))
    }

    /// Compares all octets of the file with their checksums.
    ///
    /// # Errors
    /// The file cannot be read, or it is damaged.
    pub(crate) fn verify(&self) -> Result<(), LogError> {
        self.inner.pieces.iter().try_for_each(|piece| self.inner.read(piece).map(drop))
    }
}

fn footer(tail: &[u8]) -> Option<ParquetMetaData> {
    let (rest, end) = tail.split_at_checked(tail.len().checked_sub(FOOTER_END)?)?;
    let len = u32::from_le_bytes(end[..4].try_into().ok()?) as usize;
    let start = rest.len().checked_sub(len)?;
    ParquetMetaDataReader::decode_metadata(&rest[start..]).ok()
}

/// Returns the pieces of a file. Returns `None` unless the pieces cover every octet before the
/// tail, and each column chunk has a page for every [`PAGE_ROWS`] rows.
fn checked_pieces(metadata: &ParquetMetaData, tail_start: u64) -> Option<Vec<Piece>> {
    let entries = metadata.file_metadata().key_value_metadata()?;
    let list = entries.iter().find(|entry| entry.key == PIECES)?.value.as_ref()?;
    let pieces = pieces::read(list, PARQUET.len() as u64)?;
    let mut end = PARQUET.len() as u64;
    for group in metadata.row_groups() {
        let rows = usize::try_from(group.num_rows()).ok()?;
        let columns = group.columns();
        (columns.len() == FileColumn::COUNT).then_some(())?;
        for column in columns {
            let (start, len) = column.byte_range();
            (start == end).then_some(())?;
            pieces::of_chunk(&pieces, column, rows)?;
            end = start.checked_add(len)?;
        }
    }
    (end == tail_start && pieces.last().is_none_or(|last| last.offset < end)).then_some(pieces)
}

impl Inner {
    /// Reads a piece and compares it with its checksum.
    fn read(&self, piece: &Piece) -> Result<Bytes, LogError> {
        let mut octets = vec![0; piece.len as usize];
        let path = &self.path;
        self.file.read_exact_at(&mut octets, piece.offset).map_err(LogError::file("read", path))?;
        if crc32fast::hash(&octets) != piece.crc {
            return Err(LogError::damaged(path, "a page does not match its checksum"));
        }
        Ok(octets.into())
    }
}

/// A row group: the entries of a segment that are stored together.
#[derive(Clone)]
pub(crate) struct RowGroup {
    inner: Arc<Inner>,
    index: usize,
}

impl RowGroup {
    pub(crate) fn len(&self) -> usize {
        self.inner.metadata.row_group(self.index).num_rows().max(0) as usize
    }

    /// Returns the number of octets of the compressed names in the dictionary.
    pub(crate) fn name_octets(&self) -> u64 {
        let meta = self.meta(FileColumn::Text(Text::Qname));
        let pieces = pieces::of_chunk(&self.inner.pieces, meta, self.len());
        let dictionary = pieces.and_then(|pieces| pieces.dictionary.first());
        dictionary.map_or(0, |piece| piece.len.into())
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the smallest and the largest value of a column of integers, from the statistics in
    /// the file.
    pub(crate) fn bounds(&self, column: FileColumn) -> Option<(i64, i64)> {
        match self.meta(column).statistics()? {
            Statistics::Int64(values) => Some((*values.min_opt()?, *values.max_opt()?)),
            _ => None,
        }
    }

    /// Reports whether a column may contain a text. The result is `false` only if the bloom filter
    /// of the column excludes the text.
    pub(crate) fn may_have(&self, column: FileColumn, text: &str) -> bool {
        let meta = self.meta(column);
        let filter = || {
            let offset = u64::try_from(meta.bloom_filter_offset()?).ok()?;
            let start = usize::try_from(offset.checked_sub(self.inner.tail_start)?).ok()?;
            let len = usize::try_from(meta.bloom_filter_length()?).ok()?;
            Sbbf::from_bytes(self.inner.tail.get(start..start.checked_add(len)?)?).ok()
        };
        filter().is_none_or(|filter| filter.check(text))
    }

    pub(crate) fn ids(&self, rows: Range<usize>) -> Result<Vec<i64>, LogError> {
        self.numbers::<Int64Type>(FileColumn::Id, &[rows])
    }

    /// Returns the ids of the entries in some rows. Here and in the other functions, the rows must
    /// be in ascending order.
    pub(crate) fn ids_at(&self, rows: &[usize]) -> Result<Vec<i64>, LogError> {
        self.numbers::<Int64Type>(FileColumn::Id, &runs(rows))
    }

    pub(crate) fn ints(&self, int: Int, rows: Range<usize>) -> Result<Vec<i64>, LogError> {
        self.ints_of(int, &[rows])
    }

    pub(crate) fn ints_at(&self, int: Int, rows: &[usize]) -> Result<Vec<i64>, LogError> {
        self.ints_of(int, &runs(rows))
    }

    fn ints_of(&self, int: Int, rows: &[Range<usize>]) -> Result<Vec<i64>, LogError> {
        match int {
            Int::Time | Int::Revision => self.numbers::<Int64Type>(FileColumn::Int(int), rows),
            _ => self.numbers::<Int32Type>(FileColumn::Int(int), rows),
        }
    }

    pub(crate) fn texts(&self, text: Text, rows: Range<usize>) -> Result<TextColumn, LogError> {
        self.texts_of(text, &[rows])
    }

    pub(crate) fn texts_at(&self, text: Text, rows: &[usize]) -> Result<TextColumn, LogError> {
        self.texts_of(text, &runs(rows))
    }

    fn texts_of(&self, text: Text, rows: &[Range<usize>]) -> Result<TextColumn, LogError> {
        let column = self.column(FileColumn::Text(text))?;
        let Decoded { dictionary, numbers, .. } = column.decode(Shape::Single, rows)?;
        Ok(TextColumn { dictionary, numbers })
    }

    pub(crate) fn sets(&self, set: Set, rows: Range<usize>) -> Result<SetColumn, LogError> {
        self.sets_of(set, &[rows])
    }

    pub(crate) fn sets_at(&self, set: Set, rows: &[usize]) -> Result<SetColumn, LogError> {
        self.sets_of(set, &runs(rows))
    }

    fn sets_of(&self, set: Set, rows: &[Range<usize>]) -> Result<SetColumn, LogError> {
        let column = self.column(FileColumn::Set(set))?;
        let Decoded { dictionary, numbers, ends } = column.decode(Shape::List, rows)?;
        Ok(SetColumn { dictionary, ends, members: numbers })
    }

    /// Clears `wanted` for the rows without a matching text. `first` is the row of the first item
    /// in `wanted`. Each text of the dictionary is compared once. Pages without wanted rows are not
    /// read, and no page is read if no text matches.
    pub(crate) fn restrict(
        &self,
        column: FileColumn,
        matches: &dyn Fn(&[u8]) -> bool,
        first: usize,
        wanted: &mut [bool],
    ) -> Result<(), LogError> {
        let shape = if matches!(column, FileColumn::Set(_)) { Shape::List } else { Shape::Single };
        let mut column = self.column(column)?;
        let done = pages::restrict(&mut *column.reader, shape, matches, first, wanted);
        done.ok_or_else(|| column.failure())
    }

    fn numbers<T>(&self, column: FileColumn, rows: &[Range<usize>]) -> Result<Vec<i64>, LogError>
    where
        T: DataType<T: Copy + Default + Into<i64>>,
    {
        let description = self.meta(column).column_descr_ptr();
        let is_optional = description.max_def_level() > 0;
        let Column { reader, octets } = self.column(column)?;
        let mut reader = ColumnReaderImpl::<T>::new(description, reader);
        let mut read = || {
            let (mut present, mut values, mut at) = (Vec::new(), Vec::new(), 0);
            for rows in rows {
                reader.skip_records(rows.start - at)?;
                at = rows.end;
                let mut wanted = rows.len();
                while wanted > 0 {
                    let levels = is_optional.then_some(&mut present);
                    let (count, ..) = reader.read_records(wanted, levels, None, &mut values)?;
                    if count == 0 {
                        break;
                    }
                    wanted -= count;
                }
            }
            Ok::<_, ParquetError>((present, values))
        };
        let (present, values) = read().map_err(|_| octets.failure())?;
        let mut values = values.into_iter().map(Into::into);
        let numbers: Vec<i64> = if is_optional {
            let value = |level: i16| if level == 0 { Some(NULL) } else { values.next() };
            present.into_iter().map_while(value).collect()
        } else {
            values.collect()
        };
        let expected: usize = rows.iter().map(Range::len).sum();
        if numbers.len() == expected { Ok(numbers) } else { Err(octets.failure()) }
    }

    fn column(&self, column: FileColumn) -> Result<Column, LogError> {
        let meta = self.meta(column);
        let malformed = || LogError::damaged(&self.inner.path, MALFORMED);
        let pieces = pieces::of_chunk(&self.inner.pieces, meta, self.len());
        let pages = pieces.ok_or_else(malformed)?.pages.iter().enumerate();
        let location = |(number, piece): (usize, &Piece)| PageLocation {
            offset: piece.offset as i64,
            compressed_page_size: piece.len as i32,
            first_row_index: (number * PAGE_ROWS) as i64,
        };
        let locations = Some(pages.map(location).collect());
        let octets =
            Arc::new(ColumnOctets { inner: Arc::clone(&self.inner), fault: Mutex::new(None) });
        let reader = SerializedPageReader::new(Arc::clone(&octets), meta, self.len(), locations);
        let reader = Box::new(reader.map_err(|_| malformed())?);
        Ok(Column { reader, octets })
    }

    fn meta(&self, column: FileColumn) -> &ColumnChunkMetaData {
        self.inner.metadata.row_group(self.index).column(column.index())
    }
}

/// Groups ascending rows into ranges of consecutive rows.
fn runs(rows: &[usize]) -> Vec<Range<usize>> {
    let runs = rows.chunk_by(|before, after| before + 1 == *after);
    runs.map(|run| run[0]..run[0] + run.len()).collect()
}

/// A column chunk that is being read.
struct Column {
    reader: Box<dyn PageReader>,
    octets: Arc<ColumnOctets>,
}

impl Column {
    fn decode(mut self, shape: Shape, rows: &[Range<usize>]) -> Result<Decoded, LogError> {
        let decoded = pages::decode(&mut *self.reader, shape, rows);
        decoded.ok_or_else(|| self.failure())
    }

    fn failure(&self) -> LogError {
        self.octets.failure()
    }
}

/// The octets of a column chunk, which the crate `parquet` reads page by page.
struct ColumnOctets {
    inner: Arc<Inner>,
    /// The error with which a page could not be read. The crate `parquet` does not pass this error
    /// on.
    fault: Mutex<Option<LogError>>,
}

impl ColumnOctets {
    /// Returns the reason why a column could not be decoded.
    fn failure(&self) -> LogError {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        fault.unwrap_or_else(|| LogError::damaged(&self.inner.path, MALFORMED))
    }
}

impl Length for ColumnOctets {
    fn len(&self) -> u64 {
        self.inner.tail_start
    }
}

impl ChunkReader for ColumnOctets {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, _start: u64) -> Result<Self::T, ParquetError> {
        Err(ParquetError::NYI("only pages are read".to_owned()))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let pieces = &self.inner.pieces;
        let place = pieces.binary_search_by_key(&start, |piece| piece.offset).ok();
        let piece = place.map(|place| &pieces[place]);
        let piece = piece.filter(|piece| piece.len as usize == length);
        let no_page = || ParquetError::EOF("no page is there".to_owned());
        self.inner.read(piece.ok_or_else(no_page)?).map_err(|error| {
            *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            ParquetError::EOF("a page cannot be read".to_owned())
        })
    }
}
