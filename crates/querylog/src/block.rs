//! A block: some entries of the head (the files with the latest entries). A block can be read
//! without any other block.
//!
//! A block holds its own texts, so a damaged block does not affect the others. Inside, entries are
//! stored by column, which halves their size after compression and lets a search decode only the
//! columns that it tests.
//!
//! ```text
//!  0  magic "AVQB"          4
//!  4  octets of the payload 4
//!  8  octets decompressed   4
//! 12  entries               4
//! 16  id of the first entry 8    the ids of a block are consecutive
//! 24  earliest time, µs     8
//! 32  latest time, µs       8
//! 40  CRC-32 of all above and of the payload  4
//! 44  payload, zstd: texts, sets, then each column with its length
//! ```
//!
//! All numbers are little-endian. The entries of a block are in the order of their times.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::batch::{Batch, EntryRow};
use crate::chunk::Dictionary;
use crate::column::{INTS, Int, NULL, SETS, Set, TEXTS, Text};
use crate::error::LogError;
use crate::varint;

/// Number of octets of the header of a block.
pub(crate) const HEADER: usize = 44;
pub(crate) const MAGIC: [u8; 4] = *b"AVQB";
/// Maximum number of octets of a payload, compressed or not. The writer collects far fewer octets
/// for a block.
pub(crate) const MAX_PAYLOAD: usize = 1 << 24;
/// Compression level of zstd. At this level, most octets are compressed per second.
const LEVEL: i32 = 1;
const COLUMNS: usize = INTS + TEXTS + SETS;

/// The header of a block. A reader that needs only the header can skip the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) stored: u32,
    pub(crate) raw: u32,
    pub(crate) count: u32,
    pub(crate) first_id: u64,
    pub(crate) first_us: u64,
    pub(crate) last_us: u64,
    crc: u32,
}

impl BlockHeader {
    /// Reads a header. Its checksum can only be verified together with the payload.
    pub(crate) fn read(octets: &[u8; HEADER]) -> Option<Self> {
        let four = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| octets[at + i]));
        let eight = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| octets[at + i]));
        let header = Self {
            stored: four(4),
            raw: four(8),
            count: four(12),
            first_id: eight(16),
            first_us: eight(24),
            last_us: eight(32),
            crc: four(40),
        };
        let is_bounded = header.stored as usize <= MAX_PAYLOAD
            && header.raw as usize <= MAX_PAYLOAD
            && header.count <= header.raw
            && header.first_id.checked_add(u64::from(header.count)).is_some();
        (octets[..4] == MAGIC && is_bounded).then_some(header)
    }

    /// Reports whether the checksum is correct for the header and the payload.
    pub(crate) fn matches(&self, octets: &[u8; HEADER], payload: &[u8]) -> bool {
        checksum(octets, payload) == self.crc
    }

    /// Returns the range of ids of the entries in the block.
    pub(crate) fn ids(&self) -> Range<u64> {
        self.first_id..self.first_id + u64::from(self.count)
    }
}

fn checksum(header: &[u8; HEADER], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&header[..HEADER - 4]);
    crc.update(payload);
    crc.finalize()
}

/// An encoder of blocks, which reuses its memory.
pub(crate) struct Encoder {
    raw: Vec<u8>,
    column: Vec<u8>,
    zstd: zstd::bulk::Compressor<'static>,
}

impl Encoder {
    /// # Errors
    /// There is no memory for the compressor.
    pub(crate) fn new() -> std::io::Result<Self> {
        let zstd = zstd::bulk::Compressor::new(LEVEL)?;
        Ok(Self { raw: Vec::new(), column: Vec::new(), zstd })
    }

    /// Sorts the entries of a batch by time and encodes them as one block in `out`.
    ///
    /// # Errors
    /// The compressor fails.
    pub(crate) fn encode(
        &mut self,
        batch: &mut Batch,
        first_id: u64,
        out: &mut Vec<u8>,
    ) -> std::io::Result<BlockHeader> {
        batch.rows.sort_by_key(|row| row.ints[Int::Time as usize]);
        self.collect(batch);
        out.clear();
        out.resize(HEADER + zstd::zstd_safe::compress_bound(self.raw.len()), 0);
        let stored = self.zstd.compress_to_buffer(&self.raw, &mut out[HEADER..])?;
        out.truncate(HEADER + stored);
        let time =
            |row: Option<&EntryRow>| row.map_or(0, |row| row.ints[Int::Time as usize] as u64);
        let mut header = BlockHeader {
            stored: stored as u32,
            raw: self.raw.len() as u32,
            count: batch.rows.len() as u32,
            first_id,
            first_us: time(batch.rows.first()),
            last_us: time(batch.rows.last()),
            crc: 0,
        };
        let mut octets = [0; HEADER];
        octets[..4].copy_from_slice(&MAGIC);
        octets[4..8].copy_from_slice(&header.stored.to_le_bytes());
        octets[8..12].copy_from_slice(&header.raw.to_le_bytes());
        octets[12..16].copy_from_slice(&header.count.to_le_bytes());
        octets[16..24].copy_from_slice(&header.first_id.to_le_bytes());
        octets[24..32].copy_from_slice(&header.first_us.to_le_bytes());
        octets[32..40].copy_from_slice(&header.last_us.to_le_bytes());
        header.crc = checksum(&octets, &out[HEADER..]);
        octets[40..].copy_from_slice(&header.crc.to_le_bytes());
        out[..HEADER].copy_from_slice(&octets);
        Ok(header)
    }

    fn collect(&mut self, batch: &Batch) {
        let Self { raw, column, .. } = self;
        raw.clear();
        varint::put(raw, batch.texts.len() as u64);
        for text in batch.texts.iter() {
            varint::put(raw, text.len() as u64);
            raw.extend_from_slice(text);
        }
        varint::put(raw, batch.sets.iter().len() as u64);
        for set in batch.sets.iter() {
            varint::put(raw, set.len() as u64);
            set.iter().for_each(|text| varint::put(raw, u64::from(*text)));
        }
        let rows = batch.rows.as_slice();
        let mut finish = |column: &mut Vec<u8>| {
            varint::put(raw, column.len() as u64);
            raw.append(column);
        };
        for int in Int::ALL {
            put_ints(rows, int, column);
            finish(column);
        }
        for text in 0..TEXTS {
            rows.iter().for_each(|row| varint::put(column, u64::from(row.texts[text])));
            finish(column);
        }
        for set in 0..SETS {
            rows.iter().for_each(|row| varint::put(column, u64::from(row.sets[set])));
            finish(column);
        }
    }
}

/// Appends a column of integers. Times are stored as differences. In a column that permits null,
/// zero means null.
fn put_ints(rows: &[EntryRow], int: Int, out: &mut Vec<u8>) {
    let mut last = 0;
    for row in rows {
        let value = row.ints[int as usize];
        match int {
            Int::Time => {
                varint::put_signed(out, value.wrapping_sub(last));
                last = value;
            }
            _ if int.may_be_null() && value == NULL => out.push(0),
            _ if int.may_be_null() => varint::put(out, value as u64 + 1),
            _ => varint::put(out, value as u64),
        }
    }
}

/// A decompressed block in memory.
pub(crate) struct Block {
    pub(crate) header: BlockHeader,
    path: Arc<Path>,
    raw: Bytes,
    texts: Arc<Dictionary>,
    sets: Vec<Vec<u32>>,
    columns: [Range<usize>; COLUMNS],
}

impl Block {
    /// Decompresses a payload that matches its checksum. Returns `None` if it is not a block of
    /// this format.
    pub(crate) fn open(path: &Arc<Path>, header: BlockHeader, payload: &[u8]) -> Option<Self> {
        let raw = Bytes::from(zstd::bulk::decompress(payload, header.raw as usize).ok()?);
        let mut rest = &raw[..];
        let count = take_count(&mut rest)?;
        let mut texts = Vec::with_capacity(count);
        for _ in 0..count {
            let text = varint::take_octets(&mut rest)?;
            str::from_utf8(text).ok()?;
            let end = raw.len() - rest.len();
            texts.push((end - text.len()) as u32..end as u32);
        }
        let count = take_count(&mut rest)?;
        let mut sets = Vec::with_capacity(count);
        for _ in 0..count {
            let members = take_count(&mut rest)?;
            let set: Option<Vec<u32>> =
                (0..members).map(|_| number_below(texts.len(), &mut rest)).collect();
            sets.push(set?);
        }
        let mut columns = [const { 0..0 }; COLUMNS];
        for column in &mut columns {
            let octets = varint::take_octets(&mut rest)?;
            let end = raw.len() - rest.len();
            *column = end - octets.len()..end;
        }
        let texts = Arc::new(Dictionary::new(raw.clone(), texts));
        Some(Self { header, path: Arc::clone(path), texts, sets, columns, raw })
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.header.count as usize
    }

    /// Returns the texts of the block, by number.
    pub(crate) fn dictionary(&self) -> &Arc<Dictionary> {
        &self.texts
    }

    /// Returns the error for a block with columns that cannot be decoded.
    pub(crate) fn damaged(&self) -> LogError {
        LogError::damaged(&self.path, "a block has an unknown format")
    }

    /// Returns all sets of the block. A set contains the indices of its texts.
    pub(crate) fn sets(&self) -> &[Vec<u32>] {
        &self.sets
    }

    /// Appends the values of a column to `out`. Returns `None` if the number of values differs from
    /// the number of entries.
    pub(crate) fn ints(&self, int: Int, out: &mut Vec<i64>) -> Option<()> {
        let mut octets = &self.raw[self.columns[int as usize].clone()];
        let mut last = 0_i64;
        for _ in 0..self.len() {
            let value = match int {
                Int::Time => {
                    last = last.wrapping_add(varint::take_signed(&mut octets)?);
                    last
                }
                _ if int.may_be_null() => match varint::take(&mut octets)? {
                    0 => NULL,
                    value => i64::try_from(value - 1).ok()?,
                },
                _ => i64::try_from(varint::take(&mut octets)?).ok()?,
            };
            out.push(value);
        }
        octets.is_empty().then_some(())
    }

    /// Appends the number of each entry's text in a column to `out`. Returns `None` in the same
    /// case as [`ints`](Self::ints).
    pub(crate) fn text_numbers(&self, text: Text, out: &mut Vec<u32>) -> Option<()> {
        self.numbers(INTS + text as usize, self.texts.len(), out)
    }

    /// Appends the number of each entry's set in a column to `out`. Returns `None` in the same case
    /// as [`ints`](Self::ints).
    pub(crate) fn set_numbers(&self, set: Set, out: &mut Vec<u32>) -> Option<()> {
        self.numbers(INTS + TEXTS + set as usize, self.sets.len(), out)
    }

    fn numbers(&self, column: usize, below: usize, out: &mut Vec<u32>) -> Option<()> {
        let mut octets = &self.raw[self.columns[column].clone()];
        for _ in 0..self.len() {
            out.push(number_below(below, &mut octets)?);
        }
        octets.is_empty().then_some(())
    }
}

/// Reads the count of the items that follow. Each item has at least one octet.
fn take_count(rest: &mut &[u8]) -> Option<usize> {
    let count = usize::try_from(varint::take(rest)?).ok()?;
    (count <= rest.len()).then_some(count)
}

fn number_below(limit: usize, rest: &mut &[u8]) -> Option<u32> {
    let number = varint::take(rest)?;
    (number < limit as u64).then_some(number as u32)
}
