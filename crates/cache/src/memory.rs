//! Memory hints for the caches: the only place of this crate with `unsafe`.
//!
//! A look-up of a name that was not requested recently waits for memory twice, once for the index
//! and once for the entry: about 100 ns each, and longer on a TLB miss. The caller therefore
//! prefetches both for a whole batch of names. The index, whose cells are accessed uniformly, uses
//! large pages where the system supports them.

#![allow(unsafe_code)]

use crate::sync::AtomicU64;

/// Number of octets of a large page.
#[cfg(all(target_os = "linux", not(loom)))]
const LARGE_PAGE: usize = 2 << 20;

/// Prefetches the cache line of a word without reading it.
#[inline]
pub(crate) fn prefetch_line_of(word: &AtomicU64) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is only a hint, so that it cannot fail. The address is that of a live
        // word.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = word;
}

/// Requests large pages for the words from the system, and requests that the system provides these
/// pages immediately. A part of a page at either end is left unchanged.
///
/// The first hundred names access all large pages of an index, and the system clears two megabytes
/// when a page is first accessed. This function makes that happen before the first query.
pub(crate) fn take_large_pages(words: &[AtomicU64]) {
    #[cfg(all(target_os = "linux", not(loom)))]
    {
        let begin = (words.as_ptr() as usize).next_multiple_of(LARGE_PAGE);
        let end = (words.as_ptr() as usize + size_of_val(words)) / LARGE_PAGE * LARGE_PAGE;
        if begin < end {
            for advice in [libc::MADV_HUGEPAGE, libc::MADV_POPULATE_WRITE] {
                // SAFETY: the range lies within `words`, which this process owns. Both kinds of
                // advice change how the kernel maps the pages, but not their contents. If the
                // advice fails (Linux before 5.14 does not support the second kind), it has no
                // effect.
                unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, advice) };
            }
        }
    }
    #[cfg(not(all(target_os = "linux", not(loom))))]
    let _ = words;
}
