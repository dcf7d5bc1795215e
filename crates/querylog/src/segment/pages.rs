//! Decodes texts and sets from the pages of a column chunk.
//!
//! The readers of the crate `parquet` create a text for each row. A search only needs the number of
//! the text in each row, since it compares each text of the dictionary once. So this module decodes
//! the numbers itself. The crate still reads the page headers and decompresses.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};

use crate::chunk::Dictionary;

/// The indices of the texts in some rows of a column chunk, and the end of each row.
pub(super) struct Decoded {
    pub(super) dictionary: Arc<Dictionary>,
    pub(super) numbers: Vec<u32>,
    /// The end of each row's texts in `numbers`; empty if each row has exactly one text.
    pub(super) ends: Vec<u32>,
}

/// The shape of a column: one text in each row without levels, or a list of texts with levels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Single,
    List,
}

/// Decodes some rows of a column chunk. The rows are in ascending order. Returns `None` if the
/// pages differ from those that the log writes.
pub(super) fn decode(
    reader: &mut dyn PageReader,
    shape: Shape,
    rows: &[Range<usize>],
) -> Option<Decoded> {
    let mut pages = Pages::of(reader, shape)?;
    let (mut numbers, mut ends) = (Vec::new(), Vec::new());
    let mut rest = rows.iter().peekable();
    let mut count = 0;
    loop {
        let page = pages.next(&mut |page| {
            while rest.next_if(|run| run.end <= page.start).is_some() {}
            rest.peek().is_some_and(|run| run.start < page.end)
        })?;
        let Some(page) = page else { break };
        for run in rest.clone().take_while(|run| run.start < page.rows.end) {
            let wanted = overlap(run, page.rows.start, page.rows.len());
            count += wanted.len();
            page.append(wanted, &mut numbers, &mut ends)?;
        }
    }
    let dictionary = Arc::new(pages.texts.finish());
    let expected: usize = rows.iter().map(Range::len).sum();
    (count == expected).then_some(Decoded { dictionary, numbers, ends })
}

/// Clears `wanted` for the rows without a matching text. `first` is the row of the first item in
/// `wanted`. Returns `None` if the pages differ from those that the log writes.
pub(super) fn restrict(
    reader: &mut dyn PageReader,
    shape: Shape,
    matches: &dyn Fn(&[u8]) -> bool,
    first: usize,
    wanted: &mut [bool],
) -> Option<()> {
    let mut pages = Pages::of(reader, shape)?;
    let matching = pages.texts.matching(matches);
    if !matching.contains(&true) {
        wanted.fill(false);
        return Some(());
    }
    let rows = first..first + wanted.len();
    let of_page = |page: &Range<usize>| {
        let within = overlap(&rows, page.start, page.len());
        let start = (page.start + within.start).saturating_sub(first).min(rows.len());
        (within.clone(), start..start + within.len())
    };
    loop {
        let page = pages.next(&mut |page| wanted[of_page(page).1].contains(&true))?;
        let Some(page) = page else { return Some(()) };
        let (within, place) = of_page(&page.rows);
        page.restrict(within, &matching, &mut wanted[place])?;
    }
}

/// The pages of a column chunk, one after another.
struct Pages<'r> {
    reader: &'r mut (dyn PageReader + 'r),
    shape: Shape,
    texts: Texts,
    /// The first row of the next page.
    first: usize,
}

/// A data page.
struct TextPage {
    /// The rows of the page, counted from the start of the column chunk.
    rows: Range<usize>,
    numbers: Run,
    /// The number of texts in each row of a column with sets.
    lengths: Option<Vec<u32>>,
}

impl<'r> Pages<'r> {
    /// Reads the dictionary page, the first one of a column chunk.
    fn of(reader: &'r mut (dyn PageReader + 'r), shape: Shape) -> Option<Self> {
        let mut texts = Texts::default();
        if reader.peek_next_page().ok()?.is_some_and(|page| page.is_dict)
            && let Page::DictionaryPage { buf, num_values, .. } = reader.get_next_page().ok()??
        {
            texts = Texts::plain(buf, num_values)?;
        }
        Some(Self { reader, shape, texts, first: 0 })
    }

    /// Returns the next page that has rows for which `wants` is true, or `Some(None)` after the
    /// last one. Returns `None` if a page is malformed.
    fn next(&mut self, wants: &mut dyn FnMut(&Range<usize>) -> bool) -> Option<Option<TextPage>> {
        while let Some(header) = self.reader.peek_next_page().ok()? {
            let rows = self.first..self.first + header.num_rows?;
            self.first = rows.end;
            if wants(&rows) {
                let page = self.reader.get_next_page().ok()??;
                return self.decoded(page, rows).map(Some);
            }
            self.reader.skip_next_page().ok()?;
        }
        Some(None)
    }

    fn decoded(&self, page: Page, rows: Range<usize>) -> Option<TextPage> {
        let Page::DataPageV2 {
            buf,
            num_values,
            encoding: Encoding::RLE_DICTIONARY,
            num_rows,
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } = page
        else {
            return None;
        };
        let levels = rep_levels_byte_len.checked_add(def_levels_byte_len)?;
        (levels as usize <= buf.len()).then_some(())?;
        let repeated = buf.slice(..rep_levels_byte_len as usize);
        let present = buf.slice(rep_levels_byte_len as usize..levels as usize);
        let values = buf.slice(levels as usize..);
        let lengths = match self.shape {
            Shape::Single => None,
            Shape::List => Some(lengths(repeated, present, num_values as usize)?),
        };
        let count = lengths
            .as_ref()
            .map_or(num_values as usize, |lengths| lengths.iter().sum::<u32>() as usize);
        let (width, run) = (*values.first()?, values.slice(1..));
        let numbers = Run::read(run, u32::from(width), count)?;
        let is_whole = num_rows as usize == rows.len()
            && lengths.as_ref().map_or(count, Vec::len) == rows.len();
        is_whole.then_some(TextPage { rows, numbers, lengths })
    }
}

impl TextPage {
    /// Appends the indices of the texts in some rows of the page.
    fn append(
        &self,
        wanted: Range<usize>,
        numbers: &mut Vec<u32>,
        ends: &mut Vec<u32>,
    ) -> Option<()> {
        let Some(lengths) = &self.lengths else { return self.numbers.append(wanted, numbers) };
        let start = lengths.get(..wanted.start)?.iter().sum::<u32>() as usize;
        let lengths = lengths.get(wanted)?;
        let mut end = numbers.len() as u32;
        let all: u32 = lengths.iter().sum();
        self.numbers.append(start..start + all as usize, numbers)?;
        ends.extend(lengths.iter().map(|length| {
            end += length;
            end
        }));
        Some(())
    }

    /// Clears `wanted` for the rows of the page that have no matching text.
    fn restrict(&self, rows: Range<usize>, matching: &[bool], wanted: &mut [bool]) -> Option<()> {
        let has = |number: &u32| matching.get(*number as usize).copied().unwrap_or(false);
        let (mut numbers, mut ends) = (Vec::new(), Vec::new());
        self.append(rows, &mut numbers, &mut ends)?;
        if self.lengths.is_none() {
            wanted.iter_mut().zip(&numbers).for_each(|(wanted, number)| *wanted &= has(number));
            return Some(());
        }
        let mut at = 0;
        for (wanted, end) in wanted.iter_mut().zip(ends) {
            *wanted &= numbers[at..end as usize].iter().any(has);
            at = end as usize;
        }
        Some(())
    }
}

/// Returns the rows of a page that are within `rows`, counted from the first row of the page.
fn overlap(rows: &Range<usize>, first: usize, count: usize) -> Range<usize> {
    let start = rows.start.saturating_sub(first).min(count);
    start..rows.end.saturating_sub(first).min(count).max(start)
}

/// Decodes the levels of a page, and returns the number of texts in each row.
fn lengths(repeated: Bytes, present: Bytes, count: usize) -> Option<Vec<u32>> {
    let (mut starts, mut levels) = (Vec::new(), Vec::new());
    Run::read(repeated, 1, count)?.append(0..count, &mut starts)?;
    Run::read(present, 1, count)?.append(0..count, &mut levels)?;
    let mut lengths = Vec::new();
    for (repeats, level) in starts.into_iter().zip(levels) {
        if repeats == 0 {
            lengths.push(0);
        }
        *lengths.last_mut()? += level;
    }
    Some(lengths)
}

/// The texts of a dictionary page, in the order of their numbers.
#[derive(Default)]
struct Texts {
    octets: Bytes,
    places: Vec<Range<u32>>,
}

impl Texts {
    /// Reads `count` texts, each after its length in four octets.
    fn plain(octets: Bytes, count: u32) -> Option<Self> {
        let mut places = Vec::with_capacity((count as usize).min(octets.len() / 4));
        let mut at = 0;
        for _ in 0..count {
            let length = octets.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)?;
            let start = u32::try_from(at + 4).ok()?;
            let end = start.checked_add(length)?;
            at = end as usize;
            (at <= octets.len()).then_some(())?;
            places.push(start..end);
        }
        Some(Self { octets, places })
    }

    /// Returns for each text whether it matches.
    fn matching(&self, matches: &dyn Fn(&[u8]) -> bool) -> Vec<bool> {
        let text = |place: &Range<u32>| &self.octets[place.start as usize..place.end as usize];
        self.places.iter().map(|place| matches(text(place))).collect()
    }

    fn finish(self) -> Dictionary {
        Dictionary::new(self.octets, self.places)
    }
}

/// The numbers of a page. Parquet allows any number of runs; the log writes one run.
#[derive(PartialEq, Eq, Debug)]
enum Run {
    Equal { number: u32, count: usize },
    Packed { octets: Bytes, width: u32, count: usize },
}

impl Run {
    /// Reads a run of `count` numbers of `width` bits.
    fn read(octets: Bytes, width: u32, count: usize) -> Option<Self> {
        if count == 0 {
            return Some(Self::Equal { number: 0, count });
        }
        (width <= 32).then_some(())?;
        let mut rest = &octets[..];
        let head = crate::varint::take(&mut rest)?;
        let length = usize::try_from(head >> 1).ok()?;
        if head & 1 == 0 {
            let value = rest.get(..width.div_ceil(8) as usize)?.iter().rev();
            let number = value.fold(0, |number, octet| number << 8 | u32::from(*octet));
            return (length == count).then_some(Self::Equal { number, count });
        }
        let is_whole = length.checked_mul(8)? >= count && rest.len() * 8 >= count * width as usize;
        let octets = octets.slice(octets.len() - rest.len()..);
        is_whole.then_some(Self::Packed { octets, width, count })
    }

    /// Appends some of the numbers.
    fn append(&self, wanted: Range<usize>, out: &mut Vec<u32>) -> Option<()> {
        let (Self::Equal { count, .. } | Self::Packed { count, .. }) = *self;
        (wanted.end <= count).then_some(())?;
        match self {
            Self::Equal { number, .. } => out.resize(out.len() + wanted.len(), *number),
            Self::Packed { octets, width, .. } => unpack(octets, *width, wanted, out),
        }
        Some(())
    }
}

/// Appends numbers of `width` bits, low bits first. `octets` must contain enough of them.
fn unpack(octets: &[u8], width: u32, wanted: Range<usize>, out: &mut Vec<u32>) {
    let mask = (1_u64 << width) - 1;
    // The numbers before this index can be read as eight octets without reading beyond the end.
    let whole = (octets.len().saturating_sub(8) * 8).checked_div(width as usize).unwrap_or(0);
    let whole = whole.clamp(wanted.start, wanted.end);
    let at = |index: usize| (index * width as usize / 8, index * width as usize % 8);
    out.extend((wanted.start..whole).map(|index| {
        let (octet, bit) = at(index);
        let eight = octets[octet..octet + 8].try_into().map_or(0, u64::from_le_bytes);
        (eight >> bit & mask) as u32
    }));
    out.extend((whole..wanted.end).map(|index| {
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
        let check = |octets: &'static [u8], width: u32, expected: &[u32]| {
            let run = Run::read(Bytes::from_static(octets), width, expected.len()).unwrap();
            let mut numbers = Vec::new();
            run.append(0..expected.len(), &mut numbers).unwrap();
            assert_eq!(numbers, expected);
            numbers.clear();
            run.append(1..2, &mut numbers).unwrap();
            assert_eq!(numbers, expected[1..2]);
            assert_eq!(run.append(1..expected.len() + 1, &mut numbers), None);
        };
        // The example in the documentation of the format: the numbers 0 to 7 with three bits each.
        check(&[3, 0x88, 0xc6, 0xfa], 3, &[0, 1, 2, 3, 4, 5, 6, 7]);
        check(&[8, 9], 4, &[9, 9, 9, 9]);
        check(&[16], 0, &[0; 8]);
    }

    #[test]
    fn octets_that_end_early_are_refused() {
        for octets in [&[][..], &[3, 0x88], &[8], &[0, 1], &[1]] {
            assert_eq!(Run::read(Bytes::from_static(octets), 3, 4), None, "{octets:?}");
        }
    }
}
