//! Metrics of certificates: their expiry, and the renewals of those that the server obtains.

use std::collections::BTreeMap;

use crate::http::exposition::{Exposition, MetricType};
use crate::running::{Running, shown_certificates};

/// Writes the expiry of each certificate, and the renewals of the certificate of `[acme]`.
pub(super) fn write(metrics: &mut Exposition, running: &Running) {
    expiry(metrics, running);
    renewals(metrics, running);
}

/// Writes the results of the attempts to obtain a certificate, and the time of the next attempt.
fn renewals(metrics: &mut Exposition, running: &Running) {
    let Some(shown) = running.acme.shown() else { return };
    let [successes, failures] = running.acme.counts();
    let mut family = metrics.family(
        "avocet_certificate_renewals_total",
        MetricType::Counter,
        "Attempts to obtain a certificate from the authority of [acme].",
    );
    family.sample(&[("result", "success")], successes);
    family.sample(&[("result", "failure")], failures);
    metrics
        .family(
            "avocet_certificate_next_renewal_timestamp_seconds",
            MetricType::Gauge,
            "Time of the next attempt to obtain a certificate, in seconds since 1970.",
        )
        .sample(&[], shown.next_attempt);
    if let Some(at) = shown.last_success {
        metrics
            .family(
                "avocet_certificate_last_renewal_timestamp_seconds",
                MetricType::Gauge,
                "Time at which the certificate of [acme] was obtained, in seconds since 1970.",
            )
            .sample(&[], at);
    }
}

/// Writes the expiry of each certificate. Two tables with the same file count as one certificate.
fn expiry(metrics: &mut Exposition, running: &Running) {
    let all = shown_certificates::of(running);
    let expiry: BTreeMap<_, _> = all
        .iter()
        .filter_map(|one| Some(((one.purpose.text(), one.file.as_str()), one.not_after?)))
        .collect();
    if expiry.is_empty() {
        return;
    }
    let mut family = metrics.family(
        "avocet_certificate_expires_timestamp_seconds",
        MetricType::Gauge,
        "Time at which a certificate that clients are shown expires, in seconds since 1970.",
    );
    for ((purpose, file), at) in expiry {
        family.sample(&[("purpose", purpose), ("file", file)], at);
    }
}
