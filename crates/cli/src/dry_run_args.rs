//! The arguments of `avocet policy dry-run`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `avocet policy dry-run`.
#[derive(Debug, Args)]
pub(crate) struct PolicyDryRunArgs {
    /// The new configuration file
    #[arg(value_name = "NEW.toml")]
    pub(crate) new: PathBuf,
    /// Queries, one per line: `[CLIENT] NAME [TYPE] [ADDRESS ...]`, with the addresses of the
    /// answer
    #[arg(long, value_name = "FILE", required_unless_present_any = ["from_log", "dnstap", "running"])]
    pub(crate) queries: Option<PathBuf>,
    /// Use the queries in a file with dnstap messages (frame stream)
    #[arg(long, value_name = "FILE", conflicts_with = "queries")]
    pub(crate) dnstap: Option<PathBuf>,
    /// Use the queries in the query log of the current configuration
    #[arg(long, conflicts_with_all = ["queries", "dnstap"])]
    pub(crate) from_log: bool,
    /// Ask the running server, which uses the queries in its log and its policy in force
    #[arg(long, conflicts_with_all = ["queries", "dnstap", "from_log"])]
    pub(crate) running: bool,
    /// Only logged queries from this time on: "2026-11-22 21:30" in the time zone of the policy,
    /// Unix seconds, or a duration before now such as 2h
    #[arg(long, value_name = "TIME", conflicts_with_all = ["queries", "dnstap"])]
    pub(crate) from: Option<String>,
    /// Only logged queries before this time
    #[arg(long, value_name = "TIME", conflicts_with_all = ["queries", "dnstap"])]
    pub(crate) to: Option<String>,
    /// Treat log-only rules of the new configuration as if they were in force
    #[arg(long)]
    pub(crate) enforce_log_only: bool,
    /// The current configuration [default: that of AVOCET_CONFIG, or /etc/avocet/avocet.toml]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
