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
    /// Suspend validation of a name and the names below it; removes cached data of these names
    Add {
        /// The name, which includes all names below it
        name: String,
        /// Duration: a number with s, m, h, d or w, such as 90s or 2h; at most one week
        #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = lifetime)]
        lifetime: Duration,
    },
    /// End a negative trust anchor, so that its name is validated again
    Remove {
        /// Name of the negative trust anchor
        name: String,
    },
    /// List the negative trust anchors: names without validation, and when each ends
    List,
}

/// Parses the lifetime of a negative trust anchor.
fn lifetime(text: &str) -> Result<Duration, CommandError> {
    let time = parse_duration(text);
    let time = time.filter(|time| (1..=MAX_LIFETIME_SECS).contains(&time.as_secs()));
    time.ok_or(CommandError::NotALifetime)
}
