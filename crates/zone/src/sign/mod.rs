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

/// CDS (RFC 7344).
pub const CDS: Rtype = Rtype(59);
/// CDNSKEY (RFC 7344).
pub const CDNSKEY: Rtype = Rtype(60);
/// Seconds before its creation from which a signature is valid: clocks of validators differ.
pub const INCEPTION_SECS: u32 = 3_600;

/// The proof of denial that a zone is signed with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignedDenial {
    /// NSEC.
    Nsec,
    /// NSEC3 without salt and additional iterations (RFC 9276 §3.1).
    Nsec3,
    /// NSEC3 without records for delegations that are not signed (RFC 5155 §6).
    Nsec3OptOut,
}

/// The keys of a zone at one time, and their use.
#[derive(Clone, Default, Debug)]
pub struct ZoneSigners {
    /// The keys in the DNSKEY RRset.
    pub published: Vec<Arc<SigningKey>>,
    /// The keys that sign the DNSKEY, CDS and CDNSKEY RRsets.
    pub entry: Vec<Arc<SigningKey>>,
    /// The keys that sign everything else.
    pub zone: Vec<Arc<SigningKey>>,
    /// The keys that the parent is asked to have DS records for.
    pub parent: Vec<Arc<SigningKey>>,
}

/// The times of signatures, in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignatureTimes {
    /// The present time, in seconds since 1970.
    pub now_secs: u64,
    /// The duration of validity of new signatures.
    pub validity_secs: u32,
    /// A signature with less than this remaining validity is replaced.
    pub refresh_secs: u32,
    /// The TTL of the records about keys.
    pub dnskey_ttl_secs: u32,
}

/// The parameters with which a zone is signed.
#[derive(Clone, Debug)]
pub struct Signing<'s> {
    /// The keys.
    pub signers: &'s ZoneSigners,
    /// The kind of proofs.
    pub denial: SignedDenial,
    /// The hash of the digest in the ZONEMD record; `None` for a zone without one.
    pub digest: Option<DigestHash>,
    /// The times.
    pub times: SignatureTimes,
    /// The version that was signed last.
    pub last: Option<&'s HostedZone>,
    /// The serial that was published last, even if that version no longer exists.
    pub last_serial: Option<u32>,
    /// Seed of the jitter.
    pub seed: u64,
    /// Threads that sign.
    pub threads: usize,
    /// The function that each signing thread calls at its start.
    pub begin: fn(),
}

/// The result of signing.
#[derive(Debug)]
pub struct SignedZone {
    /// The zone.
    pub zone: HostedZone,
    /// Signatures that were made.
    pub made: u32,
    /// Signatures that were kept.
    pub kept: u32,
    /// The earliest end of a signature, in seconds since 1970.
    pub expires_at_secs: u64,
    /// Whether the published version differs from the last published version.
    pub is_changed: bool,
}

/// The reason why a zone cannot be signed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SignFault {
    /// The zone has no SOA record.
    #[error("the zone has no SOA record")]
    NoSoa,
    /// No key signs the zone.
    #[error("no key of the zone is ready to sign")]
    NoKey,
    /// A key cannot sign.
    #[error("a key cannot sign: {0}")]
    Key(#[from] KeyFault),
    /// The signed zone is too large.
    #[error("the signed zone takes more than 4 GiB of memory")]
    TooLarge,
    /// A name has too many types, or an RRset is too large.
    #[error(
        "a name has more than 255 types, or an RRset with signatures more than {max} octets",
        max = MAX_SET_OCTETS
    )]
    TooManyTypes,
    /// Two names have the same hash.
    #[error("two names have the same NSEC3 hash")]
    Collision,
}

impl HostedZone {
    /// Returns the fault of an RRset that leaves no room for signatures. One such RRset would hold
    /// back the whole zone.
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
    /// Returns the maximum number of seconds by which a signature ends earlier, so that not all
    /// signatures are due at once.
    pub(crate) const fn jitter_secs(&self) -> u32 {
        self.validity_secs.saturating_sub(self.refresh_secs) / 4
    }

    /// Returns the seconds for which a kept signature must still be valid. Signatures that are due
    /// a little later are replaced at the same time.
    pub(crate) fn needed_secs(&self) -> u32 {
        let batch = (self.validity_secs.saturating_sub(self.refresh_secs) / 8).min(3_600);
        self.refresh_secs + batch
    }

    fn now(&self) -> u32 {
        // Times of signatures wrap (RFC 4034 §3.1.5).
        self.now_secs as u32
    }
}

impl Signing<'_> {
    /// Signs a zone. The result has the serial of the source if that is newer than the last serial.
    /// Otherwise it has the last serial plus one if anything else has changed.
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
            // The content differs and the source has no newer serial.
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

    /// Returns the head with which the apex is written before the digest is known: the data of
    /// another version, or zeros, which have the same length (RFC 8976 §3.1).
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

    /// Returns the data of the ZONEMD record of a zone, if the zone gets one.
    fn digest_of(&self, zone: &HostedZone) -> Option<Vec<u8>> {
        let hash = self.digest?;
        let digest = in_thread(self.begin, || zone.zone_digest(hash));
        Some(hash.rdata(zone.serial(), &digest))
    }
}

/// Runs work in a thread that calls `begin` first, and waits for its end.
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

/// The apex records that change with each version.
struct Head {
    serial: u32,
    /// The data of the ZONEMD record.
    zonemd: Option<Vec<u8>>,
}

/// The SOA record of a zone.
pub(crate) struct SoaFields {
    pub(crate) serial: u32,
    pub(crate) minimum: u32,
    pub(crate) ttl_secs: u32,
}

/// Returns the SOA record of a zone.
pub(crate) fn soa_of(zone: &HostedZone) -> Option<SoaFields> {
    let record = zone.node(zone.apex().wire())?.set(Rtype::SOA)?.iter().next()?;
    let numbers = record.rdata.last_chunk::<20>()?;
    let number = |at: usize| {
        u32::from_be_bytes([numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]])
    };
    Some(SoaFields { serial: number(0), minimum: number(16), ttl_secs: record.ttl_secs })
}

/// Returns the hash of a name with the parameters that zones are signed with.
pub(crate) fn hashes(name: FoldedName<'_>) -> [u8; 20] {
    Parameters { iterations: 0, salt: &[] }.of_own(name.wire())
}

/// Reports whether signing replaces records of this type that the source has. ZONEMD is not among
/// these types: its records are replaced at the apex alone, because elsewhere they mean nothing
/// (RFC 8976 §2).
pub(crate) fn is_replaced(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3 | Rtype::NSEC3PARAM | CDS | CDNSKEY)
}

/// Returns the sets of a source that are part of the signed zone.
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
