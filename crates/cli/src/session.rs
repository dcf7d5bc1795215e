//! `avocet session`: the sessions of users in browsers.

use std::process::ExitCode;

use avocet_control::session::{SessionEnd, SessionEnded, SessionList, SessionsReport, UserSession};
use clap::{Args, Subcommand};

use crate::call::{View, run};
use crate::control_args::ControlArgs;
use crate::span::{ago, left};

/// Arguments of `avocet session`.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// The command
    #[command(subcommand)]
    command: SessionCommand,
    #[command(flatten)]
    control: ControlArgs,
}

/// The commands of `avocet session`.
#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// List the sessions that have not ended, with user, address and times
    List,
    /// End a session, so that its user must log in again
    End {
        /// Identifier of the session, as `avocet session list` shows it
        id: String,
    },
}

/// Runs `avocet session`.
pub(crate) fn session(args: &SessionArgs) -> ExitCode {
    let to = &args.control;
    match &args.command {
        SessionCommand::List => run(to, SessionList {}, &View::of(list_text)),
        SessionCommand::End { id } => run(to, SessionEnd { id: id.clone() }, &View::of(ended_text)),
    }
}

fn list_text(report: &SessionsReport) -> String {
    if report.sessions.is_empty() {
        return "; there are no sessions".to_owned();
    }
    report.sessions.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn text(session: &UserSession) -> String {
    let UserSession { id, user, by_provider, from, began_at, used_at, ends_at } = session;
    let way = if *by_provider { " by the provider" } else { "" };
    let (began, used) = (ago(Some(*began_at)), ago(Some(*used_at)));
    format!("{id} {user}{way} from {from}, began {began}, used {used}, ends in {}", left(*ends_at))
}

fn ended_text(ended: &SessionEnded) -> String {
    format!("ended {} of {}", ended.id, ended.user)
}
