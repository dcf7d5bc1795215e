//! The command line. The modules named in each command implement it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use avocet_config as config;
use avocet_config::policy::duration_arg;
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

/// Avocet, a DNS server for a network: validating resolver, forwarder, filter and authoritative
/// server
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
    /// Check a configuration file, and print each error with its line; exits with 1 if there is an
    /// error
    Check(CheckArgs),
    /// Print the settings that connect a device to this server: addresses, DNS stamps, profile, QR
    /// code
    Connect(ConnectArgs),
    /// Send a query to a DNS server, and print the response, like dig
    Query(QueryArgs),
    /// Generate load on a DNS server and check every response
    Load(Box<LoadArgs>),
    /// Print the configuration or its schema, change it, or show its history
    Config(ConfigArgs),
    /// Convert the configuration of another server, and list the settings that cannot be converted
    Import(ImportArgs),
    /// Show the content of the caches of the running server, or remove names from the caches
    Cache(CacheArgs),
    /// Show the state of the lists of the running server, fetch lists, or show lines without effect
    Lists(ListsArgs),
    /// Check a policy, test conditions, try a change on past queries, or show pauses and matches
    Policy(PolicyArgs),
    /// Show the state of the running server: queries by result, lists, upstreams, zones, warnings
    Status(StatusArgs),
    /// Suspend filtering for some or all clients for a while
    Pause(PauseArgs),
    /// Allow a name and all names below it for a while, for some or all clients
    Grant(GrantArgs),
    /// Show requests for access that clients sent from the block page, and grant or refuse them
    Requests(RequestsArgs),
    /// Explain the answer that a client gets for a name: rules, lists, caches, failures, resolution
    Why(WhyArgs),
    /// Show the trust anchors of the running server with their keys, and its copy of the root zone
    Anchors(ControlArgs),
    /// Suspend DNSSEC validation of a name and the names below it for a while (negative trust
    /// anchors)
    Nta(NtaArgs),
    /// Follow, search, count, export, check or prune the query log, or show its statistics
    Log(Box<LogArgs>),
    /// Show counts, rankings and the latest queries of the running server, live in the terminal
    Top(TopArgs),
    /// Show the certificates of the running server, or renew the certificate from ACME
    Certificate(CertificateArgs),
    /// Check zone files; show, change, sign, reload or export hosted zones; control pools
    Zone(ZoneArgs),
    /// Read the configuration of the running server again, and put it in force
    Reload(ControlArgs),
    /// Save configuration, revisions, users and other state of the running server in one file
    Backup(BackupArgs),
    /// Check a backup and restore it; a running server restores it at its next start
    Restore(RestoreArgs),
    /// Manage the users of the HTTP API
    User(UserArgs),
    /// Manage the tokens of the HTTP API
    Token(TokenArgs),
    /// List the sessions of users of the web interface, or end a session
    Session(SessionArgs),
    /// Send any request of the HTTP API to the running server over the control socket
    Call(ApiCallArgs),
    /// Print a script that completes commands in a shell
    Completions {
        /// The shell for which the script is
        shell: clap_complete::Shell,
    },
    /// Write manual pages of all commands to a directory
    ManPages {
        /// The directory for the pages; created if it does not exist
        directory: PathBuf,
    },
}

/// Arguments of `avocet serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Take over the sockets and caches of the running server, which then ends
    #[arg(long)]
    pub(crate) take_over: bool,
}

/// Arguments of `avocet check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Print the errors and warnings as JSON
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
    override_usage = "\
        avocet query [-c FILE] [@SERVER[:PORT]] NAME [TYPE] [CLASS] [+OPTION ...]\n       \
        avocet query [-c FILE] [@SERVER[:PORT]] -x ADDRESS [+OPTION ...]",
    after_help = QUERY_OPTIONS
)]
pub(crate) struct QueryArgs {
    /// Configuration file of the server to query, if there is no @SERVER
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Query the name of this address (PTR record)
    #[arg(short = 'x', value_name = "ADDRESS")]
    pub(crate) reverse: Option<IpAddr>,
    /// Print the response as JSON, like +json
    #[arg(long)]
    pub(crate) json: bool,
    /// Server, name, type, class and options, in any order
    #[arg(required_unless_present = "reverse", value_name = "WORD")]
    pub(crate) words: Vec<String>,
}

/// The part of `avocet query --help` on options that start with a plus sign.
const QUERY_OPTIONS: &str = "\
SERVER is an address or a host name, with :PORT if the port is not the default. tls://HOST uses TLS,
quic://HOST uses QUIC, https://HOST uses HTTP/2, and h3://HOST uses HTTP/3, at /dns-query or at the
path after HOST. The certificate must have the name HOST. NAME@ADDRESS instead of HOST gives the
name in the certificate and the address. The default is the first `listen` address of the
configuration file, or 127.0.0.1:5300 without a configuration file.

Exit code: 0 after a response with any RCODE, even SERVFAIL; 1 without a response; 2 for wrong
arguments.

Options:
  +insecure      over TLS: accept any certificate
  +ca=FILE       over TLS: trust the authorities in this file (PEM), not those of the system
  +pin=BASE64    over TLS: the server must have a key with this SHA-256 digest; may be repeated
  +cert=FILE     over TLS: show this certificate (PEM); its key is in FILE or in +key=FILE
  +https-get     over HTTPS: send the query in the path, with GET
  +tcp           use TCP at once, not only after a truncated response
  +ignore        show a truncated response as it is
  +dnssec        request DNSSEC records (set DO)
  +norecurse     do not request recursion (clear RD)
  +cd            ask the server not to validate (set CD)
  +noedns        send no OPT record
  +bufsize=N     EDNS buffer size in octets, 512 to 65535 [default: 1232]
  +nocookie      send no DNS cookie
  +nsid          request the name server identifier (RFC 5001)
  +zoneversion   request the serial of the zone (RFC 9660)
  +subnet=NET    send this client subnet, such as 192.0.2.0/24 (RFC 7871)
  +time=SECS     seconds to wait for a response, 1 to 60 [default: 5]
  +tries=N       how often to send a query over UDP, 1 to 10 [default: 3]
  +short         print only the record data of the answer
  +trace         show how the running server resolves the name; not with @SERVER
  +json          print JSON";

/// The clients to which a pause or grant applies. By default, all clients.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct ScopeArgs {
    /// Only the clients of this group
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// Only this client: the name of a [[client]], or an IP address
    #[arg(long, value_name = "NAME|ADDRESS")]
    pub(crate) client: Option<String>,
}

/// The duration of a pause or grant, or an option that ends it.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct SpanArgs {
    /// Duration: a number with s, m, h, d or w, such as 90s or 2h; at most 365 days
    #[arg(long = "for", value_name = "TIME", default_value = "30m", value_parser = duration_arg)]
    pub(crate) span: Duration,
    /// End the pause or grant of these clients now
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
    /// The name to allow, with all names below it
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
    /// Check the lists, groups, clients and rules of a configuration, and the content of its lists
    Check(PolicyCheckArgs),
    /// Evaluate a condition for one query, and show the result of each part of the condition
    Test(PolicyTestArgs),
    /// Show what a new configuration would block and unblock, by queries from a file or the query
    /// log
    DryRun(PolicyDryRunArgs),
    /// List the services that a condition may name, as in service("youtube")
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
    /// Print the errors and the state of the lists as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `avocet policy test`.
#[derive(Debug, Args)]
pub(crate) struct PolicyTestArgs {
    /// The condition, such as 'qname.under("example.com") && now.weekend'
    pub(crate) condition: String,
    /// Name that the client queries (QNAME)
    #[arg(long)]
    pub(crate) name: String,
    /// Type that the client queries (QTYPE)
    #[arg(long = "type", value_name = "TYPE", default_value = "A")]
    pub(crate) rtype: String,
    /// Address of the client [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) client: Option<IpAddr>,
    /// Name of the listener at which the query arrives [default: an address of [server]]
    #[arg(long, value_name = "NAME")]
    pub(crate) listener: Option<String>,
    /// Address in the answer, for conditions on answers; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) answer: Vec<IpAddr>,
    /// Time for the condition: "2026-11-22 21:30" in the time zone of the policy, or Unix seconds
    /// [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Configuration file with lists, groups and clients that the condition names
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the result as JSON
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
        /// Print the schemas of requests and replies of the control socket instead
        #[arg(long)]
        control: bool,
    },
    /// Print every key with its value, from the file, environment variables and defaults
    Show {
        #[command(flatten)]
        file: FileArgs,
        /// Print the configuration as JSON
        #[arg(long)]
        json: bool,
    },
    #[command(flatten)]
    Revisions(crate::revisions::RevisionCommand),
}

/// Arguments of `avocet import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Server of the configuration: pihole, adguard, blocky, dnsmasq, bind or powerdns
    #[arg(value_name = "SOURCE", value_parser = crate::import::origin)]
    pub(crate) origin: avocet_import::Origin,
    /// The file, archive or directory with the configuration of that server
    pub(crate) path: String,
    /// File to write, which must not exist [default: standard output]
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
    /// Add a user; reads the password from the terminal, or from a line of standard input
    Add {
        /// Name of the new user: 1 to 64 letters, digits, `.`, `-`, `_` or `@`
        name: String,
        /// Role of the user: viewer, operator or admin
        #[arg(long, default_value = "viewer", value_parser = role)]
        role: Role,
        #[command(flatten)]
        limits: LimitArgs,
    },
    /// Change password, role, limits or second factor of a user, and end the user's sessions
    Passwd {
        /// Name of the user
        name: String,
        /// New role: viewer, operator or admin. The password stays
        #[arg(long, value_parser = role)]
        role: Option<Role>,
        #[command(flatten)]
        limits: LimitArgs,
        /// Remove all limits to groups and zones. The password stays
        #[arg(long, conflicts_with_all = ["group", "zone"])]
        no_limits: bool,
        /// Remove the second factor, for a user who has lost it. The password stays
        #[arg(long)]
        remove_second_factor: bool,
    },
    /// List the users with their roles and limits
    List,
    /// Remove a user, and end the sessions of the user
    Remove {
        /// Name of the user
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
    /// Create a token, and print it once; the server cannot show the token again
    Create {
        /// Name of the token, for people: 1 to 64 letters, digits, `.`, `-`, `_` or `@`
        name: String,
        /// Permission of the token, such as status:read; may be given several times
        #[arg(long = "scope", required = true, value_name = "SCOPE", value_parser = scope)]
        scopes: Vec<AccessScope>,
        /// Lifetime of the token: a number with s, m, h, d or w, such as 12h or 90d; at most five
        /// years
        #[arg(long = "for", value_name = "TIME", default_value = "90d",
              value_parser = token_lifetime)]
        lifetime: Duration,
    },
    /// List the tokens with their scopes and expiry
    List,
    /// Revoke a token, so that it is no longer valid
    Revoke {
        /// Identifier of the token, as `avocet token list` shows it
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
    /// The name that the client queries
    pub(crate) name: String,
    /// Type that the client queries [default: A; the part about the cache then shows all types]
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) rtype: Option<String>,
    /// The client: an IP address, the name of a [[client]], or a known device name [default:
    /// 127.0.0.1]
    #[arg(long, value_name = "ADDRESS|NAME")]
    pub(crate) client: Option<String>,
    /// Identity that the device of the client sends or proves, as in `ids` of a [[client]]:
    /// id:WORD, certificate:NAME or pin:DIGEST
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Name of the [[listener]] at which the query arrives [default: an address of [server]]
    #[arg(long, value_name = "NAME")]
    pub(crate) listener: Option<String>,
    /// Transport of the query: udp, tcp, tls, https, quic or odoh [default: as the listener]
    #[arg(long, value_name = "TRANSPORT", value_parser = transport)]
    pub(crate) transport: Option<LogTransport>,
    /// Time for schedules of rules: "2026-11-22 21:30" in the time zone of the policy, or Unix
    /// seconds [default: now]. For a past time, also shows the logged query nearest to it
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Connection to the running server.
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// The commands under `avocet cache`.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Show the memory of the caches, and counts of entries, hits and misses
    Stats,
    /// Print all entries of the packet cache and the RRset cache, with their remaining TTLs
    Dump,
    /// Print the cached data of a name, the delegations above the name, and a cached failure
    Show {
        /// The name to look up
        name: String,
        /// Print only data of this type
        #[arg(long = "type", value_name = "TYPE")]
        rtype: Option<String>,
    },
    /// Remove a name from the caches; the names below the name stay
    Flush {
        /// The name to remove
        name: String,
    },
    /// Remove a name and all names below it from the caches
    FlushTree {
        /// The name to remove, with all names below it
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
    /// Show each list: number of entries, last and next fetch, problems
    Status,
    /// Fetch a list or all lists now, and wait until the changes are in force
    Refresh {
        /// Name of the list [default: all lists]
        name: Option<String>,
        /// Accept a text that has no entries or has lost most of its entries
        #[arg(long, requires = "name")]
        force: bool,
    },
    /// Show the broken lines of a list, which the server cannot use; at most 100
    Check {
        /// Name of the list
        name: String,
        /// Also show valid lines that have no effect, with the reason; at most 100
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
