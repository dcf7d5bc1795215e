//! `avocet policy dry-run --from-log`: the queries of the query log.
//!
//! Equal queries are judged together. If a rule of either configuration tests the time, queries of
//! different minutes are not equal.

use std::io;
use std::net::IpAddr;

use avocet_nameserver::query::asked::Transport;
use avocet_querylog::column::Text;
use avocet_querylog::{EqualEntries, Filter, LogError, LogReader, Outcome, TallyBy, TallyTimes};

use crate::dry_run::{DryRunReport, PastQuery, Side};
use crate::dry_run_args::PolicyDryRunArgs;
use crate::error::CommandError;
use crate::log_files::{progress, report_damaged};
use crate::log_filter::time;
use crate::policy::{folded_name, rtype};

/// What makes queries equal.
const COLUMNS: [Text; 8] = [
    Text::Qname,
    Text::Qtype,
    Text::Client,
    Text::Transport,
    Text::Listener,
    Text::Outcome,
    Text::Answer,
    Text::Qclass,
];

/// Judges the queries in the log of the configuration in force.
///
/// # Errors
/// There is no log, or an argument is malformed.
pub(crate) fn of_log(
    args: &PolicyDryRunArgs,
    (now, then): (&mut Side, &mut Side),
) -> Result<DryRunReport, CommandError> {
    let config = now.config();
    let directory = config.query_log.directory_in(&config.data.directory);
    let reader = match LogReader::open(directory.clone()) {
        Err(LogError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Err(CommandError::NoQueryLog(directory));
        }
        opened => opened?,
    };
    let time_us = |text: &Option<String>| {
        let secs = text.as_deref().map(|text| time(Some(config), text)).transpose()?;
        Ok::<_, CommandError>(secs.map(|secs| secs.saturating_mul(1_000_000)))
    };
    let time_us = time_us(&args.from)?.unwrap_or(0)..time_us(&args.to)?.unwrap_or(u64::MAX);
    let goes_by_time = now.goes_by_time() || then.goes_by_time();
    let times = if goes_by_time { TallyTimes::ByMinute } else { TallyTimes::Any };
    let mut report = DryRunReport::default();
    let mut left_out = 0;
    let judge = |equal: &EqualEntries<'_>| match past_query(equal) {
        Some(query) => report.judge(&query, (&mut *now, &mut *then)),
        None => left_out += equal.entries,
    };
    let filter = Filter { time_us, ..Filter::default() };
    let show = |entries| progress(&format!("{entries} entries"));
    let tallied = reader.tally(&filter, TallyBy { texts: &COLUMNS, times }, judge, show);
    progress("");
    report_damaged(tallied.broken);
    report.entries_left_out = Some(left_out);
    Ok(report)
}

/// Returns what a group of entries asked; `None` if a policy has nothing to decide about it.
fn past_query<'e>(equal: &'e EqualEntries<'_>) -> Option<PastQuery<'e>> {
    let [name, qtype, client, transport, listener, outcome, answer, class] =
        std::array::from_fn(|place| equal.text(place));
    if name.is_empty() || class != "IN" {
        return None;
    }
    // Other outcomes have answers of this server, not of others.
    let is_known = outcome == Outcome::Answered.name();
    let words = || answer.split_whitespace().filter(|_| is_known);
    let alias = words().find(|word| word.parse::<IpAddr>().is_err());
    Some(PastQuery {
        client: client.parse().ok()?,
        name: folded_name(name).ok()?,
        rtype: rtype(qtype).ok()?,
        transport: Transport::ALL
            .into_iter()
            .find(|one| one.name() == transport)
            .unwrap_or(Transport::Udp),
        listener,
        at_secs: equal.minute_secs,
        alias: alias.and_then(|alias| folded_name(alias).ok()),
        addresses: words().filter_map(|word| word.parse().ok()).collect(),
        answer: None,
        queries: equal.entries,
    })
}
