//! The packet cache: answers as they were sent, ready to be sent again to whoever asks the same
//! with the same profile. It is not the truth about names ([`crate::RrsetCache`] is): an entry is
//! valid for one policy epoch, and a new epoch makes all older ones misses at once, with no flush.
//!
//! An entry's payload is the message, then the offsets of its TTL fields, then what the cache
//! knows beside it; the question of the message is the key:
//! ```text
//! | header 12 | qname, qtype, qclass | records ... | TTL offsets u16 x n | EDE u16 | flags u8 |
//! meta.user = profile (16) | question flags (3) | n (13)
//! ```
//! A hit copies the message to the caller's buffer and counts its TTLs down to the second. What
//! is the client's own stays to be written by the caller: ID, the question's letter case, the OPT
//! record, truncation.

#[cfg(test)]
mod tests;

use avocet_wire::header::{AD, Header};
use avocet_wire::short;

use crate::{
    name,
    store::{BudgetTooSmall, EntryParts, Found, Inserted, Meta, Store, StoreConfig, StoreStats},
};

/// The octets before the question.
const HEADER_BYTES: usize = 12;
/// The TTL of what is served past its own (RFC 8767 §4), in seconds.
const STALE_TTL_SECS: u32 = 30;
/// An entry is asked for anew when less than one part in this many of its time remains.
const PREFETCH_DIVISOR: u32 = 10;
/// EDE and flags behind the TTL offsets.
const TRAILER_BYTES: usize = 3;
/// So many TTL offsets need no memory of their own while they are stored.
const FEW_TTL_OFFSETS: usize = 32;
const COUNT_BITS: u32 = 13;
const MAX_TTL_OFFSETS: usize = (1 << COUNT_BITS) - 1;
/// What an entry of one address record takes in the rings.
const MEAN_ENTRY_BYTES: usize = 96;

/// Bits of [`PacketKey::flags`] and of [`PacketMeta::flags`].
pub mod packet_flags {
    /// In a key: the query's DO bit.
    pub const DO: u8 = 1;
    /// In a key: the query's CD bit.
    pub const CD: u8 = 1 << 1;
    /// In a key: the query's RD bit.
    pub const RD: u8 = 1 << 2;
    /// In an entry's meta: may be served past its validity. The other seven bits are the caller's.
    pub const STALE_OK: u8 = 1;
}

/// What makes two queries ask the same. The keyed hash that goes with it is the caller's to
/// compute, over all three parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketKey<'a> {
    /// The client's profile.
    pub profile: u16,
    /// [`packet_flags::DO`], [`packet_flags::CD`] and [`packet_flags::RD`].
    pub flags: u8,
    /// Folded qname, qtype and qclass in wire form.
    pub question: &'a [u8],
}

impl<'a> PacketKey<'a> {
    fn of_entry(meta: &Meta, payload: &'a [u8]) -> Option<Self> {
        let question = payload.get(HEADER_BYTES..)?;
        let question = question.get(..name::leading_name(question)?.len() + 4)?;
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
                .get(HEADER_BYTES..HEADER_BYTES + self.question.len())
                .is_some_and(|question| short::same(question, self.question))
    }
}

/// What is stored beside a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketMeta {
    /// Seconds of the caller's clock; the TTLs in the response are those of that second.
    pub stored_at: u32,
    /// Seconds: the least TTL, or less where a verdict depends on the time of day.
    pub valid_for: u32,
    /// The policy epoch under which the response was made.
    pub epoch: u32,
    /// [`packet_flags::STALE_OK`] and seven bits of the caller's.
    pub flags: u8,
    /// The extended error (RFC 8914) to be sent along.
    pub ede: Option<u16>,
}

/// A response that is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHit {
    /// Bytes of the response in the buffer.
    pub len: usize,
    /// Seconds until it is no longer valid; at least one.
    pub remaining_secs: u32,
    /// It is popular and will end soon: worth resolving again now.
    pub prefetch: bool,
    /// As stored.
    pub flags: u8,
    /// As stored.
    pub ede: Option<u16>,
}

/// A response past its validity, within the stale window; its TTLs are 30 seconds, or what they
/// were if that was less, and AD is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketStale {
    /// Bytes of the response in the buffer.
    pub len: usize,
    /// Seconds since it ended.
    pub stale_secs: u32,
    /// As stored.
    pub flags: u8,
    /// As stored.
    pub ede: Option<u16>,
}

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketLookup {
    /// A response, in the buffer.
    Hit(PacketHit),
    /// A response that may be sent if resolving fails or takes long.
    Stale(PacketStale),
    /// A valid response longer than the buffer, which holds its start: header, question and as
    /// many octets as fit.
    Longer {
        /// Bytes a buffer needs for it.
        needed: usize,
    },
    /// Nothing that is of use.
    Miss,
}

/// See the module.
pub struct PacketCache {
    store: Store,
    stale_window: u32,
}

impl PacketCache {
    /// A cache of at most `bytes` that serves entries up to `stale_window` seconds past their time.
    pub fn new(bytes: usize, stale_window: u32) -> Result<PacketCache, BudgetTooSmall> {
        let config =
            StoreConfig { bytes, mean_entry_bytes: MEAN_ENTRY_BYTES, keep_secs: stale_window };
        Ok(PacketCache { store: Store::new(config)?, stale_window })
    }

    /// Copies the response to `out` with its TTLs counted down. No lock, no allocation. A buffer
    /// of the response's length and two bytes for each of its records always suffices.
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
            return PacketLookup::Miss;
        }
        match found.meta.remaining(now) {
            Ok(remaining_secs) => fresh(&found, remaining_secs, out),
            Err(stale_secs) if stale_secs < self.stale_window => stale(&found, stale_secs, out),
            Err(_) => PacketLookup::Miss,
        }
    }

    /// First hint that a key with this hash will be looked up soon: its place in the index.
    #[inline]
    pub fn prefetch_index(&self, hash: u64) {
        self.store.prefetch_index(hash);
    }

    /// Second hint, once the first has had time: the entry itself. False if there will be none.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) -> bool {
        self.store.prefetch_entry(hash)
    }

    /// Stores a response: ID zero, its question at offset 12 equal to the key's, no OPT record;
    /// `ttl_offsets` are where its TTL fields begin. One that is not so is refused.
    pub fn insert(
        &self,
        hash: u64,
        key: &PacketKey<'_>,
        response: &[u8],
        ttl_offsets: &[u16],
        meta: &PacketMeta,
    ) -> Inserted {
        let question_end = HEADER_BYTES + key.question.len();
        let is_sound = response.get(HEADER_BYTES..question_end) == Some(key.question)
            && name::leading_name(key.question)
                .is_some_and(|qname| qname.len() + 4 == key.question.len())
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

    /// Removes the responses whose qname is `below` (folded wire form) or below it, for all
    /// profiles; the root removes everything. Returns how many there were.
    pub fn flush(&self, below: &[u8]) -> usize {
        self.store.retain(|_, payload| {
            let question = payload.get(HEADER_BYTES..).unwrap_or_default();
            !name::leading_name(question).is_some_and(|qname| name::is_at_or_below(qname, below))
        })
    }

    /// Shows the key of each response that is valid, its first twelve octets and the seconds left
    /// to it, until `visit` fails. No lock is held while it runs; what is stored meanwhile may be
    /// missed or seen twice.
    pub fn try_visit<E>(
        &self,
        now: u32,
        epoch: u32,
        mut visit: impl FnMut(&PacketKey<'_>, &[u8; HEADER_BYTES], u32) -> Result<(), E>,
    ) -> Result<(), E> {
        self.store.try_for_each(|meta, payload| {
            let Some((key, header)) = PacketKey::of_entry(meta, payload).zip(payload.first_chunk())
            else {
                return Ok(());
            };
            match meta.remaining(now) {
                Ok(remaining_secs) if meta.epoch == epoch => visit(&key, header, remaining_secs),
                _ => Ok(()),
            }
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

    /// Takes an entry back as [`Self::try_for_each`] showed it. False if it is none.
    pub(crate) fn restore(
        &self,
        meta: Meta,
        payload: &[u8],
        hash: impl Fn(&PacketKey<'_>) -> u64,
    ) -> bool {
        let count = meta.user as usize & MAX_TTL_OFFSETS;
        let Some(key) = PacketKey::of_entry(&meta, payload) else { return false };
        if payload.len() < HEADER_BYTES + key.question.len() + 2 * count + TRAILER_BYTES {
            return false;
        }
        let entry = EntryParts { meta, parts: [payload, &[]] };
        let same = |meta: &Meta, payload: &[u8]| key.is_key_of(meta, payload);
        self.store.insert(hash(&key), &entry, same, |_| true) == Inserted::Stored
    }
}

/// Writes what stands behind the message: `trailer` has room for just that.
fn write_trailer(trailer: &mut [u8], ttl_offsets: &[u16], meta: &PacketMeta) {
    let (offsets, rest) = trailer.split_at_mut(2 * ttl_offsets.len());
    for (place, offset) in offsets.as_chunks_mut::<2>().0.iter_mut().zip(ttl_offsets) {
        *place = offset.to_be_bytes();
    }
    // An info-code is at most 65,534, so that none is the one left over.
    let [high, low] = meta.ede.unwrap_or(u16::MAX).to_be_bytes();
    rest.copy_from_slice(&[high, low, meta.flags]);
}

#[inline]
fn fresh(found: &Found, remaining_secs: u32, out: &mut [u8]) -> PacketLookup {
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
    })
}

fn stale(found: &Found, stale_secs: u32, out: &mut [u8]) -> PacketLookup {
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

/// Clears AD: a verdict ends with the TTL, which is no longer than the signature says (RFC 4035
/// §5.3.3). A call of its own, so that a fresh hit does not pay for it.
#[cold]
#[inline(never)]
fn clear_ad(response: &mut [u8]) {
    if let (Some(header), Some(octets)) = (Header::read(response), response.first_chunk_mut()) {
        Header { flags: header.flags & !AD, ..header }.write(octets);
    }
}

/// A copied payload, taken apart.
struct Trailer<'a> {
    response: &'a mut [u8],
    offsets: &'a [[u8; 2]],
    ede: Option<u16>,
    flags: u8,
}

impl<'a> Trailer<'a> {
    /// `None` if the buffer was too short for the payload.
    #[inline]
    fn split(found: &Found, out: &'a mut [u8]) -> Option<Trailer<'a>> {
        let count = found.meta.user as usize & MAX_TTL_OFFSETS;
        let payload = out.get_mut(..found.len)?;
        let response_len = found.len.checked_sub(2 * count + TRAILER_BYTES)?;
        let (response, trailer) = payload.split_at_mut(response_len);
        let (offsets, rest) = trailer.as_chunks::<2>();
        let (offsets, ede) = offsets.split_at_checked(count)?;
        let ede = ede.first().map(|ede| u16::from_be_bytes(*ede)).filter(|ede| *ede != u16::MAX);
        Some(Trailer { response, offsets, ede, flags: *rest.first()? })
    }
}

impl Trailer<'_> {
    #[inline]
    fn rewrite_ttls(&mut self, ttl_of: impl Fn(u32) -> u32) {
        for offset in self.offsets {
            let at = usize::from(u16::from_be_bytes(*offset));
            if let Some(field) = self.response.get_mut(at..).and_then(|rest| rest.first_chunk_mut())
            {
                *field = ttl_of(u32::from_be_bytes(*field)).to_be_bytes();
            }
        }
    }
}
