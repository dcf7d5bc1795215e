//! Probation: a new revision that nobody confirms, or with which the service gets worse, is rolled
//! back.
//!
//! ```text
//!   accepted ──> on probation ──confirmed──────────────────────> kept
//!                     │
//!                     ├── nobody confirms it within its time ──> rolled back
//!                     ├── no name can be resolved any more ────> rolled back
//!                     ├── queries fail that were answered ─────> rolled back
//!                     └── answers are slow that were fast ─────> rolled back
//! ```
//! A client can send queries that fail, or that get slow answers, but it cannot stop the queries of
//! other clients. Therefore, queries that fail or are refused count only if answers are missing at
//! the same time, and slow answers only if fast answers are missing.
//!
//! The fallback is the last revision that was kept. A change during the probation of an
//! earlier change begins the probation again, with the same fallback.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Seconds of service before a change that are compared with the time after the change.
const BAND_SECS: u64 = 300;
/// Minimum number of seconds between two samples of the counts before a change.
const SAMPLE_SECS: u64 = 10;
/// Minimum number of queries after a change that are necessary to compute a share of failures, and
/// minimum number of usual answers in the same time that are necessary to find that answers are
/// missing. In a shorter time, answers are missing by chance.
const FEWEST_QUERIES: u64 = 50;
/// The share of failures may grow by this many thousandths of all queries.
const MARGIN: u64 = 100;
/// The share of slow answers may grow by this many thousandths: an upstream that is slow for some
/// seconds must not undo a good change.
const SLOW_MARGIN: u64 = 250;
/// Answers are missing if there are at most the usual number, divided by this number.
const MISSING_PART: u64 = 2;
/// A share may also grow by this factor.
const FACTOR: u64 = 2;

/// Counts of client queries since the start of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Health {
    /// The time of the counts, in seconds of a clock that does not jump.
    pub at_secs: u64,
    /// The number of all queries of clients that are allowed.
    pub queries: u64,
    /// Queries of these clients that could not be resolved.
    pub failed: u64,
    /// Queries of clients that are not allowed.
    pub refused: u64,
    /// Answers that waited for the network.
    pub waited: u64,
    /// Queries that waited for longer than half a second.
    pub slow: u64,
}

impl Health {
    /// Returns the counts since an earlier moment. Counts start again at zero when the server
    /// restarts.
    fn since(self, earlier: Self) -> Self {
        Self {
            at_secs: self.at_secs.saturating_sub(earlier.at_secs),
            queries: self.queries.saturating_sub(earlier.queries),
            failed: self.failed.saturating_sub(earlier.failed),
            refused: self.refused.saturating_sub(earlier.refused),
            waited: self.waited.saturating_sub(earlier.waited),
            slow: self.slow.saturating_sub(earlier.slow),
        }
    }

    fn shares(self) -> Shares {
        Shares {
            failed: self.failed * 1_000 / self.queries.max(1),
            refused: self.refused * 1_000 / (self.queries + self.refused).max(1),
            slow: self.slow * 1_000 / self.waited.max(1),
            answered: self.answered() * 1_000 / self.at_secs.max(1),
            fast: self.fast() * 1_000 / self.at_secs.max(1),
        }
    }

    /// Returns the number of queries that got data.
    fn answered(self) -> u64 {
        self.queries.saturating_sub(self.failed)
    }

    /// Returns the number of answers that waited for the network for half a second at most.
    fn fast(self) -> u64 {
        self.waited.saturating_sub(self.slow)
    }
}

/// Shares in thousandths, and rates per thousand seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shares {
    /// Failures among the queries of allowed clients.
    pub failed: u64,
    /// Queries of clients that are not allowed, among all queries.
    pub refused: u64,
    /// Slow answers among the answers that waited for the network.
    pub slow: u64,
    /// The rate of queries that got data.
    pub answered: u64,
    /// The rate of fast answers among those that waited for the network.
    pub fast: u64,
}

/// Returns whether a share has grown by more than `margin`, and to more than [`FACTOR`] times the
/// usual share.
fn has_left(usual: u64, now: u64, margin: u64) -> bool {
    now > usual + margin.max(usual * (FACTOR - 1))
}

/// Returns whether the count since the change shows that answers are missing, from the usual rate
/// per thousand seconds.
fn are_missing(usual_rate: u64, count: u64, secs: u64) -> bool {
    let usual = usual_rate.saturating_mul(secs) / 1_000;
    usual >= FEWEST_QUERIES && count <= usual / MISSING_PART
}

/// Samples of the counts of the last minutes, which give the usual shares.
#[derive(Debug, Default)]
pub struct Band {
    samples: VecDeque<(u64, Health)>,
}

impl Band {
    /// Adds the present counts; `now_secs` is of any clock that does not jump.
    pub fn note(&mut self, now_secs: u64, health: Health) {
        if self.samples.back().is_some_and(|(at, _)| now_secs < at.saturating_add(SAMPLE_SECS)) {
            return;
        }
        while self.samples.front().is_some_and(|(at, _)| at.saturating_add(BAND_SECS) < now_secs) {
            self.samples.pop_front();
        }
        self.samples.push_back((now_secs, health));
    }

    /// Returns the usual shares; 0 without queries.
    fn shares(&self, now: Health) -> Shares {
        let first = self.samples.front();
        first.map_or_else(Shares::default, |(_, first)| now.since(*first).shares())
    }
}

/// The reason why a revision is rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The revision was not confirmed in time.
    Unconfirmed,
    /// No name can be resolved any more. Holds the cause.
    Unresolved(String),
    /// Queries fail, and answers are missing. Holds the failures per thousand queries, before and
    /// now.
    Failures(u64, u64),
    /// Answers are slow, and fast ones are missing. Holds the slow answers per thousand, before and
    /// now.
    Latency(u64, u64),
}

impl Reason {
    /// Returns the name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unconfirmed => "unconfirmed",
            Self::Unresolved(_) => "unresolved",
            Self::Failures(..) => "failures",
            Self::Latency(..) => "latency",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unconfirmed => f.write_str("nobody confirmed it in time"),
            Self::Unresolved(cause) => write!(f, "no name could be resolved: {cause}"),
            Self::Failures(before, now) => write!(
                f,
                "{}.{} % of queries failed, and {}.{} % before",
                now / 10,
                now % 10,
                before / 10,
                before % 10
            ),
            Self::Latency(before, now) => write!(
                f,
                "{}.{} % of the answers from the network took longer than half a second, and \
                 {}.{} % before",
                now / 10,
                now % 10,
                before / 10,
                before % 10
            ),
        }
    }
}

/// A revision on probation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Probation {
    /// The revision.
    pub revision: u32,
    /// The revision that is restored if this revision fails.
    pub fallback: u32,
    /// The time by which the revision must be confirmed, in Unix seconds.
    pub until_secs: u64,
    /// The time at which the probation was saved, in Unix seconds; 0 if it was not.
    #[serde(default)]
    pub saved_at_secs: u64,
    /// The counts when the revision came into force.
    #[serde(skip)]
    pub begun: Health,
    /// The usual shares before the revision came into force.
    #[serde(skip)]
    pub usual: Shares,
}

impl Probation {
    /// Begins the probation of a revision.
    pub fn begin(
        (revision, fallback): (u32, u32),
        until_secs: u64,
        (band, health): (&Band, Health),
    ) -> Self {
        let (begun, usual) = (health, band.shares(health));
        Self { revision, fallback, until_secs, saved_at_secs: 0, begun, usual }
    }

    /// Moves the end to an earlier time if the probation was saved later than the present time. The
    /// clock was then set back, which would make the probation longer. Returns whether it was.
    pub fn follow_clock(&mut self, now_secs: u64) -> bool {
        let back_secs = self.saved_at_secs.saturating_sub(now_secs);
        self.until_secs = self.until_secs.saturating_sub(back_secs);
        back_secs > 0
    }

    /// Returns the reason why the revision must be rolled back now, if it must. `unresolved` is the
    /// reason why no name can be resolved.
    pub fn judge(
        &self,
        now_secs: u64,
        health: Health,
        unresolved: Option<String>,
    ) -> Option<Reason> {
        if let Some(cause) = unresolved {
            return Some(Reason::Unresolved(cause));
        }
        let since = health.since(self.begun);
        let (usual, now) = (self.usual, since.shares());
        if are_missing(usual.answered, since.answered(), since.at_secs) {
            if since.queries >= FEWEST_QUERIES && has_left(usual.failed, now.failed, MARGIN) {
                return Some(Reason::Failures(usual.failed, now.failed));
            }
            if since.refused >= FEWEST_QUERIES && has_left(usual.refused, now.refused, MARGIN) {
                return Some(Reason::Failures(usual.refused, now.refused));
            }
        }
        let are_slow =
            since.waited >= FEWEST_QUERIES && has_left(usual.slow, now.slow, SLOW_MARGIN);
        if are_slow && are_missing(usual.fast, since.fast(), since.at_secs) {
            return Some(Reason::Latency(usual.slow, now.slow));
        }
        (now_secs >= self.until_secs).then_some(Reason::Unconfirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn health(queries: u64, failed: u64) -> Health {
        Health { at_secs: 0, queries, failed, refused: 0, waited: 0, slow: 0 }
    }

    #[test]
    fn a_revision_falls_when_nobody_confirms_it_in_time() {
        let probation = Probation::begin((2, 1), 1_060, (&Band::default(), health(0, 0)));
        for now in 1_000..1_060 {
            assert_eq!(probation.judge(now, health(now, 0), None), None, "{now}");
        }
        assert_eq!(probation.judge(1_060, health(0, 0), None), Some(Reason::Unconfirmed));
        let cause = Some("no network".to_owned());
        assert!(matches!(probation.judge(1_001, health(0, 0), cause), Some(Reason::Unresolved(_))));
    }

    #[test]
    fn failures_count_if_answers_are_missing() {
        let mut band = Band::default();
        let count = |at_secs, queries, failed| Health { at_secs, ..health(queries, failed) };
        for second in 0..400 {
            // Of ten queries a second, two fail.
            band.note(second, count(second, second * 10, second * 2));
        }
        let begun = count(400, 4_000, 800);
        let probation = Probation::begin((2, 1), u64::MAX, (&band, begun));
        assert_eq!((probation.usual.failed, probation.usual.answered), (200, 8_000));
        let judge = |secs: u64, queries: u64, failed: u64| {
            let now = count(400 + secs, begun.queries + queries, begun.failed + failed);
            probation.judge(0, now, None)
        };
        assert_eq!(judge(10, 49, 49), None, "too few");
        assert_eq!(judge(10, 60, 24), None, "the share has only doubled");
        assert_eq!(judge(10, 66, 26), None);
        assert_eq!(judge(10, 67, 27), Some(Reason::Failures(200, 402)));
        assert_eq!(judge(10, 100, 60), Some(Reason::Failures(200, 600)));
        assert_eq!(judge(10, 100, 59), None, "more answers than half of the usual ones");
        assert_eq!(judge(10, 10_041, 10_000), None, "a client asks for names that fail");
        assert_eq!(
            Reason::Failures(20, 121).to_string(),
            "12.1 % of queries failed, and 2.0 % before"
        );
    }

    #[test]
    fn refused_queries_count_only_if_queries_of_allowed_clients_are_missing() {
        let count = |at_secs, queries, refused| Health { at_secs, refused, ..health(queries, 0) };
        let mut band = Band::default();
        for second in 0..400 {
            band.note(second, count(second, second * 10, second));
        }
        let begun = count(400, 4_000, 400);
        let probation = Probation::begin((2, 1), u64::MAX, (&band, begun));
        let judge = |secs: u64, queries: u64, refused: u64| {
            let now = count(begun.at_secs + secs, begun.queries + queries, begun.refused + refused);
            probation.judge(0, now, None)
        };
        assert_eq!(judge(10, 100, 10_000), None, "strangers flood the server");
        assert_eq!(judge(10, 51, 10_000), None);
        assert_eq!(judge(10, 50, 10_000), Some(Reason::Failures(90, 995)));
        assert_eq!(judge(10, 0, 100), Some(Reason::Failures(90, 1_000)), "all are locked out");
        assert_eq!(judge(10, 0, 49), None, "too few");
        assert_eq!(judge(4, 0, 100), None, "answers may be missing by chance");
        // Without counts before the change, nothing is missing.
        let probation = Probation::begin((2, 1), u64::MAX, (&Band::default(), begun));
        let judge = |queries: u64| {
            probation.judge(0, count(410, begun.queries + queries, begun.refused + 100), None)
        };
        assert_eq!((judge(1), judge(0)), (None, None));
    }

    #[test]
    fn slow_answers_count_if_fast_answers_are_missing() {
        let mut band = Band::default();
        let count =
            |at_secs, waited, slow| Health { at_secs, waited, slow, ..health(2 * waited, 0) };
        for second in 0..400 {
            // Of ten answers a second from the network, one is slow.
            band.note(second, count(second, second * 10, second));
        }
        let probation = Probation::begin((2, 1), u64::MAX, (&band, count(400, 4_000, 400)));
        let usual = probation.usual;
        assert_eq!((usual.failed, usual.slow, usual.fast), (0, 100, 9_000));
        let judge = |secs: u64, waited: u64, slow: u64| {
            probation.judge(0, count(400 + secs, 4_000 + waited, 400 + slow), None)
        };
        assert_eq!(judge(100, 49, 49), None, "too few");
        assert_eq!(judge(100, 600, 210), None, "the share has grown by 25 points only");
        assert_eq!(judge(100, 700, 250), Some(Reason::Latency(100, 357)));
        assert_eq!(judge(100, 701, 250), None, "more fast answers than half of the usual ones");
        assert_eq!(judge(100, 10_451, 10_000), None, "a client asks for names of slow servers");
        assert_eq!(
            Reason::Latency(100, 351).to_string(),
            "35.1 % of the answers from the network took longer than half a second, and 10.0 % \
             before"
        );
    }

    #[test]
    fn it_becomes_no_longer_if_the_clock_is_set_back_before_a_restart() {
        let begun = Probation::begin((2, 1), 900_020, (&Band::default(), health(0, 0)));
        let mut probation = Probation { saved_at_secs: 900_000, ..begun };
        assert!(!probation.follow_clock(900_010));
        assert_eq!(probation.until_secs, 900_020);
        assert!(probation.follow_clock(1_000));
        assert_eq!(probation.until_secs, 1_020);
    }

    #[test]
    fn a_restart_keeps_the_deadline() {
        let probation = Probation::begin((2, 1), 7, (&Band::default(), health(9, 3)));
        let text = serde_json::to_string(&probation).unwrap();
        let again: Probation = serde_json::from_str(&text).unwrap();
        assert_eq!((again.revision, again.fallback, again.until_secs), (2, 1, 7));
        assert_eq!(again.begun, Health::default(), "counters start again");
    }
}
