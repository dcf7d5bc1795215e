//! A small file of state that is complete at any moment. It is written under another name, synced
//! and renamed. The last line is a checksum of the other lines.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use avocet_io::file::sync_directory;
use avocet_io::ownership;
use siphasher::sip::SipHasher13;

use crate::error::BackgroundError;

/// Maximum number of octets of a state: a larger file is damaged.
const MAX_OCTETS: u64 = 1 << 20;
/// The start of the last line.
const CHECKSUM: &str = "; checksum ";

/// A file of state in the data directory.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// Returns the file of this name in the data directory.
    pub(crate) fn new(directory: &Path, name: &str) -> Self {
        Self { path: directory.join(name) }
    }

    /// Returns the saved text; `None` if there is none or the file is damaged. A damaged file is
    /// renamed. `fallback` is the state that then applies, for the log.
    pub(crate) fn load(&self, fallback: &str) -> Option<String> {
        match self.read() {
            Ok(text) => text,
            Err(fault) => {
                self.put_aside(&fault.to_string(), fallback);
                None
            }
        }
    }

    /// Renames a file that cannot be used.
    pub(crate) fn put_aside(&self, fault: &str, fallback: &str) {
        let aside = self.path.with_added_extension("damaged");
        let renamed = ownership::write().and_then(|_permit| fs::rename(&self.path, &aside));
        let kept = match renamed {
            Ok(()) => format!("renamed to {}", aside.display()),
            Err(error) => format!("cannot rename it: {error}"),
        };
        tracing::warn!("{}: {fault}; {fallback} ({kept})", self.path.display());
    }

    fn read(&self) -> io::Result<Option<String>> {
        let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            facts => match facts?.len() {
                0..=MAX_OCTETS => {}
                _ => return Err(damaged("too long")),
            },
        }
        let whole = fs::read_to_string(&self.path)?;
        let text = content(&whole).ok_or_else(|| damaged("damaged"))?;
        Ok(Some(text.to_owned()))
    }

    /// Saves a text of complete lines. After a failure the previous text remains.
    ///
    /// # Errors
    ///
    /// The disk cannot be written.
    pub(crate) fn save(&self, text: &str) -> Result<(), BackgroundError> {
        let unsaved = |source| BackgroundError::Unsaved { path: self.path.clone(), source };
        let _permit = ownership::write().map_err(unsaved)?;
        let beside = self.path.with_added_extension("new");
        let saved = write(&beside, text).and_then(|()| fs::rename(&beside, &self.path));
        saved.and_then(|()| sync_directory(&self.path)).map_err(|source| {
            let _ = fs::remove_file(&beside);
            unsaved(source)
        })
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    writeln!(file, "{CHECKSUM}{}", checksum(text))?;
    file.sync_all()
}

/// Returns the text of a file without the line of its checksum; `None` if the checksum does not
/// match.
fn content(whole: &str) -> Option<&str> {
    let (text, last) = whole.split_at(whole.rfind(CHECKSUM)?);
    let found = last.strip_prefix(CHECKSUM)?.strip_suffix('\n')?;
    (found == checksum(text)).then_some(text)
}

/// Returns whether the text of a file matches its checksum.
pub(crate) fn is_intact(whole: &str) -> bool {
    content(whole).is_some()
}

fn checksum(text: &str) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> StateFile {
        let directory =
            std::env::temp_dir().join(format!("avocet-state-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        StateFile::new(&directory, "state")
    }

    fn clean(file: &StateFile) {
        fs::remove_dir_all(file.path.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_was_saved_comes_back() {
        let file = file("whole");
        assert_eq!(file.load("nothing"), None);
        for text in ["", "a\nb\n"] {
            file.save(text).unwrap();
            assert_eq!(file.load("nothing").as_deref(), Some(text));
        }
        clean(&file);
    }

    /// A file that is truncated or altered anywhere is refused and renamed.
    #[test]
    fn a_damaged_file_is_put_aside() {
        let file = file("damaged");
        file.save("valid 1 . IN DNSKEY\n").unwrap();
        let whole = fs::read(&file.path).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            for damaged in [&whole[..at], &flipped[..]] {
                fs::write(&file.path, damaged).unwrap();
                assert_eq!(file.load("nothing"), None, "{at}");
                assert!(!file.path.exists() && file.path.with_added_extension("damaged").exists());
            }
        }
        clean(&file);
    }

    #[test]
    fn a_directory_that_takes_nothing_is_an_error_with_the_name_of_the_file() {
        let file = StateFile::new(Path::new("/nonexistent"), "state");
        let error = file.save("a\n").unwrap_err().to_string();
        assert!(error.starts_with("cannot save /nonexistent/state: "), "{error}");
        assert_eq!(file.load("nothing"), None);
    }
}
