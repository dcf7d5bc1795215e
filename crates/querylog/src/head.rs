//! The head: the latest entries, in files that only grow.
//!
//! A file of the head is a sequence of [blocks](crate::block). The writer appends complete blocks.
//! At each start, it begins a new file, so it never has to repair a file. A reader accepts a block
//! if its checksum matches. Otherwise it looks for the next block that matches and counts the
//! octets that it skipped: a truncated or damaged block loses only its own entries.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::block::{Block, BlockHeader, HEADER, MAGIC};
use crate::error::LogError;
use crate::lock::LockedFile;

/// Number of octets that are read at once in the search for the next block.
const WINDOW: usize = 1 << 16;

/// The file of the head to which the writer appends blocks.
pub(crate) struct HeadFile {
    file: LockedFile,
    path: PathBuf,
    pub(crate) octets: u64,
    pub(crate) entries: u64,
    /// Total number of octets of the blocks in the file before compression.
    pub(crate) raw: u64,
    /// Whether blocks were appended since the last [`sync`](Self::sync).
    is_dirty: bool,
}

impl HeadFile {
    /// Creates the file and locks it. While the file is locked, it is not sealed; see
    /// [`is_written`].
    ///
    /// # Errors
    /// The file exists or cannot be created.
    pub(crate) fn create(path: PathBuf) -> Result<Self, LogError> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(LogError::file("create", &path))?;
        let file = LockedFile::share(file).map_err(LogError::file("lock", &path))?;
        Ok(Self { file, path, octets: 0, entries: 0, raw: 0, is_dirty: false })
    }

    /// Appends a block.
    ///
    /// # Errors
    /// The block cannot be written. If a part of it was written, that part is removed if possible.
    pub(crate) fn append(&mut self, block: &[u8], header: &BlockHeader) -> Result<(), LogError> {
        if let Err(source) = self.file.file().write_all(block) {
            // If this fails, too, readers skip the incomplete block.
            let _ = self.file.file().set_len(self.octets);
            return Err(LogError::file("write", &self.path)(source));
        }
        self.octets += block.len() as u64;
        self.entries += u64::from(header.count);
        self.raw += u64::from(header.raw);
        self.is_dirty = true;
        Ok(())
    }

    /// Waits until all blocks are on the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn sync(&mut self) -> Result<(), LogError> {
        if std::mem::take(&mut self.is_dirty) {
            self.file.file().sync_data().map_err(LogError::file("sync", &self.path))?;
        }
        Ok(())
    }

    /// Checks that the file is still in the directory, where readers look for it.
    ///
    /// # Errors
    /// Another program deleted or replaced the file.
    pub(crate) fn check_place(&self) -> Result<(), LogError> {
        let place = |file: std::fs::Metadata| (file.dev(), file.ino());
        let own = self.file.file().metadata().map(place).ok();
        match std::fs::metadata(&self.path).map(place).ok() {
            named if named.is_some() && named == own => Ok(()),
            _ => Err(LogError::damaged(&self.path, "another program deleted it")),
        }
    }

    /// Deletes the file if no block was appended.
    pub(crate) fn discard_if_empty(self) {
        if self.octets == 0 {
            // If this fails, the file is later sealed without entries.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Reports whether the writer of a file still has it open.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn is_written(path: &Path) -> Result<bool, LogError> {
    let file = File::open(path).map_err(LogError::file("open", path))?;
    Ok(matches!(LockedFile::take(file), Err(TryLockError::WouldBlock)))
}

/// The loss of a reader: the damaged parts of the log that it skipped.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HeadLoss {
    /// Number of octets outside of intact blocks.
    pub octets: u64,
    /// Number of entries that the headers of damaged blocks announce.
    pub entries: u64,
}

impl HeadLoss {
    /// Returns a sentence that describes the loss; `None` if there is none.
    pub(crate) fn reason(self) -> Option<String> {
        let Self { octets, entries } = self;
        (octets > 0).then(|| {
            format!(
                "{octets} octets belong to no intact block, which had {entries} entries or more"
            )
        })
    }
}

/// The location and the header of a block in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPlace {
    pub(crate) offset: u64,
    pub(crate) header: BlockHeader,
}

/// A file of the head, open for reading.
pub(crate) struct HeadReader {
    file: File,
    path: Arc<Path>,
    pub(crate) blocks: Vec<BlockPlace>,
    pub(crate) loss: HeadLoss,
    /// The offset up to which the file has been searched for blocks.
    scanned: u64,
}

impl HeadReader {
    /// Opens a file and finds its blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Self, LogError> {
        let file = File::open(path).map_err(LogError::file("open", path))?;
        let (blocks, loss) = (Vec::new(), HeadLoss::default());
        let mut reader = Self { file, path: path.into(), blocks, loss, scanned: 0 };
        reader.scan().map_err(LogError::file("read", path))?;
        Ok(reader)
    }

    /// Finds the blocks that were appended since the last call.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn refresh(&mut self) -> Result<(), LogError> {
        self.scan().map_err(LogError::file("read", &self.path))
    }

    fn scan(&mut self) -> std::io::Result<()> {
        let len = self.file.metadata()?.len();
        let mut payload = Vec::new();
        // The octets at the end may be a block that is being written. They count as lost for now,
        // and are counted again by the next call.
        let mut lost = HeadLoss::default();
        let mut at = self.scanned;
        while at + HEADER as u64 <= len {
            match self.intact(at, len, &mut payload)? {
                Ok(header) => {
                    self.loss.octets += std::mem::take(&mut lost.octets);
                    self.loss.entries += std::mem::take(&mut lost.entries);
                    self.blocks.push(BlockPlace { offset: at, header });
                    at += (HEADER + header.stored as usize) as u64;
                    self.scanned = at;
                }
                Err(promised) => {
                    lost.entries += promised;
                    let next = self.next_magic(at + 1, len)?;
                    lost.octets += next - at;
                    at = next;
                }
            }
        }
        Ok(())
    }

    /// Returns the loss of a file that is complete, including the octets after its last intact
    /// block.
    pub(crate) fn final_loss(&self) -> HeadLoss {
        let len = self.file.metadata().map_or(self.scanned, |metadata| metadata.len());
        let rest = len.saturating_sub(self.scanned);
        HeadLoss { octets: self.loss.octets + rest, entries: self.loss.entries + self.promised() }
    }

    /// Returns the number of entries that the header after the last intact block announces.
    fn promised(&self) -> u64 {
        let mut octets = [0; HEADER];
        let is_read = self.file.read_exact_at(&mut octets, self.scanned).is_ok();
        let header = if is_read { BlockHeader::read(&octets) } else { None };
        header.map_or(0, |header| u64::from(header.count))
    }

    /// Checks the block at an offset. The error holds the number of entries that the header
    /// announces.
    fn intact(
        &self,
        at: u64,
        len: u64,
        payload: &mut Vec<u8>,
    ) -> std::io::Result<Result<BlockHeader, u64>> {
        let mut octets = [0; HEADER];
        self.file.read_exact_at(&mut octets, at)?;
        let Some(header) = BlockHeader::read(&octets) else { return Ok(Err(0)) };
        let promised = Err(u64::from(header.count));
        if at + (HEADER as u64) + u64::from(header.stored) > len {
            return Ok(promised);
        }
        payload.resize(header.stored as usize, 0);
        self.file.read_exact_at(payload, at + HEADER as u64)?;
        Ok(if header.matches(&octets, payload) { Ok(header) } else { promised })
    }

    /// Returns the next offset at which a block may begin, or the end of the file.
    fn next_magic(&self, from: u64, len: u64) -> std::io::Result<u64> {
        let mut window = vec![0; WINDOW];
        let mut at = from;
        while at + (MAGIC.len() as u64) <= len {
            let count = usize::try_from(len - at).unwrap_or(WINDOW).min(WINDOW);
            self.file.read_exact_at(&mut window[..count], at)?;
            let found = window[..count].windows(MAGIC.len()).position(|octets| octets == MAGIC);
            if let Some(found) = found {
                return Ok(at + found as u64);
            }
            at += (count - MAGIC.len() + 1) as u64;
        }
        Ok(len)
    }

    /// Reads a block.
    ///
    /// # Errors
    /// The file cannot be read, or the block is not of this format.
    pub(crate) fn block(&self, place: &BlockPlace) -> Result<Block, LogError> {
        let mut payload = vec![0; place.header.stored as usize];
        self.file
            .read_exact_at(&mut payload, place.offset + HEADER as u64)
            .map_err(LogError::file("read", &self.path))?;
        Block::open(&self.path, place.header, &payload)
            .ok_or_else(|| LogError::damaged(&self.path, "a block has an unknown format"))
    }

    /// Returns the id after that of the last entry; `None` if there are no entries.
    pub(crate) fn end_id(&self) -> Option<u64> {
        self.blocks.last().map(|place| place.header.ids().end)
    }
}

#[cfg(test)]
pub(crate) mod tests;
