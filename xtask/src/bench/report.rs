//! Samples, the table of their medians, and their JSON.

use std::fmt::Write as _;

use super::json::{self, Json};
use super::load::Load;
use super::peer::Peer;
use super::workload::Workload;

/// One timed run.
pub(super) struct Sample {
    pub(super) peer: Peer,
    pub(super) workload: Workload,
    /// CPU microseconds per query, user and system; for memory: bytes per name.
    pub(super) figure: f64,
    /// The user part of the CPU microseconds.
    pub(super) user: f64,
    pub(super) load: Load,
}

impl Sample {
    /// The sample on one line, to be seen while the bench runs.
    pub(super) fn line(&self) -> String {
        let pair = format!("{}/{}", self.peer.name(), self.workload.name());
        format!("{pair:<20} {:8.2}  {:9.0}/s  lost {}", self.figure, self.load.per_sec, self.load.lost)
    }

    fn json(&self) -> Json {
        let rcodes = self.load.rcodes.iter().map(|(name, count)| (name.as_str(), json::number(*count as f64)));
        json::object([
            ("peer", json::string(self.peer.name())),
            ("workload", json::string(self.workload.name())),
            (unit(self.workload), json::number(self.figure)),
            ("user_us", json::number(self.user)),
            ("per_sec", json::number(self.load.per_sec)),
            ("answered", json::number(self.load.answered as f64)),
            ("lost", json::number(self.load.lost as f64)),
            ("rcodes", json::object(rcodes)),
        ])
    }
}

fn unit(workload: Workload) -> &'static str {
    if workload == Workload::Memory { "bytes_per_name" } else { "cpu_us" }
}

/// All samples of a bench.
#[derive(Default)]
pub(super) struct Report {
    pub(super) samples: Vec<Sample>,
}

/// The peers the others are divided by.
const YARDSTICKS: &[Peer] = &[Peer::Bare, Peer::Unbound, Peer::Dnsdist, Peer::Nsd];

impl Report {
    /// One row per workload and peer: medians over the rounds, their spread, and ratios.
    ///
    /// A ratio is the median of the ratios of each round, so that drift between rounds cancels.
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "{:<9} {:<10} {:>6} {:>8} {:>15} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
            "workload",
            "peer",
            "rounds",
            "CPU us",
            "(min-max)",
            "user",
            "q/s",
            "x bare",
            "x unbound",
            "x dnsdist",
            "x nsd"
        );
        for workload in Workload::ALL.iter().copied() {
            for peer in Peer::ALL.iter().copied() {
                if let Some(row) = self.row(peer, workload) {
                    text.push_str(&row);
                }
            }
        }
        text.push_str("memory is in bytes per name, not in CPU microseconds per query");
        text
    }

    fn row(&self, peer: Peer, workload: Workload) -> Option<String> {
        let figures = self.values(peer, workload, |sample| sample.figure);
        let spread = format!("({:.2}-{:.2})", least(&figures)?, most(&figures)?);
        let user = median(&self.values(peer, workload, |sample| sample.user))?;
        let per_sec = median(&self.values(peer, workload, |sample| sample.load.per_sec))?;
        let (rounds, middle) = (figures.len(), median(&figures)?);
        let mut row = format!("{:<9} {:<10} {rounds:>6} {middle:>8.2} {spread:>15} ", workload.name(), peer.name());
        let _ = write!(row, "{user:>7.2} {per_sec:>9.0}");
        for yardstick in YARDSTICKS {
            let others = self.values(*yardstick, workload, |sample| sample.figure);
            let ratios: Vec<f64> = figures.iter().zip(&others).map(|(own, other)| own / other).collect();
            match median(&ratios) {
                Some(ratio) => drop(write!(row, " {ratio:>9.2}")),
                None => drop(write!(row, " {:>9}", "-")),
            }
        }
        Some(row + "\n")
    }

    /// A value of each round of a pair, in the order of the rounds.
    fn values(&self, peer: Peer, workload: Workload, value: fn(&Sample) -> f64) -> Vec<f64> {
        let of_pair = self.samples.iter().filter(|sample| sample.peer == peer && sample.workload == workload);
        of_pair.map(value).collect()
    }

    /// The samples as they were measured.
    pub(super) fn json(&self) -> Json {
        json::array(self.samples.iter().map(Sample::json))
    }
}

fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

/// The middle value, or the mean of the two in the middle; none of none.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(peer: Peer, figure: f64) -> Sample {
        Sample { peer, workload: Workload::Hot, figure, user: figure / 4.0, load: Load::default() }
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_ratio_is_that_of_the_same_round() {
        let samples = [(Peer::Bare, 2.0), (Peer::Nsd, 3.0), (Peer::Bare, 4.0), (Peer::Nsd, 6.0)];
        let report = Report { samples: samples.map(|(peer, figure)| sample(peer, figure)).into() };
        let table = report.table();
        let row = table.lines().find(|line| line.contains(" nsd ")).unwrap();
        let words: Vec<_> = row.split_whitespace().collect();
        assert_eq!(words, ["hot", "nsd", "2", "4.50", "(3.00-6.00)", "1.12", "0", "1.50", "-", "-", "1.00"]);
    }

    #[test]
    fn samples_are_kept_with_their_unit() {
        let report = Report { samples: vec![sample(Peer::Bare, 2.5)] };
        let json = report.json().to_string();
        assert!(json.contains("\"peer\": \"bare\"") && json.contains("\"cpu_us\": 2.5"), "{json}");
    }
}
