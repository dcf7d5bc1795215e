//! From DS records or a trust anchor to the keys of a zone (RFC 4035 §5.2).

use avocet_wire::{NameBuf, Rtype};

use crate::algorithm::{Algorithm, KeyForm, Policy};
use crate::budget::{Budget, Limit, MAX_DNSKEYS, MAX_DS_RECORDS};
use crate::ds::{DigestType, Ds};
use crate::key::Dnskey;
use crate::memo::Memo;
use crate::rrset::{Context, Rrset};
use crate::verdict::Reason;
use crate::{label, signature};

/// The digest type that is passed over where there are better ones (RFC 4509 §3).
const SHA1: u8 = 1;

/// What the keys of a zone are trusted by. Either the data of verified DS records or what the
/// operator says.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// DS record data.
    pub ds: &'a [&'a [u8]],
    /// DNSKEY record data.
    pub dnskeys: &'a [&'a [u8]],
    /// How long it may be believed, in seconds; anchors last for ever (`u32::MAX`).
    pub lifetime_secs: u32,
}

/// A key of a zone that signatures may be verified with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ZoneKey {
    pub(crate) tag: u16,
    pub(crate) algorithm: Algorithm,
    /// Whether the zone says that it signs with it.
    pub(crate) is_zone_key: bool,
    pub(crate) public_key: Box<[u8]>,
}

impl ZoneKey {
    /// None for keys that are revoked, malformed, or of an algorithm or size that we do not verify.
    fn of(key: &Dnskey<'_>, policy: Policy) -> Option<Self> {
        Self::of_revoked(key, policy).filter(|_| !key.is_revoked())
    }

    /// A key that may be revoked: it still signs its own revocation (RFC 5011 §2.1).
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

/// The keys of a zone that an RRset is verified with.
#[derive(Clone, Copy)]
pub(crate) struct Signers<'a> {
    /// The apex.
    pub(crate) zone: &'a [u8],
    pub(crate) keys: &'a [ZoneKey],
    /// What they have verified; none for keys that are used once.
    pub(crate) memo: Option<&'a Memo>,
}

/// The keys of a zone that a chain of trust leads to. Kept by the caller for as long as it lives.
#[derive(PartialEq, Eq, Debug)]
pub struct ZoneKeys {
    zone: NameBuf,
    keys: Vec<ZoneKey>,
    /// Wall clock at which they were verified, and the seconds they live from there.
    verified_at_secs: u32,
    lifetime_secs: u32,
    /// What they have verified lately.
    memo: Memo,
}

impl ZoneKeys {
    /// The apex, folded.
    #[must_use]
    pub fn zone(&self) -> &NameBuf {
        &self.zone
    }

    pub(crate) fn signers(&self) -> Signers<'_> {
        Signers { zone: self.zone.wire(), keys: &self.keys, memo: Some(&self.memo) }
    }

    /// Seconds from `now_secs` (wall clock) on for which they may be believed.
    #[must_use]
    pub fn lifetime_secs(&self, now_secs: u32) -> u32 {
        let age_secs = now_secs.wrapping_sub(self.verified_at_secs).cast_signed().max(0);
        self.lifetime_secs.saturating_sub(age_secs.cast_unsigned())
    }

    /// The tags of the keys.
    pub fn tags(&self) -> impl Iterator<Item = u16> + '_ {
        self.keys.iter().map(|key| key.tag)
    }

    /// Octets of memory in use.
    #[must_use]
    pub fn memory_octets(&self) -> usize {
        let keys =
            self.keys.iter().map(|key| size_of::<ZoneKey>() + key.public_key.len()).sum::<usize>();
        size_of::<Self>() + keys + self.memo.octets()
    }
}

/// Whether any of these DS records can lead to keys that we verify with. If not, the zone is
/// insecure and need not be asked for its keys (RFC 4035 §5.2).
///
/// # Errors
/// [`Reason::UnsupportedAlgorithm`] or [`Reason::UnsupportedDigest`]; [`Reason::Malformed`] where
/// nothing is a DS record.
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

/// Verifies the DNSKEY RRset of a zone by what its keys are trusted by, and gives its keys.
///
/// # Errors
/// Insecure, where all that is trusted is of algorithms, digests or sizes that we do not verify;
/// bogus, where no key is what it should be or none has signed the RRset.
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
    let zone = NameBuf::from_wire(dnskeys.owner).map_err(|_| Reason::Malformed)?.folded();
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

/// A record that stands there twice must not count as a collision of tags.
fn distinct(keys: impl Iterator<Item = ZoneKey>) -> Vec<ZoneKey> {
    let mut out = Vec::new();
    for key in keys {
        if !out.contains(&key) {
            out.push(key);
        }
    }
    out
}

/// The keys that are trusted in themselves: those of the DS records and those the operator names.
///
/// # Errors
/// [`Reason::UnsupportedKeySize`] only if each of them leads to a key, and none to one of a size
/// that we verify with. Where one leads nowhere, its key may have been taken away (RFC 4035 §5.2).
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

/// Keys that DS records and anchors lead to.
struct Entries {
    keys: Vec<ZoneKey>,
    /// What is wrong where there is none. A fault of the zone says more than a lack of ours.
    fault: Option<Reason>,
}

impl Entries {
    /// Adds what one DS record or anchor leads to.
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
