//! The memory and the CPU time of this process, as Linux counts them.

use std::fs;

/// Returns a size of `/proc/self/status` in KiB.
fn status(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// A phase whose memory is measured.
pub(crate) struct Phase {
    before_kib: u64,
}

impl Phase {
    /// Begins a phase, and resets the peak.
    pub(crate) fn begin() -> Self {
        // Without permission to reset it, the peak is that of the whole run: too high, never too
        // low.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { before_kib: status("VmRSS") }
    }

    /// Returns the MiB by which the peak of the memory exceeds the memory before the phase.
    pub(crate) fn peak_mib(&self) -> f64 {
        status("VmHWM").saturating_sub(self.before_kib) as f64 / 1024.0
    }
}

/// Returns the seconds that this thread has run on a core. Other work of the machine does not
/// count.
pub(crate) fn cpu_secs() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.expect("Linux counts the time of threads") / 1e9
}
