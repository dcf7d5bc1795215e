//! The caches of the server: the [packet cache](PacketCache) of final answers, the [RRset
//! cache](RrsetCache) of data received from the network, and the [failure cache](FailureCache) of
//! RFC 9520. All three are built on one byte store of fixed size with S3-FIFO eviction.
//!
//! The crate has no clock, socket or policy. Time is `now: u32`, seconds of a monotonic clock that
//! the caller chooses. Ages are computed modulo 2^32 and never below zero, so a clock that steps
//! back makes no entry older and raises no TTL.

#![deny(unsafe_code)]

mod failure;
mod lengths;
mod memory;
mod name;
mod packet;
mod rrset;
mod snapshot;
mod store;
mod sync;

pub use failure::{Failure, FailureCache, FailureKey};
pub use packet::{
    PacketCache, PacketHit, PacketKey, PacketLookup, PacketMeta, PacketStale, STALE_TTL_SECS,
    StoredPacket, packet_flags,
};
pub use rrset::{
    Cached, Freshness, Held, Negative, NegativeKind, NegativeRecord, NegativeView, Provenance,
    Rank, Rdatas, ReadAt, ReceivedRrset, RrsetCache, RrsetKey, RrsetView, Security, TtlBounds,
    Unsupported,
};
pub use snapshot::{SnapshotCounts, SnapshotError, SnapshotMoment, load, save};
pub use store::{BudgetTooSmall, Inserted, MAX_PAYLOAD_BYTES, StoreStats};
