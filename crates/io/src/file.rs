//! Files whose paths come from a person.

use std::fs::{File, OpenOptions};
use std::io;
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
