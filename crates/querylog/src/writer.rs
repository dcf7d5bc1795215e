//! The writer: appends logged entries to the head, the newest files of the log.
//!
//! ```text
//!  entry ──add──> batch ──flush──> block ──append──> head-FIRST.blocks
//!                 up to a second            synced once a second; a file takes an hour or
//!                 or BLOCK_ENTRIES          a number of entries, then the next one begins
//! ```
//!
//! The writer runs on one thread, which calls [`Writer::add`] for each entry from the rings, and
//! [`Writer::tick`] after them. The writer only waits for the disk. An error loses the entries of
//! one block, which are counted, and the next block goes to another file. If a process is killed,
//! the next process counts the entries that were taken but not written ([`TakenFile`]).

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::block::Encoder;
use crate::collect::Collector;
use crate::directory::{self, Listing};
use crate::entry::{Entry, Labels};
use crate::error::LogError;
use crate::head::{HeadFile, HeadReader};
use crate::lock::LogLock;
use crate::privacy::Concealment;
use crate::rollup::Rollups;
use crate::search::Filter;
use crate::taken::TakenFile;

/// Maximum number of entries of a block. The block is large enough to compress well, and small
/// enough to decode for one page of a search.
const BLOCK_ENTRIES: usize = 8192;
/// Maximum number of octets of a block before compression, because names may be long.
const BLOCK_OCTETS: usize = 1 << 20;
/// Maximum number of octets of a file of the head before compression. Sealing the file needs all of
/// them in memory.
const HEAD_RAW_OCTETS: u64 = 13 << 20;
/// Maximum time that an entry waits for its block, and that a block waits for the disk. A crash of
/// the machine loses at most the entries of this time.
const FLUSH_US: u64 = 1_000_000;
/// Time after a failure until the next attempt. Blocks that are due in this time are lost.
const RETRY_US: u64 = 2_000_000;

/// Settings of a [`Writer`].
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The directory of the log, which is created if it is missing.
    pub directory: PathBuf,
    /// Maximum number of entries of a file of the head. Such a file becomes one row group of a
    /// segment.
    pub head_entries: u64,
    /// Maximum age of a file of the head in seconds.
    pub head_secs: u64,
    /// The secret key of pseudonyms; see [`Privacy::Pseudonym`](crate::Privacy::Pseudonym).
    pub pseudonym_key: [u8; 16],
}

/// Default of `head_entries`. Sealing holds a whole file of the head in memory.
pub const DEFAULT_HEAD_ENTRIES: u64 = 1 << 18;
/// Default of `head_secs`.
pub const DEFAULT_HEAD_SECS: u64 = 3600;

/// Counters since the writer was opened, for metrics.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WriterCounters {
    /// Number of entries in blocks that were written, including blocks whose file another program
    /// deleted later.
    pub written: u64,
    /// Number of lost entries: their block could not be written, another program deleted their
    /// file, or the previous process was killed before it wrote them.
    pub lost: u64,
    /// Number of octets of blocks that were written.
    pub octets: u64,
    /// Number of failed attempts to write or to sync.
    pub failures: u64,
}

/// The writer of a log. Each directory has only one at a time.
pub struct Writer {
    options: WriterOptions,
    /// The lock of the directory, held until the writer is dropped.
    _lock: LogLock,
    collector: Collector,
    encoder: Encoder,
    block: Vec<u8>,
    head: Option<HeadFile>,
    /// Time at which the file of the head was created.
    head_since_us: u64,
    /// Time of the last flush.
    flushed_us: u64,
    next_id: u64,
    /// Time of the next attempt after a failure.
    retry_us: Option<u64>,
    /// The error of the stored counts of periods (roll-ups) that was found at the start.
    damage: Option<LogError>,
    counters: WriterCounters,
    rollups: Arc<Mutex<Rollups>>,
    taken: TakenFile,
}

impl Writer {
    /// Opens the log in a directory. The first entry starts a new file of the head.
    ///
    /// # Errors
    /// The directory cannot be used, or another process writes there. The caller may try again
    /// later; meanwhile the rings count dropped entries.
    pub fn open(options: WriterOptions, now_us: u64) -> Result<Self, LogError> {
        let directory = &options.directory;
        fs::create_dir_all(directory).map_err(LogError::file("create", directory))?;
        let lock = LogLock::take(directory)?;
        let damage = Rollups::keep_damaged(directory);
        let rollups = Rollups::read(directory)?;
        // The id of a deleted entry is never used again.
        let next_id = next_id(&options)?.max(rollups.end_id());
        let (taken, lost) = TakenFile::open(directory, next_id)?;
        let counters = WriterCounters { lost, ..WriterCounters::default() };
        let next_id = taken.end_id();
        Ok(Self {
            rollups: Arc::new(Mutex::new(rollups)),
            collector: Collector::new(Concealment::new(&options.pseudonym_key)),
            encoder: Encoder::new().map_err(LogError::Compressor)?,
            block: Vec::new(),
            head: None,
            head_since_us: now_us,
            flushed_us: now_us,
            next_id,
            counters,
            taken,
            retry_us: None,
            damage,
            _lock: lock,
            options,
        })
    }

    /// Adds an entry to the batch, and writes the batch as a block if it is full.
    ///
    /// # Errors
    /// A block or the roll-ups cannot be written. The entries of a block that cannot be written are
    /// lost and counted.
    pub fn add(
        &mut self,
        entry: &Entry<'_>,
        labels: &dyn Labels,
        now_us: u64,
    ) -> Result<(), LogError> {
        self.collector.add(entry, labels);
        if self.is_full() { self.flush(now_us) } else { Ok(()) }
    }

    /// Does the work that is due: notes which entries were taken, writes the block, syncs the file,
    /// and starts the next file of the head.
    ///
    /// # Errors
    /// A file cannot be written, or another program deleted the file of the head. Lost entries are
    /// counted.
    pub fn tick(&mut self, now_us: u64) -> Result<(), LogError> {
        self.taken.note(self.next_id + self.collector.batch.rows.len() as u64);
        // The work is also due if the clock was set back.
        let is_due = now_us.checked_sub(self.flushed_us).is_none_or(|passed| passed >= FLUSH_US);
        if !is_due {
            return Ok(());
        }
        self.flush(now_us)?;
        self.flushed_us = now_us;
        self.sync(now_us)?;
        self.check_place(now_us)?;
        let head_us = self.options.head_secs.saturating_mul(1_000_000);
        let is_over = now_us.checked_sub(self.head_since_us).is_none_or(|age| age >= head_us);
        if is_over && self.head.take().is_some() {
            self.store_rollups()?;
        }
        Ok(())
    }

    /// Writes the remaining entries, and waits until they are on the disk.
    ///
    /// # Errors
    /// The same as those of [`tick`](Self::tick).
    pub fn close(mut self, now_us: u64) -> Result<WriterCounters, LogError> {
        self.flush(now_us)?;
        self.sync(now_us)?;
        self.store_rollups()?;
        self.taken.note(self.next_id);
        Ok(self.counters)
    }

    /// Writes the remaining entries, and completes the file of the head, so that
    /// [`Upkeep::prune_entries`] may replace it. Returns the id of the next entry.
    ///
    /// # Errors
    /// The same as those of [`tick`](Self::tick).
    ///
    /// [`Upkeep::prune_entries`]: crate::Upkeep::prune_entries
    pub fn cut(&mut self, now_us: u64) -> Result<u64, LogError> {
        self.flush(now_us)?;
        self.sync(now_us)?;
        self.head = None;
        Ok(self.next_id)
    }

    /// Subtracts deleted entries from the stored counts of periods (roll-ups), as far as these have
    /// the necessary detail, and stores the new counts.
    ///
    /// # Errors
    /// The roll-ups cannot be written.
    pub fn forget(&mut self, deleted: &Filter) -> Result<(), LogError> {
        locked(&self.rollups).forget(deleted);
        self.store_rollups()
    }

    /// Takes the error of the stored counts of periods (roll-ups) that was found at the start.
    /// Later calls return `None`.
    pub fn take_damage(&mut self) -> Option<LogError> {
        self.damage.take()
    }

    /// Returns the counters since the writer was opened.
    #[must_use]
    pub fn counters(&self) -> WriterCounters {
        self.counters
    }

    /// Returns the counts of periods (roll-ups). The writer locks them for about a millisecond per
    /// second.
    #[must_use]
    pub fn rollups(&self) -> Arc<Mutex<Rollups>> {
        Arc::clone(&self.rollups)
    }

    fn is_full(&self) -> bool {
        self.collector.batch.rows.len() >= BLOCK_ENTRIES
            || self.collector.batch.octets() >= BLOCK_OCTETS
    }

    /// Writes the batch as a block.
    fn flush(&mut self, now_us: u64) -> Result<(), LogError> {
        let count = self.collector.batch.rows.len() as u64;
        if count == 0 {
            return Ok(());
        }
        if self.is_resting(now_us) {
            self.collector.clear();
            self.counters.lost += count;
            return Ok(());
        }
        let written = self.append(now_us);
        if written.is_ok() {
            locked(&self.rollups).add(&self.collector.batch, self.next_id);
        }
        self.collector.clear();
        if written.is_ok() {
            self.counters.written += count;
            self.counters.octets += self.block.len() as u64;
            // The file of the head is complete, so the roll-ups are stored.
            if self.head.is_none() {
                self.store_rollups()?;
            }
        } else {
            self.counters.lost += count;
            self.fail(now_us);
        }
        written
    }

    /// Reports whether the last failure was less than [`RETRY_US`] ago, so that no attempt is made
    /// yet.
    fn is_resting(&mut self, now_us: u64) -> bool {
        // If the clock was set back, the next attempt is due immediately.
        let is_due =
            |retry_us: u64| now_us >= retry_us || now_us < retry_us.saturating_sub(RETRY_US);
        if self.retry_us.is_some_and(is_due) {
            self.retry_us = None;
        }
        self.retry_us.is_some()
    }

    fn append(&mut self, now_us: u64) -> Result<(), LogError> {
        let batch = &mut self.collector.batch;
        let header = self
            .encoder
            .encode(batch, self.next_id, &mut self.block)
            .map_err(LogError::Compressor)?;
        // No id is used twice, even if the block is lost.
        self.next_id = header.ids().end;
        if self.head.is_none() {
            let directory = &self.options.directory;
            // The directory is created again, because another program may have deleted it since the
            // start.
            fs::create_dir_all(directory).map_err(LogError::file("create", directory))?;
            let path = directory::head_path(directory, header.first_id);
            self.head = Some(HeadFile::create(path)?);
            self.head_since_us = now_us;
        }
        let Some(head) = &mut self.head else { return Ok(()) };
        head.append(&self.block, &header)?;
        if head.entries >= self.options.head_entries || head.raw >= HEAD_RAW_OCTETS {
            head.sync()?;
            self.head = None;
        }
        Ok(())
    }

    fn sync(&mut self, now_us: u64) -> Result<(), LogError> {
        let synced = self.head.as_mut().map_or(Ok(()), HeadFile::sync);
        if synced.is_err() {
            self.fail(now_us);
        }
        synced
    }

    /// Gives up the file of the head if another program deleted it. Its entries are lost.
    fn check_place(&mut self, now_us: u64) -> Result<(), LogError> {
        let Some(head) = &self.head else { return Ok(()) };
        let checked = head.check_place();
        if checked.is_err() {
            self.counters.lost += head.entries;
            self.fail(now_us);
            // The next attempt writes to another file, so it need not wait.
            self.retry_us = None;
        }
        checked
    }

    fn store_rollups(&mut self) -> Result<(), LogError> {
        let stored = locked(&self.rollups).store(&self.options.directory);
        if stored.is_err() {
            self.counters.failures += 1;
        }
        stored
    }

    /// Counts a failure and gives up the file of the head, which may be the cause.
    fn fail(&mut self, now_us: u64) {
        self.counters.failures += 1;
        self.retry_us = Some(now_us.saturating_add(RETRY_US));
        if let Some(head) = self.head.take() {
            head.discard_if_empty();
        }
    }
}

fn locked(rollups: &Mutex<Rollups>) -> MutexGuard<'_, Rollups> {
    rollups.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds the id after the last one in all files.
fn next_id(options: &WriterOptions) -> Result<u64, LogError> {
    let listing = Listing::read(&options.directory)?;
    let mut next = listing.id_after_segments();
    for head in &listing.heads {
        let end = HeadReader::open(&head.path)?.end_id().unwrap_or(0);
        // Even a file without an intact block has used its first id, which is in its name.
        next = next.max(end).max(head.first_id + 1);
    }
    Ok(next)
}

#[cfg(test)]
mod tests;
