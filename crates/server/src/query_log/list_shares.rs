//! The share of logged queries that each list blocks, and the share that only this list blocks,
//! from the roll-ups of the query log.

use std::collections::HashMap;

use avocet_control::lists::ListShare;
use avocet_querylog::{Period, Ranking, Rollups, TopText};

/// Number of days that are counted, including the present one.
const DAYS: u64 = 30;
/// Maximum number of lists in each count: a configuration has fewer.
const MAX_SHARES: usize = 1024;

/// The shares of all lists in the log.
pub(crate) struct ListShares {
    since: u64,
    queries: HashMap<String, u64>,
    alone: HashMap<String, TopText>,
}

impl ListShares {
    /// Counts queries of the last thirty days, in UTC. Returns `None` without entries.
    pub(crate) fn of(rollups: &Rollups, now_secs: u64) -> Option<Self> {
        let day_us = Period::Day.us();
        let today_us = now_secs.saturating_mul(1_000_000) / day_us * day_us;
        let days_us = today_us.saturating_sub((DAYS - 1) * day_us)..u64::MAX;
        let since_us = rollups.series(Period::Day, days_us.clone()).next()?.start_us;
        let texts = |ranking| rollups.top(Period::Day, days_us.clone(), ranking).texts(MAX_SHARES);
        let queries = texts(Ranking::Lists).into_iter().map(|one| (one.text, one.count));
        let alone = texts(Ranking::LoneLists).into_iter().map(|one| (one.text.clone(), one));
        Some(Self {
            since: since_us / 1_000_000,
            queries: queries.collect(),
            alone: alone.collect(),
        })
    }

    /// Returns the share of a list.
    pub(crate) fn of_list(&self, name: &str) -> ListShare {
        let alone = self.alone.get(name);
        ListShare {
            since: self.since,
            queries: self.queries.get(name).copied().unwrap_or_default(),
            alone: alone.map_or(0, |one| one.count),
            error: alone.map_or(0, |one| one.error),
        }
    }
}
