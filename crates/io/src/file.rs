//! Opens, reads, exchanges and renames files whose paths a user chooses.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Waits until the new name of a file is on disk, by syncing the directory of the file.
///
/// # Errors
/// The directory cannot be opened, or the disk reports an error.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

/// Returns the directory of a file. For a bare file name, this is the working directory.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        Some(_) => Path::new("."),
        None => Path::new("/"),
    }
}

/// Opens a regular file for reading without blocking. A pipe, which might never get a writer, is an
/// error, and so is anything else that is not a regular file, such as a directory or an endless
/// device.
///
/// # Errors
/// The file does not exist, cannot be read, or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    if !kind.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a pipe or a device, not a file",
        ));
    }
    Ok(file)
}

/// Reads a regular file of at most `most` octets.
///
/// # Errors
/// The errors of [`open_regular`], or the file is larger.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    // The length in the metadata may be wrong: a file may grow, and files in `/proc` state length
    // 0.
    open_regular(path)?.take(most.saturating_add(1)).read_to_end(&mut octets)?;
    if octets.len() as u64 > most {
        let message = format!("larger than {most} octets");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(octets)
}

/// Reads a regular file of text of at most `most` octets.
///
/// # Errors
/// The errors of [`read_regular`], or the file is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let octets = read_regular(path, most)?;
    String::from_utf8(octets).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Exchanges two files of one file system atomically.
///
/// # Errors
/// A file does not exist, the directory is not writable, or the file system does not support it.
pub fn exchange(a: &Path, b: &Path) -> io::Result<()> {
    rename(a, b, libc::RENAME_EXCHANGE)
}

/// Renames a file, atomically, if no file has the new name.
///
/// # Errors
/// There is a file with the new name, the directory is not writable, or the file system does not
/// support it.
pub fn rename_to_missing(from: &Path, to: &Path) -> io::Result<()> {
    rename(from, to, libc::RENAME_NOREPLACE)
}

fn rename(from: &Path, to: &Path, flags: libc::c_uint) -> io::Result<()> {
    let (from, to) = (c_path(from)?, c_path(to)?);
    let here = libc::AT_FDCWD;
    // SAFETY: both are strings that end with a zero octet and outlive the call.
    let result = unsafe { libc::renameat2(here, from.as_ptr(), here, to.as_ptr(), flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_a_directory_that_can_be_opened() {
        let check = |path: &str, expected: &str| {
            assert_eq!(directory_of(Path::new(path)), Path::new(expected), "{path}");
        };
        check("corp.zone", ".");
        check("zones/corp.zone", "zones");
        check("/corp.zone", "/");
        check("/etc/avocet/corp.zone", "/etc/avocet");
    }

    #[test]
    fn what_is_no_file_of_octets_is_refused() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(open_regular(&here.join("Cargo.toml")).is_ok());
        for (path, expected) in [
            (here.join("none"), io::ErrorKind::NotFound),
            (here.to_owned(), io::ErrorKind::IsADirectory),
            ("/dev/zero".into(), io::ErrorKind::InvalidInput),
        ] {
            assert_eq!(
                open_regular(&path).err().map(|error| error.kind()),
                Some(expected),
                "{}",
                path.display()
            );
        }
    }

    #[test]
    fn reading_stops_at_the_limit() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let len = std::fs::metadata(&path).unwrap().len();
        assert_eq!(read_regular(&path, len).unwrap().len() as u64, len);
        let error = read_regular(&path, len - 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        // A file in `/proc` states length 0.
        assert!(!read_text(Path::new("/proc/self/status"), 1 << 16).unwrap().is_empty());
    }
}
