//! The command line: what can be asked of the binary. Doing it is the part of the modules named in each command.

use std::path::PathBuf;

use avocet_load::LoadArgs;
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
    /// Look into the caches of the running server, or drop names from them
    Cache(CacheArgs),
    /// Show the lists of the running server, fetch them, or tell their broken lines
    Lists(ListsArgs),
    /// Have the running server read its configuration again
    Reload(ControlArgs),
}

/// Arguments of `avocet serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Take the sockets and the cache over from the running server, which then ends
    #[arg(long)]
    pub(crate) take_over: bool,
}

/// Arguments of `avocet check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `avocet query`.
#[derive(Debug, Args)]
#[command(
    override_usage = "avocet query [--config FILE] [@SERVER[:PORT]] NAME [TYPE] [CLASS] [+OPTION ...]",
    after_help = QUERY_OPTIONS
)]
pub(crate) struct QueryArgs {
    /// Ask the server that this file configures, where no @SERVER is given
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Write JSON, as +json
    #[arg(long)]
    pub(crate) json: bool,
    /// Server, name, type, class and options
    #[arg(required = true, value_name = "WORD")]
    pub(crate) words: Vec<String>,
}

/// What `avocet query --help` says of the options that begin with a plus sign.
const QUERY_OPTIONS: &str = "\
Server: an address or a host name; the port is 53 where none is given. Without a server, the first
`listen` address of --config, or 127.0.0.1:5300.

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
  +time=SECS     wait so long for an answer, 1 to 60 [5]
  +tries=N       send a UDP query at most so often, 1 to 10 [3]
  +short         write the data of the answers only
  +json          write JSON";

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
        /// Configuration file
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
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
    },
}

/// How the running server is reached: through the control socket in the data directory of its configuration.
#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    /// Configuration file that the server runs with
    #[arg(long, value_name = "FILE", global = true)]
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
        assert_eq!((serve.config, serve.take_over), (Some("a.toml".into()), true));
        let Ok(Command::Query(query)) = parse("avocet query @[::1]:5300 x.example AAAA +tcp +bufsize=512 --json")
        else {
            panic!("query");
        };
        assert_eq!(query.words, ["@[::1]:5300", "x.example", "AAAA", "+tcp", "+bufsize=512"]);
        assert!(query.json && query.config.is_none());
        let Ok(Command::Cache(cache)) = parse("avocet cache flush-tree x --config a.toml --json") else {
            panic!("cache");
        };
        assert!(matches!(cache.command, CacheCommand::FlushTree { name } if name == "x"));
        assert_eq!((cache.control.config, cache.control.json), (Some("a.toml".into()), true));
        let Ok(Command::Config(config)) = parse("avocet config show --json") else {
            panic!("config");
        };
        assert!(matches!(config.command, ConfigCommand::Show { config: None, json: true }));
        let Ok(Command::Lists(lists)) = parse("avocet lists refresh ads --force --json") else {
            panic!("lists");
        };
        assert!(
            matches!(lists.command, ListsCommand::Refresh { name: Some(name), force: true } if name == "ads")
                && lists.control.json
        );
        assert!(matches!(parse("avocet reload"), Ok(Command::Reload(_))));
        let Ok(Command::Load(load)) = parse("avocet load 127.0.0.1 --scenario mixed --rate 1000 --zone-name x.") else {
            panic!("load");
        };
        assert_eq!((load.server.as_deref(), load.rate), (Some("127.0.0.1"), Some(1000)));
        assert!(matches!(parse("avocet load compare a.json b.json"), Ok(Command::Load(load)) if load.task.is_some()));
    }

    #[test]
    fn what_is_missing_is_refused() {
        for line in [
            "avocet",
            "avocet check",
            "avocet query",
            "avocet cache flush",
            "avocet lists check",
            "avocet lists refresh --force",
            "avocet sevre",
            "avocet load",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
