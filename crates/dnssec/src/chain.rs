//! The chain of trust: from a trust anchor to the keys of a zone (RFC 4035 §5.2).
//!
//! Data is secure if signatures connect it to a trust anchor that the operator configured. The
//! connection is a chain with one link per zone cut. Each link has two parts: the parent zone signs
//! a DS RRset, which contains digests of keys of the child zone; the child zone signs its own
//! DNSKEY RRset with one of these keys.
//!
//! ```text
//! anchor of the root
//!   |
//!   v
//! DNSKEY .  --verifies-->  DS example.
//!                            |  digest of an entry key
//!                            v
//!                          DNSKEY example.  --verifies-->  A www.example.
//! ```
//!
//! # One link
//!
//! [`zone_keys`] checks one link. Its input is the child's DNSKEY RRset and a [`Trust`]: the data
//! by which keys of this RRset are trusted, either DS records that the parent's keys verified, or
//! trust anchors. It proceeds in three steps.
//!
//! 1. It selects the usable DS records. A DS record counts if its algorithm and its digest type are
//!    supported. SHA-1 digests count only if there are no others (RFC 4509 §3).
//! 2. It finds the *entry keys*: the keys in the RRset that match a usable DS record or an anchor.
//! 3. It verifies the DNSKEY RRset with the entry keys. Then the RRset is authentic, and every
//!    supported key in it, unless revoked, may sign data of the zone.
//!
//! The result, [`ZoneKeys`], verifies the zone's RRsets ([`crate::signature::verify`]) and its
//! denials ([`crate::denial::Proof`]), including the DS RRset that starts the next link, or the
//! proof that there is none.
//!
//! # Where a chain ends
//!
//! A chain that does not reach the data ends in one of three ways. The distinction between the
//! first two protects against downgrades:
//!
//! - *Insecure*: the zone above proves that the delegation has no DS records, or each DS record
//!   refers to an algorithm, digest or key size that is not supported. The zone is then treated as
//!   unsigned.
//! - *Bogus*: the DS records refer to supported keys, but none of these is in the RRset, or none
//!   has signed it. The data must not be used.
//! - *Indeterminate*: no trust anchor covers the name.
//!
//! An attacker on the path can remove keys and signatures but cannot forge a DS RRset. Therefore a
//! missing key never makes a zone insecure. In particular, unsupported key sizes make a zone
//! insecure only if every DS record matches a key in the RRset and all of these keys have
//! unsupported sizes. Otherwise an attacker might have removed a supported key.
//!
//! # Lifetime
//!
//! A chain is valid for the shortest lifetime of its parts. [`ZoneKeys::lifetime_secs`] covers the
//! TTL and the signatures of the DNSKEY RRset as well as the lifetime of the [`Trust`]. The caller
//! may keep the keys of a zone for this time, and start the next chain at the deepest zone whose
//! keys it has.
//!
//! # Bounds
//!
//! All input comes from servers that may be hostile. The number of DS records, keys and colliding
//! key tags is limited, and each signature check is deducted from the [`Budget`] of the client
//! query.

use avocet_wire::{FoldedNameBuf, NameBuf, Rtype};

use crate::algorithm::{Algorithm, KeyForm, Policy};
use crate::budget::{Budget, Limit, MAX_DNSKEYS, MAX_DS_RECORDS};
use crate::ds::{DigestType, Ds};
use crate::key::Dnskey;
use crate::memo::Memo;
use crate::rrset::{Context, Rrset};
use crate::verdict::Reason;
use crate::{label, signature};

/// The digest type that is ignored if there are other digest types (RFC 4509 §3).
const SHA1: u8 = 1;

/// The data by which keys of a zone are trusted: verified DS records, or trust anchors.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// DS record data.
    pub ds: &'a [&'a [u8]],
    /// DNSKEY record data.
    pub dnskeys: &'a [&'a [u8]],
    /// Lifetime of the trust in seconds, `u32::MAX` for anchors.
    pub lifetime_secs: u32,
}

/// A key of a zone, usable to verify signatures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ZoneKey {
    pub(crate) tag: u16,
    pub(crate) algorithm: Algorithm,
    /// Whether the key has the Zone Key flag, without which it must not sign data.
    pub(crate) is_zone_key: bool,
    pub(crate) public_key: Box<[u8]>,
}

impl ZoneKey {
    /// Returns a usable key; `None` for keys that are revoked, malformed, or of an unsupported
    /// algorithm or size.
    fn of(key: &Dnskey<'_>, policy: Policy) -> Option<Self> {
        Self::of_revoked(key, policy).filter(|_| !key.is_revoked())
    }

    /// Returns a usable key like [`Self::of`], but accepts revoked keys: a revoked key signs its
    /// own revocation (RFC 5011 §2.1).
    pub(crate) fn of_revoked(key: &Dnskey<'_>, policy: Policy) -> Option<Self> {
        let algorithm = policy.algorithm(key.algorithm)?;
        if algorithm.form_of(key.public_key) != KeyForm::Usable {
            return None;
        }
        Some(Self {
            tag: key.tag(),
            algorithm,
            is_zone_key: key.is_zone_key(),
            public_key: key.public_key.into(),
        })
    }
}

/// Keys of a zone with which to verify an RRset.
#[derive(Clone, Copy)]
pub(crate) struct Signers<'a> {
    /// The apex.
    pub(crate) zone: &'a [u8],
    pub(crate) keys: &'a [ZoneKey],
    /// Signatures that the keys verified recently. `None` for keys that are used once.
    pub(crate) memo: Option<&'a Memo>,
}

/// The verified keys of a zone. The caller keeps them for at most their lifetime.
#[derive(PartialEq, Eq, Debug)]
pub struct ZoneKeys {
    zone: FoldedNameBuf,
    keys: Vec<ZoneKey>,
    /// Wall clock at which the keys were verified. Their lifetime starts then.
    verified_at_secs: u32,
    lifetime_secs: u32,
    /// Signatures that the keys verified recently.
    memo: Memo,
}

impl ZoneKeys {
    /// Returns keys that the caller trusts without a DNSKEY RRset, such as the keys of a signer
    /// that are not published yet. Returns `None` if `zone` is not a name. Keys that cannot be used
    /// are left out.
    #[must_use]
    pub fn trusted(zone: &[u8], dnskeys: &[&[u8]], context: &Context) -> Option<Self> {
        let keys = dnskeys.iter().filter_map(|data| Dnskey::read(data));
        Some(Self {
            zone: FoldedNameBuf::from_wire(zone).ok()?,
            keys: distinct(keys.filter_map(|key| ZoneKey::of(&key, context.policy))),
            verified_at_secs: context.now_secs,
            lifetime_secs: u32::MAX,
            memo: Memo::default(),
        })
    }

    /// Returns the apex.
    #[must_use]
    pub fn zone(&self) -> &FoldedNameBuf {
        &self.zone
    }

    pub(crate) fn signers(&self) -> Signers<'_> {
        Signers { zone: self.zone.wire(), keys: &self.keys, memo: Some(&self.memo) }
    }

    /// Returns the remaining lifetime in seconds from `now_secs` (wall clock).
    #[must_use]
    pub fn lifetime_secs(&self, now_secs: u32) -> u32 {
        let age_secs = now_secs.wrapping_sub(self.verified_at_secs).cast_signed().max(0);
        self.lifetime_secs.saturating_sub(age_secs.cast_unsigned())
    }

    /// Returns the tags of the keys.
    pub fn tags(&self) -> impl Iterator<Item = u16> + '_ {
        self.keys.iter().map(|key| key.tag)
    }

    /// Returns the memory in use, in octets.
    #[must_use]
    pub fn memory_octets(&self) -> usize {
        let keys =
            self.keys.iter().map(|key| size_of::<ZoneKey>() + key.public_key.len()).sum::<usize>();
        size_of::<Self>() + keys + self.memo.octets()
    }
}

/// Checks whether any of the DS records can lead to a supported key. If not, the zone is insecure
/// and its keys need not be queried (RFC 4035 §5.2).
///
/// # Errors
/// [`Reason::UnsupportedAlgorithm`] or [`Reason::UnsupportedDigest`]. [`Reason::Malformed`] if none
/// of the data is a DS record.
pub fn check_ds(ds: &[&[u8]], policy: Policy) -> Result<(), Reason> {
    usable_ds(ds, policy).map(drop)
}

fn usable_ds<'a>(ds: &[&'a [u8]], policy: Policy) -> Result<Vec<Ds<'a>>, Reason> {
    let mut fault = Reason::Malformed;
    let mut usable = Vec::new();
    for ds in ds.iter().filter_map(|data| Ds::read(data)) {
        if policy.algorithm(ds.algorithm).is_none() {
            fault = Reason::UnsupportedAlgorithm;
        } else if DigestType::from_number(ds.digest_type).is_some() {
            usable.push(ds);
        } else if fault == Reason::Malformed {
            fault = Reason::UnsupportedDigest;
        }
    }
    if usable.is_empty() {
        return Err(fault);
    }
    if usable.iter().any(|ds| ds.digest_type != SHA1) {
        usable.retain(|ds| ds.digest_type != SHA1);
    }
    Ok(usable)
}

/// Verifies the DNSKEY RRset of a zone, whose keys are trusted because of `trust`, and returns the
/// zone's keys.
///
/// # Errors
/// An insecure reason if all DS records and anchors refer to an unsupported algorithm, digest or
/// key size. A bogus reason if no key matches them, or no matching key has signed the RRset.
pub fn zone_keys(
    dnskeys: &Rrset<'_>,
    trust: &Trust<'_>,
    context: &Context,
    budget: &mut Budget,
) -> Result<ZoneKeys, Reason> {
    if dnskeys.rtype != Rtype::DNSKEY || !label::is_name(dnskeys.owner) {
        return Err(Reason::Malformed);
    }
    if dnskeys.records.len() > MAX_DNSKEYS as usize {
        return Err(budget.reach(Limit::Dnskeys));
    }
    let zone = FoldedNameBuf::from_wire(dnskeys.owner).map_err(|_| Reason::Malformed)?;
    let all: Vec<Dnskey<'_>> =
        dnskeys.records.iter().filter_map(|data| Dnskey::read(data)).collect();
    let entry = entry_keys(&zone, &all, trust, context.policy, budget)?;
    let verified = signature::verify_with(
        dnskeys,
        &Signers { zone: zone.wire(), keys: &entry, memo: None },
        context,
        budget,
    )?;
    Ok(ZoneKeys {
        zone,
        keys: distinct(all.iter().filter_map(|key| ZoneKey::of(key, context.policy))),
        verified_at_secs: context.now_secs,
        lifetime_secs: verified.lifetime_secs.min(trust.lifetime_secs),
        memo: Memo::default(),
    })
}

/// Removes duplicates: a repeated key must not count as a collision of key tags.
fn distinct(keys: impl Iterator<Item = ZoneKey>) -> Vec<ZoneKey> {
    let mut out = Vec::new();
    for key in keys {
        if !out.contains(&key) {
            out.push(key);
        }
    }
    out
}

/// Returns the entry keys: the keys that match a DS record or a trust anchor.
///
/// # Errors
/// [`Reason::UnsupportedKeySize`] only if each DS record and anchor matches a key, and all these
/// keys have unsupported sizes. If a DS record or anchor matches no key, an attacker may have
/// removed the key (RFC 4035 §5.2).
fn entry_keys(
    zone: &NameBuf,
    keys: &[Dnskey<'_>],
    trust: &Trust<'_>,
    policy: Policy,
    budget: &mut Budget,
) -> Result<Vec<ZoneKey>, Reason> {
    let anchored: Vec<Dnskey<'_>> =
        trust.dnskeys.iter().filter_map(|data| Dnskey::read(data)).collect();
    let ds = match usable_ds(trust.ds, policy) {
        Ok(ds) => ds,
        Err(_) if anchored.iter().any(|key| policy.algorithm(key.algorithm).is_some()) => {
            Vec::new()
        }
        Err(Reason::Malformed) if !anchored.is_empty() => return Err(Reason::UnsupportedAlgorithm),
        Err(fault) => return Err(fault),
    };
    let mut entries = Entries { keys: Vec::new(), fault: None };
    for (at, ds) in ds.iter().enumerate() {
        if at >= MAX_DS_RECORDS as usize {
            entries.fault = Some(budget.reach(Limit::DsRecords));
            break;
        }
        entries.add(keys.iter().filter(|key| ds.is_of(zone, key)), policy);
    }
    for anchor in anchored.iter().filter(|anchor| policy.algorithm(anchor.algorithm).is_some()) {
        entries.add(keys.iter().filter(|key| anchor.rdata == key.rdata), policy);
    }
    if entries.keys.is_empty() {
        return Err(entries.fault.unwrap_or(Reason::DnskeyMissing));
    }
    Ok(distinct(entries.keys.into_iter()))
}

/// The entry keys that were found.
struct Entries {
    keys: Vec<ZoneKey>,
    /// The reason why no entry key was found. A fault of the zone takes precedence over an
    /// unsupported algorithm or key size.
    fault: Option<Reason>,
}

impl Entries {
    /// Adds the keys that match one DS record or anchor.
    fn add<'a>(&mut self, found: impl Iterator<Item = &'a Dnskey<'a>>, policy: Policy) {
        let mut found = found.peekable();
        if found.peek().is_none() {
            self.note(Reason::DnskeyMissing);
        }
        for key in found {
            let form =
                || policy.algorithm(key.algorithm).map(|known| known.form_of(key.public_key));
            if !key.is_zone_key() {
                self.note(Reason::NotZoneKey);
            } else if let Some(key) = ZoneKey::of(key, policy) {
                self.keys.push(key);
            } else if form() == Some(KeyForm::UnsupportedSize) && !key.is_revoked() {
                self.note(Reason::UnsupportedKeySize);
            } else {
                self.note(Reason::DnskeyMissing);
            }
        }
    }

    fn note(&mut self, fault: Reason) {
        let is_graver = match self.fault {
            None | Some(Reason::UnsupportedKeySize) => true,
            Some(Reason::DnskeyMissing) => fault == Reason::NotZoneKey,
            Some(_) => false,
        };
        if is_graver {
            self.fault = Some(fault);
        }
    }
}
