//! The version of a zone that is published: the source, with the records that this server adds, and
//! with a serial that distinguishes it from all versions that other servers may have.
//!
//! ```text
//! source newer than the last published version --> its serial
//! the same source in the same form --------------> the last serial
//! anything else ---------------------------------> the last serial + 1
//! ```
//! The configuration can turn signatures and digests on or off while the source stays the same. A
//! secondary with an equal serial assumes that the versions are equal, and applies the changes
//! since its serial (IXFR) to its copy. So two versions with different records never have the same
//! serial, and changes of the source are not sent (by IXFR) to servers with a serial that was
//! published in another form.

use std::io;
use std::path::Path;
use std::sync::Arc;

use avocet_config::zone::ZoneConfig;
use avocet_dnssec::zonemd::DigestHash;
use avocet_io::ownership;
use avocet_zone::sign::in_thread;
use avocet_zone::{HostedZone, ZoneVersion, is_newer};

use super::addresses::KnownAddresses;
use super::kept::KeptZone;
use super::lock;
use super::signing::KnownSigners;
use crate::clock::wall_secs;
use crate::disk;
use crate::zone_signing::{SigningError, UndigestedZone, is_small, yield_to_workers};

/// The first word of the file with the last publication.
const MAGIC: &str = "avocet-published-1";
/// Maximum number of octets of the file.
const MAX_OCTETS: u64 = 256;
/// The state of a signed zone without an earlier version whose ALIAS records are looked up.
const AWAITING_ADDRESSES: &str = "the addresses behind its ALIAS records are not known yet";

/// The form of a published zone: which records this server adds to the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ZoneForm {
    /// This server adds no records.
    Plain,
    /// This server adds signatures, proofs and keys, and optionally a digest.
    Signed,
    /// This server adds a digest.
    Digested(DigestHash),
    /// This server replaces ALIAS records by addresses, and changes nothing else. In the other
    /// forms, such addresses count as part of the source.
    Flattened,
}

/// The last published version. It is kept on disk while other servers may have a version that the
/// changes of the source do not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Publication {
    /// The serial of the last published version. If the source is published unchanged, changes from
    /// serials up to this one are withheld.
    serial: u32,
    /// The version of the source from which the published version was made.
    source: ZoneVersion,
    form: ZoneForm,
}

impl ZoneForm {
    const NAMES: [(Self, &'static str); 5] = [
        (Self::Plain, "plain"),
        (Self::Signed, "signed"),
        (Self::Digested(DigestHash::Sha384), "sha384"),
        (Self::Digested(DigestHash::Sha512), "sha512"),
        (Self::Flattened, "addresses"),
    ];

    fn of(config: &ZoneConfig, addresses: &KnownAddresses) -> Self {
        match (&config.signing, config.digest) {
            (Some(_), _) => Self::Signed,
            (None, Some(hash)) => Self::Digested(hash),
            (None, None) if addresses.are_used() => Self::Flattened,
            (None, None) => Self::Plain,
        }
    }

    fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(form, _)| *form == self).map_or("", |(_, name)| name)
    }
}

impl Publication {
    /// Returns the serial of the version to publish next.
    fn next_serial(&self, source: &HostedZone, form: ZoneForm) -> u32 {
        if is_newer(source.serial(), self.serial) {
            source.serial()
        } else if self.is_of(source, form) {
            self.serial
        } else {
            self.serial.wrapping_add(1)
        }
    }

    /// Returns whether this server signed the version.
    pub(super) fn is_signed(&self) -> bool {
        self.form == ZoneForm::Signed
    }

    fn is_of(&self, source: &HostedZone, form: ZoneForm) -> bool {
        self.form == form && self.source == source.version()
    }

    /// Returns whether this version of the source was published last.
    pub(super) fn is_made_from(&self, source: ZoneVersion) -> bool {
        self.source == source
    }

    fn text(&self) -> String {
        let Self { serial, source: ZoneVersion { serial: from, digest }, form } = self;
        format!("{MAGIC} {serial} {} {from} {digest:016x}\n", form.name())
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        words.next().filter(|word| *word == MAGIC)?;
        let serial = words.next()?.parse().ok()?;
        let form = words.next()?;
        let (form, _) = ZoneForm::NAMES.into_iter().find(|(_, name)| *name == form)?;
        let from = words.next()?.parse().ok()?;
        let digest = u64::from_str_radix(words.next()?, 16).ok()?;
        Some(Self { serial, source: ZoneVersion { serial: from, digest }, form })
    }

    /// Reads the last publication from its file; `None` if the source was always published
    /// unchanged.
    pub(super) fn kept_in(path: &Path) -> Option<Self> {
        let read = disk::read(path, MAX_OCTETS).and_then(|octets| {
            let damaged = || io::Error::from(io::ErrorKind::InvalidData);
            octets
                .map(|octets| {
                    let text = std::str::from_utf8(&octets).ok();
                    text.and_then(Self::read).ok_or_else(damaged)
                })
                .transpose()
        });
        read.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read {}", path.display());
            None
        })
    }
}

/// Writes or removes the file of a publication.
fn keep(path: &Path, publication: Option<&Publication>) -> io::Result<()> {
    let _permit = ownership::write()?;
    let Some(publication) = publication else {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    disk::replace(path, &[publication.text().as_bytes()])
}

impl KeptZone {
    /// Publishes the source in the configured form. Returns whether the version in force has
    /// changed.
    pub(super) fn sign(&mut self, signers: &KnownSigners) -> bool {
        let Some(source) = self.source.clone() else { return false };
        self.addresses.follow(&self.config, &source);
        if self.addresses.are_awaited() {
            return self.await_addresses(source, signers);
        }
        let made = self.addresses.flattened(source, wall_secs()).and_then(|source| {
            let zone = self.made(&source, signers)?;
            Ok((source, zone))
        });
        match made {
            Ok((source, zone)) => {
                self.note_ttls(&source);
                self.note_published(&source, &zone);
                zone.release_transfers();
                (self.zone, self.signing_fault) = (Some(zone), None);
                true
            }
            Err(error) => {
                tracing::error!("zone {}: {error}", self.config.id());
                self.signing_fault = Some(error.to_string());
                self.failures += 1;
                // After a start, the last signed version is served until the source can be signed.
                let kept = match (&self.zone, signers.of(&self.config)) {
                    (None, Some(signer)) => lock(&signer).kept_version(wall_secs()),
                    _ => None,
                };
                let is_kept = kept.is_some();
                self.zone = kept.or_else(|| self.zone.take());
                is_kept
            }
        }
    }

    /// Keeps the version in force until the addresses behind ALIAS records are known. After a start
    /// without such a version, an unsigned zone is answered as it is, and not transferred. Returns
    /// whether the version in force has changed.
    fn await_addresses(&mut self, source: Arc<HostedZone>, signers: &KnownSigners) -> bool {
        let is_kept = self.zone.is_some();
        if !is_kept {
            let signer = signers.of(&self.config);
            let is_signed = signer.is_some();
            self.zone = signer.and_then(|signer| lock(&signer).kept_version(wall_secs()));
            if !is_signed {
                source.hold_transfers();
                self.zone = Some(source);
            } else if self.zone.is_none() {
                self.signing_fault = Some(AWAITING_ADDRESSES.to_owned());
            }
        } else if let Some(zone) = &self.zone
            && !self.addresses.are_known()
            && zone.first_alias().is_some()
        {
            zone.hold_transfers();
        }
        !is_kept && self.zone.is_some()
    }

    /// Returns the version to serve, made from this source.
    fn made(
        &self,
        source: &Arc<HostedZone>,
        signers: &KnownSigners,
    ) -> Result<Arc<HostedZone>, SigningError> {
        let form = ZoneForm::of(&self.config, &self.addresses);
        let last = self.last_published(source, form);
        if let (Some(signer), Some(signing)) = (signers.of(&self.config), &self.config.signing) {
            let mut signer = lock(&signer);
            signer.follow(signing, self.config.digest);
            signer.follow_unsigned(self.unsigned.known());
            return signer.publish(source, last.map(|last| last.serial), wall_secs());
        }
        let serial = last.map_or(source.serial(), |last| last.next_serial(source, form));
        if form == ZoneForm::Plain && serial == source.serial() {
            return Ok(source.clone());
        }
        if last.is_some_and(|last| last.serial == serial && last.is_of(source, form))
            && let Some(zone) = self.zone.as_ref().filter(|zone| zone.serial() == serial)
            && !zone.holds_transfers()
        {
            return Ok(zone.clone());
        }
        let zone = match form {
            // Clients wait only for the first version. Threads that digest later versions of large
            // zones give way to the workers.
            ZoneForm::Digested(hash) if self.zone.is_some() && !is_small(source) => {
                in_thread(yield_to_workers, || digested(source, serial, hash))?
            }
            ZoneForm::Digested(hash) => digested(source, serial, hash)?,
            _ if self.is_fixed(source, last) => return Ok(source.clone()),
            _ => source.renumbered(serial, wall_secs()).map_err(SigningError::Renumbered)?,
        };
        // A version that was only used for answers, and not transferred, is on no other server.
        let before = self.zone.as_ref().filter(|zone| !zone.holds_transfers());
        let Some(before) = before else { return Ok(Arc::new(zone)) };
        let zone = zone.following(before, 0);
        // The new version has the changes of the previous version, including those that are
        // withheld from other servers.
        if let Some(serial) = before.withheld_from() {
            zone.withhold_changes_from(serial);
        }
        Ok(Arc::new(zone))
    }

    /// Returns the last version that other servers may have, if its serial matters for the next
    /// version.
    fn last_published(&self, source: &HostedZone, form: ZoneForm) -> Option<Publication> {
        // A source that was published unchanged, possibly before a restart, may also be on other
        // servers.
        let is_plain = self.publication.is_none_or(|last| last.form == ZoneForm::Plain);
        let may_be_elsewhere = self.publication.is_some()
            || form != ZoneForm::Plain && !self.config.allow_transfer.is_empty();
        let plain = (is_plain && may_be_elsewhere).then(|| {
            let zone = self.zone.as_deref().unwrap_or(source);
            Publication { serial: zone.serial(), source: zone.version(), form: ZoneForm::Plain }
        });
        match (self.publication, plain) {
            (Some(kept), Some(plain)) if is_newer(plain.serial, kept.serial) => Some(plain),
            (kept, plain) => kept.or(plain),
        }
    }

    /// Returns whether the serial of a source cannot be changed, because it is signed or digested
    /// elsewhere.
    fn is_fixed(&self, source: &HostedZone, last: Option<Publication>) -> bool {
        let is_fixed = source.is_signed() || source.zonemd().is_some();
        if is_fixed {
            tracing::warn!(
                serial = source.serial(),
                "zone {}: other servers may have a version with serial {}, and will not take this \
                 one: raise its serial",
                self.config.id(),
                last.map_or(0, |last| last.serial)
            );
        }
        is_fixed
    }

    /// Writes to disk the facts about this version that the next version depends on.
    fn note_published(&mut self, source: &Arc<HostedZone>, zone: &Arc<HostedZone>) {
        let form = ZoneForm::of(&self.config, &self.addresses);
        let next = if form == ZoneForm::Plain && Arc::ptr_eq(source, zone) {
            let kept = self.publication.filter(|last| {
                let is_needed = source.withhold_changes_from(last.serial);
                is_needed || !is_newer(source.serial(), last.serial)
            });
            let is_noted = kept.is_none_or(|last| last.form == ZoneForm::Plain);
            kept.map(|last| match is_noted {
                true => last,
                false => Publication { source: source.version(), form, ..last },
            })
        } else {
            Some(Publication { serial: zone.serial(), source: source.version(), form })
        };
        if next == self.publication {
            return;
        }
        self.publication = next;
        self.keep_publication();
    }

    /// Writes the file about the last published version again, if an earlier attempt failed.
    pub(super) fn retry_publication(&mut self) {
        if self.publication_fault.is_some() {
            self.keep_publication();
        }
    }

    fn keep_publication(&mut self) {
        let path = self.config.published_file();
        let fault = keep(&path, self.publication.as_ref()).err().map(|error| {
            let (name, file) = (self.config.id(), path.display());
            format!("zone {name}: cannot keep its last serial in {file}: {error}")
        });
        if let Some(fault) = fault.as_ref().filter(|_| fault != self.publication_fault) {
            tracing::error!("{fault}");
        }
        self.publication_fault = fault;
    }
}

/// Returns the source with this serial and a ZONEMD record.
fn digested(
    source: &HostedZone,
    serial: u32,
    hash: DigestHash,
) -> Result<HostedZone, SigningError> {
    if source.is_signed() {
        return Err(SigningError::Digest(UndigestedZone::SignedElsewhere));
    }
    let zone = source.digested(serial, hash, wall_secs());
    zone.map_err(|fault| SigningError::Digest(UndigestedZone::Unsound(fault)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publication_is_read_as_it_was_written_and_damage_is_noticed() {
        let source = ZoneVersion { serial: 4_000_000_000, digest: 0x0123_4567_89ab_cdef };
        for (form, _) in ZoneForm::NAMES {
            let publication = Publication { serial: 7, source, form };
            assert_eq!(Publication::read(&publication.text()), Some(publication));
        }
        for text in ["", "avocet-published-1 7 plain 1", "other 7 plain 1 0", "\0\0"] {
            assert_eq!(Publication::read(text), None, "{text}");
        }
    }
}
