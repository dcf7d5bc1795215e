//! Metrics of the hosted zones.

use std::collections::BTreeMap;

use avocet_config::catalog::CatalogRole;
use avocet_config::name::shown;
use avocet_config::zone::ZoneConfig;
use avocet_nameserver::transfers::{
    FETCH_RESULTS, NOTICE_RESULTS, SENT_NOTICE_RESULTS, SIGNATURE_ERRORS, ServerCounts,
    TRANSFER_RESULTS, TransferLedger, UPDATE_RESULTS,
};
use avocet_nameserver::zone_files::ZoneFileState;
use avocet_nameserver::zone_signing::SigningReport;
use avocet_zone::{HostedZone, ZoneId};

use crate::http::exposition::{Exposition, Family, MetricType};
use crate::running::Running;

/// A function that reads a value of a zone; `None` if a zone without a version in force has no such
/// value.
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

/// A function that reads a value of the signing of a zone.
type SigningNumber = fn(&SigningReport) -> Option<u64>;

/// A family with a sample for each zone that is signed here.
const SIGNING_FAMILIES: [(&str, MetricType, &str, SigningNumber); 4] = [
    (
        "avocet_zone_signatures_total",
        MetricType::Counter,
        "Signatures that were made for a zone.",
        |report| Some(report.made),
    ),
    (
        "avocet_zone_signature_expiry_timestamp_seconds",
        MetricType::Gauge,
        "Time at which the first signature of a zone ends, in seconds since 1970.",
        |report| report.expires_at_secs,
    ),
    (
        "avocet_zone_signing_next_timestamp_seconds",
        MetricType::Gauge,
        "Time at which a zone is signed again at the latest, in seconds since 1970.",
        |report| report.next_at_secs,
    ),
    (
        "avocet_zone_ds_overdue",
        MetricType::Gauge,
        "Whether the parent lacks the DS record of a new key for too long.",
        |report| Some(report.is_overdue.into()),
    ),
];

/// Writes the metrics of all zones. Their names come from the configuration.
pub(super) fn write(metrics: &mut Exposition, running: &Running) {
    let zones = running.reloader.zones.states();
    if zones.is_empty() {
        return;
    }
    write_transfers(metrics, &running.shared.name_server.transfers);
    write_signing(metrics, running, &zones);
    write_catalogs(metrics, running);
    write_databases(metrics, running);
    for (name, kind, help, number) in FAMILIES {
        let mut family = metrics.family(name, kind, help);
        for zone in &zones {
            if let Some(value) = number(zone) {
                sample(&mut family, &zone.id, &[], value);
            }
        }
    }
}

/// Writes a sample of a zone, with its view if it has one.
fn sample(family: &mut Family<'_>, zone: &ZoneId, more: &[(&str, &str)], value: u64) {
    let name = shown(&zone.name);
    let view = zone.view.as_deref().map(|view| ("view", view));
    let labels: Vec<_> =
        [("zone", &*name)].into_iter().chain(view).chain(more.iter().copied()).collect();
    family.sample(&labels, value);
}

/// Writes the metrics of catalogs of other servers.
fn write_catalogs(metrics: &mut Exposition, running: &Running) {
    let snapshot = running.shared.snapshot();
    let is_consumer = |zone: &&ZoneConfig| zone.catalog == CatalogRole::Consumer;
    let catalogs = snapshot.config.zones.iter().filter(is_consumer);
    let states: Vec<_> = catalogs
        .map(|zone| (shown(&zone.name), running.reloader.catalogs.state(&zone.name)))
        .collect();
    if states.is_empty() {
        return;
    }
    let help = "Zones that are served because a catalog of another server lists them.";
    let mut family = metrics.family("avocet_zone_catalog_members", MetricType::Gauge, help);
    for (name, (_, members)) in &states {
        family.sample(&[("zone", name)], *members);
    }
    let help = "Whether the version of a catalog in force is broken, so that its members stay.";
    let mut family = metrics.family("avocet_zone_catalog_broken", MetricType::Gauge, help);
    for (name, (state, _)) in &states {
        family.sample(&[("zone", name)], u64::from(state.fault.is_some()));
    }
}

/// Writes the metrics of zones that this server signs.
fn write_signing(metrics: &mut Exposition, running: &Running, zones: &[ZoneFileState]) {
    let signed: Vec<_> = zones
        .iter()
        .filter_map(|of| Some((&of.id, running.reloader.zones.signing(&of.id)?)))
        .collect();
    if signed.is_empty() {
        return;
    }
    for (name, kind, help, number) in SIGNING_FAMILIES {
        let mut family = metrics.family(name, kind, help);
        for (zone, report) in &signed {
            if let Some(value) = number(report) {
                sample(&mut family, zone, &[], value);
            }
        }
    }
    let help = "Keys of a zone that this server signs, by role and state.";
    let mut family = metrics.family("avocet_zone_keys", MetricType::Gauge, help);
    for (zone, report) in &signed {
        let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for key in &report.keys {
            *counts.entry((key.role, key.state)).or_default() += 1;
        }
        for ((role, state), count) in counts {
            sample(&mut family, zone, &[("role", role), ("state", state)], count);
        }
    }
}

/// Writes whether databases announce changes of zones.
#[cfg(feature = "postgres")]
fn write_databases(metrics: &mut Exposition, running: &Running) {
    use crate::running::databases::ListenState;
    let states = running.zone_watch.databases.states();
    if states.is_empty() {
        return;
    }
    let help = "Whether notifications of a database with zones arrive.";
    let mut family = metrics.family("avocet_zone_database_listening", MetricType::Gauge, help);
    for (url, state) in states {
        family.sample(&[("database", &url)], u8::from(state == ListenState::Listening));
    }
}

#[cfg(not(feature = "postgres"))]
fn write_databases(_: &mut Exposition, _: &Running) {}

/// Writes the metrics of the exchange with other servers.
fn write_transfers(metrics: &mut Exposition, ledger: &TransferLedger) {
    let counts = ledger.counts();
    let ServerCounts { transfers, signatures, notices, received, .. } = counts;
    let help = "Transfers of hosted zones to other servers, by how they ended.";
    let mut family = metrics.family("avocet_zone_transfers_out_total", MetricType::Counter, help);
    for (result, count) in TRANSFER_RESULTS.iter().zip(transfers) {
        family.sample(&[("result", result)], count);
    }
    let help = "Transfers of hosted zones to other servers that are in progress.";
    metrics.gauge("avocet_zone_transfers_out_open", help, ledger.in_progress() as u64);
    let help = "Transfers of zones from their primaries that were put in force.";
    metrics.counter("avocet_zone_transfers_in_total", help, received);
    let help = "Transfers of zones from their primaries that had only the changes (IXFR).";
    metrics.counter("avocet_zone_changes_in_total", help, counts.received_changes);
    let help = "Transfers of zones from their primaries that came over TLS (RFC 9103).";
    metrics.counter("avocet_zone_tls_transfers_in_total", help, counts.received_over_tls);
    let help = "Requests to URLs of hosted zones, by their result.";
    let mut family = metrics.family("avocet_zone_fetches_total", MetricType::Counter, help);
    for (result, count) in FETCH_RESULTS.iter().zip(counts.fetches) {
        family.sample(&[("result", result)], count);
    }
    let help = "NOTIFY messages to other servers: sent, acknowledged, and given up.";
    let mut family = metrics.family("avocet_zone_notifies_out_total", MetricType::Counter, help);
    for (result, count) in SENT_NOTICE_RESULTS.iter().zip(counts.sent_notices) {
        family.sample(&[("result", result)], count);
    }
    let help = "Updates of hosted zones (RFC 2136), by their result.";
    let mut family = metrics.family("avocet_zone_updates_total", MetricType::Counter, help);
    for (result, count) in UPDATE_RESULTS.iter().zip(counts.updates) {
        family.sample(&[("result", result)], count);
    }
    let help = "Messages with a transaction signature (TSIG) that was refused, by its error.";
    let mut family = metrics.family("avocet_tsig_errors_total", MetricType::Counter, help);
    for (error, count) in SIGNATURE_ERRORS.iter().zip(signatures) {
        family.sample(&[("error", error)], count);
    }
    let help = "NOTIFY messages, by whether they came from a primary of the zone.";
    let mut family = metrics.family("avocet_zone_notifies_total", MetricType::Counter, help);
    for (result, count) in NOTICE_RESULTS.iter().zip(notices) {
        family.sample(&[("result", result)], count);
    }
}
