//! The errors of commands.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use avocet_nameserver::metrics::STAGES;
use avocet_wire::WireError;
use avocet_wire::name::NameError;
use thiserror::Error;

/// The reason why a command fails.
#[derive(Debug, Error)]
pub(crate) enum CommandError {
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] avocet_server::StartError),
    /// The configuration has errors.
    #[error(transparent)]
    Config(#[from] avocet_config::ConfigErrors),
    /// A value is invalid, or the file of a server cannot be read.
    #[error(transparent)]
    Value(#[from] avocet_config::SettingError),
    /// A device cannot be connected.
    #[error(transparent)]
    Connect(#[from] avocet_control::connect::ConnectFault),
    /// The policy cannot be built.
    #[error(transparent)]
    State(#[from] avocet_nameserver::StateError),
    /// A condition is invalid.
    #[error(transparent)]
    Policy(#[from] avocet_policy::PolicyError),
    /// The query has no reply.
    #[error(transparent)]
    Client(#[from] avocet_client::ClientError),
    /// The running server reports an error, or its reply is malformed.
    #[error(transparent)]
    Reply(#[from] avocet_control::line::ReplyError),
    /// A request is invalid.
    #[error(transparent)]
    Request(#[from] avocet_control::ControlError),
    /// The source of an import is unreadable.
    #[error(transparent)]
    Import(#[from] avocet_import::Error),
    /// A value has no JSON form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A value has no TOML form.
    #[error(transparent)]
    Toml(#[from] toml::ser::Error),
    /// A name is malformed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The output is not a terminal.
    #[error("this needs a terminal; --once prints one frame as text")]
    NoTerminal,
    /// The terminal cannot be used.
    #[error("cannot use the terminal: {0}")]
    Terminal(io::Error),
    /// A query has no name.
    #[error("the name is missing")]
    NoName,
    /// A change of a zone has no record.
    #[error("expected a record after the name: [TTL] TYPE DATA, such as `A 192.0.2.1`")]
    NoRecord,
    /// A record to set has no data. Holds its type.
    #[error("the data of the {0} record is missing; `avocet zone unset` removes records")]
    NoRecordData(String),
    /// The file of a zone has errors. Holds the first error.
    #[error("{0}")]
    UnusableZone(String),
    /// There is no such record type.
    #[error("{0:?} is not a record type")]
    NotAType(String),
    /// The text is not an address.
    #[error("{0:?} is not an address")]
    NotAnAddress(String),
    /// The word is not an outcome of queries.
    #[error("{:?} is not an outcome; expected one of {}", .0, STAGES.join(", "))]
    NotAnOutcome(String),
    /// The query log cannot be read.
    #[error(transparent)]
    QueryLog(#[from] avocet_querylog::LogError),
    /// A file with dnstap messages cannot be read.
    #[error("{}: {source}", .path.display())]
    Tapped {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: avocet_dnstap::TapError,
    },
    /// There is no query log. Holds its directory.
    #[error(
        "there is no query log in {}: set `enabled = true` in [query-log] and reload the server",
        .0.display()
    )]
    NoQueryLog(PathBuf),
    /// The directory of the query log is unknown.
    #[error("the directory of the query log is unknown; repair the configuration first")]
    QueryLogUnknown,
    /// A deletion has neither a filter nor `--all`, or both.
    #[error("give a filter for the queries to delete, such as --to 30d, or --all for all of them")]
    UnclearDeletion,
    /// A deletion needs confirmation, but there is no terminal to ask for it.
    #[error("nothing is deleted: there is no terminal to ask; give --yes")]
    NobodyToAsk,
    /// A configuration is too long for a request.
    #[error("{}: the server takes a configuration of at most {most} octets", .path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Maximum number of octets.
        most: usize,
    },
    /// A request of the API is not possible.
    #[error(transparent)]
    Api(#[from] avocet_web::local::LocalFault),
    /// An argument is not a field of a request.
    #[error("{0:?} is not a field; expected FIELD=VALUE, such as limit=5")]
    NotAField(String),
    /// A field is given twice.
    #[error("the field {0} is given twice")]
    FieldTwice(String),
    /// Standard input cannot be read.
    #[error("cannot read standard input: {0}")]
    NoInput(#[source] io::Error),
    /// Standard input is too long. Holds the maximum number of octets.
    #[error("standard input has more than {0} octets")]
    LongInput(u64),
    /// The text is not a time. Holds the text and the time zone of the policy.
    #[error(
        "{text:?} is not a time; expected one such as \"2026-11-22 21:30\" (in {zone}) or Unix \
         seconds"
    )]
    NotATime {
        /// The text that is not a time.
        text: String,
        /// The time zone of the policy.
        zone: String,
    },
    /// The text is not a time, and the time zone of the policy is unknown.
    #[error("{0:?}: write Unix seconds, or repair the configuration")]
    NotUnixSecs(String),
    /// The text is not a lifetime of a negative trust anchor.
    #[error("expected a time from \"1s\" to \"1w\", such as \"30m\", \"2h\" or \"1d\"")]
    NotALifetime,
    /// The word names no server whose configuration can be imported.
    #[error("expected pihole, adguard, blocky, dnsmasq, bind or powerdns")]
    UnknownOrigin,
    /// The word names no role.
    #[error("expected viewer, operator or admin")]
    UnknownRole,
    /// The text is no lifetime of a token.
    #[error("expected a time of at most five years, such as \"12h\", \"90d\" or \"104w\"")]
    TokenLifetime,
    /// The word names no transport.
    #[error("{0:?} is not a transport; expected udp, tcp, tls, https, quic or odoh")]
    UnknownTransport(String),
    /// The word names no scope. Holds all scopes.
    #[error("expected one of {0}")]
    UnknownScope(String),
    /// No password was typed.
    #[error("cannot read the password: {0}")]
    NoPassword(#[source] io::Error),
    /// The password was not typed twice in the same way.
    #[error("the two passwords differ; nothing has changed")]
    PasswordsDiffer,
    /// There is no configuration to check.
    #[error("there is no file to check: name one, or set AVOCET_CONFIG")]
    NothingToCheck,
    /// Lists cannot be read. Holds their number and the report.
    #[error("{0} lists cannot be read\n{1}")]
    UnreadableLists(usize, String),
    /// A file cannot be opened.
    #[error("cannot read {}: {source}", .path.display())]
    Unopened {
        /// The file.
        path: PathBuf,
        /// The reason given by the system.
        source: io::Error,
    },
    /// A file or directory cannot be read.
    #[error("{}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason given by the system.
        source: io::Error,
    },
    /// A line of a file is malformed.
    #[error("{}:{line}: {source}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        source: Box<Self>,
    },
    /// A file to be written exists.
    #[error("{} already exists; an import never overwrites a file", .0.display())]
    Exists(PathBuf),
    /// The file of a backup exists.
    #[error("{} already exists; a backup never overwrites a file", .0.display())]
    BackupExists(PathBuf),
    /// A backup cannot be restored.
    #[error(transparent)]
    Backup(#[from] avocet_server::backup::BackupError),
    /// The data directory of a server does not exist.
    #[error("{} does not exist: create it for the account of the server first", .0.display())]
    NoDirectory(PathBuf),
    /// A file cannot be written.
    #[error("{} cannot be written: {source}", .path.display())]
    Unwritten {
        /// The file.
        path: PathBuf,
        /// The reason given by the system.
        source: io::Error,
    },
    /// The files of a directory cannot be written.
    #[error("cannot write to {}: {source}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason given by the system.
        source: io::Error,
    },
    /// The standard output cannot be written.
    #[error("cannot write: {0}")]
    Output(#[source] io::Error),
    /// `+trace` is combined with a server.
    #[error("+trace uses the control socket of the running server; remove @SERVER")]
    TraceOfServer,
    /// A server sends a malformed response.
    #[error("{server} sent a malformed response: {source}")]
    MalformedResponse {
        /// The server.
        server: SocketAddr,
        /// The problem.
        source: WireError,
    },
    /// The control socket belongs to another account. Holds the data directory.
    #[error("the avocet of data directory {} belongs to another account; use sudo", .0.display())]
    OtherAccount(PathBuf),
    /// No server answers on the control socket. Holds the data directory.
    #[error("no avocet is running with data directory {}{}", .0.display(), advice(.0))]
    NoServer(PathBuf),
    /// The connection to the control socket fails.
    #[error("the running avocet closed the connection: {0}")]
    Broken(#[source] io::Error),
    /// The reply of the running server is incomplete.
    #[error("the running avocet closed the connection in the middle of its response")]
    Incomplete,
}

/// Returns advice for a data directory without a server. A relative path is the default, or depends
/// on the working directory. If the directory does not exist, the setting may have changed since
/// the server started.
fn advice(directory: &Path) -> &'static str {
    if directory.is_relative() {
        "; specify its configuration with --config"
    } else if !directory.exists() {
        ", which does not exist; a running server keeps its data directory until it restarts"
    } else {
        ""
    }
}
