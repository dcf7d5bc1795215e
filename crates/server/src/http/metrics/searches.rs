//! The metrics of searches in the query log.

use crate::http::exposition::{Exposition, MetricType};
use crate::query_log::searches::SearchCounts;

/// Writes the counts and the time of all searches.
pub(super) fn write(metrics: &mut Exposition, searches: &SearchCounts) {
    metrics.counter(
        "avocet_querylog_searches_total",
        "Searches in the files of the query log by the server.",
        searches.done,
    );
    metrics.counter(
        "avocet_querylog_searches_refused_total",
        "Searches in the query log without a turn, or without an end in time.",
        searches.refused,
    );
    metrics.counter(
        "avocet_querylog_searches_abandoned_total",
        "Searches in the query log that ended because their clients disconnected.",
        searches.abandoned,
    );
    metrics
        .family(
            "avocet_querylog_search_seconds_total",
            MetricType::Counter,
            "Time of the searches in the query log.",
        )
        .sample(&[], searches.time.as_secs_f64());
}
