//! The search: pages of entries, the newest first, and exact counts.
//!
//! The search reads the head and the segments in the order of their ids. It skips a row group that
//! is excluded by its times or its bloom filters. In the other row groups, it first decodes only
//! the columns with conditions, and decodes the remaining columns only for the rows of the page. A
//! page is continued by the id of its last entry, which stays valid while entries arrive and
//! segments are merged.
//!
//! The number of rows that a call examines is limited. A call that reaches the limit returns the
//! rows that it has found, and where to continue. The result lists damaged files; all other files
//! are searched.

mod filter;
mod network;
mod tally;
mod threads;

pub(crate) use filter::Overlap;
pub use filter::{Condition, Filter};
pub use network::ClientNetwork;
pub use tally::{EqualEntries, MAX_TALLY_COLUMNS, Tallied, TallyBy, TallyTimes};

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::chunk::Chunk;
use crate::column::{INTS, Int, NULL, SETS, Set, TEXTS, Text};
use crate::directory::{Listing, SegmentName};
use crate::error::LogError;
use crate::head::{BlockPlace, HeadReader};
use crate::rollup::Rollups;
use crate::segment::{FileColumn, PAGE_ROWS, RowGroup, RowSource, Segment};
use threads::{THREADS, together};

/// An entry as it was logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// The id of the entry, which no other entry of this log has.
    pub id: u64,
    ints: [i64; INTS],
    texts: [String; TEXTS],
    sets: [Vec<String>; SETS],
}

impl LogEntry {
    /// Returns the value of a column of integers, or `None` if it is null.
    #[must_use]
    pub fn int(&self, int: Int) -> Option<i64> {
        Some(self.ints[int as usize]).filter(|value| *value != NULL)
    }

    /// Returns the text in a column. It is empty if the entry has no value there.
    #[must_use]
    pub fn text(&self, text: Text) -> &str {
        &self.texts[text as usize]
    }

    /// Returns the set of texts in a column.
    #[must_use]
    pub fn set(&self, set: Set) -> &[String] {
        &self.sets[set as usize]
    }
}

/// The start of a search, and the limits on its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SearchExtent {
    /// The search considers only entries with ids below this one. For a further page, it is the
    /// [`Page::next_before_id`] of the previous page.
    pub before_id: u64,
    /// Maximum number of entries on the page.
    pub entries: usize,
    /// Maximum number of rows to examine. The search rounds it up to whole parts of a row group.
    pub max_rows: u64,
}

/// A page of entries that a search found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Page {
    /// The entries, the newest first.
    pub entries: Vec<LogEntry>,
    /// The id at which the search continues, as [`SearchExtent::before_id`]; `None` at the end of
    /// the log.
    pub next_before_id: Option<u64>,
    /// Number of rows that were examined.
    pub examined: u64,
    /// The files that were skipped, or were searched only in part.
    pub broken: Vec<Broken>,
}

impl Page {
    /// Appends the entries of the next chunk, unless the page is complete.
    fn append(&mut self, next: Self, entries: usize) {
        if self.next_before_id.is_some() {
            return;
        }
        let left = entries - self.entries.len();
        self.entries.extend(next.entries.into_iter().take(left));
        self.examined += next.examined;
        self.broken.extend(next.broken);
        self.next_before_id = next.next_before_id;
        if self.entries.len() == entries {
            self.next_before_id = self.entries.last().map(|entry| entry.id);
        }
    }
}

/// The result of a count.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// Number of entries that match.
    pub entries: u64,
    /// The id at which the count continues; `None` if all rows were examined.
    pub next_before_id: Option<u64>,
    /// Number of rows that were examined.
    pub examined: u64,
    /// The files that were skipped, or were counted only in part.
    pub broken: Vec<Broken>,
}

/// A file that cannot be used.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Broken {
    /// The file.
    pub path: PathBuf,
    /// The error message.
    pub reason: String,
}

/// A reader of a log. The writer may be in another process.
pub struct LogReader {
    directory: PathBuf,
    heads: HashMap<PathBuf, HeadReader>,
    segments: HashMap<PathBuf, Segment>,
    broken: HashSet<Broken>,
    places: Vec<Place>,
}

/// The location of a chunk that was not read yet.
struct Place {
    ids: Range<u64>,
    times: Range<u64>,
    at: Stored,
}

enum Stored {
    Block(PathBuf, BlockPlace),
    RowGroup(RowGroup),
}

impl LogReader {
    /// Opens the log in a directory.
    ///
    /// # Errors
    /// The directory cannot be read. Damaged files are not an error, but are listed in the results
    /// of searches.
    pub fn open(directory: PathBuf) -> Result<Self, LogError> {
        let mut reader = Self {
            directory,
            heads: HashMap::new(),
            segments: HashMap::new(),
            broken: HashSet::new(),
            places: Vec::new(),
        };
        reader.refresh()?;
        Ok(reader)
    }

    /// Finds the entries and files that were added to the log since the last call.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn refresh(&mut self) -> Result<(), LogError> {
        let listing = Listing::read(&self.directory)?;
        self.broken.clear();
        let foreign = |path: &PathBuf| broken(path, "its name is not that of a segment".to_owned());
        self.broken.extend(listing.foreign.iter().map(foreign));
        self.places.clear();
        let heads = std::mem::take(&mut self.heads);
        self.open_heads(&listing, heads);
        let segments = std::mem::take(&mut self.segments);
        self.open_segments(&listing.segments, segments);
        self.places.sort_by_key(|place| std::cmp::Reverse(place.ids.start));
        Ok(())
    }

    /// Returns the number of files of the log, including damaged files.
    #[must_use]
    pub fn files(&self) -> usize {
        self.heads.len() + self.segments.len() + self.broken.len()
    }

    fn open_heads(&mut self, listing: &Listing, mut known: HashMap<PathBuf, HeadReader>) {
        let newest = listing.heads.last().map(|head| head.first_id);
        for head in &listing.heads {
            let opened = match known.remove(&head.path) {
                Some(mut reader) => reader.refresh().map(|()| reader),
                None => HeadReader::open(&head.path),
            };
            let Some(reader) = self.usable(&head.path, opened) else { continue };
            // In the newest file, the writer may still be writing the last block.
            let is_complete = newest != Some(head.first_id);
            let loss = if is_complete { reader.final_loss() } else { reader.loss };
            self.broken.extend(loss.reason().map(|reason| broken(&head.path, reason)));
            self.places.extend(reader.blocks.iter().map(|place| Place {
                ids: place.header.ids(),
                times: place.header.first_us..place.header.last_us.saturating_add(1),
                at: Stored::Block(head.path.clone(), *place),
            }));
            self.heads.insert(head.path.clone(), reader);
        }
    }

    fn open_segments(&mut self, names: &[SegmentName], mut known: HashMap<PathBuf, Segment>) {
        for name in names {
            let opened = known.remove(&name.path).map_or_else(|| Segment::open(name), Ok);
            let Some(segment) = self.usable(&name.path, opened) else { continue };
            for group in segment.groups() {
                let bounds = |column| {
                    let (least, most) = group.bounds(column).unwrap_or((0, i64::MAX - 1));
                    least.max(0) as u64..most.max(0) as u64 + 1
                };
                let (ids, times) = (bounds(FileColumn::Id), bounds(FileColumn::Int(Int::Time)));
                self.places.push(Place { ids, times, at: Stored::RowGroup(group) });
            }
            self.segments.insert(name.path.clone(), segment);
        }
    }

    /// Returns the value of `opened`. If it is an error, marks the file as broken, unless the
    /// upkeep has replaced the file: the next refresh then finds its successor.
    fn usable<T>(&mut self, path: &Path, opened: Result<T, LogError>) -> Option<T> {
        let error = match opened {
            Ok(file) => return Some(file),
            Err(error) => error,
        };
        let is_gone = matches!(&error, LogError::File { source, .. }
            if source.kind() == std::io::ErrorKind::NotFound);
        if !is_gone {
            self.broken.insert(Broken { path: path.to_owned(), reason: error.to_string() });
        }
        None
    }

    /// Returns a page of the entries that match the filter, the newest first.
    pub fn search(&self, filter: &Filter, extent: SearchExtent) -> Page {
        let mut page = Page { broken: self.broken.iter().cloned().collect(), ..Page::default() };
        let mut places = self.places_before(filter, extent.before_id);
        // The newest chunk alone often has enough entries for the page.
        let mut at_once = 1;
        while page.next_before_id.is_none() {
            let next: Vec<&Place> = places.by_ref().take(at_once).collect();
            if next.is_empty() {
                break;
            }
            let left = SearchExtent {
                entries: extent.entries - page.entries.len(),
                max_rows: extent.max_rows.saturating_sub(page.examined),
                ..extent
            };
            for found in together(&next, |place| self.search_place(place, filter, left)) {
                page.append(found, extent.entries);
            }
            at_once = THREADS;
        }
        let broken: HashSet<Broken> = page.broken.drain(..).collect();
        page.broken = broken.into_iter().collect();
        page
    }

    /// Counts the entries that match the filter.
    pub fn count(&self, filter: &Filter, extent: SearchExtent) -> Count {
        let mut count = Count::default();
        let mut broken = self.broken.clone();
        let mut places = self.places_before(filter, extent.before_id);
        loop {
            let next: Vec<&Place> = places.by_ref().take(THREADS).collect();
            let Some(first) = next.first() else { break };
            if count.examined >= extent.max_rows {
                count.next_before_id = Some(first.ids.end);
                break;
            }
            let counted =
                together(&next, |place| self.count_place(place, filter, extent.before_id));
            for (place, counted) in next.iter().zip(counted) {
                match counted {
                    Ok(Counted { entries, examined }) => {
                        count.entries += entries;
                        count.examined += examined;
                    }
                    Err(error) => drop(broken.insert(place.broken(&error))),
                }
            }
        }
        count.broken = broken.into_iter().collect();
        count
    }

    /// Returns the chunks that may have matching entries with ids below `before_id`, the newest
    /// first.
    fn places_before(&self, filter: &Filter, before_id: u64) -> impl Iterator<Item = &Place> {
        let places = self.places.iter().filter(move |place| place.ids.start < before_id);
        places.filter(|place| !self.is_excluded(place, filter))
    }

    /// Calls `found` with the matching rows of each chunk, the oldest chunk first. Returns the
    /// files that were skipped or only read in part.
    pub(crate) fn matching<E>(
        &self,
        filter: &Filter,
        mut found: impl FnMut(RowSource) -> Result<(), E>,
    ) -> Result<Vec<Broken>, E> {
        let mut broken = self.broken.clone();
        for place in self.places.iter().rev().filter(|place| !self.is_excluded(place, filter)) {
            match self.source(place, filter) {
                Ok(source) if source.len() > 0 => found(source)?,
                Ok(_) => {}
                Err(error) => drop(broken.insert(place.broken(&error))),
            }
        }
        Ok(broken.into_iter().collect())
    }

    fn source(&self, place: &Place, filter: &Filter) -> Result<RowSource, LogError> {
        let chunk = self.chunk(place)?;
        let kept = filter.select(&chunk, &(0..chunk.len()), filter.overlap(place.times.clone()))?;
        Ok(RowSource { chunk, kept })
    }

    fn is_excluded(&self, place: &Place, filter: &Filter) -> bool {
        filter.overlap(place.times.clone()) == Overlap::None
            || matches!(&place.at, Stored::RowGroup(group) if !filter.may_match(group))
    }

    /// Returns the matching entries of a chunk. The last part of the chunk is searched first: if
    /// its entries fill the page, the rest is not decoded.
    fn search_place(&self, place: &Place, filter: &Filter, extent: SearchExtent) -> Page {
        let mut page = Page::default();
        if let Err(error) = self.search_chunk(place, filter, extent, &mut page) {
            page.broken.push(place.broken(&error));
        }
        page
    }

    fn search_chunk(
        &self,
        place: &Place,
        filter: &Filter,
        extent: SearchExtent,
        page: &mut Page,
    ) -> Result<(), LogError> {
        let chunk = self.chunk(place)?;
        let mut end = place.rows_before(&chunk, extent.before_id)?;
        let mut rows = PAGE_ROWS;
        while end > 0 && page.next_before_id.is_none() {
            let start = end.saturating_sub(rows) / PAGE_ROWS * PAGE_ROWS;
            self.search_rows(&chunk, start..end, (filter, place), (extent, page))?;
            if page.next_before_id.is_none() && page.examined >= extent.max_rows {
                page.next_before_id = chunk.ids(start..start + 1)?.first().map(|id| *id as u64);
            }
            end = start;
            rows = chunk.len();
        }
        Ok(())
    }

    fn search_rows(
        &self,
        chunk: &Chunk,
        rows: Range<usize>,
        (filter, place): (&Filter, &Place),
        (extent, page): (SearchExtent, &mut Page),
    ) -> Result<(), LogError> {
        page.examined += rows.len() as u64;
        let wanted = filter.select(chunk, &rows, filter.overlap(place.times.clone()))?;
        let left = extent.entries - page.entries.len();
        let found = wanted.iter().enumerate().rev().filter(|(_, wanted)| **wanted);
        let mut found: Vec<usize> = found.map(|(row, _)| rows.start + row).take(left).collect();
        found.reverse();
        page.entries.extend(entries(chunk, &found)?);
        if page.entries.len() == extent.entries {
            page.next_before_id = page.entries.last().map(|entry| entry.id);
        }
        Ok(())
    }

    fn count_place(
        &self,
        place: &Place,
        filter: &Filter,
        before_id: u64,
    ) -> Result<Counted, LogError> {
        let overlap = filter.overlap(place.times.clone());
        let is_whole = overlap == Overlap::All && filter.conditions.is_empty();
        if is_whole && place.ids.end <= before_id {
            let entries = match &place.at {
                Stored::Block(_, block) => u64::from(block.header.count),
                Stored::RowGroup(group) => group.len() as u64,
            };
            return Ok(Counted { entries, examined: 0 });
        }
        let chunk = self.chunk(place)?;
        let rows = 0..place.rows_before(&chunk, before_id)?;
        let wanted = filter.select(&chunk, &rows, overlap)?;
        let entries = wanted.iter().filter(|wanted| **wanted).count() as u64;
        Ok(Counted { entries, examined: rows.len() as u64 })
    }

    fn chunk(&self, place: &Place) -> Result<Chunk, LogError> {
        match &place.at {
            Stored::RowGroup(group) => Ok(Chunk::RowGroup(group.clone())),
            Stored::Block(path, block) => match self.heads.get(path) {
                Some(head) => head.block(block).map(Box::new).map(Chunk::Block),
                None => Err(LogError::damaged(path, "it is not open")),
            },
        }
    }

    /// Compares all octets of the log with their checksums, and returns the files that do not
    /// match. After each file, `progress` is called with the number of files checked so far and the
    /// number of all files.
    pub fn verify(&self, mut progress: impl FnMut(usize, usize)) -> Vec<Broken> {
        let mut broken = self.broken.clone();
        for (path, head) in &self.heads {
            broken.retain(|known| known.path != *path);
            let reason = head.final_loss().reason();
            broken.extend(reason.map(|reason| Broken { path: path.clone(), reason }));
        }
        let rollups = Rollups::damage(&self.directory);
        let path = Rollups::path(&self.directory);
        broken.extend(rollups.map(|error| self::broken(&path, error.to_string())));
        for (number, (path, segment)) in self.segments.iter().enumerate() {
            if let Err(error) = segment.verify() {
                broken.insert(Broken { path: path.clone(), reason: error.to_string() });
            }
            progress(number + 1, self.segments.len());
        }
        broken.into_iter().collect()
    }
}

fn broken(path: &Path, reason: String) -> Broken {
    Broken { path: path.to_owned(), reason }
}

struct Counted {
    entries: u64,
    examined: u64,
}

impl Place {
    /// Returns the number of rows of the chunk with an id below `id`.
    fn rows_before(&self, chunk: &Chunk, id: u64) -> Result<usize, LogError> {
        let len = chunk.len();
        if self.ids.end <= id {
            return Ok(len);
        }
        if self.ids.end - self.ids.start == len as u64 {
            return Ok(id.saturating_sub(self.ids.start) as usize);
        }
        // The ids of a chunk increase, but have gaps where entries were deleted.
        let ids = chunk.ids(0..len)?;
        Ok(ids.partition_point(|own| (*own as u64) < id))
    }

    fn broken(&self, error: &LogError) -> Broken {
        let path = match &self.at {
            Stored::Block(path, _) => path.clone(),
            Stored::RowGroup(group) => group.path().to_owned(),
        };
        Broken { path, reason: error.to_string() }
    }
}

/// Reads the entries in some rows of a chunk. The rows are in ascending order; the entries are
/// returned in descending order.
fn entries(chunk: &Chunk, rows: &[usize]) -> Result<Vec<LogEntry>, LogError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let entry = |id: i64| LogEntry {
        id: id as u64,
        ints: [0; INTS],
        texts: Default::default(),
        sets: Default::default(),
    };
    let mut entries: Vec<LogEntry> = chunk.ids_at(rows)?.into_iter().map(entry).collect();
    let owned = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    for int in Int::ALL {
        for (entry, value) in entries.iter_mut().zip(chunk.ints_at(int, rows)?) {
            entry.ints[int as usize] = value;
        }
    }
    for text in Text::ALL {
        let column = chunk.texts_at(text, rows)?;
        for (entry, number) in entries.iter_mut().zip(&column.numbers) {
            entry.texts[text as usize] = owned(column.dictionary.get(*number));
        }
    }
    for set in Set::ALL {
        let column = chunk.sets_at(set, rows)?;
        for (row, entry) in entries.iter_mut().enumerate() {
            let members = column.row(row).iter();
            entry.sets[set as usize] =
                members.map(|number| owned(column.dictionary.get(*number))).collect();
        }
    }
    entries.reverse();
    Ok(entries)
}

#[cfg(test)]
mod tests;
