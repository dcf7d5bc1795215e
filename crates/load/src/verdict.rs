//! Whether a run passed, and the reasons if not.

use crate::args::{LoadArgs, Scenario};
use crate::report::{Memory, Report};
use crate::scenario::PROBES;
use crate::units::{count_text, nanos_text};

/// Relative growth of memory in the second half that counts as a leak, for `endurance`.
const MEMORY_GROWTH: f64 = 0.05;
/// Growth below this is the noise of an allocator, in bytes.
const MEMORY_NOISE: f64 = 1_048_576.0;

/// Growth of latency in the course of a run that counts as a drift, for `endurance`.
const LATENCY_GROWTH: u64 = 2;
/// Below this the 99th percentile depends more on the machine than on the server, in nanoseconds.
const LATENCY_NOISE_NS: u64 = 1_000_000;

/// Tolerated loss of valid queries among malformed packets, for `malformed`: a full queue loses
/// some.
const PROBE_LOSS: f64 = 0.1;

/// Determines whether the run passed.
pub(crate) fn judge(mut report: Report, args: &LoadArgs) -> Report {
    let faults = [
        wrong(&report),
        silence(&report),
        dead(&report, args),
        loss(&report, args),
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
    let kinds = [
        (wrong.malformed, "unreadable"),
        (wrong.id, "with an unknown ID"),
        (wrong.question, "with another question"),
        (wrong.rcode, "with another RCODE"),
        (wrong.records, "with other records"),
    ];
    let named: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{} {kind}", count_text(*count)))
        .collect();
    (wrong.total > 0).then(|| format!("wrong answers: {}", named.join(", ")))
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
    let limit = args.max_loss.filter(|_| report.ramp.is_none())?;
    let loss = report.outcome.loss;
    (loss > limit).then(|| {
        format!(
            "{:.3}% of the queries were lost, but only {:.3}% are allowed",
            loss * 100.0,
            limit * 100.0
        )
    })
}

fn latency(report: &Report, args: &LoadArgs) -> Option<String> {
    let limit = args.max_p99.filter(|_| report.ramp.is_none())?.as_nanos() as u64;
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
    (ramp.highest_rate <= 0.0).then(|| "no rate is within the limits".to_owned())
}

/// Malformed packets must not prevent valid queries from being answered.
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
