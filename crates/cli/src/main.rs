//! The command line of Avocet: one module per command.
//!
//! `serve` runs the server. `status`, `why` and others send requests to the running server over its
//! control socket (`running`). `check`, `connect`, `import`, `config show`, `policy check` and
//! `policy test` only read and write files, and so do `log search`, `log export` and `log verify`.

#![forbid(unsafe_code)]

mod access;
mod api_call;
mod args;
mod backup;
mod call;
mod certificate;
mod check;
mod connect;
mod control_args;
#[cfg(test)]
mod coverage;
mod dry_run;
mod dry_run_args;
mod dry_run_log;
mod dry_run_running;
mod dry_run_tap;
mod dump;
mod error;
mod import;
mod lists;
mod load_text;
mod log;
mod log_args;
mod log_files;
mod log_filter;
mod log_overview;
mod log_prune;
mod log_text;
mod nta_args;
mod output;
mod pages;
mod password;
mod past;
mod policy;
mod policy_commands;
mod pool_text;
mod query;
mod requests;
mod revisions;
mod running;
mod session;
mod span;
mod state;
mod switches;
mod top;
mod top_feed;
mod top_screen;
mod top_view;
mod trust;
mod why;
mod zone;
mod zone_diff;
mod zone_edit;
mod zone_text;

use std::process::ExitCode;

use avocet_server::Start;
use clap::Parser;

use args::{Cli, Command};
use error::CommandError;

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        avocet_server::write_last_line(&output::lines(&format!("avocet: {error}")));
        ExitCode::FAILURE
    })
}

/// Runs the command and returns its exit status.
///
/// # Errors
/// The server does not start, or the command fails.
fn run() -> Result<ExitCode, CommandError> {
    match Cli::parse().command {
        Command::Serve(args) => {
            let start = Start { file: args.file.find(), take_over: args.take_over };
            avocet_server::run(start)?;
            avocet_server::drain_log();
            Ok(ExitCode::SUCCESS)
        }
        Command::Call(args) => Ok(api_call::run(&args)),
        Command::Connect(args) => connect::run(&args),
        Command::Check(args) => Ok(check::check(&args)),
        Command::Load(args) => Ok(avocet_load::run(&args)),
        Command::Config(args) => Ok(check::show(&args)),
        Command::Import(args) => import::run(&args),
        Command::Query(args) => Ok(query::run(&args)),
        Command::Cache(args) => Ok(running::cache(&args)),
        Command::Lists(args) => Ok(running::lists(&args)),
        Command::Policy(args) => Ok(policy_commands::run(&args)),
        Command::Pause(args) => Ok(running::pause(&args)),
        Command::Grant(args) => Ok(running::grant(&args)),
        Command::Requests(args) => Ok(requests::requests(&args)),
        Command::Why(args) => Ok(running::why(&args)),
        Command::Anchors(args) => Ok(running::anchors(&args)),
        Command::Nta(args) => Ok(running::nta(&args)),
        Command::Log(args) => Ok(log::run(&args)),
        Command::Reload(args) => Ok(running::reload(&args)),
        Command::Status(args) => Ok(running::status(&args)),
        Command::Backup(args) => Ok(backup::make(&args)),
        Command::Restore(args) => Ok(backup::restore(&args)),
        Command::User(args) => Ok(running::user(&args)),
        Command::Token(args) => Ok(running::token(&args)),
        Command::Session(args) => Ok(session::session(&args)),
        Command::Top(args) => Ok(top::run(&args)),
        Command::Certificate(args) => Ok(certificate::run_command(&args)),
        Command::Zone(args) => zone::run(&args),
        Command::Completions { shell } => pages::completions(shell),
        Command::ManPages { directory } => pages::manual(&directory),
    }
}
