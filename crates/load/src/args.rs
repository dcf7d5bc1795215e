//! The command line of `avocet load`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Depth;
use crate::drive::Carrier;
use crate::units;

/// What the queries are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Scenario {
    /// Names that are in the cache: each is asked once before the clock starts
    Hit,
    /// Names that nobody asked before
    Miss,
    /// Popular and rare names by Zipf's law, and between them ones never asked before
    Mixed,
    /// Names that do not exist
    Nxdomain,
    /// Names for many types of records
    Types,
    /// Answers that are truncated and asked again over TCP
    Large,
    /// Names that the server filters
    Blocked,
    /// Damaged packets, and between them whole queries that must be answered
    Malformed,
    /// Random subdomains beside normal clients: what do those get?
    Flood,
    /// All of it at once, ever more of it
    Extreme,
    /// Mixed, and a look at how memory and latency drift
    Endurance,
    /// A query file in its order, or a recording (pcap) with its times and clients
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
    /// The server: an address or a host name; the port is 53 where none is given
    #[arg(value_name = "SERVER[:PORT]", required_unless_present = "json_schema")]
    pub server: Option<String>,
    /// What is asked
    #[arg(long, value_enum, default_value = "hit")]
    pub scenario: Scenario,
    /// How it is asked
    #[arg(long, value_enum, default_value = "udp")]
    pub transport: Carrier,
    /// Open loop: so many queries a second, however the server does
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "window")]
    pub rate: Option<u32>,
    /// Closed loop: so many queries in flight (100)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub window: Option<u32>,
    /// Search for the highest rate that keeps to --max-loss and --max-p99, from --rate or 1000 on
    #[arg(long, conflicts_with = "window")]
    pub ramp: bool,
    /// Fail when a larger share of the queries is lost [with --ramp: 0.1%]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub max_loss: Option<f64>,
    /// Fail when the 99th percentile of latency is above this [with --ramp: 10ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub max_p99: Option<Duration>,
    /// Clients, each with a socket or a connection of its own (16)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub clients: Option<u32>,
    /// Addresses that the clients have; a loopback server sees 127.1.0.0/16 without this
    #[arg(long, value_name = "PREFIX")]
    pub source: Option<IpNet>,
    /// How long to ask [10s; endurance: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Duration>,
    /// How many queries to ask at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), default_value = "100000000")]
    pub count: u64,
    /// Give up an answer after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "2s")]
    pub timeout: Duration,
    /// Queries to ask: lines `NAME TYPE`; for replay also a pcap file
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// Zone whose names are made up: www0, www1 and so on
    #[arg(long, value_name = "ZONE", conflicts_with = "names")]
    pub zone_name: Option<String>,
    /// How many names are made up or taken from the zone file (10000)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    pub population: Option<u32>,
    /// Check answers against this zone; its names are asked where no others are given
    #[arg(long, value_name = "FILE")]
    pub zone_file: Option<PathBuf>,
    /// Check answers against those of this server
    #[arg(long, value_name = "SERVER[:PORT]", conflicts_with = "zone_file")]
    pub reference: Option<String>,
    /// How deep answers are checked [question; with --zone-file or --reference: answer]
    #[arg(long, value_enum, value_name = "DEPTH")]
    pub check: Option<Depth>,
    /// RCODEs that are right, such as NOERROR,NXDOMAIN, in place of those of the scenario
    #[arg(long, value_name = "RCODES", value_delimiter = ',')]
    pub expect: Vec<String>,
    /// Skew of Zipf's law
    #[arg(long, value_name = "S", default_value = "1.0")]
    pub zipf: f64,
    /// Share of names never asked before: of mixed [5%], of flood (90%)
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub miss_share: Option<f64>,
    /// Send OPT with this UDP size
    #[arg(long, value_name = "SIZE", value_parser = clap::value_parser!(u16).range(512..=4096))]
    pub edns: Option<u16>,
    /// Ask for DNSSEC records (DO); implies --edns 1232
    #[arg(long)]
    pub dnssec: bool,
    /// Seed of all chance: the same seed asks the same
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Process of the server: its CPU time and memory are reported
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Write the results as JSON to a file, or to standard output in place of the text (-)
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Write a report with pictures
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Compare with the results of an earlier run, and fail if this one is worse
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// What counts as worse
    #[arg(long, value_name = "SHARE", value_parser = units::share, default_value = "5%")]
    pub max_regression: f64,
    /// Drive a server on a public address
    #[arg(long)]
    pub i_own_this_server: bool,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
    /// Write the schema of the JSON results
    #[arg(long)]
    pub json_schema: bool,
    /// Another task than driving a server.
    #[command(subcommand)]
    pub task: Option<Task>,
}

/// What else can be done.
#[derive(Clone, Debug, Subcommand)]
pub enum Task {
    /// Compare runs with the first one; exits with 1 if one of them is worse
    Compare(CompareArgs),
}

/// Arguments of `avocet load compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Results as written by --json; the first one is what the others are held to
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What counts as worse
    #[arg(long, value_name = "SHARE", value_parser = units::share, default_value = "5%")]
    pub max_regression: f64,
    /// Write a report with all runs in each picture
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
