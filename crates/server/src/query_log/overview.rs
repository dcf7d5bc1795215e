//! Overviews of the query log from its roll-ups: the counts of a period, whole and in steps.

use std::net::IpAddr;
use std::ops::Range;

use avocet_control::ControlError;
use avocet_control::clients::{LogClients, LoggedClient, LoggedClients};
use avocet_control::log_fault::LogFault;
use avocet_control::statistics::{
    DelayClass, Delays, LogOverview, LogStep, LogSteps, OutcomeCounts, PeriodLength, QueryRates,
    RankedText, RankingKind, TopRanking,
};
use avocet_querylog::{Outcome, PartCounts, Period, Ranking, Rollups, SeenClient, Top, Totals};

/// Maximum number of steps in a series.
const MAX_STEPS: u64 = 1_500;
/// Maximum number of clients of a reply: all that the log can have.
const MOST_CLIENTS: u64 = 4096;
/// Default number of clients in a reply.
const USUAL_CLIENTS: u64 = 100;
/// Number of steps in a series if the request states no step.
const USUAL_STEPS: u64 = 100;
/// The period of an overview without a start time.
const USUAL_SECS: u64 = 86_400;

/// The rankings of the log, each with its kind in the interface.
const KINDS: [(Ranking, RankingKind); 10] = [
    (Ranking::Qtypes, RankingKind::Types),
    (Ranking::Rcodes, RankingKind::Rcodes),
    (Ranking::Qnames, RankingKind::Names),
    (Ranking::Clients, RankingKind::Clients),
    (Ranking::Rules, RankingKind::Rules),
    (Ranking::Lists, RankingKind::Lists),
    (Ranking::Upstreams, RankingKind::Upstreams),
    (Ranking::BlockedQnames, RankingKind::BlockedNames),
    (Ranking::BlockedClients, RankingKind::BlockedClients),
    (Ranking::LoneLists, RankingKind::LoneLists),
];

/// A period in Unix seconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span(Range<u64>);

impl Span {
    /// Returns the period for which a request asks that arrives at the Unix second `now`.
    ///
    /// # Errors
    /// The period ends before it begins.
    pub fn of(from: Option<u64>, to: Option<u64>, now: u64) -> Result<Self, ControlError> {
        let to = to.unwrap_or(now.saturating_add(1));
        let from = from.unwrap_or(to.saturating_sub(USUAL_SECS));
        if from < to { Ok(Self(from..to)) } else { Err(LogFault::EmptyTime.into()) }
    }

    /// Returns the period in microseconds, rounded to whole minutes, as the roll-ups count.
    pub(crate) fn minutes_us(&self) -> Range<u64> {
        let Range { start, end } = self.aligned(secs(Period::Minute));
        micros(start)..micros(end)
    }

    /// Returns the period, extended to whole steps.
    fn aligned(&self, step: u64) -> Range<u64> {
        self.0.start / step * step..self.0.end.div_ceil(step).saturating_mul(step)
    }
}

/// Returns the counts of a period, with up to `texts` of each ranking.
pub fn overview(rollups: &Rollups, span: &Span, texts: usize, rates: QueryRates) -> LogOverview {
    // Roll-ups of minutes are not used, because they have few rankings.
    let from_us = micros(span.0.start);
    let period = match rollups.reaches(Period::Hour, from_us / HOUR_US * HOUR_US) {
        true => Period::Hour,
        false => Period::Day,
    };
    let range = span.aligned(secs(period));
    let totals = rollups.sum(period, micros(range.start)..micros(range.end));
    let top = |(ranking, of): (Ranking, RankingKind)| {
        let top = totals.top(ranking);
        let ranked = top.texts(texts).into_iter();
        let ranked =
            ranked.map(|one| RankedText { text: one.text, queries: one.count, error: one.error });
        TopRanking { of, texts: ranked.collect(), others_at_most: top.floor() }
    };
    LogOverview {
        from: range.start,
        to: range.end,
        period: length(period),
        queries: totals.entries,
        outcomes: outcomes(&totals),
        delays: delays(&totals),
        tops: KINDS.into_iter().map(top).collect(),
        rates,
    }
}

/// Returns the counts of the selected entries in a period, with up to `texts` of each ranking.
pub(crate) fn overview_of_part(part: &PartCounts, span: &Span, texts: usize) -> LogOverview {
    let overview = overview(&part.rollups, span, texts, QueryRates::default());
    // Only entries of the period were counted, so no hour counts as a whole.
    let Range { start, end } = span.minutes_us();
    let (start, end) = (start / 1_000_000, end / 1_000_000);
    LogOverview { from: reached_secs(part).clamp(start, end), to: end, ..overview }
}

/// Returns the counts of the selected entries in a period, in steps.
pub(crate) fn series_of_part(part: &PartCounts, span: &Span, step: Option<u64>) -> LogSteps {
    let mut series = series(&part.rollups, span, step);
    series.steps.retain(|step| step.at >= reached_secs(part));
    series
}

/// Returns the Unix second at which the count begins: the time limit may have left out earlier
/// entries.
fn reached_secs(part: &PartCounts) -> u64 {
    part.cut_us.div_ceil(1_000_000)
}

/// Returns a ranking with up to `texts` texts.
pub fn top_ranking(of: RankingKind, top: &Top, texts: usize) -> TopRanking {
    let ranked = top.texts(texts).into_iter();
    let ranked =
        ranked.map(|one| RankedText { text: one.text, queries: one.count, error: one.error });
    TopRanking { of, texts: ranked.collect(), others_at_most: top.floor() }
}

/// Returns the ranking of the log for a ranking of the interface.
pub fn ranking(of: RankingKind) -> Option<Ranking> {
    KINDS.into_iter().find(|(_, kind)| *kind == of).map(|(ranking, _)| ranking)
}

/// Returns the counts of a period, in steps of at least `step` seconds.
pub(crate) fn series(rollups: &Rollups, span: &Span, step: Option<u64>) -> LogSteps {
    let wanted = span.0.end - span.0.start;
    // The first and the last step may extend beyond the period.
    let least = wanted.div_ceil(MAX_STEPS - 2);
    let step = step.unwrap_or(wanted / USUAL_STEPS).max(least).max(1);
    let from_us = micros(span.0.start);
    let reaches = |period: &Period| rollups.reaches(*period, from_us / period.us() * period.us());
    let finest = Period::ALL.into_iter().find(reaches).unwrap_or(Period::Day);
    // If a step consists of whole days, minutes are not needed.
    let coarsest = Period::ALL.into_iter().rev().find(|period| step.is_multiple_of(secs(*period)));
    let period = match coarsest {
        Some(period) if secs(period) > secs(finest) => period,
        _ => finest,
    };
    let step = step.div_ceil(secs(period)).saturating_mul(secs(period));
    let range = span.aligned(step);
    let mut steps = Vec::new();
    let mut periods = rollups.series(period, micros(range.start)..micros(range.end)).peekable();
    for at in (range.start..range.end).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let mut counts = Totals::new(micros(at));
        let end_us = micros(at.saturating_add(step));
        while let Some(totals) = periods.next_if(|one| one.start_us < end_us) {
            counts.add_counts(totals);
        }
        steps.push(LogStep {
            at,
            queries: counts.entries,
            outcomes: outcomes(&counts),
            median_us: counts.delay_us(0.5),
            p99_us: counts.delay_us(0.99),
        });
    }
    LogSteps { step, period: length(period), steps }
}

/// Returns the clients with the times of their first and latest queries.
///
/// # Errors
/// The limit is out of bounds.
pub fn clients(rollups: &Rollups, request: &LogClients) -> Result<LoggedClients, ControlError> {
    let limit = match request.limit.unwrap_or(USUAL_CLIENTS) {
        limit @ 1..=MOST_CLIENTS => limit as usize,
        _ => return Err(LogFault::OutOfBounds("a limit from 1 to 4096").into()),
    };
    let wanted = match request.client.as_deref() {
        Some(text) if text.trim().is_empty() => {
            return Err(LogFault::EmptyFilter("client").into());
        }
        // An address may be written in several ways.
        Some(text) => Some(text.parse().map_or(text.to_owned(), |ip: IpAddr| ip.to_string())),
        None => None,
    };
    let is_wanted = |one: &SeenClient| {
        wanted.as_ref().is_none_or(|wanted| one.client == *wanted || one.name == *wanted)
    };
    let mut all = rollups.clients();
    all.retain(is_wanted);
    let left_out = all.len().saturating_sub(limit) as u64;
    let client = |one: SeenClient| LoggedClient {
        client: one.client,
        client_name: Some(one.name).filter(|name| !name.is_empty()),
        first: one.first_us / 1_000_000,
        last: one.last_us / 1_000_000,
    };
    Ok(LoggedClients { clients: all.into_iter().take(limit).map(client).collect(), left_out })
}

const HOUR_US: u64 = 3_600_000_000;

fn micros(secs: u64) -> u64 {
    secs.saturating_mul(1_000_000)
}

fn secs(period: Period) -> u64 {
    period.us() / 1_000_000
}

fn length(period: Period) -> PeriodLength {
    match period {
        Period::Minute => PeriodLength::Minute,
        Period::Hour => PeriodLength::Hour,
        Period::Day => PeriodLength::Day,
    }
}

fn outcomes(totals: &Totals) -> OutcomeCounts {
    let of = |outcome: Outcome| totals.outcomes[outcome as usize];
    OutcomeCounts {
        answered: of(Outcome::Answered),
        local: of(Outcome::Local),
        blocked: of(Outcome::Blocked),
        rewritten: of(Outcome::Rewritten),
        refused: of(Outcome::Refused),
        dropped: of(Outcome::Dropped),
        failed: of(Outcome::Failed),
        malformed: of(Outcome::Malformed),
    }
}

fn delays(totals: &Totals) -> Delays {
    let classes = totals.delays.iter().enumerate().filter(|(_, queries)| **queries > 0);
    let class =
        |(class, queries): (usize, &u64)| DelayClass { below_us: 1 << class, queries: *queries };
    Delays {
        median_us: totals.delay_us(0.5),
        p95_us: totals.delay_us(0.95),
        p99_us: totals.delay_us(0.99),
        histogram: classes.map(class).collect(),
    }
}
