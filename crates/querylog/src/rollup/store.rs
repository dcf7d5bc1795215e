//! Roll-ups on the disk: one small file, replaced as a whole.
//!
//! The file has a magic number, the CRC-32 and the length of its content, and the content,
//! compressed by zstd. A file that does not match is kept under another name, and the roll-ups
//! begin empty.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::top::{Tally, Top};
use super::{Period, RANKINGS, Rollups, Totals};
use crate::error::LogError;
use crate::varint;

const MAGIC: [u8; 4] = *b"AVQU";
/// The same of files without the last ranking, which a server before this one wrote.
const EARLIER_MAGIC: [u8; 4] = *b"AVQT";
/// Octets of the file before compression: far more than the bounds of the roll-ups allow.
const MAX_OCTETS: usize = 1 << 26;
const LEVEL: i32 = 3;
const FILE: &str = "rollups";
const PART: &str = "rollups.new";
const DAMAGED: &str = "rollups.damaged";

impl Rollups {
    /// Writes the state to a directory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn store(&self, directory: &Path) -> Result<(), LogError> {
        let mut raw = Vec::new();
        varint::put(&mut raw, self.end_id);
        for periods in &self.periods {
            varint::put(&mut raw, periods.len() as u64);
            periods.iter().for_each(|totals| put_totals(&mut raw, totals));
        }
        let content = zstd::bulk::compress(&raw, LEVEL).map_err(LogError::Compressor)?;
        let part = directory.join(PART);
        let write = || {
            let mut file = File::create(&part)?;
            file.write_all(&MAGIC)?;
            file.write_all(&crc32fast::hash(&content).to_le_bytes())?;
            file.write_all(&(raw.len() as u32).to_le_bytes())?;
            file.write_all(&content)?;
            file.sync_all()?;
            fs::rename(&part, directory.join(FILE))
        };
        write().map_err(LogError::file("write", &part))
    }

    /// Reads the state from a directory; it is empty if there is none or it is damaged.
    pub(crate) fn load(directory: &Path) -> Self {
        fs::read(directory.join(FILE)).ok().and_then(|file| read(&file)).unwrap_or_default()
    }

    /// Moves a damaged file out of the way of the next one, and returns the error if there is one.
    pub(crate) fn keep_damaged(directory: &Path) -> Option<LogError> {
        let path = Self::path(directory);
        let error = Self::damage(directory)?;
        // If that fails, the file is replaced.
        let _ = fs::rename(&path, directory.join(DAMAGED));
        Some(error)
    }

    /// Returns the path of the file in a directory.
    pub(crate) fn path(directory: &Path) -> PathBuf {
        directory.join(FILE)
    }

    /// Returns the error of a file that is there and does not match.
    pub(crate) fn damage(directory: &Path) -> Option<LogError> {
        let path = Self::path(directory);
        let file = fs::read(&path).ok()?;
        let reason = "its counts cannot be read; those of entries that are left are built again";
        read(&file).is_none().then(|| LogError::damaged(&path, reason))
    }
}

fn read(file: &[u8]) -> Option<Rollups> {
    let (content, rankings) = match file.strip_prefix(&MAGIC) {
        Some(content) => (content, RANKINGS),
        None => (file.strip_prefix(&EARLIER_MAGIC)?, RANKINGS - 1),
    };
    let (crc, content) = content.split_first_chunk()?;
    let (len, content) = content.split_first_chunk()?;
    let len = u32::from_le_bytes(*len) as usize;
    if crc32fast::hash(content) != u32::from_le_bytes(*crc) || len > MAX_OCTETS {
        return None;
    }
    let raw = zstd::bulk::decompress(content, len).ok()?;
    let mut rest = raw.as_slice();
    let mut rollups = Rollups { end_id: varint::take(&mut rest)?, ..Rollups::default() };
    for period in Period::ALL {
        for _ in 0..varint::take(&mut rest)? {
            rollups.periods[period as usize].push_back(Arc::new(take_totals(&mut rest, rankings)?));
        }
    }
    Some(rollups)
}

fn put_totals(out: &mut Vec<u8>, totals: &Totals) {
    varint::put(out, totals.start_us);
    varint::put(out, totals.entries);
    totals.outcomes.iter().chain(&totals.delays).for_each(|count| varint::put(out, *count));
    for top in &totals.tops {
        varint::put(out, top.floor);
        varint::put(out, top.tallies.len() as u64);
        for (text, tally) in &top.tallies {
            varint::put(out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
            varint::put(out, tally.count);
            varint::put(out, tally.error);
        }
    }
}

fn take_totals(rest: &mut &[u8], rankings: usize) -> Option<Totals> {
    let mut totals = Totals::new(varint::take(rest)?);
    totals.entries = varint::take(rest)?;
    for count in totals.outcomes.iter_mut().chain(&mut totals.delays) {
        *count = varint::take(rest)?;
    }
    for index in 0..rankings {
        let mut top = Top { floor: varint::take(rest)?, ..Top::default() };
        for _ in 0..varint::take(rest)? {
            let text = str::from_utf8(varint::take_octets(rest)?).ok()?.into();
            let tally = Tally { count: varint::take(rest)?, error: varint::take(rest)? };
            top.tallies.insert(text, tally);
        }
        totals.tops[index] = top;
    }
    Some(totals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_file_of_a_server_without_the_last_ranking_is_read() {
        let scratch = Scratch::create();
        let mut rollups = Rollups { end_id: 3, ..Rollups::default() };
        rollups.totals(Period::Minute, 0).entries = 7;
        rollups.store(&scratch.0).unwrap();
        let path = Rollups::path(&scratch.0);
        let file = fs::read(&path).unwrap();
        let mut raw = zstd::bulk::decompress(&file[12..], MAX_OCTETS).unwrap();
        // An empty top has two octets of zero, and so do the counts of hours and days.
        assert!(raw.ends_with(&[0; 4]));
        raw.truncate(raw.len() - 2);
        let content = zstd::bulk::compress(&raw, LEVEL).unwrap();
        let (crc, len) = (crc32fast::hash(&content), raw.len() as u32);
        let earlier = [&EARLIER_MAGIC[..], &crc.to_le_bytes(), &len.to_le_bytes(), &content];
        fs::write(&path, earlier.concat()).unwrap();
        assert_eq!(Rollups::load(&scratch.0), rollups);
    }
}
