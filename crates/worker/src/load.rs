//! The recent load of a worker: the CPU time and the queries of its thread over the last seconds.

use std::collections::VecDeque;

use avocet_control::load::RecentLoad;
use avocet_io::process::thread_cpu_us;
use avocet_nameserver::clock::Moment;
use avocet_nameserver::metrics::WorkerMetrics;
use avocet_nameserver::query::asked::Transport;

use crate::load_report::LoadReport;

/// Maximum number of samples. A worker takes two samples per second, so the samples cover ten
/// seconds.
const MAX_SAMPLES: usize = 21;

/// The counts of a worker at one time.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LoadSample {
    at_us: u64,
    cpu_us: u64,
    queries: u64,
    datagrams: u64,
    batches: u64,
}

/// Samples of the load in the last seconds. The earliest sample is first.
#[derive(Default)]
pub(super) struct LoadSamples(VecDeque<LoadSample>);

impl LoadSamples {
    /// Adds a sample, and returns the load since the earliest sample.
    pub(super) fn note(&mut self, last: LoadSample) -> LoadReport {
        if self.0.len() >= MAX_SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back(last);
        let first = self.0.front().copied().unwrap_or(last);
        LoadReport { cpu_us: last.cpu_us, recent: first.until(last) }
    }
}

impl LoadSample {
    /// Reads the counters of the calling worker.
    pub(super) fn read(now: Moment, metrics: &WorkerMetrics) -> Self {
        Self {
            at_us: now.micros(),
            cpu_us: thread_cpu_us(),
            queries: metrics.queries.iter().map(|counter| counter.value()).sum(),
            datagrams: metrics.queries[Transport::Udp as usize].value(),
            batches: metrics.batches.value(),
        }
    }

    fn until(self, last: Self) -> RecentLoad {
        let secs = last.at_us.saturating_sub(self.at_us) as f64 / 1e6;
        if secs <= 0.0 {
            return RecentLoad::default();
        }
        let batches = last.batches - self.batches;
        let in_batches = (last.datagrams - self.datagrams) as f64;
        RecentLoad {
            secs,
            cpu_share: (last.cpu_us.saturating_sub(self.cpu_us) as f64 / 1e6 / secs).min(1.0),
            queries: (last.queries - self.queries) as f64 / secs,
            queries_per_batch: (batches > 0).then(|| in_batches / batches as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_that_of_the_last_ten_seconds() {
        let (mut samples, mut now) = (LoadSamples::default(), LoadSample::default());
        assert_eq!(samples.note(now).recent, RecentLoad::default());
        let mut found = LoadReport::default();
        // The worker is idle for twenty seconds, and then busy for ten.
        for half_secs in 1..=60 {
            now.at_us += 500_000;
            if half_secs > 40 {
                now.cpu_us += 125_000;
                now.queries += 50;
                now.datagrams += 40;
                now.batches += 4;
            }
            found = samples.note(now);
        }
        let queries_per_batch = Some(10.0);
        let recent = RecentLoad { secs: 10.0, cpu_share: 0.25, queries: 100.0, queries_per_batch };
        assert_eq!((found.recent, found.cpu_us), (recent, 2_500_000));
    }
}
