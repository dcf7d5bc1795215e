//! The pieces of a segment: dictionary pages and data pages, each with its length and CRC-32.
//!
//! Parquet's own checksums of pages do not cover the page headers. The footer lists all pieces in
//! the order of the file, 16 hexadecimal digits each, so a search reads and checks single pages.

use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::ColumnChunkMetaData;

use super::PAGE_ROWS;

/// Number of hexadecimal digits of a length or a CRC-32.
const DIGITS: usize = 8;

/// A page with its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) crc: u32,
}

/// Appends the pages of a column chunk to a list. Returns `None` if a page has an unexpected number
/// of rows.
pub(super) fn list(octets: &[u8], close: &ColumnCloseResult, out: &mut String) -> Option<()> {
    let pages = &close.offset_index.as_ref()?.page_locations;
    let is_regular = |(number, first): (usize, i64)| first == (number * PAGE_ROWS) as i64;
    let firsts = pages.iter().map(|page| page.first_row_index);
    if !firsts.enumerate().all(is_regular) {
        return None;
    }
    let dictionary = usize::try_from(pages.first()?.offset).ok()?;
    let lengths = pages.iter().map(|page| page.compressed_page_size as usize);
    let mut rest = octets;
    for len in std::iter::once(dictionary).filter(|len| *len > 0).chain(lengths) {
        let (piece, after) = rest.split_at_checked(len)?;
        out.push_str(&format!("{:08x}{:08x}", piece.len(), crc32fast::hash(piece)));
        rest = after;
    }
    rest.is_empty().then_some(())
}

/// Parses the list of a file whose first column chunk begins at an offset.
pub(super) fn read(list: &str, mut offset: u64) -> Option<Vec<Piece>> {
    let number = |digits: &[u8]| u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
    let piece = |digits: &[u8]| {
        let (len, crc) = digits.split_at_checked(DIGITS)?;
        let piece = Piece { offset, len: number(len)?, crc: number(crc)? };
        offset = offset.checked_add(piece.len.into())?;
        Some(piece)
    };
    list.as_bytes().chunks(2 * DIGITS).map(piece).collect()
}

/// Finds the pages of a column chunk that has `rows` rows. Returns `None` if the pages are not as
/// expected.
pub(super) fn of_chunk<'p>(
    pieces: &'p [Piece],
    meta: &ColumnChunkMetaData,
    rows: usize,
) -> Option<ChunkPieces<'p>> {
    let (start, len) = meta.byte_range();
    let first = pieces.partition_point(|piece| piece.offset < start);
    let end = pieces.partition_point(|piece| piece.offset < start + len);
    let all = pieces.get(first..end)?;
    let data = all.len().checked_sub(rows.div_ceil(PAGE_ROWS))?;
    let is_whole = all.first()?.offset == start
        && all.last().map(|last| last.offset + u64::from(last.len)) == Some(start + len);
    (is_whole && data <= 1).then(|| ChunkPieces { dictionary: &all[..data], pages: &all[data..] })
}

/// The pieces of a column chunk.
pub(super) struct ChunkPieces<'p> {
    /// The dictionary page, if there is one.
    pub(super) dictionary: &'p [Piece],
    /// The data pages.
    pub(super) pages: &'p [Piece],
}
