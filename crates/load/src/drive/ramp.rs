//! The search for the highest rate that a server sustains.
//!
//! The rate doubles until a bound is violated. Then the gap between the highest successful and the
//! lowest failed rate is halved repeatedly. A rate that fails is tried a second time, so that a
//! hiccup of the machine does not count as a limit. A short step can also succeed by luck: a rate
//! is accepted only after a run of the whole duration satisfies the bounds. The rate is lowered
//! until such a run succeeds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of steps of one search.
const MAX_STEPS: usize = 40;

/// The search ends when the gap is at most this share of the highest successful rate.
const PRECISION: f64 = 0.03;

/// Minimum share by which the rate is lowered after a run of the whole duration that violates the
/// bounds. The share doubles for each further run.
const STEP_DOWN: f64 = 0.05;

/// Maximum number of runs of the whole duration.
const MAX_RUNS: usize = 6;

/// Minimum share of a step's queries that must be sent. If fewer are sent, the generator is the
/// bottleneck.
const OFFERED_MIN: f64 = 0.95;

/// The limits that the server must keep at a rate, so that the rate passes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// The highest permitted share of lost queries, from 0 to 1.
    pub max_loss: f64,
    /// The highest permitted 99th percentile of latency, in nanoseconds.
    pub max_p99_ns: u64,
}

/// The result of one rate in the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RampStep {
    /// The rate: queries per second that were due.
    pub rate: f64,
    /// Queries per second that the generator sent.
    pub offered: f64,
    /// The share of lost queries, from 0 to 1.
    pub loss: f64,
    /// The 99th percentile of latency, in nanoseconds.
    pub p99_ns: u64,
    /// The number of wrong responses.
    pub wrong: u64,
    /// Whether the rate passed: all limits were kept, no response was wrong, and at least 95 % of
    /// the queries that were due were sent.
    pub held: bool,
}

impl RampStep {
    pub(crate) fn judge(mut self, bounds: &Bounds) -> Self {
        self.held = self.wrong == 0
            && self.loss <= bounds.max_loss
            && self.p99_ns <= bounds.max_p99_ns
            && self.offered >= self.rate * OFFERED_MIN;
        self
    }

    fn is_own_limit(&self) -> bool {
        self.offered < self.rate * OFFERED_MIN
    }
}

/// The result of a search for the highest rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ramp {
    /// The limits that the server must keep.
    pub bounds: Bounds,
    /// The highest rate that passed, in queries per second; 0 if none passed.
    pub highest_rate: f64,
    /// Whether the generator reached its own limit before the limit of the server.
    pub own_limit: bool,
    /// The results of all rates, in the order in which they were tried.
    pub steps: Vec<RampStep>,
    /// The final runs with the whole duration, from the highest rate to the lowest. The rest of the
    /// report describes the last one.
    pub runs: Vec<RampStep>,
}

impl Ramp {
    /// Adds a run of the whole duration. If it violated the bounds, returns the rate of the next
    /// run.
    pub(crate) fn judge_run(&mut self, run: RampStep) -> Option<f64> {
        self.runs.push(run);
        if run.held {
            self.highest_rate = run.rate;
            return None;
        }
        let down = (STEP_DOWN * 2f64.powi(self.runs.len() as i32 - 1)).min(0.5);
        let lower = run.rate * (1.0 - down);
        let held = self.steps.iter().filter(|step| step.held && step.rate <= lower);
        let next = held.map(|step| step.rate).fold(0.0, f64::max).max(lower * (1.0 - STEP_DOWN));
        let is_last = self.runs.len() >= MAX_RUNS;
        self.highest_rate = if is_last { 0.0 } else { next };
        (!is_last).then_some(next)
    }
}

/// Searches for the highest rate, upwards from `start`. `attempt` drives the server at a rate. It
/// returns `None` to end the search.
pub(crate) fn search(
    start: f64,
    bounds: Bounds,
    mut attempt: impl FnMut(f64) -> Option<RampStep>,
) -> Ramp {
    let mut ramp =
        Ramp { bounds, highest_rate: 0.0, own_limit: false, steps: Vec::new(), runs: Vec::new() };
    let (mut rate, mut failed) = (start, None::<f64>);
    while ramp.steps.len() < MAX_STEPS {
        let Some(step) = best_of_two(rate, &mut ramp.steps, &mut attempt) else { break };
        if step.held {
            ramp.highest_rate = rate;
        } else {
            ramp.own_limit = step.is_own_limit();
            failed = Some(rate);
        }
        rate = match failed {
            None => rate * 2.0,
            Some(failed) if failed - ramp.highest_rate <= PRECISION * failed => break,
            Some(failed) => (ramp.highest_rate + failed) / 2.0,
        };
    }
    ramp
}

/// Tries a rate. If it fails, tries it a second time.
fn best_of_two(
    rate: f64,
    steps: &mut Vec<RampStep>,
    attempt: &mut impl FnMut(f64) -> Option<RampStep>,
) -> Option<RampStep> {
    let first = attempt(rate)?;
    steps.push(first);
    if first.held {
        return Some(first);
    }
    let second = attempt(rate)?;
    steps.push(second);
    Some(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { max_loss: 0.001, max_p99_ns: 10_000_000 };

    fn step(rate: f64, limit: f64) -> RampStep {
        let loss = if rate > limit { (rate - limit) / rate } else { 0.0 };
        RampStep { rate, offered: rate, loss, p99_ns: 1_000, wrong: 0, held: false }.judge(&BOUNDS)
    }

    #[test]
    fn the_limit_of_a_server_is_found() {
        for limit in [700.0, 12_345.0, 3_000_000.0] {
            let ramp = search(1_000.0, BOUNDS, |rate| Some(step(rate, limit)));
            let found = ramp.highest_rate;
            assert!(found <= limit * 1.001 && found > limit * 0.95, "{found} of {limit}");
            assert!(!ramp.own_limit);
        }
    }

    #[test]
    fn a_rate_that_does_not_hold_for_a_whole_run_is_lowered() {
        let mut ramp = search(1_000.0, BOUNDS, |rate| Some(step(rate, 50_000.0)));
        let found = ramp.highest_rate;
        let lower = ramp.judge_run(step(found, 40_000.0)).unwrap();
        assert!(lower < found * 0.96, "{lower} of {found}");
        let mut rate = lower;
        while let Some(next) = ramp.judge_run(step(rate, 40_000.0)) {
            assert!(next < rate);
            rate = next;
        }
        assert!(ramp.highest_rate <= 40_000.0 && ramp.highest_rate > 30_000.0, "{ramp:?}");
        assert!(ramp.runs.last().unwrap().held);
    }

    #[test]
    fn a_server_that_holds_no_whole_run_has_no_rate() {
        let mut ramp = search(1_000.0, BOUNDS, |rate| Some(step(rate, 50_000.0)));
        let mut rate = ramp.highest_rate;
        while let Some(next) = ramp.judge_run(step(rate, 0.0)) {
            rate = next;
        }
        assert!(ramp.highest_rate < f64::EPSILON && ramp.runs.len() == MAX_RUNS);
    }

    #[test]
    fn one_hiccup_is_no_limit() {
        let mut tried = 0;
        let ramp = search(1_000.0, BOUNDS, |rate| {
            tried += 1;
            Some(step(rate, if tried == 2 { 0.0 } else { 50_000.0 }))
        });
        assert!(ramp.highest_rate > 47_000.0, "{}", ramp.highest_rate);
    }

    #[test]
    fn latency_wrong_answers_and_the_generator_end_a_search_too() {
        let whole =
            RampStep { rate: 100.0, offered: 100.0, loss: 0.0, p99_ns: 1, wrong: 0, held: false };
        assert!(whole.judge(&BOUNDS).held);
        assert!(!RampStep { p99_ns: 20_000_000, ..whole }.judge(&BOUNDS).held);
        assert!(!RampStep { wrong: 1, ..whole }.judge(&BOUNDS).held);
        let ramp = search(1_000.0, BOUNDS, |rate| {
            Some(RampStep { rate, offered: rate.min(5_000.0), ..whole }.judge(&BOUNDS))
        });
        assert!(ramp.own_limit && ramp.highest_rate < 5_400.0, "{ramp:?}");
    }

    #[test]
    fn a_server_that_bears_nothing_has_no_rate() {
        let ramp = search(1_000.0, BOUNDS, |rate| Some(step(rate, 0.0)));
        assert!(ramp.highest_rate < f64::EPSILON && ramp.steps.len() <= MAX_STEPS + 1);
        assert_eq!(search(1.0, BOUNDS, |_| None).steps, []);
    }
}
