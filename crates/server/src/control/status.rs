//! The state of the server for `avocet status`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use avocet_config::recurse::Mode;
use avocet_control::lists::ListStatus;
use avocet_control::log::LogTransport;
use avocet_control::status::{
    AuthorityQueries, QueryCounts, ResolverMode, ServerStatus, TransportQueries, UpstreamState,
    UpstreamStatus, UpstreamTransport,
};
use avocet_nameserver::metrics::Stage;
use avocet_nameserver::query::asked::Transport;
use avocet_resolver::{BreakerState, TlsFault, Transport as UpstreamLink};

use super::zones;
use crate::backup;
use crate::keepers::lists;
use crate::running::{Running, shown_certificates};
use avocet_worker::resolver_report::UpstreamReport;

/// Returns the state of the server.
pub(super) fn of(running: &Running) -> ServerStatus {
    let state = running.shared.snapshot();
    let lists = lists::status::of_all(running).lists;
    let upstreams = upstreams(running);
    let pending = running.reloader.pending_restart();
    let pending = (!pending.is_empty()).then(|| format!("a restart is pending for {pending}"));
    let conditions = running.conditions.all().into_values();
    let warnings = pending.into_iter().chain(conditions).chain(troubles(&lists, &upstreams));
    ServerStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        configuration: running.reloader.path().map(|path| path.display().to_string()),
        listen: state.config.server.open_addresses().iter().map(ToString::to_string).collect(),
        mode: match state.config.resolver.mode {
            Mode::Forward => ResolverMode::Forward,
            Mode::Recurse => ResolverMode::Recurse,
        },
        started_at: running.started_at_secs,
        uptime_secs: running.uptime_secs(),
        healthy: running.is_healthy(),
        serving: !running.draining.load(Ordering::Relaxed),
        queries: queries(running),
        transports: transports(running),
        waiting_restore: backup::waiting(&state.config.data.directory),
        warnings: warnings.collect(),
        lists,
        upstreams,
        discoveries: running.shared.discoveries.current(),
        authorities: state.config.resolver.encrypt_authoritative.then(|| authorities(running)),
        zones: zones::status(running),
        certificates: shown_certificates::of(running),
        odoh: running.oblivious.shown(&running.shared),
    }
}

/// Returns the numbers of queries since the start, by result.
fn queries(running: &Running) -> QueryCounts {
    let workers = &running.shared.metrics;
    let count = |stages: &[Stage]| -> u64 {
        let of_worker = |stage: &Stage| {
            workers.iter().map(|worker| worker.stages[*stage as usize].value()).sum::<u64>()
        };
        stages.iter().map(of_worker).sum()
    };
    let all = workers.iter().flat_map(|worker| &worker.queries).map(|counter| counter.value());
    QueryCounts {
        all: all.sum(),
        from_cache: count(&[Stage::PacketHit, Stage::RrsetHit, Stage::Stale]),
        local: count(&[Stage::Local, Stage::Hosted, Stage::Pool, Stage::Special]),
        blocked: count(&[Stage::Blocked, Stage::Dropped, Stage::Limited]),
        rewritten: count(&[Stage::Rewritten]),
        resolved: count(&[Stage::Resolved]),
        failed: count(&[Stage::Failed, Stage::FailureHit, Stage::Shed]),
        refused: count(&[Stage::Refused]),
    }
}

/// Returns the numbers of queries since the start, by transport.
fn transports(running: &Running) -> Vec<TransportQueries> {
    let of = |transport: Transport| {
        let workers = running.shared.metrics.iter();
        let queries = workers.map(|worker| worker.queries[transport as usize].value()).sum();
        let transport = match transport {
            Transport::Udp => LogTransport::Udp,
            Transport::Tcp => LogTransport::Tcp,
            Transport::Tls => LogTransport::Tls,
            Transport::Https => LogTransport::Https,
            Transport::Quic => LogTransport::Quic,
            Transport::Odoh => LogTransport::Odoh,
        };
        TransportQueries { transport, queries }
    };
    Transport::ALL.map(of).to_vec()
}

/// The key that distinguishes upstreams: address, transport and name.
type UpstreamKey = ((SocketAddr, UpstreamTransport), Option<String>);

/// An upstream, summed over all workers.
#[derive(Default)]
struct UpstreamSums {
    queries: u64,
    replies: u64,
    failures: u64,
    rtt_sum_ms: u64,
    tls_fault: Option<TlsFault>,
    /// Number of workers that avoid the upstream.
    open: usize,
    workers: usize,
}

impl UpstreamSums {
    fn add(&mut self, report: &UpstreamReport) {
        let counters = &report.counters;
        self.queries += counters.queries;
        self.replies += counters.replies;
        self.failures +=
            counters.timeouts + counters.network_errors + counters.servfail + counters.refused;
        self.rtt_sum_ms += counters.rtt_sum_ms;
        self.tls_fault = self.tls_fault.or(report.tls_fault);
        self.open += usize::from(report.breaker == BreakerState::Open);
        self.workers += 1;
    }

    fn status(
        self,
        (address, transport): (SocketAddr, UpstreamTransport),
        name: Option<String>,
    ) -> UpstreamStatus {
        let is_avoided = self.open == self.workers;
        UpstreamStatus {
            address,
            transport,
            name,
            tls_error: self.tls_fault.map(|fault| fault.text().to_owned()),
            queries: self.queries,
            replies: self.replies,
            failures: self.failures,
            rtt_ms: self.rtt_sum_ms.checked_div(self.replies),
            state: if is_avoided { UpstreamState::Avoided } else { UpstreamState::Asked },
        }
    }
}

/// Returns the upstreams of forwarding rules, with the counts of all workers.
fn upstreams(running: &Running) -> Vec<UpstreamStatus> {
    let mut all: BTreeMap<UpstreamKey, UpstreamSums> = BTreeMap::new();
    for report in &running.shared.resolver_reports {
        let report = report.lock().unwrap_or_else(PoisonError::into_inner);
        for one in &report.upstreams {
            let transport = match one.transport {
                UpstreamLink::Udp => UpstreamTransport::Udp,
                UpstreamLink::Tcp => UpstreamTransport::Tcp,
                UpstreamLink::Tls(_) => UpstreamTransport::Tls,
                UpstreamLink::Https(_) => UpstreamTransport::Https,
                UpstreamLink::Quic(_) => UpstreamTransport::Quic,
                UpstreamLink::H3(_) => UpstreamTransport::H3,
            };
            let name = running.shared.upstream_peers.host_name(one.transport);
            all.entry(((one.addr, transport), name)).or_default().add(one);
        }
    }
    all.into_iter().map(|((server, name), sums)| sums.status(server, name)).collect()
}

/// Returns the queries to authoritative servers, with the counts of all workers.
fn authorities(running: &Running) -> AuthorityQueries {
    let mut sum = AuthorityQueries::default();
    for report in &running.shared.resolver_reports {
        let counters = report.lock().unwrap_or_else(PoisonError::into_inner).counters;
        sum.queries += counters.sent;
        sum.encrypted += counters.sent_encrypted;
        sum.probes_answered += counters.probes_succeeded;
        sum.probes_failed += counters.probes_failed;
    }
    sum
}

/// Returns warnings about lists that are not in force or cannot be fetched, and about failing
/// upstreams.
fn troubles(lists: &[ListStatus], upstreams: &[UpstreamStatus]) -> Vec<String> {
    let of_list = |list: &ListStatus| {
        let name = &list.name;
        match (list.in_force, &list.error) {
            (false, Some(error)) => Some(format!("the list {name} is not in force: {error}")),
            (false, None) => {
                Some(format!("the list {name} is not in force; see `avocet lists status`"))
            }
            (true, Some(error)) => Some(format!("the list {name} is out of date: {error}")),
            (true, None) => None,
        }
    };
    let of_upstream = |one: &UpstreamStatus| match (&one.tls_error, one.state) {
        (Some(error), _) => Some(format!("the upstream {} gets no queries: {error}", one.address)),
        (None, UpstreamState::Asked) => None,
        (None, UpstreamState::Avoided) => {
            Some(format!("the upstream {} does not respond", one.address))
        }
    };
    let of_lists = lists.iter().filter_map(of_list);
    of_lists.chain(upstreams.iter().filter_map(of_upstream)).collect()
}
