//! `avocet policy dry-run --running`: the running server compares its configuration with another
//! one, for the queries that it has logged.

use std::process::ExitCode;

use avocet_config::read_text;
use avocet_control::MAX_LINE;
use avocet_control::dry_run::{DryRunChanges, DryRunFound, DryRunLimit, PolicyDryRun};
use avocet_control::log::LogFilter;

use crate::call::{Done, View, refuse, send, whereabouts};
use crate::control_args::ControlArgs;
use crate::dry_run::{left_out_text, without_answer_text};
use crate::dry_run_args::PolicyDryRunArgs;
use crate::error::CommandError;
use crate::log_filter::time;

/// Number of names that are shown for each kind of change.
const SHOWN: u64 = 20;

/// Asks the running server.
pub(crate) fn run(args: &PolicyDryRunArgs) -> ExitCode {
    let control = ControlArgs { config: args.config.clone(), json: args.json };
    let found = match whereabouts(&control) {
        Ok(found) => found,
        Err(error) => return refuse(&error),
    };
    match request(args, found.config.as_ref()) {
        Ok(request) => send(&control, &found.directory, request, &view()),
        Err(error) => refuse(&error),
    }
}

fn request(
    args: &PolicyDryRunArgs,
    config: Option<&avocet_config::Config>,
) -> Result<PolicyDryRun, CommandError> {
    let at = |text: &Option<String>| text.as_deref().map(|text| time(config, text)).transpose();
    let filter = LogFilter { from: at(&args.from)?, to: at(&args.to)?, ..LogFilter::default() };
    let text = read_text(&args.new)?;
    // In JSON, line ends and quotes take two octets.
    let quoted = serde_json::to_string(&text)?;
    if quoted.len() + 1024 > MAX_LINE {
        return Err(CommandError::TooLong { path: args.new.clone(), most: MAX_LINE - 1024 });
    }
    Ok(PolicyDryRun {
        text: Some(text),
        filter,
        enforce_log_only: args.enforce_log_only,
        limit: (!args.json).then_some(SHOWN),
        ..PolicyDryRun::default()
    })
}

fn view() -> View<PolicyDryRun> {
    View { part: |_| String::new(), end: text, done: |_| Done::Whole }
}

fn text(found: &DryRunFound) -> String {
    let mut text = format!("{} queries\n", found.judged);
    if let Some(limit) = found.cut {
        let reason = match limit {
            DryRunLimit::Time => "its time is over",
            DryRunLimit::Entries => "these are the most",
        };
        let examined = found.examined;
        text += &format!("only the newest {examined} entries were looked at: {reason}\n");
    }
    text += &without_answer_text(found.without_answer, found.rules_on_answers);
    text += &left_out_text(found.left_out);
    for list in &found.lists_without_copy {
        text += &format!("list {list}: not fetched yet, so it counts as empty\n");
    }
    for file in &found.damaged {
        text += &format!("{}: {}\n", file.file, file.reason);
    }
    text += &changes_text(&found.newly_blocked, "newly blocked");
    text += &changes_text(&found.newly_answered, "freed");
    text += &changes_text(&found.otherwise_changed, "changed otherwise");
    let compared = found.revision.map_or_else(
        || "compared with the configuration in force".to_owned(),
        |number| format!("compared with revision {number}"),
    );
    text + &compared
}

fn changes_text(changes: &DryRunChanges, what: &str) -> String {
    let DryRunChanges { queries, name_count, client_count, names, .. } = changes;
    let mut text =
        format!("{what}: {queries} queries, {name_count} names, {client_count} clients\n");
    for name in names {
        let why = if name.why.is_empty() { String::new() } else { format!(" ({})", name.why) };
        text += &format!("  {:>6} {}{why}\n", name.queries, name.name);
    }
    match name_count.saturating_sub(names.len() as u64) {
        0 => {}
        more => text += &format!("         and {more} more\n"),
    }
    if changes.unlisted > 0 {
        text += &format!("         and more names, with {} queries\n", changes.unlisted);
    }
    text
}
