//! Avocet, the DNS server of a network.

#![forbid(unsafe_code)]

mod cli;
mod clock;
mod config;
mod http;
mod log;
mod metrics;
mod operate;
mod query;
mod query_tool;
mod serve;
mod snapshot;
mod state;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => match serve::run(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("avocet: {error}");
                ExitCode::FAILURE
            }
        },
        Command::Check(args) => config::command::check(&args),
        Command::Load(args) => avocet_load::run(&args),
        Command::Config(args) => config::command::show(&args),
        Command::Query(args) => query_tool::run(&args),
        Command::Cache(args) => operate::command::cache(&args),
        Command::Reload(args) => operate::command::reload(&args),
    }
}
