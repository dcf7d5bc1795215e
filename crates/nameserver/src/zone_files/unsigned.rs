//! The TTLs of versions that were published without signatures of this server, and of the answers
//! of their pools. If the zone is signed later, the parent is asked for a DS record only when no
//! cache has these versions and answers.
//!
//! The TTLs are kept on disk after a TTL was lowered, and after signing was turned off.

use std::io;
use std::path::Path;

use avocet_config::signing::MAX_PROPAGATION_SECS;
use avocet_io::ownership;
use avocet_zone::HostedZone;
use avocet_zone::sign::timeline::HeldTtl;

use super::kept::KeptZone;
use crate::clock::wall_secs;
use crate::disk;

/// The first word of the file.
const MAGIC: &str = "avocet-ttls-1";
/// Maximum number of octets of the file.
const MAX_OCTETS: u64 = 256;

/// The TTLs of versions without signatures that caches may hold.
#[derive(Clone, Default)]
pub(super) struct UnsignedTtl {
    ttl: HeldTtl,
    /// Whether the file has these TTLs.
    is_kept: bool,
}

impl UnsignedTtl {
    /// Reads the TTLs from before a restart, if they were kept.
    pub(super) fn kept_in(path: &Path) -> Self {
        let read = disk::read(path, MAX_OCTETS).and_then(|octets| {
            let damaged = || io::Error::from(io::ErrorKind::InvalidData);
            let Some(octets) = octets else { return Ok(Self::default()) };
            let ttl = std::str::from_utf8(&octets).ok().and_then(read_ttl).ok_or_else(damaged)?;
            Ok(Self { ttl, is_kept: true })
        });
        read.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read {}", path.display());
            Self::default()
        })
    }

    /// Returns the TTLs; `None` if no version was published without signatures since the last
    /// signed one.
    pub(super) fn known(&self) -> Option<HeldTtl> {
        (self.ttl != HeldTtl::default()).then_some(self.ttl)
    }

    fn keep(&mut self, path: &Path) {
        let make = || path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let text = text_of(&self.ttl);
        let written = make().and_then(|()| disk::replace(path, &[text.as_bytes()]));
        self.is_kept = written.is_ok();
        if let Err(error) = written {
            tracing::error!(%error, "cannot keep the TTLs of a zone in {}", path.display());
        }
    }

    /// Forgets the TTLs after the state of a signer has taken them over.
    fn forget(&mut self, path: &Path) {
        *self = Self::default();
        let removed = ownership::write().and_then(|_permit| std::fs::remove_file(path));
        if let Err(error) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::error!(%error, "cannot delete {}", path.display());
        }
    }
}

impl KeptZone {
    /// Records the TTLs of the version that is published now. Must be called before the
    /// publication is noted.
    pub(super) fn note_ttls(&mut self, source: &HostedZone) {
        let path = self.config.ttls_file();
        if self.config.signing.is_some() {
            return self.unsigned.forget(&path);
        }
        let was_signed = self.publication.is_some_and(|last| last.is_signed());
        let before = self.unsigned.ttl;
        let ttl = &mut self.unsigned.ttl;
        // Which `propagation-secs` the zone will have is not known yet.
        let ttl_secs = source.max_ttl_secs().max(self.config.pools_ttl_secs);
        ttl.note(ttl_secs, MAX_PROPAGATION_SECS, wall_secs());
        let is_lowered = ttl.before_secs > 0;
        let is_noted = self.unsigned.is_kept && *ttl == before;
        if (was_signed || is_lowered || self.unsigned.is_kept) && !is_noted {
            self.unsigned.keep(&path);
        }
    }
}

fn text_of(ttl: &HeldTtl) -> String {
    let HeldTtl { secs, before_secs, since_secs } = ttl;
    format!("{MAGIC} {secs} {before_secs} {since_secs}\n")
}

fn read_ttl(text: &str) -> Option<HeldTtl> {
    let mut words = text.strip_suffix('\n')?.split(' ');
    words.next().filter(|word| *word == MAGIC)?;
    let secs = words.next()?.parse().ok()?;
    let before_secs = words.next()?.parse().ok()?;
    let since_secs = words.next()?.parse().ok()?;
    Some(HeldTtl { secs, before_secs, since_secs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_it_was_written_and_damage_is_noticed() {
        let ttl = HeldTtl { secs: 60, before_secs: u32::MAX, since_secs: 1_800_000_000 };
        assert_eq!(read_ttl(&text_of(&ttl)), Some(ttl));
        for text in ["", "avocet-ttls-1 60 300\n", "avocet-ttls-1 60 300 18", "other 1 2 3\n"] {
            assert_eq!(read_ttl(text), None, "{text}");
        }
    }
}
