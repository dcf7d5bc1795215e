//! Tables of a report for the terminal and for a page.

use super::extra::Extra;
use super::peer::Peer;
use super::report::{Counts, Report, Sample, Spread};
use super::workload::{Measure, Workload};

/// Rows of cells under a heading. The first column is text; the other columns are figures.
#[derive(Debug, PartialEq)]
pub(super) struct Table {
    pub(super) title: String,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// The cell of a measurement that does not apply.
const NONE: &str = "-";
/// The cell of a feature that Avocet lacks.
const NOT_YET: &str = "not yet";

impl Table {
    pub(super) fn of(title: &str, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Self { title: title.to_owned(), heads, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table in columns of equal width.
    pub(super) fn text(&self) -> String {
        let lines: Vec<&Vec<String>> = std::iter::once(&self.heads).chain(&self.rows).collect();
        let width = |column: usize| {
            lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let mut text = format!("{}\n", self.title);
        for line in lines {
            let mut cells = line.iter().zip(&widths);
            let first =
                cells.next().map(|(cell, width)| format!("  {cell:<width$}")).unwrap_or_default();
            let others: String = cells.map(|(cell, width)| format!("  {cell:>width$}")).collect();
            text.push_str((first + &others).trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns the table in Markdown, without its title.
    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|---{}|\n", "|--:".repeat(self.heads.len().saturating_sub(1)));
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        line(&self.heads) + &rule + &rows
    }
}

/// Returns a table with one row per peer and one column per workload, with medians.
pub(super) fn summary(report: &Report) -> Table {
    let is_measured = |workload: &Workload| {
        Peer::ALL.iter().any(|peer| report.figure(*peer, *workload).is_some())
    };
    let workloads: Vec<_> = Workload::ALL.iter().copied().filter(is_measured).collect();
    let heads: Vec<_> =
        ["server"].into_iter().chain(workloads.iter().map(|workload| workload.name())).collect();
    let title = "CPU microseconds per answer; latency, flood and slow-tcp: p99 in microseconds; \
                 memory: bytes per name; endurance: megabytes";
    let mut table = Table::of(title, &heads);
    for peer in Peer::ALL.iter().copied() {
        let cells: Vec<_> =
            workloads.iter().map(|workload| summary_cell(report, peer, *workload)).collect();
        if cells.iter().any(|cell| cell != NONE && cell != NOT_YET) {
            table.push([vec![peer.name().to_owned()], cells].concat());
        }
    }
    table
}

/// Returns the table of figures that were counted, not timed. It has one row per peer.
pub(super) fn counts(report: &Report) -> Table {
    let mut table =
        Table::of("Counts", &["server", "user instructions per hit", "system calls per miss"]);
    for peer in Peer::ALL.iter().copied() {
        let of = |counts: &Counts, digits: usize| {
            let found = counts.iter().find(|(one, _)| *one == peer);
            found.map_or_else(|| NONE.to_owned(), |(_, count)| format!("{count:.digits$}"))
        };
        let cells = [of(&report.instructions, 0), of(&report.calls, 2)];
        if cells.iter().any(|cell| cell != NONE) {
            table.push([&[peer.name().to_owned()], &cells[..]].concat());
        }
    }
    table
}

fn summary_cell(report: &Report, peer: Peer, workload: Workload) -> String {
    match report.figure(peer, workload) {
        Some(figure) => figure_text(workload, figure.median),
        None if report.has_failed(peer, workload) => "left out".to_owned(),
        None if peer == Peer::Avocet => NOT_YET.to_owned(),
        None => NONE.to_owned(),
    }
}

/// Returns one table per workload. Each row is a peer with its spread and the ratio to Avocet, and
/// the lowest figure comes first.
pub(super) fn details(report: &Report) -> Vec<String> {
    Workload::ALL.iter().filter_map(|workload| Some(detail(report, *workload)?.text())).collect()
}

/// Returns the table of a workload, or `None` if it was not measured.
pub(super) fn detail(report: &Report, workload: Workload) -> Option<Table> {
    let peers = ranked(report, workload);
    if peers.is_empty() {
        return None;
    }
    let figure = match workload.measure() {
        Measure::Cpu => "CPU us",
        Measure::Latency => "p99 us",
        Measure::Memory => "bytes per name",
        Measure::Resident => "PSS MB",
    };
    let columns = columns(workload);
    let further: Vec<_> = columns.iter().map(|column| column.head()).collect();
    let heads =
        [&["server", figure, "(min-max)"][..], &further, &["Avocet / it", "(min-max)"]].concat();
    let mut table = Table::of(&format!("{} ({})", workload.title(), workload.name()), &heads);
    for (peer, figure) in peers {
        let spread = range(figure, |value| figure_text(workload, value));
        let mut row = vec![peer.name().to_owned(), figure_text(workload, figure.median), spread];
        row.extend(columns.iter().map(|column| column.cell(report, peer, workload)));
        let ratio = report.ratio(Peer::Avocet, peer, workload).filter(|_| peer != Peer::Avocet);
        row.push(ratio.map_or_else(|| NONE.to_owned(), |ratio| format!("{:.2}", ratio.median)));
        row.push(
            ratio.map_or_else(
                || NONE.to_owned(),
                |ratio| range(ratio, |value| format!("{value:.2}")),
            ),
        );
        table.push(row);
    }
    Some(table)
}

/// Returns the measured peers, the lowest headline figure first. Latencies with overlapping spreads
/// depend more on the machine than on the servers. If any two neighbours overlap, the peers are in
/// their usual order.
pub(super) fn ranked(report: &Report, workload: Workload) -> Vec<(Peer, Spread)> {
    let figures =
        Peer::ALL.iter().filter_map(|peer| Some((*peer, report.figure(*peer, workload)?)));
    let mut ranked: Vec<_> = figures.collect();
    let mut by_median = ranked.clone();
    by_median.sort_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
    let overlaps = |pair: &[(Peer, Spread)]| match pair {
        [(_, lower), (_, higher)] => lower.most >= higher.least,
        _ => false,
    };
    let is_undecided = workload.measure() == Measure::Latency && by_median.windows(2).any(overlaps);
    if !is_undecided {
        ranked = by_median;
    }
    ranked
}

/// Returns the lowest and the highest value if they differ. A single sample has no range.
fn range(spread: Spread, text: impl Fn(f64) -> String) -> String {
    if spread.least == spread.most {
        return NONE.to_owned();
    }
    format!("({}-{})", text(spread.least), text(spread.most))
}

fn figure_text(workload: Workload, value: f64) -> String {
    match workload.measure() {
        Measure::Cpu => format!("{value:.2}"),
        Measure::Resident => format!("{value:.1}"),
        Measure::Latency | Measure::Memory => format!("{value:.0}"),
    }
}

/// A figure of a workload in addition to its headline.
#[derive(Clone, Copy)]
enum Column {
    UserUs,
    CpuUs,
    PerSec,
    Answers,
    P50,
    P99,
    P999,
    ListMb,
    ReadySecs,
    StartMb,
    Kept,
    Extra(Extra),
}

impl Column {
    fn head(self) -> &'static str {
        match self {
            Self::UserUs => "user us",
            Self::CpuUs => "CPU us",
            Self::PerSec => "queries/s",
            Self::Answers => "answers",
            Self::P50 => "p50 us",
            Self::P99 => "p99 us",
            Self::P999 => "p99.9 us",
            Self::ListMb => "list MB",
            Self::ReadySecs => "ready s",
            Self::StartMb => "at start MB",
            Self::Kept => "still cached",
            Self::Extra(extra) => extra.head(),
        }
    }

    fn digits(self) -> usize {
        match self {
            Self::UserUs | Self::CpuUs | Self::ReadySecs => 2,
            Self::PerSec
            | Self::Answers
            | Self::P50
            | Self::P99
            | Self::P999
            | Self::ListMb
            | Self::StartMb => 0,
            Self::Kept => 3,
            Self::Extra(extra) => extra.digits(),
        }
    }

    /// Returns the figure of a sample, or `None` if the sample does not have it.
    fn value(self, sample: &Sample, report: &Report) -> Option<f64> {
        let latency = sample.load.latency;
        match self {
            Self::UserUs => Some(sample.user_us),
            Self::CpuUs => Some(sample.cpu_us),
            Self::PerSec => Some(sample.load.per_sec),
            Self::Answers => Some(sample.load.answered as f64),
            Self::P50 => Some(latency?.p50_us),
            Self::P99 => Some(latency?.p99_us),
            Self::P999 => Some(latency?.p999_us),
            Self::ListMb => Some(report.list_cost(sample.peer)?.0 / 1e6),
            Self::ReadySecs => Some(sample.ready_secs),
            Self::StartMb => Some(sample.start_bytes / 1e6),
            Self::Kept => Some(sample.growth?.kept),
            Self::Extra(extra) => sample.load.extra(extra),
        }
    }

    /// Returns the cell with the median over the rounds.
    fn cell(self, report: &Report, peer: Peer, workload: Workload) -> String {
        let spread = report.spread(peer, workload, |sample| self.value(sample, report));
        let digits = self.digits();
        spread.map_or_else(|| NONE.to_owned(), |spread| format!("{:.digits$}", spread.median))
    }
}

/// Returns the figures of a workload in addition to its headline.
fn columns(workload: Workload) -> Vec<Column> {
    match workload {
        Workload::Latency => vec![Column::P50, Column::P999, Column::CpuUs],
        Workload::HitSlow | Workload::HitSteady => {
            vec![Column::Answers, Column::P50, Column::P99, Column::P999]
        }
        Workload::HitHalf => {
            let capacity = Column::Extra(Extra::Capacity);
            vec![Column::Answers, Column::P50, Column::P99, Column::P999, capacity]
        }
        Workload::Flood | Workload::SlowTcp => {
            let shares = match workload {
                Workload::Flood => vec![Extra::AnsweredPercent, Extra::FloodPercent],
                _ => vec![Extra::AnsweredPercent, Extra::SlowOpen, Extra::SlowClosed],
            };
            let alone = [Extra::AloneP50, Extra::AloneP99];
            let extras = shares.into_iter().chain(alone).map(Column::Extra);
            std::iter::once(Column::P50).chain(extras).collect()
        }
        Workload::Blocked => {
            vec![Column::UserUs, Column::PerSec, Column::ListMb, Column::ReadySecs]
        }
        Workload::Endurance => {
            let extras = [Extra::LeastMb, Extra::MostMb, Extra::DriftMb].map(Column::Extra);
            [&[Column::StartMb][..], &extras, &[Column::PerSec, Column::CpuUs]].concat()
        }
        Workload::Recursion => {
            let extras = [Extra::Upstream, Extra::Servfail, Extra::Wrong].map(Column::Extra);
            [&[Column::P50, Column::P99][..], &extras].concat()
        }
        Workload::MemorySmall | Workload::Memory => vec![Column::StartMb, Column::Kept],
        _ => vec![Column::UserUs, Column::PerSec],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::sample;

    fn report() -> Report {
        let figures = [
            (Peer::Bare, 1, 2.0),
            (Peer::Avocet, 1, 3.0),
            (Peer::Bare, 2, 4.0),
            (Peer::Avocet, 2, 5.0),
        ];
        let samples =
            figures.map(|(peer, round, cpu_us)| sample(peer, Workload::Hot, round, cpu_us)).into();
        Report { samples, ..Report::default() }
    }

    #[test]
    fn a_row_shows_median_spread_and_the_ratio_to_avocet() {
        let text = detail(&report(), Workload::Hot).unwrap().text();
        let row: Vec<_> =
            text.lines().find(|line| line.contains("bare")).unwrap().split_whitespace().collect();
        assert_eq!(row, ["bare", "3.00", "(2.00-4.00)", "0.75", "0", "1.38", "(1.25-1.50)"]);
        assert_eq!(detail(&report(), Workload::Tcp), None);
    }

    #[test]
    fn a_row_below_capacity_shows_its_capacity() {
        let mut half = sample(Peer::Avocet, Workload::HitHalf, 1, 9.0);
        half.load.extras = vec![(Extra::Capacity, 250_000.4)];
        let report = Report { samples: vec![half], ..Report::default() };
        let text = detail(&report, Workload::HitHalf).unwrap().text();
        assert!(text.contains("capacity/s") && text.contains("250000 "), "{text}");
        let row: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row[..4], ["avocet", "9.00", "-", "1000"], "one sample has no range: {text}");
    }

    #[test]
    fn latencies_that_overlap_are_not_ranked() {
        let of = |peer, round, p99_us| {
            let mut sample = sample(peer, Workload::Latency, round, 1.0);
            sample.load.latency =
                Some(crate::bench::load::Latency { p50_us: 1.0, p99_us, p999_us: 900.0 });
            sample
        };
        let order = |samples: Vec<Sample>| {
            let report = Report { samples, ..Report::default() };
            ranked(&report, Workload::Latency).iter().map(|(peer, _)| *peer).collect::<Vec<_>>()
        };
        let apart = vec![of(Peer::Avocet, 1, 300.0), of(Peer::Bare, 1, 400.0)];
        assert_eq!(order(apart), [Peer::Avocet, Peer::Bare]);
        let overlapping = vec![
            of(Peer::Avocet, 1, 300.0),
            of(Peer::Avocet, 2, 350.0),
            of(Peer::Bare, 1, 330.0),
            of(Peer::Bare, 2, 400.0),
        ];
        assert_eq!(order(overlapping), [Peer::Bare, Peer::Avocet]);
    }

    #[test]
    fn what_avocet_cannot_do_yet_is_said() {
        let mut report = report();
        report.samples.push(sample(Peer::Unbound, Workload::Blocked, 1, 5.0));
        report.fail(Peer::Dnsdist, Workload::Blocked, "wrong".to_owned());
        let cell = |peer, workload| summary_cell(&report, peer, workload);
        assert_eq!(cell(Peer::Avocet, Workload::Blocked), "not yet");
        assert_eq!(cell(Peer::Nsd, Workload::Blocked), "-");
        assert_eq!(cell(Peer::Dnsdist, Workload::Blocked), "left out");
        assert_eq!(cell(Peer::Unbound, Workload::Blocked), "5.00");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::of("t", &["a", "b"]);
        table.push(vec!["long name".to_owned(), "1".to_owned()]);
        assert_eq!(table.text(), "t\n  a          b\n  long name  1\n");
        assert_eq!(table.markdown(), "| a | b |\n|---|--:|\n| long name | 1 |\n");
    }
}
