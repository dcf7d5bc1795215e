//! The number of entries that the writer took from the workers. A process reads it after its
//! predecessor was killed.
//!
//! An entry is in memory for up to a second before its block is written. If the process is killed
//! meanwhile, nothing in the files of the head shows that the entry existed. So the writer notes in
//! a small file the id after the last entry that it took. The octets are in the page cache at once
//! and survive the process; they are not synced, so that a crash of the machine may lose them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::LogError;

/// The name of the file in the directory of the log.
const NAME: &str = "taken";
/// Number of octets of the file: two ids and their checksum.
const OCTETS: usize = 20;

/// The file with the id after the last entry that the writer took.
pub(crate) struct TakenFile {
    file: File,
    noted: Noted,
}

/// The two ids that the file contains.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Noted {
    /// The id after the last entry that was taken from the rings.
    end_id: u64,
    /// The value of `end_id` at the start of the process. Losses of ids below this one are already
    /// counted.
    counted_id: u64,
}

impl TakenFile {
    /// Opens the file of a log whose entries on disk end before `written_id`. Also returns the
    /// number of entries that the previous process took but did not write, and notes in the file
    /// that they are counted.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn open(directory: &Path, written_id: u64) -> Result<(Self, u64), LogError> {
        let path = directory.join(NAME);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(LogError::file("open", &path))?;
        let mut octets = [0; OCTETS];
        let is_read = file.read_exact_at(&mut octets, 0).is_ok();
        let noted = if is_read { Noted::read(&octets) } else { None };
        let mut taken = Self { file, noted: noted.unwrap_or_default() };
        let begin = written_id.max(taken.noted.counted_id);
        let end_id = begin.max(taken.noted.end_id);
        taken.write(Noted { end_id, counted_id: end_id });
        Ok((taken, end_id - begin))
    }

    /// Returns the id after the last entry that was taken from the rings.
    pub(crate) fn end_id(&self) -> u64 {
        self.noted.end_id
    }

    /// Writes the id to the file. If that fails, the next process counts too few losses.
    pub(crate) fn note(&mut self, end_id: u64) {
        self.write(Noted { end_id, ..self.noted });
    }

    fn write(&mut self, noted: Noted) {
        if noted != self.noted && self.file.write_all_at(&noted.octets(), 0).is_ok() {
            self.noted = noted;
        }
    }
}

impl Noted {
    fn octets(self) -> [u8; OCTETS] {
        let mut octets = [0; OCTETS];
        octets[..8].copy_from_slice(&self.end_id.to_le_bytes());
        octets[8..16].copy_from_slice(&self.counted_id.to_le_bytes());
        let crc = crc32fast::hash(&octets[..16]);
        octets[16..].copy_from_slice(&crc.to_le_bytes());
        octets
    }

    fn read(octets: &[u8; OCTETS]) -> Option<Self> {
        let (ids, crc) = octets.split_at(16);
        let (end_id, counted_id) = ids.split_first_chunk::<8>()?;
        let (end_id, counted_id) =
            (u64::from_le_bytes(*end_id), u64::from_le_bytes(counted_id.try_into().ok()?));
        let is_intact = crc32fast::hash(ids).to_le_bytes() == *crc;
        // An ID of 2^63 or more is a sign of damage, because no log has this number of entries.
        let is_possible = counted_id <= end_id && end_id < u64::MAX / 2;
        (is_intact && is_possible).then_some(Self { end_id, counted_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_damaged_note_promises_nothing() {
        let intact = Noted { end_id: 1 << 40, counted_id: 7 };
        assert_eq!(Noted::read(&intact.octets()), Some(intact));
        for bit in 0..OCTETS * 8 {
            let mut octets = intact.octets();
            octets[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Noted::read(&octets), None, "bit {bit}");
        }
        assert_eq!(Noted::read(&Noted { end_id: u64::MAX, counted_id: 0 }.octets()), None);
    }

    #[test]
    fn what_was_taken_and_not_written_is_counted_once() {
        let scratch = Scratch::create();
        let open = |written_id| TakenFile::open(&scratch.0, written_id).unwrap();
        let (mut taken, lost) = open(0);
        assert_eq!((taken.end_id(), lost), (0, 0));
        taken.note(50);
        // The process was killed after the first 30 entries were written.
        let (taken, lost) = open(30);
        assert_eq!((taken.end_id(), lost), (50, 20));
        let (mut taken, lost) = open(30);
        assert_eq!((taken.end_id(), lost), (50, 0));
        taken.note(60);
        assert_eq!(open(60).1, 0);
        // The machine crashed, so the note is older than the files.
        let (taken, lost) = open(90);
        assert_eq!((taken.end_id(), lost), (90, 0));
    }
}
