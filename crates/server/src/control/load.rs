//! The load of the server for `avocet status --load`.

use std::fs;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use avocet_cache::StoreStats;
use avocet_control::load::{
    CacheKind, CacheMemory, LatencyHistogram, LogWriterLoad, MemoryLoad, ServerLoad, WorkerLoad,
};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::metrics::{Latencies, Stage, WorkerMetrics};
use avocet_nameserver::query::asked::Transport;

use super::zones;
use crate::running::Running;
use avocet_worker::state::Shared;

/// Returns the load of the server.
pub(super) fn of(running: &Running) -> ServerLoad {
    let shared = &running.shared;
    ServerLoad {
        at: wall_secs(),
        uptime_secs: running.uptime_secs(),
        workers: (0..shared.metrics.len()).map(|index| worker(shared, index)).collect(),
        memory: MemoryLoad {
            resident_bytes: resident_bytes(),
            list_image_bytes: list_image_bytes(shared),
            zone_bytes: zones::status(running).iter().map(|zone| zone.octets as u64).sum(),
            caches: caches(shared),
        },
        query_log: query_log(running),
    }
}

fn worker(shared: &Shared, index: usize) -> WorkerLoad {
    let metrics = &shared.metrics[index];
    let report = *shared.loads[index].lock().unwrap_or_else(PoisonError::into_inner);
    WorkerLoad {
        worker: index as u16,
        queries: metrics.queries.iter().map(|counter| counter.value()).sum(),
        datagrams: metrics.queries[Transport::Udp as usize].value(),
        batches: metrics.batches.value(),
        cpu_us: report.cpu_us,
        recent: report.recent,
        hit_latency: histogram(&metrics.hit_latency),
        miss_latency: histogram(&metrics.miss_latency),
        overflows: metrics.overflows.value(),
        replies_dropped: metrics.replies_dropped.value(),
    }
}

fn histogram(latencies: &Latencies) -> LatencyHistogram {
    let (counts, sum_us) = latencies.read();
    LatencyHistogram::of_powers(&counts, sum_us)
}

fn list_image_bytes(shared: &Shared) -> u64 {
    let state = shared.snapshot();
    state.parts.lists.as_ref().map_or(0, |lists| lists.octets() as u64)
}

fn caches(shared: &Shared) -> Vec<CacheMemory> {
    let total =
        |count: fn(&WorkerMetrics) -> u64| -> u64 { shared.metrics.iter().map(count).sum() };
    let name_server = &shared.name_server;
    let packet_hits = total(|worker| worker.stages[Stage::PacketHit as usize].value());
    let rrset_hits = total(|worker| worker.stages[Stage::RrsetHit as usize].value());
    let failure_hits = total(|worker| worker.stages[Stage::FailureHit as usize].value());
    let packet_misses = total(|worker| worker.packet_misses());
    let rrset_misses = total(|worker| worker.rrset_misses());
    vec![
        cache(CacheKind::Packet, &name_server.packets.stats(), (packet_hits, Some(packet_misses))),
        cache(CacheKind::Rrset, &name_server.rrsets.stats(), (rrset_hits, Some(rrset_misses))),
        cache(CacheKind::Failure, &name_server.failures.stats(), (failure_hits, None)),
    ]
}

fn cache(cache: CacheKind, stats: &StoreStats, (hits, misses): (u64, Option<u64>)) -> CacheMemory {
    let asked = misses.map(|misses| hits + misses).filter(|asked| *asked > 0);
    CacheMemory {
        cache,
        entries: stats.entries,
        bytes: stats.bytes_used as u64,
        bytes_limit: stats.bytes_limit as u64,
        hits,
        misses,
        hit_ratio: asked.map(|asked| hits as f64 / asked as f64),
        evictions: stats.evicted_unvisited + stats.evicted_main + stats.evicted_bucket,
        expired: stats.outlived,
    }
}

fn query_log(running: &Running) -> LogWriterLoad {
    let log = &running.query_log;
    let counts = &log.counts;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (entries, work_us) = (read(&counts.taken), read(&counts.work_us));
    let [ring_fill, ring_peak] = counts.fills();
    LogWriterLoad {
        writes: log.written().is_some(),
        entries,
        dropped: read(&counts.dropped),
        written: read(&counts.written),
        lost: read(&counts.lost) + read(&counts.damaged),
        octets: read(&counts.octets),
        stored_octets: read(&counts.stored_octets),
        ring_fill,
        ring_peak,
        entries_per_sec: log.rates.report().queries,
        work_us,
        speed: (work_us > 0).then(|| entries as f64 * 1e6 / work_us as f64),
    }
}

/// Returns the memory of this process that is in RAM, in octets (proc_pid_status(5)).
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
