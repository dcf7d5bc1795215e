//! The atomics and the lock of the store, from the standard library or, for model tests, from loom.
//! The lock is that of `std` and not of parking_lot. Only writers hold it, for a few hundred
//! nanoseconds, so avoiding a dependency is worth more than a smaller lock.

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering, fence},
    },
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering, fence},
    },
};

/// Returns zeroed words on fresh pages of the system. A page that was not written yet takes address
/// space but no memory.
#[cfg(not(loom))]
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    bytemuck::zeroed_slice_box(count)
}

/// Returns zeroed words that loom tracks.
#[cfg(loom)]
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}
