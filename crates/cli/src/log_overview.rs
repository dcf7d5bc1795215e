//! `avocet log top` and `stats`: the overviews of the running server, or of the files if none runs.

use std::process::ExitCode;

use avocet_config::salvage::Whereabouts;
use avocet_control::clients::{LogClients, LoggedClients};
use avocet_control::statistics::{
    Delays, LogOverview, LogStatistics, OutcomeCounts, QueryRates, RankedText, RankingKind,
};
use avocet_nameserver::clock::wall_secs;
use avocet_querylog::Rollups;
use avocet_server::{Span, clients, overview};

use crate::call::exchange;
use crate::error::CommandError;
use crate::log_args::{LogClientsArgs, LogFilterArgs, LogSpanArgs, LogStatsArgs, LogTopArgs};
use crate::log_files::{EntryForm, LogFiles};
use crate::log_filter::time;
use crate::log_text::{Times, duration, ranking_text};
use crate::output::{self, Reader, plain};

/// Maximum number of lines of each ranking in the statistics.
const FEW: u64 = 5;
/// The rankings that the statistics show.
const SHOWN: [RankingKind; 2] = [RankingKind::Types, RankingKind::Rcodes];

/// The overviews of a server.
pub(crate) struct LogOverviews<'a> {
    found: &'a Whereabouts,
    form: EntryForm,
    times: Times,
}

impl<'a> LogOverviews<'a> {
    /// Finds the overviews of the server with a configuration.
    pub(crate) fn of(found: &'a Whereabouts, form: EntryForm) -> Self {
        Self { found, form, times: Times::of(found.config.as_ref()) }
    }

    /// Shows a ranking: from the overviews, or from the files if there is a filter.
    ///
    /// # Errors
    /// An argument is malformed, or there is no log.
    pub(crate) fn top(&self, args: &LogTopArgs) -> Result<ExitCode, CommandError> {
        let LogFilterArgs { from, to, .. } = args.filter.clone();
        let span = LogSpanArgs { from, to };
        let filter = LogFilterArgs { from: None, to: None, ..args.filter.clone() };
        if filter != LogFilterArgs::default() {
            return LogFiles::open(self.found, self.form)?.top(args);
        }
        let overview = self.overview(&span, args.limit)?;
        let kind = args.of.kind();
        let ranking = overview.tops.iter().find(|top| top.of == kind);
        let text = match (self.form, ranking) {
            (EntryForm::Json, ranking) => serde_json::to_string(&ranking)? + "\n",
            (EntryForm::Text, Some(ranking)) => {
                format!("{}\n{}", self.span(&overview), ranking_text(ranking))
            }
            (EntryForm::Text, None) => String::new(),
        };
        self.write(&text)
    }

    /// Shows the counts.
    ///
    /// # Errors
    /// As for [`top`](Self::top).
    pub(crate) fn stats(&self, args: &LogStatsArgs) -> Result<ExitCode, CommandError> {
        let overview = self.overview(&args.span, FEW)?;
        let text = match self.form {
            EntryForm::Json => serde_json::to_string(&overview)? + "\n",
            EntryForm::Text => format!("{}\n{}", self.span(&overview), stats_text(&overview)),
        };
        self.write(&text)
    }

    /// Shows the clients with the times of their first and latest queries.
    ///
    /// # Errors
    /// There is no log.
    pub(crate) fn clients(&self, args: &LogClientsArgs) -> Result<ExitCode, CommandError> {
        let request =
            LogClients { client: args.client.clone(), limit: Some(args.limit), within: None };
        let answer = exchange(&self.found.directory, request.clone(), |_, _| Ok(Reader::Reads));
        let found = match answer {
            Ok(found) => found.ok_or(CommandError::Incomplete)?,
            Err(CommandError::NoServer(_)) => {
                clients(&Rollups::read(&LogFiles::directory(self.found)?)?, &request)?
            }
            Err(error) => return Err(error),
        };
        match self.form {
            EntryForm::Json => self.write(&(serde_json::to_string(&found)? + "\n")),
            EntryForm::Text => self.write(&clients_text(&found, &self.times)),
        }
    }

    fn write(&self, text: &str) -> Result<ExitCode, CommandError> {
        let written = match self.form {
            EntryForm::Json => output::write_data(text),
            EntryForm::Text => output::write(text),
        };
        written.map(|_| ExitCode::SUCCESS)
    }

    /// Returns the overview of the running server, or of the files if no server runs.
    fn overview(&self, args: &LogSpanArgs, limit: u64) -> Result<LogOverview, CommandError> {
        let config = self.found.config.as_ref();
        let of = |text: &Option<String>| text.as_deref().map(|text| time(config, text)).transpose();
        let (from, to) = (of(&args.from)?, of(&args.to)?);
        let request = LogStatistics { from, to, limit: Some(limit), within: None };
        match exchange::<LogStatistics>(&self.found.directory, request, |_, _| Ok(Reader::Reads)) {
            Ok(Some(overview)) => Ok(overview),
            Ok(None) => Err(CommandError::Incomplete),
            Err(CommandError::NoServer(_)) => {
                let directory = LogFiles::directory(self.found)?;
                let span = Span::of(from, to, wall_secs())?;
                let rollups = Rollups::read(&directory)?;
                Ok(overview(&rollups, &span, limit as usize, QueryRates::default()))
            }
            Err(error) => Err(error),
        }
    }

    fn span(&self, overview: &LogOverview) -> String {
        let (from, to) = (self.times.secs(overview.from), self.times.secs(overview.to));
        format!("{from} to {to}: {} queries", overview.queries)
    }
}

fn clients_text(found: &LoggedClients, times: &Times) -> String {
    let mut text = String::new();
    for one in &found.clients {
        let (first, last) = (times.secs(one.first), times.secs(one.last));
        let name = one.client_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        text += &format!("{first} to {last}  {}{}\n", plain(&one.client), plain(&name));
    }
    match found.left_out {
        0 => text,
        more => text + &format!("{more} more, see --limit\n"),
    }
}

fn stats_text(overview: &LogOverview) -> String {
    let rates = &overview.rates;
    let mut text = String::new();
    if rates.secs > 0.0 {
        text += &format!(
            "now: {:.1} queries a second, {:.1} blocked, {:.1} failed\n",
            rates.queries, rates.blocked, rates.failed
        );
    }
    text += &format!("outcomes: {}\n", outcomes_text(&overview.outcomes, overview.queries));
    if let Delays { median_us: Some(median), p95_us: Some(p95), p99_us: Some(p99), .. } =
        overview.delays
    {
        text += &format!(
            "answered within: {} (half), {} (95 %), {} (99 %)\n",
            duration(median),
            duration(p95),
            duration(p99)
        );
    }
    for ranking in overview.tops.iter().filter(|top| SHOWN.contains(&top.of)) {
        let count = |one: &RankedText| format!("{} {}", plain(&one.text), one.queries);
        let counts: Vec<String> = ranking.texts.iter().map(count).collect();
        if !counts.is_empty() {
            text += &format!("{}: {}\n", ranking.of, counts.join(", "));
        }
    }
    text
}

fn outcomes_text(counts: &OutcomeCounts, all: u64) -> String {
    let outcomes = [
        ("answered", counts.answered),
        ("local", counts.local),
        ("blocked", counts.blocked),
        ("rewritten", counts.rewritten),
        ("refused", counts.refused),
        ("dropped", counts.dropped),
        ("failed", counts.failed),
        ("malformed", counts.malformed),
    ];
    let share = |count: u64| count as f64 * 100.0 / all.max(1) as f64;
    let shown = outcomes.into_iter().filter(|(_, count)| *count > 0);
    let shown: Vec<String> =
        shown.map(|(name, count)| format!("{name} {count} ({:.1} %)", share(count))).collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}
