//! Opens and reads a segment.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf as _, Bytes};
use parquet::bloom_filter::Sbbf;
use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;

use super::pages::{self, Decoded, Shape};
use super::{CHECKSUMS, FileColumn, PARQUET};
use crate::chunk::{SetColumn, TextColumn};
use crate::column::{Int, NULL, Set, Text};
use crate::directory::SegmentName;
use crate::error::LogError;

/// Octets of the length of the footer and the magic number behind it.
const FOOTER_END: usize = 8;
/// The largest tail that is read: that of a file with hundreds of row groups.
const MAX_TAIL: u64 = 1 << 28;

/// An open segment with a tail that matches its checksum.
pub(crate) struct Segment {
    inner: Arc<Inner>,
}

struct Inner {
    file: File,
    path: PathBuf,
    metadata: ParquetMetaData,
    tail: Bytes,
    /// Offset of the tail in the file.
    tail_start: u64,
    /// For each column chunk: its checksum, and whether it was compared.
    checksums: Vec<Checksum>,
}

struct Checksum {
    crc: u32,
    is_checked: AtomicBool,
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
        let checksums = checksums(&metadata).ok_or_else(|| damaged("it has no checksums"))?;
        let expected = metadata.num_row_groups() * FileColumn::COUNT;
        let covered = metadata.row_groups().iter().flat_map(|group| group.columns());
        let end = covered.map(ColumnChunkMetaData::byte_range).try_fold(4, |end, (start, len)| {
            if start == end { start.checked_add(len) } else { None }
        });
        if checksums.len() != expected || end != Some(tail_start) {
            return Err(damaged("its checksums do not cover it"));
        }
        let path = path.clone();
        let inner = Inner { file, path, metadata, tail: tail.into(), tail_start, checksums };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the number of row groups.
    pub(crate) fn group_count(&self) -> usize {
        self.inner.metadata.num_row_groups()
    }

    /// Returns the number of entries.
    pub(crate) fn rows(&self) -> u64 {
        self.inner.metadata.file_metadata().num_rows().max(0) as u64
    }

    /// Returns a row group.
    pub(crate) fn group(&self, index: usize) -> RowGroup {
        RowGroup { inner: Arc::clone(&self.inner), index }
    }

    /// Returns all row groups, the earliest ids first.
    pub(crate) fn groups(&self) -> impl DoubleEndedIterator<Item = RowGroup> {
        (0..self.group_count()).map(|index| self.group(index))
    }

    /// Compares all octets with their checksums.
    ///
    /// # Errors
    /// The file cannot be read, or it is damaged.
    pub(crate) fn verify(&self) -> Result<(), LogError> {
        for group in self.groups() {
            for column in FileColumn::all() {
                group
                    .inner
                    .checksum(group.index, column)
                    .is_checked
                    .store(false, Ordering::Relaxed);
                group.chunk(column)?;
            }
        }
        Ok(())
    }
}

fn footer(tail: &[u8]) -> Option<ParquetMetaData> {
    let (rest, end) = tail.split_at_checked(tail.len().checked_sub(FOOTER_END)?)?;
    let len = u32::from_le_bytes(end[..4].try_into().ok()?) as usize;
    let start = rest.len().checked_sub(len)?;
    ParquetMetaDataReader::decode_metadata(&rest[start..]).ok()
}

fn checksums(metadata: &ParquetMetaData) -> Option<Vec<Checksum>> {
    let entries = metadata.file_metadata().key_value_metadata()?;
    let text = entries.iter().find(|entry| entry.key == CHECKSUMS)?.value.as_ref()?;
    let checksum = |digits: &[u8]| {
        let crc = u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        Some(Checksum { crc, is_checked: AtomicBool::new(false) })
    };
    text.as_bytes().chunks(8).map(checksum).collect()
}

impl Inner {
    fn checksum(&self, group: usize, column: FileColumn) -> &Checksum {
        &self.checksums[group * FileColumn::COUNT + column.index()]
    }
}

/// Entries of a segment that are stored together.
#[derive(Clone)]
pub(crate) struct RowGroup {
    inner: Arc<Inner>,
    index: usize,
}

impl RowGroup {
    pub(crate) fn len(&self) -> usize {
        self.inner.metadata.row_group(self.index).num_rows().max(0) as usize
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the least and the greatest value of a column of integers.
    pub(crate) fn bounds(&self, column: FileColumn) -> Option<(i64, i64)> {
        match self.meta(column).statistics()? {
            Statistics::Int64(values) => Some((*values.min_opt()?, *values.max_opt()?)),
            _ => None,
        }
    }

    /// Reports whether a column may have a text; it has not if the bloom filter says so.
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
        self.numbers::<Int64Type>(FileColumn::Id, rows)
    }

    pub(crate) fn ints(&self, int: Int, rows: Range<usize>) -> Result<Vec<i64>, LogError> {
        match int {
            Int::Time | Int::Revision => self.numbers::<Int64Type>(FileColumn::Int(int), rows),
            _ => self.numbers::<Int32Type>(FileColumn::Int(int), rows),
        }
    }

    pub(crate) fn texts(&self, text: Text, rows: Range<usize>) -> Result<TextColumn, LogError> {
        let Decoded { dictionary, numbers, .. } =
            self.decoded(FileColumn::Text(text), Shape::Single, &rows)?;
        if numbers.len() != rows.len() {
            return Err(self.malformed());
        }
        Ok(TextColumn { dictionary, numbers })
    }

    pub(crate) fn sets(&self, set: Set, rows: Range<usize>) -> Result<SetColumn, LogError> {
        let Decoded { dictionary, numbers, ends } =
            self.decoded(FileColumn::Set(set), Shape::List, &rows)?;
        if ends.len() != rows.len() {
            return Err(self.malformed());
        }
        Ok(SetColumn { dictionary, ends, members: numbers })
    }

    fn decoded(
        &self,
        column: FileColumn,
        shape: Shape,
        rows: &Range<usize>,
    ) -> Result<Decoded, LogError> {
        let mut reader = self.pages(column)?;
        pages::decode(&mut *reader, shape, rows).ok_or_else(|| self.malformed())
    }

    fn numbers<T>(&self, column: FileColumn, rows: Range<usize>) -> Result<Vec<i64>, LogError>
    where
        T: DataType<T: Copy + Default + Into<i64>>,
    {
        let description = self.meta(column).column_descr_ptr();
        let is_optional = description.max_def_level() > 0;
        let mut reader = ColumnReaderImpl::<T>::new(description, self.pages(column)?);
        let mut read = || {
            let (mut present, mut values) = (Vec::new(), Vec::new());
            reader.skip_records(rows.start)?;
            let mut wanted = rows.len();
            while wanted > 0 {
                let levels = is_optional.then_some(&mut present);
                let (count, ..) = reader.read_records(wanted, levels, None, &mut values)?;
                if count == 0 {
                    break;
                }
                wanted -= count;
            }
            Ok::<_, ParquetError>((present, values))
        };
        let (present, values) = read().map_err(|_| self.malformed())?;
        let mut values = values.into_iter().map(Into::into);
        let numbers: Vec<i64> = if is_optional {
            let value = |level: i16| if level == 0 { Some(NULL) } else { values.next() };
            present.into_iter().map_while(value).collect()
        } else {
            values.collect()
        };
        if numbers.len() == rows.len() { Ok(numbers) } else { Err(self.malformed()) }
    }

    fn pages(&self, column: FileColumn) -> Result<Box<dyn PageReader>, LogError> {
        let chunk = Arc::new(self.chunk(column)?);
        SerializedPageReader::new(chunk, self.meta(column), self.len(), None)
            .map(|reader| Box::new(reader) as Box<dyn PageReader>)
            .map_err(|_| self.malformed())
    }

    /// Reads a column chunk, and compares it with its checksum the first time.
    fn chunk(&self, column: FileColumn) -> Result<ColumnOctets, LogError> {
        let (start, len) = self.meta(column).byte_range();
        let mut octets = vec![0; len as usize];
        let path = &self.inner.path;
        self.inner.file.read_exact_at(&mut octets, start).map_err(LogError::file("read", path))?;
        let checksum = self.inner.checksum(self.index, column);
        if !checksum.is_checked.load(Ordering::Relaxed) {
            if crc32fast::hash(&octets) != checksum.crc {
                return Err(LogError::damaged(path, "a column does not match its checksum"));
            }
            checksum.is_checked.store(true, Ordering::Relaxed);
        }
        Ok(ColumnOctets { start, octets: octets.into() })
    }

    fn meta(&self, column: FileColumn) -> &ColumnChunkMetaData {
        self.inner.metadata.row_group(self.index).column(column.index())
    }

    fn malformed(&self) -> LogError {
        LogError::damaged(&self.inner.path, "a column cannot be decoded")
    }
}

/// A column chunk in memory, at its offset in the file.
struct ColumnOctets {
    start: u64,
    octets: Bytes,
}

impl Length for ColumnOctets {
    fn len(&self) -> u64 {
        self.start + self.octets.len() as u64
    }
}

impl ChunkReader for ColumnOctets {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let rest = self.len().checked_sub(start);
        Ok(self.get_bytes(start, rest.unwrap_or(0) as usize)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let range = usize::try_from(start.wrapping_sub(self.start)).ok().and_then(|start| {
            let end = start.checked_add(length)?;
            (end <= self.octets.len()).then_some(start..end)
        });
        let outside = || ParquetError::EOF("outside of the column".to_owned());
        range.map(|range| self.octets.slice(range)).ok_or_else(outside)
    }
}
