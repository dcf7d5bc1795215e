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

/// The kind of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Scenario {
    /// Cached names: each name is queried once before the measurement
    Hit,
    /// Names never queried before
    Miss,
    /// Popular and rare names by Zipf's law, and some never queried before
    Mixed,
    /// Names that do not exist
    Nxdomain,
    /// Names with many record types
    Types,
    /// Truncated answers, repeated over TCP
    Large,
    /// Names that the server filters
    Blocked,
    /// Damaged packets, and valid queries that must be answered
    Malformed,
    /// Random subdomains, with normal clients at the same time, whose service is measured
    Flood,
    /// All kinds of queries at once, with an increasing rate
    Extreme,
    /// Like mixed; also measures the drift of memory and latency
    Endurance,
    /// A query file in order, or a recording (pcap or dnstap) with its times and clients
    Replay,
}

/// Arguments of `avocet load`.
#[derive(Clone, Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Without --rate the loop is closed: --window queries are in flight. With --rate \
                  it is open, and latency counts from the time a query was due. See \
                  docs/manual/load.md."
)]
pub struct LoadArgs {
    /// The server: an address or a host name, followed by a port if it is not 53. For TLS,
    /// tls://SERVER or tls://NAME@SERVER; for QUIC, the same with quic:// (default port 853). For
    /// HTTP/2, https://NAME@SERVER/PATH; for HTTP/3, the same with h3:// (default port 443, path
    /// /dns-query)
    #[arg(value_name = "SERVER[:PORT]", required_unless_present = "json_schema")]
    pub server: Option<String>,
    /// Kind of queries
    #[arg(long, value_enum, default_value = "hit")]
    pub scenario: Scenario,
    /// Transport
    #[arg(long, value_enum, default_value = "udp")]
    pub transport: Carrier,
    /// How long clients keep a connection
    #[arg(long, value_enum, value_name = "KIND", default_value = "kept")]
    pub connections: Connections,
    /// Accept certificates of the authorities in this file (PEM), for encrypted transports
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// Accept any certificate, for encrypted transports
    #[arg(long)]
    pub insecure: bool,
    /// Open loop: queries per second, whatever the server does
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "window")]
    pub rate: Option<u32>,
    /// Closed loop: queries in flight (100)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub window: Option<u32>,
    /// Search for the highest rate within --max-loss and --max-p99, starting at --rate or 1000
    #[arg(long, conflicts_with = "window")]
    pub ramp: bool,
    /// Fail if a larger share of the queries is lost [1%; with --ramp: 0.1%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub max_loss: Option<f64>,
    /// Fail if the 99th percentile of latency is above this [with --ramp: 10ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub max_p99: Option<Duration>,
    /// Clients, each with its own socket or connection (16)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub clients: Option<u32>,
    /// Prefix of the client addresses; without it, a loopback server sees 127.1.0.0/16
    #[arg(long, value_name = "PREFIX")]
    pub source: Option<IpNet>,
    /// Duration of the run [10s; endurance: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Duration>,
    /// Maximum number of queries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), default_value = "100000000")]
    pub count: u64,
    /// How long to wait for a response
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "2s")]
    pub timeout: Duration,
    /// Queries to send: lines `NAME TYPE`; for replay also a pcap or dnstap file
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// Zone for generated names: www0, www1 and so on
    #[arg(long, value_name = "ZONE", conflicts_with = "names")]
    pub zone_name: Option<String>,
    /// Number of names to generate or take from the zone file (10000)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    pub population: Option<u32>,
    /// Check responses against this zone; also the source of names if there is no other
    #[arg(long, value_name = "FILE")]
    pub zone_file: Option<PathBuf>,
    /// Check responses against those of this server
    #[arg(long, value_name = "SERVER[:PORT]", conflicts_with = "zone_file")]
    pub reference: Option<String>,
    /// Depth of the checks [question; with --zone-file or --reference: answer]
    #[arg(long, value_enum, value_name = "DEPTH")]
    pub check: Option<Depth>,
    /// Expected RCODEs, such as NOERROR,NXDOMAIN, instead of those of the scenario
    #[arg(long, value_name = "RCODES", value_delimiter = ',')]
    pub expect: Vec<String>,
    /// Deviations of answers that do not count as faults, in addition to those that the scenario
    /// expects
    #[arg(long, value_enum, value_name = "KINDS", value_delimiter = ',')]
    pub allow: Vec<Deviation>,
    /// Skew of Zipf's law
    #[arg(long, value_name = "S", default_value = "1.0")]
    pub zipf: f64,
    /// Share of names never queried before: mixed [5%], flood [90%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub miss_share: Option<f64>,
    /// Send an OPT record with this UDP size
    #[arg(long, value_name = "SIZE", value_parser = clap::value_parser!(u16).range(512..=4096))]
    pub edns: Option<u16>,
    /// Request DNSSEC records (DO); implies --edns 1232
    #[arg(long)]
    pub dnssec: bool,
    /// Seed of all random choices: the same seed sends the same queries
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Process ID of the server, to report its CPU time and memory [endurance: the process that
    /// listens at the address, if it is on this host]
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Write the results as JSON to a file, or to standard output instead of the text (-)
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Write an HTML report with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Compare with the results of earlier runs, and fail if this run is worse
    #[arg(long, value_name = "FILE")]
    pub baseline: Vec<PathBuf>,
    /// The changes of a figure beyond which it counts as worse.
    #[command(flatten)]
    pub limits: RegressionArgs,
    /// Confirm that the server on a public address is yours
    #[arg(long)]
    pub i_own_this_server: bool,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
    /// Print the schema of the JSON results
    #[arg(long)]
    pub json_schema: bool,
    /// A task other than a run.
    #[command(subcommand)]
    pub task: Option<Task>,
}

/// The other tasks.
#[derive(Clone, Debug, Subcommand)]
pub enum Task {
    /// Compare runs with the first one; exits with 1 if one is worse
    Compare(CompareArgs),
}

/// The changes of a figure beyond which it counts as worse.
#[derive(Clone, Copy, Debug, Args)]
pub struct RegressionArgs {
    /// Difference of CPU time or rate that counts as worse [3%; with fewer than three runs: 10%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub max_regression: Option<f64>,
    /// Difference of latency that counts as worse [15%; with fewer than three runs latency is
    /// judged only with this option]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub max_latency_regression: Option<f64>,
}

/// Arguments of `avocet load compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Result files of --json: with --with, those of the earlier version; otherwise each is
    /// compared with the first
    #[arg(required = true, num_args = 1.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Results of the later version; the medians of both sides are compared
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub with: Vec<PathBuf>,
    /// The changes of a figure beyond which it counts as worse.
    #[command(flatten)]
    pub limits: RegressionArgs,
    /// Write an HTML report with all runs in each chart
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
