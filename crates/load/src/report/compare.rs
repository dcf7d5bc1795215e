//! The comparison of two runs.
//!
//! The main criterion is the CPU time per answer, which is independent of other load on the
//! machine. If it was not measured, the rate of a closed loop replaces it. Latency is a criterion
//! only in open loops, whose schedule does not depend on the server.

use std::fmt::Write as _;

use super::{Cpu, Report};
use crate::units::nanos_text;

/// Tolerated increase in the share of lost queries: occasional losses of a full queue.
const LOSS_NOISE: f64 = 0.001;

/// Random difference between runs in nanoseconds. A latency below it is never worse.
const LATENCY_NOISE_NS: f64 = 20_000.0;

/// One figure of two runs.
#[derive(Clone, Debug, PartialEq)]
struct ComparedFigure {
    name: &'static str,
    earlier: String,
    later: String,
    /// The relative deterioration, negative for an improvement.
    worse_by: f64,
    /// Whether that exceeds the limit. Informational figures are never worse.
    is_worse: bool,
}

/// The comparison of two runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    lines: Vec<ComparedFigure>,
    remarks: Vec<&'static str>,
}

/// The direction in which a figure is worse.
#[derive(Clone, Copy, PartialEq)]
enum Worse {
    Higher,
    Lower,
    /// The figure is informational.
    Never,
}

/// Compares a later run with an earlier one.
pub(crate) fn compare(earlier: &Report, later: &Report, max_regression: f64) -> Comparison {
    let has_cpu = earlier.server_cpu.is_some() && later.server_cpu.is_some();
    let is_open = earlier.pace.open_loop && later.pace.open_loop;
    let mut lines = Vec::new();
    let mut line = |name, values: [f64; 2], worse, show: &dyn Fn(f64) -> String| {
        let [a, b] = values;
        let worse_by = match worse {
            // There is no relative change of zero.
            _ if a <= 0.0 => 0.0,
            Worse::Lower => (a - b) / a,
            _ => (b - a) / a,
        };
        let is_worse = worse != Worse::Never && worse_by > max_regression;
        lines.push(ComparedFigure { name, earlier: show(a), later: show(b), worse_by, is_worse });
    };
    let micros = |value: f64| format!("{value:.3} us");
    let rate = |value: f64| format!("{value:.0}/s");
    let time = |value: f64| nanos_text(value as u64);
    if let (Some(a), Some(b)) = (earlier.server_cpu, later.server_cpu) {
        let each = |part: fn(Cpu) -> f64| [part(a), part(b)];
        line("CPU per answer", each(|cpu| cpu.total_us), Worse::Higher, &micros);
        line("  user", each(|cpu| cpu.user_us), Worse::Never, &micros);
        line("  system", each(|cpu| cpu.system_us), Worse::Never, &micros);
    }
    let rates = [earlier.outcome.answered_per_sec, later.outcome.answered_per_sec];
    line("answers", rates, if has_cpu || is_open { Worse::Never } else { Worse::Lower }, &rate);
    if let (Some(a), Some(b)) = (&earlier.ramp, &later.ramp) {
        line("highest rate", [a.highest_rate, b.highest_rate], Worse::Lower, &rate);
    }
    for (name, a, b) in [
        ("P50", earlier.latency.p50_ns, later.latency.p50_ns),
        ("P99", earlier.latency.p99_ns, later.latency.p99_ns),
        ("P99.9", earlier.latency.p999_ns, later.latency.p999_ns),
    ] {
        let is_held = is_open && name != "P99.9" && b as f64 - a as f64 > LATENCY_NOISE_NS;
        line(name, [a as f64, b as f64], if is_held { Worse::Higher } else { Worse::Never }, &time);
    }
    lines.push(loss(earlier, later));
    lines.push(wrong(earlier, later));
    Comparison { lines, remarks: remarks(earlier, later) }
}

fn loss(earlier: &Report, later: &Report) -> ComparedFigure {
    let (a, b) = (earlier.outcome.loss, later.outcome.loss);
    let show = |loss: f64| format!("{:.3}%", loss * 100.0);
    ComparedFigure {
        name: "lost",
        earlier: show(a),
        later: show(b),
        worse_by: b - a,
        is_worse: b - a > LOSS_NOISE,
    }
}

fn wrong(earlier: &Report, later: &Report) -> ComparedFigure {
    let (a, b) = (earlier.outcome.wrong.total, later.outcome.wrong.total);
    ComparedFigure {
        name: "wrong",
        earlier: a.to_string(),
        later: b.to_string(),
        worse_by: 0.0,
        is_worse: b > 0,
    }
}

fn remarks(earlier: &Report, later: &Report) -> Vec<&'static str> {
    let differs = [
        (
            earlier.machine != later.machine,
            "the runs are from different machines or kernels: compare only ratios within one",
        ),
        (earlier.scenario != later.scenario, "the runs have different scenarios"),
        (earlier.server.transport != later.server.transport, "the runs have different transports"),
        (earlier.check != later.check, "the runs checked responses at different depths"),
        (
            (earlier.pace.window, earlier.pace.rate.map(f64::to_bits))
                != (later.pace.window, later.pace.rate.map(f64::to_bits)),
            "the runs have different windows or rates",
        ),
    ];
    differs.into_iter().filter(|(differs, _)| *differs).map(|(_, remark)| remark).collect()
}

impl Comparison {
    /// Reports whether the later run is worse.
    pub(crate) fn is_worse(&self) -> bool {
        self.lines.iter().any(|line| line.is_worse)
    }

    /// Formats the figures side by side.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for ComparedFigure { name, earlier, later, worse_by, is_worse } in &self.lines {
            let mark = if *is_worse { "  WORSE" } else { "" };
            let _ = writeln!(
                out,
                "{name:<16} {earlier:>14} {later:>14} {:>+8.1}%{mark}",
                worse_by * 100.0
            );
        }
        for remark in &self.remarks {
            let _ = writeln!(out, "remark           {remark}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    fn verdict(change: impl Fn(&mut Report)) -> bool {
        let (earlier, mut later) = (report(), report());
        change(&mut later);
        compare(&earlier, &later, 0.05).is_worse()
    }

    #[test]
    fn the_same_run_is_not_worse() {
        assert!(!verdict(|_| {}));
        let comparison = compare(&report(), &report(), 0.05);
        assert!(comparison.remarks.is_empty() && comparison.text().contains("CPU per answer"));
    }

    #[test]
    fn cpu_time_is_held_to_and_the_rate_beside_it_is_not() {
        assert!(verdict(|run| run.server_cpu.as_mut().unwrap().total_us *= 1.06));
        assert!(!verdict(|run| run.server_cpu.as_mut().unwrap().total_us *= 1.04));
        assert!(!verdict(|run| run.outcome.answered_per_sec /= 2.0));
    }

    #[test]
    fn a_figure_that_was_nothing_has_no_share() {
        let (mut earlier, later) = (report(), report());
        earlier.server_cpu.as_mut().unwrap().user_us = 0.0;
        let text = compare(&earlier, &later, 0.05).text();
        assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn without_cpu_time_the_rate_is_held_to() {
        let (mut earlier, mut later) = (report(), report());
        earlier.server_cpu = None;
        later.outcome.answered_per_sec *= 0.9;
        assert!(compare(&earlier, &later, 0.05).is_worse());
        assert!(!compare(&earlier, &later, 0.15).is_worse());
    }

    #[test]
    fn latency_is_held_to_in_an_open_loop_only() {
        let slower = |run: &mut Report| run.latency.p99_ns *= 2;
        assert!(!verdict(slower));
        let (mut earlier, mut later) = (report(), report());
        (earlier.pace.open_loop, later.pace.open_loop) = (true, true);
        slower(&mut later);
        assert!(compare(&earlier, &later, 0.05).is_worse());
    }

    #[test]
    fn loss_and_wrong_answers_are_worse() {
        assert!(verdict(|run| run.outcome.loss = 0.01));
        assert!(verdict(|run| run.outcome.wrong.total = 1));
    }

    #[test]
    fn runs_that_differ_are_remarked() {
        let mut other = report();
        other.machine.kernel = "other".to_owned();
        other.pace.window = Some(7);
        assert_eq!(compare(&report(), &other, 0.05).remarks.len(), 2);
    }
}
