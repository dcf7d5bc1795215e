//! What the memory under the caches is told: the one place of this crate with `unsafe`.
//!
//! A look-up of a name that was not asked for lately waits for memory twice, for the index and for
//! the entry, some 100 ns each, and longer where the page is not known to the processor either.
//! Whoever has a batch of names asks for all of that memory first; and the index, in which every
//! place is as likely as any other, lies in large pages where the system has them.

#![allow(unsafe_code)]

use crate::sync::AtomicU64;

/// Octets of a large page.
#[cfg(all(target_os = "linux", not(loom)))]
const LARGE_PAGE: usize = 2 << 20;

/// Asks the processor for the cache line of a word. Nothing is read.
#[inline]
pub(crate) fn prefetch_line_of(word: &AtomicU64) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that faults on no address; this one is of a live word.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = word;
}

/// Asks the system to put the words into large pages. What does not fill one stays as it is.
pub(crate) fn prefer_large_pages(words: &[AtomicU64]) {
    #[cfg(all(target_os = "linux", not(loom)))]
    {
        let begin = (words.as_ptr() as usize).next_multiple_of(LARGE_PAGE);
        let end = (words.as_ptr() as usize + size_of_val(words)) / LARGE_PAGE * LARGE_PAGE;
        if begin < end {
            // SAFETY: the range lies within `words`, which are ours. The advice changes how the
            // kernel maps their pages and not what they hold; where it is not taken, nothing
            // happens.
            unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(loom))))]
    let _ = words;
}
