//! The atomics and the lock of the store, from the standard library or, in the model, from loom.
//! The lock is `std`'s rather than parking_lot's: only writers hold it, for a few hundred
//! nanoseconds, so its larger size matters less than one dependency saved.

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

/// Returns zeroed words on fresh pages of the system: an unwritten page costs address space but no
/// memory.
#[cfg(not(loom))]
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    bytemuck::zeroed_slice_box(count)
}

/// Returns zeroed words that loom tracks.
#[cfg(loom)]
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}
