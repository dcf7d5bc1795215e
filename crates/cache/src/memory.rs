//! Memory hints for the caches: the only place of this crate with `unsafe`.
//!
//! A look-up of a name that was not requested recently waits for memory twice, once for the index
//! and once for the entry: about 100 ns each, and longer on a TLB miss. The caller therefore
//! prefetches both for a whole batch of names. The index, whose cells are accessed uniformly, uses
//! large pages where the system supports them.

#![allow(unsafe_code)]

use crate::sync::AtomicU64;

/// Octets of a large page.
#[cfg(all(target_os = "linux", not(loom)))]
const LARGE_PAGE: usize = 2 << 20;

/// Prefetches the cache line of a word without reading it.
#[inline]
pub(crate) fn prefetch_line_of(word: &AtomicU64) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that cannot fault, and the address is that of a live word.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = word;
}

/// Asks the system to use large pages for the words. A partial page stays as it is.
pub(crate) fn prefer_large_pages(words: &[AtomicU64]) {
    #[cfg(all(target_os = "linux", not(loom)))]
    {
        let begin = (words.as_ptr() as usize).next_multiple_of(LARGE_PAGE);
        let end = (words.as_ptr() as usize + size_of_val(words)) / LARGE_PAGE * LARGE_PAGE;
        if begin < end {
            // SAFETY: the range lies within `words`, which this process owns. The advice changes
            // how the kernel maps the pages but not their content, and its failure has no effect.
            unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(loom))))]
    let _ = words;
}
