//! A counting allocator, for tests and benches of code that must not allocate.
//!
//! A program installs it with `#[global_allocator] static ALLOCATOR: Counting = Counting;`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
    static MADE: Cell<Allocations> = const { Cell::new(Allocations { count: 0, bytes: 0 }) };
}

/// The system's allocator with a count per thread.
pub struct Counting;

/// Allocations made, including those that grow a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocations {
    /// Number of allocations.
    pub count: u64,
    /// Number of bytes that were requested in all allocations.
    pub bytes: u64,
}

impl Allocations {
    /// Counts the allocations of `work` on this thread. Always zero unless [`Counting`] is the
    /// global allocator.
    pub fn of(work: impl FnOnce()) -> Self {
        let before = MADE.get();
        work();
        let after = MADE.get();
        Self { count: after.count - before.count, bytes: after.bytes - before.bytes }
    }
}

/// Returns the bytes that this thread has requested and not freed. Zero unless [`Counting`] is the
/// global allocator.
#[must_use]
pub fn live_bytes() -> i64 {
    LIVE_BYTES.get()
}

// SAFETY: every call goes to the system's allocator unchanged, which upholds the contract; the
// counter is a constant-initialised thread-local without a destructor, which allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let made = MADE.get();
        MADE.set(Allocations { count: made.count + 1, bytes: made.bytes + layout.size() as u64 });
        LIVE_BYTES.set(LIVE_BYTES.get() + layout.size() as i64);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get() - layout.size() as i64);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[test]
    fn what_is_allocated_is_counted_in_number_and_bytes() {
        let boxed = Allocations::of(|| drop(std::hint::black_box(Box::new([0u8; 40]))));
        assert_eq!(boxed, Allocations { count: 1, bytes: 40 });
        let grown = Allocations::of(|| {
            let mut octets = std::hint::black_box(Vec::<u8>::with_capacity(10));
            octets.reserve_exact(20);
            drop(std::hint::black_box(octets));
        });
        assert_eq!(grown, Allocations { count: 2, bytes: 30 });
        assert_eq!(Allocations::of(|| ()), Allocations { count: 0, bytes: 0 });
        let before = live_bytes();
        let held = std::hint::black_box(vec![0u8; 1000]);
        assert_eq!(live_bytes() - before, 1000);
        drop(held);
        assert_eq!(live_bytes(), before);
    }
}
