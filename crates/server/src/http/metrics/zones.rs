//! Metrics of the hosted zones.

use avocet_config::name::shown;
use avocet_nameserver::zone_files::ZoneFileState;
use avocet_zone::HostedZone;

use crate::http::exposition::{Exposition, MetricType};
use crate::running::Running;

/// Reads a number of a zone; a zone without a version in force may have none.
type Number = fn(&ZoneFileState) -> Option<u64>;

/// A family with a sample for each zone: name, type, help and value.
const FAMILIES: [(&str, MetricType, &str, Number); 6] = [
    ("avocet_zone_serial", MetricType::Gauge, "Serial of a hosted zone in force.", |of| {
        of.zone.as_deref().map(|zone| zone.serial().into())
    }),
    ("avocet_zone_records", MetricType::Gauge, "Records of a hosted zone in force.", |of| {
        Some(of.zone.as_deref().map_or(0, |zone| zone.records().into()))
    }),
    ("avocet_zone_bytes", MetricType::Gauge, "Memory in use by a hosted zone.", |of| {
        Some(of.zone.as_deref().map_or(0, HostedZone::memory_octets) as u64)
    }),
    (
        "avocet_zone_loaded_timestamp_seconds",
        MetricType::Gauge,
        "Time at which the version in force was read, in seconds since 1970.",
        |of| of.loaded_at_secs,
    ),
    (
        "avocet_zone_load_failures_total",
        MetricType::Counter,
        "Readings of a hosted zone that found errors.",
        |of| Some(of.failures),
    ),
    (
        "avocet_zone_failing",
        MetricType::Gauge,
        "Whether the last reading of a hosted zone found errors.",
        |of| Some(of.fault.is_some().into()),
    ),
];

/// Writes the metrics of all zones. Their names come from the configuration.
pub(super) fn write(metrics: &mut Exposition, running: &Running) {
    let zones = running.reloader.zones.states();
    if zones.is_empty() {
        return;
    }
    for (name, kind, help, number) in FAMILIES {
        let mut family = metrics.family(name, kind, help);
        for zone in &zones {
            if let Some(value) = number(zone) {
                family.sample(&[("zone", &shown(&zone.name))], value);
            }
        }
    }
}
