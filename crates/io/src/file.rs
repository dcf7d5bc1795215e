//! Files whose paths come from a person.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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

/// Exchanges two files of one file system, atomically.
///
/// # Errors
/// A file does not exist, the directory is not writable, or the file system does not support it.
pub fn exchange(a: &Path, b: &Path) -> io::Result<()> {
    let (a, b) = (c_path(a)?, c_path(b)?);
    // SAFETY: both are strings that end with a zero octet and outlive the call.
    let result = unsafe {
        libc::renameat2(
            libc::AT_FDCWD,
            a.as_ptr(),
            libc::AT_FDCWD,
            b.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
