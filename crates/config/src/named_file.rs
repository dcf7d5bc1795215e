//! Files that settings name. They are read together with the configuration.

use std::path::Path;

use avocet_io::file::read_text;

use super::error::SettingError;

/// Maximum number of octets of a file that a setting names. Users without further rights may have a
/// configuration checked, and must not make the server read without end.
const MAX_OCTETS: u64 = 1 << 20;

/// Reads a file of text, such as `resolv.conf`.
///
/// # Errors
/// The file cannot be read, is too large, or is a device or a pipe.
pub(super) fn read(path: &Path) -> Result<String, SettingError> {
    read_text(path, MAX_OCTETS)
        .map_err(|source| SettingError::Unreadable { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_end_is_refused() {
        let error = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("not a file"), "{error}");
    }
}
