//! `avocet config history`, `diff`, `set`, `unset`, `rollback` and `confirm`.

use std::process::ExitCode;

use avocet_control::revisions::{
    ChangeReach, CheckedChange, ConfigChange, ConfigCheck, ConfigConfirm, ConfigDiff, ConfigEdit,
    ConfigHistory, ConfigRollback, OnProbation, Revision, RevisionAccepted, RevisionConfirmed,
    RevisionDifference, Revisions, Submitter,
};
use clap::Subcommand;

use crate::call::{View, run};
use crate::control_args::ControlArgs;
use crate::span::{ago, span};
use crate::state::reload_text;

/// The commands under `avocet config` that need the running server.
#[derive(Debug, Subcommand)]
pub(crate) enum RevisionCommand {
    /// List the revisions of the configuration, the latest first: number, time, author, comment
    History {
        /// Maximum number of revisions to show [default: all]
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Show the difference between two revisions of the configuration
    Diff {
        /// Number of the earlier revision
        #[arg(value_name = "A")]
        from: u32,
        /// Number of the later revision [default: the revision in force]
        #[arg(value_name = "B")]
        to: Option<u32>,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Set a key in the configuration file of the running server; comments and order stay
    Set {
        /// Key to set: TABLE.KEY, TABLE[NAME].KEY or TABLE[NAME], such as `policy.time-zone`
        key: String,
        /// New value in TOML; a bare word is a string
        value: String,
        /// Only check the change, and show the difference that it would make
        #[arg(long)]
        check: bool,
        /// Comment that the history shows with the revision
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Remove a key or a table from the configuration file of the running server
    Unset {
        /// Key or table to remove: TABLE.KEY, TABLE[NAME].KEY or TABLE[NAME]
        key: String,
        /// Comment that the history shows with the revision
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
        /// Only check the change, and show the difference that it would make
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Put an earlier revision in force again, and write it to the configuration file
    Rollback {
        /// Number of the earlier revision
        #[arg(value_name = "N")]
        number: u32,
        /// Comment that the history shows with the revision
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Keep the revision on probation, so that the server does not roll it back
    Confirm {
        #[command(flatten)]
        control: ControlArgs,
    },
}

impl RevisionCommand {
    /// Returns the new value as TOML; `None` to remove the key.
    fn value(&self) -> Option<String> {
        match self {
            Self::Set { value, .. } => Some(toml_value(value)),
            _ => None,
        }
    }
}

/// Runs a command about revisions.
pub(crate) fn revisions(command: &RevisionCommand) -> ExitCode {
    match command {
        RevisionCommand::History { limit, control } => {
            run(control, ConfigHistory { limit: *limit }, &View::of(history_text))
        }
        RevisionCommand::Diff { from, to, control } => {
            let request = ConfigDiff { from: *from, to: *to };
            run(control, request, &View::of(difference_text))
        }
        RevisionCommand::Set { key, check, control, .. }
        | RevisionCommand::Unset { key, check, control, .. }
            if *check =>
        {
            let edits = vec![ConfigEdit { key: key.clone(), value: command.value() }];
            let reach = ChangeReach::All;
            run(control, ConfigCheck { edits, reach }, &View::of(checked_text))
        }
        RevisionCommand::Set { key, comment, control, .. }
        | RevisionCommand::Unset { key, comment, control, .. } => {
            let edit = ConfigEdit { key: key.clone(), value: command.value() };
            run(control, change(edit, comment.as_ref()), &View::of(accepted_text))
        }
        RevisionCommand::Rollback { number, comment, control } => {
            let request = ConfigRollback { number: *number, by: submitter(comment.as_ref()) };
            run(control, request, &View::of(accepted_text))
        }
        RevisionCommand::Confirm { control } => {
            run(control, ConfigConfirm {}, &View::of(confirmed_text))
        }
    }
}

fn change(edit: ConfigEdit, comment: Option<&String>) -> ConfigChange {
    ConfigChange { edits: vec![edit], base: None, by: submitter(comment) }
}

/// Returns the user of this command, for the history. An account with access to the control socket
/// may give any name.
pub(crate) fn submitter(comment: Option<&String>) -> Submitter {
    let names = ["SUDO_USER", "LOGNAME", "USER"];
    Submitter {
        author: names.iter().find_map(|name| std::env::var(name).ok()),
        source: Some("command line".to_owned()),
        comment: comment.cloned(),
        ..Submitter::default()
    }
}

/// Returns a value as TOML. Text that is not a value, such as a bare word, becomes a string.
fn toml_value(text: &str) -> String {
    match format!("value = {text}\n").parse::<toml::Table>() {
        Ok(table) if table.len() == 1 => text.to_owned(),
        _ => toml::Value::String(text.to_owned()).to_string(),
    }
}

fn history_text(reply: &Revisions) -> String {
    let mut lines: Vec<String> =
        reply.revisions.iter().map(|one| revision_text(one, reply.in_force)).collect();
    lines.extend(reply.probation.iter().map(probation_text));
    lines.join("\n")
}

fn revision_text(one: &Revision, in_force: Option<u32>) -> String {
    let mark = if Some(one.number) == in_force { '*' } else { ' ' };
    let mut line = format!("{mark} {:>5}  {}, {}", one.number, ago(Some(one.at)), one.origin);
    if let Some(author) = &one.author {
        line += &format!(" by {author}");
    }
    if let Some(source) = &one.source {
        line += &format!(" ({source})");
    }
    match &one.comment {
        Some(comment) => format!("{line}: {}", comment.lines().next().unwrap_or_default()),
        None => line,
    }
}

fn probation_text(one: &OnProbation) -> String {
    format!(
        "revision {} is on probation: run `avocet config confirm` within {}, or revision {} comes \
         back",
        one.revision,
        span(one.left_secs),
        one.fallback
    )
}

fn difference_text(reply: &RevisionDifference) -> String {
    reply.text.trim_end().to_owned()
}

fn checked_text(reply: &CheckedChange) -> String {
    let warnings = reply.warnings.iter().map(|warning| format!("warning: {warning}"));
    let text = match reply.text.trim_end() {
        "" => "nothing changes",
        text => text,
    };
    std::iter::once(text.to_owned()).chain(warnings).collect::<Vec<_>>().join("\n")
}

fn accepted_text(reply: &RevisionAccepted) -> String {
    let mut lines = vec![format!("revision {}", reply.revision), reload_text(&reply.reloaded)];
    lines.extend(reply.probation.iter().map(probation_text));
    lines.join("\n")
}

fn confirmed_text(reply: &RevisionConfirmed) -> String {
    format!("revision {} is confirmed", reply.revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_words_become_strings_and_values_stay() {
        for value in ["60", "true", "\"a b\"", "[\"a\", 'b']", "{ name = \"x\" }"] {
            assert_eq!(toml_value(value), value);
        }
        assert_eq!(toml_value("nxdomain"), "\"nxdomain\"");
        assert_eq!(toml_value("1\nx = 2"), "\"\"\"\n1\nx = 2\"\"\"");
    }
}
