//! How much the network loses as a whole: of the queries to servers that answer, how many are not
//! answered in time.
//!
//! A server that keeps silent may be dead or may be behind a line that loses much. Others tell which:
//! where those that do answer miss many queries, it is the line, and silence says little of a server.

/// A server that answered within so many ms bears witness of the network.
pub(crate) const WITNESS_MS: u64 = 30_000;
/// One query weighs so much of the share, of `WHOLE`.
const WEIGHT: u32 = 16;
const WHOLE: u32 = 1 << 16;
/// Without a reply of anybody for so many ms nothing is lost: nobody is there.
const GONE_MS: u64 = 3_000;
/// From this share on losses are heavy: a sixth, as where nearly a tenth is lost each way.
const HEAVY: u32 = WHOLE / 6;

/// From this share on most is lost: three of five, as where a good third is lost each way.
const MOST: u32 = WHOLE * 3 / 5;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loss {
    share: u32,
    replied_ms: u64,
}

impl Loss {
    /// A server answered.
    pub(crate) fn note_reply(&mut self, now_ms: u64) {
        self.replied_ms = now_ms;
        self.share -= self.share / WEIGHT;
    }

    /// A server that does answer missed a query.
    pub(crate) fn note_missing(&mut self) {
        self.share += (WHOLE - self.share) / WEIGHT;
    }

    /// Is more lost than not?
    pub(crate) fn is_most(self, now_ms: u64) -> bool {
        self.share > MOST && self.is_heavy(now_ms)
    }

    /// How many copies of a query are to be sent at once, if so many were sent in vain: it is only the first one that is
    /// sent alone where much is lost, and not even that where most is.
    pub(crate) fn copies(self, sent: u32, now_ms: u64) -> u32 {
        match () {
            () if !self.is_heavy(now_ms) => 1,
            () if self.is_most(now_ms) => 2 + u32::from(sent > 0),
            () => 1 + u32::from(sent > 0),
        }
    }

    /// Is so much lost that those who keep silent are to be asked more often, and longer? Not where nobody
    /// answers any more: then there is no network.
    pub(crate) fn is_heavy(self, now_ms: u64) -> bool {
        self.share > HEAVY && now_ms < self.replied_ms + GONE_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_heavy_while_many_of_the_last_queries_are_lost() {
        let mut loss = Loss::default();
        (0..2).for_each(|_| loss.note_missing());
        assert!(!loss.is_heavy(1_000), "two may be one server's");
        for _ in 0..100 {
            loss.note_missing();
            loss.note_reply(1_000);
        }
        assert!(loss.is_heavy(1_000) && !loss.is_heavy(1_000 + GONE_MS));
        (0..100).for_each(|_| loss.note_reply(1_000));
        assert!(!loss.is_heavy(1_000));
    }

    #[test]
    fn the_more_is_lost_the_more_is_sent_at_once() {
        let mut loss = Loss::default();
        let mut check = |missing: u32, expected: [u32; 2]| {
            for _ in 0..40 {
                (0..missing).for_each(|_| loss.note_missing());
                loss.note_reply(1_000);
            }
            assert_eq!([0, 1].map(|sent| loss.copies(sent, 1_000)), expected, "{missing} of {} lost", missing + 1);
        };
        check(0, [1, 1]);
        check(1, [1, 2]);
        check(3, [2, 3]);
    }
}
