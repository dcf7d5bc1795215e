//! The time since boot, including suspend (`CLOCK_BOOTTIME`). `std::time::Instant` stops while the
//! machine sleeps, but TTLs must not.

use std::mem::MaybeUninit;
use std::time::Duration;

/// Returns the time since boot, which never decreases.
#[inline]
#[must_use]
pub fn since_boot() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel writes one `timespec`, for which there is room.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, time.as_mut_ptr()) };
    debug_assert_eq!(code, 0, "the clock is part of Linux since 2.6.39");
    // SAFETY: integers only, zeroed above and then written by the kernel.
    let time = unsafe { time.assume_init() };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn it_goes_on_as_the_monotonic_clock_does() {
        let (before, began) = (since_boot(), Instant::now());
        while began.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert!(since_boot() - before >= Duration::from_millis(2));
    }
}
