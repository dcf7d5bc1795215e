//! The RRset cache: data received from servers. Each RRset has a security status and a rank: the
//! trustworthiness of its source (RFC 2181 §5.4.1). Negative answers are stored as well (RFC 2308,
//! RFC 8020). The cache is independent of clients and policy.
//!
//! Positive sets and NODATA are stored at (owner, type, class). An NXDOMAIN is stored at (owner,
//! type 0, class) and also covers all names below the owner. A CNAME is found only by a look-up of
//! type CNAME. [`view`] describes the byte layout of entries.

mod view;

#[cfg(test)]
mod tests;

use avocet_wire::FoldedName;
use avocet_wire::hash::HashKey;

pub use self::view::{NegativeView, Rdatas, RrsetView};
use crate::{
    lengths::{self, LengthsSeen},
    name,
    store::{
        BudgetTooSmall, EntryParts, FoundEntry, Inserted, Meta, Store, StoreConfig, StoreStats,
    },
};

/// The type at which NXDOMAIN is stored. No query has this type, because it is reserved (RFC 6895
/// §3.1).
const NXDOMAIN_TYPE: u16 = 0;
/// The type DNAME (RFC 6672). It is looked up at each ancestor of a name.
const DNAME_TYPE: u16 = 39;
/// The highest valid TTL. A TTL with the top bit set counts as zero (RFC 2181 §8).
const MAX_WIRE_TTL: u32 = i32::MAX as u32;
/// Expected number of bytes of an entry in the store: an RRset of addresses.
const MEAN_ENTRY_BYTES: usize = 72;

/// The key of an RRset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RrsetKey<'a> {
    /// The owner.
    pub owner: FoldedName<'a>,
    /// The RR type.
    pub rtype: u16,
    /// The class.
    pub class: u16,
}

/// The DNSSEC status of data (RFC 4035 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// The data was not validated: validation is off or pending.
    Unchecked = 0,
    /// No chain of trust leads to the data, and it is unknown whether one should.
    Indeterminate = 1,
    /// The data is proven to be outside all chains of trust.
    Insecure = 2,
    /// A chain of trust should lead to the data and does not.
    Bogus = 3,
    /// The data was validated.
    Secure = 4,
}

/// What this server does not support of the DNSSEC of a zone, so that the validator treats signed
/// data as insecure (RFC 4035 §5.2, RFC 9276 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// The server supports none of the keys: it lacks the algorithm or the key size.
    Algorithm = 1,
    /// The server supports the digest type of none of the DS records.
    Digest = 2,
    /// NSEC3 uses more iterations than the server supports.
    Iterations = 3,
}

/// The trustworthiness of data according to its source. Lower ranks come first (RFC 2181 §5.4.1).
/// Data from hosted zones is never cached and has no rank here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The data is from the additional section, or from the authority section of an answer without
    /// AA: referrals and glue.
    Additional = 0,
    /// The data is from the answer section of an answer without AA, or is non-authoritative data in
    /// an answer with AA, such as the records after a CNAME.
    NonAuthoritativeAnswer = 1,
    /// The data is from the authority section of an answer with AA.
    AuthoritativeAuthority = 2,
    /// The data is from the answer section of an answer with AA, or the answer denies the data with
    /// AA.
    AuthoritativeAnswer = 3,
}

/// The source of data and its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The result of validation.
    pub security: Security,
    /// What the server does not support, if the data is insecure for this reason.
    pub unsupported: Option<Unsupported>,
    /// The section and kind of answer that the data comes from.
    pub rank: Rank,
    /// Whether the query had DO set. If so, missing signatures and proofs do not exist.
    pub asked_with_do: bool,
    /// Whether the query had CD set, so that an upstream may not have validated the data.
    pub asked_with_cd: bool,
}

/// An RRset to store.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedRrset<'a> {
    /// The source of the data.
    pub provenance: Provenance,
    /// The TTL in seconds, as received or as limited by the signatures. The cache clamps it.
    pub ttl: u32,
    /// The RDATA of each record, in uncompressed wire form.
    pub records: &'a [&'a [u8]],
    /// The RDATA of the RRSIG records that cover the RRset.
    pub signatures: &'a [&'a [u8]],
}

/// The kind of a negative answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegativeKind {
    /// The owner has no records of the type.
    Nodata,
    /// Neither the owner nor any name below it exists.
    Nxdomain,
}

/// A record of a negative answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegativeRecord<'a> {
    /// The owner.
    pub owner: FoldedName<'a>,
    /// The RR type.
    pub rtype: u16,
    /// RDATA in uncompressed wire form.
    pub rdata: &'a [u8],
}

/// A negative answer to store.
#[derive(Clone, Copy, Debug)]
pub struct Negative<'a> {
    /// NODATA or NXDOMAIN.
    pub kind: NegativeKind,
    /// The source of the data.
    pub provenance: Provenance,
    /// The zone's SOA record.
    pub soa: NegativeRecord<'a>,
    /// TTL of the SOA record in seconds. The lifetime of the entry is the lower of this TTL and the
    /// record's MINIMUM field (RFC 2308 §5), clamped.
    pub soa_ttl: u32,
    /// The NSEC, NSEC3 and RRSIG records of the proof. Empty if there is no proof.
    pub proof: &'a [NegativeRecord<'a>],
}

/// Limits on TTLs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlBounds {
    /// The lower bound for positive data.
    pub min: u32,
    /// The upper bound for all data.
    pub max: u32,
    /// The lower bound for negative data.
    pub negative_min: u32,
    /// The upper bound for negative data (RFC 2308 §5 suggests one to three hours).
    pub negative_max: u32,
}

impl TtlBounds {
    /// Returns the lifetime of a negative answer, in seconds. `ttl_secs` is the lower of the SOA
    /// record's TTL and its MINIMUM field.
    #[must_use]
    pub fn negative(&self, ttl_secs: u32) -> u32 {
        ttl_secs.max(self.negative_min).min(self.negative_max).min(self.max)
    }
}

/// The time of a look-up, and the age of stale data that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAt {
    /// The time, in seconds of the caller's clock.
    pub now: u32,
    /// Seconds after the end of the TTL during which data is accepted (RFC 8767). With zero, only
    /// fresh data is accepted.
    pub stale_window: u32,
}

/// The age of data in relation to its TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The data is within its TTL.
    Fresh {
        /// Seconds left, at least one.
        remaining_secs: u32,
    },
    /// The data is past its TTL.
    Stale {
        /// Seconds since the TTL ended.
        since_secs: u32,
    },
}

/// The cached data for a key, in the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub enum Cached<'a> {
    /// The key has these records.
    Rrset(RrsetView<'a>),
    /// The key has no records, as this denial shows.
    Nodata(NegativeView<'a>),
}

/// A cached entry, as [`RrsetCache::try_visit`] shows it.
#[derive(Clone, Copy, Debug)]
pub enum Held<'a> {
    /// The entry has these records.
    Rrset(RrsetView<'a>),
    /// The entry is a denial. Either the type does not exist, or neither the name nor any name
    /// below it exists.
    Negative(NegativeKind, NegativeView<'a>),
}

/// The lowest bit of the hash that depends on type and class. This bit and all higher ones form the
/// tag of the slot, and do not affect the shard or the bucket.
const TAG_BITS_AT: u32 = 32;
const TYPE_SHIFT: u32 = 50;

/// A cache of RRsets and negative answers.
///
/// ```
/// use avocet_cache::{
///     Cached, Provenance, Rank, ReadAt, ReceivedRrset, RrsetCache, RrsetKey, Security, TtlBounds,
/// };
/// use avocet_wire::FoldedName;
///
/// # fn main() -> Result<(), avocet_cache::BudgetTooSmall> {
/// let bounds = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3_600 };
/// let cache = RrsetCache::new(1 << 20, 0, bounds, [7; 16])?;
/// let owner = FoldedName::new(b"\x07example\x00").expect("a name");
/// let key = RrsetKey { owner, rtype: 1, class: 1 };
/// let provenance = Provenance {
///     security: Security::Unchecked,
///     unsupported: None,
///     rank: Rank::AuthoritativeAnswer,
///     asked_with_do: true,
///     asked_with_cd: false,
/// };
/// let rrset =
///     ReceivedRrset { provenance, ttl: 300, records: &[&[192, 0, 2, 1]], signatures: &[] };
/// cache.insert(&key, &rrset, 1000);
///
/// let mut buf = vec![0; avocet_cache::MAX_PAYLOAD_BYTES];
/// let at = ReadAt { now: 1100, stale_window: 0 };
/// let Some(Cached::Rrset(found)) = cache.lookup(&key, at, &mut buf) else {
///     panic!("the RRset is within its TTL")
/// };
/// assert_eq!(found.records().next(), Some(&[192, 0, 2, 1][..]));
/// # Ok(())
/// # }
/// ```
pub struct RrsetCache {
    store: Store,
    bounds: TtlBounds,
    hash_key: HashKey,
    /// The lengths of the owners of all DNAME records that were ever stored, and of all names that
    /// were ever denied. A look-up skips ancestors of other lengths.
    dnames: LengthsSeen,
    denied: LengthsSeen,
}

impl RrsetCache {
    /// Creates a cache of at most `bytes` that keeps data `keep_secs` past its TTL for stale
    /// answers. `hash_key` must be random, because clients choose the names.
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

    /// Stores an RRset, unless the cache has a fresh entry with a higher rank, or a fresh validated
    /// entry while the RRset is not validated. An RRset whose TTL is zero after clamping is not
    /// stored.
    pub fn insert(&self, key: &RrsetKey<'_>, rrset: &ReceivedRrset<'_>, now: u32) -> Inserted {
        let ttl = self.clamp(rrset.ttl, rrset.provenance.security);
        let Some(body) = view::encode_rrset(key, rrset) else {
            return Inserted::Refused;
        };
        self.store_body(key, &body, &rrset.provenance, Meta { valid_for: ttl, ..body.meta(now) })
    }

    /// Stores a negative answer with the same precedence as [`Self::insert`]. NODATA is stored for
    /// the key, and NXDOMAIN for the owner and class of the key.
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

    /// Prefetches the index cells of an owner.
    #[inline]
    pub fn prefetch(&self, owner: FoldedName<'_>) {
        self.store.prefetch_index(self.hash_key.hash(&owner, 0));
    }

    /// Reports whether the cache may contain a DNAME record. Returns `false` if none was ever
    /// stored.
    #[inline]
    #[must_use]
    pub fn may_hold_dnames(&self) -> bool {
        !self.dnames.is_empty()
    }

    /// Returns the entry at the key. `buf` should hold [`crate::MAX_PAYLOAD_BYTES`]: an entry
    /// longer than `buf` is not found. Takes no lock, and allocates nothing.
    pub fn lookup<'b>(
        &self,
        key: &RrsetKey<'_>,
        at: ReadAt,
        buf: &'b mut [u8],
    ) -> Option<Cached<'b>> {
        if key.rtype == DNAME_TYPE && !self.dnames.contain(&key.owner) {
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

    /// Returns the NXDOMAIN of `owner` or of its nearest ancestor (RFC 8020 §2), and the length of
    /// the denied name, which is a suffix of `owner`. The caller decides whether an unvalidated
    /// NXDOMAIN covers names below its owner.
    pub fn covering_nxdomain<'b>(
        &self,
        owner: FoldedName<'_>,
        class: u16,
        at: ReadAt,
        buf: &'b mut [u8],
    ) -> Option<(usize, NegativeView<'b>)> {
        let denied = owner.ancestors().filter(|ancestor| self.denied.contain(ancestor));
        let (key, found, freshness) = { denied }.find_map(|ancestor| {
            let key = RrsetKey { owner: ancestor, rtype: NXDOMAIN_TYPE, class };
            let (found, freshness) = self.read(&key, at, buf)?;
            Some((key, found, freshness))
        })?;
        let body = buf.get(key_len(&key)..found.len)?;
        Some((key.owner.len(), NegativeView::new(body, &found.meta, freshness)))
    }

    /// Removes all RRsets and denials of `below` and of names below it. With the root, removes
    /// everything. Returns the number of removed entries.
    pub fn flush(&self, below: FoldedName<'_>) -> usize {
        self.store.retain(|_, payload| {
            !name::leading_name(payload).is_some_and(|owner| name::is_at_or_below(owner, &below))
        })
    }

    /// Removes all RRsets and denials at `name`, and the NXDOMAIN entries of its ancestors, because
    /// they also deny `name`. Returns the number of removed entries.
    pub fn flush_name(&self, name: FoldedName<'_>) -> usize {
        self.store.retain(|meta, payload| {
            let Some(owner) = name::leading_name(payload) else { return false };
            let denies = view::kind_of(meta.user) == Some(NegativeKind::Nxdomain);
            *owner != *name && !(denies && name::is_at_or_below(&name, owner))
        })
    }

    /// Removes the entries for which `is_gone` returns true, and returns their number. The function
    /// gets the owner, and learns whether an entry denies all names below the owner (NXDOMAIN).
    pub fn flush_where(&self, mut is_gone: impl FnMut(&[u8], bool) -> bool) -> usize {
        self.store.retain(|meta, payload| {
            let Some(owner) = name::leading_name(payload) else { return false };
            let denies = view::kind_of(meta.user) == Some(NegativeKind::Nxdomain);
            !is_gone(owner, denies)
        })
    }

    /// Calls `visit` with all entries that [`Self::lookup`] and [`Self::covering_nxdomain`] can
    /// return, until `visit` fails. Holds no lock, so that entries that are stored at the same time
    /// may be missed or visited twice.
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

    /// Returns the counters of the cache and the size of its memory.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    /// Reports whether an entry is too old even for a stale answer.
    pub(crate) fn is_outlived(&self, meta: &Meta, now: u32) -> bool {
        self.store.is_outlived(meta, now)
    }

    /// Calls `visit` with each stored entry, as octets, for the snapshot.
    pub(crate) fn try_for_each<E>(
        &self,
        visit: impl FnMut(&Meta, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.store.try_for_each(visit)
    }

    /// Stores an entry from [`Self::try_for_each`] again. Returns `false` if the entry is
    /// malformed, or if an existing entry takes precedence.
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
        if meta.valid_for == 0 {
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

    /// Records the length of the owner, if the key is that of a DNAME or an NXDOMAIN. The length is
    /// recorded before the entry is inserted, because a look-up skips names of unrecorded lengths
    /// and would not find the entry.
    fn note_length(&self, key: &RrsetKey<'_>) {
        match key.rtype {
            DNAME_TYPE => self.dnames.note(&key.owner),
            NXDOMAIN_TYPE => self.denied.note(&key.owner),
            _ => {}
        }
    }

    fn read(
        &self,
        key: &RrsetKey<'_>,
        at: ReadAt,
        buf: &mut [u8],
    ) -> Option<(FoundEntry, Freshness)> {
        let found = self.store.read(self.hash(key), buf, |_, payload| is_at(key, payload))?;
        let freshness = freshness(&found.meta, at)?;
        (found.len <= buf.len()).then_some((found, freshness))
    }

    fn clamp(&self, ttl: u32, security: Security) -> u32 {
        let bounds = self.bounds_of(security);
        valid_wire_ttl(ttl).max(bounds.min).min(bounds.max)
    }

    /// Returns the bounds on the TTL of data with this security status. They never raise the TTL of
    /// validated data, because its signatures limit it (RFC 4035 §5.3.3).
    fn bounds_of(&self, security: Security) -> TtlBounds {
        match security {
            Security::Secure => TtlBounds { min: 0, negative_min: 0, ..self.bounds },
            _ => self.bounds,
        }
    }

    /// Hashes the owner to a shard and two buckets. Type and class change only the tag. So all
    /// entries of an owner are in two buckets, and one prefetch serves the look-ups of the queried
    /// type, of a CNAME and of a denial.
    fn hash(&self, key: &RrsetKey<'_>) -> u64 {
        let rest = ((u64::from(key.rtype) << 16) | u64::from(key.class))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash_key.hash(&key.owner, 0) ^ ((rest >> TYPE_SHIFT) << TAG_BITS_AT)
    }
}

/// Returns the freshness of data at a time, or `None` if the data is too old for the look-up.
#[inline]
fn freshness(meta: &Meta, at: ReadAt) -> Option<Freshness> {
    match meta.remaining(at.now) {
        Ok(remaining_secs) => Some(Freshness::Fresh { remaining_secs }),
        Err(since_secs) if since_secs < at.stale_window => Some(Freshness::Stale { since_secs }),
        Err(_) => None,
    }
}

/// Splits a payload into its key and the rest.
fn split_key(payload: &[u8]) -> Option<(RrsetKey<'_>, &[u8])> {
    let owner = FoldedName::new(name::leading_name(payload)?)?;
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
    owner == key.owner.wire() && rest.first_chunk() == Some(&[t0, t1, c0, c1])
}
