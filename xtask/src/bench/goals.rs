//! The performance goals of Avocet, as ratios within one run, and whether Avocet reaches them. A
//! goal is undecided if some rounds reach it and others do not.

use super::peer::Peer;
use super::report::{Report, Spread};
use super::table::Table;
use super::workload::Workload;

/// A limit for a figure of Avocet.
struct Goal {
    workload: Workload,
    limit: Limit,
}

/// The reference of a goal.
enum Limit {
    /// This factor times the headline figure of another server.
    Times(f64, Peer),
    /// This factor times the headline figure of Avocet in another workload.
    OfWorkload(f64, Workload),
    /// User CPU time: at most this many microseconds more than another server.
    UserAbove(f64, Peer),
    /// At most this many bytes per name.
    Bytes(f64),
}

const GOALS: &[Goal] = &[
    Goal { workload: Workload::Hot, limit: Limit::Times(1.10, Peer::Bare) },
    Goal { workload: Workload::Hot, limit: Limit::Times(0.92, Peer::Unbound) },
    Goal { workload: Workload::Hot, limit: Limit::UserAbove(0.1, Peer::Nsd) },
    Goal { workload: Workload::Tcp, limit: Limit::Times(1.65, Peer::Bare) },
    Goal { workload: Workload::Tcp, limit: Limit::Times(0.55, Peer::Dnsdist) },
    Goal { workload: Workload::Dot, limit: Limit::Times(0.50, Peer::Dnsdist) },
    Goal { workload: Workload::Doh, limit: Limit::Times(0.70, Peer::Dnsdist) },
    Goal { workload: Workload::Doq, limit: Limit::Times(0.40, Peer::Dnsproxy) },
    Goal { workload: Workload::Doh3, limit: Limit::Times(0.40, Peer::Dnsproxy) },
    Goal { workload: Workload::DotNew, limit: Limit::Times(1.0, Peer::Dnsdist) },
    Goal { workload: Workload::DotResumed, limit: Limit::Times(1.0, Peer::Dnsdist) },
    Goal { workload: Workload::Miss, limit: Limit::Times(1.6, Peer::Bare) },
    Goal { workload: Workload::Miss, limit: Limit::Times(0.45, Peer::Unbound) },
    Goal { workload: Workload::Zipf, limit: Limit::Times(0.68, Peer::Unbound) },
    Goal { workload: Workload::Zipf, limit: Limit::Times(0.9, Peer::Dnsdist) },
    Goal { workload: Workload::Blocked, limit: Limit::Times(0.7, Peer::Dnsdist) },
    Goal { workload: Workload::Blocked, limit: Limit::OfWorkload(1.05, Workload::Unlisted) },
    Goal { workload: Workload::Memory, limit: Limit::Bytes(200.0) },
];

impl Goal {
    fn limit_text(&self) -> String {
        match &self.limit {
            Limit::Times(times, peer) => format!("<= {times:.2} x {}", peer.name()),
            Limit::OfWorkload(times, workload) => format!("<= {times:.2} x {}", workload.name()),
            Limit::UserAbove(micros, peer) => format!("user <= {} + {micros:.1} us", peer.name()),
            Limit::Bytes(bytes) => format!("<= {bytes:.0} bytes"),
        }
    }

    /// Returns the measured figure, in the unit of the limit, and the limit itself.
    fn measured(&self, report: &Report) -> Option<(Spread, f64)> {
        let workload = self.workload;
        match self.limit {
            Limit::Times(times, peer) => Some((report.ratio(Peer::Avocet, peer, workload)?, times)),
            Limit::OfWorkload(times, other) => {
                Some((report.ratio_of((Peer::Avocet, workload), (Peer::Avocet, other))?, times))
            }
            Limit::UserAbove(micros, peer) => {
                let pairs = ((Peer::Avocet, workload), (peer, workload));
                let differences = report.differences_of(pairs.0, pairs.1, |sample| sample.user_us);
                Some((Spread::of(&differences)?, micros))
            }
            Limit::Bytes(bytes) => Some((report.figure(Peer::Avocet, workload)?, bytes)),
        }
    }

    fn row(&self, report: &Report) -> Vec<String> {
        let (measured, verdict) = match self.measured(report) {
            None => ("-".to_owned(), "not measured".to_owned()),
            Some((spread, limit)) => {
                let verdict = match spread.median - limit {
                    _ if spread.least <= limit && spread.most > limit => "undecided".to_owned(),
                    over if over > 0.0 => format!("missed by {}", self.excess_text(over, limit)),
                    _ => "reached".to_owned(),
                };
                (self.spread_text(spread), verdict)
            }
        };
        vec![self.workload.name().to_owned(), self.limit_text(), measured, verdict]
    }

    /// Returns the median, with the lowest and the highest value if they differ.
    fn spread_text(&self, spread: Spread) -> String {
        let Spread { median, least, most } = spread;
        let text = |value: f64| match self.limit {
            Limit::Bytes(_) => format!("{value:.0}"),
            Limit::UserAbove(..) => format!("{value:+.2}"),
            Limit::Times(..) | Limit::OfWorkload(..) => format!("{value:.2}"),
        };
        let range = match self.limit {
            _ if least == most => return text(median),
            // The hyphen would look like the sign of the second number.
            Limit::UserAbove(..) => format!("{} to {}", text(least), text(most)),
            _ => format!("{}-{}", text(least), text(most)),
        };
        format!("{} ({range})", text(median))
    }

    /// Returns by how much a figure exceeds its limit.
    fn excess_text(&self, over: f64, limit: f64) -> String {
        match self.limit {
            Limit::UserAbove(..) => format!("{over:.2} us"),
            _ => format!("{:.0} %", over / limit * 100.0),
        }
    }
}

/// Returns a table with one row per goal and workload that was run; empty if Avocet was not
/// measured.
pub(super) fn table(report: &Report) -> Table {
    let mut table = Table::of("Goals of Avocet", &["workload", "goal", "measured (min-max)", ""]);
    let is_measured = report.samples.iter().any(|sample| sample.peer == Peer::Avocet);
    let is_run =
        |workload: Workload| report.samples.iter().any(|sample| sample.workload == workload);
    for goal in GOALS.iter().filter(|goal| is_measured && is_run(goal.workload)) {
        table.push(goal.row(report));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::sample;

    #[track_caller]
    fn check(avocet_us: f64, expected: &[&str]) {
        let samples = vec![
            sample(Peer::Avocet, Workload::Hot, 1, avocet_us),
            sample(Peer::Bare, Workload::Hot, 1, 2.0),
            sample(Peer::Nsd, Workload::Hot, 1, 2.0),
        ];
        let report = Report { samples, ..Report::default() };
        let verdicts: Vec<_> =
            GOALS[..3].iter().map(|goal| goal.row(&report).pop().unwrap()).collect();
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn a_goal_is_reached_or_missed_by_so_much() {
        check(2.1, &["reached", "not measured", "reached"]);
        check(3.4, &["missed by 55 %", "not measured", "missed by 0.25 us"]);
    }

    #[test]
    fn user_time_is_compared_within_a_round() {
        // User time is a quarter of the CPU time: both servers become slower in the second round.
        let samples =
            [(1, 2.0, 2.0), (2, 9.0, 8.76)].into_iter().flat_map(|(round, ours, other)| {
                [
                    sample(Peer::Avocet, Workload::Hot, round, ours),
                    sample(Peer::Nsd, Workload::Hot, round, other),
                ]
            });
        let report = Report { samples: samples.collect(), ..Report::default() };
        assert_eq!(GOALS[2].row(&report)[2..], ["+0.03 (+0.00 to +0.06)", "reached"]);
    }

    #[test]
    fn one_round_has_no_range() {
        let samples = [(Peer::Avocet, 2.0), (Peer::Bare, 2.0)]
            .map(|(peer, micros)| sample(peer, Workload::Hot, 1, micros));
        let report = Report { samples: samples.into(), ..Report::default() };
        assert_eq!(GOALS[0].row(&report)[2..], ["1.00", "reached"]);
    }

    #[test]
    fn a_goal_within_the_spread_is_undecided() {
        let samples = [(1, 2.1), (2, 2.3)].into_iter().flat_map(|(round, micros)| {
            [
                sample(Peer::Avocet, Workload::Hot, round, micros),
                sample(Peer::Bare, Workload::Hot, round, 2.0),
            ]
        });
        let report = Report { samples: samples.collect(), ..Report::default() };
        assert_eq!(GOALS[0].row(&report)[2..], ["1.10 (1.05-1.15)", "undecided"]);
    }

    #[test]
    fn goals_without_measurements_are_not_shown() {
        assert!(table(&Report::default()).is_empty());
    }
}
