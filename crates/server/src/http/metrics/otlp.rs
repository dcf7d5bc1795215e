//! The metrics of the export of traces.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Exposition, MetricType};
use crate::running::Running;

/// Writes the metrics of the export.
pub(super) fn write(metrics: &mut Exposition, running: &Running) {
    let counts = &running.otlp_counts;
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let taken = "Traces that the collector took.";
    metrics.counter("avocet_otlp_traces_total", taken, read(&counts.traces));
    metrics.counter(
        "avocet_otlp_spans_total",
        "Spans that the collector took.",
        read(&counts.spans),
    );
    metrics.counter(
        "avocet_otlp_rejected_spans_total",
        "Spans that the collector rejected of requests that it took.",
        read(&counts.rejected_spans),
    );
    let help = "Selected traces that were lost.";
    let mut dropped = metrics.family("avocet_otlp_dropped_total", MetricType::Counter, help);
    for (reason, count) in [
        ("limit", &counts.limit),
        ("queue", &counts.queue),
        ("backlog", &counts.backlog),
        ("refused", &counts.refused),
    ] {
        dropped.sample(&[("reason", reason)], read(count));
    }
    metrics.counter(
        "avocet_otlp_retries_total",
        "Requests to the collector that failed and are sent again.",
        read(&counts.retries),
    );
    metrics.gauge(
        "avocet_otlp_waiting_traces",
        "Traces that wait for the collector.",
        read(&counts.waiting),
    );
}
