//! The RRset cache: what servers said about names, each set with its security status and the
//! rank of where it came from (RFC 2181 §5.4.1), and what they said does not exist (RFC 2308,
//! RFC 8020). It knows nothing of clients and policy.
//!
//! A positive set and a NODATA lie at (owner, type, class); an NXDOMAIN at (owner, type 0, class),
//! which answers for all names below too. A CNAME is found by asking for the owner's CNAME. How
//! the entries are laid out in bytes is said in [`view`].

mod view;

#[cfg(test)]
mod tests;

use avocet_wire::hash::HashKey;

pub use self::view::{NegativeView, Rdatas, RrsetView};
use crate::{
    lengths::{self, LengthsSeen},
    name,
    store::{BudgetTooSmall, EntryParts, Found, Inserted, Meta, Store, StoreConfig, StoreStats},
};

/// The type under which an NXDOMAIN lies: reserved, so that no query asks for it (RFC 6895 §3.1).
const NXDOMAIN_TYPE: u16 = 0;
/// DNAME (RFC 6672), which is looked for at every name above.
const DNAME_TYPE: u16 = 39;
/// A TTL with the top bit set is none (RFC 2181 §8).
const MAX_WIRE_TTL: u32 = i32::MAX as u32;
/// What an address RRset takes in the rings.
const MEAN_ENTRY_BYTES: usize = 72;

/// Where an RRset lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RrsetKey<'a> {
    /// The owner: folded, uncompressed wire form.
    pub owner: &'a [u8],
    /// The RR type.
    pub rtype: u16,
    /// The class.
    pub class: u16,
}

/// What DNSSEC says of data (RFC 4035 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Not validated: validation is off, or has yet to be done.
    Unchecked = 0,
    /// No chain of trust leads there, and it cannot be said whether one should.
    Indeterminate = 1,
    /// Proven to be outside of all chains of trust.
    Insecure = 2,
    /// A chain of trust should lead there and does not.
    Bogus = 3,
    /// Validated.
    Secure = 4,
}

/// What the validator would have needed to support, so that data that is signed would not count as
/// insecure (RFC 4035 §5.2, RFC 9276 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// The algorithm or the size of all keys.
    Algorithm = 1,
    /// The digest of all DS records.
    Digest = 2,
    /// As many iterations of NSEC3.
    Iterations = 3,
}

/// How much data is to be trusted by where it came from, least first (RFC 2181 §5.4.1; what comes
/// from zones of our own is in no cache).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Additional section, or authority section of an answer without AA: referrals and glue.
    Additional = 0,
    /// Answer section of an answer without AA, or data in an AA answer that is not authoritative,
    /// such as what follows a CNAME.
    NonAuthoritativeAnswer = 1,
    /// Authority section of an AA answer.
    AuthoritativeAuthority = 2,
    /// Answer section of an AA answer; and the denial that stands for one.
    AuthoritativeAnswer = 3,
}

/// Where data came from and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// What validation said.
    pub security: Security,
    /// Why it said that what is signed is insecure, if it was for want of support.
    pub unsupported: Option<Unsupported>,
    /// Where in which answer it was.
    pub rank: Rank,
    /// It was asked for with DO, so that signatures and proofs that are absent do not exist.
    pub asked_with_do: bool,
    /// It was asked for with CD, so that an upstream may not have validated it.
    pub asked_with_cd: bool,
}

/// An RRset to be stored.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedRrset<'a> {
    /// Where it came from.
    pub provenance: Provenance,
    /// Seconds, as received or as limited by the signatures; the cache clamps it.
    pub ttl: u32,
    /// RDATA in uncompressed wire form.
    pub records: &'a [&'a [u8]],
    /// RDATA of the RRSIG records that cover the set.
    pub signatures: &'a [&'a [u8]],
}

/// What does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegativeKind {
    /// The owner has no records of the type.
    Nodata,
    /// The owner does not exist, nor does anything below it.
    Nxdomain,
}

/// A record that a negative answer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegativeRecord<'a> {
    /// Uncompressed wire form, at most 255 octets.
    pub owner: &'a [u8],
    /// The RR type.
    pub rtype: u16,
    /// RDATA in uncompressed wire form.
    pub rdata: &'a [u8],
}

/// A negative answer to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Negative<'a> {
    /// NODATA or NXDOMAIN.
    pub kind: NegativeKind,
    /// Where it came from.
    pub provenance: Provenance,
    /// The zone's SOA record.
    pub soa: NegativeRecord<'a>,
    /// TTL of the SOA record in seconds; the entry lives for the lesser of it and the record's
    /// MINIMUM field (RFC 2308 §5), clamped.
    pub soa_ttl: u32,
    /// NSEC, NSEC3 and RRSIG records of the proof; empty if there is none.
    pub proof: &'a [NegativeRecord<'a>],
}

/// Limits on TTLs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlBounds {
    /// Nothing positive is kept for less.
    pub min: u32,
    /// Nothing is kept for more.
    pub max: u32,
    /// Nothing negative is kept for less.
    pub negative_min: u32,
    /// Nothing negative is kept for more (RFC 2308 §5: one to three hours).
    pub negative_max: u32,
}

impl TtlBounds {
    /// What is negative lives for so long whose SOA record says `ttl_secs`.
    #[must_use]
    pub fn negative(&self, ttl_secs: u32) -> u32 {
        ttl_secs.max(self.negative_min).min(self.negative_max).min(self.max)
    }
}

/// When a look-up takes place and what it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAt {
    /// Seconds of the caller's clock.
    pub now: u32,
    /// Seconds past its TTL up to which data is still wanted (RFC 8767); zero for none.
    pub stale_window: u32,
}

/// Whether data is within its TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It is.
    Fresh {
        /// Seconds left; at least one.
        remaining_secs: u32,
    },
    /// It was.
    Stale {
        /// Seconds since then.
        since_secs: u32,
    },
}

/// What lies at a key; the data is in the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub enum Cached<'a> {
    /// Records.
    Rrset(RrsetView<'a>),
    /// No records of this type.
    Nodata(NegativeView<'a>),
}

/// What lies in the cache, as [`RrsetCache::try_visit`] shows it.
#[derive(Clone, Copy, Debug)]
pub enum Held<'a> {
    /// Records.
    Rrset(RrsetView<'a>),
    /// What does not exist: no records of the type, or neither the name nor any below it.
    Negative(NegativeKind, NegativeView<'a>),
}

/// Leaves the fourteen bits of a slot's tag, which are the hash's from this one on.
const TAG_BITS_AT: u32 = 32;
const TYPE_SHIFT: u32 = 50;

/// See the module.
pub struct RrsetCache {
    store: Store,
    bounds: TtlBounds,
    hash_key: HashKey,
    /// Lengths of the owners of all DNAMEs and of all denied names there ever were.
    dnames: LengthsSeen,
    denied: LengthsSeen,
}

impl RrsetCache {
    /// A cache of at most `bytes` that keeps data `keep_secs` past its TTL for stale reading.
    /// `hash_key` must be random: names are chosen by strangers.
    pub fn new(
        bytes: usize,
        keep_secs: u32,
        bounds: TtlBounds,
        hash_key: [u8; 16],
    ) -> Result<RrsetCache, BudgetTooSmall> {
        let config = StoreConfig { bytes, mean_entry_bytes: MEAN_ENTRY_BYTES, keep_secs };
        let store = Store::new(config)?;
        let hash_key = lengths::hash_key(hash_key);
        Ok(RrsetCache {
            store,
            bounds,
            hash_key,
            dnames: LengthsSeen::default(),
            denied: LengthsSeen::default(),
        })
    }

    /// Stores an RRset, unless one of higher rank, or a validated one where this is not, is there
    /// and within its TTL. One whose TTL is zero after clamping is not kept.
    pub fn insert(&self, key: &RrsetKey<'_>, rrset: &ReceivedRrset<'_>, now: u32) -> Inserted {
        let ttl = self.clamp(rrset.ttl, rrset.provenance.security);
        let Some(body) = view::encode_rrset(key, rrset) else {
            return Inserted::Refused;
        };
        self.store_body(key, &body, &rrset.provenance, Meta { valid_for: ttl, ..body.meta(now) })
    }

    /// Stores a negative answer under the same rule; a NODATA at the key, an NXDOMAIN at its owner
    /// and class.
    pub fn insert_negative(
        &self,
        key: &RrsetKey<'_>,
        negative: &Negative<'_>,
        now: u32,
    ) -> Inserted {
        let key = match negative.kind {
            NegativeKind::Nodata => *key,
            NegativeKind::Nxdomain => RrsetKey { rtype: NXDOMAIN_TYPE, ..*key },
        };
        let Some(minimum) = negative.soa.rdata.last_chunk() else {
            return Inserted::Refused;
        };
        let minimum = u32::from_be_bytes(*minimum);
        let ttl = valid_wire_ttl(negative.soa_ttl).min(valid_wire_ttl(minimum));
        let bounds = self.bounds_of(negative.provenance.security);
        let ttl = bounds.negative(ttl);
        let Some(body) = view::encode_negative(&key, negative) else {
            return Inserted::Refused;
        };
        self.store_body(
            &key,
            &body,
            &negative.provenance,
            Meta { valid_for: ttl, ..body.meta(now) },
        )
    }

    /// A hint that the owner will be looked up soon.
    #[inline]
    pub fn prefetch(&self, owner: &[u8]) {
        self.store.prefetch_index(self.hash_key.hash(owner, 0));
    }

    /// What lies at the key. `buf` must hold [`crate::MAX_PAYLOAD_BYTES`] to see every entry; a
    /// longer one than it holds is not found. No lock, no allocation.
    pub fn lookup<'b>(
        &self,
        key: &RrsetKey<'_>,
        at: ReadAt,
        buf: &'b mut [u8],
    ) -> Option<Cached<'b>> {
        if key.rtype == DNAME_TYPE && !self.dnames.contain(key.owner) {
            return None;
        }
        let (found, freshness) = self.read(key, at, buf)?;
        let body = buf.get(key_len(key)..found.len)?;
        match view::kind_of(found.meta.user) {
            None => Some(Cached::Rrset(RrsetView::new(body, &found.meta, freshness))),
            Some(NegativeKind::Nodata) => {
                Some(Cached::Nodata(NegativeView::new(body, &found.meta, freshness)))
            }
            Some(NegativeKind::Nxdomain) => None,
        }
    }

    /// The NXDOMAIN of `owner` or of the nearest name above it (RFC 8020 §2), and how many octets
    /// that name has: the last so many of `owner`. Whether one that is not validated is to answer
    /// for names below it is the caller's policy.
    pub fn covering_nxdomain<'b>(
        &self,
        owner: &[u8],
        class: u16,
        at: ReadAt,
        buf: &'b mut [u8],
    ) -> Option<(usize, NegativeView<'b>)> {
        let denied = name::ancestors(owner).filter(|ancestor| self.denied.contain(ancestor));
        let (key, found, freshness) = { denied }.find_map(|ancestor| {
            let key = RrsetKey { owner: ancestor, rtype: NXDOMAIN_TYPE, class };
            let (found, freshness) = self.read(&key, at, buf)?;
            Some((key, found, freshness))
        })?;
        let body = buf.get(key_len(&key)..found.len)?;
        Some((key.owner.len(), NegativeView::new(body, &found.meta, freshness)))
    }

    /// Removes all sets and denials at `below` (folded wire form) and below it; the root removes
    /// everything. Returns how many there were.
    pub fn flush(&self, below: &[u8]) -> usize {
        self.store.retain(|_, payload| {
            !name::leading_name(payload).is_some_and(|owner| name::is_at_or_below(owner, below))
        })
    }

    /// Removes all sets and denials at `name` (folded wire form), and what denies it from above.
    /// Returns how many there were.
    pub fn flush_name(&self, name: &[u8]) -> usize {
        self.store.retain(|meta, payload| {
            let Some(owner) = name::leading_name(payload) else { return false };
            let denies = view::kind_of(meta.user) == Some(NegativeKind::Nxdomain);
            owner != name && !(denies && name::is_at_or_below(name, owner))
        })
    }

    /// Shows all that [`Self::lookup`] and [`Self::covering_nxdomain`] would find, until `visit`
    /// fails. No lock is held while it runs; what is stored meanwhile may be missed or seen twice.
    pub fn try_visit<E>(
        &self,
        at: ReadAt,
        mut visit: impl FnMut(&RrsetKey<'_>, Held<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.store.try_for_each(|meta, payload| {
            let Some(freshness) = freshness(meta, at) else { return Ok(()) };
            let Some((key, body)) = split_key(payload) else { return Ok(()) };
            let held = match view::kind_of(meta.user) {
                None => Held::Rrset(RrsetView::new(body, meta, freshness)),
                Some(kind) => Held::Negative(kind, NegativeView::new(body, meta, freshness)),
            };
            visit(&key, held)
        })
    }

    /// Counts and memory.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    /// Whether an entry of this age is of no more use.
    pub(crate) fn is_outlived(&self, meta: &Meta, now: u32) -> bool {
        self.store.is_outlived(meta, now)
    }

    /// Shows the entries as they lie in the store, for the snapshot.
    pub(crate) fn try_for_each<E>(
        &self,
        visit: impl FnMut(&Meta, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.store.try_for_each(visit)
    }

    /// Takes an entry back as [`Self::try_for_each`] showed it. False if it is none, or gives way
    /// to what is there.
    pub(crate) fn restore(&self, meta: Meta, payload: &[u8]) -> bool {
        let Some((key, _)) = split_key(payload) else { return false };
        let entry = EntryParts { meta, parts: [payload, &[]] };
        let better = |_: &Meta| false;
        self.note_length(&key);
        self.store.insert(self.hash(&key), &entry, |_, other| is_at(&key, other), better)
            == Inserted::Stored
    }

    fn store_body(
        &self,
        key: &RrsetKey<'_>,
        body: &view::Body,
        by: &Provenance,
        meta: Meta,
    ) -> Inserted {
        if meta.valid_for == 0
            || name::leading_name(key.owner).is_none_or(|name| name.len() != key.owner.len())
        {
            return Inserted::Refused;
        }
        self.note_length(key);
        let entry = EntryParts { meta, parts: [&body.bytes, &[]] };
        let may_replace = |old: &Meta| {
            let of_old = view::provenance_of(old.user);
            let would_lose_trust = of_old.security == Security::Secure
                && !matches!(by.security, Security::Secure | Security::Insecure);
            old.remaining(meta.stored_at).is_err() || (by.rank >= of_old.rank && !would_lose_trust)
        };
        self.store.insert(self.hash(key), &entry, |_, payload| is_at(key, payload), may_replace)
    }

    /// Before the entry is stored: who finds it must find its length noted.
    fn note_length(&self, key: &RrsetKey<'_>) {
        match key.rtype {
            DNAME_TYPE => self.dnames.note(key.owner),
            NXDOMAIN_TYPE => self.denied.note(key.owner),
            _ => {}
        }
    }

    fn read(&self, key: &RrsetKey<'_>, at: ReadAt, buf: &mut [u8]) -> Option<(Found, Freshness)> {
        let found = self.store.read(self.hash(key), buf, |_, payload| is_at(key, payload))?;
        let freshness = freshness(&found.meta, at)?;
        (found.len <= buf.len()).then_some((found, freshness))
    }

    fn clamp(&self, ttl: u32, security: Security) -> u32 {
        let bounds = self.bounds_of(security);
        valid_wire_ttl(ttl).max(bounds.min).min(bounds.max)
    }

    /// The TTL of validated data is never raised: it ends with what was signed (RFC 4035 §5.3.3).
    fn bounds_of(&self, security: Security) -> TtlBounds {
        match security {
            Security::Secure => TtlBounds { min: 0, negative_min: 0, ..self.bounds },
            _ => self.bounds,
        }
    }

    /// All that is known of an owner lies in the same two buckets, as it is looked for together:
    /// the type, an alias, a denial. Type and class only change the bits that tell entries of a
    /// bucket apart.
    fn hash(&self, key: &RrsetKey<'_>) -> u64 {
        let rest = ((u64::from(key.rtype) << 16) | u64::from(key.class))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash_key.hash(key.owner, 0) ^ ((rest >> TYPE_SHIFT) << TAG_BITS_AT)
    }
}

/// None if the data is of no use at that moment.
#[inline]
fn freshness(meta: &Meta, at: ReadAt) -> Option<Freshness> {
    match meta.remaining(at.now) {
        Ok(remaining_secs) => Some(Freshness::Fresh { remaining_secs }),
        Err(since_secs) if since_secs < at.stale_window => Some(Freshness::Stale { since_secs }),
        Err(_) => None,
    }
}

/// The key at the start of a payload, and what follows it.
fn split_key(payload: &[u8]) -> Option<(RrsetKey<'_>, &[u8])> {
    let owner = name::leading_name(payload)?;
    let (rtype, rest) = payload.get(owner.len()..)?.split_first_chunk()?;
    let (class, body) = rest.split_first_chunk()?;
    Some((
        RrsetKey { owner, rtype: u16::from_be_bytes(*rtype), class: u16::from_be_bytes(*class) },
        body,
    ))
}

fn valid_wire_ttl(ttl: u32) -> u32 {
    if ttl > MAX_WIRE_TTL { 0 } else { ttl }
}

fn key_len(key: &RrsetKey<'_>) -> usize {
    key.owner.len() + 4
}

#[inline]
fn is_at(key: &RrsetKey<'_>, payload: &[u8]) -> bool {
    let Some((owner, rest)) = payload.split_at_checked(key.owner.len()) else {
        return false;
    };
    let [t0, t1] = key.rtype.to_be_bytes();
    let [c0, c1] = key.class.to_be_bytes();
    owner == key.owner && rest.first_chunk() == Some(&[t0, t1, c0, c1])
}
