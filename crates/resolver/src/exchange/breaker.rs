//! The circuit breaker of one server. After several failures in a row, the server is not queried
//! for a while. Then one query probes whether the server is back. A lost query does not count as a
//! failure if the server answers other queries.
//!
//! ```text
//!            FAILURES in a row                 due: one query as a probe
//!   Closed ──────────────────────> Open ──────────────────────────────┐
//!     ^                             ^  <── failure: twice the wait ──┤
//!     └──────── any reply ──────────┴────────────────────────────────┘
//! ```

/// Number of failures in a row that open the breaker.
const FAILURES: u32 = 5;
/// The first wait before a probe, in ms. Each failed probe doubles the wait.
const FIRST_WAIT_MS: u64 = 1_000;
/// The longest wait before a probe, in ms.
const MAX_WAIT_MS: u64 = 60_000;
/// Milliseconds after a reply during which the server is considered alive.
const ALIVE_MS: u64 = 5_000;

/// The state of an upstream's circuit breaker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerState {
    /// The upstream is queried.
    Closed,
    /// The upstream is queried only by probes.
    Open,
}

/// The circuit breaker of a server; see the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Breaker {
    failures: u32,
    wait_ms: u64,
    /// The time of the next probe; 0 if the breaker is closed.
    probe_at_ms: u64,
    last_reply_ms: Option<u64>,
}

impl Breaker {
    /// Records a reply, which closes the breaker.
    pub(crate) fn succeeded(&mut self, now_ms: u64) {
        *self = Self { last_reply_ms: Some(now_ms), ..Self::default() };
    }

    /// Counts a query that was not answered in time, or did not reach the server. Returns whether
    /// this failure opened the breaker.
    pub(crate) fn failed(&mut self, now_ms: u64, sent_ms: u64) -> bool {
        let is_silent_since = self.last_reply_ms.is_none_or(|reply| sent_ms > reply);
        if !is_silent_since || self.is_alive(now_ms) {
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        if self.probe_at_ms == 0 && self.failures >= FAILURES {
            self.wait_ms = FIRST_WAIT_MS;
            self.probe_at_ms = now_ms + self.wait_ms;
            return true;
        }
        false
    }

    /// Returns whether the server answered within the last `ms` milliseconds.
    pub(crate) fn answered_within(&self, ms: u64, now_ms: u64) -> bool {
        self.last_reply_ms.is_some_and(|reply| now_ms < reply + ms)
    }

    /// Returns whether the server answered recently. If so, a missing reply means that a packet was
    /// lost.
    pub(crate) fn is_alive(&self, now_ms: u64) -> bool {
        self.answered_within(ALIVE_MS, now_ms)
    }

    pub(crate) fn state(&self) -> BreakerState {
        if self.probe_at_ms == 0 { BreakerState::Closed } else { BreakerState::Open }
    }

    /// Returns whether the breaker is open and a probe is due. If so, the next probe is due after
    /// twice the wait.
    pub(crate) fn take_probe(&mut self, now_ms: u64) -> bool {
        let due = self.probe_at_ms != 0 && now_ms >= self.probe_at_ms;
        if due {
            self.wait_ms = (self.wait_ms * 2).min(MAX_WAIT_MS);
            self.probe_at_ms = now_ms + self.wait_ms;
        }
        due
    }

    /// Returns when the next probe is due. If all servers have open breakers, the server with the
    /// earliest time is queried.
    pub(crate) fn probe_at_ms(&self) -> u64 {
        self.probe_at_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_probes_through_ever_more_rarely() {
        let mut breaker = Breaker::default();
        for _ in 1..FAILURES {
            assert!(!breaker.failed(0, 0));
        }
        breaker.succeeded(0);
        let mut now = ALIVE_MS;
        for _ in 1..FAILURES {
            assert!(!breaker.failed(now, 1));
        }
        assert!(breaker.failed(now, 1));
        for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert!(!breaker.take_probe(now + wait * 1000 - 1));
            now += wait * 1000;
            assert!(breaker.take_probe(now));
            assert!(!breaker.take_probe(now), "one query lets itself through");
        }
        breaker.succeeded(now);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn what_is_lost_while_a_server_answers_is_no_failure_of_it() {
        let mut breaker = Breaker::default();
        breaker.succeeded(1_000);
        for _ in 0..2 * FAILURES {
            assert!(!breaker.failed(1_000 + ALIVE_MS - 1, 1_001), "it answered lately");
            assert!(
                !breaker.failed(1_000 + ALIVE_MS, 1_000),
                "it has answered since that was sent"
            );
        }
        assert!(breaker.is_alive(1_000 + ALIVE_MS - 1) && !breaker.is_alive(1_000 + ALIVE_MS));
    }
}
