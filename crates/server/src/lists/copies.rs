//! The last good copy of each list, in `lists/` of the data directory.
//!
//! ```text
//! {"source": .., "etag": .., "octets": .., "crc32": ..}\n      the head, one line of JSON
//! 0.0.0.0 ads.example                                          the text as it came
//! ```
//! Head and text are in one file, so that they always match. A damaged copy is not used: its list
//! is fetched again.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use avocet_config::policy::ListConfig;
use avocet_io::ownership;
use avocet_nameserver::disk;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use super::fetch::MAX_LIST_BYTES;
use super::store::source_text;

/// Maximum number of octets of the head of a copy.
const MAX_HEAD: usize = 16 << 10;
/// Maximum number of octets of texts that are kept in memory because the disk cannot be written.
const MAX_UNSAVED: usize = 512 << 20;
const EXTENSION: &str = "list";
/// The extension of the copy of a list that is no longer configured.
const RETIRED: &str = "retired";
/// The time for which retired copies are kept, because a change that removed or renamed a list may
/// be undone.
const RETIRED_SECS: u64 = 30 * 86_400;
/// Maximum number of retired copies, and of their octets.
const MAX_RETIRED: usize = 64;
const MAX_RETIRED_OCTETS: u64 = 256 << 20;

/// The properties of a copy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct Head {
    /// The URL or path.
    pub(crate) source: String,
    /// The field `ETag` of the response.
    pub(crate) etag: Option<String>,
    /// The field `Last-Modified` of the response.
    pub(crate) last_modified: Option<String>,
    /// The fingerprint of the file that was read.
    pub(crate) fingerprint: Option<String>,
    /// The wall time of the fetch in seconds.
    pub(crate) fetched_at_secs: u64,
    /// Valid entries of the text.
    pub(crate) entries: u64,
    /// Number of octets of the text.
    pub(crate) octets: u64,
    /// Checksum of the text.
    pub(crate) crc32: u32,
}

/// A text with its properties.
pub(crate) struct Copy {
    /// The properties of the text.
    pub(crate) head: Head,
    octets: Vec<u8>,
    begins: usize,
}

/// The reason why a copy cannot be used.
#[derive(Debug)]
pub(crate) enum CopyError {
    /// The file cannot be read.
    Io(io::Error),
    /// The checksum or length does not match.
    Damaged,
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Damaged => f.write_str("it is damaged"),
        }
    }
}

impl std::error::Error for CopyError {}

/// The place where a text is stored.
#[derive(Debug)]
pub(crate) enum Kept {
    /// The copy is on disk.
    OnDisk,
    /// The text is only in memory, and is lost when the server stops, because the disk gave this
    /// error.
    InMemory(io::Error),
}

impl Head {
    /// Records length and checksum of the text.
    pub(crate) fn seal(&mut self, text: &[u8]) {
        self.octets = text.len() as u64;
        self.crc32 = crc32fast::hash(text);
    }

    /// Returns a value that identifies the text.
    pub(crate) fn stamp(&self) -> String {
        format!("{:08x}-{}", self.crc32, self.octets)
    }
}

impl Copy {
    /// Returns the text.
    pub(crate) fn text(&self) -> &[u8] {
        self.octets.get(self.begins..).unwrap_or_default()
    }

    fn parse(octets: Vec<u8>) -> Option<Self> {
        let end = octets.iter().take(MAX_HEAD).position(|octet| *octet == b'\n')?;
        let head: Head = serde_json::from_slice(&octets[..end]).ok()?;
        let copy = Self { head, octets, begins: end + 1 };
        let is_whole = copy.text().len() as u64 == copy.head.octets
            && crc32fast::hash(copy.text()) == copy.head.crc32;
        is_whole.then_some(copy)
    }
}

impl AsRef<[u8]> for Copy {
    fn as_ref(&self) -> &[u8] {
        self.text()
    }
}

fn read_head(path: &Path) -> Option<Head> {
    let mut line = Vec::new();
    let file = File::open(path).ok()?;
    BufReader::new(file.take(MAX_HEAD as u64)).read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

/// All copies. Copies that cannot be written to disk are kept in memory.
pub(crate) struct Copies {
    directory: PathBuf,
    unsaved: HashMap<String, (Head, Vec<u8>)>,
}

impl Copies {
    /// Creates the store of copies in a directory; the directory may not exist yet.
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), unsaved: HashMap::new() }
    }

    /// Stores a text as the last good copy of the list.
    ///
    /// # Errors
    ///
    /// The disk cannot be written, and the limit for texts in memory is reached.
    pub(crate) fn keep(
        &mut self,
        list: &ListConfig,
        head: Head,
        text: Vec<u8>,
    ) -> io::Result<Kept> {
        self.unsaved.remove(&list.name);
        let written = self.write(&list.name, &head, &text);
        let held: usize = self.unsaved.values().map(|(_, text)| text.len()).sum();
        match written {
            Ok(()) => Ok(Kept::OnDisk),
            Err(error) if held + text.len() > MAX_UNSAVED => Err(error),
            Err(error) => {
                self.unsaved.insert(list.name.clone(), (head, text));
                Ok(Kept::InMemory(error))
            }
        }
    }

    fn write(&self, name: &str, head: &Head, text: &[u8]) -> io::Result<()> {
        let mut line = serde_json::to_vec(head)?;
        line.push(b'\n');
        fs::create_dir_all(&self.directory)?;
        disk::replace(&self.path(name), &[&line, text])
    }

    /// Tries again to write the copies that are only in memory. Returns the names of the lists with
    /// a copy that was written.
    pub(crate) fn save_again(&mut self) -> Vec<String> {
        let is_written = |(name, (head, text)): &(&String, &(Head, Vec<u8>))| {
            self.write(name, head, text).is_ok()
        };
        let written: Vec<String> =
            self.unsaved.iter().filter(is_written).map(|(name, _)| name.clone()).collect();
        self.unsaved.retain(|name, _| !written.contains(name));
        written
    }

    /// Opens the last good text of the list; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The copy cannot be used.
    pub(crate) fn open(&self, list: &ListConfig) -> Result<Option<Copy>, CopyError> {
        if let Some((head, text)) = self.unsaved.get(&list.name) {
            return Ok(Some(Copy { head: head.clone(), octets: text.clone(), begins: 0 }));
        }
        match disk::read(&self.path(&list.name), MAX_LIST_BYTES + MAX_HEAD as u64)
            .map_err(CopyError::Io)?
        {
            None => Ok(None),
            Some(octets) => Copy::parse(octets).map(Some).ok_or(CopyError::Damaged),
        }
    }

    /// Returns the properties of the last good text, without reading the text; `None` if there is
    /// no valid head.
    pub(crate) fn head(&self, list: &ListConfig) -> Option<Head> {
        if let Some((head, _)) = self.unsaved.get(&list.name) {
            return Some(head.clone());
        }
        read_head(&self.path(&list.name))
    }

    /// Removes the copy of a list.
    pub(crate) fn remove(&mut self, list: &ListConfig) {
        self.unsaved.remove(&list.name);
        let _ = ownership::write().and_then(|_permit| fs::remove_file(self.path(&list.name)));
    }

    /// Renames copies for lists without a copy: a list gets the copy of another name with the same
    /// source. Such a list was renamed, or removed and added again.
    pub(crate) fn adopt(&mut self, lists: &[ListConfig]) {
        let Ok(_permit) = ownership::write() else { return };
        let missing: Vec<&ListConfig> =
            lists.iter().filter(|list| self.head(list).is_none()).collect();
        if missing.is_empty() {
            return;
        }
        let wanted: Vec<PathBuf> = lists.iter().map(|list| self.path(&list.name)).collect();
        let unwanted = self.files(&[EXTENSION, RETIRED]).filter(|path| !wanted.contains(path));
        let mut left: Vec<(String, PathBuf)> =
            unwanted.filter_map(|path| Some((read_head(&path)?.source, path))).collect();
        for list in missing {
            let source = source_text(list);
            let Some(at) = left.iter().position(|(known, _)| *known == source) else { continue };
            let (_, path) = left.swap_remove(at);
            if fs::rename(&path, self.path(&list.name)).is_ok() {
                tracing::info!(list = list.name, "has the copy that its source had before");
            }
        }
    }

    /// Retires the copies of lists that are no longer configured, and removes the oldest retired
    /// copies.
    pub(crate) fn clear(&mut self, lists: &[ListConfig]) {
        let Ok(_permit) = ownership::write() else { return };
        self.unsaved.retain(|name, _| lists.iter().any(|list| list.name == *name));
        let wanted: Vec<PathBuf> = lists.iter().map(|list| self.path(&list.name)).collect();
        let now = SystemTime::now();
        for path in self.files(&[EXTENSION]).filter(|path| !wanted.contains(path)) {
            let aside = path.with_extension(RETIRED);
            if fs::rename(&path, &aside).is_ok() {
                // The age of a retired copy counts from now.
                let _ = File::options().append(true).open(aside).map(|file| file.set_modified(now));
            }
        }
        let mut retired: Vec<(u64, u64, PathBuf)> = self
            .files(&[RETIRED])
            .filter_map(|path| {
                let metadata = fs::metadata(&path).ok()?;
                let age = now.duration_since(metadata.modified().ok()?).unwrap_or_default();
                Some((age.as_secs(), metadata.len(), path))
            })
            .collect();
        retired.sort();
        let mut octets = 0;
        for (place, (age_secs, len, path)) in retired.iter().enumerate() {
            octets += len;
            if place >= MAX_RETIRED || octets > MAX_RETIRED_OCTETS || *age_secs > RETIRED_SECS {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Returns the files with one of these extensions.
    fn files(&self, extensions: &'static [&'static str]) -> impl Iterator<Item = PathBuf> {
        let files = fs::read_dir(&self.directory).into_iter().flatten().filter_map(Result::ok);
        files.map(|file| file.path()).filter(|path| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            extension.is_some_and(|extension| extensions.contains(&extension))
        })
    }

    /// Returns the path of a copy. Its name has the safe characters of the list's name, and a hash
    /// that distinguishes lists with the same safe characters.
    fn path(&self, name: &str) -> PathBuf {
        let letters: String =
            name.chars().filter(|letter| letter.is_ascii_alphanumeric()).take(32).collect();
        let hash = SipHasher13::new().hash(name.as_bytes());
        self.directory.join(format!("{letters}-{hash:016x}.{EXTENSION}"))
    }
}
