//! The command line of `avocet load`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::{Depth, Deviation};
use crate::drive::{Carrier, Connections};
use crate::units;

/// A scenario: the kind of queries that the generator sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Scenario {
    /// Names that the server has in its cache, because the generator queries each once before the
    /// run
    Hit,
    /// Names that were never queried before, or each name of --names once
    Miss,
    /// Popular and rare names by Zipf's law, and some names that were never queried before
    Mixed,
    /// Names that do not exist, and that the server has in its cache
    Nxdomain,
    /// Each name, once for each of 16 types
    Types,
    /// Records that do not fit into a UDP response: each query is repeated over TCP
    Large,
    /// Names that the server filters
    Blocked,
    /// Damaged packets, and at the same time valid queries that the server must answer
    Malformed,
    /// Random subdomains as in an attack, and at the same time queries of normal clients
    Flood,
    /// All kinds of queries at once, with a search for the highest rate
    Extreme,
    /// Like mixed, for a minute or longer; fails if the memory or the latency of the server grows
    Endurance,
    /// The queries of a file in order, or of a recording (pcap or dnstap) with its times and
    /// clients
    Replay,
}

/// Arguments of `avocet load`.
#[derive(Clone, Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Without --rate, the loop is closed: --window queries are in flight. With \
                  --rate, the loop is open: latency counts from the time at which a query was \
                  due. See docs/manual/load.md."
)]
pub struct LoadArgs {
    /// The server: an address or a host name, with :PORT if it is not 53. tls://SERVER or
    /// tls://NAME@SERVER uses TLS, and quic:// uses QUIC (default port 853). https://SERVER or
    /// https://NAME@SERVER/PATH uses HTTP/2, and h3:// uses HTTP/3 (default port 443, path
    /// /dns-query)
    #[arg(value_name = "SERVER[:PORT]", required_unless_present = "json_schema")]
    pub server: Option<String>,
    /// Kind of the queries
    #[arg(long, value_enum, default_value = "hit")]
    pub scenario: Scenario,
    /// Transport of the queries
    #[arg(long, value_enum, default_value = "udp")]
    pub transport: Carrier,
    /// How long clients keep a TCP, TLS or QUIC connection
    #[arg(long, value_enum, value_name = "KIND", default_value = "kept")]
    pub connections: Connections,
    /// For encrypted transports: accept certificates of the authorities in this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// For encrypted transports: accept any certificate
    #[arg(long)]
    pub insecure: bool,
    /// Send this number of queries per second, whatever the server does (open loop)
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with = "window"
    )]
    pub rate: Option<u32>,
    /// Number of queries in flight without --rate (closed loop) [default: 100; for connections of
    /// one query: the number of clients]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub window: Option<u32>,
    /// Search for the highest rate that stays within --max-loss and --max-p99, from --rate or 1000
    /// on
    #[arg(long, conflicts_with = "window")]
    pub ramp: bool,
    /// Fail if more than this share of the queries is lost, such as 1% [default: 1%; with --ramp:
    /// 0.1%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub max_loss: Option<f64>,
    /// Fail if the 99th percentile of latency is above this time, such as 10ms [default: no limit;
    /// with --ramp: 10ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub max_p99: Option<Duration>,
    /// Number of clients, each with its own socket or connection [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub clients: Option<u32>,
    /// Prefix of the client addresses, which needs a local route [default: 127.1.0.0/16 for a
    /// server on IPv4 loopback]
    #[arg(long, value_name = "PREFIX")]
    pub source: Option<IpNet>,
    /// Duration of the run, such as 10s [default: 10s; for endurance: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Duration>,
    /// Maximum number of queries in the run
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        default_value = "100000000"
    )]
    pub count: u64,
    /// How long to wait for a response; after this time, the query is lost
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "2s")]
    pub timeout: Duration,
    /// File with the queries, one per line: `NAME TYPE`. For replay, also a pcap or dnstap file
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// Zone for generated names www0, www1 and so on, and for names that were never queried before
    #[arg(long, value_name = "ZONE", conflicts_with = "names")]
    pub zone_name: Option<String>,
    /// Number of names to generate or to take from the zone file [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    pub population: Option<u32>,
    /// Master file: check responses against its records. Also the source of names, if no other
    /// option names one
    #[arg(long, value_name = "FILE")]
    pub zone_file: Option<PathBuf>,
    /// Check responses against those of this server, which the generator queries before the run
    #[arg(long, value_name = "SERVER[:PORT]", conflicts_with = "zone_file")]
    pub reference: Option<String>,
    /// How deeply to check responses [default: question; with --zone-file or --reference: answer]
    #[arg(long, value_enum, value_name = "DEPTH")]
    pub check: Option<Depth>,
    /// RCODEs that are right, such as NOERROR,NXDOMAIN [default: those of the scenario]
    #[arg(long, value_name = "RCODES", value_delimiter = ',')]
    pub expect: Vec<String>,
    /// Deviations of responses that are no faults, in addition to those that the scenario expects
    #[arg(long, value_enum, value_name = "KINDS", value_delimiter = ',')]
    pub allow: Vec<Deviation>,
    /// Exponent of Zipf's law for the scenario mixed: a higher value makes popular names more
    /// frequent
    #[arg(long, value_name = "S", default_value = "1.0")]
    pub zipf: f64,
    /// Share of names that were never queried before [default: 5% for mixed, 90% for flood]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub miss_share: Option<f64>,
    /// Add an OPT record with this UDP size in octets to each query
    #[arg(long, value_name = "SIZE", value_parser = clap::value_parser!(u16).range(512..=4096))]
    pub edns: Option<u16>,
    /// Request DNSSEC records (DO); adds an OPT record with the size 1232 if there is no --edns
    #[arg(long)]
    pub dnssec: bool,
    /// Seed of all random choices: the same seed gives the same queries
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Process ID of the server, to report its CPU time and memory [default for endurance: the
    /// process that listens at the address, if it is on this host]
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Write the results as JSON to a file; `-` writes them to standard output instead of the text
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Write the results to this file as an HTML page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Fail if this run is worse than the earlier runs in these JSON files
    #[arg(long, value_name = "FILE")]
    pub baseline: Vec<PathBuf>,
    /// The limits beyond which a figure counts as worse.
    #[command(flatten)]
    pub limits: RegressionArgs,
    /// Confirm that you may send load to a server at a public address, because it is yours
    #[arg(long)]
    pub i_own_this_server: bool,
    /// Show no progress on standard error
    #[arg(long)]
    pub quiet: bool,
    /// Print the JSON schema of the results, and exit
    #[arg(long)]
    pub json_schema: bool,
    /// A task other than a run.
    #[command(subcommand)]
    pub task: Option<Task>,
}

/// The tasks other than a run.
#[derive(Clone, Debug, Subcommand)]
pub enum Task {
    /// Compare runs from their JSON files; exits with 1 if a run is worse than the earlier ones
    Compare(CompareArgs),
}

/// The limits beyond which a figure of a run counts as worse than in earlier runs.
#[derive(Clone, Copy, Debug, Args)]
pub struct RegressionArgs {
    /// Share by which CPU time or rate may be worse, such as 3% [default: 3%; with fewer than three
    /// runs on a side: 10%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub max_regression: Option<f64>,
    /// Share by which latency may be worse, such as 15% [default: 15%; with fewer than three runs
    /// on a side, latency counts only if this option is given]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub max_latency_regression: Option<f64>,
}

/// Arguments of `avocet load compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// JSON files of the earlier runs. Without --with, each run is compared with the first one
    #[arg(required = true, num_args = 1.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// JSON files of the later runs. The medians of the earlier and the later runs are compared
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub with: Vec<PathBuf>,
    /// The limits beyond which a figure counts as worse.
    #[command(flatten)]
    pub limits: RegressionArgs,
    /// Write the comparison to this file as an HTML page, with all runs in each chart
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
