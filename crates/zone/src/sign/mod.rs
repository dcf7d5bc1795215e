//! Signing of zones (RFC 4034, RFC 4035 §2, RFC 5155 §7.1): from the tree of an unsigned zone and
//! the version that was signed last to the tree of a signed one.
//!
//! ```text
//! source, keys --chain--> NSEC or NSEC3 of each name
//! source, last version --writer--> nodes with signatures, those kept that are still good --review
//! ```
//!
//! Only authoritative data is signed: neither the NS records of delegations nor names below them. A
//! signature is kept while its records and its key are the same and it is valid for longer than the
//! refresh time. Records for DNSSEC in the source are replaced, but DNSKEY records of other signers
//! remain (RFC 8901).

mod bitmap;
mod chain;
mod review;
pub mod timeline;
mod writer;

use std::sync::Arc;
use std::thread;

use avocet_dnssec::nsec3::Parameters;
use avocet_dnssec::signing::{KeyFault, SigningKey};
use avocet_dnssec::zonemd::DigestHash;
use avocet_wire::{FoldedName, NameBuf, Rtype};
use thiserror::Error;

use crate::fault::ZoneProblem;
use crate::serial::is_newer;
use crate::tree::{HostedSet, HostedZone, MAX_SET_OCTETS, MAX_SIGNABLE_OCTETS};

pub use review::{MAX_VERIFIED, ReviewFault, review};

/// The type CDS: DS records that the parent is asked to publish (RFC 7344).
pub const CDS: Rtype = Rtype(59);
/// The type CDNSKEY: keys for which the parent is asked to publish DS records (RFC 7344).
pub const CDNSKEY: Rtype = Rtype(60);
/// Time in seconds by which the validity of a signature begins before it is made, because the
/// clocks of validators differ.
pub const INCEPTION_SECS: u32 = 3_600;

/// The kind of proof of denial with which a zone is signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignedDenial {
    /// NSEC records.
    Nsec,
    /// NSEC3 records without salt and additional iterations (RFC 9276 §3.1).
    Nsec3,
    /// NSEC3 records, but none for delegations that are not signed (RFC 5155 §6).
    Nsec3OptOut,
}

/// The keys of a zone by their use, at one time.
#[derive(Clone, Default, Debug)]
pub struct ZoneSigners {
    /// The keys in the DNSKEY RRset.
    pub published: Vec<Arc<SigningKey>>,
    /// The keys that sign the DNSKEY, CDS and CDNSKEY RRsets.
    pub entry: Vec<Arc<SigningKey>>,
    /// The keys that sign everything else.
    pub zone: Vec<Arc<SigningKey>>,
    /// The keys for which the parent is asked to publish DS records.
    pub parent: Vec<Arc<SigningKey>>,
}

/// The times with which signatures are made and renewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignatureTimes {
    /// The current Unix time in seconds.
    pub now_secs: u64,
    /// The validity of new signatures in seconds.
    pub validity_secs: u32,
    /// Number of seconds of remaining validity below which a signature is replaced.
    pub refresh_secs: u32,
    /// The TTL of DNSKEY, CDS and CDNSKEY records in seconds.
    pub dnskey_ttl_secs: u32,
}

/// The parameters with which a zone is signed.
#[derive(Clone, Debug)]
pub struct Signing<'s> {
    /// The keys that sign the zone.
    pub signers: &'s ZoneSigners,
    /// The kind of proof of denial.
    pub denial: SignedDenial,
    /// The hash function for the ZONEMD record; `None` for a zone without that record.
    pub digest: Option<DigestHash>,
    /// The times with which signatures are made and renewed.
    pub times: SignatureTimes,
    /// The version that was signed last. Its signatures are used again.
    pub last: Option<&'s HostedZone>,
    /// The serial that was published last, even if that version no longer exists.
    pub last_serial: Option<u32>,
    /// The seed from which the different ends of signatures are computed.
    pub seed: u64,
    /// Number of threads that sign.
    pub threads: usize,
    /// A function that each signing thread calls when it starts.
    pub begin: fn(),
}

/// The result of signing.
#[derive(Debug)]
pub struct SignedZone {
    /// The signed zone.
    pub zone: HostedZone,
    /// Number of signatures that were made.
    pub made: u32,
    /// Number of signatures that were taken from the last version.
    pub kept: u32,
    /// The Unix time in seconds at which the first signature expires.
    pub expires_at_secs: u64,
    /// Whether the zone differs from the version that was signed last.
    pub is_changed: bool,
}

/// The reason why a zone cannot be signed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SignFault {
    /// The zone has no SOA record.
    #[error("the zone has no SOA record")]
    NoSoa,
    /// No key is available to sign the zone.
    #[error("no key of the zone is ready to sign")]
    NoKey,
    /// A key cannot sign.
    #[error("a key cannot sign: {0}")]
    Key(#[from] KeyFault),
    /// The signed zone does not fit into the 32-bit offsets of its tree.
    #[error("the signed zone takes more than 4 GiB of memory")]
    TooLarge,
    /// A name has too many types, or an RRset is too large.
    #[error(
        "a name has more than 255 types, or an RRset with signatures more than {max} octets",
        max = MAX_SET_OCTETS
    )]
    TooManyTypes,
    /// Two names have the same NSEC3 hash.
    #[error("two names have the same NSEC3 hash")]
    Collision,
}

impl HostedZone {
    /// Finds an RRset that is too large to be signed, and returns the problem. Because of one such
    /// RRset, the whole zone could not be published.
    #[must_use]
    pub fn unsignable_set(&self) -> Option<ZoneProblem> {
        let sets = self.iter().flat_map(|node| node.sets().map(move |set| (node.name(), set)));
        let mut long = sets.filter(|(_, set)| set.records.len() > MAX_SIGNABLE_OCTETS);
        let (owner, set) = long.next()?;
        let owner = NameBuf::from_wire(owner.wire()).unwrap_or(NameBuf::ROOT);
        Some(ZoneProblem::NoRoomToSign(set.rtype, owner))
    }
}

impl SignatureTimes {
    /// Returns the maximum number of seconds by which the validity of a signature is shortened, so
    /// that signatures do not all expire at the same time.
    pub(crate) const fn jitter_secs(&self) -> u32 {
        self.validity_secs.saturating_sub(self.refresh_secs) / 4
    }

    /// Returns the number of seconds for which a signature must still be valid to be used again.
    /// Signatures that are due a little later are replaced at the same time.
    pub(crate) fn needed_secs(&self) -> u32 {
        let batch = (self.validity_secs.saturating_sub(self.refresh_secs) / 8).min(3_600);
        self.refresh_secs + batch
    }

    fn now(&self) -> u32 {
        // Times in signatures wrap (RFC 4034 §3.1.5).
        self.now_secs as u32
    }
}

impl Signing<'_> {
    /// Signs a zone. The serial is that of the source, if it is newer than the last one. Otherwise
    /// it is the last one, plus one if any record changed.
    ///
    /// # Errors
    /// The zone or a key cannot be used.
    pub fn sign(&self, source: &HostedZone) -> Result<SignedZone, SignFault> {
        if self.signers.zone.is_empty() || self.signers.entry.is_empty() {
            return Err(SignFault::NoKey);
        }
        let soa = soa_of(source).ok_or(SignFault::NoSoa)?;
        let (minimum, ttl_secs) = (soa.minimum, soa.ttl_secs);
        let chain = chain::Chain::of(source, self, minimum.min(ttl_secs))?;
        let last = self.last_serial.or(self.last.map(HostedZone::serial));
        let serial = match last {
            Some(last) if !is_newer(soa.serial, last) => last,
            _ => soa.serial,
        };
        let known = self.last.filter(|last| last.serial() == serial).and_then(HostedZone::zonemd);
        let mut written = writer::write(source, &chain, self, &self.head(serial, known))?;
        let is_same = self.last.is_some_and(|last| {
            written.made == 0
                && last.serial() == serial
                && last.records == written.zone.records
                && last.names == written.zone.names
                && last.block == written.zone.block
                && self.digest_of(last).as_deref().is_none_or(|it| last.zonemd() == Some(it))
        });
        if is_same {
            return Ok(SignedZone { is_changed: false, ..written.into_signed(self) });
        }
        if last.is_some_and(|last| serial == last) {
            // The records differ, but the source has no newer serial.
            let head = self.head(serial.wrapping_add(1), None);
            let made = writer::rewrite_apex(&mut written, source, &chain, self, &head)?;
            written.add_made(made);
        }
        if let Some(zonemd) = self.digest_of(&written.zone) {
            let head = Head { serial: written.zone.serial(), zonemd: Some(zonemd) };
            writer::rewrite_apex(&mut written, source, &chain, self, &head)?;
        }
        Ok(written.into_signed(self))
    }

    /// Returns the records with which the apex is written before the digest is known. The digest is
    /// that of another version, or zeros of the same length (RFC 8976 §3.1).
    fn head(&self, serial: u32, known: Option<&[u8]>) -> Head {
        let zeros = |hash: DigestHash| hash.rdata(serial, &vec![0; hash.octets()]);
        let like =
            |zeros: &[u8], known: &[u8]| known.len() == zeros.len() && known[..6] == zeros[..6];
        let zonemd = self.digest.map(zeros).map(|zeros| match known {
            Some(known) if like(&zeros, known) => known.to_vec(),
            _ => zeros,
        });
        Head { serial, zonemd }
    }

    /// Computes the data of the ZONEMD record of a zone, if the zone gets one.
    fn digest_of(&self, zone: &HostedZone) -> Option<Vec<u8>> {
        let hash = self.digest?;
        let digest = in_thread(self.begin, || zone.zone_digest(hash));
        Some(hash.rdata(zone.serial(), &digest))
    }
}

/// Runs `work` in a new thread that calls `begin` first, and waits until it is done.
pub fn in_thread<T: Send>(begin: fn(), work: impl Fn() -> T + Sync) -> T {
    thread::scope(|scope| {
        let started = thread::Builder::new().name("sign".to_owned()).spawn_scoped(scope, || {
            begin();
            work()
        });
        match started {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // If no thread can be started, the calling thread does the work.
            Err(_) => work(),
        }
    })
}

/// The records of the apex that change with each version.
struct Head {
    serial: u32,
    /// The data of the ZONEMD record.
    zonemd: Option<Vec<u8>>,
}

/// The fields of an SOA record.
pub(crate) struct SoaFields {
    pub(crate) serial: u32,
    pub(crate) minimum: u32,
    pub(crate) ttl_secs: u32,
}

/// Reads the SOA record of a zone.
pub(crate) fn soa_of(zone: &HostedZone) -> Option<SoaFields> {
    let record = zone.node(zone.apex().wire())?.set(Rtype::SOA)?.iter().next()?;
    let numbers = record.rdata.last_chunk::<20>()?;
    let number = |at: usize| {
        u32::from_be_bytes([numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]])
    };
    Some(SoaFields { serial: number(0), minimum: number(16), ttl_secs: record.ttl_secs })
}

/// Computes the NSEC3 hash of a name with the parameters that this server uses.
pub(crate) fn hashes(name: FoldedName<'_>) -> [u8; 20] {
    Parameters { iterations: 0, salt: &[] }.of_own(name.wire())
}

/// Reports whether signing replaces records of this type in the source. ZONEMD is excluded: such
/// records are replaced only at the apex, because they have no meaning elsewhere (RFC 8976 §2).
pub(crate) fn is_replaced(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3 | Rtype::NSEC3PARAM | CDS | CDNSKEY)
}

/// Filters the RRsets of a source: drops those without records and those that signing replaces.
pub(crate) fn own_sets<'z>(
    sets: impl Iterator<Item = HostedSet<'z>>,
) -> impl Iterator<Item = HostedSet<'z>> {
    sets.filter(|set| set.count > 0 && !is_replaced(set.rtype))
}

impl HostedZone {
    /// Returns the highest TTL of the zone in seconds, including the TTL of negative answers.
    #[must_use]
    pub fn max_ttl_secs(&self) -> u32 {
        let sets = self.iter().flat_map(|node| node.sets());
        sets.flat_map(|set| set.iter()).map(|record| record.ttl_secs).max().unwrap_or(0)
    }
}
