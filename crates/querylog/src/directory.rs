//! The files of the log and their names.
//!
//! The writer, the upkeep and a search may be different threads or processes. They communicate only
//! by the names of files:
//!
//! ```text
//! lock                                        locked by the process that writes
//! head-FIRST.blocks                           entries from id FIRST on; the last one grows
//! queries-TIME-FIRST-LAST-REWRITES-TAIL-CRC.parquet
//!                                             a sealed segment with ids FIRST to LAST
//! *.part                                      an incomplete file; renamed when it is complete
//! ```
//!
//! FIRST and LAST are ids in hexadecimal, below 2^62. The id of an entry never changes. A segment
//! therefore replaces all heads and segments with ids inside its range, even before they are
//! deleted: [`Listing`] omits them. A crash between rename and deletion neither loses nor
//! duplicates entries.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::date::Date;
use crate::error::LogError;

/// The upper limit of the ids in names, which no log reaches.
const END_ID: u64 = 1 << 62;

/// A file of the head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HeadName {
    pub(crate) path: PathBuf,
    pub(crate) first_id: u64,
}

/// A sealed segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SegmentName {
    pub(crate) path: PathBuf,
    pub(crate) label: SegmentLabel,
    /// Number of octets from the end of the last row group to the end of the file: indexes and
    /// footer.
    pub(crate) tail: u64,
    /// CRC-32 of the octets of the tail.
    pub(crate) crc: u32,
}

/// The part of a segment's name that is known before the file is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SegmentLabel {
    /// The time of the first entry, in the form `20261123T112700Z`.
    pub(crate) stamp: String,
    /// The range of ids of the entries. Retention may have removed some of these entries.
    pub(crate) ids: RangeInclusive<u64>,
    /// Number of times that retention has rewritten the segment. If two segments have the same ids,
    /// the one with the higher number replaces the other.
    pub(crate) generation: u32,
}

impl SegmentLabel {
    /// Returns the label of entries that begin at a time.
    pub(crate) fn new(first_us: u64, ids: RangeInclusive<u64>) -> Self {
        let secs = first_us / 1_000_000;
        let date = Date::of_day(secs / 86_400).compact();
        let (hour, minute, second) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
        Self { stamp: format!("{date}T{hour:02}{minute:02}{second:02}Z"), ids, generation: 0 }
    }

    /// Returns the day of the first entry in the form `20261123`.
    pub(crate) fn day(&self) -> &str {
        self.stamp.split('T').next().unwrap_or_default()
    }
}

/// The valid files of a log in the order of their ids, and the files that readers ignore.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Listing {
    pub(crate) segments: Vec<SegmentName>,
    pub(crate) heads: Vec<HeadName>,
    /// Files that readers ignore, because a segment has replaced them.
    pub(crate) replaced: Vec<PathBuf>,
    /// Incomplete files that an earlier process left.
    pub(crate) parts: Vec<PathBuf>,
    /// Parquet files whose names are not those of this log.
    pub(crate) foreign: Vec<PathBuf>,
}

impl Listing {
    /// Reads the directory of a log.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn read(directory: &Path) -> Result<Self, LogError> {
        let mut listing = Self::default();
        for file in fs::read_dir(directory).map_err(LogError::file("read", directory))? {
            let path = file.map_err(LogError::file("read", directory))?.path();
            // A pipe is not opened, because opening it would wait for its other end.
            if fs::metadata(&path).is_ok_and(|file| file.is_file()) {
                listing.add(path);
            }
        }
        listing.drop_replaced();
        Ok(listing)
    }

    fn add(&mut self, path: PathBuf) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".part") {
            self.parts.push(path);
        } else if let Some(first_id) = head_id(name) {
            self.heads.push(HeadName { path, first_id });
        } else if let Some(segment) = segment(name, &path) {
            self.segments.push(segment);
        } else if name.ends_with(".parquet") {
            self.foreign.push(path);
        }
    }

    fn drop_replaced(&mut self) {
        // Of two ranges with the same start, the longer range comes first.
        self.segments.sort_by_key(|segment| {
            let SegmentLabel { ids, generation, .. } = &segment.label;
            (*ids.start(), u64::MAX - ids.end(), u32::MAX - generation)
        });
        self.heads.sort_by_key(|head| head.first_id);
        let mut last: Option<u64> = None;
        let replaced = &mut self.replaced;
        self.segments.retain(|segment| {
            let is_inside = last.is_some_and(|last| *segment.label.ids.end() <= last);
            if is_inside {
                replaced.push(segment.path.clone());
            }
            last = last.max(Some(*segment.label.ids.end()));
            !is_inside
        });
        let segments = &self.segments;
        self.heads.retain(|head| {
            let is_inside =
                segments.iter().any(|segment| segment.label.ids.contains(&head.first_id));
            if is_inside {
                replaced.push(head.path.clone());
            }
            !is_inside
        });
    }

    /// Returns the id after the last id of all segments.
    pub(crate) fn id_after_segments(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.label.ids.end() + 1)
    }
}

/// Returns the path of the file of the head whose first entry has this id.
pub(crate) fn head_path(directory: &Path, first_id: u64) -> PathBuf {
    directory.join(format!("head-{first_id:016x}.blocks"))
}

fn head_id(name: &str) -> Option<u64> {
    let id = hex(name.strip_prefix("head-")?.strip_suffix(".blocks")?, 16)?;
    (id < END_ID).then_some(id)
}

fn segment(name: &str, path: &Path) -> Option<SegmentName> {
    let mut parts = name.strip_prefix("queries-")?.strip_suffix(".parquet")?.split('-');
    let stamp = parts.next()?.to_owned();
    let (first, last) = (hex(parts.next()?, 16)?, hex(parts.next()?, 16)?);
    let generation = generation(parts.next()?)?;
    let (tail, crc) = (hex(parts.next()?, 8)?, hex(parts.next()?, 8)? as u32);
    let is_valid = first <= last && last < END_ID && parts.next().is_none();
    let label = SegmentLabel { stamp, ids: first..=last, generation };
    is_valid.then(|| SegmentName { path: path.to_owned(), label, tail, crc })
}

/// Reads a number of two digits, or of as many as it needs.
fn generation(text: &str) -> Option<u32> {
    let is_shortest = text.len() == 2 || !text.starts_with('0');
    let number = hex(text, text.len().clamp(2, 8)).filter(|_| is_shortest)?;
    Some(number as u32)
}

fn hex(text: &str, digits: usize) -> Option<u64> {
    let is_plain = text.len() == digits
        && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if is_plain { u64::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(generation: &str, crc: u32) -> String {
        format!(
            "queries-20261123T112700Z-{:016x}-{:016x}-{generation}-00000009-{crc:08x}.parquet",
            1, 5
        )
    }

    #[test]
    fn the_number_of_rewrites_has_no_bound_of_two_digits() {
        let check = |text: &str, expected: Option<u32>| {
            let found = segment(&named(text, 0), Path::new("")).map(|one| one.label.generation);
            assert_eq!(found, expected, "{text}");
        };
        check("00", Some(0));
        check("ff", Some(255));
        check("100", Some(256));
        check("ffffffff", Some(u32::MAX));
        for text in ["", "0", "001", "0ff", "100000000", "FF", "-1"] {
            check(text, None);
        }
    }

    #[test]
    fn the_segment_that_was_written_again_last_replaces_the_others() {
        for order in [["ff", "100"], ["100", "ff"]] {
            let mut listing = Listing::default();
            order.iter().for_each(|text| listing.add(named(text, 0).into()));
            listing.drop_replaced();
            let kept: Vec<_> = listing.segments.iter().map(|one| one.label.generation).collect();
            assert_eq!((kept, listing.replaced.len()), (vec![256], 1));
        }
    }
}
