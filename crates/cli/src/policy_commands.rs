//! The commands under `avocet policy`.

use std::process::ExitCode;

use avocet_policy::rule;

use crate::args::{PolicyArgs, PolicyCommand};
use crate::{dry_run, dry_run_running, output, policy, running};

/// Runs `avocet policy`.
pub(crate) fn run(args: &PolicyArgs) -> ExitCode {
    let done = match &args.command {
        PolicyCommand::Status(args) => return running::policy_status(args),
        PolicyCommand::Check(args) => policy::check(args),
        PolicyCommand::Test(args) => policy::test(args),
        PolicyCommand::DryRun(args) if args.running => return dry_run_running::run(args),
        PolicyCommand::DryRun(args) => dry_run::run(args),
        PolicyCommand::Services => {
            Ok(rule::service_names().map(|name| format!("{name}\n")).collect())
        }
    };
    match done {
        Ok(text) => match output::write(&text) {
            Ok(_) => ExitCode::SUCCESS,
            Err(message) => {
                output::note(&format!("avocet: {message}"));
                ExitCode::FAILURE
            }
        },
        Err(message) => {
            output::note(&format!("avocet: {message}"));
            ExitCode::FAILURE
        }
    }
}
