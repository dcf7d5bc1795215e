//! The atomics and the lock of the store: those of the standard library, or loom's while its
//! model runs. The lock is `std`'s, not parking_lot's: it is held for some hundred nanoseconds by
//! writers alone, and one dependency less is worth more than its smaller size.

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

/// Words of zero, taken from the system as zeroed pages: a page that was never written costs
/// address space, not memory.
#[cfg(not(loom))]
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    bytemuck::zeroed_slice_box(count)
}

/// Words of zero, each known to loom.
#[cfg(loom)]
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}
