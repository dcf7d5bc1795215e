//! Encodes texts, sets and integers as numbers of one dictionary for a row group.
//!
//! Each source of a row group has its own dictionary. Each text of a source is looked up once, not
//! once for each row. Numbers are packed into as few bits as the page needs, or into whole octets
//! if zstd compresses these better.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::ops::Range;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, PageType, ZstdLevel};
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder, PageEncodingStats,
};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use super::encode::{EncodeError, Encoded};
use super::seal::RowSource;
use super::{DICTIONARY_LEVEL, FALSE_POSITIVES, FileColumn, LEVEL, PAGE_ROWS};
use crate::chunk::Dictionary;
use crate::column::{Int, NULL, Set, Text};
use crate::interned::Interned;
use crate::varint;

/// The number of a value that was not yet numbered.
const UNKNOWN: u32 = u32::MAX;
/// Integers below this limit are looked up in a table instead of a map. They are sizes, flags and
/// most durations.
const SMALL: usize = 1 << 16;

/// Encodes a column of texts.
pub(super) fn texts(
    text: Text,
    description: ColumnDescPtr,
    sources: &[RowSource],
) -> Result<Encoded, EncodeError> {
    let mut column = Numbered::of(ValueKind::Text, sources);
    for source in sources {
        let texts = source.chunk.texts(text, 0..source.chunk.len())?;
        let mut known = vec![UNKNOWN; texts.dictionary.len()];
        for (row, number) in texts.numbers.iter().enumerate() {
            if source.keeps(row) {
                column.push_text(&mut known, &texts.dictionary, *number);
            }
        }
    }
    column.encode(FileColumn::Text(text), description)
}

/// Encodes a column of sets.
pub(super) fn sets(
    set: Set,
    description: ColumnDescPtr,
    sources: &[RowSource],
) -> Result<Encoded, EncodeError> {
    let mut column = Numbered::of(ValueKind::Text, sources);
    let mut ends = Vec::with_capacity(rows_of(sources));
    for source in sources {
        let sets = source.chunk.sets(set, 0..source.chunk.len())?;
        let mut known = vec![UNKNOWN; sets.dictionary.len()];
        for row in (0..source.chunk.len()).filter(|row| source.keeps(*row)) {
            for number in sets.row(row) {
                column.push_text(&mut known, &sets.dictionary, *number);
            }
            ends.push(column.numbers.len() as u32);
        }
    }
    column.shape = Shape::Sets(ends);
    column.encode(FileColumn::Set(set), description)
}

/// Encodes a column of 32-bit integers with few distinct values.
pub(super) fn ints(
    int: Int,
    description: ColumnDescPtr,
    sources: &[RowSource],
) -> Result<Encoded, EncodeError> {
    let mut column = Numbered::of(ValueKind::Int, sources);
    let mut known = HashMap::new();
    let mut small = vec![UNKNOWN; SMALL];
    let mut ends = Vec::with_capacity(if int.may_be_null() { rows_of(sources) } else { 0 });
    super::encode::pages(
        sources,
        |chosen| chosen.ints(int),
        |values| {
            for value in values {
                if *value != NULL {
                    // A duration that does not fit into 32 bits is stored as the maximum, about
                    // half an hour.
                    let value = i32::try_from(*value).unwrap_or(i32::MAX);
                    let place = usize::try_from(value).ok().and_then(|at| small.get_mut(at));
                    let known = place.unwrap_or_else(|| known.entry(value).or_insert(UNKNOWN));
                    column.push(known, &value.to_le_bytes());
                }
                if int.may_be_null() {
                    ends.push(column.numbers.len() as u32);
                }
            }
            Ok(())
        },
    )?;
    if int.may_be_null() {
        column.shape = Shape::Optional(ends);
    }
    column.encode(FileColumn::Int(int), description)
}

fn rows_of(sources: &[RowSource]) -> usize {
    sources.iter().map(RowSource::len).sum()
}

/// The type of the values in a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Text,
    /// An integer of four octets, little-endian.
    Int,
}

/// The number of values in each row: one, at most one, or any number. The vector has, for each row,
/// the end of its values.
enum Shape {
    Single,
    Optional(Vec<u32>),
    Sets(Vec<u32>),
}

/// A column of a row group whose values are replaced with numbers.
struct Numbered {
    kind: ValueKind,
    shape: Shape,
    values: Interned,
    /// The number of occurrences of each value.
    counts: Vec<u32>,
    /// The number of each value, in the order of the rows.
    numbers: Vec<u32>,
    /// The numbers of the values in the order of their ranks.
    by_rank: Vec<u32>,
}

impl Numbered {
    fn of(kind: ValueKind, sources: &[RowSource]) -> Self {
        Self {
            kind,
            shape: Shape::Single,
            values: Interned::default(),
            counts: Vec::new(),
            numbers: Vec::with_capacity(rows_of(sources)),
            by_rank: Vec::new(),
        }
    }

    /// Adds a text of a source. `known` has the numbers of those texts of the source that occurred
    /// before.
    fn push_text(&mut self, known: &mut [u32], dictionary: &Dictionary, number: u32) {
        if let Some(known) = known.get_mut(number as usize) {
            self.push(known, dictionary.get(number));
        }
    }

    /// Adds a value. `known` is the number of the value, or [`UNKNOWN`] at its first occurrence.
    fn push(&mut self, known: &mut u32, value: &[u8]) {
        if *known == UNKNOWN {
            *known = self.values.number(value);
            self.counts.resize(self.values.len(), 0);
        }
        self.counts[*known as usize] += 1;
        self.numbers.push(*known);
    }

    fn compare(&self, a: u32, b: u32) -> Ordering {
        let (a, b) = (self.values.get(a), self.values.get(b));
        match self.kind {
            ValueKind::Text => a.cmp(b),
            ValueKind::Int => int(a).cmp(&int(b)),
        }
    }

    /// Renumbers the values by falling frequency. Values with the same frequency are sorted, which
    /// compresses better.
    fn rank(&mut self) {
        let mut by_rank: Vec<u32> = (0..self.values.len() as u32).collect();
        by_rank.sort_unstable_by(|a, b| {
            let count = |number: u32| std::cmp::Reverse(self.counts[number as usize]);
            count(*a).cmp(&count(*b)).then_with(|| self.compare(*a, *b))
        });
        let ranks = inverse(&by_rank);
        self.numbers.iter_mut().for_each(|number| *number = ranks[*number as usize]);
        self.by_rank = by_rank;
    }

    fn value(&self, rank: u32) -> &[u8] {
        self.by_rank.get(rank as usize).map_or(&[], |number| self.values.get(*number))
    }

    /// Compresses the dictionary: the values one by one, each text after its length. So memory
    /// never has a second copy of all values.
    fn compressed(&self, octets: usize) -> io::Result<Vec<u8>> {
        let mut out = zstd::stream::Encoder::new(Vec::new(), DICTIONARY_LEVEL)?;
        out.set_pledged_src_size(Some(octets as u64))?;
        out.include_contentsize(true)?;
        for rank in 0..self.by_rank.len() as u32 {
            let value = self.value(rank);
            if self.kind == ValueKind::Text {
                out.write_all(&(value.len() as u32).to_le_bytes())?;
            }
            out.write_all(value)?;
        }
        out.finish()
    }

    fn rows(&self) -> usize {
        match &self.shape {
            Shape::Single => self.numbers.len(),
            Shape::Optional(ends) | Shape::Sets(ends) => ends.len(),
        }
    }

    fn encode(
        mut self,
        column: FileColumn,
        description: ColumnDescPtr,
    ) -> Result<Encoded, EncodeError> {
        self.rank();
        let mut sorted: Vec<u32> = (0..self.by_rank.len() as u32).collect();
        sorted.sort_unstable_by(|a, b| {
            self.compare(self.by_rank[*a as usize], self.by_rank[*b as usize])
        });
        let order = inverse(&sorted);
        let mut chunk = Chunk::of(self.kind)?;
        chunk.dictionary(&self)?;
        for first in (0..self.rows()).step_by(PAGE_ROWS) {
            let page = self.page(first..self.rows().min(first + PAGE_ROWS));
            let nulls = chunk.page(&page)?;
            let places = page.numbers.iter().map(|number| order[*number as usize]);
            let bounds = places.fold(None, |bounds, place| match bounds {
                None => Some((place, place)),
                Some((least, most)) => Some((place.min(least), place.max(most))),
            });
            let value = |place: u32| self.value(sorted[place as usize]).to_vec();
            let (least, most) = bounds.map_or_else(Default::default, |(l, m)| (value(l), value(m)));
            chunk.bounds.append(bounds.is_none(), least, most, nulls as i64, None);
        }
        let statistics = self.statistics(&sorted, chunk.nulls);
        let filter = column.has_filter().then(|| self.filter()).transpose()?;
        chunk.finish(description, statistics, filter)
    }

    fn statistics(&self, sorted: &[u32], nulls: u64) -> Statistics {
        let bounds = [sorted.first(), sorted.last()].map(|rank| Some(self.value(*rank?)));
        let distinct = Some(self.by_rank.len() as u64);
        match self.kind {
            ValueKind::Text => {
                let [least, most] = bounds.map(|text| Some(ByteArray::from(text?.to_vec())));
                ValueStatistics::new(least, most, distinct, Some(nulls), false).into()
            }
            ValueKind::Int => {
                let [least, most] = bounds.map(|octets| Some(int(octets?)));
                ValueStatistics::new(least, most, distinct, Some(nulls), false).into()
            }
        }
    }

    /// Returns the values of the rows of a page.
    fn page(&self, rows: Range<usize>) -> PageValues<'_> {
        let (ends, is_set) = match &self.shape {
            Shape::Single => {
                let numbers = &self.numbers[rows.clone()];
                return PageValues { numbers, rows: rows.len(), levels: None };
            }
            Shape::Optional(ends) => (ends, false),
            Shape::Sets(ends) => (ends, true),
        };
        let start = rows.start.checked_sub(1).map_or(0, |before| ends[before]);
        let ends = &ends[rows.clone()];
        let numbers = &self.numbers[start as usize..ends.last().map_or(start, |end| *end) as usize];
        let mut levels = Levels::of(start, ends);
        if !is_set {
            levels.repeated.clear();
        }
        PageValues { numbers, rows: rows.len(), levels: Some(levels) }
    }

    fn filter(&self) -> Result<Sbbf, ParquetError> {
        let mut filter = Sbbf::new_with_ndv_fpp(self.values.len().max(1) as u64, FALSE_POSITIVES)?;
        (0..self.values.len() as u32).for_each(|number| filter.insert(self.values.get(number)));
        Ok(filter)
    }
}

fn int(octets: &[u8]) -> i32 {
    octets.try_into().map_or(0, i32::from_le_bytes)
}

/// Inverts a permutation: returns the index at which each number is.
fn inverse(permutation: &[u32]) -> Vec<u32> {
    let mut places = vec![0; permutation.len()];
    for (place, number) in permutation.iter().enumerate() {
        places[*number as usize] = place as u32;
    }
    places
}

/// The values of a data page.
struct PageValues<'n> {
    numbers: &'n [u32],
    rows: usize,
    levels: Option<Levels>,
}

/// Repetition and definition levels of Parquet. A repetition level shows whether a value belongs to
/// the same row as the one before; a definition level shows whether there is a value. An empty row
/// has levels but no value.
#[derive(Default)]
struct Levels {
    repeated: Vec<u32>,
    present: Vec<u32>,
}

impl Levels {
    /// Computes the levels of some rows. `ends` are the ends of the rows' values; `start` is the
    /// end of the row before.
    fn of(start: u32, ends: &[u32]) -> Self {
        let mut levels = Self::default();
        let mut at = start;
        for end in ends {
            levels.present.push(u32::from(*end > at));
            levels.repeated.push(0);
            for _ in at + 1..*end {
                levels.present.push(1);
                levels.repeated.push(1);
            }
            at = *end;
        }
        levels
    }
}

/// A column chunk that is being written.
struct Chunk {
    octets: TrackedWrite<Vec<u8>>,
    zstd: Compressor<'static>,
    bounds: ColumnIndexBuilder,
    places: OffsetIndexBuilder,
    dictionary_octets: u64,
    uncompressed: usize,
    values: u64,
    nulls: u64,
    rows: u64,
    pages: i32,
}

impl Chunk {
    fn of(kind: ValueKind) -> Result<Self, EncodeError> {
        let physical = match kind {
            ValueKind::Text => parquet::basic::Type::BYTE_ARRAY,
            ValueKind::Int => parquet::basic::Type::INT32,
        };
        Ok(Self {
            octets: TrackedWrite::new(Vec::new()),
            zstd: Compressor::new(LEVEL).map_err(of_zstd)?,
            bounds: ColumnIndexBuilder::new(physical),
            places: OffsetIndexBuilder::new(),
            dictionary_octets: 0,
            uncompressed: 0,
            values: 0,
            nulls: 0,
            rows: 0,
            pages: 0,
        })
    }

    fn dictionary(&mut self, column: &Numbered) -> Result<(), EncodeError> {
        let lengths = if column.kind == ValueKind::Text { column.values.len() * 4 } else { 0 };
        let plain = column.values.octets() + lengths;
        let buf = column.compressed(plain).map_err(of_zstd)?.into();
        let page = Page::DictionaryPage {
            buf,
            num_values: column.by_rank.len() as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let page = CompressedPage::new(page, plain);
        let written = SerializedPageWriter::new(&mut self.octets).write_page(page)?;
        self.dictionary_octets = written.bytes_written;
        self.uncompressed += written.uncompressed_size;
        Ok(())
    }

    /// Writes a page and returns the number of its rows without a value.
    fn page(&mut self, page: &PageValues<'_>) -> Result<usize, EncodeError> {
        let none = Levels::default();
        let levels = page.levels.as_ref().unwrap_or(&none);
        let mut buffer = Vec::new();
        hybrid(&levels.repeated, 1, &mut buffer);
        let repeated = buffer.len();
        hybrid(&levels.present, 1, &mut buffer);
        let present = buffer.len() - repeated;
        let nulls = levels.present.iter().filter(|level| **level == 0).count();
        let count = page.numbers.len() + nulls;
        let Packed { octets, uncompressed } = Packed::shortest(page.numbers, &mut self.zstd)?;
        let uncompressed = buffer.len() + uncompressed;
        buffer.extend_from_slice(&octets);
        let written = Page::DataPageV2 {
            buf: buffer.into(),
            num_values: count as u32,
            encoding: Encoding::RLE_DICTIONARY,
            num_nulls: nulls as u32,
            num_rows: page.rows as u32,
            def_levels_byte_len: present as u32,
            rep_levels_byte_len: repeated as u32,
            is_compressed: true,
            statistics: None,
        };
        let written = SerializedPageWriter::new(&mut self.octets)
            .write_page(CompressedPage::new(written, uncompressed))?;
        self.places.append_row_count(page.rows as i64);
        self.places.append_offset_and_size(written.offset as i64, written.compressed_size as i32);
        self.uncompressed += written.uncompressed_size;
        self.values += count as u64;
        self.nulls += nulls as u64;
        self.rows += page.rows as u64;
        self.pages += 1;
        Ok(nulls)
    }

    fn finish(
        self,
        description: ColumnDescPtr,
        statistics: Statistics,
        filter: Option<Sbbf>,
    ) -> Result<Encoded, EncodeError> {
        let octets = Bytes::from(self.octets.into_inner()?);
        let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let metadata = ColumnChunkMetaData::builder(description)
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_page_encoding_stats(vec![
                stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1),
                stats(PageType::DATA_PAGE_V2, Encoding::RLE_DICTIONARY, self.pages),
            ])
            .set_num_values(self.values as i64)
            .set_total_compressed_size(octets.len() as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_dictionary_page_offset(Some(0))
            .set_data_page_offset(self.dictionary_octets as i64)
            .set_statistics(statistics)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: octets.len() as u64,
            rows_written: self.rows,
            metadata,
            bloom_filter: filter,
            column_index: Some(self.bounds.build()?),
            offset_index: Some(self.places.build()),
        };
        Ok(Encoded { octets, close })
    }
}

fn of_zstd(error: io::Error) -> EncodeError {
    ParquetError::External(Box::new(error)).into()
}

/// Numbers as Parquet stores them in a page: an octet with their width in bits, followed by one
/// run.
struct Packed {
    octets: Vec<u8>,
    uncompressed: usize,
}

impl Packed {
    fn shortest(numbers: &[u32], zstd: &mut Compressor<'_>) -> Result<Self, EncodeError> {
        let width = numbers.iter().max().map_or(1, |most| (32 - most.leading_zeros()).max(1));
        let narrow = Self::of(numbers, width, zstd)?;
        // Widths below eight bits compress well as they are.
        if width < 8 || width.is_multiple_of(8) {
            return Ok(narrow);
        }
        let wide = Self::of(numbers, width.next_multiple_of(8), zstd)?;
        Ok(if wide.octets.len() < narrow.octets.len() { wide } else { narrow })
    }

    fn of(numbers: &[u32], width: u32, zstd: &mut Compressor<'_>) -> Result<Self, EncodeError> {
        let mut packed = vec![width as u8];
        hybrid(numbers, width, &mut packed);
        let octets = zstd.compress(&packed).map_err(of_zstd)?;
        Ok(Self { octets, uncompressed: packed.len() })
    }
}

/// Appends numbers of `width` bits as one run of the RLE/bit-packing hybrid of Parquet: one
/// repeated number, or packed groups of eight numbers.
fn hybrid(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    let Some(first) = numbers.first() else { return };
    if numbers.iter().all(|number| number == first) {
        varint::put(out, (numbers.len() as u64) << 1);
        out.extend_from_slice(&first.to_le_bytes()[..width.div_ceil(8) as usize]);
        return;
    }
    varint::put(out, (numbers.len().div_ceil(8) as u64) << 1 | 1);
    let end = out.len() + numbers.len().div_ceil(8) * width as usize;
    let (mut waiting, mut bits) = (0_u64, 0);
    for number in numbers {
        waiting |= u64::from(*number) << bits;
        bits += width;
        while bits >= 8 {
            out.push(waiting as u8);
            waiting >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(waiting as u8);
    }
    out.resize(end, 0);
}
