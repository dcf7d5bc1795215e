//! Roll-ups on the disk: one small file, replaced as a whole.
//!
//! The file has a magic number, the CRC-32 and the length of its content, and the content,
//! compressed by zstd. A file that does not match its checksum is kept under another name, and the
//! roll-ups begin empty.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::seen::{MAX_SIGHTINGS, Sighting, Sightings};
use super::top::{Tally, Top};
use super::{Period, RANKINGS, Rollups, Totals};
use crate::error::LogError;
use crate::varint;

const MAGIC: [u8; 4] = *b"AVQV";
/// The magic number of files without the clients, which earlier servers wrote.
const CLIENTLESS_MAGIC: [u8; 4] = *b"AVQU";
/// The magic number of files that also lack the last ranking.
const EARLIER_MAGIC: [u8; 4] = *b"AVQT";
/// Maximum number of octets of the content before compression. The limits of roll-ups permit far
/// fewer octets.
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
        put_seen(&mut raw, &self.seen);
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

    /// Reads the state from a directory. If the file is missing or damaged, the state is empty.
    pub(crate) fn load(directory: &Path) -> Self {
        fs::read(directory.join(FILE)).ok().and_then(|file| read(&file)).unwrap_or_default()
    }

    /// Renames the file if it is damaged, so that the next file does not replace it. Returns the
    /// error in this case.
    pub(crate) fn keep_damaged(directory: &Path) -> Option<LogError> {
        let path = Self::path(directory);
        let error = Self::damage(directory)?;
        // If the rename fails, the next file replaces the damaged one.
        let _ = fs::rename(&path, Self::damaged_path(directory));
        Some(error)
    }

    /// Deletes a damaged file that was kept, because it may contain entries that must be deleted.
    ///
    /// # Errors
    /// The file cannot be deleted.
    pub(crate) fn discard_damaged(directory: &Path) -> Result<(), LogError> {
        let path = Self::damaged_path(directory);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(LogError::file("delete", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the path at which a damaged file is kept.
    pub(crate) fn damaged_path(directory: &Path) -> PathBuf {
        directory.join(DAMAGED)
    }

    /// Returns the path of the file in a directory.
    pub(crate) fn path(directory: &Path) -> PathBuf {
        directory.join(FILE)
    }

    /// Returns the error if the file exists but is damaged.
    pub(crate) fn damage(directory: &Path) -> Option<LogError> {
        let path = Self::path(directory);
        let file = fs::read(&path).ok()?;
        let reason = "its counts cannot be read; those of entries that are left are built again";
        read(&file).is_none().then(|| LogError::damaged(&path, reason))
    }
}

fn read(file: &[u8]) -> Option<Rollups> {
    let (magic, content) = file.split_first_chunk()?;
    let rankings = match *magic {
        MAGIC | CLIENTLESS_MAGIC => RANKINGS,
        EARLIER_MAGIC => RANKINGS - 1,
        _ => return None,
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
    if *magic == MAGIC {
        rollups.seen = Arc::new(take_seen(&mut rest)?);
    }
    Some(rollups)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    varint::put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn take_text(rest: &mut &[u8]) -> Option<Box<str>> {
    Some(str::from_utf8(varint::take_octets(rest)?).ok()?.into())
}

fn put_seen(out: &mut Vec<u8>, seen: &Sightings) {
    varint::put(out, seen.clients.len() as u64);
    for (client, one) in &seen.clients {
        put_text(out, client);
        put_text(out, &one.name);
        varint::put(out, one.first_us);
        varint::put(out, one.last_us);
    }
}

fn take_seen(rest: &mut &[u8]) -> Option<Sightings> {
    let mut seen = Sightings::default();
    let clients = varint::take(rest)?;
    if clients > MAX_SIGHTINGS as u64 {
        return None;
    }
    for _ in 0..clients {
        let client = take_text(rest)?;
        let name = take_text(rest)?;
        let (first_us, last_us) = (varint::take(rest)?, varint::take(rest)?);
        seen.clients.insert(client, Sighting { name, first_us, last_us });
    }
    Some(seen)
}

fn put_totals(out: &mut Vec<u8>, totals: &Totals) {
    varint::put(out, totals.start_us);
    varint::put(out, totals.entries);
    totals.outcomes.iter().chain(&totals.delays).for_each(|count| varint::put(out, *count));
    for top in &totals.tops {
        varint::put(out, top.floor);
        varint::put(out, top.tallies.len() as u64);
        for (text, tally) in &top.tallies {
            put_text(out, text);
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
            let text = take_text(rest)?;
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

    /// Returns a file of roll-ups in the form of an earlier server. Its content lacks `fewer`
    /// octets at the end.
    fn earlier(path: &Path, magic: [u8; 4], fewer: usize) -> Vec<u8> {
        let file = fs::read(path).unwrap();
        let mut raw = zstd::bulk::decompress(&file[12..], MAX_OCTETS).unwrap();
        raw.truncate(raw.len() - fewer);
        let content = zstd::bulk::compress(&raw, LEVEL).unwrap();
        let (crc, len) = (crc32fast::hash(&content), raw.len() as u32);
        [&magic[..], &crc.to_le_bytes(), &len.to_le_bytes(), &content].concat()
    }

    #[test]
    fn files_of_servers_without_clients_or_the_last_ranking_are_read() {
        let scratch = Scratch::create();
        let mut rollups = Rollups { end_id: 3, ..Rollups::default() };
        rollups.totals(Period::Minute, 0).entries = 7;
        // The content ends with one octet for no clients, and before it two octets for an empty
        // top. Hours and days come before these.
        for (magic, fewer) in [(CLIENTLESS_MAGIC, 1), (EARLIER_MAGIC, 3)] {
            rollups.store(&scratch.0).unwrap();
            let path = Rollups::path(&scratch.0);
            fs::write(&path, earlier(&path, magic, fewer)).unwrap();
            assert_eq!(Rollups::load(&scratch.0), rollups);
        }
    }

    #[test]
    fn clients_are_kept_on_the_disk_and_a_file_with_a_part_of_them_is_refused() {
        let scratch = Scratch::create();
        let mut rollups = Rollups::default();
        let sighting = Sighting { name: "tv".into(), first_us: 1, last_us: 1 << 40 };
        Arc::make_mut(&mut rollups.seen).clients.insert("192.0.2.1".into(), sighting);
        rollups.store(&scratch.0).unwrap();
        assert_eq!(Rollups::load(&scratch.0), rollups);
        let path = Rollups::path(&scratch.0);
        for fewer in 1..20 {
            let file = earlier(&path, MAGIC, fewer);
            assert!(read(&file).is_none(), "{fewer}");
        }
    }
}
