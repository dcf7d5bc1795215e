//! The time that one kind of work may take in a turn of a worker, so that all other work gets its
//! share.
//!
//! A limit on the number of queries alone would not suffice: with a hostile list, each query may
//! take some milliseconds, and a client can pipeline thousands of queries.

/// Microseconds in a turn of the event loop for one kind of work. A query that has begun is
/// completed, so a turn may take longer by the duration of one query.
const TURN_US: u64 = 2_000;
/// Maximum number of microseconds for one connection, so that all connections get their share.
const SHARE_US: u64 = 1_000;
/// Maximum number of queries between two readings of the clock. The first query after a pause is
/// always measured.
const MAX_STRIDE: u32 = 8;
/// If a run of queries (between two readings of the clock) takes less than this number of
/// microseconds, the next run may have more queries.
const SHORT_RUN_US: u64 = 50;

/// The remaining time for one kind of work.
#[derive(Debug)]
pub(super) struct Allowance {
    turn_us: u64,
    share_us: u64,
    /// The time of the last reading of the clock, in microseconds.
    read_us: u64,
    /// Whether the work has ended. Time is then no longer deducted.
    has_ended: bool,
    /// The number of queries until the next reading of the clock, and the number of queries of the
    /// present run.
    until_reading: u32,
    stride: u32,
}

impl Default for Allowance {
    fn default() -> Self {
        let (turn_us, share_us) = (TURN_US, SHARE_US);
        Self { turn_us, share_us, read_us: 0, has_ended: false, until_reading: 1, stride: 1 }
    }
}

impl Allowance {
    /// Refills the time at the start of a turn of the event loop.
    pub(super) fn renew(&mut self) {
        self.turn_us = TURN_US;
    }

    /// Begins work at this time. The time between the last call of [`Self::note`] and this call is
    /// not deducted.
    pub(super) fn begin(&mut self, now_us: u64) {
        *self = Self { turn_us: self.turn_us, read_us: now_us, ..Self::default() };
    }

    /// Ends work at this time. Later time is not deducted until the next call of [`Self::begin`].
    pub(super) fn end(&mut self, now_us: u64) {
        self.take(now_us);
        self.has_ended = true;
    }

    /// Begins the share of the next connection. Returns `false` if no time is left in this turn of
    /// the event loop.
    pub(super) fn begin_share(&mut self) -> bool {
        self.share_us = SHARE_US;
        self.turn_us > 0
    }

    /// Counts a query that was answered. Calls `now_us` to read the clock only after some queries.
    pub(super) fn note(&mut self, now_us: impl FnOnce() -> u64) {
        if self.has_ended {
            return;
        }
        self.until_reading -= 1;
        if self.until_reading > 0 {
            return;
        }
        let took_us = self.take(now_us());
        self.stride = if took_us < SHORT_RUN_US { (self.stride * 2).min(MAX_STRIDE) } else { 1 };
        self.until_reading = self.stride;
    }

    /// Counts work that may take much longer than a query, and that ends at this time.
    pub(super) fn note_costly(&mut self, now_us: u64) {
        if !self.has_ended {
            self.take(now_us);
            (self.stride, self.until_reading) = (1, 1);
        }
    }

    /// Deducts the time since the last reading of the clock, and returns it.
    pub(super) fn take(&mut self, now_us: u64) -> u64 {
        let took_us = now_us.saturating_sub(self.read_us);
        self.read_us = now_us;
        self.turn_us = self.turn_us.saturating_sub(took_us);
        self.share_us = self.share_us.saturating_sub(took_us);
        took_us
    }

    /// Returns whether another query of the present connection may be answered in this turn of the
    /// event loop.
    pub(super) fn has_time(&self) -> bool {
        self.turn_us > 0 && self.share_us > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many queries, each of which takes this long, are answered in a turn of the event
    /// loop for connections that always have more.
    fn answered(query_us: &[u64]) -> (usize, Vec<usize>) {
        let (mut now_us, mut allowance, mut queries) = (7, Allowance::default(), query_us.iter());
        allowance.begin(now_us);
        let mut shares = Vec::new();
        while allowance.begin_share() {
            let mut share = 0;
            while allowance.has_time() {
                now_us += queries.next().unwrap();
                allowance.note(|| now_us);
                share += 1;
            }
            shares.push(share);
        }
        (shares.iter().sum(), shares)
    }

    #[test]
    fn the_time_of_a_turn_bounds_its_queries_and_each_connection_has_a_share() {
        assert_eq!(answered(&[100; 30]), (20, vec![10, 10]));
        assert_eq!(answered(&[1_000; 30]), (2, vec![1, 1]));
        assert_eq!(answered(&[5_000; 30]), (1, vec![1]));
    }

    #[test]
    fn cheap_queries_hide_few_expensive_ones() {
        let cheap_first = [vec![1; 15], vec![5_000; 30]].concat();
        let (answered, _) = answered(&cheap_first);
        assert!((16..=15 + MAX_STRIDE as usize).contains(&answered), "{answered}");
    }

    #[test]
    fn costly_work_behind_cheap_queries_counts_at_once() {
        let mut allowance = Allowance::default();
        allowance.begin(0);
        assert!(allowance.begin_share());
        (1..=15).for_each(|now_us| allowance.note(|| now_us));
        allowance.note_costly(1_016);
        assert!(!allowance.has_time());
        allowance.note(|| 2_016);
        assert!(!allowance.begin_share(), "the next query is measured too");
    }

    #[test]
    fn other_work_of_a_turn_does_not_count() {
        let mut allowance = Allowance::default();
        allowance.begin(0);
        allowance.note(|| 900);
        allowance.begin(50_000);
        allowance.note(|| 50_900);
        assert!(allowance.begin_share());
        allowance.note(|| 51_200);
        assert!(!allowance.begin_share());
        allowance.renew();
        assert!(allowance.begin_share() && allowance.has_time());
    }

    #[test]
    fn queries_behind_the_end_of_work_do_not_count() {
        let mut allowance = Allowance::default();
        allowance.begin(0);
        allowance.note(|| 900);
        allowance.end(1_000);
        // Some clients are refused before the work of the next turn of the event loop begins.
        allowance.renew();
        allowance.note(|| 90_000);
        allowance.note(|| 90_001);
        assert!(allowance.begin_share());
        allowance.begin(90_002);
        allowance.note(|| 91_902);
        assert!(allowance.begin_share());
        allowance.end(92_002);
        assert!(!allowance.begin_share());
    }
}
