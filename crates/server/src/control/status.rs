//! `avocet status`: how the server is, on one page.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use avocet_config::recurse::Mode;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::metrics::Stage;
use avocet_resolver::BreakerState;
use serde_json::{Value, json};

use crate::keepers::lists;
use crate::running::Running;

/// How the server is.
pub(super) fn of(running: &Running) -> Value {
    let state = running.shared.snapshot();
    let file = running.reloader.path().map(|path| path.display().to_string());
    let mode = match state.config.resolver.mode {
        Mode::Forward => "forward",
        Mode::Recurse => "recurse",
    };
    let lists = lists::status::of_all(running);
    let upstreams = upstreams(running);
    let warnings: Vec<String> =
        running.conditions.all().into_values().chain(troubles(&lists, &upstreams)).collect();
    json!({
        "done": true,
        "version": env!("CARGO_PKG_VERSION"),
        "configuration": file,
        "listen": state.config.server.listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "mode": mode,
        "started-at": running.started_at_secs,
        "uptime-secs": wall_secs().saturating_sub(running.started_at_secs),
        "healthy": running.is_healthy(),
        "serving": !running.draining.load(Ordering::Relaxed),
        "queries": queries(running),
        "lists": lists["lists"],
        "upstreams": upstreams,
        "warnings": warnings,
    })
}

/// Queries since the start, by what became of them.
fn queries(running: &Running) -> Value {
    let workers = &running.shared.metrics;
    let count = |stages: &[Stage]| -> u64 {
        let of_worker = |stage: &Stage| {
            workers.iter().map(|worker| worker.stages[*stage as usize].value()).sum::<u64>()
        };
        stages.iter().map(of_worker).sum()
    };
    let all: u64 =
        workers.iter().flat_map(|worker| &worker.queries).map(|counter| counter.value()).sum();
    json!({
        "all": all,
        "from-cache": count(&[Stage::PacketHit, Stage::RrsetHit, Stage::Stale]),
        "local": count(&[Stage::Local, Stage::Special]),
        "blocked": count(&[Stage::Blocked, Stage::Dropped, Stage::Limited]),
        "rewritten": count(&[Stage::Rewritten]),
        "resolved": count(&[Stage::Resolved]),
        "failed": count(&[Stage::Failed, Stage::FailureHit, Stage::Shed]),
        "refused": count(&[Stage::Refused]),
    })
}

/// What all workers tell of the upstreams of forwarding rules.
fn upstreams(running: &Running) -> Vec<Value> {
    let mut all: BTreeMap<(SocketAddr, String), [u64; 6]> = BTreeMap::new();
    for report in &running.shared.resolver_reports {
        let report = report.lock().unwrap_or_else(PoisonError::into_inner);
        for one in &report.upstreams {
            let sums = all
                .entry((one.addr, format!("{:?}", one.transport).to_ascii_lowercase()))
                .or_default();
            let counters = &one.counters;
            let is_open = u64::from(one.breaker == BreakerState::Open);
            let failures =
                counters.timeouts + counters.network_errors + counters.servfail + counters.refused;
            let of_worker =
                [counters.queries, counters.replies, failures, counters.rtt_sum_ms, is_open, 1];
            sums.iter_mut().zip(of_worker).for_each(|(sum, one)| *sum += one);
        }
    }
    let shown = |((addr, transport), [queries, replies, failures, rtt_sum_ms, open, workers]): (
        _,
        [u64; 6],
    )| {
        json!({
            "address": SocketAddr::to_string(&addr),
            "transport": transport,
            "queries": queries,
            "replies": replies,
            "failures": failures,
            "rtt-ms": rtt_sum_ms.checked_div(replies),
            "state": if open == workers { "avoided after failures" } else { "asked" },
        })
    };
    all.into_iter().map(shown).collect()
}

/// Lists that are not there or cannot be fetched, and upstreams that fail.
fn troubles(lists: &Value, upstreams: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut troubles = Vec::new();
    for list in lists["lists"].as_array().into_iter().flatten() {
        let name = text(&list["name"]);
        match (list["in-force"] == true, list["error"].as_str()) {
            (false, Some(error)) => {
                troubles.push(format!("the list {name} is not in force: {error}"))
            }
            (false, None) => {
                troubles.push(format!("the list {name} is not in force; see `avocet lists status`"))
            }
            (true, Some(error)) => {
                troubles.push(format!("the list {name} is out of date: {error}"))
            }
            (true, None) => {}
        }
    }
    let fails = |one: &&Value| one["state"] != "asked";
    troubles.extend(
        upstreams
            .iter()
            .filter(fails)
            .map(|one| format!("the upstream {} does not respond", text(&one["address"]))),
    );
    troubles
}
