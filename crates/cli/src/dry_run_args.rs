//! The arguments of `avocet policy dry-run`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `avocet policy dry-run`.
#[derive(Debug, Args)]
pub(crate) struct PolicyDryRunArgs {
    /// Configuration file with the changes to try
    #[arg(value_name = "NEW.toml")]
    pub(crate) new: PathBuf,
    /// Take the queries from a text file, one per line: `[CLIENT] NAME [TYPE] [ADDRESS ...]`, with
    /// the addresses of the answer at the end
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present_any = ["from_log", "dnstap", "running"]
    )]
    pub(crate) queries: Option<PathBuf>,
    /// Take the queries from a file with dnstap messages (Frame Streams)
    #[arg(long, value_name = "FILE", conflicts_with = "queries")]
    pub(crate) dnstap: Option<PathBuf>,
    /// Take the queries from the query log of the current configuration
    #[arg(long, conflicts_with_all = ["queries", "dnstap"])]
    pub(crate) from_log: bool,
    /// Let the running server do the comparison, with the queries in its log and its policy in
    /// force
    #[arg(long, conflicts_with_all = ["queries", "dnstap", "from_log"])]
    pub(crate) running: bool,
    /// Only logged queries from this time on: "2026-11-22 21:30" in the time zone of the policy,
    /// Unix seconds, or a duration before now such as 2h
    #[arg(long, value_name = "TIME", conflicts_with_all = ["queries", "dnstap"])]
    pub(crate) from: Option<String>,
    /// Only logged queries before this time, in the same forms as --from
    #[arg(long, value_name = "TIME", conflicts_with_all = ["queries", "dnstap"])]
    pub(crate) to: Option<String>,
    /// Let log-only rules of the new configuration act as if they were not log-only
    #[arg(long)]
    pub(crate) enforce_log_only: bool,
    /// The current configuration file [default: the file that AVOCET_CONFIG names, or
    /// /etc/avocet/avocet.toml if it exists]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
