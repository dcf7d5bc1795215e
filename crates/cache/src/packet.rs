//! The packet cache: complete responses, stored ready to be sent again.
//!
//! Most queries that a resolver receives repeat a recent one. The packet cache answers them without
//! assembling a message: a hit copies the response and changes a few fields. Any entry may be
//! dropped, because the server can make the response again from other data, such as the
//! [`crate::RrsetCache`].
//!
//! # Entries
//!
//! An entry's payload is the message, followed by the offsets of its TTL fields and a trailer. The
//! message serves as its own key, because its question is stored at a fixed offset:
//!
//! ```text
//! | header 12 | qname, qtype, qclass | records ... | TTL offsets u16 x n | trailer |
//!              '------- key -------'
//! trailer = EDE u16 | note u16 | flags u8
//! meta.user = profile (16) | question flags (3) | n (13)
//! ```
//!
//! A stored message is a *draft*: its ID is zero, its question is folded, and it has no OPT record.
//! Everything that depends on the individual client is added after the copy, by the caller: the ID,
//! the letter case of the question, the OPT record, and truncation.
//!
//! # Keys
//!
//! Two queries share an entry if a single response is correct for both. Three things decide that:
//!
//! - the question: folded QNAME, QTYPE and QCLASS;
//! - the flags that change the content of a response: DO, CD and RD;
//! - the client's profile, a small integer that represents all properties of a client that the
//!   policy tests. Clients that the policy treats alike share a profile and so share entries.
//!
//! The caller computes a keyed hash over all three. The cache compares the full key as well, so a
//! collision of hashes never returns a wrong response.
//!
//! # Validity
//!
//! An entry is valid while both conditions are true:
//!
//! - It belongs to the current *epoch*. The caller increments the epoch with every change that may
//!   alter a response, so no older entry is a hit: [`PacketCache::lookup`] returns
//!   [`PacketLookup::Earlier`]. If the change does not affect the response,
//!   [`PacketCache::renew`] moves the entry to the current epoch. Nothing has to be flushed:
//!   eviction removes the other entries over time.
//! - Its age is below `valid_for`: the lowest TTL of the message, or less if a rule of the policy
//!   depends on the time of day.
//!
//! After its validity, an entry with [`packet_flags::STALE_OK`] can be served as stale data during
//! the stale window (RFC 8767). [`PacketCache::lookup`] returns such an entry as
//! [`PacketLookup::Stale`]. The caller decides when to send it, usually after an attempt to
//! resolve.
//!
//! ```text
//!  stored_at                valid_for             stale window
//!      |---------------------|--|--------------------|
//!      |         Hit          ^ |       Stale        | Miss
//!                             |
//!           popular: Hit with `prefetch`, in the last tenth
//! ```
//!
//! # Hits
//!
//! A hit copies the message into the caller's buffer and subtracts the entry's age from each TTL,
//! via the stored offsets: no record is parsed. A stale response has its TTLs capped at 30 seconds
//! and AD cleared. A hit takes no lock, allocates nothing and writes no shared memory except the
//! entry's visit count, which saturates at three.
//!
//! If the entry of a question is not in the processor's cache, a look-up waits for memory twice. A
//! caller with a batch of queries hides that wait: it calls [`PacketCache::prefetch_index`] for
//! each of them, then [`PacketCache::prefetch_entry`], and only then starts to look them up.

#[cfg(test)]
mod tests;

use avocet_wire::header::{AD, Header};
use avocet_wire::{FoldedName, Question, short};

use crate::{
    name,
    store::{
        BudgetTooSmall, EntryParts, FoundEntry, Inserted, Meta, Store, StoreConfig, StoreStats,
    },
};

/// The octets before the question.
const HEADER_BYTES: usize = 12;
/// Maximum TTL in a stale response, in seconds (RFC 8767 §4).
pub const STALE_TTL_SECS: u32 = 30;
/// Divides the validity of an entry. A popular entry is due for a refresh when less time remains
/// than the quotient.
const PREFETCH_DIVISOR: u32 = 10;
/// Number of octets of EDE, note and flags after the TTL offsets.
const TRAILER_BYTES: usize = 5;
/// Maximum number of TTL offsets for which an insertion needs no allocation.
const FEW_TTL_OFFSETS: usize = 32;
const COUNT_BITS: u32 = 13;
const MAX_TTL_OFFSETS: usize = (1 << COUNT_BITS) - 1;
/// Expected number of bytes of an entry in the store: an entry with one address record.
const MEAN_ENTRY_BYTES: usize = 96;

/// Bits of [`PacketKey::flags`] and of [`PacketMeta::flags`].
pub mod packet_flags {
    /// The query's DO bit, in a key.
    pub const DO: u8 = 1;
    /// The query's CD bit, in a key.
    pub const CD: u8 = 1 << 1;
    /// The query's RD bit, in a key.
    pub const RD: u8 = 1 << 2;
    /// The flag of an entry that may be served stale. The other seven bits of the flags belong to
    /// the caller.
    pub const STALE_OK: u8 = 1;
}

/// The key of an entry. The caller computes the keyed hash of its three fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketKey<'a> {
    /// The client's profile.
    pub profile: u16,
    /// A combination of [`packet_flags::DO`], [`packet_flags::CD`] and [`packet_flags::RD`].
    pub flags: u8,
    /// The question.
    pub question: Question<'a>,
}

impl<'a> PacketKey<'a> {
    fn of_entry(meta: &Meta, payload: &'a [u8]) -> Option<Self> {
        let question = payload.get(HEADER_BYTES..)?;
        let question = question.get(..name::leading_name(question)?.len() + 4)?;
        let question = Question::new(question)?;
        let flags = ((meta.user >> COUNT_BITS) & 7) as u8;
        Some(Self { profile: (meta.user >> 16) as u16, flags, question })
    }

    fn user(&self) -> u32 {
        (u32::from(self.profile) << 16) | (u32::from(self.flags & 7) << COUNT_BITS)
    }

    #[inline]
    fn is_key_of(&self, meta: &Meta, payload: &[u8]) -> bool {
        (meta.user ^ self.user()) >> COUNT_BITS == 0
            && payload
                .get(HEADER_BYTES..HEADER_BYTES + self.question.octets().len())
                .is_some_and(|question| short::same(question, self.question.octets()))
    }
}

/// The properties of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketMeta {
    /// The time of storage, in seconds of the caller's clock. The TTLs in the response count from
    /// this time.
    pub stored_at: u32,
    /// The validity in seconds: the lowest TTL, or less if the verdict depends on the time of day.
    pub valid_for: u32,
    /// The epoch under which the response was made.
    pub epoch: u32,
    /// The flag [`packet_flags::STALE_OK`], and seven bits that belong to the caller.
    pub flags: u8,
    /// The extended error (RFC 8914) to send with the response.
    pub ede: Option<u16>,
    /// A value that the caller stores with the response and gets back with a hit.
    pub note: u16,
}

/// A valid response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHit {
    /// Number of bytes of the response in the buffer.
    pub len: usize,
    /// Seconds of remaining validity, at least one.
    pub remaining_secs: u32,
    /// Whether the entry is popular and expires soon, so that the caller should refresh it.
    pub prefetch: bool,
    /// The flags that were stored with the response.
    pub flags: u8,
    /// The INFO-CODE of the extended error that was stored with the response.
    pub ede: Option<u16>,
    /// The note that was stored with the response.
    pub note: u16,
}

/// A response past its validity and within the stale window. Its TTLs are at most 30 seconds, and
/// AD is clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketStale {
    /// Number of bytes of the response in the buffer.
    pub len: usize,
    /// Seconds since the validity ended.
    pub stale_secs: u32,
    /// The flags that were stored with the response.
    pub flags: u8,
    /// The INFO-CODE of the extended error that was stored with the response.
    pub ede: Option<u16>,
}

/// A stored response from an earlier epoch. The caller decides whether it is still correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPacket<'a> {
    /// The epoch under which the response was stored.
    pub epoch: u32,
    /// The flags that were stored with the response.
    pub flags: u8,
    /// The response, with the TTLs that it was stored with.
    pub response: &'a [u8],
}

impl<'a> StoredPacket<'a> {
    fn of_entry(meta: &Meta, payload: &'a [u8]) -> Option<Self> {
        let count = meta.user as usize & MAX_TTL_OFFSETS;
        let response = payload.get(..payload.len().checked_sub(2 * count + TRAILER_BYTES)?)?;
        Some(Self { epoch: meta.epoch, flags: *payload.last()?, response })
    }
}

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketLookup {
    /// A valid response, in the buffer.
    Hit(PacketHit),
    /// A stale response, to be sent if resolution fails or is slow.
    Stale(PacketStale),
    /// A valid response that is longer than the buffer. The buffer has its header, its question,
    /// and as many further octets as fit.
    Longer {
        /// Number of bytes that a buffer needs for the response.
        needed: usize,
    },
    /// A response of an earlier epoch. [`PacketCache::renew`] may move the response to the current
    /// epoch.
    Earlier,
    /// No usable response.
    Miss,
}

/// A cache of complete responses. The module documentation describes the design.
///
/// ```
/// use avocet_cache::{PacketCache, PacketKey, PacketLookup, PacketMeta, packet_flags};
/// use avocet_wire::Question;
///
/// # fn main() -> Result<(), avocet_cache::BudgetTooSmall> {
/// let cache = PacketCache::new(1 << 20, 3600)?;
/// let question = Question::new(b"\x07example\x00\x00\x01\x00\x01").expect("a question");
/// let key = PacketKey { profile: 0, flags: packet_flags::RD, question };
/// let hash = 0x5eed; // in practice a keyed hash of the key
///
/// let mut response = b"\x00\x00\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00".to_vec();
/// response.extend_from_slice(question.octets());
/// response.extend_from_slice(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x01\x2c\x00\x04\xc0\x00\x02\x01");
/// let ttl_offset = 12 + question.octets().len() as u16 + 6;
/// let meta =
///     PacketMeta { stored_at: 1000, valid_for: 300, epoch: 1, flags: 0, ede: None, note: 0 };
/// cache.insert(hash, &key, &response, &[ttl_offset], &meta);
///
/// let mut out = [0; 512];
/// let PacketLookup::Hit(hit) = cache.lookup(hash, &key, 1100, 1, &mut out) else {
///     panic!("the response is valid for another 200 seconds")
/// };
/// assert_eq!((hit.len, hit.remaining_secs), (response.len(), 200));
/// assert_eq!(out[usize::from(ttl_offset)..][..4], 200u32.to_be_bytes());
/// // Under a new epoch the response is a hit only after its owner has said that it still holds.
/// assert_eq!(cache.lookup(hash, &key, 1100, 2, &mut out), PacketLookup::Earlier);
/// assert!(cache.renew(hash, &key, 2, &mut out, |stored| stored.epoch == 1));
/// assert!(matches!(cache.lookup(hash, &key, 1100, 2, &mut out), PacketLookup::Hit(_)));
/// # Ok(())
/// # }
/// ```
pub struct PacketCache {
    store: Store,
    stale_window: u32,
}

impl PacketCache {
    /// Creates a cache of at most `bytes`. Entries can be served stale for up to `stale_window`
    /// seconds after their validity.
    pub fn new(bytes: usize, stale_window: u32) -> Result<PacketCache, BudgetTooSmall> {
        let config =
            StoreConfig { bytes, mean_entry_bytes: MEAN_ENTRY_BYTES, keep_secs: stale_window };
        Ok(PacketCache { store: Store::new(config)?, stale_window })
    }

    /// Copies the response to `out` and counts down its TTLs. Takes no lock, allocates nothing. A
    /// buffer with the length of the response and two bytes for each of its records always
    /// suffices.
    #[inline]
    pub fn lookup(
        &self,
        hash: u64,
        key: &PacketKey<'_>,
        now: u32,
        epoch: u32,
        out: &mut [u8],
    ) -> PacketLookup {
        let Some(found) = self.store.read(hash, out, |meta, payload| key.is_key_of(meta, payload))
        else {
            return PacketLookup::Miss;
        };
        if found.meta.epoch != epoch {
            return PacketLookup::Earlier;
        }
        match found.meta.remaining(now) {
            Ok(remaining_secs) => fresh(&found, remaining_secs, out),
            Err(stale_secs) if stale_secs < self.stale_window => stale(&found, stale_secs, out),
            Err(_) => PacketLookup::Miss,
        }
    }

    /// Copies a response of any epoch to `out` as a stale response, even if it is fresh. Returns
    /// `None` if `holds` does not accept the response, or if it may not be served stale.
    #[cold]
    pub fn lookup_stale(
        &self,
        hash: u64,
        key: &PacketKey<'_>,
        now: u32,
        out: &mut [u8],
        holds: impl FnOnce(&StoredPacket<'_>) -> bool,
    ) -> Option<PacketStale> {
        let same = |meta: &Meta, payload: &[u8]| key.is_key_of(meta, payload);
        let found = self.store.read(hash, out, same)?;
        if !StoredPacket::of_entry(&found.meta, out.get(..found.len)?).is_some_and(|it| holds(&it))
        {
            return None;
        }
        let stale_secs = found.meta.remaining(now).err().unwrap_or(0);
        if stale_secs >= self.stale_window {
            return None;
        }
        match stale(&found, stale_secs, out) {
            PacketLookup::Stale(stale) => Some(stale),
            _ => None,
        }
    }

    /// Moves a response to this epoch if `holds` accepts it. Returns whether the response was
    /// moved. Also returns `false` if `buffer` is too short for the response and two bytes for each
    /// of its records. Locks a part of the cache for the duration of one insertion.
    #[cold]
    pub fn renew(
        &self,
        hash: u64,
        key: &PacketKey<'_>,
        epoch: u32,
        buffer: &mut [u8],
        holds: impl FnOnce(&StoredPacket<'_>) -> bool,
    ) -> bool {
        let same = |meta: &Meta, payload: &[u8]| key.is_key_of(meta, payload);
        let Some(found) = self.store.read(hash, buffer, same) else { return false };
        let Some(payload) = buffer.get(..found.len) else { return false };
        if !StoredPacket::of_entry(&found.meta, payload).is_some_and(|stored| holds(&stored)) {
            return false;
        }
        let entry = EntryParts { meta: Meta { epoch, ..found.meta }, parts: [payload, &[]] };
        // Another thread may have stored a newer response in the meantime. That response stays.
        let is_unchanged = |meta: &Meta| *meta == found.meta;
        self.store.insert(hash, &entry, same, is_unchanged) == Inserted::Stored
    }

    /// Prefetches the index cells of a key with this hash. This is the first step before a look-up.
    #[inline]
    pub fn prefetch_index(&self, hash: u64) {
        self.store.prefetch_index(hash);
    }

    /// Prefetches the entry that the index has for this hash. This is the second step, to be called
    /// some time after [`PacketCache::prefetch_index`]. Returns `false` if there is no such entry.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) -> bool {
        self.store.prefetch_entry(hash)
    }

    /// Stores a response, which must have ID zero, the key's question at offset 12 and no OPT
    /// record. `ttl_offsets` are the offsets of its TTL fields. Refuses a response whose question
    /// or offsets do not match.
    pub fn insert(
        &self,
        hash: u64,
        key: &PacketKey<'_>,
        response: &[u8],
        ttl_offsets: &[u16],
        meta: &PacketMeta,
    ) -> Inserted {
        let question = key.question.octets();
        let is_sound = response.get(HEADER_BYTES..HEADER_BYTES + question.len()) == Some(question)
            && ttl_offsets.len() <= MAX_TTL_OFFSETS
            && ttl_offsets.iter().all(|offset| usize::from(*offset) + 4 <= response.len());
        if !is_sound {
            return Inserted::Refused;
        }
        let mut few = [0; 2 * FEW_TTL_OFFSETS + TRAILER_BYTES];
        let mut many = Vec::new();
        let trailer = match few.get_mut(..2 * ttl_offsets.len() + TRAILER_BYTES) {
            Some(few) => few,
            None => {
                many.resize(2 * ttl_offsets.len() + TRAILER_BYTES, 0);
                &mut many
            }
        };
        write_trailer(trailer, ttl_offsets, meta);
        let user = key.user() | ttl_offsets.len() as u32;
        let entry = EntryParts {
            meta: Meta {
                stored_at: meta.stored_at,
                valid_for: meta.valid_for,
                epoch: meta.epoch,
                user,
            },
            parts: [response, trailer],
        };
        self.store.insert(hash, &entry, |meta, payload| key.is_key_of(meta, payload), |_| true)
    }

    /// Removes the responses with a QNAME that is `below` or is below it, for all profiles. With
    /// the root, removes all responses. Returns the number of removed responses.
    pub fn flush(&self, below: FoldedName<'_>) -> usize {
        self.store.retain(|_, payload| {
            let question = payload.get(HEADER_BYTES..).unwrap_or_default();
            !name::leading_name(question).is_some_and(|qname| name::is_at_or_below(qname, &below))
        })
    }

    /// Calls `visit` for each valid response that `holds` accepts, until `visit` fails. The
    /// arguments are the key, the first twelve octets and the remaining seconds. Holds no lock, so
    /// that entries that are stored at the same time may be missed or visited twice.
    pub fn try_visit<E>(
        &self,
        now: u32,
        holds: impl Fn(&StoredPacket<'_>) -> bool,
        mut visit: impl FnMut(&PacketKey<'_>, &[u8; HEADER_BYTES], u32) -> Result<(), E>,
    ) -> Result<(), E> {
        self.store.try_for_each(|meta, payload| {
            let Some((key, header)) = PacketKey::of_entry(meta, payload).zip(payload.first_chunk())
            else {
                return Ok(());
            };
            let holds = || StoredPacket::of_entry(meta, payload).is_some_and(|it| holds(&it));
            match meta.remaining(now) {
                Ok(remaining_secs) if holds() => visit(&key, header, remaining_secs),
                _ => Ok(()),
            }
        })
    }

    /// Returns the counters of the cache and the size of its memory.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    /// Reports whether an entry is too old even for a stale response.
    pub(crate) fn is_outlived(&self, meta: &Meta, now: u32) -> bool {
        self.store.is_outlived(meta, now)
    }

    /// Calls `visit` with each stored entry that `holds` accepts, as octets, for the snapshot.
    pub(crate) fn try_for_each<E>(
        &self,
        holds: impl Fn(&StoredPacket<'_>) -> bool,
        mut visit: impl FnMut(&Meta, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.store.try_for_each(|meta, payload| {
            match StoredPacket::of_entry(meta, payload).is_some_and(|stored| holds(&stored)) {
                true => visit(meta, payload),
                false => Ok(()),
            }
        })
    }

    /// Stores an entry from [`Self::try_for_each`] again. Returns `false` if the entry is
    /// malformed.
    pub(crate) fn restore(
        &self,
        meta: Meta,
        payload: &[u8],
        hash: impl Fn(&PacketKey<'_>) -> u64,
    ) -> bool {
        let count = meta.user as usize & MAX_TTL_OFFSETS;
        let Some(key) = PacketKey::of_entry(&meta, payload) else { return false };
        if payload.len() < HEADER_BYTES + key.question.octets().len() + 2 * count + TRAILER_BYTES {
            return false;
        }
        let entry = EntryParts { meta, parts: [payload, &[]] };
        let same = |meta: &Meta, payload: &[u8]| key.is_key_of(meta, payload);
        self.store.insert(hash(&key), &entry, same, |_| true) == Inserted::Stored
    }
}

/// Writes the part of an entry after the message. `trailer` must have exactly the length of this
/// part.
fn write_trailer(trailer: &mut [u8], ttl_offsets: &[u16], meta: &PacketMeta) {
    let (offsets, rest) = trailer.split_at_mut(2 * ttl_offsets.len());
    for (place, offset) in offsets.as_chunks_mut::<2>().0.iter_mut().zip(ttl_offsets) {
        *place = offset.to_be_bytes();
    }
    // INFO-CODEs are at most 65,534, so the highest value can mean that there is none.
    let [high, low] = meta.ede.unwrap_or(u16::MAX).to_be_bytes();
    let [note_low, note_high] = meta.note.to_le_bytes();
    rest.copy_from_slice(&[high, low, note_low, note_high, meta.flags]);
}

#[inline]
fn fresh(found: &FoundEntry, remaining_secs: u32, out: &mut [u8]) -> PacketLookup {
    let Some(mut trailer) = Trailer::split(found, out) else {
        return PacketLookup::Longer { needed: found.len };
    };
    let age = found.meta.valid_for - remaining_secs;
    trailer.rewrite_ttls(|ttl| ttl.saturating_sub(age));
    let is_ending =
        u64::from(remaining_secs) * u64::from(PREFETCH_DIVISOR) < u64::from(found.meta.valid_for);
    PacketLookup::Hit(PacketHit {
        len: trailer.response.len(),
        remaining_secs,
        prefetch: is_ending && found.visited,
        flags: trailer.flags,
        ede: trailer.ede,
        note: trailer.note,
    })
}

fn stale(found: &FoundEntry, stale_secs: u32, out: &mut [u8]) -> PacketLookup {
    let Some(mut trailer) = Trailer::split(found, out) else {
        return PacketLookup::Miss;
    };
    if trailer.flags & packet_flags::STALE_OK == 0 {
        return PacketLookup::Miss;
    }
    trailer.rewrite_ttls(|ttl| ttl.min(STALE_TTL_SECS));
    clear_ad(trailer.response);
    PacketLookup::Stale(PacketStale {
        len: trailer.response.len(),
        stale_secs,
        flags: trailer.flags,
        ede: trailer.ede,
    })
}

/// Clears AD. The data may not be valid after the TTL, which never exceeds the validity of the
/// signatures (RFC 4035 §5.3.3). The function is not inlined, so that it does not slow down fresh
/// hits.
#[cold]
#[inline(never)]
fn clear_ad(response: &mut [u8]) {
    if let (Some(header), Some(octets)) = (Header::read(response), response.first_chunk_mut()) {
        Header { flags: header.flags & !AD, ..header }.write(octets);
    }
}

/// The part of an entry after the message, in the caller's buffer.
struct Trailer<'a> {
    response: &'a mut [u8],
    offsets: &'a [[u8; 2]],
    ede: Option<u16>,
    note: u16,
    flags: u8,
}

impl<'a> Trailer<'a> {
    /// Splits a payload. Returns `None` if the buffer was too short for it.
    #[inline]
    fn split(found: &FoundEntry, out: &'a mut [u8]) -> Option<Trailer<'a>> {
        let count = found.meta.user as usize & MAX_TTL_OFFSETS;
        let payload = out.get_mut(..found.len)?;
        let (rest, fixed) = payload.split_last_chunk_mut::<TRAILER_BYTES>()?;
        let (response, offsets) = rest.split_at_mut_checked(rest.len().checked_sub(2 * count)?)?;
        let [ede_high, ede_low, note_low, note_high, flags] = *fixed;
        let ede = Some(u16::from_be_bytes([ede_high, ede_low])).filter(|ede| *ede != u16::MAX);
        let note = u16::from_le_bytes([note_low, note_high]);
        Some(Trailer { response, offsets: offsets.as_chunks().0, ede, note, flags })
    }
}

impl Trailer<'_> {
    #[inline]
    fn rewrite_ttls(&mut self, ttl_of: impl Fn(u32) -> u32) {
        for offset in self.offsets {
            let at = usize::from(u16::from_be_bytes(*offset));
            if let Some(field) =
                self.response.get_mut(at..at + 4).and_then(|field| field.first_chunk_mut())
            {
                *field = ttl_of(u32::from_be_bytes(*field)).to_be_bytes();
            }
        }
    }
}
