//! Files that are complete at any moment: they are written under another name, synced, and then
//! renamed. Only the process that owns the data directory writes files ([`ownership`]).

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use avocet_io::file::{open_regular, sync_directory};
use avocet_io::ownership;
use avocet_io::replace::{ExpectedFile, ReplaceFault};

use crate::file_watch::FileFingerprint;

/// Number of octets per read or write. Some kernels give the core to another thread only between
/// system calls: a worker then waits for one call, about 30 us.
pub const PIECE: usize = 64 << 10;

/// Number of octets between two syncs. The kernel keeps the core while it hands data to the disk,
/// which takes a third of a millisecond for 20 MB.
const SYNCED: usize = 1 << 20;

/// The ending of a file that is not complete yet. No other program uses it, so that the server
/// removes only its own files.
pub const UNFINISHED: &str = "avocet-new";
/// The ending of the copy of a file that the server replaces as a whole.
const BEFORE: &str = "before-updates";

/// A new file that is written in pieces, so that nothing else on this core waits for long.
pub struct Paced {
    file: File,
    /// Number of octets since the last sync.
    unsynced: usize,
}

impl Paced {
    /// Creates the file. Empties an existing file.
    ///
    /// # Errors
    ///
    /// The file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let _permit = ownership::write()?;
        Ok(Self { file: File::create(path)?, unsynced: 0 })
    }

    /// Creates the file, which must not exist. Does not follow a link.
    fn create_new(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create_new(path)?, unsynced: 0 })
    }

    /// Waits until the file is on disk.
    ///
    /// # Errors
    ///
    /// The disk reports an error.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Write for Paced {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let _permit = ownership::write()?;
        let written = self.file.write(&octets[..octets.len().min(PIECE)])?;
        self.unsynced += written;
        if self.unsynced >= SYNCED {
            self.unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Replaces a file with the concatenation of `parts`. After an error, the previous file remains in
/// place.
///
/// # Errors
///
/// The disk is full or cannot be written.
pub fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    replace_known(path, parts).map(|_| ())
}

/// Replaces a file like [`replace`], and returns the fingerprint of the written file. A later
/// fingerprint is equal only if no other program has written the file since.
///
/// # Errors
///
/// The disk is full or cannot be written.
pub fn replace_known(path: &Path, parts: &[&[u8]]) -> io::Result<Option<FileFingerprint>> {
    put(path, parts, None)
}

/// Replaces a file like [`replace_known`], for files that people and other programs use, too. A
/// symbolic link remains, and so do owner and permissions, as far as the server may set them.
///
/// # Errors
///
/// The disk is full or cannot be written.
pub fn replace_shared(path: &Path, parts: &[&[u8]]) -> io::Result<Option<FileFingerprint>> {
    let SharedFile { path, facts } = SharedFile::at(path)?;
    put(&path, parts, facts.as_ref())
}

/// Replaces a file like [`replace_shared`] if it still has the fingerprint `expected`. With `None`,
/// the file must still not exist. An edit that is saved in the meantime is not overwritten.
///
/// # Errors
///
/// Another program has changed the file, or the disk is full or cannot be written.
pub fn replace_if(
    path: &Path,
    parts: &[&[u8]],
    expected: Option<FileFingerprint>,
) -> Result<Option<FileFingerprint>, ReplaceFault> {
    let _permit = ownership::write()?;
    let SharedFile { path, facts } = SharedFile::at(path)?;
    let WrittenFile { beside, fingerprint } = WrittenFile::write(&path, parts, facts.as_ref())?;
    let has_content = |path: &Path| {
        Ok(FileFingerprint::of(path).zip(expected).is_some_and(|(it, of)| it.has_content_of(&of)))
    };
    let expected = match expected {
        Some(_) => ExpectedFile::Present(&has_content),
        None => ExpectedFile::Missing,
    };
    avocet_io::replace::replace_if(&path, &beside, &expected)?;
    Ok(fingerprint)
}

/// Copies a file that is about to be replaced, with owner and permissions, to a file with the
/// ending `before-updates`. Replaces an earlier copy. If a symbolic link has the name of the copy,
/// the link itself is replaced.
///
/// # Errors
///
/// The file cannot be read, or the copy cannot be written.
pub fn keep_copy(path: &Path) -> io::Result<()> {
    let mut octets = Vec::new();
    let mut file = open_regular(path)?;
    file.read_to_end(&mut octets)?;
    put(&path.with_added_extension(BEFORE), &[&octets], Some(&file.metadata()?)).map(drop)
}

/// A file that people and other programs use.
struct SharedFile {
    /// The path of the file after all symbolic links are resolved.
    path: PathBuf,
    /// The properties of the file; `None` if it does not exist.
    facts: Option<Metadata>,
}

impl SharedFile {
    fn at(path: &Path) -> io::Result<Self> {
        match fs::canonicalize(path) {
            Ok(target) => Ok(Self { facts: Some(fs::metadata(&target)?), path: target }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // The target of a link may not exist yet.
                let link = fs::read_link(path).ok();
                let target = link.and_then(|target| Some(path.parent()?.join(target)));
                Ok(Self { path: target.unwrap_or_else(|| path.to_owned()), facts: None })
            }
            Err(error) => Err(error),
        }
    }
}

/// Replaces a file. The new file gets the owner and the permissions of `model`.
fn put(
    path: &Path,
    parts: &[&[u8]],
    model: Option<&Metadata>,
) -> io::Result<Option<FileFingerprint>> {
    let _permit = ownership::write()?;
    let WrittenFile { beside, fingerprint } = WrittenFile::write(path, parts, model)?;
    fs::rename(&beside, path).inspect_err(|_| discard(&beside))?;
    sync_directory(path)?;
    Ok(fingerprint)
}

/// A complete file, before it replaces another file.
struct WrittenFile {
    /// The path of the complete file, in the same directory as the file to replace.
    beside: PathBuf,
    fingerprint: Option<FileFingerprint>,
}

impl WrittenFile {
    fn write(path: &Path, parts: &[&[u8]], model: Option<&Metadata>) -> io::Result<Self> {
        let beside = path.with_added_extension(UNFINISHED);
        // A crash may have left this file. If it is a link, only the link is removed, not its
        // target.
        discard(&beside);
        write(&beside, parts, model).inspect_err(|_| discard(&beside))?;
        Ok(Self { fingerprint: FileFingerprint::of(&beside), beside })
    }
}

/// Removes a file that was not renamed. Ignores errors, because such a file only takes space.
fn discard(beside: &Path) {
    let _ = fs::remove_file(beside);
}

fn write(path: &Path, parts: &[&[u8]], model: Option<&Metadata>) -> io::Result<()> {
    let mut file = Paced::create_new(path)?;
    if let Some(model) = model {
        take_after(&file.file, model)?;
    }
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.finish()
}

/// Gives a file the owner, the group and the permissions of another file, as far as the server may
/// set them. If it cannot set the group, the file gets no permissions for its group.
fn take_after(file: &File, model: &Metadata) -> io::Result<()> {
    let (own, mode) = (file.metadata()?, model.mode() & 0o777);
    file.set_permissions(Permissions::from_mode(mode))?;
    let (uid, gid) = (model.uid(), model.gid());
    let is_like = (own.uid(), own.gid()) == (uid, gid)
        || fchown(file, Some(uid), Some(gid)).is_ok()
        || own.gid() == gid
        || fchown(file, None, Some(gid)).is_ok();
    match is_like {
        true => Ok(()),
        false => file.set_permissions(Permissions::from_mode(mode & 0o707)),
    }
}

/// Reads a file of at most `most` octets; returns `None` if the file does not exist.
///
/// # Errors
///
/// The file cannot be read, or is larger than `most`.
pub fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let too_large =
        || io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {most} octets"));
    let len = file.metadata()?.len();
    if len > most {
        return Err(too_large());
    }
    // The file may grow while it is read.
    let (mut file, mut octets) = (file.take(most + 1), Vec::with_capacity(len as usize + PIECE));
    while file.by_ref().take(PIECE as u64).read_to_end(&mut octets)? > 0 {}
    if octets.len() as u64 > most { Err(too_large()) } else { Ok(Some(octets)) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_shared_file_keeps_its_link_and_its_permissions() {
        let directory = std::env::temp_dir().join(format!("avocet-shared-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let (file, link) = (directory.join("zone"), directory.join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
        symlink(&file, &link).unwrap();
        let written = replace_shared(&link, &[b"n", b"ew"]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o664);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let now = FileFingerprint::of(&link).unwrap();
        assert!(now.has_content_of(&written.unwrap()));
        replace_shared(&directory.join("other"), &[b"x"]).unwrap();
        fs::remove_file(&file).unwrap();
        replace_shared(&link, &[b"again"]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "again");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 3, "no other file remains");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn files_of_other_programs_next_to_a_file_stay() {
        let directory = std::env::temp_dir().join(format!("avocet-disk-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let (file, other) = (directory.join("zone"), directory.join("precious"));
        fs::write(&file, "first").unwrap();
        fs::write(&other, "precious").unwrap();
        fs::write(directory.join("zone.new"), "draft").unwrap();
        let text = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        let writings: [&dyn Fn(); 4] = [
            &|| replace(&file, &[b"second"]).unwrap(),
            &|| assert!(replace_shared(&file, &[b"third"]).unwrap().is_some()),
            &|| {
                let known = FileFingerprint::of(&file);
                assert!(replace_if(&file, &[b"fourth"], known).unwrap().is_some());
            },
            &|| keep_copy(&file).unwrap(),
        ];
        for write in writings {
            // A crash leaves no links, so another program has made these links.
            let links = [UNFINISHED, BEFORE].map(|ending| file.with_added_extension(ending));
            for link in &links {
                let _ = fs::remove_file(link);
                symlink(&other, link).unwrap();
            }
            write();
            assert_eq!((&*text("precious"), &*text("zone.new")), ("precious", "draft"));
            assert!(fs::symlink_metadata(&file).unwrap().is_file());
        }
        assert_eq!((&*text("zone"), &*text("zone.before-updates")), ("fourth", "fourth"));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_file_is_replaced_only_while_it_has_the_content_that_was_read() {
        let directory = std::env::temp_dir().join(format!("avocet-if-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let (file, link) = (directory.join("zone"), directory.join("link"));
        symlink(&file, &link).unwrap();
        let check = |parts: &[&[u8]], expected, text: Result<&str, &str>| {
            let written = replace_if(&link, parts, expected);
            assert_eq!(fs::read_to_string(&file).unwrap(), text.unwrap_or_else(|text| text));
            assert_eq!(written.is_ok(), text.is_ok(), "{written:?}");
            assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "no other file remains");
            written.ok().flatten()
        };
        let first = check(&[b"fir", b"st"], None, Ok("first"));
        check(&[b"again"], None, Err("first"));
        fs::set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
        let second = check(&[b"second"], first, Ok("second"));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o664);
        assert!(FileFingerprint::of(&link).unwrap().has_content_of(&second.unwrap()));
        fs::write(&file, "by hand").unwrap();
        check(&[b"third"], second, Err("by hand"));
        fs::remove_dir_all(&directory).unwrap();
    }
}
