//! The files of the query log: open while queries are logged, and opened again after an error.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use avocet_io::ownership;
use avocet_querylog::{
    DEFAULT_HEAD_ENTRIES, DEFAULT_HEAD_SECS, Entry, Filter, Labels, LogError, Writer,
    WriterCounters, WriterOptions,
};
use tracing::warn;

use super::WrittenLog;

/// Time after an error until the directory is opened again.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// The time to the next attempt if another process holds the directory. Entries stay in the rings
/// until then.
const RETRY_LOCKED_AFTER: Duration = Duration::from_millis(100);
/// The time for which another process may hold the directory before this is reported: a server that
/// is taken over needs this time to end.
const PATIENCE: Duration = Duration::from_secs(15);
/// The secret key of pseudonyms, in the directory of the log.
const PSEUDONYM_KEY: &str = "pseudonym.key";

/// The usable files of the query log.
#[derive(Default)]
pub(crate) struct LogFiles {
    open: Option<(PathBuf, Writer)>,
    /// The directory that cannot be opened.
    failing: Option<Failing>,
    /// The counts of the writers before the current one.
    before: WriterCounters,
    /// Entries that were lost while no file was open.
    unwritten: u64,
}

struct Failing {
    directory: PathBuf,
    since: Instant,
    /// The time at which the server tries to open the file again.
    retry: Instant,
    /// Whether another process holds the directory, and for less than [`PATIENCE`].
    is_locked: bool,
}

impl LogFiles {
    /// Opens the log in `wanted`, or closes it if queries are not logged.
    ///
    /// # Errors
    /// A file cannot be written, or the directory cannot be used for longer than a take-over needs.
    pub(crate) fn follow(&mut self, wanted: Option<&Path>, now_us: u64) -> Result<(), LogError> {
        if self.open.as_ref().map(|(directory, _)| directory.as_path()) == wanted {
            return Ok(());
        }
        self.close(now_us)?;
        let Some(directory) = wanted else {
            self.failing = None;
            return Ok(());
        };
        let now = Instant::now();
        if self.failing.as_ref().is_some_and(|failing| failing.directory != directory) {
            self.failing = None;
        }
        if self.failing.as_ref().is_some_and(|failing| now < failing.retry) {
            return Ok(());
        }
        match open(directory, now_us) {
            Ok(mut writer) => {
                if let Some(error) = writer.take_damage() {
                    warn!("{error}; the damaged file is kept as rollups.damaged");
                }
                self.open = Some((directory.to_owned(), writer));
                self.failing = None;
                Ok(())
            }
            Err(error) => {
                let since = self.failing.as_ref().map_or(now, |failing| failing.since);
                let is_locked = matches!(error, LogError::Locked(_)) && since.elapsed() < PATIENCE;
                let retry = now + if is_locked { RETRY_LOCKED_AFTER } else { RETRY_AFTER };
                let directory = directory.to_owned();
                self.failing = Some(Failing { directory, since, retry, is_locked });
                if is_locked { Ok(()) } else { Err(error) }
            }
        }
    }

    /// Returns whether another process still holds the directory, as a server that is taken over
    /// does for a short time. Entries stay in the rings until then.
    pub(crate) fn is_waiting(&self) -> bool {
        self.failing.as_ref().is_some_and(|failing| failing.is_locked)
    }

    /// Returns whether the last attempt to open the directory failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    /// Returns the log whose files are open; `None` if none are.
    pub(crate) fn written(&self) -> Option<WrittenLog> {
        let of = |(directory, writer): &(PathBuf, Writer)| WrittenLog {
            directory: directory.clone(),
            rollups: writer.rollups(),
        };
        self.open.as_ref().map(of)
    }

    /// Completes the newest file. Returns the id of the next entry; 0 if no log is open.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn cut(&mut self, now_us: u64) -> Result<u64, LogError> {
        self.open.as_mut().map_or(Ok(0), |(_, writer)| writer.cut(now_us))
    }

    /// Removes deleted entries from the roll-ups.
    ///
    /// # Errors
    /// The roll-ups cannot be written.
    pub(crate) fn forget(&mut self, deleted: &Filter) -> Result<(), LogError> {
        self.open.as_mut().map_or(Ok(()), |(_, writer)| writer.forget(deleted))
    }

    /// Adds an entry to the files.
    ///
    /// # Errors
    /// A block cannot be written. Its entries are lost and counted.
    pub(crate) fn add(
        &mut self,
        entry: &Entry<'_>,
        labels: &dyn Labels,
        now_us: u64,
    ) -> Result<(), LogError> {
        match &mut self.open {
            Some((_, writer)) => writer.add(entry, labels, now_us),
            None => {
                self.unwritten += 1;
                Ok(())
            }
        }
    }

    /// Writes the blocks and files that are due.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn tick(&mut self, now_us: u64) -> Result<(), LogError> {
        self.open.as_mut().map_or(Ok(()), |(_, writer)| writer.tick(now_us))
    }

    /// Writes everything and closes the files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn close(&mut self, now_us: u64) -> Result<(), LogError> {
        let Some((_, writer)) = self.open.take() else { return Ok(()) };
        self.before = sum(self.before, writer.counters());
        let before = writer.counters();
        let closed = writer.close(now_us)?;
        self.before.written += closed.written - before.written;
        self.before.octets += closed.octets - before.octets;
        Ok(())
    }

    /// Returns the counts since the start. Lost entries include entries without an open file.
    pub(crate) fn counters(&self) -> WriterCounters {
        let open = self.open.as_ref().map(|(_, writer)| writer.counters()).unwrap_or_default();
        let mut all = sum(self.before, open);
        all.lost += self.unwritten;
        all
    }
}

fn sum(a: WriterCounters, b: WriterCounters) -> WriterCounters {
    WriterCounters {
        written: a.written + b.written,
        lost: a.lost + b.lost,
        octets: a.octets + b.octets,
        failures: a.failures + b.failures,
    }
}

fn open(directory: &Path, now_us: u64) -> Result<Writer, LogError> {
    fs::create_dir_all(directory).map_err(|error| file_error("create", directory, error))?;
    let path = directory.join(PSEUDONYM_KEY);
    let pseudonym_key = key(&path).map_err(|error| file_error("use", &path, error))?;
    let options = WriterOptions {
        directory: directory.to_owned(),
        head_entries: DEFAULT_HEAD_ENTRIES,
        head_secs: DEFAULT_HEAD_SECS,
        pseudonym_key,
    };
    Writer::open(options, now_us)
}

fn file_error(action: &'static str, path: &Path, source: io::Error) -> LogError {
    LogError::File { action, path: path.to_owned(), source }
}

/// Reads the key of pseudonyms in a directory of the log, which is created if it is missing.
///
/// # Errors
/// The directory or the file cannot be read or written.
pub(crate) fn pseudonym_key(directory: &Path) -> io::Result<[u8; 16]> {
    fs::create_dir_all(directory)?;
    key(&directory.join(PSEUDONYM_KEY))
}

/// Reads the key. The key is drawn only once, so that pseudonyms stay the same over restarts.
fn key(path: &Path) -> io::Result<[u8; 16]> {
    let read = || {
        let octets = fs::read(path)?;
        octets.try_into().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not 16 octets"))
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        known => return known,
    }
    let _permit = ownership::write()?;
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
    let part = path.with_extension("part");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(&key)?;
    file.sync_all()?;
    fs::rename(&part, path)?;
    Ok(key)
}
