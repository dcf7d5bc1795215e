//! The results of a flow: counts and latencies.

use avocet_wire::header::TC;
use avocet_wire::{Header, Rcode};
use hdrhistogram::Histogram;

use super::lane::Handshake;
use crate::check::Wrong;

/// Longest latency that the histogram distinguishes. It is above every timeout.
const LATENCY_MAX_NS: u64 = 120_000_000_000;

/// Maximum number of wrong answers that are described in words.
const EXAMPLES_MAX: usize = 10;

/// Latencies in nanoseconds, with three significant digits.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        // The library accepts these constant bounds, so no error can occur.
        Self(
            Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
                .unwrap_or_else(|_| unreachable!("constant bounds")),
        )
    }

    #[inline]
    pub(crate) fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// Returns the latency that this share of the answers did not exceed, or 0 if there are no
    /// answers.
    pub(crate) fn at(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    pub(crate) fn max(&self) -> u64 {
        self.0.max()
    }

    pub(crate) fn mean(&self) -> f64 {
        self.0.mean()
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }

    /// Adds all counts of `other` to this histogram.
    pub(crate) fn add(&mut self, other: &Self) {
        // Both histograms have the same bounds, so no error can occur.
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Moves all counts of `other` into this histogram.
    pub(crate) fn take(&mut self, other: &mut Self) {
        if !other.0.is_empty() {
            self.add(other);
            other.clear();
        }
    }
}

/// Wrong answers by problem.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WrongCounts([u64; Wrong::ALL.len()]);

impl WrongCounts {
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the number of answers with this problem.
    pub(crate) fn of(&self, wrong: Wrong) -> u64 {
        self.0[wrong as usize]
    }

    fn count(&mut self, wrong: Wrong) {
        self.0[wrong as usize] += 1;
    }

    fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.0.iter_mut().zip(other.0) {
            *ours += theirs;
        }
    }
}
/// The counts of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    /// Answers to waiting queries, right or wrong.
    pub(crate) answered: u64,
    /// Queries that were not answered in time.
    pub(crate) lost: u64,
    /// Number of lost queries after the last answered query.
    pub(crate) lost_at_end: u64,
    /// Answers that arrived after the generator gave up their query.
    pub(crate) late: u64,
    pub(crate) duplicate: u64,
    /// Answers with the flag TC, and queries that were retried over TCP.
    pub(crate) truncated: u64,
    pub(crate) retried: u64,
    /// NOERROR with an empty answer section.
    pub(crate) empty: u64,
    /// Connections that the server closed with queries in flight.
    pub(crate) disconnects: u64,
    /// Errors of sending and receiving, such as a closed port.
    pub(crate) errors: u64,
    /// TLS handshakes: full, resumed and failed.
    pub(crate) handshakes: [u64; 3],
    pub(crate) wrong: WrongCounts,
    /// Answers by the RCODE in their header.
    pub(crate) rcodes: [u64; 16],
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.lost += other.lost;
        self.lost_at_end += other.lost_at_end;
        self.late += other.late;
        self.duplicate += other.duplicate;
        self.truncated += other.truncated;
        self.retried += other.retried;
        self.empty += other.empty;
        self.disconnects += other.disconnects;
        self.errors += other.errors;
        for (ours, theirs) in self.handshakes.iter_mut().zip(other.handshakes) {
            *ours += theirs;
        }
        self.wrong.add(&other.wrong);
        for (ours, theirs) in self.rcodes.iter_mut().zip(other.rcodes) {
            *ours += theirs;
        }
    }

    /// Counts the end of a handshake.
    pub(crate) fn handshake(&mut self, handshake: Handshake) {
        self.handshakes[handshake as usize] += 1;
    }

    /// Returns the share of lost queries among those with a known outcome.
    pub(crate) fn loss(&self) -> f64 {
        let decided = self.answered + self.lost;
        if decided == 0 { 0.0 } else { self.lost as f64 / decided as f64 }
    }
}

/// Counts and latencies of a flow, in total and for the current interval.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    /// Latencies of completed intervals.
    pub(crate) latencies: Latencies,
    /// Latencies of the current interval.
    pub(crate) interval: Latencies,
    /// Descriptions of the first wrong answers.
    pub(crate) examples: Vec<String>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        let empty = Latencies::new();
        Self {
            counts: Counts::default(),
            latencies: empty.clone(),
            interval: empty,
            examples: Vec::new(),
        }
    }

    /// Counts an answer by its header.
    #[inline]
    pub(crate) fn header(&mut self, header: Header) {
        let rcode = usize::from(header.rcode().0 & 15);
        self.counts.rcodes[rcode] += 1;
        self.counts.truncated += u64::from(header.has(TC));
        self.counts.empty += u64::from(rcode == 0 && header.counts[1] == 0);
    }

    /// Counts a wrong answer and keeps the first descriptions.
    #[cold]
    pub(crate) fn wrong(&mut self, wrong: Wrong, describe: impl FnOnce() -> String) {
        self.counts.wrong.count(wrong);
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(describe());
        }
    }

    /// Ends the current interval.
    pub(crate) fn close_interval(&mut self) {
        self.latencies.take(&mut self.interval);
    }
}

/// Returns the name of a header's RCODE.
pub(crate) fn rcode_name(rcode: usize) -> String {
    Rcode(rcode as u16).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_keep_three_digits() {
        let mut latencies = Latencies::new();
        for micros in 1..=1000 {
            latencies.record(micros * 1000);
        }
        for (share, wanted) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let found = latencies.at(share);
            assert!(found.abs_diff(wanted) <= wanted / 1000, "{share}: {found}");
        }
        assert_eq!(latencies.len(), 1000);
    }

    #[test]
    fn what_exceeds_the_range_is_counted_at_its_end() {
        let mut latencies = Latencies::new();
        latencies.record(u64::MAX);
        latencies.record(0);
        assert_eq!(latencies.len(), 2);
    }

    #[test]
    fn loss_is_of_those_whose_fate_is_known() {
        let counts = Counts { sent: 100, answered: 30, lost: 10, ..Counts::default() };
        assert!((counts.loss() - 0.25).abs() < 1e-9);
        assert!(Counts::default().loss() < f64::EPSILON);
    }
}
