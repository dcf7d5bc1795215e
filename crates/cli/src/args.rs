//! The command line. The modules named in each command implement it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use avocet_config as config;
use avocet_control::access::{AccessScope, Role};
use avocet_control::log::LogTransport;
use avocet_load::LoadArgs;
use clap::{Args, Parser, Subcommand};

use crate::access::LimitArgs;
use crate::api_call::ApiCallArgs;
use crate::backup::{BackupArgs, RestoreArgs};
use crate::certificate::CertificateArgs;
use crate::connect::ConnectArgs;
use crate::control_args::{ControlArgs, StatusArgs};
use crate::dry_run_args::PolicyDryRunArgs;
use crate::error::CommandError;
use crate::log_args::LogArgs;
use crate::nta_args::NtaArgs;
use crate::requests::RequestsArgs;
use crate::session::SessionArgs;
use crate::top::TopArgs;
use crate::zone::ZoneArgs;

/// Avocet, a DNS server for a network: validating resolver, forwarder and filter.
#[derive(Debug, Parser)]
#[command(name = "avocet", version = env!("BUILD_VERSION"), about, max_term_width = 100)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server; without a configuration, on 127.0.0.1:5300, as a recursive resolver
    Serve(ServeArgs),
    /// Check a configuration file and print each error with its line; exits with 1 on errors
    Check(CheckArgs),
    /// Print how a device is connected: profile, DNS stamps, QR code, options of DHCP
    Connect(ConnectArgs),
    /// Send a query to a server, like dig
    Query(QueryArgs),
    /// Generate load on a DNS server and check every response
    Load(Box<LoadArgs>),
    /// Print the configuration or its schema
    Config(ConfigArgs),
    /// Convert the configuration of another server, and list the settings that cannot be converted
    Import(ImportArgs),
    /// Inspect the caches of the running server, or remove names from them
    Cache(CacheArgs),
    /// Show the lists of the running server, fetch them, or show their broken lines
    Lists(ListsArgs),
    /// Check the policy of a configuration, test conditions, or show what is in force
    Policy(PolicyArgs),
    /// Show the state of the running server: queries, blocked share, lists, upstreams, warnings
    Status(StatusArgs),
    /// Suspend filtering for a while
    Pause(PauseArgs),
    /// Allow a name and its subdomains for a while
    Grant(GrantArgs),
    /// Answer clients that ask for access on the block page
    Requests(RequestsArgs),
    /// Explain what a client gets for a name: rules, lists, failures, caches, resolution
    Why(WhyArgs),
    /// Show the trust anchors of the running server with their keys, and its copy of the root zone
    Anchors(ControlArgs),
    /// Manage negative trust anchors: turn off validation for a name for a while
    Nta(NtaArgs),
    /// Search the query log, follow it, count and export its entries
    Log(Box<LogArgs>),
    /// Show the overview and the latest queries of the running server, live in the terminal
    Top(TopArgs),
    /// Show the certificates of the running server, or renew the one that it obtains by itself
    Certificate(CertificateArgs),
    /// Check the files of zones, show the hosted zones of the running server, reload or export them
    Zone(ZoneArgs),
    /// Reload the configuration of the running server
    Reload(ControlArgs),
    /// Write configuration, revisions, users and other state of the running server to one file
    Backup(BackupArgs),
    /// Check a backup and put it in place; a running server does so at its next start
    Restore(RestoreArgs),
    /// Manage the users of the HTTP API
    User(UserArgs),
    /// Manage the tokens of the HTTP API
    Token(TokenArgs),
    /// List the sessions of users in browsers, or end one
    Session(SessionArgs),
    /// Send any request of the HTTP API to the running server, and print the reply
    Call(ApiCallArgs),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages of all commands to a directory
    ManPages {
        /// The directory; created if it does not exist
        directory: PathBuf,
    },
}

/// Arguments of `avocet serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Take over the sockets and caches of the running server, which then exits
    #[arg(long)]
    pub(crate) take_over: bool,
}

/// Arguments of `avocet check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The configuration file of a command; by default that of AVOCET_CONFIG, or
/// /etc/avocet/avocet.toml
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// Configuration file [default: that of AVOCET_CONFIG, or /etc/avocet/avocet.toml if it exists]
    #[arg(value_name = "FILE", conflicts_with = "config")]
    path: Option<PathBuf>,
    /// Same as FILE
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl FileArgs {
    /// Returns the configuration file; `None` if there is none.
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
    /// Configuration of the server to query, without @SERVER
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Query the reverse name of this address (PTR)
    #[arg(short = 'x', value_name = "ADDRESS")]
    pub(crate) reverse: Option<IpAddr>,
    /// Print JSON, as +json
    #[arg(long)]
    pub(crate) json: bool,
    /// Server, name, type, class and options
    #[arg(required_unless_present = "reverse", value_name = "WORD")]
    pub(crate) words: Vec<String>,
}

/// The part of `avocet query --help` on options that start with a plus sign.
const QUERY_OPTIONS: &str = "\
SERVER is an address or a host name, with :PORT if it is not 53. tls://HOST asks over TLS, where the
certificate must have that name; tls://NAME@ADDRESS names both. quic://HOST asks over QUIC.
https://HOST asks over HTTP/2, and h3://HOST over HTTP/3, at /dns-query or the path that follows.
The default is the first `listen` address of the configuration file, or 127.0.0.1:5300 without one.

Exit code: 0 with a response of any RCODE, even SERVFAIL; 1 without one; 2 for wrong arguments.

Options:
  +insecure      over TLS: accept any certificate
  +ca=FILE       over TLS: the authorities in this file (PEM) instead of those of the system
  +pin=BASE64    over TLS: a key with this SHA-256 instead of a certificate; may be repeated
  +cert=FILE     over TLS: show this certificate (PEM), with its key in the file or in +key=FILE
  +https-get     over HTTPS: send the query in the path, with GET
  +tcp           use TCP at once, not only after a truncated response
  +ignore        show a truncated response as it is
  +dnssec        request DNSSEC records (DO)
  +norecurse     do not request recursion (RD)
  +cd            turn validation off (CD)
  +noedns        send no OPT record
  +bufsize=N     UDP size in OPT, 512 to 65535 [1232]
  +nocookie      send no DNS cookie
  +nsid          request the name server identifier
  +zoneversion   request the serial of the zone
  +subnet=NET    send a client subnet, such as 192.0.2.0/24
  +time=SECS     how long to wait for a response, 1 to 60 [5]
  +tries=N       how often to send a UDP query, 1 to 10 [3]
  +short         print only the record data of the answer
  +trace         show how the running server resolves the name; not with @SERVER
  +json          print JSON";

/// The clients for which filtering is suspended, or a name is allowed.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct ScopeArgs {
    /// Only the clients of this group
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// Only this client: the name of a [[client]], or an address
    #[arg(long, value_name = "NAME|ADDRESS")]
    pub(crate) client: Option<String>,
}

/// The duration of a pause or grant, or its end.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct SpanArgs {
    /// Duration: 90s, 30m, 2h, 1d, 1w; at most a year
    #[arg(long = "for", value_name = "TIME", default_value = "30m", value_parser = avocet_config::policy::duration_arg)]
    pub(crate) span: Duration,
    /// End the pause or grant now
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
    /// The command
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

/// The commands of `avocet policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check the lists, groups, clients and rules of a configuration, and the texts of its lists
    Check(PolicyCheckArgs),
    /// Evaluate a condition for a query, and show the result of each part
    Test(PolicyTestArgs),
    /// Show what a new configuration would block and unblock, for queries in a file or the log
    DryRun(PolicyDryRunArgs),
    /// List the services that a condition may use
    Services,
    /// Show the pauses and grants in force in the running server, and the matches of rules and
    /// lists
    Status(ControlArgs),
}

/// Arguments of `avocet policy check`.
#[derive(Debug, Args)]
pub(crate) struct PolicyCheckArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `avocet policy test`.
#[derive(Debug, Args)]
pub(crate) struct PolicyTestArgs {
    /// The condition, such as 'qname.under("example.com") && now.weekend'
    pub(crate) condition: String,
    /// QNAME
    #[arg(long)]
    pub(crate) name: String,
    /// QTYPE
    #[arg(long = "type", value_name = "TYPE", default_value = "A")]
    pub(crate) rtype: String,
    /// Address of the client
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) client: Option<IpAddr>,
    /// Name of the listener at which the query arrives [default: an address of [server]]
    #[arg(long, value_name = "NAME")]
    pub(crate) listener: Option<String>,
    /// Addresses of the answer
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) answer: Vec<IpAddr>,
    /// Time, as "2026-11-22 21:30" in the time zone of the policy or in Unix seconds [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Configuration with lists, groups and clients
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `avocet config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// The commands under `avocet config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the JSON schema of the configuration file
    Schema {
        /// Print the schemas of the requests and replies of the control socket instead
        #[arg(long)]
        control: bool,
    },
    /// Print every key with its value in force, from file, variables and defaults
    Show {
        #[command(flatten)]
        file: FileArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    #[command(flatten)]
    Revisions(crate::revisions::RevisionCommand),
}

/// Arguments of `avocet import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Product: pihole, adguard, blocky, dnsmasq, bind or powerdns
    #[arg(value_name = "SOURCE", value_parser = crate::import::origin)]
    pub(crate) origin: avocet_import::Origin,
    /// The file, archive or directory to read
    pub(crate) path: String,
    /// File to write; must not exist [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Arguments of `avocet user`.
#[derive(Debug, Args)]
pub(crate) struct UserArgs {
    /// The command
    #[command(subcommand)]
    pub(crate) command: UserCommand,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// The commands of `avocet user`.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user; reads the password from the terminal, or as a line of standard input
    Add {
        /// The name
        name: String,
        /// Role: viewer, operator or admin
        #[arg(long, default_value = "viewer", value_parser = role)]
        role: Role,
        #[command(flatten)]
        limits: LimitArgs,
    },
    /// Change the password, the role or the second factor of a user, and end its sessions
    Passwd {
        /// The name
        name: String,
        /// New role: viewer, operator or admin; the password stays
        #[arg(long, value_parser = role)]
        role: Option<Role>,
        #[command(flatten)]
        limits: LimitArgs,
        /// Remove all limits; the password stays
        #[arg(long, conflicts_with_all = ["group", "zone"])]
        no_limits: bool,
        /// Remove the second factor, for a user who lost it; the password stays
        #[arg(long)]
        remove_second_factor: bool,
    },
    /// List the users
    List,
    /// Remove a user and end its sessions
    Remove {
        /// The name
        name: String,
    },
}

/// Arguments of `avocet token`.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The command
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// The commands of `avocet token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it; the server cannot show it again
    Create {
        /// A name for people
        name: String,
        /// A scope, such as status:read; repeat it for several
        #[arg(long = "scope", required = true, value_name = "SCOPE", value_parser = scope)]
        scopes: Vec<AccessScope>,
        /// Lifetime: 12h, 90d, 1w; at most five years
        #[arg(long = "for", value_name = "TIME", default_value = "90d",
              value_parser = token_lifetime)]
        lifetime: Duration,
    },
    /// List the tokens
    List,
    /// Revoke a token
    Revoke {
        /// Identifier of the token
        id: String,
    },
}

fn role(word: &str) -> Result<Role, CommandError> {
    Role::of_word(word).ok_or(CommandError::UnknownRole)
}

/// Reads the lifetime of a token; the server knows the longest.
fn token_lifetime(text: &str) -> Result<Duration, CommandError> {
    let time = avocet_config::policy::parse_duration(text).filter(|time| !time.is_zero());
    time.ok_or(CommandError::TokenLifetime)
}

fn transport(word: &str) -> Result<LogTransport, CommandError> {
    use LogTransport::{Https, Odoh, Quic, Tcp, Tls, Udp};
    let found = [Udp, Tcp, Tls, Https, Quic, Odoh].into_iter().find(|one| one.text() == word);
    found.ok_or_else(|| CommandError::UnknownTransport(word.to_owned()))
}

fn scope(word: &str) -> Result<AccessScope, CommandError> {
    AccessScope::of_word(word).ok_or_else(|| {
        CommandError::UnknownScope(AccessScope::ALL.map(AccessScope::text).join(", "))
    })
}

/// Arguments of `avocet cache`.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
    /// Connection to the running server.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// Arguments of `avocet why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The name
    pub(crate) name: String,
    /// QTYPE; by default A, and all types in the cache are shown
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) rtype: Option<String>,
    /// Address or name of the client [default: this machine]
    #[arg(long, value_name = "ADDRESS|NAME")]
    pub(crate) client: Option<String>,
    /// Identity that the device of the client sends or proves, as in `ids` of [[client]]: id:WORD,
    /// certificate:NAME or pin:DIGEST
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Name of the listener at which the query arrives [default: an address of [server]]
    #[arg(long, value_name = "NAME")]
    pub(crate) listener: Option<String>,
    /// Transport of the query: udp, tcp, tls, https, quic or odoh [default: that of the
    /// listener]
    #[arg(long, value_name = "TRANSPORT", value_parser = transport)]
    pub(crate) transport: Option<LogTransport>,
    /// Time for rules with schedules, as "2026-11-22 21:30" in the time zone of the policy or in
    /// Unix seconds [default: now]. For a time in the past, also shows what the query log has
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Connection to the running server.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// The commands under `avocet cache`.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Show entries, bytes, hits and misses
    Stats,
    /// Print all RRsets with their remaining TTLs
    Dump,
    /// Print the cached data of a name, and delegations above it
    Show {
        /// The name
        name: String,
        /// Only this type
        #[arg(long = "type", value_name = "TYPE")]
        rtype: Option<String>,
    },
    /// Remove a name from the caches
    Flush {
        /// The name
        name: String,
    },
    /// Remove a name and all names below it from the caches
    FlushTree {
        /// The name
        name: String,
    },
}

/// Arguments of `avocet lists`.
#[derive(Debug, Args)]
pub(crate) struct ListsArgs {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: ListsCommand,
    /// Connection to the running server.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// The commands under `avocet lists`.
#[derive(Debug, Subcommand)]
pub(crate) enum ListsCommand {
    /// Show each list: entries, last fetch, problems
    Status,
    /// Fetch a list, or all lists, and wait until the changes are in force
    Refresh {
        /// The list [default: all]
        name: Option<String>,
        /// Accept a list even if it has no entries, lost most of them, or does not look like a list
        #[arg(long, requires = "name")]
        force: bool,
    },
    /// Show the broken lines of a list
    Check {
        /// The list
        name: String,
        /// Also show the lines without effect, with the reason
        #[arg(long)]
        skipped: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nta_args::NtaCommand;

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
        assert!(matches!(parse("avocet load compare a.json \
                            b.json"), Ok(Command::Load(load)) if load.task.is_some()));
    }

    #[test]
    fn the_version_is_that_of_the_package_with_its_commit() {
        let command = <Cli as clap::CommandFactory>::command();
        let version = command.get_version().unwrap_or_default();
        assert!(version.starts_with(env!("CARGO_PKG_VERSION")), "{version}");
        let rest = &version[env!("CARGO_PKG_VERSION").len()..];
        assert!(rest.is_empty() || rest.starts_with(" (commit "), "{version}");
    }

    #[test]
    fn a_token_may_live_for_years() {
        let create = "avocet token create t --scope status:read --for";
        assert!(parse(&format!("{create} 1800d")).is_ok());
        assert!(parse(&format!("{create} 0d")).is_err());
        assert!(parse(&format!("{create} 5y")).is_err());
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
            "avocet import unbound x",
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
