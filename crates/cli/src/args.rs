//! The command line: what can be asked of the binary. Doing it is the part of the modules named in
//! each command.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use avocet_config as config;
use avocet_load::LoadArgs;
use avocet_server::MAX_LIFETIME_SECS;
use clap::{Args, Parser, Subcommand};

/// Avocet, the DNS server of a network.
#[derive(Debug, Parser)]
#[command(name = "avocet", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server; without a file on 127.0.0.1:5300, asking the root's servers and those below
    Serve(ServeArgs),
    /// Check a configuration file; exits with 0 or, having named each error with its line, with 1
    Check(CheckArgs),
    /// Ask a server, as dig does
    Query(QueryArgs),
    /// Drive a DNS server with queries and check every answer
    Load(Box<LoadArgs>),
    /// Show the configuration or its schema
    Config(ConfigArgs),
    /// Write a configuration from that of another server; what it cannot carry over is told on
    /// standard error
    Import(ImportArgs),
    /// Look into the caches of the running server, or drop names from them
    Cache(CacheArgs),
    /// Show the lists of the running server, fetch them, or tell their broken lines
    Lists(ListsArgs),
    /// Check the policy of a configuration, try conditions, or show what is in force
    Policy(PolicyArgs),
    /// Show how the running server is: queries, blocked share, lists, upstreams, warnings
    Status(ControlArgs),
    /// Suspend filtering for a while
    Pause(PauseArgs),
    /// Do not filter a name and those below it for a while
    Grant(GrantArgs),
    /// Say what a client gets for a name, and why: rules, lists, failures, caches, resolution
    Why(WhyArgs),
    /// Show the trust anchors of the running server, what is known of their keys, and the copy of
    /// the root zone
    Anchors(ControlArgs),
    /// Take names out of validation for a time, by negative trust anchors
    Nta(NtaArgs),
    /// Have the running server read its configuration again
    Reload(ControlArgs),
    /// Write the completions of a shell to standard output
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of all commands to a directory
    ManPages {
        /// The directory; it is created if it is not there
        directory: PathBuf,
    },
}

/// Arguments of `avocet serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Take the sockets and the cache over from the running server, which then ends
    #[arg(long)]
    pub(crate) take_over: bool,
}

/// Arguments of `avocet check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The configuration file of a command that works on it; without one that of AVOCET_CONFIG, or
/// /etc/avocet/avocet.toml
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// Configuration file [default: that of AVOCET_CONFIG, or /etc/avocet/avocet.toml if it is
    /// there]
    #[arg(value_name = "FILE", conflicts_with = "config")]
    path: Option<PathBuf>,
    /// The same
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl FileArgs {
    /// The file; none where there is none to be found.
    pub(crate) fn find(&self) -> Option<PathBuf> {
        config::find(self.path.as_deref().or(self.config.as_deref()))
    }
}

/// Arguments of `avocet query`.
#[derive(Debug, Args)]
#[command(
    override_usage = "avocet query [-c FILE] [@SERVER[:PORT]] NAME [TYPE] [CLASS] [+OPTION ...]\n       \
                      avocet query [-c FILE] [@SERVER[:PORT]] -x ADDRESS [+OPTION ...]",
    after_help = QUERY_OPTIONS
)]
pub(crate) struct QueryArgs {
    /// Ask the server that this file configures, where no @SERVER is given
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Ask for the name of this address (PTR)
    #[arg(short = 'x', value_name = "ADDRESS")]
    pub(crate) reverse: Option<IpAddr>,
    /// Write JSON, as +json
    #[arg(long)]
    pub(crate) json: bool,
    /// Server, name, type, class and options
    #[arg(required_unless_present = "reverse", value_name = "WORD")]
    pub(crate) words: Vec<String>,
}

/// What `avocet query --help` says of the options that begin with a plus sign.
const QUERY_OPTIONS: &str = "\
Server: an address or a host name; the port is 53 where none is given. Without a server, the first
`listen` address of the configuration file, or 127.0.0.1:5300 where there is none.

Exit code: 0 with a reply of any RCODE, SERVFAIL included; 1 without a reply; 2 where an argument \
                             is wrong.

Options:
  +tcp           ask over TCP at once, not only after a truncated answer
  +ignore        show a truncated answer as it is
  +dnssec        ask for DNSSEC records (DO)
  +norecurse     do not ask for recursion (RD)
  +cd            do not ask for validation (CD)
  +noedns        send no OPT record
  +bufsize=N     UDP size in OPT, 512 to 65535 [1232]
  +nocookie      send no DNS cookie
  +nsid          ask for the server's identifier
  +subnet=NET    send a client subnet, such as 192.0.2.0/24
  +time=SECS     how long to wait for an answer, 1 to 60 [5]
  +tries=N       how often to send a UDP query at most, 1 to 10 [3]
  +short         write the data of the answers only
  +trace         show how the running server resolves it; takes no @SERVER
  +json          write JSON";

/// For whom filtering is lifted.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct ScopeArgs {
    /// The clients of this group only
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// This client only: the name of a [[client]], or any address
    #[arg(long, value_name = "NAME|ADDRESS")]
    pub(crate) client: Option<String>,
}

/// For how long.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct SpanArgs {
    /// How long: 90s, 30m, 2h, 1d, 1w; a year at most
    #[arg(long = "for", value_name = "TIME", default_value = "30m", value_parser = avocet_config::policy::duration_arg)]
    pub(crate) span: Duration,
    /// End it now
    #[arg(long)]
    pub(crate) end: bool,
}

/// Arguments of `avocet pause`.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) span: SpanArgs,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// Arguments of `avocet grant`.
#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// The name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) span: SpanArgs,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// Arguments of `avocet policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

/// The commands of `avocet policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check lists, groups, clients and rules of a configuration, and the files of its lists
    Check(PolicyCheckArgs),
    /// Say whether a condition holds for a question, part by part
    Test(PolicyTestArgs),
    /// Say what a new configuration would block and free, out of queries in a file
    DryRun(PolicyDryRunArgs),
    /// The services that a condition may name
    Services,
    /// The pauses and grants that are in force in the running server
    Status(ControlArgs),
}

/// Arguments of `avocet policy check`.
#[derive(Debug, Args)]
pub(crate) struct PolicyCheckArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `avocet policy dry-run`.
#[derive(Debug, Args)]
pub(crate) struct PolicyDryRunArgs {
    /// The new configuration file
    #[arg(value_name = "NEW.toml")]
    pub(crate) new: PathBuf,
    /// Queries, one a line: `[CLIENT] NAME [TYPE] [ADDRESS ...]`, with the addresses of the answer
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: PathBuf,
    /// The configuration that is in force [default: that of AVOCET_CONFIG, or
    /// /etc/avocet/avocet.toml]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `avocet policy test`.
#[derive(Debug, Args)]
pub(crate) struct PolicyTestArgs {
    /// The condition, such as 'qname.under("example.com") && now.weekend'
    pub(crate) condition: String,
    /// The name that is asked for
    #[arg(long)]
    pub(crate) name: String,
    /// The type that is asked for
    #[arg(long = "type", value_name = "TYPE", default_value = "A")]
    pub(crate) rtype: String,
    /// The address that asks
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) client: Option<IpAddr>,
    /// Addresses of the answer
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) answer: Vec<IpAddr>,
    /// When, as "2026-11-22 21:30" in the policy's time zone or in Unix seconds; now if not given
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// The configuration with lists, groups and clients
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `avocet config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// What to show.
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// The commands under `avocet config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Write the JSON schema of the configuration file
    Schema,
    /// Write every key with the value that holds, after file, variables and defaults
    Show {
        #[command(flatten)]
        file: FileArgs,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `avocet import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Whose configuration it is: pihole, adguard, blocky or dnsmasq
    #[arg(value_name = "SOURCE", value_parser = crate::import::origin)]
    pub(crate) origin: avocet_import::Origin,
    /// The file, archive or directory to read
    pub(crate) path: String,
    /// File to write, which must not exist; without it, standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Arguments of `avocet cache`.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
    /// How the running server is reached.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// Arguments of `avocet why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The name
    pub(crate) name: String,
    /// Its type; without one, the answer is that for A, and all types in the cache are shown
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) rtype: Option<String>,
    /// Who asks, by address or name; this machine if not given
    #[arg(long, value_name = "ADDRESS|NAME")]
    pub(crate) client: Option<String>,
    /// When, as "2026-11-22 21:30" in the policy's time zone or in Unix seconds, for rules with
    /// schedules; now if not given
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// How the running server is reached.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// The commands under `avocet cache`.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Count entries, bytes, hits and misses
    Stats,
    /// Write all RRsets with what is left of their time
    Dump,
    /// Drop what is cached for a name
    Flush {
        /// The name
        name: String,
    },
    /// Drop what is cached for a name and all names under it
    FlushTree {
        /// The name
        name: String,
    },
}

/// Arguments of `avocet lists`.
#[derive(Debug, Args)]
pub(crate) struct ListsArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: ListsCommand,
    /// How the running server is reached.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// The commands under `avocet lists`.
#[derive(Debug, Subcommand)]
pub(crate) enum ListsCommand {
    /// Show each list: its entries, when it was fetched, what is wrong
    Status,
    /// Look at the source of a list, or of all, and wait until what has changed is in force
    Refresh {
        /// The list; all where none is named
        name: Option<String>,
        /// Take it even if it has no entries any more, lost most of them, or looks like no list
        #[arg(long, requires = "name")]
        force: bool,
    },
    /// Name the broken lines of a list
    Check {
        /// The list
        name: String,
        /// Name the lines that are passed over as well, with the reason
        #[arg(long)]
        skipped: bool,
    },
}

/// Arguments of `avocet nta`.
#[derive(Debug, Args)]
pub(crate) struct NtaArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: NtaCommand,
    /// How the running server is reached.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// The commands under `avocet nta`.
#[derive(Debug, Subcommand)]
pub(crate) enum NtaCommand {
    /// Validate nothing at a name and below, for a time; what is cached there is dropped
    Add {
        /// The name
        name: String,
        /// For how long: a number with s, m, h, d or w, a week at most
        #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = lifetime)]
        lifetime: Duration,
    },
    /// Validate a name again
    Remove {
        /// The name
        name: String,
    },
    /// Show all names that are not validated, and until when
    List,
}

/// How long a negative trust anchor may hold.
fn lifetime(text: &str) -> Result<Duration, String> {
    let time = config::policy::parse_duration(text);
    let time = time.filter(|time| (1..=MAX_LIFETIME_SECS).contains(&time.as_secs()));
    time.ok_or_else(|| {
        "expected a time from \"1s\" to \"1w\", such as \"30m\", \"2h\" or \"1d\"".to_owned()
    })
}

/// How the running server is reached: through the control socket in the data directory of its
/// configuration.
#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    /// Configuration file that the server runs with [default: that of AVOCET_CONFIG, or
    /// /etc/avocet/avocet.toml]
    #[arg(short, long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Write JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command)
    }

    #[test]
    fn definitions_are_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn commands_take_their_arguments() {
        let Ok(Command::Serve(serve)) = parse("avocet serve --config a.toml --take-over") else {
            panic!("serve");
        };
        assert_eq!((serve.file.find(), serve.take_over), (Some("a.toml".into()), true));
        let Ok(Command::Query(query)) =
            parse("avocet query @[::1]:5300 x.example AAAA +tcp +bufsize=512 --json")
        else {
            panic!("query");
        };
        assert_eq!(query.words, ["@[::1]:5300", "x.example", "AAAA", "+tcp", "+bufsize=512"]);
        assert!(query.json && query.config.is_none());
        let Ok(Command::Cache(cache)) = parse("avocet cache flush-tree x --config a.toml --json")
        else {
            panic!("cache");
        };
        assert!(matches!(cache.command, CacheCommand::FlushTree { name } if name == "x"));
        assert_eq!((cache.control.config, cache.control.json), (Some("a.toml".into()), true));
        let Ok(Command::Config(config)) = parse("avocet config show --json") else {
            panic!("config");
        };
        assert!(matches!(config.command, ConfigCommand::Show { json: true, .. }));
        let Ok(Command::Lists(lists)) = parse("avocet lists refresh ads --force --json") else {
            panic!("lists");
        };
        assert!(
            matches!(lists.command, ListsCommand::Refresh { name: Some(name), force: true } if name == "ads")
                && lists.control.json
        );
        let Ok(Command::Import(import)) = parse("avocet import pihole a.zip --output b.toml")
        else {
            panic!("import");
        };
        assert_eq!((import.path.as_str(), import.output), ("a.zip", Some("b.toml".into())));
        let Ok(Command::Nta(nta)) = parse("avocet nta add x.example --for 30m --config a.toml")
        else {
            panic!("nta");
        };
        assert!(
            matches!(nta.command, NtaCommand::Add { name, lifetime } if name == "x.example" && lifetime.as_secs() == 1_800)
        );
        assert!(matches!(parse("avocet anchors --json"), Ok(Command::Anchors(args)) if args.json));
        assert!(matches!(parse("avocet reload"), Ok(Command::Reload(_))));
        for line in
            ["avocet serve a.toml", "avocet serve -c a.toml", "avocet serve --config=a.toml"]
        {
            let Ok(Command::Serve(serve)) = parse(line) else { panic!("{line}") };
            assert_eq!(serve.file.find(), Some("a.toml".into()), "{line}");
        }
        let Ok(Command::Query(query)) = parse("avocet query -x 192.0.2.1 @127.0.0.1 +short") else {
            panic!("-x")
        };
        assert_eq!(query.reverse, Some("192.0.2.1".parse().unwrap()));
        let Ok(Command::Why(why)) = parse("avocet why www.example --type AAAA --json") else {
            panic!("why")
        };
        assert_eq!(
            (why.name.as_str(), why.rtype.as_deref(), why.control.json),
            ("www.example", Some("AAAA"), true)
        );
        let Ok(Command::Load(load)) =
            parse("avocet load 127.0.0.1 --scenario mixed --rate 1000 --zone-name x.")
        else {
            panic!("load");
        };
        assert_eq!((load.server.as_deref(), load.rate), (Some("127.0.0.1"), Some(1000)));
        assert!(
            matches!(parse("avocet load compare a.json b.json"), Ok(Command::Load(load)) if load.task.is_some())
        );
    }

    #[test]
    fn what_is_missing_is_refused() {
        for line in [
            "avocet",
            "avocet check a.toml --config b.toml",
            "avocet query",
            "avocet cache flush",
            "avocet lists check",
            "avocet lists refresh --force",
            "avocet sevre",
            "avocet load",
            "avocet import bind x",
            "avocet nta add",
            "avocet nta add x --for 1y",
            "avocet nta add x --for 8d",
            "avocet nta add x --for 0s",
            "avocet pause --for 53w",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
