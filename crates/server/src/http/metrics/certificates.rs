//! When certificates expire. Their files come from the configuration.

use std::collections::BTreeMap;

use crate::http::exposition::{Exposition, MetricType};
use crate::running::{Running, shown_certificates};

/// Writes the expiry of each certificate. Two tables with one file are one certificate.
pub(super) fn write(metrics: &mut Exposition, running: &Running) {
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
