//! Decodes texts and sets from the pages of a column chunk.
//!
//! The readers of the crate `parquet` make a value of each text. A search compares each text of the
//! dictionary once and needs only the numbers per row, so the runs of numbers are decoded here. The
//! crate still reads the page headers and decompresses.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};

use crate::chunk::Dictionary;

/// The numbers of texts in some rows of a column chunk, and how many belong to each row.
pub(super) struct Decoded {
    pub(super) dictionary: Arc<Dictionary>,
    pub(super) numbers: Vec<u32>,
    /// End of the texts of each row in `numbers`; empty for a column with one text in each row.
    pub(super) ends: Vec<u32>,
}

/// Levels of a column: none for one text in each row, or those of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Single,
    List,
}

/// Decodes some rows of a column chunk. Returns `None` if the pages are not as our writer makes
/// them.
pub(super) fn decode(
    reader: &mut dyn PageReader,
    shape: Shape,
    rows: &Range<usize>,
) -> Option<Decoded> {
    let mut texts = Texts::default();
    let mut numbers = Vec::with_capacity(rows.len());
    let mut ends = Vec::new();
    let mut first = 0;
    while first < rows.end
        && let Some(header) = reader.peek_next_page().ok()?
    {
        let count = header.num_rows.filter(|_| !header.is_dict);
        if let Some(count) = count
            && first + count <= rows.start
        {
            first += count;
            reader.skip_next_page().ok()?;
            continue;
        }
        match reader.get_next_page().ok()?? {
            Page::DictionaryPage { buf, num_values, .. } => texts.plain(&buf, num_values)?,
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_rows,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let (repeated, rest) = buf.split_at_checked(rep_levels_byte_len as usize)?;
                let (present, _) = rest.split_at_checked(def_levels_byte_len as usize)?;
                let values = buf.slice((rep_levels_byte_len + def_levels_byte_len) as usize..);
                let lengths = match shape {
                    Shape::Single => None,
                    Shape::List => Some(lengths(repeated, present, num_values as usize)?),
                };
                let count = lengths
                    .as_ref()
                    .map_or(num_values as usize, |lengths| lengths.iter().sum::<u32>() as usize);
                let page = texts.numbers(&values, encoding, count)?;
                let wanted = overlap(rows, first, num_rows as usize);
                append(&mut numbers, &mut ends, (&page, lengths.as_deref()), wanted)?;
                first += num_rows as usize;
            }
            Page::DataPage { .. } => return None,
        }
    }
    Some(Decoded { dictionary: Arc::new(texts.finish()), numbers, ends })
}

/// Returns the rows of a page, counted from its first one, that are within `rows`.
pub(super) fn overlap(rows: &Range<usize>, first: usize, count: usize) -> Range<usize> {
    let start = rows.start.saturating_sub(first).min(count);
    start..rows.end.saturating_sub(first).min(count).max(start)
}

fn append(
    numbers: &mut Vec<u32>,
    ends: &mut Vec<u32>,
    (page, lengths): (&[u32], Option<&[u32]>),
    wanted: Range<usize>,
) -> Option<()> {
    let Some(lengths) = lengths else {
        numbers.extend_from_slice(page.get(wanted)?);
        return Some(());
    };
    let start: u32 = lengths.get(..wanted.start)?.iter().sum();
    let mut at = start as usize;
    for length in lengths.get(wanted)? {
        let end = at + *length as usize;
        numbers.extend_from_slice(page.get(at..end)?);
        ends.push(numbers.len() as u32);
        at = end;
    }
    Some(())
}

/// Returns the number of texts in each row of a page with lists.
fn lengths(repeated: &[u8], present: &[u8], count: usize) -> Option<Vec<u32>> {
    let (mut starts, mut levels) = (Vec::new(), Vec::new());
    hybrid(repeated, 1, count, &mut starts)?;
    hybrid(present, 1, count, &mut levels)?;
    let mut lengths = Vec::new();
    for (repeats, level) in starts.into_iter().zip(levels) {
        if repeats == 0 {
            lengths.push(0);
        }
        *lengths.last_mut()? += level;
    }
    Some(lengths)
}

/// Texts in the order of their numbers: those of the dictionary page, and then those that were
/// stored plainly as the dictionary was full.
#[derive(Default)]
struct Texts {
    octets: BytesMut,
    places: Vec<Range<u32>>,
    /// The dictionary page alone, which needs no copy.
    page: Bytes,
}

impl Texts {
    /// Takes texts, each after its length in four octets.
    fn plain(&mut self, octets: &Bytes, count: u32) -> Option<()> {
        let base = if self.places.is_empty() {
            self.page = octets.clone();
            0
        } else {
            if self.octets.is_empty() {
                self.octets.extend_from_slice(&self.page);
            }
            self.octets.extend_from_slice(octets);
            self.octets.len() - octets.len()
        };
        self.places.reserve(count as usize);
        let mut at = 0;
        for _ in 0..count {
            let length = octets.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)?;
            let start = u32::try_from(base + at + 4).ok()?;
            let end = start.checked_add(length)?;
            at = at + 4 + length as usize;
            (at <= octets.len()).then_some(())?;
            self.places.push(start..end);
        }
        Some(())
    }

    fn numbers(&mut self, values: &Bytes, encoding: Encoding, count: usize) -> Option<Vec<u32>> {
        let mut numbers = Vec::with_capacity(count);
        match encoding {
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                if count > 0 {
                    let (width, runs) = values.split_first()?;
                    hybrid(runs, u32::from(*width), count, &mut numbers)?;
                }
            }
            Encoding::PLAIN => {
                let start = self.places.len() as u32;
                self.plain(values, count as u32)?;
                numbers.extend(start..self.places.len() as u32);
            }
            _ => return None,
        }
        Some(numbers)
    }

    fn finish(self) -> Dictionary {
        let octets = if self.octets.is_empty() { self.page } else { self.octets.freeze() };
        Dictionary::new(octets, self.places)
    }
}

/// Appends `count` numbers of `width` bits in Parquet's hybrid of runs and packed groups of eight.
fn hybrid(mut octets: &[u8], width: u32, count: usize, out: &mut Vec<u32>) -> Option<()> {
    (width <= 32).then_some(())?;
    let end = out.len() + count;
    let value_octets = width.div_ceil(8) as usize;
    while out.len() < end {
        let head = crate::varint::take(&mut octets)?;
        let length = usize::try_from(head >> 1).ok()?;
        if head & 1 == 0 {
            let (value, rest) = octets.split_at_checked(value_octets)?;
            octets = rest;
            let value = value.iter().rev().fold(0, |number, octet| number << 8 | u32::from(*octet));
            // An empty run would never end the loop.
            (length > 0).then_some(())?;
            out.resize(out.len() + length.min(end - out.len()), value);
        } else {
            let packed = length.checked_mul(width as usize)?.min(octets.len());
            let (group, rest) = octets.split_at(packed);
            octets = rest;
            let wanted = length.checked_mul(8)?.min(end - out.len());
            (wanted > 0 && packed * 8 >= wanted * width as usize).then_some(())?;
            unpack(group, width, wanted, out);
        }
    }
    Some(())
}

/// Appends numbers of `width` bits, low bits first; `octets` has enough of them.
fn unpack(octets: &[u8], width: u32, count: usize, out: &mut Vec<u32>) {
    let mask = (1_u64 << width) - 1;
    // Numbers that a read of eight octets covers without passing the end.
    let whole = (octets.len().saturating_sub(8) * 8).checked_div(width as usize).unwrap_or(0);
    let at = |index: usize| (index * width as usize / 8, index * width as usize % 8);
    out.extend((0..count.min(whole)).map(|index| {
        let (octet, bit) = at(index);
        let eight = octets[octet..octet + 8].try_into().map_or(0, u64::from_le_bytes);
        (eight >> bit & mask) as u32
    }));
    out.extend((count.min(whole)..count).map(|index| {
        let (octet, bit) = at(index);
        let rest = octets[octet..].iter().take(8).rev();
        let eight = rest.fold(0, |number, octet| number << 8 | u64::from(*octet));
        (eight >> bit & mask) as u32
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_packed_groups_are_decoded() {
        let check = |octets: &[u8], width: u32, expected: &[u32]| {
            let mut numbers = Vec::new();
            assert_eq!(hybrid(octets, width, expected.len(), &mut numbers), Some(()));
            assert_eq!(numbers, expected);
        };
        // The example of the format's documentation: 0 to 7 in three bits each.
        check(&[3, 0x88, 0xc6, 0xfa], 3, &[0, 1, 2, 3, 4, 5, 6, 7]);
        check(&[8, 9], 4, &[9, 9, 9, 9]);
        check(&[4, 1, 2, 3, 0x88, 0xc6, 0xfa][..2], 3, &[1, 1]);
        check(&[16], 0, &[0; 8]);
    }

    #[test]
    fn octets_that_end_early_are_refused() {
        for octets in [&[][..], &[3, 0x88], &[8], &[0, 1], &[1]] {
            assert_eq!(hybrid(octets, 3, 4, &mut Vec::new()), None, "{octets:?}");
        }
    }
}
