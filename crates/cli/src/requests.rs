//! `avocet requests`: the requests of clients on the block page.

use std::process::ExitCode;

use avocet_control::access_request::{
    AccessRequest, RequestGrant, RequestList, RequestRefuse, RequestRefused, RequestsReport,
};
use clap::{Args, Subcommand};

use crate::call::{View, run};
use crate::control_args::ControlArgs;
use crate::span::ago;
use crate::switches;

/// Arguments of `avocet requests`.
#[derive(Debug, Args)]
pub(crate) struct RequestsArgs {
    /// The command
    #[command(subcommand)]
    command: RequestsCommand,
}

/// The commands of `avocet requests`.
#[derive(Debug, Subcommand)]
enum RequestsCommand {
    /// List the requests for access that wait for an answer
    List {
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Allow the name of a request for its client for a while
    Grant {
        /// ID of the request, as `avocet requests list` shows it
        id: u32,
        /// Duration of the grant in minutes: 15, 45 or 120
        #[arg(
            long = "for",
            value_name = "MINUTES",
            default_value = "15",
            value_parser = ["15", "45", "120"]
        )]
        minutes: String,
        #[command(flatten)]
        control: ControlArgs,
    },
    /// Refuse a request, so that the name stays blocked
    Refuse {
        /// ID of the request, as `avocet requests list` shows it
        id: u32,
        #[command(flatten)]
        control: ControlArgs,
    },
}

/// Runs `avocet requests`.
pub(crate) fn requests(args: &RequestsArgs) -> ExitCode {
    match &args.command {
        RequestsCommand::List { control } => {
            run(control, RequestList::default(), &View::of(list_text))
        }
        RequestsCommand::Grant { id, minutes, control } => {
            // The argument parser admits only numbers.
            let minutes = minutes.parse().unwrap_or_default();
            let request = RequestGrant { id: *id, minutes, group: None };
            run(control, request, &View::of_change(switches::changed_text, switches::done))
        }
        RequestsCommand::Refuse { id, control } => {
            let request = RequestRefuse { id: *id, group: None };
            run(control, request, &View::of(refused_text))
        }
    }
}

fn list_text(report: &RequestsReport) -> String {
    if report.requests.is_empty() {
        return "no requests wait".to_owned();
    }
    report.requests.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn refused_text(reply: &RequestRefused) -> String {
    format!("refused: {}", text(&reply.request))
}

fn text(request: &AccessRequest) -> String {
    let AccessRequest { id, name, client, client_name, text, at } = request;
    let client = match client_name {
        Some(name) => format!("{name} ({client})"),
        None => client.to_string(),
    };
    let said = if text.is_empty() { String::new() } else { format!(": {text:?}") };
    format!("{id} {name} for {client}, {}{said}", ago(Some(*at)))
}
