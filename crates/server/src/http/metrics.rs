//! All metrics of the server: the sums of the workers' counters, the caches, the upstreams and
//! more.
//!
//! Label values come from fixed sets and from the configuration, never from clients: queries cannot
//! increase the number of series.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use avocet_cache::StoreStats;
use avocet_web::WebStores;
use avocet_web::counts::{CLASSES, LOG_INS};
use avocet_wire::Rcode;

mod certificates;
mod connections;
mod otlp;
mod pools;
mod resolvers;
mod searches;
mod zones;

use self::resolvers::Resolvers;
use super::exposition::{Exposition, MetricType};
use crate::log;
use crate::running::Running;
use crate::running::revisions::{REASONS, Revisions};
use avocet_nameserver::metrics::{BUCKETS, Latencies, RCODES, STAGES, Stage, TYPES, WorkerMetrics};
use avocet_nameserver::query::asked::Transport;
use avocet_worker::state::Shared;

/// A function that reads a counter of a worker.
type Count = fn(&WorkerMetrics) -> u64;

/// Writes the current metrics.
pub(super) fn text(running: &Running) -> String {
    let mut metrics = Exposition::default();
    let shared = &running.shared;
    process(&mut metrics, running);
    queries(&mut metrics, shared);
    latencies(&mut metrics, shared);
    workers(&mut metrics, shared);
    caches(&mut metrics, shared);
    lists(&mut metrics, running);
    geo(&mut metrics, running);
    policy(&mut metrics, &running.shared);
    page(&mut metrics, running);
    access_requests(&mut metrics, running);
    api(&mut metrics, running);
    names(&mut metrics, running);
    root_zone(&mut metrics, running);
    certificates::write(&mut metrics, running);
    zones::write(&mut metrics, running);
    pools::write(&mut metrics, running);
    let resolvers = Resolvers::sum(shared);
    resolvers.write_questions(&mut metrics);
    resolvers.write_replies(&mut metrics);
    resolvers.write_upstreams(&mut metrics);
    Resolvers::write_discoveries(&mut metrics, shared);
    metrics.into_text()
}

fn total(shared: &Shared, count: impl Fn(&WorkerMetrics) -> u64) -> u64 {
    shared.metrics.iter().map(count).sum()
}

fn stage(shared: &Shared, stage: Stage) -> u64 {
    total(shared, |worker| worker.stages[stage as usize].value())
}

fn process(metrics: &mut Exposition, running: &Running) {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    metrics
        .family("avocet_build_info", MetricType::Gauge, "Version as a label; always 1.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    metrics.gauge(
        "avocet_start_time_seconds",
        "Start time, in seconds since 1970.",
        running.started_at_secs,
    );
    metrics.gauge(
        "avocet_ready",
        "Whether all workers serve, names can be resolved and the server is not shutting down.",
        running.unready().is_none().into(),
    );
    metrics.gauge(
        "avocet_epoch",
        "Increases when a reload invalidates earlier answers.",
        running.shared.snapshot().epoch.into(),
    );
    let mut reloads = metrics.family(
        "avocet_reloads_total",
        MetricType::Counter,
        "Reloads of the configuration.",
    );
    reloads.sample(&[("result", "applied")], read(&running.reloader.successes));
    reloads.sample(&[("result", "refused")], read(&running.reloader.failures));
    revisions(metrics, &running.reloader.revisions);
    let help =
        "1 while a problem around the server lasts; avocet status shows the cause and what to do.";
    let mut family = metrics.family("avocet_condition", MetricType::Gauge, help);
    for (condition, holds) in running.conditions.kinds() {
        family.sample(&[("condition", condition.name())], u64::from(holds));
    }
    metrics.counter(
        "avocet_log_lines_lost_total",
        "Log lines dropped because standard error was not read.",
        log::lines_lost(),
    );
    query_log(metrics, running);
    dnstap(metrics, running);
    otlp::write(metrics, running);
    let file = &running.cache_file;
    metrics.counter(
        "avocet_snapshot_saves_total",
        "Cache snapshots written to disk.",
        read(&file.saves),
    );
    metrics.counter(
        "avocet_snapshot_failures_total",
        "Cache snapshots that could not be written or read.",
        read(&file.failures),
    );
    metrics.gauge(
        "avocet_snapshot_saved_timestamp_seconds",
        "Time of the last cache snapshot, in seconds since 1970; 0 before the first.",
        read(&file.saved_at_secs),
    );
}

fn revisions(metrics: &mut Exposition, revisions: &Revisions) {
    metrics.gauge(
        "avocet_config_revision",
        "Revision of the configuration in force; 0 without a configuration file.",
        revisions.in_force().unwrap_or_default().into(),
    );
    metrics.gauge(
        "avocet_config_probation",
        "Whether the revision in force is rolled back unless it is confirmed.",
        revisions.probation().is_some().into(),
    );
    let mut rollbacks = metrics.family(
        "avocet_config_rollbacks_total",
        MetricType::Counter,
        "Automatic rollbacks of the configuration.",
    );
    for (reason, count) in REASONS.iter().zip(&revisions.rollbacks) {
        rollbacks.sample(&[("reason", reason)], count.load(Ordering::Relaxed));
    }
}

fn queries(metrics: &mut Exposition, shared: &Shared) {
    let mut family =
        metrics.family("avocet_queries_total", MetricType::Counter, "Queries by transport.");
    for (at, transport) in Transport::ALL.map(Transport::name).into_iter().enumerate() {
        family.sample(
            &[("transport", transport)],
            total(shared, |worker| worker.queries[at].value()),
        );
    }
    let mut family = metrics.family(
        "avocet_query_types_total",
        MetricType::Counter,
        "Answered queries by type.",
    );
    for (at, name) in TYPES.iter().map(|(_, name)| *name).chain(["other"]).enumerate() {
        family.sample(&[("type", name)], total(shared, |worker| worker.types[at].value()));
    }
    let mut family = metrics.family(
        "avocet_query_outcomes_total",
        MetricType::Counter,
        "Queries by the stage that completed them.",
    );
    for (at, name) in STAGES.into_iter().enumerate() {
        family.sample(&[("outcome", name)], total(shared, |worker| worker.stages[at].value()));
    }
    let mut family =
        metrics.family("avocet_answers_total", MetricType::Counter, "Responses by RCODE.");
    for at in 0..RCODES {
        let rcode = Rcode(at as u16).to_string();
        family.sample(&[("rcode", &rcode)], total(shared, |worker| worker.rcodes[at].value()));
    }
    let mut family = metrics.family(
        "avocet_rate_limited_total",
        MetricType::Counter,
        "Responses over the response rate limit.",
    );
    family.sample(&[("action", "drop")], total(shared, |worker| worker.limit_drops.value()));
    family.sample(&[("action", "slip")], total(shared, |worker| worker.limit_slips.value()));
}

fn latencies(metrics: &mut Exposition, shared: &Shared) {
    let mut family = metrics.family(
        "avocet_answer_duration_seconds",
        MetricType::Histogram,
        "Time from query to response: at once (hit), or after waiting for the network (miss).",
    );
    let bounds: Vec<f64> = (0..BUCKETS - 1).map(|power| (1u64 << power) as f64 / 1e6).collect();
    type Path = (&'static str, fn(&WorkerMetrics) -> &Latencies);
    let paths: [Path; 2] =
        [("hit", |worker| &worker.hit_latency), ("miss", |worker| &worker.miss_latency)];
    for (path, of) in paths {
        let mut counts = [0; BUCKETS];
        let mut micros = 0;
        for worker in &shared.metrics {
            let (buckets, sum) = of(worker).read();
            counts.iter_mut().zip(buckets).for_each(|(count, bucket)| *count += bucket);
            micros += sum;
        }
        family.histogram(&[("path", path)], (&bounds, &counts), micros as f64 / 1e6);
    }
}

fn query_log(metrics: &mut Exposition, running: &Running) {
    let counts = &running.query_log.counts;
    metrics.counter(
        "avocet_querylog_entries_total",
        "Entries that the query log took from the workers.",
        counts.taken.load(Ordering::Relaxed),
    );
    metrics.counter(
        "avocet_querylog_dropped_total",
        "Entries of the query log lost because the ring of a worker was full.",
        counts.dropped.load(Ordering::Relaxed),
    );
    metrics.counter(
        "avocet_querylog_written_total",
        "Entries written to the files of the query log.",
        counts.written.load(Ordering::Relaxed),
    );
    metrics.counter(
        "avocet_querylog_lost_total",
        "Entries of the query log lost because they could not be written or were damaged.",
        counts.lost.load(Ordering::Relaxed) + counts.damaged.load(Ordering::Relaxed),
    );
    metrics.counter(
        "avocet_querylog_written_bytes_total",
        "Octets written to the files of the query log.",
        counts.octets.load(Ordering::Relaxed),
    );
    metrics.counter(
        "avocet_querylog_sealed_total",
        "Entries of the query log moved to Parquet files.",
        counts.sealed.load(Ordering::Relaxed),
    );
    metrics.counter(
        "avocet_querylog_deleted_total",
        "Entries of the query log deleted, by retention or by a request.",
        counts.deleted.load(Ordering::Relaxed),
    );
    metrics.gauge(
        "avocet_querylog_size_bytes",
        "Octets of the files of the query log.",
        counts.stored_octets.load(Ordering::Relaxed),
    );
    log_writer(metrics, running);
    metrics.gauge(
        "avocet_querylog_followers",
        "Clients that follow the query log.",
        running.query_log.followers.count() as u64,
    );
    searches::write(metrics, &running.query_log.searches.counts());
}

/// Writes the load of the query log's thread.
fn log_writer(metrics: &mut Exposition, running: &Running) {
    let counts = &running.query_log.counts;
    let help = "Time that the thread of the query log has worked on entries.";
    let work = counts.work_us.load(Ordering::Relaxed) as f64 / 1e6;
    metrics
        .family("avocet_querylog_work_seconds_total", MetricType::Counter, help)
        .sample(&[], work);
    let help = "Share of the fullest ring between a worker and the query log that is in use.";
    let [fill, _] = counts.fills();
    metrics.family("avocet_querylog_ring_fill_ratio", MetricType::Gauge, help).sample(&[], fill);
}

fn dnstap(metrics: &mut Exposition, running: &Running) {
    let counts = &running.tap_counts;
    metrics.counter(
        "avocet_dnstap_messages_total",
        "dnstap messages sent to the receiver.",
        counts.sent.load(Ordering::Relaxed),
    );
    metrics.counter(
        "avocet_dnstap_dropped_total",
        "dnstap messages lost because the ring of a worker was full.",
        counts.dropped.load(Ordering::Relaxed),
    );
    metrics.counter(
        "avocet_dnstap_lost_total",
        "dnstap messages lost because the connection to the receiver ended.",
        counts.lost.load(Ordering::Relaxed),
    );
    metrics.gauge(
        "avocet_dnstap_connected",
        "1 while the receiver of dnstap messages is connected.",
        counts.connected.load(Ordering::Relaxed),
    );
}

fn workers(metrics: &mut Exposition, shared: &Shared) {
    metrics.gauge("avocet_workers", "Number of worker threads.", shared.metrics.len() as u64);
    let help = "CPU time of a worker thread.";
    let mut family = metrics.family("avocet_worker_cpu_seconds_total", MetricType::Counter, help);
    for (index, load) in shared.loads.iter().enumerate() {
        let cpu_us = load.lock().unwrap_or_else(PoisonError::into_inner).cpu_us;
        family.sample(&[("worker", &index.to_string())], cpu_us as f64 / 1e6);
    }
    let counters: [(&str, &str, Count); 13] = [
        ("avocet_udp_batches_total", "Batches of datagrams received.", |worker| {
            worker.batches.value()
        }),
        ("avocet_udp_replies_dropped_total", "UDP responses the kernel refused.", |worker| {
            worker.replies_dropped.value()
        }),
        (
            "avocet_udp_overflows_total",
            "Datagrams that the kernel discarded because the queue of a worker was full.",
            |worker| worker.overflows.value(),
        ),
        ("avocet_tcp_accepted_total", "TCP connections accepted.", |worker| {
            worker.tcp_accepted.value()
        }),
        ("avocet_tcp_rejected_total", "TCP connections rejected by a limit.", |worker| {
            worker.tcp_rejected.value()
        }),
        ("avocet_tcp_refused_total", "TCP connections of clients not allowed.", |worker| {
            worker.tcp_refused.value()
        }),
        ("avocet_tcp_expired_total", "TCP connections closed late or for room.", |worker| {
            worker.tcp_expired.value()
        }),
        ("avocet_proxy_headers_refused_total", "Missing or bad PROXY headers.", |worker| {
            worker.proxy_headers_refused.value()
        }),
        (
            "avocet_handed_over_total",
            "Queries passed to the worker that is responsible for their name.",
            |worker| worker.handed_over.value(),
        ),
        (
            "avocet_held_total",
            "Queries that waited until the device or name of their client was looked up.",
            |worker| worker.held.value(),
        ),
        (
            "avocet_unidentified_total",
            "Queries without data in the reply, because their client could not be identified.",
            |worker| worker.unidentified.value(),
        ),
        ("avocet_turns_cut_short_total", "Turns that left work to the next.", |worker| {
            worker.cut_short.value()
        }),
        ("avocet_worker_panics_total", "Panics in a worker that continued.", |worker| {
            worker.panics.value()
        }),
    ];
    for (name, help, count) in counters {
        metrics.counter(name, help, total(shared, count));
    }
    connections::write(metrics, shared);
}

fn page(metrics: &mut Exposition, running: &Running) {
    let visits = &running.visits;
    let help = "Requests to the block page by result, and rejected connections.";
    let mut family = metrics.family("avocet_block_page_requests_total", MetricType::Counter, help);
    for (outcome, count) in [
        ("blocked", &visits.blocked),
        ("not-blocked", &visits.not_blocked),
        ("unreadable", &visits.unreadable),
        ("refused", &visits.refused),
    ] {
        family.sample(&[("outcome", outcome)], count.load(Ordering::Relaxed));
    }
}

/// Writes the metrics of requests for access on the block page.
fn access_requests(metrics: &mut Exposition, running: &Running) {
    let help = "Requests for access on the block page that wait for an answer.";
    let waiting = running.requests.waiting(avocet_nameserver::clock::wall_secs()).len() as u64;
    metrics.family("avocet_access_requests_waiting", MetricType::Gauge, help).sample(&[], waiting);
    let help = "Requests for access on the block page by result.";
    let mut family = metrics.family("avocet_access_requests_total", MetricType::Counter, help);
    let counts = &running.requests.counts;
    for (result, count) in [
        ("taken", &counts.taken),
        ("known", &counts.known),
        ("full", &counts.full),
        ("too-fast", &counts.too_fast),
    ] {
        family.sample(&[("result", result)], count.load(Ordering::Relaxed));
    }
}

fn api(metrics: &mut Exposition, running: &Running) {
    let WebStores { access, audit, counts, directory: _ } = &running.web;
    let help = "Responses of the HTTP API by class of status.";
    let mut family = metrics.family("avocet_api_responses_total", MetricType::Counter, help);
    for (class, count) in CLASSES.into_iter().zip(counts.responses()) {
        family.sample(&[("status", class)], count);
    }
    let help = "Attempts to log in to the HTTP API.";
    let mut family = metrics.family("avocet_api_log_ins_total", MetricType::Counter, help);
    for (result, count) in LOG_INS.into_iter().zip(counts.log_ins()) {
        family.sample(&[("result", result)], count);
    }
    let sessions = access.session_count() as u64;
    metrics.gauge("avocet_api_sessions", "Sessions of the HTTP API that have not ended.", sessions);
    let help = "Entries that could not be written to the audit log.";
    metrics.counter("avocet_audit_entries_lost_total", help, audit.lost());
}

fn names(metrics: &mut Exposition, running: &Running) {
    let names = &running.names;
    let help = "PTR queries that the server sent itself for the names of clients.";
    metrics.counter("avocet_client_name_lookups_total", help, names.asked.load(Ordering::Relaxed));
    let help = "Addresses ignored because the table of client names was full.";
    metrics.counter(
        "avocet_client_names_passed_over_total",
        help,
        names.passed_over.load(Ordering::Relaxed),
    );
}

fn root_zone(metrics: &mut Exposition, running: &Running) {
    let root = &running.root;
    let mut family = metrics.family(
        "avocet_root_zone_copies_total",
        MetricType::Counter,
        "Copies of the root zone in use or rejected by verification, and attempts that got none.",
    );
    family.sample(&[("result", "taken")], root.taken.load(Ordering::Relaxed));
    family.sample(&[("result", "refused")], root.refused.load(Ordering::Relaxed));
    family.sample(&[("result", "failed")], root.failed.load(Ordering::Relaxed));
    if let Some((serial, expires_at_secs)) = root.in_use() {
        metrics.gauge(
            "avocet_root_zone_serial",
            "Serial of the copy of the root zone in use.",
            serial.into(),
        );
        let help = "Expiry time of the copy of the root zone, in seconds since 1970.";
        metrics.gauge("avocet_root_zone_expires_timestamp_seconds", help, expires_at_secs);
    }
}

fn lists(metrics: &mut Exposition, running: &Running) {
    let state = running.shared.snapshot();
    let compiles = running.lists.compiles.load(Ordering::Relaxed);
    metrics.counter("avocet_list_compiles_total", "Compiled images of all lists.", compiles);
    if let Some(lists) = &state.parts.lists {
        metrics.gauge(
            "avocet_list_image_bytes",
            "Size of the image of all lists.",
            lists.octets() as u64,
        );
        metrics.gauge(
            "avocet_list_names",
            "Different names in the image of all lists.",
            lists.names(),
        );
        let mut family = metrics.family(
            "avocet_list_compile_seconds",
            MetricType::Gauge,
            "Compile time of the image in force.",
        );
        family.sample(&[], lists.making().millis as f64 / 1e3);
    }
    let configured = &state.config.policy.lists;
    let sources = running.lists.sources();
    let compiled = |name: &str| crate::keepers::lists::status::compiled(&state, name);
    type Value<'a> = &'a dyn Fn(&str) -> u64;
    let families: [(&str, MetricType, &str, Value<'_>); 4] = [
        ("avocet_list_entries", MetricType::Gauge, "Entries of a list in force.", &|name| {
            compiled(name).map_or(0, |list| list.entries)
        }),
        ("avocet_list_broken_lines", MetricType::Gauge, "Broken lines of a list.", &|name| {
            compiled(name).map_or(0, |list| list.faults)
        }),
        (
            "avocet_list_success_timestamp_seconds",
            MetricType::Gauge,
            "Time of the last successful fetch of a list, in seconds since 1970; 0 is never.",
            &|name| sources.get(name).map_or(0, |source| source.succeeded_at_secs),
        ),
        ("avocet_list_failures_total", MetricType::Counter, "Failed list fetches.", &|name| {
            sources.get(name).map_or(0, |source| source.failures)
        }),
    ];
    for (name, kind, help, value) in families {
        if !configured.is_empty() {
            let mut family = metrics.family(name, kind, help);
            configured
                .iter()
                .for_each(|list| family.sample(&[("list", &list.name)], value(&list.name)));
        }
    }
    let mut family = metrics.family(
        "avocet_list_failing",
        MetricType::Gauge,
        "Whether the last fetch of a list failed.",
    );
    for list in configured {
        let is_failing = sources.get(&list.name).is_some_and(|source| source.error.is_some());
        family.sample(&[("list", &list.name)], u64::from(is_failing));
    }
}

/// Writes the metrics of the geo database, if there is one.
fn geo(metrics: &mut Exposition, running: &Running) {
    let state = running.shared.snapshot();
    let Some(database) = &state.parts.countries else { return };
    let help = "Build time of the geo database in force, in seconds since 1970.";
    metrics.gauge(
        "avocet_geo_database_build_timestamp_seconds",
        help,
        database.about().built_at_secs,
    );
    let failures = running.reloader.geo.failures.load(Ordering::Relaxed);
    metrics.counter(
        "avocet_geo_database_failures_total",
        "Times that the geo database could not be loaded.",
        failures,
    );
}

/// Writes the numbers of matches of rules and lists, by name.
fn policy(metrics: &mut Exposition, shared: &Shared) {
    let state = shared.snapshot();
    let Some(policy) = &state.policy else { return };
    let help = "Matches of a rule, including responses from the cache for deciding rules.";
    let mut family = metrics.family("avocet_policy_rule_hits_total", MetricType::Counter, help);
    for (rule, count) in policy.rule_counts() {
        let mode = if rule.log_only { "log-only" } else { "in-force" };
        family.sample(&[("rule", &rule.name), ("mode", mode)], count);
    }
    let mut family = metrics.family(
        "avocet_policy_list_hits_total",
        MetricType::Counter,
        "Responses due to a list, including cached ones.",
    );
    for (place, list) in state.config.policy.lists.iter().enumerate() {
        family.sample(&[("list", &list.name)], policy.list_count(place));
    }
    let help = "Private addresses removed from answers for public names.";
    metrics.counter("avocet_policy_rebinding_hits_total", help, policy.rebinding_count());
    let help = "List lookups stopped at the work limit of a query.";
    metrics.counter("avocet_list_lookups_cut_short_total", help, policy.cut_short_count());
    let help = "Counts of rate limits of rules dropped early, because the table was full.";
    let forgotten = policy.forgotten_limits_count();
    metrics.counter("avocet_policy_limits_forgotten_total", help, forgotten);
}

fn caches(metrics: &mut Exposition, shared: &Shared) {
    let caches = [
        ("packet", shared.name_server.packets.stats()),
        ("rrset", shared.name_server.rrsets.stats()),
        ("failure", shared.name_server.failures.stats()),
    ];
    type Gauge = (&'static str, &'static str, fn(&StoreStats) -> u64);
    let gauges: [Gauge; 3] = [
        ("avocet_cache_entries", "Entries in a cache.", |stats| stats.entries),
        ("avocet_cache_bytes", "Memory in use by a cache.", |stats| stats.bytes_used as u64),
        ("avocet_cache_limit_bytes", "Memory that a cache may use.", |stats| {
            stats.bytes_limit as u64
        }),
    ];
    for (name, help, value) in gauges {
        let mut family = metrics.family(name, MetricType::Gauge, help);
        caches.iter().for_each(|(cache, stats)| family.sample(&[("cache", cache)], value(stats)));
    }
    let mut family = metrics.family(
        "avocet_cache_inserts_total",
        MetricType::Counter,
        "Entries stored, including replacements.",
    );
    caches.iter().for_each(|(cache, stats)| family.sample(&[("cache", cache)], stats.inserts));
    let mut family = metrics.family(
        "avocet_cache_evictions_total",
        MetricType::Counter,
        "Evicted entries by reason.",
    );
    for (cache, stats) in &caches {
        family.sample(&[("cache", cache), ("reason", "unused")], stats.evicted_unvisited);
        family.sample(&[("cache", cache), ("reason", "least-used")], stats.evicted_main);
        family.sample(&[("cache", cache), ("reason", "crowded")], stats.evicted_bucket);
        family.sample(&[("cache", cache), ("reason", "expired")], stats.outlived);
    }
    let mut family = metrics.family(
        "avocet_cache_hits_total",
        MetricType::Counter,
        "Queries answered from a cache with data within its TTL.",
    );
    family.sample(&[("cache", "packet")], stage(shared, Stage::PacketHit));
    family.sample(&[("cache", "rrset")], stage(shared, Stage::RrsetHit));
    let mut family = metrics.family(
        "avocet_cache_misses_total",
        MetricType::Counter,
        "Queries without an answer in a cache.",
    );
    family.sample(&[("cache", "packet")], total(shared, |worker| worker.packet_misses()));
    family.sample(&[("cache", "rrset")], total(shared, |worker| worker.rrset_misses()));
    metrics.counter(
        "avocet_cache_stale_total",
        "Queries answered with expired data.",
        stage(shared, Stage::Stale),
    );
    metrics.counter(
        "avocet_cache_prefetches_total",
        "Popular names refreshed before they expired.",
        total(shared, |worker| worker.prefetches.value()),
    );
}
