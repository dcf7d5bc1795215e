//! The revisions on disk: a directory with one file for each.
//!
//! ```text
//! revisions/42.revision     one line of JSON with the facts, and the text
//! revisions/probation.json  the revision on probation, if there is one
//! ```
//! A file is written under another name, synced and renamed, so it is complete or missing. Files
//! are private: a configuration may have secrets. Their number and total size are limited.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use avocet_io::ownership;
use serde::{Deserialize, Serialize};

use crate::probation::Probation;

/// Maximum number of octets of all revisions together; the oldest are removed first.
const MAX_OCTETS: usize = 64 << 20;
/// Maximum number of octets of a comment or an author.
const MAX_NOTE: usize = 1_000;
const ENDING: &str = ".revision";
const PROBATION: &str = "probation.json";

/// The origin of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeOrigin {
    /// The file at the start of the server.
    Start,
    /// The file after a change by hand, or by another program.
    File,
    /// A change that a client requested.
    Edit,
    /// A rollback that a client requested.
    Rollback,
    /// An automatic rollback.
    Probation,
    /// The text of a file that had errors when a rollback replaced it. It was never in force.
    Refused,
}

/// A revision without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Facts {
    /// The number, from 1.
    pub number: u32,
    /// The time at which the revision was accepted, in Unix seconds.
    pub at_secs: u64,
    /// The origin.
    pub origin: ChangeOrigin,
    /// The author of the change, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The source of the change, such as the control socket or an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The comment of the author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Number of octets of the text.
    pub octets: usize,
    /// CRC-32 of the text.
    pub crc32: u32,
}

/// A change that is about to enter the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The time in Unix seconds.
    pub at_secs: u64,
    /// The origin of the change.
    pub origin: ChangeOrigin,
    /// The author of the change.
    pub author: Option<String>,
    /// The source of the change.
    pub source: Option<String>,
    /// A comment.
    pub comment: Option<String>,
}

/// The reason why a revision cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    /// There is no such revision.
    #[error("there is no revision {0}; `avocet config history` lists them")]
    Unknown(u32),
    /// The file of a revision is damaged.
    #[error("revision {0} is damaged: its text does not match its checksum")]
    Damaged(u32),
    /// The disk reports an error.
    #[error("the revisions in {0} cannot be used: {1}")]
    Disk(PathBuf, #[source] io::Error),
}

/// The file with the highest number that was assigned, if revisions of a backup replaced the
/// revision with this number.
pub const LAST: &str = "last";

/// The revisions in a directory.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    known: BTreeMap<u32, Facts>,
    /// The highest number that was assigned, even to a damaged file.
    last: u32,
}

impl Store {
    /// Opens or creates the directory. Damaged files are ignored, and stay on disk.
    ///
    /// # Errors
    /// The directory cannot be created or read.
    pub fn open(directory: &Path) -> Result<Self, RevisionError> {
        let failed = |error| RevisionError::Disk(directory.to_owned(), error);
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let last = last_number(directory);
        let mut store = Self { directory: directory.to_owned(), known: BTreeMap::new(), last };
        for entry in fs::read_dir(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(number) = name.to_str().and_then(number_of) else { continue };
            if let Ok((facts, _)) = store.read(number) {
                store.known.insert(number, facts);
            }
        }
        Ok(store)
    }

    /// Returns the facts of all revisions, oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Facts> {
        self.known.values()
    }

    /// Returns the facts of a revision.
    ///
    /// # Errors
    /// There is no such revision.
    pub fn facts(&self, number: u32) -> Result<&Facts, RevisionError> {
        self.known.get(&number).ok_or(RevisionError::Unknown(number))
    }

    /// Returns the text of a revision.
    ///
    /// # Errors
    /// There is no such revision, or its file is damaged.
    pub fn text(&self, number: u32) -> Result<String, RevisionError> {
        self.facts(number)?;
        self.read(number).map(|(_, text)| text)
    }

    /// Adds a revision and returns its number once it is on disk. Then removes all revisions except
    /// the latest `keep` and those in `needed`.
    ///
    /// # Errors
    /// The revision cannot be written. Nothing changes then.
    pub fn add(
        &mut self,
        text: &str,
        new: Submission,
        (keep, needed): (usize, &[u32]),
    ) -> Result<u32, RevisionError> {
        let number = self.last.saturating_add(1);
        let cut = |note: Option<String>| {
            note.map(|mut note| {
                note.truncate(note.floor_char_boundary(MAX_NOTE));
                note
            })
        };
        let facts = Facts {
            number,
            at_secs: new.at_secs,
            origin: new.origin,
            author: cut(new.author),
            source: cut(new.source),
            comment: cut(new.comment),
            octets: text.len(),
            crc32: crc32fast::hash(text.as_bytes()),
        };
        let header = serde_json::to_string(&facts).map_err(|error| self.failed(error.into()))?;
        self.write(&file_name(number), &[&header, "\n", text])?;
        self.last = number;
        self.known.insert(number, facts);
        self.prune(keep, needed);
        Ok(number)
    }

    /// Removes a revision that did not come into force. Its number is not assigned again.
    pub fn forget(&mut self, number: u32) {
        self.known.remove(&number);
        // A file that cannot be removed is in the history again after a restart.
        let _ = self.remove(&file_name(number));
    }

    /// Removes a file of the directory.
    fn remove(&self, name: &str) -> io::Result<()> {
        let _permit = ownership::write()?;
        fs::remove_file(self.directory.join(name))
    }

    /// Returns the probation that was begun before a restart, if there is one.
    pub fn probation(&self) -> Option<Probation> {
        let text = fs::read_to_string(self.directory.join(PROBATION)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Records the revision on probation, or that there is none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_probation(&self, probation: Option<&Probation>) -> Result<(), RevisionError> {
        match probation {
            Some(probation) => {
                let text =
                    serde_json::to_string(probation).map_err(|error| self.failed(error.into()))?;
                self.write(PROBATION, &[&text])
            }
            None => match self.remove(PROBATION) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(error)),
                _ => self.sync(),
            },
        }
    }

    fn failed(&self, error: io::Error) -> RevisionError {
        RevisionError::Disk(self.directory.clone(), error)
    }

    fn write(&self, name: &str, parts: &[&str]) -> Result<(), RevisionError> {
        let _permit = ownership::write().map_err(|error| self.failed(error))?;
        let path = self.directory.join(name);
        let unfinished = path.with_added_extension("new");
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&unfinished)?;
            parts.iter().try_for_each(|part| file.write_all(part.as_bytes()))?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|error| {
            // If nothing was written, there is nothing to remove.
            let _ = fs::remove_file(&unfinished);
            self.failed(error)
        })?;
        self.sync()
    }

    /// Waits until names are on disk.
    fn sync(&self) -> Result<(), RevisionError> {
        let directory = File::open(&self.directory);
        directory.and_then(|directory| directory.sync_all()).map_err(|error| self.failed(error))
    }

    fn read(&self, number: u32) -> Result<(Facts, String), RevisionError> {
        let whole = fs::read_to_string(self.directory.join(file_name(number)))
            .map_err(|error| self.failed(error))?;
        let (facts, text) = parts(number, &whole).ok_or(RevisionError::Damaged(number))?;
        Ok((facts, text.to_owned()))
    }

    fn prune(&mut self, keep: usize, needed: &[u32]) {
        let mut octets: usize = self.known.values().map(|facts| facts.octets).sum();
        let old: Vec<u32> = self.known.keys().copied().filter(|one| *one != self.last).collect();
        for number in old.into_iter().filter(|number| !needed.contains(number)) {
            if self.known.len() <= keep.max(1) && octets <= MAX_OCTETS {
                break;
            }
            // The server tries again at its next start to remove the file.
            let _ = self.remove(&file_name(number));
            octets -= self.known.remove(&number).map_or(0, |facts| facts.octets);
        }
    }
}

/// Returns facts and text of the whole file of a revision; `None` if the file is damaged.
fn parts(number: u32, whole: &str) -> Option<(Facts, &str)> {
    let (header, text) = whole.split_once('\n')?;
    let facts: Facts = serde_json::from_str(header).ok()?;
    let is_intact = facts.number == number
        && facts.octets == text.len()
        && facts.crc32 == crc32fast::hash(text.as_bytes());
    is_intact.then_some((facts, text))
}

/// Returns whether the whole file of a revision matches its number and checksum.
pub fn is_intact(number: u32, whole: &str) -> bool {
    parts(number, whole).is_some()
}

/// Returns the highest number that was assigned to a revision in a directory; 0 if there is none.
pub fn last_number(directory: &Path) -> u32 {
    let kept = fs::read_to_string(directory.join(LAST)).ok();
    let kept = kept.and_then(|text| text.trim().parse().ok());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| number_of(entry.file_name().to_str()?));
    numbers.chain(kept).max().unwrap_or_default()
}

/// Returns the number of a file of a revision.
fn number_of(name: &str) -> Option<u32> {
    name.strip_suffix(ENDING)?.parse().ok()
}

fn file_name(number: u32) -> String {
    format!("{number}{ENDING}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir()
                .join(format!("avocet-revisions-{test}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn of_file(at_secs: u64) -> Submission {
        Submission {
            at_secs,
            origin: ChangeOrigin::File,
            author: None,
            source: None,
            comment: None,
        }
    }

    #[test]
    fn a_number_that_a_restore_replaced_is_not_given_again() {
        let place = Place::new("last");
        let mut store = Store::open(&place.0).unwrap();
        assert_eq!(store.add("a", of_file(0), (3, &[])).unwrap(), 1);
        fs::write(place.0.join(LAST), "17").unwrap();
        assert_eq!(last_number(&place.0), 17);
        assert_eq!(Store::open(&place.0).unwrap().add("b", of_file(0), (3, &[])).unwrap(), 18);
        assert_eq!(last_number(&place.0), 18);
        fs::write(place.0.join(LAST), "damaged").unwrap();
        assert_eq!(last_number(&place.0), 18);
    }

    #[test]
    fn revisions_are_numbered_and_survive_a_restart() {
        let place = Place::new("numbers");
        let mut store = Store::open(&place.0).unwrap();
        let author = Some("eve".to_owned());
        let new = Submission { author: author.clone(), ..of_file(7) };
        assert_eq!(store.add("a = 1\n", new, (9, &[])).unwrap(), 1);
        assert_eq!(store.add("", of_file(8), (9, &[])).unwrap(), 2);
        let again = Store::open(&place.0).unwrap();
        assert_eq!(again.all().collect::<Vec<_>>(), store.all().collect::<Vec<_>>());
        assert_eq!(again.text(1).unwrap(), "a = 1\n");
        assert_eq!(
            (again.facts(1).unwrap().at_secs, &again.facts(1).unwrap().author),
            (7, &author)
        );
        assert!(matches!(again.text(3), Err(RevisionError::Unknown(3))));
        let mode = fs::metadata(place.0.join("1.revision")).unwrap();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
    }

    #[test]
    fn old_revisions_are_removed_except_those_that_are_needed() {
        let place = Place::new("old");
        let mut store = Store::open(&place.0).unwrap();
        for number in 0..10 {
            store.add(&number.to_string(), of_file(number), (3, &[2])).unwrap();
        }
        let kept: Vec<_> = store.all().map(|facts| facts.number).collect();
        assert_eq!(kept, [2, 9, 10]);
        let kept: Vec<_> = Store::open(&place.0).unwrap().all().map(|facts| facts.number).collect();
        assert_eq!(kept, [2, 9, 10]);
        store.forget(10);
        assert_eq!(store.add("x", of_file(0), (3, &[])).unwrap(), 11, "no number is given twice");
    }

    #[test]
    fn a_file_that_is_cut_or_changed_anywhere_is_damaged() {
        let place = Place::new("damaged");
        let mut store = Store::open(&place.0).unwrap();
        store.add("[policy]\nblock-ttl-secs = 60\n", of_file(1), (9, &[])).unwrap();
        let path = place.0.join("1.revision");
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert!(store.text(1).is_err(), "cut at {len}");
        }
        let text_at = whole.iter().position(|octet| *octet == b'\n').unwrap() + 1;
        for at in text_at..whole.len() {
            let mut octets = whole.clone();
            octets[at] ^= 1;
            fs::write(&path, octets).unwrap();
            assert!(store.text(1).is_err(), "changed at {at}");
        }
        let mut after = Store::open(&place.0).unwrap();
        assert_eq!(after.all().count(), 0);
        assert_eq!(after.add("", of_file(2), (9, &[])).unwrap(), 2, "the damaged file stays");
    }

    #[test]
    fn a_crash_while_writing_leaves_no_revision() {
        let place = Place::new("crash");
        let mut store = Store::open(&place.0).unwrap();
        store.add("a", of_file(1), (9, &[])).unwrap();
        fs::write(place.0.join("2.revision.new"), "{\"number\":2").unwrap();
        let mut after = Store::open(&place.0).unwrap();
        assert_eq!(after.all().count(), 1);
        assert_eq!(after.add("b", of_file(2), (9, &[])).unwrap(), 2);
        assert_eq!(Store::open(&place.0).unwrap().text(2).unwrap(), "b");
    }
}
