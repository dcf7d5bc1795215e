//! The comparison of runs of two versions or servers. Each side has one or more runs.
//!
//! The main criterion is the CPU time per answer, which is independent of other load on the
//! machine. If it was not measured, the rate of a closed loop replaces it. Latency is a criterion
//! only in open loops, whose schedule does not depend on the server.
//!
//! With enough runs, the user part of the CPU time is a criterion of its own: a slower program
//! shows there, next to less noise than in the kernel's part.
//!
//! A single run cannot show its own spread. With [`ENOUGH_RUNS`] on each side, the difference is
//! the median over all pairs of an earlier and a later run (Hodges and Lehmann). This estimate uses
//! more of the runs than the difference of two medians. The difference counts only if it also
//! separates the runs: more pairs must show it than chance explains. With fewer runs, the limit is
//! wider, and latency is only shown.
//!
//! A machine becomes slower and faster for minutes. If the two sides took turns, as their start
//! times show, each later run is compared with the earlier run next to it, which the machine slowed
//! down to the same degree. [`turns`] judges the ratios of these pairs.

mod turns;

use std::cmp::Ordering;
use std::fmt::Write as _;

use super::{Cpu, Latency, Report};
use crate::args::RegressionArgs;
use crate::units::nanos_text;

/// Tolerated increase in the share of lost queries. A full queue loses some queries occasionally.
const LOSS_NOISE: f64 = 0.001;

/// Random difference between runs in nanoseconds. A latency below it is never worse.
const LATENCY_NOISE_NS: f64 = 20_000.0;

/// Minimum number of runs on each side to estimate their spread.
const ENOUGH_RUNS: usize = 3;

/// Default limits of deterioration for CPU time and rates: one for few runs, and [`LIMIT`] for
/// enough runs.
const FEW_RUNS_LIMIT: f64 = 0.10;
const LIMIT: f64 = 0.03;

/// Default limit of deterioration for latency.
const LATENCY_LIMIT: f64 = 0.15;

/// Highest share of the pairs that must agree that the later run is worse. With many runs a smaller
/// share suffices, as it cannot be chance.
const SEPARATED: f64 = 0.8;

/// Required distance of the share from one half, its value for equal servers, in standard
/// deviations. Chance exceeds this distance once in 2,000 figures.
const SIGNIFICANT: f64 = 3.3;

/// A figure of a comparison, with its values on both sides.
#[derive(Clone, Debug, PartialEq)]
struct ComparedFigure {
    name: &'static str,
    earlier: String,
    later: String,
    /// The relative deterioration, negative for an improvement.
    worse_by: f64,
    /// Whether the deterioration exceeds the limit. Informational figures are never worse.
    is_worse: bool,
}

/// The comparison of two sides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    lines: Vec<ComparedFigure>,
    remarks: Vec<String>,
}

/// The direction in which a figure becomes worse, with the tolerated share.
#[derive(Clone, Copy, PartialEq)]
enum Worse {
    Higher(f64),
    Lower(f64),
    /// The figure is informational.
    Never,
}

/// The increase of a figure from the earlier side to the later side.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rise {
    /// The difference relative to the earlier side. It is negative if the later side is lower.
    share: f64,
    /// The share of comparisons in which the later side is higher.
    up: f64,
    /// The share of comparisons in which the later side is lower.
    down: f64,
    /// The standard deviation of `up` and `down` if the sides are equal.
    deviation: f64,
}

impl Rise {
    /// Reports whether a larger share of comparisons agrees than chance explains.
    fn is_separated(&self, agreeing: f64) -> bool {
        agreeing >= SEPARATED.min(0.5 + SIGNIFICANT * self.deviation)
    }
}

/// The values of one figure in the runs of one side, sorted.
struct Values(Vec<f64>);

impl Values {
    fn of<'a>(runs: &'a [Report], figure: impl Fn(&'a Report) -> Option<f64>) -> Option<Self> {
        let mut values = runs.iter().map(figure).collect::<Option<Vec<f64>>>()?;
        values.sort_unstable_by(f64::total_cmp);
        (!values.is_empty()).then_some(Self(values))
    }

    fn median(&self) -> f64 {
        let (below, above) = ((self.0.len() - 1) / 2, self.0.len() / 2);
        (self.0[below] + self.0[above]) / 2.0
    }

    fn text(&self, show: &dyn Fn(f64) -> String) -> String {
        match self.0.as_slice() {
            [one] => show(*one),
            [least, .., most] => {
                format!("{} ({}-{})", show(self.median()), show(*least), show(*most))
            }
            [] => String::new(),
        }
    }

    /// Returns the distance between the extremes, relative to the median.
    fn spread(&self) -> f64 {
        let median = self.median();
        let (least, most) = (self.0.first(), self.0.last());
        match (least, most) {
            (Some(least), Some(most)) if median > 0.0 => (most - least) / median,
            _ => 0.0,
        }
    }

    /// Returns the median of the differences between the values of `later` and of `self`.
    fn shift(&self, later: &Self) -> f64 {
        let pairs = self.0.iter().flat_map(|a| later.0.iter().map(move |b| b - a));
        let mut differences: Vec<f64> = pairs.collect();
        differences.sort_unstable_by(f64::total_cmp);
        Self(differences).median()
    }

    /// Compares these runs with later runs that did not take turns with them. The deviation is that
    /// of the Mann-Whitney U statistic for equal sides.
    fn rise(&self, later: &Self) -> Rise {
        let (n, m) = (self.0.len() as f64, later.0.len() as f64);
        let pairs = || self.0.iter().flat_map(|a| later.0.iter().map(move |b| b.total_cmp(a)));
        let count = |wanted| pairs().filter(|order| *order == wanted).count() as f64;
        let usual = self.median();
        Rise {
            // A change relative to zero is undefined.
            share: if usual <= 0.0 { 0.0 } else { self.shift(later) / usual },
            up: count(Ordering::Greater) / (n * m),
            down: count(Ordering::Less) / (n * m),
            deviation: ((n + m + 1.0) / (12.0 * n * m)).sqrt(),
        }
    }
}

/// The two sides of a comparison, while their figures are collected.
struct Sides<'a> {
    earlier: &'a [Report],
    later: &'a [Report],
    has_enough: bool,
    /// The pairs of adjacent runs, if the sides took turns.
    turns: Option<Vec<(&'a Report, &'a Report)>>,
    lines: Vec<ComparedFigure>,
}

impl<'a> Sides<'a> {
    /// Adds the line of a figure that all runs have.
    fn line(
        &mut self,
        name: &'static str,
        figure: impl Fn(&'a Report) -> Option<f64> + Copy,
        worse: Worse,
        show: &dyn Fn(f64) -> String,
    ) {
        let sides = (Values::of(self.earlier, figure), Values::of(self.later, figure));
        let (Some(earlier), Some(later)) = sides else { return };
        let in_turns = self.turns.as_ref().and_then(|pairs| turns::rise(pairs, figure));
        let rise = in_turns.unwrap_or_else(|| earlier.rise(&later));
        let (worse_by, agreeing) = match worse {
            Worse::Lower(_) => (-rise.share, rise.down),
            _ => (rise.share, rise.up),
        };
        let is_worse = match worse {
            Worse::Never => false,
            Worse::Higher(limit) | Worse::Lower(limit) => {
                worse_by > limit && (!self.has_enough || rise.is_separated(agreeing))
            }
        };
        let (earlier, later) = (earlier.text(show), later.text(show));
        self.lines.push(ComparedFigure { name, earlier, later, worse_by, is_worse });
    }

    fn any(&self, holds: impl Fn(&Report) -> bool) -> bool {
        self.earlier.iter().chain(self.later).any(holds)
    }

    /// Adds the lines of CPU time.
    fn cpu(&mut self, limit: f64) {
        let user = self.user_limit(limit);
        let micros = |value: f64| format!("{value:.3} us");
        let mut part = |name, part: fn(&Cpu) -> f64, worse| {
            self.line(name, |run| run.server_cpu.as_ref().map(part), worse, &micros);
        };
        part("CPU per answer", |cpu| cpu.total_us, Worse::Higher(limit));
        part("  user", |cpu| cpu.user_us, user);
        part("  system", |cpu| cpu.system_us, Worse::Never);
    }

    /// Returns the limit of the user part of the CPU time. It is as much time as the limit of the
    /// whole. Most of the difference between equal runs is in the kernel, so the user part shows a
    /// slower program when the whole cannot.
    fn user_limit(&self, limit: f64) -> Worse {
        let median = |part: fn(&Cpu) -> f64| {
            let figure = |run: &Report| run.server_cpu.as_ref().map(part);
            Values::of(self.earlier, figure).map(|values| values.median())
        };
        match (median(|cpu| cpu.total_us), median(|cpu| cpu.user_us)) {
            (Some(total), Some(user)) if self.has_enough && user > 0.0 => {
                Worse::Higher(limit * total / user)
            }
            _ => Worse::Never,
        }
    }

    /// Adds the lines of latency. `limit` applies only if all runs are open loops.
    fn latency(&mut self, limit: Option<f64>) {
        let limit = limit.filter(|_| !self.any(|run| !run.pace.open_loop));
        self.percentile("P50", |latency| latency.p50_ns, limit);
        self.percentile("P99", |latency| latency.p99_ns, limit);
        self.percentile("P99.9", |latency| latency.p999_ns, None);
    }

    fn percentile(&mut self, name: &'static str, of: fn(&Latency) -> u64, limit: Option<f64>) {
        let time = |value: f64| nanos_text(value as u64);
        let figure = |run: &Report| Some(of(&run.latency) as f64);
        let [before, after] = [self.earlier, self.later]
            .map(|runs| Values::of(runs, figure).map_or(0.0, |values| values.median()));
        let worse = match limit {
            Some(limit) if after - before > LATENCY_NOISE_NS => Worse::Higher(limit),
            _ => Worse::Never,
        };
        self.line(name, figure, worse, &time);
    }

    fn loss(&mut self) {
        let share = |loss: f64| format!("{:.3}%", loss * 100.0);
        self.line("lost", |run| Some(run.outcome.loss), Worse::Never, &share);
        let medians = [self.earlier, self.later].map(|runs| {
            Values::of(runs, |run| Some(run.outcome.loss)).map_or(0.0, |values| values.median())
        });
        if let Some(line) = self.lines.last_mut() {
            line.worse_by = medians[1] - medians[0];
            line.is_worse = line.worse_by > LOSS_NOISE;
        }
    }

    /// Returns the spread of the CPU time on the side with the larger spread.
    fn cpu_spread(&self) -> f64 {
        let spread = |runs: &'a [Report]| {
            let cpu = |run: &Report| run.server_cpu.as_ref().map(|cpu| cpu.total_us);
            Values::of(runs, cpu).map_or(0.0, |values| values.spread())
        };
        spread(self.earlier).max(spread(self.later))
    }

    fn wrong(&mut self) {
        let count = |count: f64| format!("{count:.0}");
        let wrong = |run: &Report| Some(run.outcome.wrong.total as f64);
        self.line("wrong", wrong, Worse::Never, &count);
        let is_worse = self.later.iter().any(|run| run.outcome.wrong.total > 0);
        if let Some(line) = self.lines.last_mut() {
            (line.worse_by, line.is_worse) = (0.0, is_worse);
        }
    }
}

/// Compares later runs with earlier ones.
pub(crate) fn compare(earlier: &[Report], later: &[Report], limits: RegressionArgs) -> Comparison {
    let has_enough = earlier.len().min(later.len()) >= ENOUGH_RUNS;
    let turns = if has_enough { turns::pairs(earlier, later) } else { None };
    let mut sides = Sides { earlier, later, has_enough, turns, lines: Vec::new() };
    let limit = limits.max_regression.unwrap_or(if has_enough { LIMIT } else { FEW_RUNS_LIMIT });
    let latency_limit = limits.max_latency_regression.or(has_enough.then_some(LATENCY_LIMIT));
    let has_cpu = !sides.any(|run| run.server_cpu.is_none());
    let is_open = !sides.any(|run| !run.pace.open_loop);
    sides.cpu(limit);
    let rate = |value: f64| format!("{value:.0}/s");
    let worse = if has_cpu || is_open { Worse::Never } else { Worse::Lower(limit) };
    sides.line("answers", |run| Some(run.outcome.answered_per_sec), worse, &rate);
    let highest = |run: &Report| run.ramp.as_ref().map(|ramp| ramp.highest_rate);
    sides.line("highest rate", highest, Worse::Lower(limit), &rate);
    sides.latency(latency_limit);
    sides.loss();
    sides.wrong();
    let mut remarks = remarks(&sides);
    let spread = sides.cpu_spread();
    if has_enough && spread > limit {
        remarks.push(format!(
            "the CPU time of equal runs differs by up to {:.0}%: smaller differences than that may \
             stay unseen; take more and longer runs, in turns, on a quiet machine",
            spread * 100.0
        ));
    }
    if latency_limit.is_none() && is_open {
        remarks.push(format!(
            "latency is not judged: that takes {ENOUGH_RUNS} runs on each side, or \
             --max-latency-regression"
        ));
    }
    Comparison { lines: sides.lines, remarks }
}

fn remarks(sides: &Sides<'_>) -> Vec<String> {
    let Some(first) = sides.earlier.first() else { return Vec::new() };
    let pace = |run: &Report| (run.pace.window, run.pace.rate.map(f64::to_bits));
    let is_search = first.ramp.is_some();
    let differs = [
        (
            sides.any(|run| run.machine != first.machine),
            "the runs are from different machines or kernels: compare only ratios within one",
        ),
        (sides.any(|run| run.scenario != first.scenario), "the runs have different scenarios"),
        (
            sides.any(|run| run.server.transport != first.server.transport),
            "the runs have different transports",
        ),
        (
            sides.any(|run| run.check != first.check),
            "the runs checked responses at different depths",
        ),
        (
            // The rate of a search is a result, so it may differ.
            !is_search && sides.any(|run| pace(run) != pace(first)),
            "the runs have different windows or rates",
        ),
        (sides.any(|run| !run.passed), "some runs did not pass"),
    ];
    differs
        .into_iter()
        .filter(|(differs, _)| *differs)
        .map(|(_, remark)| remark.to_owned())
        .collect()
}

impl Comparison {
    /// Reports whether the later side is worse.
    pub(crate) fn is_worse(&self) -> bool {
        self.lines.iter().any(|line| line.is_worse)
    }

    /// Formats the figures side by side.
    pub(crate) fn text(&self) -> String {
        let width = |text: fn(&ComparedFigure) -> &String| {
            self.lines.iter().map(|line| text(line).len()).max().unwrap_or_default().max(14)
        };
        let (left, right) = (width(|line| &line.earlier), width(|line| &line.later));
        let mut out = String::new();
        for ComparedFigure { name, earlier, later, worse_by, is_worse } in &self.lines {
            let mark = if *is_worse { "  WORSE" } else { "" };
            let _ = writeln!(
                out,
                "{name:<16} {earlier:>left$} {later:>right$} {:>+8.1}%{mark}",
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
    use crate::random::Random;
    use crate::report::tests::report;

    const DEFAULTS: RegressionArgs =
        RegressionArgs { max_regression: None, max_latency_regression: None };

    fn limits(share: f64) -> RegressionArgs {
        RegressionArgs { max_regression: Some(share), max_latency_regression: Some(share) }
    }

    fn verdict(change: impl Fn(&mut Report)) -> bool {
        let mut later = report();
        change(&mut later);
        compare(&[report()], &[later], limits(0.05)).is_worse()
    }

    /// Returns runs with the usual CPU time and P99 multiplied by each of these factors.
    fn runs(factors: &[f64]) -> Vec<Report> {
        let run = |factor: &f64| {
            let mut run = report();
            run.pace.open_loop = true;
            run.server_cpu.as_mut().unwrap().total_us *= factor;
            run.latency.p99_ns = (run.latency.p99_ns as f64 * factor) as u64;
            run
        };
        factors.iter().map(run).collect()
    }

    #[test]
    fn the_same_run_is_not_worse() {
        assert!(!verdict(|_| {}));
        let comparison = compare(&[report()], &[report()], DEFAULTS);
        assert!(comparison.remarks.is_empty() && comparison.text().contains("CPU per answer"));
    }

    #[test]
    fn cpu_time_is_held_to_and_the_rate_beside_it_is_not() {
        assert!(verdict(|run| run.server_cpu.as_mut().unwrap().total_us *= 1.06));
        assert!(!verdict(|run| run.server_cpu.as_mut().unwrap().total_us *= 1.04));
        assert!(!verdict(|run| run.outcome.answered_per_sec /= 2.0));
    }

    #[test]
    fn several_runs_show_less_than_one() {
        let slower = [1.05, 1.07, 1.03, 1.06, 1.05];
        let as_before = [0.99, 1.02, 1.0, 1.01, 0.98];
        assert!(compare(&runs(&as_before), &runs(&slower), DEFAULTS).is_worse());
        assert!(!compare(&runs(&slower), &runs(&as_before), DEFAULTS).is_worse());
        assert!(!compare(&runs(&[1.0]), &runs(&[1.05]), DEFAULTS).is_worse());
    }

    #[test]
    fn a_slower_program_shows_in_the_user_part_next_to_a_noisy_kernel() {
        let noisy = |more_user: f64| -> Vec<Report> {
            let run = |at: usize| {
                let mut run = report();
                let cpu = run.server_cpu.as_mut().unwrap();
                cpu.user_us = 0.2 + 0.02 * (at * 7 % 5) as f64 + more_user;
                cpu.system_us = 3.0 + 0.3 * (at * 5 % 9) as f64;
                cpu.total_us = cpu.user_us + cpu.system_us;
                run
            };
            (0..20).map(run).collect()
        };
        let compared = |more_user: f64| compare(&noisy(0.0), &noisy(more_user), DEFAULTS);
        let worse = |comparison: Comparison| -> Vec<&str> {
            comparison.lines.iter().filter(|line| line.is_worse).map(|line| line.name).collect()
        };
        // The limit is 3 % of the whole time per answer, which is 4.4 us.
        assert!(worse(compared(0.0)).is_empty() && worse(compared(0.1)).is_empty());
        assert_eq!(worse(compared(0.2)), ["  user"]);
    }

    #[test]
    fn a_spread_above_the_limit_is_remarked() {
        let remarked = |factors: &[f64]| {
            let comparison = compare(&runs(factors), &runs(&[1.0, 1.0, 1.0]), DEFAULTS);
            comparison.text().contains("equal runs differs by up to 20%")
        };
        assert!(remarked(&[0.9, 1.0, 1.1]));
        assert!(!remarked(&[0.99, 1.0, 1.01]) && !remarked(&[0.9, 1.1]));
    }

    #[test]
    fn a_difference_within_the_spread_is_not_worse() {
        let scattered = [0.7, 1.5, 1.0, 0.8, 1.3];
        let others = [1.2, 0.8, 1.1, 1.6, 0.7];
        assert!(!compare(&runs(&scattered), &runs(&others), DEFAULTS).is_worse());
    }

    #[test]
    fn many_runs_show_a_small_difference_within_their_spread() {
        let scattered = |shift: f64| -> Vec<f64> {
            (0..24).map(|run| shift + 0.01 * f64::from((run * 7) % 13 - 6)).collect()
        };
        let (before, slower) = (runs(&scattered(1.0)), runs(&scattered(1.05)));
        assert!(compare(&before, &slower, DEFAULTS).is_worse());
        assert!(!compare(&before, &runs(&scattered(1.0)), DEFAULTS).is_worse());
        assert!(!compare(&before[..5], &slower[..5], DEFAULTS).is_worse());
    }

    /// Returns runs for consecutive periods of ten seconds. Each run starts `offset` seconds after
    /// the start of its period.
    fn taken_at(offset: u64, factors: &[f64]) -> Vec<Report> {
        let mut runs = runs(factors);
        for (turn, run) in (1..).zip(&mut runs) {
            run.started_unix_secs = turn * 10 + offset;
        }
        runs
    }

    #[test]
    fn runs_in_turns_show_a_small_difference_on_a_machine_that_becomes_slower() {
        let slower_machine = |by: f64, shift: f64| -> Vec<f64> {
            let noise = |turn: i32| 0.01 * f64::from((turn * 7) % 5 - 2);
            (0..24)
                .map(|turn| (by + noise(turn)) * (1.0 + f64::from(turn) * 0.03) + shift)
                .collect()
        };
        let before = taken_at(0, &slower_machine(1.0, 0.0));
        let after = taken_at(3, &slower_machine(1.05, 0.0));
        assert!(compare(&before, &after, DEFAULTS).is_worse());
        assert!(!compare(&after, &before, DEFAULTS).is_worse());
        assert!(!compare(&before, &taken_at(3, &slower_machine(1.0, 0.001)), DEFAULTS).is_worse());
        let one_after_another = taken_at(1000, &slower_machine(1.05, 0.0));
        assert!(!compare(&before, &one_after_another, DEFAULTS).is_worse());
    }

    /// Returns a number with the mean 0 and the deviation 1, nearly normally distributed.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    /// Returns the runs of two sides that took 50 turns. The machine becomes slower and faster by a
    /// tenth. Runs next to each other differ by 3 % in CPU time and by 12 % in the P99. The later
    /// side also differs by the given factors.
    fn sides(seed: u64, cpu: f64, p99: f64) -> [Vec<Report>; 2] {
        let mut random = Random::new(seed);
        let mut sides = [taken_at(0, &[1.0; 50]), taken_at(3, &[1.0; 50])];
        for turn in 0..50 {
            let machine = 1.0 + 0.1 * (turn as f64 / 8.0).sin();
            for (side, [cpu, p99]) in sides.iter_mut().zip([[1.0, 1.0], [cpu, p99]]) {
                let noise = |random: &mut Random, share: f64| (share * normal(random)).exp();
                let run = &mut side[turn];
                run.server_cpu.as_mut().unwrap().total_us *=
                    machine * cpu * noise(&mut random, 0.03);
                let factor = machine * p99 * noise(&mut random, 0.12);
                run.latency.p99_ns = (run.latency.p99_ns as f64 * factor) as u64;
            }
        }
        sides
    }

    #[test]
    fn ten_comparisons_in_turns_find_each_slowdown_and_raise_no_false_alarm() {
        let worse = |seed: u64, cpu: f64, p99: f64| -> Vec<&'static str> {
            let [earlier, later] = sides(seed, cpu, p99);
            let comparison = compare(&earlier, &later, DEFAULTS);
            let worse = comparison.lines.iter().filter(|line| line.is_worse);
            worse.map(|line| line.name).collect()
        };
        for seed in 1..=10 {
            assert_eq!(worse(seed, 1.0, 1.0), [""; 0], "equal sides, seed {seed}");
            assert_eq!(worse(seed, 1.05, 1.0), ["CPU per answer"], "5 % CPU, seed {seed}");
            assert_eq!(worse(seed, 1.0, 1.25), ["P99"], "25 % P99, seed {seed}");
        }
    }

    #[test]
    fn a_lower_rate_in_turns_is_worse() {
        let mut sides = [taken_at(0, &[1.0; 5]), taken_at(3, &[1.0; 5])];
        for side in &mut sides {
            side.iter_mut().for_each(|run| run.server_cpu = None);
            side.iter_mut().for_each(|run| run.pace.open_loop = false);
        }
        let [before, mut after] = sides;
        assert!(!compare(&before, &after, DEFAULTS).is_worse());
        after.iter_mut().for_each(|run| run.outcome.answered_per_sec *= 0.9);
        assert!(compare(&before, &after, DEFAULTS).is_worse());
        assert!(!compare(&after, &before, DEFAULTS).is_worse());
    }

    #[test]
    fn latency_of_single_runs_is_shown_and_not_judged() {
        let later = runs(&[3.0]);
        let comparison = compare(
            &runs(&[1.0]),
            &later,
            RegressionArgs { max_regression: Some(9.0), ..DEFAULTS },
        );
        assert!(!comparison.is_worse() && comparison.text().contains("latency is not judged"));
    }

    #[test]
    fn a_figure_that_was_nothing_has_no_share() {
        let (mut earlier, later) = (report(), report());
        earlier.server_cpu.as_mut().unwrap().user_us = 0.0;
        let text = compare(&[earlier], &[later], DEFAULTS).text();
        assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn without_cpu_time_the_rate_is_held_to() {
        let (mut earlier, mut later) = (report(), report());
        earlier.server_cpu = None;
        later.outcome.answered_per_sec *= 0.9;
        let (earlier, later) = ([earlier], [later]);
        assert!(compare(&earlier, &later, limits(0.05)).is_worse());
        assert!(!compare(&earlier, &later, limits(0.15)).is_worse());
    }

    #[test]
    fn latency_is_held_to_in_an_open_loop_only() {
        let slower = |run: &mut Report| run.latency.p99_ns *= 2;
        assert!(!verdict(slower));
        let (mut earlier, mut later) = (report(), report());
        (earlier.pace.open_loop, later.pace.open_loop) = (true, true);
        slower(&mut later);
        assert!(compare(&[earlier], &[later], limits(0.05)).is_worse());
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
        assert_eq!(compare(&[report()], &[other], DEFAULTS).remarks.len(), 2);
    }
}
