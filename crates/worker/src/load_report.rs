//! The report of a worker on its load. The worker publishes it about twice a second, and the API
//! and metrics read it.

use avocet_control::load::RecentLoad;

/// The load of a worker when it was last published.
#[derive(Clone, Copy, Default, Debug)]
pub struct LoadReport {
    /// CPU time of the thread in microseconds, in user mode and in the kernel.
    pub cpu_us: u64,
    /// The load of the last seconds.
    pub recent: RecentLoad,
}
