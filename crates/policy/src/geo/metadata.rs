//! The metadata of a database, which follows the last metadata marker in the file.

use memchr::memmem;

use super::GeoError;
use super::tree::Layout;
use super::value::{DataSection, Steps};

const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";
/// Maximum distance of the marker from the end of the file, as the format specifies.
const MAX_METADATA: usize = 128 << 10;
/// Maximum number of octets of the database type that are kept.
const MAX_TYPE: usize = 64;
const VERSION: u64 = 2;

/// The required part of the metadata.
pub(super) struct Metadata {
    pub(super) layout: Layout,
    /// Whether the tree holds IPv6 addresses, including IPv4 addresses within them.
    pub(super) is_v6: bool,
    pub(super) database_type: String,
    pub(super) built_at_secs: u64,
}

impl Metadata {
    /// Reads the metadata, and returns it with the octets before it.
    ///
    /// # Errors
    /// The metadata is missing or incomplete.
    pub(super) fn find<'a>(
        octets: &'a [u8],
        steps: &mut Steps,
    ) -> Result<(&'a [u8], Self), GeoError> {
        let (_, end) = octets.split_at(octets.len().saturating_sub(MAX_METADATA));
        let marker = memmem::rfind(end, MARKER).ok_or(GeoError::NoMetadata)?;
        let before = &octets[..octets.len() - end.len() + marker];
        let section = DataSection(&end[marker + MARKER.len()..]);
        let keys = [
            "binary_format_major_version",
            "node_count",
            "record_size",
            "ip_version",
            "build_epoch",
            "database_type",
        ];
        let found = section.fields(0, keys, steps)?.ok_or(GeoError::NoMetadata)?;
        let mut numbers = [0; 5];
        for ((number, key), place) in numbers.iter_mut().zip(keys).zip(found) {
            let value = place.map_or(Ok(None), |place| section.number(place, steps))?;
            *number = value.ok_or(GeoError::Metadata(key))?;
        }
        let [version, nodes, record_bits, ip_version, built_at_secs] = numbers;
        if version != VERSION {
            return Err(GeoError::Metadata("binary_format_major_version"));
        }
        let database_type = found[5].map_or(Ok(None), |place| section.text(place, steps))?;
        let metadata = Self {
            layout: Layout {
                nodes: u32::try_from(nodes)
                    .ok()
                    .filter(|nodes| *nodes > 0)
                    .ok_or(GeoError::Metadata("node_count"))?,
                record_bits: match record_bits {
                    24 | 28 | 32 => record_bits as usize,
                    _ => return Err(GeoError::Metadata("record_size")),
                },
            },
            is_v6: match ip_version {
                4 => false,
                6 => true,
                _ => return Err(GeoError::Metadata("ip_version")),
            },
            database_type: printable(database_type.unwrap_or_default()),
            built_at_secs,
        };
        Ok((before, metadata))
    }

    /// Returns the number of octets of the search tree; `None` if no file can have that many.
    pub(super) fn tree_len(&self) -> Option<usize> {
        (self.layout.nodes as usize).checked_mul(self.layout.node_octets())
    }
}

/// Converts octets to a text that is safe to display anywhere.
fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(MAX_TYPE)]);
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
