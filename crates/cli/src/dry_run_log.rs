//! `avocet policy dry-run --from-log`: the queries of the query log.

use std::io;
use std::ops::ControlFlow;

use avocet_querylog::{Filter, LogError, LogReader};
use avocet_server::dry_run::{DryRunReport, LoggedQueries, Sides, judge_log};

use crate::dry_run_args::PolicyDryRunArgs;
use crate::error::CommandError;
use crate::log_files::{progress, report_damaged};
use crate::log_filter::time;

/// Number of entries between two updates of the progress line.
const STEP: u64 = 100_000;

/// Evaluates the queries in the log of the current configuration.
///
/// # Errors
/// There is no log, or an argument is malformed.
pub(crate) fn of_log(
    args: &PolicyDryRunArgs,
    sides: &mut Sides,
) -> Result<DryRunReport, CommandError> {
    let config = sides.now.config();
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
    let mut report = DryRunReport::default();
    let log = LoggedQueries { reader: &reader, filter: &Filter { time_us, ..Filter::default() } };
    let mut next = 0;
    let tallied = judge_log(&log, &mut report, sides, |entries| {
        if entries >= next {
            progress(&format!("{entries} entries"));
            next = entries + STEP;
        }
        ControlFlow::Continue(())
    });
    progress("");
    report_damaged(tallied.broken);
    Ok(report)
}
