//! The metrics of client connections, plain and encrypted.

use avocet_nameserver::metrics::{
    EARLY_TRANSPORTS, HANDSHAKES, HTTPS_ENDS, ODOH_REJECTIONS, QUIC_ENDS, QUIC_HANDSHAKES,
};
use avocet_worker::state::Shared;
use avocet_worker::state::proxied::PROXIED;

use super::super::exposition::{Exposition, Family, MetricType};
use super::total;

/// Writes the metrics of client connections, plain and encrypted.
pub(super) fn write(metrics: &mut Exposition, shared: &Shared) {
    streams(metrics, shared);
    quic(metrics, shared);
}

fn streams(metrics: &mut Exposition, shared: &Shared) {
    let help = "TLS handshakes of clients, by result.";
    let family = metrics.family("avocet_tls_handshakes_total", MetricType::Counter, help);
    sample_each(family, ("result", &HANDSHAKES), |place| {
        total(shared, |worker| worker.tls_handshakes[place].value())
    });
    let help = "Handshakes of clients that sent queries as early data.";
    let family = metrics.family("avocet_early_data_total", MetricType::Counter, help);
    sample_each(family, ("transport", &EARLY_TRANSPORTS), |place| {
        total(shared, |worker| worker.early_handshakes[place].value())
    });
    let help = "Connections of HTTPS that ended by a fault of the client, by reason.";
    let family = metrics.family("avocet_https_ended_total", MetricType::Counter, help);
    sample_each(family, ("reason", &HTTPS_ENDS), |place| {
        total(shared, |worker| worker.https_ends[place].value())
    });
    let help = "Oblivious queries that were rejected, by reason.";
    let family = metrics.family("avocet_odoh_rejected_total", MetricType::Counter, help);
    sample_each(family, ("reason", &ODOH_REJECTIONS), |place| {
        total(shared, |worker| worker.odoh_rejections[place].value())
    });
    let help = "Oblivious queries for other servers, by result.";
    let mut family = metrics.family("avocet_odoh_proxied_total", MetricType::Counter, help);
    for (result, count) in PROXIED.into_iter().zip(shared.proxied.results()) {
        family.sample(&[("result", result)], count);
    }
    metrics.counter(
        "avocet_odoh_configs_total",
        "Responses with the configurations for oblivious queries.",
        total(shared, |worker| worker.odoh_configs.value()),
    );
    metrics.gauge(
        "avocet_https_connections",
        "Open connections with HTTPS; they count among those with TLS too.",
        total(shared, |worker| worker.https_open.value()),
    );
    metrics.gauge(
        "avocet_tls_connections",
        "Open connections with TLS; they count among the TCP connections too.",
        total(shared, |worker| worker.tls_open.value()),
    );
    metrics.gauge(
        "avocet_tcp_connections",
        "Open TCP connections.",
        total(shared, |worker| worker.tcp_open.value()),
    );
}

fn quic(metrics: &mut Exposition, shared: &Shared) {
    let help = "QUIC handshakes of clients, by result.";
    let family = metrics.family("avocet_quic_handshakes_total", MetricType::Counter, help);
    sample_each(family, ("result", &QUIC_HANDSHAKES), |place| {
        total(shared, |worker| worker.quic_handshakes[place].value())
    });
    let help = "Connections of QUIC that ended by a fault of the client, by reason.";
    let family = metrics.family("avocet_quic_ended_total", MetricType::Counter, help);
    sample_each(family, ("reason", &QUIC_ENDS), |place| {
        total(shared, |worker| worker.quic_ends[place].value())
    });
    metrics.counter(
        "avocet_quic_refused_total",
        "Connections of QUIC ignored because the client is not allowed.",
        total(shared, |worker| worker.quic_refused.value()),
    );
    metrics.counter(
        "avocet_quic_rejected_total",
        "Connections of QUIC rejected by a limit.",
        total(shared, |worker| worker.quic_rejected.value()),
    );
    metrics.gauge(
        "avocet_quic_connections",
        "Open connections of QUIC.",
        total(shared, |worker| worker.quic_open.value()),
    );
}

/// Writes a sample for each value of a label. `count` gets the place of the value.
fn sample_each(
    mut family: Family<'_>,
    (label, values): (&str, &[&str]),
    count: impl Fn(usize) -> u64,
) {
    for (place, value) in values.iter().enumerate() {
        family.sample(&[(label, value)], count(place));
    }
}
