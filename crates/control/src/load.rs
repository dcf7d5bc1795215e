//! The reply about the load of the server: its workers, its memory, and the writer of the query
//! log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// The load of the server. All counts begin at the start of the process: the difference between two
/// replies covers the time between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ServerLoad {
    /// The Unix second of this reply.
    pub at: u64,
    /// Seconds since the start.
    pub uptime_secs: u64,
    /// The workers, in the order of their indexes.
    pub workers: Vec<WorkerLoad>,
    /// The memory.
    pub memory: MemoryLoad,
    /// The writer of the query log.
    pub query_log: LogWriterLoad,
}

/// The load of a worker, which is one thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WorkerLoad {
    /// The index of the worker, from 0.
    pub worker: u16,
    /// Queries over all transports.
    pub queries: u64,
    /// Queries over UDP.
    pub datagrams: u64,
    /// Batches in which datagrams were received.
    pub batches: u64,
    /// CPU time of the thread in microseconds, in user mode and in the kernel.
    pub cpu_us: u64,
    /// The load over the last seconds.
    pub recent: RecentLoad,
    /// Times to answer queries that did not wait for the network. Each query counts with the time
    /// of its batch.
    pub hit_latency: LatencyHistogram,
    /// Times to answer queries that waited for the network.
    pub miss_latency: LatencyHistogram,
    /// Datagrams that the kernel discarded because the queue of the worker was full.
    pub overflows: u64,
    /// Responses over UDP that the kernel did not accept.
    pub replies_dropped: u64,
}

/// The load of a worker over the last ten seconds, or since the start if that is later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RecentLoad {
    /// The seconds over which it was measured; 0 right after the start.
    pub secs: f64,
    /// The share of one core that the thread used, from 0 to 1.
    pub cpu_share: f64,
    /// Queries a second, over all transports.
    pub queries: f64,
    /// Queries in a batch of datagrams, on average; none without a batch.
    pub queries_per_batch: Option<f64>,
}

/// A histogram of times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LatencyHistogram {
    /// The number of queries.
    pub queries: u64,
    /// The sum of their times in microseconds.
    pub sum_us: u64,
    /// The median: half of the queries took at most this number of microseconds, rounded up to a
    /// power of two. None without queries, or if the median is above all bounds.
    pub median_us: Option<u64>,
    /// The time in microseconds within which 95 of 100 queries were answered, rounded like the
    /// median.
    pub p95_us: Option<u64>,
    /// The time in microseconds within which 99 of 100 queries were answered, rounded like the
    /// median.
    pub p99_us: Option<u64>,
    /// The classes with queries, by their bounds.
    pub classes: Vec<LatencyClass>,
}

/// A class of a histogram.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LatencyClass {
    /// The upper bound of the class in microseconds: its queries took at most this time, and more
    /// than half of it. None for the class above all bounds.
    pub up_to_us: Option<u64>,
    /// The number of queries.
    pub queries: u64,
}

impl LatencyHistogram {
    /// Creates a histogram from the counts of classes. Class `n` has times of up to 2 to the power
    /// `n` microseconds, and the last class has all longer times.
    pub fn of_powers(counts: &[u64], sum_us: u64) -> Self {
        let bound = |class: usize| (class + 1 < counts.len()).then(|| 1 << class);
        let queries = counts.iter().sum();
        let within = |percent: u64| {
            let mut counted = 0;
            let class = counts.iter().position(|count| {
                counted += count;
                counted > 0 && counted * 100 >= queries * percent
            });
            class.and_then(bound)
        };
        let classes = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Self {
            queries,
            sum_us,
            median_us: within(50),
            p95_us: within(95),
            p99_us: within(99),
            classes: classes
                .map(|(class, queries)| LatencyClass { up_to_us: bound(class), queries: *queries })
                .collect(),
        }
    }
}

/// The memory of the server in octets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct MemoryLoad {
    /// Memory of the process that is in RAM; none if the system does not report it.
    pub resident_bytes: Option<u64>,
    /// The compiled form of all lists (the image).
    pub list_image_bytes: u64,
    /// The hosted zones.
    pub zone_bytes: u64,
    /// The caches.
    pub caches: Vec<CacheMemory>,
}

words! {
    /// A cache.
    pub enum CacheKind {
        /// Complete responses.
        Packet = "packet",
        /// RRsets and negative answers, from which responses are assembled.
        Rrset = "rrset",
        /// Failures of resolution.
        Failure = "failure",
    }
}

/// The memory of a cache, and its use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CacheMemory {
    /// The cache.
    pub cache: CacheKind,
    /// Entries.
    pub entries: u64,
    /// Number of octets in use.
    pub bytes: u64,
    /// Number of octets that it may use.
    pub bytes_limit: u64,
    /// Queries that it answered.
    pub hits: u64,
    /// Queries that reached the cache and that it did not answer; none for the failure cache, which
    /// does not count them.
    pub misses: Option<u64>,
    /// The share of hits among hits and misses, from 0 to 1; none without queries.
    pub hit_ratio: Option<f64>,
    /// Entries that left because the cache was full.
    pub evictions: u64,
    /// Entries that left because they had expired.
    pub expired: u64,
}

/// The state of the thread that writes the query log. It reads the entries from one ring per
/// worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogWriterLoad {
    /// Whether the thread writes files.
    pub writes: bool,
    /// Entries that the thread took from the workers.
    pub entries: u64,
    /// Entries lost because the ring of a worker was full.
    pub dropped: u64,
    /// Entries written to files.
    pub written: u64,
    /// Entries lost because they could not be written or were damaged.
    pub lost: u64,
    /// Number of octets written to new files. The server later merges these files into smaller
    /// ones.
    pub octets: u64,
    /// Number of octets of all files of the log.
    pub stored_octets: u64,
    /// The share of the fullest ring that was in use at the thread's last check, from 0 to 1. If a
    /// ring is full, entries are dropped.
    pub ring_fill: f64,
    /// The greatest value of `ring_fill` since the start.
    pub ring_peak: f64,
    /// Entries per second, over at most the last minute.
    pub entries_per_sec: f64,
    /// The time in microseconds that the thread has worked on entries.
    pub work_us: u64,
    /// The number of entries that the thread could take in a second, by its speed so far; none
    /// before the first entry.
    pub speed: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_the_bounds_of_its_shares() {
        let found = LatencyHistogram::of_powers(&[0, 0, 50, 45, 0, 4, 1], 700);
        assert_eq!((found.queries, found.sum_us), (100, 700));
        assert_eq!((found.median_us, found.p95_us, found.p99_us), (Some(4), Some(8), Some(32)));
        let classes: Vec<_> =
            found.classes.iter().map(|class| (class.up_to_us, class.queries)).collect();
        assert_eq!(classes, [(Some(4), 50), (Some(8), 45), (Some(32), 4), (None, 1)]);
        assert_eq!(LatencyHistogram::of_powers(&[0, 0, 9], 1).median_us, None);
        assert_eq!(LatencyHistogram::of_powers(&[0; 4], 0), LatencyHistogram::default());
    }
}
