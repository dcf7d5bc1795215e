//! Roll-ups: totals and tops for each minute, hour and day, and when each client was seen.
//!
//! The writer adds the entries of each block before it writes the block. Overviews read only these
//! numbers, so their cost does not depend on the size of the log. The number of periods of each
//! length is limited, and so is the number of texts of each [`Top`].
//!
//! The state is stored whenever a file of the head is complete, and when the writer is closed.
//! [`Rollups::end_id`] shows which entries the state counts. After a crash, the entries from this
//! id on are read from the log again.
//!
//! A copy of [`Rollups`] shares its periods with the original, so a reader holds the writer's lock
//! only for the copy and computes without the lock.

mod forget;
mod seen;
mod store;
mod top;

pub use seen::SeenClient;
pub use top::{Top, TopText};

use std::collections::VecDeque;
use std::sync::Arc;

use crate::batch::{Batch, EntryRow};
use crate::column::{Int, Set, Text};
use crate::entry::{OUTCOMES, Outcome};
use crate::search::LogEntry;
use seen::Sightings;

/// The kinds of texts that are ranked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Ranking {
    /// QTYPEs.
    Qtypes = 0,
    /// RCODEs.
    Rcodes = 1,
    /// QNAMEs.
    Qnames = 2,
    /// Addresses of clients.
    Clients = 3,
    /// Rules.
    Rules = 4,
    /// Lists.
    Lists = 5,
    /// Upstreams.
    Upstreams = 6,
    /// QNAMEs of blocked queries.
    BlockedQnames = 7,
    /// Addresses of clients whose queries were blocked.
    BlockedClients = 8,
    /// Lists that alone block a name. Only blocked queries count that have no rule and exactly one
    /// list.
    LoneLists = 9,
}

impl Ranking {
    /// All rankings, in the order of their numbers.
    pub const ALL: [Self; RANKINGS] = [
        Self::Qtypes,
        Self::Rcodes,
        Self::Qnames,
        Self::Clients,
        Self::Rules,
        Self::Lists,
        Self::Upstreams,
        Self::BlockedQnames,
        Self::BlockedClients,
        Self::LoneLists,
    ];

    /// Returns the column with the texts of the ranking; `None` for rankings of lists.
    pub(crate) fn column(self) -> Option<Text> {
        Some(match self {
            Self::Qtypes => Text::Qtype,
            Self::Rcodes => Text::Rcode,
            Self::Qnames | Self::BlockedQnames => Text::Qname,
            Self::Clients | Self::BlockedClients => Text::Client,
            Self::Rules => Text::Rule,
            Self::Lists | Self::LoneLists => return None,
            Self::Upstreams => Text::Upstream,
        })
    }

    /// Reports whether the ranking counts entries with this outcome.
    pub(crate) fn takes(self, outcome: Option<Outcome>) -> bool {
        !matches!(self, Self::BlockedQnames | Self::BlockedClients | Self::LoneLists)
            || outcome == Some(Outcome::Blocked)
    }

    /// Reports whether the ranking counts the lists of an entry with this number of lists. `rule`
    /// is the rule that decided; empty if none did.
    pub(crate) fn takes_lists(self, lists: usize, rule: &str) -> bool {
        self != Self::LoneLists || lists == 1 && rule.is_empty()
    }
}

const RANKINGS: usize = 10;
/// Number of rankings that are kept for each minute. The other rankings are kept only for hours and
/// days.
const SMALL_RANKINGS: usize = 2;
/// Number of classes of the histogram. Class `n` has the delays of less than `2^n` microseconds
/// that are in no lower class.
pub const DELAY_CLASSES: usize = 32;

/// The length of a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Period {
    /// A minute.
    Minute = 0,
    /// An hour.
    Hour = 1,
    /// A day, in UTC.
    Day = 2,
}

impl Period {
    /// All lengths of periods.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// Returns the length of the period in microseconds.
    #[must_use]
    pub fn us(self) -> u64 {
        [60_000_000, 3_600_000_000, 86_400_000_000][self as usize]
    }

    /// Returns the number of periods that are kept: the minutes of one day, the hours of one week,
    /// or the days of one year.
    fn kept(self) -> usize {
        [1440, 168, 366][self as usize]
    }

    /// Returns the number of texts that are kept for each ranking of the latest period.
    fn open_texts(self) -> usize {
        [16, 512, 1024][self as usize]
    }

    /// Returns the number of texts that are kept for each ranking of a period that has ended.
    fn closed_texts(self) -> usize {
        [16, 64, 128][self as usize]
    }

    fn rankings(self) -> &'static [Ranking] {
        if self == Self::Minute { &Ranking::ALL[..SMALL_RANKINGS] } else { &Ranking::ALL }
    }
}

/// The totals of one period.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Totals {
    /// The start of the period, in microseconds since the epoch.
    pub start_us: u64,
    /// Number of entries.
    pub entries: u64,
    /// Number of entries by outcome, in the order of [`Outcome`].
    pub outcomes: [u64; OUTCOMES.len()],
    /// Number of entries for each class of the delay.
    pub delays: [u64; DELAY_CLASSES],
    tops: [Top; RANKINGS],
}

impl Totals {
    /// Creates the totals of a period without entries.
    #[must_use]
    pub fn new(start_us: u64) -> Self {
        let (entries, outcomes, delays) = (0, [0; _], [0; _]);
        Self { start_us, entries, outcomes, delays, tops: Default::default() }
    }

    /// Returns the top texts of a ranking. Minutes have them only for QTYPEs and RCODEs.
    #[must_use]
    pub fn top(&self, ranking: Ranking) -> &Top {
        &self.tops[ranking as usize]
    }

    /// Counts an entry. An entry without a reply has no delay.
    fn count(&mut self, outcome: Option<Outcome>, delay_us: Option<i64>) {
        self.entries += 1;
        if let Some(outcome) = outcome {
            self.outcomes[outcome as usize] += 1;
        }
        let Some(delay_us) = delay_us else { return };
        let bits = u64::BITS - (delay_us.max(0) as u64).leading_zeros();
        self.delays[(bits as usize).min(DELAY_CLASSES - 1)] += 1;
    }

    /// Returns the time in microseconds within which this share of the queries (0 to 1) was
    /// answered. The result is the upper limit of a delay class. Returns `None` if there are no
    /// replies.
    #[must_use]
    pub fn delay_us(&self, share: f64) -> Option<u64> {
        let replies: u64 = self.delays.iter().sum();
        let wanted = (replies as f64 * share).ceil() as u64;
        let mut counted = 0;
        let class = self.delays.iter().position(|count| {
            counted += count;
            counted > 0 && counted >= wanted
        });
        class.map(|class| 1 << class)
    }

    /// Adds the counts of other totals, but not their top texts.
    pub fn add_counts(&mut self, other: &Self) {
        self.entries += other.entries;
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(sum, more)| *sum += more);
        self.delays.iter_mut().zip(other.delays).for_each(|(sum, more)| *sum += more);
    }

    /// Returns the sum of several totals. Keeps up to `kept` top texts.
    fn sum<'t>(start_us: u64, all: impl Iterator<Item = &'t Self> + Clone, kept: usize) -> Self {
        let mut sum = Self::new(start_us);
        all.clone().for_each(|totals| sum.add_counts(totals));
        for (place, top) in sum.tops.iter_mut().enumerate() {
            *top = Top::sum(all.clone().map(|totals| &totals.tops[place]), kept);
        }
        sum
    }
}

/// Totals of all periods.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rollups {
    /// For each length, the periods in the order of their starts.
    periods: [VecDeque<Arc<Totals>>; 3],
    seen: Arc<Sightings>,
    end_id: u64,
}

impl Rollups {
    /// Returns the id after those of all counted entries.
    #[must_use]
    pub fn end_id(&self) -> u64 {
        self.end_id
    }

    /// Returns the totals of the periods in a time range, the earliest first. Periods without
    /// entries are omitted.
    pub fn series(
        &self,
        period: Period,
        time_us: std::ops::Range<u64>,
    ) -> impl Iterator<Item = &Totals> + Clone {
        self.periods[period as usize]
            .iter()
            .map(|totals| &**totals)
            .filter(move |totals| time_us.contains(&totals.start_us))
    }

    /// Returns the sum of the totals of the periods in a time range.
    #[must_use]
    pub fn sum(&self, period: Period, time_us: std::ops::Range<u64>) -> Totals {
        let start_us = time_us.start;
        Totals::sum(start_us, self.series(period, time_us), Period::Day.open_texts())
    }

    /// Returns the top texts of one ranking, summed over the periods in a time range.
    #[must_use]
    pub fn top(&self, period: Period, time_us: std::ops::Range<u64>, ranking: Ranking) -> Top {
        let tops = self.series(period, time_us).map(|totals| totals.top(ranking));
        Top::sum(tops, Period::Day.open_texts())
    }

    /// Reports whether all periods of this length that begin at this time or later are still kept.
    #[must_use]
    pub fn reaches(&self, period: Period, time_us: u64) -> bool {
        let periods = &self.periods[period as usize];
        periods.len() < period.kept()
            || periods.front().is_some_and(|first| first.start_us <= time_us)
    }

    /// Returns the clients with the times of their first and latest queries. The client with the
    /// latest query comes first.
    #[must_use]
    pub fn clients(&self) -> Vec<SeenClient> {
        self.seen.list()
    }

    /// Forgets clients that sent no query for 366 days, and repairs times that a wrong clock
    /// caused. The caller must trust its clock.
    pub fn tidy_clients(&mut self, now_us: u64) {
        // If nothing must change, the data that readers share need not be copied.
        if !self.seen.is_tidy(now_us) {
            Arc::make_mut(&mut self.seen).tidy(now_us);
        }
    }

    /// Counts the entries of a batch, which are sorted by time. `end_id` is the id after the last
    /// of them.
    pub(crate) fn add(&mut self, batch: &Batch, end_id: u64) {
        let minute =
            |row: &EntryRow| row.ints[Int::Time as usize].max(0) as u64 / Period::Minute.us();
        for rows in batch.rows.chunk_by(|a, b| minute(a) == minute(b)) {
            let start_us = minute(&rows[0]) * Period::Minute.us();
            let tallies = Tallies::of(rows, batch);
            for period in Period::ALL {
                let totals = self.totals(period, start_us);
                totals.add_counts(&tallies.counts);
                tallies.add_to(totals, period, batch);
            }
        }
        Arc::make_mut(&mut self.seen).add(batch);
        self.end_id = self.end_id.max(end_id);
    }

    /// Counts an entry that was read from the log.
    pub(crate) fn add_entry(&mut self, entry: &LogEntry) {
        let time_us = entry.int(Int::Time).unwrap_or(0).max(0) as u64;
        for period in Period::ALL {
            let totals = self.totals(period, time_us);
            let outcome = Outcome::named(entry.text(Text::Outcome));
            let has_reply = entry.int(Int::ResponseSize).is_some_and(|octets| octets > 0);
            totals.count(outcome, entry.int(Int::Delay).filter(|_| has_reply));
            for ranking in period.rankings().iter().filter(|ranking| ranking.takes(outcome)) {
                let one = ranking.column().map(|text| [entry.text(text).to_owned()]);
                let texts = match &one {
                    Some(one) => one.as_slice(),
                    None => entry.set(Set::Lists),
                };
                if one.is_none() && !ranking.takes_lists(texts.len(), entry.text(Text::Rule)) {
                    continue;
                }
                for text in texts.iter().filter(|text| !text.is_empty()) {
                    totals.tops[*ranking as usize].add(text, 1, period.open_texts());
                }
            }
        }
        Arc::make_mut(&mut self.seen).add_entry(entry, time_us);
        self.end_id = self.end_id.max(entry.id + 1);
    }

    /// Returns the totals of the period that contains a time. Adds the totals if they are missing.
    fn totals(&mut self, period: Period, time_us: u64) -> &mut Totals {
        let start_us = time_us / period.us() * period.us();
        let periods = &mut self.periods[period as usize];
        // After the clock was set back, the period may be an earlier one.
        let at = periods.partition_point(|totals| totals.start_us < start_us);
        if periods.get(at).is_some_and(|totals| totals.start_us == start_us) {
            return Arc::make_mut(&mut periods[at]);
        }
        let is_full = periods.len() == period.kept();
        if is_full && at == 0 {
            // An entry that is older than all kept periods is counted in the oldest one.
            return Arc::make_mut(&mut periods[0]);
        }
        // Usually, the latest period so far is before the new period. It is after the new period if
        // entries are counted newest first.
        if let Some(last) = periods.get_mut(at.min(periods.len().saturating_sub(1))) {
            let tops = Arc::make_mut(last).tops.iter_mut();
            tops.for_each(|top| top.shrink(period.closed_texts()));
        }
        periods.insert(at, Arc::new(Totals::new(start_us)));
        if is_full {
            periods.pop_front();
        }
        Arc::make_mut(&mut periods[at - usize::from(is_full)])
    }
}

/// The counts of some rows of a batch. For each ranking, they include the number of occurrences of
/// each text, by the text's number.
struct Tallies {
    counts: Totals,
    texts: [Vec<u32>; RANKINGS],
}

impl Tallies {
    fn of(rows: &[EntryRow], batch: &Batch) -> Self {
        let mut counts = Totals::new(0);
        let mut texts = std::array::from_fn(|_| vec![0; batch.texts.len()]);
        let sets: Vec<&[u32]> = batch.sets.iter().collect();
        for row in rows {
            let outcome = Outcome::named(batch.texts.get(row.texts[Text::Outcome as usize]));
            let has_reply = row.ints[Int::ResponseSize as usize] > 0;
            counts.count(outcome, has_reply.then_some(row.ints[Int::Delay as usize]));
            for ranking in Ranking::ALL.into_iter().filter(|ranking| ranking.takes(outcome)) {
                let tallies: &mut Vec<u32> = &mut texts[ranking as usize];
                match ranking.column() {
                    Some(text) => tallies[row.texts[text as usize] as usize] += 1,
                    None => {
                        let lists = sets[row.sets[Set::Lists as usize] as usize];
                        let rule = batch.texts.get(row.texts[Text::Rule as usize]);
                        if ranking.takes_lists(lists.len(), rule) {
                            lists.iter().for_each(|list| tallies[*list as usize] += 1);
                        }
                    }
                }
            }
        }
        Self { counts, texts }
    }

    fn add_to(&self, totals: &mut Totals, period: Period, batch: &Batch) {
        for ranking in period.rankings() {
            let top = &mut totals.tops[*ranking as usize];
            let tallies = self.texts[*ranking as usize].iter().enumerate();
            // Number zero is the empty text.
            for (number, count) in tallies.skip(1).filter(|(_, count)| **count > 0) {
                let text = batch.texts.get(number as u32);
                top.add(text, u64::from(*count), period.open_texts());
            }
        }
    }
}

#[cfg(test)]
mod tests;
