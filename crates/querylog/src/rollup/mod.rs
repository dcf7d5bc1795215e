//! Roll-ups: totals and tops for each minute, hour and day.
//!
//! The writer adds each block before it writes it. Overviews read only these numbers, so they cost
//! the same at any size of the log. The number of periods of each length is bounded, and so are the
//! texts of each [`Top`].
//!
//! The state is stored whenever a file of the head is complete, and when the writer is closed. It
//! says which entries it counts: [`Rollups::end_id`]. After a crash, the entries from there on are
//! read from the log again.

mod store;
mod top;

pub use top::{Top, TopText};

use std::collections::VecDeque;

use crate::batch::{Batch, EntryRow};
use crate::column::{Int, Set, Text};
use crate::entry::{OUTCOMES, Outcome};
use crate::search::LogEntry;

/// Kinds of texts with a top.
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
}

const RANKINGS: usize = 7;
/// The rankings of a minute: the others are kept for hours and days.
const SMALL_RANKINGS: usize = 2;
const TEXT_OF: [Option<Text>; RANKINGS] = [
    Some(Text::Qtype),
    Some(Text::Rcode),
    Some(Text::Qname),
    Some(Text::Client),
    Some(Text::Rule),
    None,
    Some(Text::Upstream),
];
/// Classes of the histogram: the class `n` has the delays of less than 2 to the power `n`
/// microseconds that are in no class before it.
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
    /// All lengths.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// Returns the length in microseconds.
    #[must_use]
    pub fn us(self) -> u64 {
        [60_000_000, 3_600_000_000, 86_400_000_000][self as usize]
    }

    /// Returns the number of periods that are kept: a day of minutes, a week of hours, a year of
    /// days.
    fn kept(self) -> usize {
        [1440, 168, 366][self as usize]
    }

    /// Returns the texts of a top while the period is the latest one.
    fn open_texts(self) -> usize {
        [16, 512, 1024][self as usize]
    }

    /// Returns the texts of a top after the period.
    fn closed_texts(self) -> usize {
        [16, 64, 128][self as usize]
    }

    fn rankings(self) -> usize {
        if self == Self::Minute { SMALL_RANKINGS } else { RANKINGS }
    }
}

/// The totals of a period.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Start of the period in microseconds since the epoch.
    pub start_us: u64,
    /// Entries.
    pub entries: u64,
    /// Entries by outcome, in the order of [`Outcome`].
    pub outcomes: [u64; OUTCOMES.len()],
    /// Entries by the time to answer.
    pub delays: [u64; DELAY_CLASSES],
    tops: [Top; RANKINGS],
}

impl Totals {
    fn new(start_us: u64) -> Self {
        let (entries, outcomes, delays) = (0, [0; _], [0; _]);
        Self { start_us, entries, outcomes, delays, tops: Default::default() }
    }

    /// Returns a top. Minutes have only those of types and RCODEs.
    #[must_use]
    pub fn top(&self, ranking: Ranking) -> &Top {
        &self.tops[ranking as usize]
    }

    fn count(&mut self, outcome: Option<Outcome>, delay_us: i64) {
        self.entries += 1;
        if let Some(outcome) = outcome {
            self.outcomes[outcome as usize] += 1;
        }
        let bits = u64::BITS - (delay_us.max(0) as u64).leading_zeros();
        self.delays[(bits as usize).min(DELAY_CLASSES - 1)] += 1;
    }

    fn merge(&mut self, other: &Self, kept: usize) {
        self.entries += other.entries;
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(sum, more)| *sum += more);
        self.delays.iter_mut().zip(other.delays).for_each(|(sum, more)| *sum += more);
        self.tops.iter_mut().zip(&other.tops).for_each(|(sum, more)| sum.merge(more, kept));
    }
}

/// Totals of all periods.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rollups {
    /// The periods of each length in the order of their starts.
    periods: [VecDeque<Totals>; 3],
    end_id: u64,
}

impl Rollups {
    /// Returns the id after those of the entries that are counted.
    #[must_use]
    pub fn end_id(&self) -> u64 {
        self.end_id
    }

    /// Returns the totals of the periods in a time range, the earliest first. Periods without
    /// entries are left out.
    pub fn series(
        &self,
        period: Period,
        time_us: std::ops::Range<u64>,
    ) -> impl Iterator<Item = &Totals> {
        self.periods[period as usize]
            .iter()
            .filter(move |totals| time_us.contains(&totals.start_us))
    }

    /// Returns the sum of the totals of the periods in a time range.
    #[must_use]
    pub fn sum(&self, period: Period, time_us: std::ops::Range<u64>) -> Totals {
        let mut sum = Totals::new(time_us.start);
        for totals in self.series(period, time_us) {
            sum.merge(totals, Period::Day.open_texts());
        }
        sum
    }

    /// Counts the entries of a batch, which is sorted by time. The ids end before `end_id`.
    pub(crate) fn add(&mut self, batch: &Batch, end_id: u64) {
        let minute =
            |row: &EntryRow| row.ints[Int::Time as usize].max(0) as u64 / Period::Minute.us();
        for rows in batch.rows.chunk_by(|a, b| minute(a) == minute(b)) {
            let start_us = minute(&rows[0]) * Period::Minute.us();
            let tallies = Tallies::of(rows, batch);
            for period in Period::ALL {
                let totals = self.totals(period, start_us);
                for row in rows {
                    let outcome = batch.texts.get(row.texts[Text::Outcome as usize]);
                    totals.count(Outcome::named(outcome), row.ints[Int::Delay as usize]);
                }
                tallies.add_to(totals, period, batch);
            }
        }
        self.end_id = self.end_id.max(end_id);
    }

    /// Counts an entry that was read from the log.
    pub(crate) fn add_entry(&mut self, entry: &LogEntry) {
        let time_us = entry.int(Int::Time).unwrap_or(0).max(0) as u64;
        for period in Period::ALL {
            let totals = self.totals(period, time_us);
            let outcome = Outcome::named(entry.text(Text::Outcome));
            totals.count(outcome, entry.int(Int::Delay).unwrap_or(0));
            for (top, text) in totals.tops[..period.rankings()].iter_mut().zip(TEXT_OF) {
                let one = text.map(|text| [entry.text(text).to_owned()]);
                let texts = one.as_ref().map_or(entry.set(Set::Lists), |one| one.as_slice());
                for text in texts.iter().filter(|text| !text.is_empty()) {
                    top.add(text, 1, period.open_texts());
                }
            }
        }
        self.end_id = self.end_id.max(entry.id + 1);
    }

    /// Returns the totals of the period with a time, which are added if they are missing.
    fn totals(&mut self, period: Period, time_us: u64) -> &mut Totals {
        let start_us = time_us / period.us() * period.us();
        let periods = &mut self.periods[period as usize];
        // A clock that was set back leads to an earlier period.
        let at = periods.partition_point(|totals| totals.start_us < start_us);
        if periods.get(at).is_none_or(|totals| totals.start_us != start_us) {
            if at == periods.len()
                && let Some(last) = periods.back_mut()
            {
                last.tops.iter_mut().for_each(|top| top.shrink(period.closed_texts()));
            }
            periods.insert(at, Totals::new(start_us));
        }
        let is_full = periods.len() > period.kept();
        if is_full {
            periods.pop_front();
        }
        // An entry that is older than all periods counts in the oldest one.
        &mut periods[at.saturating_sub(usize::from(is_full))]
    }
}

/// How often each text of a batch occurs in some of its rows, by ranking and number.
struct Tallies([Vec<u32>; RANKINGS]);

impl Tallies {
    fn of(rows: &[EntryRow], batch: &Batch) -> Self {
        let mut tallies = std::array::from_fn(|_| vec![0; batch.texts.len()]);
        let sets: Vec<&[u32]> = batch.sets.iter().collect();
        for (tallies, text) in tallies.iter_mut().zip(TEXT_OF) {
            for row in rows {
                match text {
                    Some(text) => tallies[row.texts[text as usize] as usize] += 1,
                    None => sets[row.sets[Set::Lists as usize] as usize]
                        .iter()
                        .for_each(|list| tallies[*list as usize] += 1),
                }
            }
        }
        Self(tallies)
    }

    fn add_to(&self, totals: &mut Totals, period: Period, batch: &Batch) {
        for (top, tallies) in totals.tops[..period.rankings()].iter_mut().zip(&self.0) {
            // Number zero is the empty text.
            for (number, count) in tallies.iter().enumerate().skip(1).filter(|(_, n)| **n > 0) {
                let text = batch.texts.get(number as u32);
                top.add(text, u64::from(*count), period.open_texts());
            }
        }
    }
}

#[cfg(test)]
mod tests;
