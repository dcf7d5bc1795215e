//! The reply about the load of the server: its workers, its memory, and the writer of the query
//! log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// The load of the server. All counts begin at the start of the server. To get the counts of a
/// period, subtract the reply at its beginning from the reply at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ServerLoad {
    /// The Unix second at which the reply was made.
    pub at: u64,
    /// The number of seconds since the start of the server.
    pub uptime_secs: u64,
    /// The load of each worker, in the order of the indexes.
    pub workers: Vec<WorkerLoad>,
    /// The memory that the server uses.
    pub memory: MemoryLoad,
    /// The load of the thread that writes the query log.
    pub query_log: LogWriterLoad,
}

/// The load of a worker: a thread that answers queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WorkerLoad {
    /// The index of the worker, from 0.
    pub worker: u16,
    /// The number of queries over all transports.
    pub queries: u64,
    /// The number of queries over UDP.
    pub datagrams: u64,
    /// The number of batches in which these datagrams arrived. The worker receives several
    /// datagrams at once.
    pub batches: u64,
    /// CPU time of the thread in microseconds, in user mode and in the kernel.
    pub cpu_us: u64,
    /// The load of the worker over the last ten seconds.
    pub recent: RecentLoad,
    /// The times to answer queries that did not wait for the network (hits). Queries that arrive in
    /// one batch count with the same time.
    pub hit_latency: LatencyHistogram,
    /// The times to answer queries that waited for the network (misses).
    pub miss_latency: LatencyHistogram,
    /// Datagrams that the kernel discarded because the receive queue of the worker was full.
    pub overflows: u64,
    /// Responses over UDP that the kernel did not accept, so that they were not sent.
    pub replies_dropped: u64,
}

/// The load of a worker over the last ten seconds. If the server started later, the load since the
/// start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RecentLoad {
    /// The number of seconds over which the load was measured; 0 immediately after the start.
    pub secs: f64,
    /// The share of the time of one CPU core that the worker used, from 0 to 1.
    pub cpu_share: f64,
    /// The number of queries per second over all transports.
    pub queries: f64,
    /// The average number of datagrams in a batch; null if no datagram arrived.
    pub queries_per_batch: Option<f64>,
}

/// A histogram of the times to answer queries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LatencyHistogram {
    /// The number of queries in the histogram.
    pub queries: u64,
    /// The sum of the times of these queries in microseconds.
    pub sum_us: u64,
    /// The time in microseconds within which half of the queries were answered, rounded up to a
    /// power of two. Null without queries, or if this time is above the highest bound.
    pub median_us: Option<u64>,
    /// The time in microseconds within which 95 of 100 queries were answered, rounded up to a power
    /// of two. Null without queries, or if this time is above the highest bound.
    pub p95_us: Option<u64>,
    /// The time in microseconds within which 99 of 100 queries were answered, rounded up to a power
    /// of two. Null without queries, or if this time is above the highest bound.
    pub p99_us: Option<u64>,
    /// The classes that contain queries, the class with the lowest bound first.
    pub classes: Vec<LatencyClass>,
}

/// A class of a histogram: queries with similar times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LatencyClass {
    /// The upper bound of the class in microseconds. The queries of the class took at most this
    /// time, and more than half of this time. Null for the class above the highest bound.
    pub up_to_us: Option<u64>,
    /// The number of queries in the class.
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

/// The memory that the server uses, in octets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct MemoryLoad {
    /// The memory of the process that is in RAM; null if the system does not report it.
    pub resident_bytes: Option<u64>,
    /// The memory of the compiled form of all lists.
    pub list_image_bytes: u64,
    /// The memory of the hosted zones.
    pub zone_bytes: u64,
    /// The memory and use of each cache.
    pub caches: Vec<CacheMemory>,
}

words! {
    /// The name of a cache.
    pub enum CacheKind {
        /// The packet cache: complete responses.
        Packet = "packet",
        /// The RRset cache: RRsets and negative answers, from which the server assembles responses.
        Rrset = "rrset",
        /// The failure cache: questions that could not be resolved.
        Failure = "failure",
    }
}

/// The memory and use of a cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CacheMemory {
    /// The name of the cache.
    pub cache: CacheKind,
    /// The number of entries now.
    pub entries: u64,
    /// The number of octets that the cache uses now.
    pub bytes: u64,
    /// The maximum number of octets that the cache may use.
    pub bytes_limit: u64,
    /// The number of queries that the cache answered.
    pub hits: u64,
    /// The number of queries that were looked up in the cache and not answered from it. Null for
    /// the failure cache, which does not count them.
    pub misses: Option<u64>,
    /// The share of answered queries among all queries that were looked up in the cache, from 0 to
    /// 1. Null if there were none, and for the failure cache.
    pub hit_ratio: Option<f64>,
    /// Entries that the cache removed for lack of room.
    pub evictions: u64,
    /// Entries that the cache removed because they had expired.
    pub expired: u64,
}

/// The load of the thread that writes the query log. Each worker passes its entries to this thread
/// through a ring: a buffer in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LogWriterLoad {
    /// Whether the thread writes entries to files. It does not while the query log is off or the
    /// files cannot be written.
    pub writes: bool,
    /// The number of entries that the thread took from the rings.
    pub entries: u64,
    /// Entries that were lost because the ring of a worker was full.
    pub dropped: u64,
    /// The number of entries that were written to files.
    pub written: u64,
    /// Entries that were lost because they could not be written, or because their part of a file
    /// was damaged.
    pub lost: u64,
    /// The number of octets that were written to new files. The server later rewrites these files
    /// as smaller ones.
    pub octets: u64,
    /// The total size of all files of the log in octets.
    pub stored_octets: u64,
    /// The share of the fullest ring that was in use at the last look of the thread, from 0 to 1.
    /// At 1, the ring is full and entries are lost.
    pub ring_fill: f64,
    /// The highest value of `ring_fill` since the start, from 0 to 1.
    pub ring_peak: f64,
    /// The number of entries per second, measured over at most the last minute.
    pub entries_per_sec: f64,
    /// The total time in microseconds that the thread has worked on entries.
    pub work_us: u64,
    /// The number of entries per second that the thread could process at its speed so far. Null
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
