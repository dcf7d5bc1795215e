//! Avocet, the DNS server of a network: all of the binary `avocet`, which only calls [`run`].
//!
//! The query path is the crate `avocet_nameserver`; this crate has the sockets, the threads and the
//! operation of the server.

#![forbid(unsafe_code)]

mod check;
mod cli;
mod cli_pages;
mod connections;
mod dry_run;
mod http;
mod import;
mod lists;
mod log;
mod mailbox;
mod operate;
mod output;
mod policy_command;
mod query_tool;
mod resolver_report;
mod root;
mod serve;
mod state;
mod stub_client;
mod trust;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

/// Writes the last line of a process to standard error, behind those of its log. Waits a second at
/// most for what reads them.
pub fn write_last_line(line: &str) {
    log::write_last_line(line);
}

/// Does what the command line says, and gives the status to end with.
///
/// # Errors
/// Why the server did not start.
pub fn run() -> Result<ExitCode, String> {
    match Cli::parse().command {
        Command::Serve(args) => {
            serve::run(&args).map_err(|error| error.to_string())?;
            log::drain();
            Ok(ExitCode::SUCCESS)
        }
        Command::Check(args) => Ok(check::check(&args)),
        Command::Load(args) => Ok(avocet_load::run(&args)),
        Command::Config(args) => Ok(check::show(&args)),
        Command::Import(args) => import::run(&args),
        Command::Query(args) => Ok(query_tool::run(&args)),
        Command::Cache(args) => Ok(operate::command::cache(&args)),
        Command::Lists(args) => Ok(operate::command::lists(&args)),
        Command::Policy(args) => Ok(policy_command::run(&args)),
        Command::Pause(args) => Ok(operate::command::pause(&args)),
        Command::Grant(args) => Ok(operate::command::grant(&args)),
        Command::Why(args) => Ok(operate::command::why(&args)),
        Command::Anchors(args) => Ok(operate::command::anchors(&args)),
        Command::Nta(args) => Ok(operate::command::nta(&args)),
        Command::Reload(args) => Ok(operate::command::reload(&args)),
        Command::Status(args) => Ok(operate::command::status(&args)),
        Command::Completions { shell } => cli_pages::completions(shell),
        Command::ManPages { directory } => cli_pages::manual(&directory),
    }
}
