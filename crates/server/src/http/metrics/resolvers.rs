//! Metrics of the resolvers: queries, responses, recursion, upstreams.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use avocet_dnssec::Limit;
use avocet_resolver::{
    BreakerState, Counters, RTT_BUCKETS_MS, TlsFault, Transport, UpstreamCounters,
};

use crate::http::exposition::{Exposition, MetricType};
use avocet_worker::resolver_report::LOGGED_ENCRYPTED;
use avocet_worker::state::Shared;
use avocet_worker::state::discoveries::DiscoveryResult;

/// A function that reads a count of an upstream.
type Count = fn(&UpstreamCounters) -> u64;

/// The counters of upstreams: name, description and count.
const UPSTREAM_COUNTERS: [(&str, &str, Count); 6] = [
    ("avocet_upstream_queries_total", "Queries sent to an upstream.", |counters| counters.queries),
    (
        "avocet_upstream_tcp_queries_total",
        "Queries sent to an upstream over TCP without TLS.",
        |counters| counters.tcp,
    ),
    (
        "avocet_upstream_tls_queries_total",
        "Queries sent to an upstream over TLS, HTTPS or QUIC.",
        |counters| counters.tls,
    ),
    (
        "avocet_upstream_proxied_queries_total",
        "Queries sent to an upstream behind a header of the PROXY protocol.",
        |counters| counters.introduced,
    ),
    (
        "avocet_upstream_plain_queries_total",
        "Queries to an upstream repeated without EDNS.",
        |counters| counters.without_edns,
    ),
    (
        "avocet_upstream_breaker_opened_total",
        "Times that a worker started to avoid an upstream after consecutive failures.",
        |counters| counters.breaker_opened,
    ),
];

/// The sum of all workers' reports.
#[derive(Default)]
pub(super) struct Resolvers {
    reports: Vec<Counters>,
    pooled: u64,
    fresh: u64,
    streams: u64,
    tls: u64,
    quic: u64,
    authorities: u64,
    /// Counters, and the number of workers with an open circuit breaker.
    upstreams: BTreeMap<String, (UpstreamCounters, u64)>,
}

impl Resolvers {
    pub(super) fn sum(shared: &Shared) -> Self {
        let mut sum = Self::default();
        for report in &shared.resolver_reports {
            let report = report.lock().unwrap_or_else(PoisonError::into_inner);
            sum.reports.push(report.counters);
            sum.pooled += report.sockets.pooled;
            sum.fresh += report.sockets.fresh;
            sum.streams += report.sockets.streams;
            sum.tls += report.sockets.tls;
            sum.quic += report.sockets.quic;
            sum.authorities += report.sockets.authorities;
            for upstream in &report.upstreams {
                let host = shared.upstream_peers.host_name(upstream.transport);
                let host = host.map_or_else(String::new, |name| format!("{name}@"));
                let scheme = match upstream.transport {
                    Transport::Udp => "udp",
                    Transport::Tcp => "tcp",
                    Transport::Tls(_) => "tls",
                    Transport::Https(_) => "https",
                    Transport::Quic(_) => "quic",
                    Transport::H3(_) => "h3",
                };
                let shown = format!("{scheme}://{host}{}", upstream.addr);
                let (counters, open) = sum.upstreams.entry(shown).or_default();
                add(counters, &upstream.counters);
                *open += u64::from(upstream.breaker == BreakerState::Open);
            }
        }
        sum
    }

    fn total(&self, count: impl Fn(&Counters) -> u64) -> u64 {
        self.reports.iter().map(count).sum()
    }

    pub(super) fn write_questions(&self, metrics: &mut Exposition) {
        let mut family = metrics.family(
            "avocet_resolver_questions_total",
            MetricType::Counter,
            "Queries that the caches could not answer.",
        );
        family.sample(&[("result", "started")], self.total(|counters| counters.started));
        family.sample(&[("result", "joined")], self.total(|counters| counters.joined));
        family
            .sample(&[("result", "failed-before")], self.total(|counters| counters.failed_before));
        family.sample(&[("result", "no-rule")], self.total(|counters| counters.no_rule));
        family.sample(
            &[("result", "too-many-questions")],
            self.total(|counters| counters.shed_tasks),
        );
        family.sample(
            &[("result", "too-many-clients")],
            self.total(|counters| counters.shed_waiters),
        );
        family.sample(
            &[("result", "too-many-actions")],
            self.total(|counters| counters.shed_actions),
        );
        family.sample(&[("result", "zone-crowded")], self.total(|counters| counters.shed_zone));
        family
            .sample(&[("result", "busy-by-zone")], self.total(|counters| counters.shed_busy_zone));
        family.sample(
            &[("result", "busy-by-client")],
            self.total(|counters| counters.shed_busy_client),
        );
        let mut family = metrics.family(
            "avocet_resolver_ended_total",
            MetricType::Counter,
            "Results of queries in the resolver.",
        );
        family.sample(&[("result", "answered")], self.total(|counters| counters.answered));
        family.sample(&[("result", "failed")], self.total(|counters| counters.failed));
        family.sample(&[("result", "displaced")], self.total(|counters| counters.jostled));
        metrics.counter(
            "avocet_resolver_overdue_total",
            "Clients that got expired data because resolution took too long.",
            self.total(|counters| counters.overdue),
        );
        metrics.counter(
            "avocet_resolver_restarts_total",
            "Queries restarted because an alias left the server's bailiwick.",
            self.total(|counters| counters.restarts),
        );
        metrics.counter(
            "avocet_resolver_loops_total",
            "Queries that came back from the server they were sent to.",
            self.total(|counters| counters.loops),
        );
        metrics.counter(
            "avocet_resolver_subnets_dropped_total",
            "Client subnets removed because too many queries for one name were in flight.",
            self.total(|counters| counters.ecs_dropped),
        );
    }

    pub(super) fn write_replies(&self, metrics: &mut Exposition) {
        let mut family = metrics.family(
            "avocet_upstream_replies_ignored_total",
            MetricType::Counter,
            "Datagrams that match no query in flight.",
        );
        family.sample(&[("reason", "foreign")], self.total(|counters| counters.foreign));
        family.sample(&[("reason", "late")], self.total(|counters| counters.late));
        family.sample(&[("reason", "malformed")], self.total(|counters| counters.malformed));
        family.sample(&[("reason", "near-miss")], self.total(|counters| counters.near_misses));
        let mut family =
            metrics.family("avocet_upstream_sockets", MetricType::Gauge, "Open upstream sockets.");
        family.sample(&[("kind", "pool")], self.pooled);
        family.sample(&[("kind", "single")], self.fresh);
        family.sample(&[("kind", "stream")], self.streams);
        family.sample(&[("kind", "tls")], self.tls);
        family.sample(&[("kind", "quic")], self.quic);
        family.sample(&[("kind", "authority")], self.authorities);
        self.write_recursion(metrics);
        let mut family = metrics.family(
            "avocet_recursion_queries_total",
            MetricType::Counter,
            "Queries to authoritative servers by event.",
        );
        family.sample(&[("event", "sent")], self.total(|counters| counters.sent));
        family.sample(&[("event", "sent-by-tcp")], self.total(|counters| counters.sent_by_tcp));
        let encrypted = self.total(|counters| counters.sent_encrypted);
        family.sample(&[("event", "sent-encrypted")], encrypted);
        family.sample(&[("event", "timeout")], self.total(|counters| counters.timeouts));
        family.sample(&[("event", "unreachable")], self.total(|counters| counters.unreachable));
        family.sample(&[("event", "unsent")], self.total(|counters| counters.unsent));
        family.sample(&[("event", "lame")], self.total(|counters| counters.lame));
        family.sample(&[("event", "synthesised")], self.total(|counters| counters.synthesised));
        family.sample(&[("event", "local-root")], self.total(|counters| counters.local_root));
        self.write_probes(metrics);
        metrics.counter(
            "avocet_upstream_pool_overflows_total",
            "Queries that got a separate socket because the pool was in use.",
            self.total(|counters| counters.fresh_sockets),
        );
        metrics.counter(
            "avocet_upstream_socket_renewals_total",
            "Pool sockets moved to another random port.",
            self.total(|counters| counters.renewals),
        );
        let bits = self
            .reports
            .iter()
            .map(|counters| counters.min_bits_seen)
            .min()
            .filter(|bits| *bits != u32::MAX);
        let mut family = metrics.family(
            "avocet_upstream_unpredictable_bits",
            MetricType::Gauge,
            "Fewest unpredictable bits of a UDP query so far; absent before the first.",
        );
        bits.into_iter().for_each(|bits| family.sample(&[], bits));
    }

    fn write_probes(&self, metrics: &mut Exposition) {
        let mut family = metrics.family(
            "avocet_recursion_probes_total",
            MetricType::Counter,
            "Connections over TLS to authoritative servers that answered, and that did not.",
        );
        let answered = self.total(|counters| counters.probes_succeeded);
        family.sample(&[("result", "answered")], answered);
        family.sample(&[("result", "failed")], self.total(|counters| counters.probes_failed));
    }

    pub(super) fn write_recursion(&self, metrics: &mut Exposition) {
        let mut family = metrics.family(
            "avocet_error_reports_total",
            MetricType::Counter,
            "Validation failures reported to reporting agents, and reports withheld by the limit.",
        );
        family.sample(&[("result", "sent")], self.total(|counters| counters.reports));
        family.sample(&[("result", "withheld")], self.total(|counters| counters.reports_withheld));
        let mut family = metrics.family(
            "avocet_recursion_ended_total",
            MetricType::Counter,
            "Queries answered by recursion by validation result, and those that reached a limit.",
        );
        family.sample(&[("result", "secure")], self.total(|counters| counters.secure));
        family.sample(&[("result", "insecure")], self.total(|counters| counters.insecure));
        family.sample(&[("result", "bogus")], self.total(|counters| counters.bogus));
        family.sample(&[("result", "aliases")], self.total(|counters| counters.limit_aliases));
        family.sample(&[("result", "referrals")], self.total(|counters| counters.limit_referrals));
        family.sample(&[("result", "servers")], self.total(|counters| counters.limit_servers));
        family.sample(&[("result", "queries")], self.total(|counters| counters.budget_sends));
        family.sample(&[("result", "zone-crowded")], self.total(|counters| counters.limit_zone));
        family
            .sample(&[("result", "server-crowded")], self.total(|counters| counters.limit_server));
        let mut family = metrics.family(
            "avocet_validation_limits_total",
            MetricType::Counter,
            "Times that a query reached a limit on the cost of validation.",
        );
        for limit in Limit::ALL {
            let reached = self.total(|counters| counters.validation_limits[limit as usize]);
            family.sample(&[("limit", limit.name())], reached);
        }
    }

    fn write_tls_failures(&self, metrics: &mut Exposition) {
        let mut family = metrics.family(
            "avocet_upstream_tls_failures_total",
            MetricType::Counter,
            "Connections to an upstream that TLS ended, by reason.",
        );
        let with_tls =
            |upstream: &&String| LOGGED_ENCRYPTED.iter().any(|scheme| upstream.starts_with(scheme));
        for upstream in self.upstreams.keys().filter(with_tls) {
            let counters = &self.upstreams[upstream].0;
            for (fault, count) in TlsFault::ALL.iter().zip(counters.tls_faults) {
                family.sample(&[("upstream", upstream), ("reason", fault.word())], count);
            }
        }
    }

    pub(super) fn write_discoveries(metrics: &mut Exposition, shared: &Shared) {
        let mut family = metrics.family(
            "avocet_upstream_designated",
            MetricType::Gauge,
            "Whether an encrypted server that the upstream designates gets its queries.",
        );
        // Several rules may have the same upstream, with different settings.
        let mut designated = BTreeMap::new();
        for one in shared.discoveries.current().iter() {
            *designated.entry(one.upstream).or_insert(false) |= one.designated.is_some();
        }
        for (upstream, is_designated) in designated {
            family.sample(&[("upstream", &upstream.to_string())], u64::from(is_designated));
        }
        let mut family = metrics.family(
            "avocet_upstream_discoveries_total",
            MetricType::Counter,
            "Attempts to find encrypted servers that upstreams designate, by result.",
        );
        for (result, count) in DiscoveryResult::ALL.iter().zip(shared.discoveries.attempts()) {
            family.sample(&[("result", result.word())], count);
        }
    }

    pub(super) fn write_upstreams(&self, metrics: &mut Exposition) {
        for (name, help, count) in UPSTREAM_COUNTERS {
            let mut family = metrics.family(name, MetricType::Counter, help);
            self.upstreams.iter().for_each(|(upstream, (counters, _))| {
                family.sample(&[("upstream", upstream)], count(counters))
            });
        }
        let mut family = metrics.family(
            "avocet_upstream_breakers_open",
            MetricType::Gauge,
            "Workers that avoid an upstream after consecutive failures.",
        );
        self.upstreams
            .iter()
            .for_each(|(upstream, (_, open))| family.sample(&[("upstream", upstream)], open));
        let reasons: [(&str, Count); 5] = [
            ("timeout", |counters| counters.timeouts),
            ("network", |counters| counters.network_errors),
            ("servfail", |counters| counters.servfail),
            ("refused", |counters| counters.refused),
            ("unusable", |counters| counters.unusable),
        ];
        let mut family = metrics.family(
            "avocet_upstream_failures_total",
            MetricType::Counter,
            "Queries without a usable response from an upstream.",
        );
        for (upstream, (counters, _)) in &self.upstreams {
            for (reason, count) in reasons {
                family.sample(&[("upstream", upstream), ("reason", reason)], count(counters));
            }
        }
        self.write_tls_failures(metrics);
        let bounds = RTT_BUCKETS_MS.map(|bound| bound as f64 / 1e3);
        let mut family = metrics.family(
            "avocet_upstream_rtt_seconds",
            MetricType::Histogram,
            "Round-trip times of accepted responses.",
        );
        for (upstream, (counters, _)) in &self.upstreams {
            let sum = counters.rtt_sum_ms as f64 / 1e3;
            family.histogram(&[("upstream", upstream)], (&bounds, &counters.rtt_buckets), sum);
        }
    }
}

fn add(sum: &mut UpstreamCounters, other: &UpstreamCounters) {
    sum.queries += other.queries;
    sum.tcp += other.tcp;
    sum.tls += other.tls;
    sum.tls_faults.iter_mut().zip(other.tls_faults).for_each(|(sum, count)| *sum += count);
    sum.replies += other.replies;
    sum.rtt_sum_ms += other.rtt_sum_ms;
    sum.rtt_buckets.iter_mut().zip(other.rtt_buckets).for_each(|(sum, count)| *sum += count);
    sum.timeouts += other.timeouts;
    sum.network_errors += other.network_errors;
    sum.servfail += other.servfail;
    sum.refused += other.refused;
    sum.unusable += other.unusable;
    sum.introduced += other.introduced;
    sum.without_edns += other.without_edns;
    sum.breaker_opened += other.breaker_opened;
}
