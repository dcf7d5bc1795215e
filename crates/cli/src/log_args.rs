//! The arguments of `avocet log`.

use std::path::PathBuf;

use avocet_control::statistics::RankingKind;
use clap::{Args, Subcommand, ValueEnum};

use crate::control_args::ControlArgs;

/// Arguments of `avocet log`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: LogCommand,
    /// Connection to the running server.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// The commands of `avocet log`.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Show each query as it is answered
    Tail(LogTailArgs),
    /// Search the files of the log, the latest queries first
    Search(LogSearchArgs),
    /// Write queries from the files of the log as CSV, JSON or Parquet, the latest first
    Export(LogExportArgs),
    /// Compare all files of the log with their checksums, and name those that are damaged
    Verify,
    /// Show the most frequent names, clients, rules, lists or upstreams
    Top(LogTopArgs),
    /// Show counts, outcomes, times to answer and the present rates
    Stats(LogStatsArgs),
    /// Show when each client sent its first and its latest query
    Clients(LogClientsArgs),
    /// Delete queries from the log; shows how many, and asks before
    Prune(LogPruneArgs),
}

/// The filter for the queries of a command; by default all queries.
#[derive(Debug, Default, Clone, PartialEq, Eq, Args)]
pub(crate) struct LogFilterArgs {
    /// Only this QNAME
    #[arg(long, value_name = "NAME", conflicts_with = "under")]
    pub(crate) name: Option<String>,
    /// Only this name and the names below it
    #[arg(long, value_name = "NAME")]
    pub(crate) under: Option<String>,
    /// Only names that have this text somewhere
    #[arg(long, value_name = "TEXT")]
    pub(crate) contains: Option<String>,
    /// Only this client: its address, or its name
    #[arg(long, value_name = "ADDRESS|NAME")]
    pub(crate) client: Option<String>,
    /// Only clients of this group
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// Only this QTYPE
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) rtype: Option<String>,
    /// Only this RCODE, such as NXDOMAIN
    #[arg(long, value_name = "RCODE")]
    pub(crate) rcode: Option<String>,
    /// Only queries with this outcome, such as blocked or packet-hit
    #[arg(long, value_name = "OUTCOME")]
    pub(crate) outcome: Option<String>,
    /// Only queries that this rule decided
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Option<String>,
    /// Only queries for names that this list has
    #[arg(long, value_name = "NAME")]
    pub(crate) list: Option<String>,
    /// Only answers of this upstream
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) upstream: Option<String>,
    /// Only queries from this time on: "2026-11-22 21:30" in the time zone of the policy, Unix
    /// seconds, or a duration before now such as 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Only queries before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
}

/// Arguments of `avocet log tail`.
#[derive(Debug, Args)]
pub(crate) struct LogTailArgs {
    #[command(flatten)]
    pub(crate) filter: LogFilterArgs,
}

/// Arguments of `avocet log search`.
#[derive(Debug, Args)]
pub(crate) struct LogSearchArgs {
    #[command(flatten)]
    pub(crate) filter: LogFilterArgs,
    /// Maximum number of queries to show
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub(crate) limit: u64,
    /// Only print the number of queries
    #[arg(long)]
    pub(crate) count: bool,
}

/// Arguments of `avocet log export`.
#[derive(Debug, Args)]
pub(crate) struct LogExportArgs {
    #[command(flatten)]
    pub(crate) filter: LogFilterArgs,
    /// The format
    #[arg(long, value_enum, default_value_t = LogFormat::Json)]
    pub(crate) format: LogFormat,
    /// File to create [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Comma-separated values with a header line (RFC 4180)
    Csv,
    /// One JSON object per line
    Json,
    /// A Parquet file with the columns of the log, the oldest query first
    Parquet,
}

/// The time that an overview covers.
#[derive(Debug, Default, Clone, Args)]
pub(crate) struct LogSpanArgs {
    /// From this time on, in whole hours or days: a date and time of day, Unix seconds, or a
    /// duration before now such as 2h [default: 24h]
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Before this time [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
}

/// Arguments of `avocet log top`.
#[derive(Debug, Args)]
pub(crate) struct LogTopArgs {
    /// Property whose values are counted
    #[arg(value_enum, default_value_t = LogTop::Names)]
    pub(crate) of: LogTop,
    #[command(flatten)]
    pub(crate) filter: LogFilterArgs,
    /// Maximum number of lines, up to 100
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) limit: u64,
}

/// Arguments of `avocet log clients`.
#[derive(Debug, Args)]
pub(crate) struct LogClientsArgs {
    /// Only this client: its address, or its name
    #[arg(value_name = "ADDRESS|NAME")]
    pub(crate) client: Option<String>,
    /// Maximum number of lines, up to 4096
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) limit: u64,
}

/// The properties whose values `avocet log top` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogTop {
    /// QNAMEs
    Names,
    /// QNAMEs of blocked queries
    BlockedNames,
    /// Addresses of clients
    Clients,
    /// Addresses of clients whose queries were blocked
    BlockedClients,
    /// Rules that decided
    Rules,
    /// Lists that have the name of the query
    Lists,
    /// Lists that are the only ones with the name of a blocked query
    LoneLists,
    /// Upstreams that answered
    Upstreams,
    /// QTYPEs
    Types,
    /// RCODEs
    Rcodes,
}

impl LogTop {
    /// Returns the ranking.
    pub(crate) fn kind(self) -> RankingKind {
        match self {
            Self::Names => RankingKind::Names,
            Self::BlockedNames => RankingKind::BlockedNames,
            Self::Clients => RankingKind::Clients,
            Self::BlockedClients => RankingKind::BlockedClients,
            Self::Rules => RankingKind::Rules,
            Self::Lists => RankingKind::Lists,
            Self::LoneLists => RankingKind::LoneLists,
            Self::Upstreams => RankingKind::Upstreams,
            Self::Types => RankingKind::Types,
            Self::Rcodes => RankingKind::Rcodes,
        }
    }
}

/// Arguments of `avocet log stats`.
#[derive(Debug, Args)]
pub(crate) struct LogStatsArgs {
    #[command(flatten)]
    pub(crate) span: LogSpanArgs,
}

/// Arguments of `avocet log prune`.
#[derive(Debug, Args)]
pub(crate) struct LogPruneArgs {
    #[command(flatten)]
    pub(crate) filter: LogFilterArgs,
    /// All queries
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}
