//! Smoothed round-trip time of one upstream and the timeout that follows from it (RFC 6298).
//!
//! Replies are matched to queries exactly, so that retransmissions cause no ambiguity and each
//! reply is a sample.

/// Timeout before the first measurement of a server, in ms (Unbound uses 376, BIND 800).
const FIRST_TIMEOUT_MS: u32 = 400;
/// The worst score with which a measured server is preferred to an unknown server. With this score,
/// the server would still answer in time.
pub(crate) const MOST_UNKNOWN: u32 = 8 * FIRST_TIMEOUT_MS;
/// Minimum of the part of the timeout that comes from the deviation, in ms. It exceeds the width of
/// a timer's slot.
const MIN_VARIANCE_MS: u32 = 10;
/// Half-life of the penalty for a failure, in ms.
const PENALTY_HALF_LIFE_MS: u64 = 8_000;
/// Penalty for a failure, in ms of the score.
const FAILURE_PENALTY_MS: u32 = 400;
const MAX_PENALTY_MS: u32 = 10_000;
/// The share of lost queries, in units of 1/256, above which a server counts as lossy: nearly a
/// fifth.
const LOSSY: u32 = 48;
/// The share of lost queries, in units of 1/256, above which a server counts as losing most
/// queries: three of five.
const LOSING_MOST: u32 = 154;

/// The outcome of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Answered = 0,
    Lost = 1,
}

/// The round-trip time of a server; see the module. Times are in eighths of a ms, to distinguish
/// fast networks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    smoothed: u32,
    variance: u32,
    measured: bool,
    penalty_ms: u32,
    penalised_at_ms: u64,
    /// The share of lost queries, in units of 1/256.
    loss: u32,
}

impl Rtt {
    /// Adds the round-trip time of a reply, in ms.
    pub(crate) fn sample(&mut self, rtt_ms: u64) {
        let rtt = (rtt_ms.min(60_000) as u32) * 8;
        if self.measured {
            let deviation = self.smoothed.abs_diff(rtt);
            self.variance = (3 * self.variance + deviation) / 4;
            self.smoothed = (7 * self.smoothed + rtt) / 8;
        } else {
            (self.smoothed, self.variance, self.measured) = (rtt, rtt / 2, true);
        }
        self.penalty_ms /= 2;
    }

    /// Records that a query was answered, or that it was lost because the server answered only a
    /// later query.
    pub(crate) fn note_fate(&mut self, fate: Fate) {
        let sample = match fate {
            Fate::Answered => 0,
            Fate::Lost => 256,
        };
        self.loss = (7 * self.loss + sample) / 8;
    }

    /// Returns whether the loss exceeds [`LOSSY`], so that longer waits are pointless.
    pub(crate) fn is_lossy(&self) -> bool {
        self.loss > LOSSY
    }

    /// Returns whether most queries are lost.
    pub(crate) fn loses_most(&self) -> bool {
        self.loss > LOSING_MOST
    }

    /// Adds the penalty for a failure.
    pub(crate) fn penalise(&mut self, now_ms: u64) {
        self.penalty_ms = (self.penalty(now_ms) + FAILURE_PENALTY_MS).min(MAX_PENALTY_MS);
        self.penalised_at_ms = now_ms;
    }

    fn penalty(&self, now_ms: u64) -> u32 {
        let halvings = now_ms.saturating_sub(self.penalised_at_ms) / PENALTY_HALF_LIFE_MS;
        self.penalty_ms.checked_shr(halvings.min(31) as u32).unwrap_or(0)
    }

    /// Returns the time to wait for a reply, in ms, before the rule's limits are applied.
    pub(crate) fn timeout_ms(&self) -> u32 {
        if !self.measured {
            return FIRST_TIMEOUT_MS;
        }
        self.smoothed / 8 + (self.variance / 2).max(MIN_VARIANCE_MS)
    }

    /// Returns the smoothed round-trip time in ms; `None` before the first reply.
    pub(crate) fn smoothed_ms(&self) -> Option<u32> {
        self.measured.then_some(self.smoothed / 8)
    }

    /// Returns the value that strategies compare, in eighths of a ms. Lower values are better. A
    /// server that was never queried has a low score, so that it is queried soon.
    pub(crate) fn score(&self, now_ms: u64) -> u32 {
        self.smoothed + 8 * self.penalty(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_samples() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout_ms(), FIRST_TIMEOUT_MS);
        rtt.sample(100);
        assert_eq!(rtt.timeout_ms(), 300, "RFC 6298 (2.2): SRTT + 4 RTTVAR, RTTVAR half of it");
        for _ in 0..100 {
            rtt.sample(100);
        }
        assert_eq!(rtt.timeout_ms(), 110);
        rtt.sample(900);
        assert!(rtt.timeout_ms() > 900);
    }

    #[test]
    fn failures_worsen_the_score_and_are_forgotten() {
        let mut rtt = Rtt::default();
        rtt.sample(10);
        rtt.penalise(1000);
        assert_eq!(rtt.score(1000), 80 + 8 * FAILURE_PENALTY_MS);
        assert_eq!(rtt.score(1000 + PENALTY_HALF_LIFE_MS), 80 + 4 * FAILURE_PENALTY_MS);
        assert_eq!(rtt.score(1000 + 40 * PENALTY_HALF_LIFE_MS), 80);
    }

    #[test]
    fn loss_is_seen_after_some_and_forgotten_after_more() {
        let mut rtt = Rtt::default();
        rtt.note_fate(Fate::Lost);
        assert!(!rtt.is_lossy());
        rtt.note_fate(Fate::Lost);
        assert!(rtt.is_lossy());
        for _ in 0..10 {
            rtt.note_fate(Fate::Answered);
        }
        assert!(!rtt.is_lossy());
    }
}
