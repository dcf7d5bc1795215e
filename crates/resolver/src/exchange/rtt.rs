//! Smoothed round-trip time of one upstream and the timeout that follows from it (RFC 6298).
//!
//! Replies are matched to queries exactly, so that retransmissions cause no ambiguity and each
//! reply is a sample.

/// Timeout before anything was measured, in ms (Unbound takes 376, BIND 800).
const FIRST_TIMEOUT_MS: u32 = 400;
/// The worst score with which a server is asked before one that nothing is known of: it would
/// answer in time.
pub(crate) const MOST_UNKNOWN: u32 = 8 * FIRST_TIMEOUT_MS;
/// Least share of the deviation in the timeout, in ms: the width of a timer's slot and more.
const MIN_VARIANCE_MS: u32 = 10;
/// How long a failure makes an upstream look slower: its penalty halves in each such time.
const PENALTY_HALF_LIFE_MS: u64 = 8_000;
/// Added to the score by one failure, in ms.
const FAILURE_PENALTY_MS: u32 = 400;
const MAX_PENALTY_MS: u32 = 10_000;
/// From this share of 256 on much is lost: nearly a fifth.
const LOSSY: u32 = 48;
/// From this share of 256 on most is lost: three of five.
const LOSING_MOST: u32 = 154;

/// What became of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Answered = 0,
    Lost = 1,
}

/// See the module. Times in eighths of a ms, so that fast networks can be told apart.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    smoothed: u32,
    variance: u32,
    measured: bool,
    penalty_ms: u32,
    penalised_at_ms: u64,
    /// Share of queries that are lost, of 256.
    loss: u32,
}

impl Rtt {
    /// A reply came after so many ms.
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

    /// A query was answered, or found to be lost because a later one was answered first.
    pub(crate) fn note_fate(&mut self, fate: Fate) {
        let sample = match fate {
            Fate::Answered => 0,
            Fate::Lost => 256,
        };
        self.loss = (7 * self.loss + sample) / 8;
    }

    /// Are so many queries lost that waiting ever longer for each would be in vain?
    pub(crate) fn is_lossy(&self) -> bool {
        self.loss > LOSSY
    }

    /// Are more queries lost than not?
    pub(crate) fn loses_most(&self) -> bool {
        self.loss > LOSING_MOST
    }

    /// It failed to answer.
    pub(crate) fn penalise(&mut self, now_ms: u64) {
        self.penalty_ms = (self.penalty(now_ms) + FAILURE_PENALTY_MS).min(MAX_PENALTY_MS);
        self.penalised_at_ms = now_ms;
    }

    fn penalty(&self, now_ms: u64) -> u32 {
        let halvings = now_ms.saturating_sub(self.penalised_at_ms) / PENALTY_HALF_LIFE_MS;
        self.penalty_ms.checked_shr(halvings.min(31) as u32).unwrap_or(0)
    }

    /// How long to wait for a reply, in ms, before bounds are applied.
    pub(crate) fn timeout_ms(&self) -> u32 {
        if !self.measured {
            return FIRST_TIMEOUT_MS;
        }
        self.smoothed / 8 + (self.variance / 2).max(MIN_VARIANCE_MS)
    }

    /// Smoothed round-trip time in ms; none before the first reply.
    pub(crate) fn smoothed_ms(&self) -> Option<u32> {
        self.measured.then_some(self.smoothed / 8)
    }

    /// What strategies compare, in eighths of a ms: less is better. One that was never asked is
    /// taken for a fast one, so that it will be.
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
