//! The verdict on a run: whether it passed, and the reasons if it did not.

use crate::args::{LoadArgs, Scenario};
use crate::check::{Depth, Deviation};
use crate::report::{FlowReport, Memory, Report, WrongReport};
use crate::scenario::PROBES;
use crate::units::{count_text, nanos_text};

/// Relative growth of memory in the second half of a run that counts as a leak in `endurance`.
const MEMORY_GROWTH: f64 = 0.05;
/// Growth of memory in bytes below which it is the noise of an allocator.
const MEMORY_NOISE: f64 = 1_048_576.0;

/// Factor by which latency must grow during a run to count as a drift in `endurance`.
const LATENCY_GROWTH: u64 = 2;
/// 99th percentile of latency in nanoseconds below which it depends more on the machine than on the
/// server.
const LATENCY_NOISE_NS: u64 = 1_000_000;

/// Tolerated share of lost queries without `--max-loss`.
const MAX_LOSS: f64 = 0.01;

/// Minimum number of queries lost after the last answered query for which the server counts as
/// stopped.
const SILENT_END: u64 = 10;

/// Tolerated share of lost valid queries in `malformed`: a full queue loses some.
const PROBE_LOSS: f64 = 0.1;

/// Determines whether the run passed.
pub(crate) fn judge(mut report: Report, args: &LoadArgs) -> Report {
    let faults = [
        wrong(&report),
        silence(&report),
        dead(&report, args),
        duplicates(&report, args),
        loss(&report, args),
        silent_end(&report),
        latency(&report, args),
        no_rate(&report),
        probes(&report),
        leak(&report),
        drift(&report),
    ];
    report.faults = faults.into_iter().flatten().collect();
    report.passed = report.faults.is_empty();
    if report.scenario == Scenario::Large && report.outcome.truncated == 0 {
        report.remarks.push("no answer was truncated: the names have no large RRsets".to_owned());
    }
    report
}

fn wrong(report: &Report) -> Option<String> {
    let wrong = &report.outcome.wrong;
    let named: Vec<String> = WrongReport::KINDS
        .iter()
        .map(|(kind, count)| (kind, count(wrong)))
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{} {kind}", count_text(count)))
        .collect();
    let mut hints = String::new();
    for (count, option) in [
        (wrong.trailing, "trailing"),
        (wrong.long, "long"),
        (wrong.truncated, "truncated"),
        (wrong.empty, "empty"),
    ] {
        if count > 0 {
            hints.push_str(if hints.is_empty() { "; if intended: --allow " } else { "," });
            hints.push_str(option);
        }
    }
    (wrong.total > 0).then(|| format!("wrong answers: {}{hints}", named.join(", ")))
}

fn duplicates(report: &Report, args: &LoadArgs) -> Option<String> {
    let count = report.outcome.duplicate;
    let is_fault = count > 0
        && report.check > Depth::Id
        && report.scenario != Scenario::Malformed
        && !args.allow.contains(&Deviation::Duplicate);
    is_fault.then(|| {
        format!("{} queries were answered twice; if intended: --allow duplicate", count_text(count))
    })
}

/// Returns the flows whose queries must all be answered. The queries of an attack need no answer.
fn judged(report: &Report) -> impl Iterator<Item = &FlowReport> {
    let is_attacked = report.scenario == Scenario::Flood;
    report.flows.iter().filter(move |flow| {
        let name = flow.name.as_str();
        let is_attack = name == "malformed" || is_attacked && name == "flood";
        !is_attack && name != "probe"
    })
}

fn silence(report: &Report) -> Option<String> {
    (report.outcome.answered == 0).then(|| {
        let hint = if report.outcome.errors > 0 { ": connection refused" } else { "" };
        format!("{} did not respond{hint}", report.server.address)
    })
}

fn dead(report: &Report, args: &LoadArgs) -> Option<String> {
    let pid = args.pid?;
    let is_gone = crate::process::Process::of(pid).usage().is_none();
    let text = if report.server.process.is_none() { "cannot be read" } else { "has ended" };
    is_gone.then(|| format!("the process {pid} {text}"))
}

fn loss(report: &Report, args: &LoadArgs) -> Option<String> {
    let limit = match &report.ramp {
        Some(ramp) => ramp.bounds.max_loss,
        None => args.max_loss.unwrap_or(MAX_LOSS),
    };
    let (lost, answered) = judged(report).fold((0, 0), |(lost, answered), flow| {
        (lost + flow.outcome.lost, answered + flow.outcome.answered)
    });
    let loss = lost as f64 / (lost + answered).max(1) as f64;
    (loss > limit).then(|| {
        format!(
            "{:.3}% of the queries were lost, but only {:.3}% are allowed",
            loss * 100.0,
            limit * 100.0
        )
    })
}

/// Returns the fault that the last queries were lost, if so. Their share may be within the limit of
/// losses although the server has stopped answering.
fn silent_end(report: &Report) -> Option<String> {
    let enough = report.pace.window.map_or(SILENT_END, |window| SILENT_END.min(window as u64));
    let lost: u64 = judged(report).map(|flow| flow.outcome.lost_at_end).sum();
    (lost >= enough && report.outcome.answered > 0).then(|| {
        format!("the server stopped responding: the last {} queries were lost", count_text(lost))
    })
}

fn latency(report: &Report, args: &LoadArgs) -> Option<String> {
    let limit = match &report.ramp {
        Some(ramp) => ramp.bounds.max_p99_ns,
        None => args.max_p99?.as_nanos() as u64,
    };
    let p99 = report.latency.p99_ns;
    (p99 > limit).then(|| {
        format!(
            "the 99th percentile is {}, but only {} is allowed",
            nanos_text(p99),
            nanos_text(limit)
        )
    })
}

fn no_rate(report: &Report) -> Option<String> {
    let ramp = report.ramp.as_ref()?;
    let text = match ramp.runs.len() {
        0 => "no rate is within the limits".to_owned(),
        runs => format!("no rate held in a whole run: {runs} were tried"),
    };
    (ramp.highest_rate <= 0.0).then_some(text)
}

/// Returns the fault that malformed packets prevented answers to valid queries, if they did.
fn probes(report: &Report) -> Option<String> {
    let outcome = &report.flows.iter().find(|flow| flow.name == "probe")?.outcome;
    let is_dead = outcome.answered == 0 || outcome.lost_at_end >= PROBES as u64;
    (is_dead || outcome.loss > PROBE_LOSS).then(|| {
        let (lost, sent) = (count_text(outcome.lost), count_text(outcome.sent));
        let end = if is_dead { ", including the last ones" } else { "" };
        let seed = report.seed;
        format!(
            "{lost} of {sent} valid queries between damaged packets were not answered{end}; \
             --seed {seed} reproduces the packets"
        )
    })
}

fn leak(report: &Report) -> Option<String> {
    let Memory { end_bytes, drift_bytes_per_sec, .. } =
        report.memory.filter(|_| report.scenario == Scenario::Endurance)?;
    let grown = drift_bytes_per_sec * report.asked_secs / 2.0;
    (grown > MEMORY_NOISE && grown > MEMORY_GROWTH * end_bytes as f64).then(|| {
        format!("memory grew by {} bytes in the second half of the run", count_text(grown as u64))
    })
}

fn drift(report: &Report) -> Option<String> {
    let drift = report.drift.filter(|_| report.scenario == Scenario::Endurance)?;
    let has_grown = drift.late_p99_ns > LATENCY_NOISE_NS
        && drift.late_p99_ns > LATENCY_GROWTH * drift.early_p99_ns;
    has_grown.then(|| {
        format!(
            "the 99th percentile rose from {} to {} during the run",
            nanos_text(drift.early_p99_ns),
            nanos_text(drift.late_p99_ns)
        )
    })
}
