//! Roll-ups of a directory: the stored state, and the entries after it, which a process that was
//! killed did not store.

use std::path::Path;

use crate::error::LogError;
use crate::rollup::Rollups;
use crate::search::{Filter, LogReader, SearchExtent};

/// Entries that roll-ups without a stored state count again: some seconds of work.
const MAX_RECOUNT: u64 = 1 << 20;
/// Entries that are read at once.
const RECOUNT_PAGE: usize = 4096;

impl Rollups {
    /// Reads the roll-ups of a log, which another process may be writing.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn read(directory: &Path) -> Result<Self, LogError> {
        let mut rollups = Self::load(directory);
        let reader = LogReader::open(directory.to_owned())?;
        let counted = rollups.end_id();
        let mut extent =
            SearchExtent { before_id: u64::MAX, entries: RECOUNT_PAGE, max_rows: u64::MAX };
        let mut added = 0;
        while added < MAX_RECOUNT {
            let page = reader.search(&Filter::default(), extent);
            let missing = page.entries.iter().take_while(|entry| entry.id >= counted);
            let before = added;
            missing.for_each(|entry| {
                rollups.add_entry(entry);
                added += 1;
            });
            match page.next_before_id {
                Some(next) if added - before == page.entries.len() as u64 => {
                    extent.before_id = next;
                }
                _ => break,
            }
        }
        Ok(rollups)
    }
}
