//! `avocet log prune`: deletes queries, by the running server, or in the files if none runs.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use avocet_config::salvage::Whereabouts;
use avocet_control::line::ReplyLine;
use avocet_control::log::{DamagedFile, LogCount, LogFilter, LogPrune};
use avocet_io::account::Account;
use avocet_querylog::{Broken, LogReader, SearchExtent, prune};
use avocet_server::stored_filter;
use serde_json::json;

use crate::call::exchange;
use crate::error::CommandError;
use crate::log_args::LogPruneArgs;
use crate::log_files::{EntryForm, LogFiles, progress};
use crate::log_filter;
use crate::output::plain;
use crate::output::{self, Reader};

/// Runs `avocet log prune`.
///
/// # Errors
/// An argument is malformed, no person can confirm, or the queries cannot be deleted.
pub(crate) fn run(
    found: &Whereabouts,
    form: EntryForm,
    args: &LogPruneArgs,
) -> Result<ExitCode, CommandError> {
    let filter = log_filter::of_request(&args.filter, found.config.as_ref())?;
    if (filter != LogFilter::default()) == args.all {
        return Err(CommandError::UnclearDeletion);
    }
    stored_filter(&filter)?;
    if !args.yes && !is_confirmed(found, &filter)? {
        output::write("nothing is deleted\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let pruned = match by_server(&found.directory, &filter, args) {
        Err(CommandError::NoServer(_)) => in_files(found, &filter)?,
        pruned => pruned?,
    };
    let text = match form {
        EntryForm::Text => format!("{} queries deleted", pruned.queries),
        EntryForm::Json => {
            json!({ "queries": pruned.queries, "damaged": pruned.damaged }).to_string()
        }
    };
    output::write(&format!("{text}\n"))?;
    for DamagedFile { file, reason } in &pruned.damaged {
        output::note(&format!("avocet: not changed: {}: {}", plain(file), plain(reason)));
    }
    Ok(if pruned.damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The deleted entries.
struct Deleted {
    queries: u64,
    damaged: Vec<DamagedFile>,
}

/// Shows how many queries would be deleted, and asks for confirmation.
fn is_confirmed(found: &Whereabouts, filter: &LogFilter) -> Result<bool, CommandError> {
    let count = match counted_by_server(&found.directory, filter) {
        Err(CommandError::NoServer(_)) => {
            let reader = LogReader::open(LogFiles::directory(found)?)?;
            let whole =
                SearchExtent { before_id: u64::MAX, entries: usize::MAX, max_rows: u64::MAX };
            reader.count(&stored_filter(filter)?, whole).entries
        }
        count => count?,
    };
    if !io::stdin().is_terminal() {
        output::note(&format!("avocet: this would delete {count} queries"));
        return Err(CommandError::NobodyToAsk);
    }
    let mut out = io::stderr();
    let asked = write!(out, "Delete {count} queries for good? [y/N] ").and_then(|()| out.flush());
    asked.map_err(CommandError::Output)?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|_| CommandError::NobodyToAsk)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn counted_by_server(directory: &Path, filter: &LogFilter) -> Result<u64, CommandError> {
    let (mut queries, mut cursor) = (0, None);
    loop {
        let request = LogCount { filter: filter.clone(), cursor };
        let reply = exchange::<LogCount>(directory, request, |_, _| Ok(Reader::Reads))?;
        let counted = reply.ok_or(CommandError::Incomplete)?;
        queries += counted.queries;
        match counted.next {
            Some(next) => cursor = Some(next),
            None => return Ok(queries),
        }
    }
}

fn by_server(
    directory: &Path,
    filter: &LogFilter,
    args: &LogPruneArgs,
) -> Result<Deleted, CommandError> {
    let request = LogPrune { filter: filter.clone(), all: args.all };
    let show = |_: &str, reply: &ReplyLine<LogPrune>| {
        if let ReplyLine::Part(_) = reply {
            progress("the server is at work");
        }
        Ok(Reader::Reads)
    };
    let reply = exchange::<LogPrune>(directory, request, show);
    progress("");
    let pruned = reply?.ok_or(CommandError::Incomplete)?;
    Ok(Deleted { queries: pruned.queries, damaged: pruned.damaged })
}

fn in_files(found: &Whereabouts, filter: &LogFilter) -> Result<Deleted, CommandError> {
    let directory = LogFiles::directory(found)?;
    // New files belong to the account of the server, and links that it made are not followed as
    // root.
    let owned = if directory.starts_with(&found.directory) { &found.directory } else { &directory };
    let (mut files, filter) = (0, stored_filter(filter)?);
    let prune = || {
        prune(&directory, &filter, || {
            files += 1;
            progress(&format!("file {files}"));
        })
    };
    let pruned = Account::owner_of(owned).and_then(|owner| owner.run(prune));
    let pruned =
        pruned.map_err(|source| CommandError::Directory { path: owned.clone(), source })??;
    progress("");
    let file =
        |Broken { path, reason }: Broken| DamagedFile { file: path.display().to_string(), reason };
    let damaged = pruned.broken.into_iter().map(file).collect();
    Ok(Deleted { queries: pruned.entries, damaged })
}
