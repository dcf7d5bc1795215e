//! Detects changes of a file by polling.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Properties that change when a file is written or replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileFingerprint {
    modified: (i64, i64),
    size: u64,
    device: u64,
    inode: u64,
    /// The time of the last change of the file's content or properties, such as permissions.
    changed: (i64, i64),
}

impl FileFingerprint {
    /// Returns the fingerprint of the file at `path`, following symbolic links; `None` if there is
    /// no file.
    pub fn of(path: &Path) -> Option<Self> {
        let facts = fs::metadata(path).ok()?;
        Some(Self {
            modified: (facts.mtime(), facts.mtime_nsec()),
            size: facts.size(),
            device: facts.dev(),
            inode: facts.ino(),
            changed: (facts.ctime(), facts.ctime_nsec()),
        })
    }

    /// Returns the Unix second of the last change of the content.
    #[must_use]
    pub const fn modified_secs(&self) -> i64 {
        self.modified.0
    }

    /// Returns whether both fingerprints are of the same file with the same content. Another name
    /// or other permissions make no difference.
    pub fn has_content_of(&self, other: &Self) -> bool {
        Self { changed: other.changed, ..*self } == *other
    }
}

/// Detects changes of a file by polling.
#[derive(Default)]
pub struct FileWatch {
    acted_on: Option<FileFingerprint>,
    last_seen: Option<FileFingerprint>,
}

impl FileWatch {
    /// Begins to watch a file that has this fingerprint now.
    pub fn new(now: Option<FileFingerprint>) -> Self {
        Self { acted_on: now, last_seen: now }
    }

    /// Reports whether the file is missing, and was already missing at the last check. Programs
    /// that replace a file may delete it first.
    pub fn has_gone(&self, now: Option<FileFingerprint>) -> bool {
        now.is_none() && self.last_seen.is_none() && self.acted_on.is_some()
    }

    /// Reports whether the file has changed, but not since the last check. A file that is still
    /// being written could be valid but incomplete.
    pub fn has_settled(&mut self, now: Option<FileFingerprint>) -> bool {
        let is_stable = now == self.last_seen;
        self.last_seen = now;
        if !is_stable || now.is_none() || now == self.acted_on {
            return false;
        }
        self.acted_on = now;
        true
    }
}

/// Measures for how long a file has not changed. A program that saves the file in place may have
/// written only half of it.
pub struct QuietWatch {
    seen: Option<FileFingerprint>,
    since: Instant,
}

impl QuietWatch {
    /// Begins to watch a file that has this fingerprint now.
    pub fn begin(seen: Option<FileFingerprint>, now: Instant) -> Self {
        Self { seen, since: now }
    }

    /// Takes the current fingerprint, and returns for how long the fingerprint has been the same.
    pub fn quiet_for(&mut self, seen: Option<FileFingerprint>, now: Instant) -> Duration {
        if seen != self.seen {
            *self = Self::begin(seen, now);
        }
        now.saturating_duration_since(self.since)
    }
}

/// The configuration file, with the fingerprint that was taken before the file was read at the
/// start.
pub struct ConfigFile {
    /// The path of the file; `None` if there is no file.
    pub path: Option<PathBuf>,
    /// The fingerprint of the configuration file, taken before it was read.
    pub seen: Option<FileFingerprint>,
}

impl ConfigFile {
    /// Takes the fingerprint of a file that will be read next.
    pub fn about_to_be_read(path: Option<PathBuf>) -> Self {
        Self { seen: path.as_deref().and_then(FileFingerprint::of), path }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn print(size: u64) -> Option<FileFingerprint> {
        Some(FileFingerprint { modified: (1, 2), size, device: 3, inode: 4, changed: (5, 6) })
    }

    #[test]
    fn a_change_counts_once_and_only_when_it_has_settled() {
        let mut watch = FileWatch::new(print(1));
        let looks = [
            (print(1), false),
            (print(2), false),
            (print(3), false),
            (print(3), true),
            (print(3), false),
            (None, false),
            (None, false),
            (print(3), false),
            (print(3), false),
            (print(1), false),
            (print(1), true),
        ];
        for (number, (now, expected)) in looks.into_iter().enumerate() {
            assert_eq!(watch.has_settled(now), expected, "look {number}");
        }
    }

    #[test]
    fn a_file_is_quiet_from_its_last_change_on() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut watch = QuietWatch::begin(print(0), start);
        let looks = [(900, 0, 900), (950, 5, 0), (1_900, 5, 950), (1_940, 9, 0), (2_940, 9, 1_000)];
        for (at, size, expected) in looks {
            let quiet = watch.quiet_for(print(size), after(at));
            assert_eq!(quiet, Duration::from_millis(expected), "at {at}");
        }
    }

    #[test]
    fn a_file_is_gone_when_it_stays_missing() {
        let mut watch = FileWatch::new(print(1));
        for (now, expected) in [(None, false), (None, true), (print(1), false), (None, false)] {
            assert_eq!(watch.has_gone(now), expected);
            watch.has_settled(now);
        }
        assert!(!FileWatch::new(None).has_gone(None), "there was no file");
    }

    #[test]
    fn a_file_whose_permissions_change_has_changed() {
        let path = std::env::temp_dir().join(format!("avocet-fingerprint-{}", std::process::id()));
        let of_mode = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            FileFingerprint::of(&path)
        };
        fs::write(&path, "x").unwrap();
        let before = of_mode(0o000);
        while of_mode(0o600) == before {
            // The file system's clock advances in steps of some milliseconds.
            of_mode(0o000);
        }
        fs::remove_file(&path).unwrap();
    }
}
