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
    /// Show each new query when it is answered, until the command is interrupted
    Tail(LogTailArgs),
    /// Show queries from the files of the log, the latest first
    Search(LogSearchArgs),
    /// Write queries from the files of the log as JSON, CSV or Parquet
    Export(LogExportArgs),
    /// Compare all files of the log with their checksums, and name damaged files
    Verify,
    /// Show the most frequent names, clients, rules, lists, upstreams, types or RCODEs
    Top(LogTopArgs),
    /// Show the number of queries by outcome, the times to answer, and the present rates
    Stats(LogStatsArgs),
    /// Show when each client sent its first and its latest query
    Clients(LogClientsArgs),
    /// Delete queries from the log; the command shows their number, and asks for confirmation
    Prune(LogPruneArgs),
}

/// A filter that selects logged queries. By default, it selects all queries.
#[derive(Debug, Default, Clone, PartialEq, Eq, Args)]
pub(crate) struct LogFilterArgs {
    /// Only queries for this name
    #[arg(long, value_name = "NAME", conflicts_with = "under")]
    pub(crate) name: Option<String>,
    /// Only queries for this name and the names below it
    #[arg(long, value_name = "NAME")]
    pub(crate) under: Option<String>,
    /// Only queries for names that contain this text, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    pub(crate) contains: Option<String>,
    /// Only queries of this client: an address, a network such as 192.168.7.0/24, or a name
    #[arg(long, value_name = "ADDRESS|NAME")]
    pub(crate) client: Option<String>,
    /// Only queries of clients in this group
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// Only queries for this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) rtype: Option<String>,
    /// Only queries with this RCODE in the response, such as NXDOMAIN
    #[arg(long, value_name = "RCODE")]
    pub(crate) rcode: Option<String>,
    /// Only queries with this outcome: a stage such as packet-hit, or a kind such as answered or
    /// blocked
    #[arg(long, value_name = "OUTCOME")]
    pub(crate) outcome: Option<String>,
    /// Only queries that this rule decided
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Option<String>,
    /// Only queries that match an entry of this list
    #[arg(long, value_name = "NAME")]
    pub(crate) list: Option<String>,
    /// Only queries that this upstream answered: an address, with the port if it is not 53; also
    /// tls://, quic://, https:// or h3:// before the address, with their default ports
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) upstream: Option<String>,
    /// Only queries from this time on: "2026-11-22 21:30" in the time zone of the policy, Unix
    /// seconds, or a duration before now such as 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Only queries before this time, in the same forms as --from
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
    /// Print only the number of matching queries, without --limit
    #[arg(long)]
    pub(crate) count: bool,
}

/// Arguments of `avocet log export`.
#[derive(Debug, Args)]
pub(crate) struct LogExportArgs {
    #[command(flatten)]
    pub(crate) filter: LogFilterArgs,
    /// The format of the output; JSON and CSV have the latest query first
    #[arg(long, value_enum, default_value_t = LogFormat::Json)]
    pub(crate) format: LogFormat,
    /// File to create, which must not exist [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The format of exported queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Comma-separated values with a header line (RFC 4180), the latest query first
    Csv,
    /// One JSON object per line, the latest query first
    Json,
    /// A Parquet file with the columns of the log, the oldest query first
    Parquet,
}

/// The period that statistics cover.
#[derive(Debug, Default, Clone, Args)]
pub(crate) struct LogSpanArgs {
    /// Begin of the period, rounded down to an hour or a day: "2026-11-22 21:30" in the time zone
    /// of the policy, Unix seconds, or a duration before now such as 2h [default: 24h]
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// End of the period, in the same forms as --from [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
}

/// Arguments of `avocet log top`.
#[derive(Debug, Args)]
pub(crate) struct LogTopArgs {
    /// What to count
    #[arg(value_enum, default_value_t = LogTop::Names)]
    pub(crate) of: LogTop,
    #[command(flatten)]
    pub(crate) filter: LogFilterArgs,
    /// Maximum number of lines to show, 1 to 100
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..=100)
    )]
    pub(crate) limit: u64,
}

/// Arguments of `avocet log clients`.
#[derive(Debug, Args)]
pub(crate) struct LogClientsArgs {
    /// Only this client: its address as the log has it, or the name of its device
    #[arg(value_name = "ADDRESS|NAME")]
    pub(crate) client: Option<String>,
    /// Maximum number of clients to show, 1 to 4096
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(1..=4096)
    )]
    pub(crate) limit: u64,
}

/// The kind of values that `avocet log top` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogTop {
    /// Queried names
    Names,
    /// Queried names of blocked queries
    BlockedNames,
    /// Addresses of clients
    Clients,
    /// Addresses of clients whose queries were blocked
    BlockedClients,
    /// Rules that decided
    Rules,
    /// Lists that contain the queried name
    Lists,
    /// Lists that alone caused a block: the name is on no other list, and no rule decided
    LoneLists,
    /// Upstreams that answered
    Upstreams,
    /// Queried types (QTYPE)
    Types,
    /// RCODEs of responses
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
    /// Delete all queries; required if there is no filter
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}
