//! The atomics of the ring. They come from the standard library, or from loom, which tests all
//! orders of the threads' steps.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Returns `count` words that are zero. The system allocates their memory at the first use, so an
/// unused ring takes no memory.
#[cfg(not(loom))]
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    bytemuck::zeroed_slice_box(count)
}

/// Returns `count` words that are zero.
#[cfg(loom)]
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}
