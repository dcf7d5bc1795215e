//! The file `lists/image` in the data directory, with the image: the compiled form of all lists.
//! When the server starts, it reads the image instead of the lists.
//!
//! ```text
//!   image, as the compiler made it | JSON about its origin | length of the JSON, u32 | MAGIC
//! ```

use std::path::{Path, PathBuf};
use std::{fmt, io};

use avocet_nameserver::disk;
use avocet_nameserver::policy::load::Making;
use avocet_policy::list::ImageError;

/// Maximum number of octets of an image file.
const MAX_IMAGE_BYTES: u64 = 2 << 30;
const MAGIC: &[u8; 8] = b"AVCmade1";
/// Number of octets of the length and the magic.
const TAIL: usize = 4 + MAGIC.len();

/// The reason why an image on disk is not used.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// The file cannot be read.
    Io(io::Error),
    /// The description of its origin is missing: the file is truncated, or is not an image.
    Unsigned,
    /// The file is not an image, or has another version.
    Image(ImageError),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Unsigned => f.write_str("it is incomplete"),
            Self::Image(error) => error.fmt(f),
        }
    }
}

/// The path of the image in a directory.
pub(crate) struct ImageFile(PathBuf);

impl ImageFile {
    /// Creates the value for an image in this directory.
    pub(crate) fn new(directory: &Path) -> Self {
        Self(directory.join("image"))
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the image and the description of its origin; `None` if there is no file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is incomplete.
    pub(crate) fn load(&self) -> Result<Option<(Vec<u8>, Making)>, Unusable> {
        let Some(mut octets) = disk::read(&self.0, MAX_IMAGE_BYTES).map_err(Unusable::Io)? else {
            return Ok(None);
        };
        let (making, end) = made(&octets).ok_or(Unusable::Unsigned)?;
        octets.truncate(end);
        Ok(Some((octets, making)))
    }

    /// Writes the image.
    ///
    /// # Errors
    ///
    /// The disk cannot be written; the previous image remains.
    pub(crate) fn save(&self, image: &[u8], making: &Making) -> io::Result<()> {
        let making = serde_json::to_vec(making)?;
        let len = u32::try_from(making.len()).map_err(io::Error::other)?.to_le_bytes();
        disk::replace(&self.0, &[image, &making, &len, MAGIC])
    }
}

/// Returns the description of the origin of the image in these octets, and the position at which
/// the image ends.
fn made(octets: &[u8]) -> Option<(Making, usize)> {
    let (before, tail) = octets.split_at_checked(octets.len().checked_sub(TAIL)?)?;
    let (len, magic) = tail.split_first_chunk::<4>()?;
    if magic != MAGIC {
        return None;
    }
    let end = before.len().checked_sub(u32::from_le_bytes(*len) as usize)?;
    Some((serde_json::from_slice(before.get(end..)?).ok()?, end))
}
