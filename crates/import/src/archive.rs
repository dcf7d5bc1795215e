//! Archives: the wanted members of a zip or of a gzip-compressed tar.
//!
//! Sizes claimed in headers are not trusted: members are unpacked under a common limit.

use std::io::{Cursor, Read};

use flate2::read::GzDecoder;

use crate::source::{Error, MAX_MEMBERS, MAX_UNPACKED, malformed};

/// The start of a zip (its local file header).
pub(crate) const ZIP: &[u8] = b"PK\x03\x04";
/// The start of a gzip (RFC 1952 §2.3.1).
pub(crate) const GZIP: &[u8] = b"\x1f\x8b";

/// A member: its path in the archive and its octets.
pub(crate) type Member = (String, Vec<u8>);

/// Returns the members of a zip whose paths are `wanted`.
pub(crate) fn zip(
    path: &str,
    octets: &[u8],
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Member>, Error> {
    let mut archive =
        zip::ZipArchive::new(Cursor::new(octets)).map_err(|error| malformed(path, error))?;
    let mut room = Room::of(path);
    let mut members = Vec::new();
    for index in 0..archive.len() {
        room.member()?;
        let member = archive.by_index(index).map_err(|error| malformed(path, error))?;
        let name = member.name().map_err(|error| malformed(path, error))?.into_owned();
        if member.is_file() && wanted(&name) {
            members.push((name, room.unpack(member)?));
        }
    }
    Ok(members)
}

/// Returns the members of a compressed tar whose paths are `wanted`.
pub(crate) fn tar_gz(
    path: &str,
    octets: &[u8],
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Member>, Error> {
    // The limit counts all unpacked octets, including those of skipped members.
    let unpacked = GzDecoder::new(octets).take(MAX_UNPACKED);
    let mut archive = tar::Archive::new(unpacked);
    let mut room = Room::of(path);
    let mut members = Vec::new();
    for entry in archive.entries().map_err(|error| malformed(path, error))? {
        room.member()?;
        let entry = entry.map_err(|error| malformed(path, error))?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if entry.header().entry_type().is_file() && wanted(&name) {
            members.push((name, room.unpack(entry)?));
        }
    }
    Ok(members)
}

/// The remaining room for unpacked octets.
struct Room<'a> {
    path: &'a str,
    octets: u64,
    members: usize,
}

impl<'a> Room<'a> {
    fn of(path: &'a str) -> Self {
        Self { path, octets: MAX_UNPACKED, members: MAX_MEMBERS }
    }

    fn member(&mut self) -> Result<(), Error> {
        self.members = self
            .members
            .checked_sub(1)
            .ok_or_else(|| self.exceeded(format!("{MAX_MEMBERS} members")))?;
        Ok(())
    }

    fn unpack(&mut self, member: impl Read) -> Result<Vec<u8>, Error> {
        let mut octets = Vec::new();
        member
            .take(self.octets + 1)
            .read_to_end(&mut octets)
            .map_err(|error| malformed(self.path, error))?;
        let left = self.octets.checked_sub(octets.len() as u64);
        self.octets =
            left.ok_or_else(|| self.exceeded(format!("{} MiB unpacked", MAX_UNPACKED >> 20)))?;
        Ok(octets)
    }

    fn exceeded(&self, limit: String) -> Error {
        Error::TooLarge { path: self.path.to_owned(), limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_share_one_limit_of_what_they_unpack_to() {
        let mut room = Room { path: "a.zip", octets: 10, members: 1 };
        assert_eq!(room.unpack([0; 6].as_slice()).unwrap().len(), 6);
        let error = room.unpack(std::io::repeat(0)).unwrap_err();
        assert_eq!(error.to_string(), "a.zip is too large: at most 512 MiB unpacked");
        assert_eq!(room.octets, 4);
        assert!(room.member().is_ok() && room.member().is_err());
    }
}
