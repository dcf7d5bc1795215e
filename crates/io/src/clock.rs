//! The time since boot, including suspend (`CLOCK_BOOTTIME`). `std::time::Instant` stops while the
//! machine sleeps, but TTLs must not.

use std::mem::MaybeUninit;

/// Returns the microseconds since boot, which never decrease.
#[inline]
#[must_use]
pub fn micros_since_boot() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel writes one `timespec`, for which there is room.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, time.as_mut_ptr()) };
    debug_assert_eq!(code, 0, "the clock is part of Linux since 2.6.39");
    // SAFETY: all fields are integers, zeroed above and then written by the kernel.
    let time = unsafe { time.assume_init() };
    time.tv_sec as u64 * 1_000_000 + (time.tv_nsec as u32 / 1_000) as u64
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn it_goes_on_as_the_monotonic_clock_does() {
        let (before, began) = (micros_since_boot(), Instant::now());
        while began.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert!(micros_since_boot() - before >= 2_000);
    }

    /// The environment variable that marks the child process of the test. The child runs in a time
    /// namespace.
    const IS_CHILD: &str = "AVOCET_TEST_BOOT_CLOCK";
    const SLEPT_SECS: &str = "1000000";

    /// A time namespace moves the boot clock but not the monotonic clock, as suspend does.
    #[test]
    fn time_in_suspend_counts() {
        if std::env::var_os(IS_CHILD).is_some() {
            println!("since boot: {} s", micros_since_boot() / 1_000_000);
            return;
        }
        let name = "clock::tests::time_in_suspend_counts";
        let child = Command::new("unshare")
            .args(["--time", "--boottime", SLEPT_SECS])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(IS_CHILD, "yes")
            .output();
        let Some(child) = child.ok().filter(|child| child.status.success()) else {
            eprintln!("skipped: time namespaces need root and `unshare` of util-linux");
            return;
        };
        let text = String::from_utf8(child.stdout).unwrap();
        let secs = text.split("since boot: ").nth(1).and_then(|rest| rest.split(' ').next());
        let secs: u64 = secs.expect("a time").parse().unwrap();
        let slept = SLEPT_SECS.parse::<u64>().unwrap();
        assert!(secs >= slept + micros_since_boot() / 1_000_000 - 60, "{text}");
    }
}
