//! The arguments of `avocet nta`.

use std::time::Duration;

use avocet_config::policy::parse_duration;
use avocet_server::MAX_LIFETIME_SECS;
use clap::{Args, Subcommand};

use crate::control_args::ControlArgs;
use crate::error::CommandError;

/// Arguments of `avocet nta`.
#[derive(Debug, Args)]
pub(crate) struct NtaArgs {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: NtaCommand,
    /// Connection to the running server.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// The commands under `avocet nta`.
#[derive(Debug, Subcommand)]
pub(crate) enum NtaCommand {
    /// Turn off validation at a name and below for a while; removes cached data there
    Add {
        /// The name
        name: String,
        /// Duration: a number with s, m, h, d or w; at most a week
        #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = lifetime)]
        lifetime: Duration,
    },
    /// Turn validation on again for a name
    Remove {
        /// The name
        name: String,
    },
    /// Show all names without validation, and until when
    List,
}

/// Parses the lifetime of a negative trust anchor.
fn lifetime(text: &str) -> Result<Duration, CommandError> {
    let time = parse_duration(text);
    let time = time.filter(|time| (1..=MAX_LIFETIME_SECS).contains(&time.as_secs()));
    time.ok_or(CommandError::NotALifetime)
}
