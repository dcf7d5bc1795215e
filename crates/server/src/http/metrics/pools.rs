//! Metrics of pools. Their names and addresses come from the configuration.

use avocet_config::name::shown;
use avocet_zone::pool::HealthState;

use crate::http::exposition::{Exposition, MetricType};
use crate::running::Running;
use crate::running::pool_watch::WatchedMember;

/// A function that reads a value of an address of a pool.
type Number = fn(&WatchedMember) -> u64;

/// A family with a sample for each address: name, type, help and value.
const FAMILIES: [(&str, MetricType, &str, Number); 5] = [
    ("avocet_pool_up", MetricType::Gauge, "Whether an address of a pool is up.", |member| {
        (member.status.state != HealthState::Down).into()
    }),
    (
        "avocet_pool_changes_total",
        MetricType::Counter,
        "Changes of the health of an address of a pool.",
        |member| member.status.changes,
    ),
    (
        "avocet_pool_probe_successes_total",
        MetricType::Counter,
        "Probes of an address of a pool that succeeded.",
        |member| member.status.probes[0],
    ),
    (
        "avocet_pool_probe_failures_total",
        MetricType::Counter,
        "Probes of an address of a pool that failed.",
        |member| member.status.probes[1],
    ),
    (
        "avocet_pool_probes_not_run_total",
        MetricType::Counter,
        "Probes of an address of a pool that this server could not make.",
        |member| member.status.probes[2],
    ),
];

/// Writes the metrics of all pools.
pub(super) fn write(metrics: &mut Exposition, running: &Running) {
    let pools = running.pools.pools();
    if pools.is_empty() {
        return;
    }
    let mut members = Vec::new();
    for pool in &pools {
        for (position, member) in pool.config.rule.members.iter().enumerate() {
            if let Some(watched) = running.pools.status(&pool.config, position) {
                members.push((shown(&pool.config.name), member.address.to_string(), watched));
            }
        }
    }
    for (name, kind, help, number) in FAMILIES {
        let mut family = metrics.family(name, kind, help);
        for (pool, address, watched) in &members {
            family.sample(&[("pool", pool), ("address", address)], number(watched));
        }
    }
    let help = "Addresses of a pool that answers may contain as healthy ones.";
    let mut family = metrics.family("avocet_pool_usable_addresses", MetricType::Gauge, help);
    for pool in &pools {
        let usable = pool.masks().healthy.count_ones();
        family.sample(&[("pool", &shown(&pool.config.name))], u64::from(usable));
    }
}
