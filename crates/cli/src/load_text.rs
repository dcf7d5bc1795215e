//! The text of `avocet status --load`.

use avocet_control::load::{
    CacheMemory, LatencyHistogram, LogWriterLoad, MemoryLoad, ServerLoad, WorkerLoad,
};

/// Returns the text of the load.
pub(crate) fn text(load: &ServerLoad) -> String {
    let workers = load.workers.iter().map(worker_text);
    let caches = load.memory.caches.iter().map(cache_text);
    let rest = [memory_text(&load.memory), log_text(&load.query_log)];
    workers.chain(caches).chain(rest).collect::<Vec<_>>().join("\n")
}

fn worker_text(one: &WorkerLoad) -> String {
    let recent = &one.recent;
    let batch = recent.queries_per_batch.map(|queries| format!(", {queries:.1} a batch"));
    let mut text = format!(
        "worker {}: {} queries, {:.1} a second{}, CPU {:.1} %",
        one.worker,
        one.queries,
        recent.queries,
        batch.unwrap_or_default(),
        recent.cpu_share * 100.0
    );
    for (what, latency) in [("hits", &one.hit_latency), ("misses", &one.miss_latency)] {
        text += &latency_text(what, latency);
    }
    text
}

fn latency_text(what: &str, latency: &LatencyHistogram) -> String {
    match (latency.median_us, latency.p99_us) {
        (Some(median), Some(p99)) => {
            format!("; {} {what}, half within {median} us, 99 % within {p99} us", latency.queries)
        }
        _ => format!("; {} {what}", latency.queries),
    }
}

fn cache_text(one: &CacheMemory) -> String {
    let ratio = one.hit_ratio.map(|ratio| format!(", {:.1} % hits", ratio * 100.0));
    format!(
        "cache {}: {} entries, {} of {}{}",
        one.cache,
        one.entries,
        octets(one.bytes),
        octets(one.bytes_limit),
        ratio.unwrap_or_default()
    )
}

fn memory_text(memory: &MemoryLoad) -> String {
    let resident = memory.resident_bytes.map(|bytes| format!("{} in RAM, ", octets(bytes)));
    format!(
        "memory: {}lists {}, zones {}",
        resident.unwrap_or_default(),
        octets(memory.list_image_bytes),
        octets(memory.zone_bytes)
    )
}

fn log_text(log: &LogWriterLoad) -> String {
    if !log.writes && log.entries == 0 {
        return "query log: not written".to_owned();
    }
    let speed = log.speed.map(|speed| format!(", at a speed of {speed:.0} a second"));
    format!(
        "query log: {} entries, {:.1} a second, {} dropped, {} lost, {} in files; rings {:.1} % \
         full, at most {:.1} %{}",
        log.entries,
        log.entries_per_sec,
        log.dropped,
        log.lost,
        octets(log.stored_octets),
        log.ring_fill * 100.0,
        log.ring_peak * 100.0,
        speed.unwrap_or_default()
    )
}

/// Returns a number of octets with its unit.
fn octets(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}
