//! The present rates of queries, from samples that the thread of the log takes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use avocet_control::statistics::QueryRates;
use avocet_querylog::Outcome;

/// Time between samples.
const SAMPLE_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of samples, which cover a minute.
const MAX_SAMPLES: usize = 61;

/// Counts of logged queries since the start.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct QueryTally {
    all: u64,
    blocked: u64,
    failed: u64,
}

impl QueryTally {
    /// Counts a query.
    pub(crate) fn count(&mut self, outcome: Outcome) {
        self.all += 1;
        self.blocked += u64::from(outcome == Outcome::Blocked);
        self.failed += u64::from(outcome == Outcome::Failed);
    }
}

/// Samples of the last minute.
#[derive(Default)]
pub(crate) struct Rates(Mutex<VecDeque<(Instant, QueryTally)>>);

impl Rates {
    /// Takes a sample, if one is due.
    pub(crate) fn sample(&self, now: Instant, tally: QueryTally) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.back().is_some_and(|(at, _)| now.duration_since(*at) < SAMPLE_AFTER) {
            return;
        }
        if samples.len() >= MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back((now, tally));
    }

    /// Returns the rates between the first and the last sample.
    pub(crate) fn report(&self) -> QueryRates {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some((began, first)), Some((ended, last))) = (samples.front(), samples.back()) else {
            return QueryRates::default();
        };
        let secs = ended.duration_since(*began).as_secs_f64();
        let rate = |from: u64, to: u64| if secs > 0.0 { (to - from) as f64 / secs } else { 0.0 };
        QueryRates {
            secs,
            queries: rate(first.all, last.all),
            blocked: rate(first.blocked, last.blocked),
            failed: rate(first.failed, last.failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_minute() {
        let (rates, start) = (Rates::default(), Instant::now());
        assert_eq!(rates.report(), QueryRates::default());
        let mut tally = QueryTally::default();
        for second in 0..100 {
            // A minute with many queries follows a minute with few.
            for number in 0..if second < 39 { 1 } else { 10 } {
                let outcome = if number < 2 { Outcome::Blocked } else { Outcome::Answered };
                tally.count(outcome);
            }
            let now = start + Duration::from_secs(second);
            rates.sample(now, tally);
            rates.sample(now + Duration::from_millis(500), QueryTally::default());
        }
        let expected = QueryRates { secs: 60.0, queries: 10.0, blocked: 2.0, failed: 0.0 };
        assert_eq!(rates.report(), expected);
    }
}
