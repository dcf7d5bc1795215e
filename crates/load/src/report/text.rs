//! The results as text for a terminal.

use std::fmt::Write as _;

use super::{Cpu, FlowReport, Latency, Outcome, Report, TlsReport};
use crate::units::{count_text, nanos_text};

/// Writes the results as text.
pub(crate) fn write(report: &Report) -> String {
    let mut out = String::new();
    head(report, &mut out);
    if let Some(ramp) = &report.ramp {
        let own = if ramp.own_limit { " (the generator's own limit)" } else { "" };
        let _ = writeln!(
            out,
            "highest rate     {:.0}/s{own}, {} steps",
            ramp.highest_rate,
            ramp.steps.len()
        );
    }
    cpu("server CPU", report.server_cpu.as_ref(), &mut out);
    cpu("generator CPU", report.generator_cpu.as_ref(), &mut out);
    outcome(&report.outcome, &mut out);
    latency(&report.latency, &mut out);
    if let Some(tls) = &report.tls {
        let connections = format!("{:?}", tls.connections).to_lowercase();
        let TlsReport { full, resumed, failed, handshakes_per_sec, .. } = tls;
        let _ = writeln!(
            out,
            "handshakes       {full} full, {resumed} resumed, {failed} failed, \
             {handshakes_per_sec:.0}/s; {connections} connections"
        );
    }
    if report.flows.len() > 1 {
        report.flows.iter().for_each(|flow| flow_line(flow, &mut out));
    }
    if let Some(memory) = &report.memory {
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        let _ = writeln!(
            out,
            "memory           {:.1} MiB at the start, {:.1} at the end, {:.1} at peak, drift \
             {:+.1} KiB/s",
            mib(memory.start_bytes),
            mib(memory.end_bytes),
            mib(memory.peak_bytes),
            memory.drift_bytes_per_sec / 1024.0
        );
    }
    for (label, texts) in [("checked", &report.checked), ("not checked", &report.unchecked)] {
        if !texts.is_empty() {
            let _ = writeln!(out, "{label:<16} {}", texts.join("; "));
        }
    }
    for remark in &report.remarks {
        let _ = writeln!(out, "remark           {remark}");
    }
    for example in &report.examples {
        let _ = writeln!(out, "wrong            {example}");
    }
    for fault in &report.faults {
        let _ = writeln!(out, "FAILED           {fault}");
    }
    if report.passed {
        out.push_str("passed\n");
    }
    out
}

fn head(report: &Report, out: &mut String) {
    let server = &report.server;
    let version =
        server.version.as_deref().map(|version| format!(" ({version})")).unwrap_or_default();
    let transport = format!("{:?}", server.transport).to_lowercase();
    let _ = writeln!(out, "server           {}{version} over {transport}", server.address);
    let pace = match (report.pace.rate, report.pace.window) {
        (Some(rate), _) => format!("{rate:.0}/s open loop"),
        (None, Some(window)) => format!("{window} in flight"),
        (None, None) => "as recorded".to_owned(),
    };
    let scenario = format!("{:?}", report.scenario).to_lowercase();
    let _ = writeln!(
        out,
        "scenario         {scenario}, {pace}, {} clients, {:.2} s, seed {}",
        report.pace.clients, report.asked_secs, report.seed
    );
}

fn cpu(label: &str, cpu: Option<&Cpu>, out: &mut String) {
    if let Some(cpu) = cpu {
        let _ = writeln!(
            out,
            "{label:<16} {:.3} us per answer: {:.3} user, {:.3} system; {:.2} cores",
            cpu.total_us, cpu.user_us, cpu.system_us, cpu.cores
        );
    }
}

fn outcome(outcome: &Outcome, out: &mut String) {
    let _ = writeln!(
        out,
        "queries          {} sent, {} answered, {} lost ({:.3}%)",
        count_text(outcome.sent),
        count_text(outcome.answered),
        count_text(outcome.lost),
        outcome.loss * 100.0
    );
    let _ = writeln!(
        out,
        "rate             {:.0} answers/s, {:.0} sent/s",
        outcome.answered_per_sec, outcome.sent_per_sec
    );
    let rcodes: Vec<String> = outcome
        .rcodes
        .iter()
        .map(|(name, count)| format!("{name} {}", count_text(*count)))
        .collect();
    let _ = writeln!(out, "answers          {}", rcodes.join(", "));
    let others = Outcome::OTHERS.map(|(name, count)| (name, count(outcome)));
    let seen: Vec<String> = [("wrong", outcome.wrong.total)]
        .iter()
        .chain(&others)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{} {name}", count_text(*count)))
        .collect();
    if !seen.is_empty() {
        let _ = writeln!(out, "of these         {}", seen.join(", "));
    }
}

fn latency(latency: &Latency, out: &mut String) {
    let points = [
        ("P50", latency.p50_ns),
        ("P90", latency.p90_ns),
        ("P99", latency.p99_ns),
        ("P99.9", latency.p999_ns),
        ("P99.99", latency.p9999_ns),
        ("max", latency.max_ns),
    ];
    let points: Vec<String> =
        points.iter().map(|(name, nanos)| format!("{name} {}", nanos_text(*nanos))).collect();
    let _ = writeln!(out, "latency          {}", points.join(", "));
}

fn flow_line(flow: &FlowReport, out: &mut String) {
    let FlowReport { name, outcome, latency } = flow;
    let _ = writeln!(
        out,
        "  {name:<14} {} sent, {} answered, {:.3}% lost, {} wrong, P50 {}, P99 {}",
        count_text(outcome.sent),
        count_text(outcome.answered),
        outcome.loss * 100.0,
        outcome.wrong.total,
        nanos_text(latency.p50_ns),
        nanos_text(latency.p99_ns)
    );
}
