//! Errors of requests: each has a code that does not change, a message, and a next step.

use std::fmt;

use crate::access::AccessFault;
use crate::certificates::RenewalRefusal;
use crate::connect::ConnectFault;
use crate::log_fault::LogFault;
use crate::part::Disconnected;
use crate::pools::PoolFault;
use crate::words::words;
use crate::zones::ZoneFault;

/// The reason why a request has no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlError {
    /// The line is not a request. Holds the problem.
    NotARequest(String),
    /// The maximum number of control clients is connected.
    Busy,
    /// The server is shutting down.
    ShuttingDown,
    /// The client disconnected before its reply was complete.
    Disconnected,
    /// Another process is taking over, or the server is shutting down.
    TakeOverRefused,
    /// The request is not possible just now, because another process is taking over. Holds the
    /// reason.
    Postponed(&'static str),
    /// A name is invalid. Holds the problem.
    InvalidName(String),
    /// The record type is unknown.
    UnknownType(String),
    /// The duration of a pause or a grant is too long.
    PauseTooLong {
        /// The requested duration in seconds.
        secs: u64,
        /// The longest duration in seconds.
        most_secs: u64,
    },
    /// The duration of a negative trust anchor is out of bounds.
    LifetimeOutOfBounds {
        /// The longest duration in seconds.
        most_secs: u64,
    },
    /// A pause or a grant has no effect, because the configuration filters nothing.
    NothingFiltered,
    /// No client has the name.
    UnknownClient(String),
    /// No listener has the name.
    UnknownListener(String),
    /// The scope has a name that no client has.
    UnknownClientInScope(String),
    /// The client is configured and has no address now.
    ClientWithoutAddress(String),
    /// No group has the name.
    UnknownGroup(String),
    /// The pause to end is not in force.
    NoSuchPause,
    /// The grant to end is not in force.
    NoSuchGrant,
    /// No request for access has the ID.
    UnknownRequest(u32),
    /// The pause or grant is invalid, or there are too many. Holds the reason.
    SwitchRefused(avocet_policy::PolicyError),
    /// The policy cannot be built with the change. Holds the reason.
    PolicyRefused(String),
    /// The configuration has no lists.
    NoLists,
    /// No list has the name.
    UnknownList(String),
    /// The list was not fetched yet.
    ListNotFetched(String),
    /// The copy of the list cannot be used.
    ListUnusable {
        /// The list.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A panic interrupted the work. Holds the message.
    Interrupted(&'static str),
    /// There are too many negative trust anchors. Holds the limit.
    TooManyNegativeAnchors(usize),
    /// The name has no negative trust anchor that a command set.
    NoNegativeAnchor(String),
    /// The configuration has errors, each on a line with its place.
    ConfigurationRefused(String),
    /// There is no such revision.
    UnknownRevision(u32),
    /// The revision is not on disk, or is damaged. Holds the reason.
    RevisionUnusable(String),
    /// The revision in force is not the one that the change is based on. Holds the number of the
    /// revision in force.
    OtherRevision(Option<u32>),
    /// A key or value of an edit is invalid. Holds the reason.
    InvalidEdit(String),
    /// The author of a change may not change keys that decide who may use the server. Holds these
    /// keys.
    AccessKeys(String),
    /// The configuration file cannot be changed now. Holds the reason.
    FileRefused(String),
    /// The configuration has no table of this name.
    UnknownTable(String),
    /// No revision is on probation.
    NoProbation,
    /// Too many checks of the configuration are in progress.
    TooManyChecks,
    /// The worker that resolves the name accepts no further work.
    Overloaded,
    /// Resolution did not finish in time.
    ResolutionTimeout,
    /// No rule resolves the name, or the server is overloaded.
    NotResolved,
    /// The query is invalid.
    InvalidQuery,
    /// Users or tokens are not changed.
    Access(AccessFault),
    /// Queries are not logged.
    NoQueryLog,
    /// The query log cannot be read or written. Holds the reason.
    QueryLog(String),
    /// A backup cannot be made. Holds the reason.
    BackupFailed(String),
    /// A backup cannot be restored. Holds the reason.
    BackupRefused(String),
    /// No restore waits for the next start.
    NoRestoreWaits,
    /// A request about the query log is invalid, or cannot be answered now.
    Log(LogFault),
    /// A request about a pool names something that does not exist.
    Pool(PoolFault),
    /// A device cannot be connected.
    Connect(ConnectFault),
    /// A certificate is not renewed.
    Renewal(RenewalRefusal),
    /// A request about a hosted zone names something that does not exist.
    Zone(ZoneFault),
}

words! {
    /// The name of a kind of error. A kind keeps its name in later versions.
    pub enum ErrorCode {
        /// The line is not a valid request: it is not JSON, or its fields are wrong.
        NotARequest = "not-a-request",
        /// Too many requests, searches or connections are in progress, or the server is overloaded.
        /// Try again later.
        Busy = "busy",
        /// The server is shutting down.
        ShuttingDown = "shutting-down",
        /// The client disconnected before its reply was complete.
        Disconnected = "disconnected",
        /// A value of the request is invalid.
        InvalidValue = "invalid-value",
        /// The request names something that does not exist.
        NotFound = "not-found",
        /// The sender of the request does not have the permission.
        Forbidden = "forbidden",
        /// Somebody else has changed the same thing since the sender read it.
        Conflict = "conflict",
        /// Something with this name exists already.
        Exists = "exists",
        /// The configuration does not have the subject of the request, such as a query log.
        NotConfigured = "not-configured",
        /// The present state of the server does not permit the request.
        NotPossible = "not-possible",
        /// The request would exceed a limit.
        LimitReached = "limit-reached",
        /// The configuration has errors.
        ConfigurationRefused = "configuration-refused",
        /// The data are missing or cannot be read, or the change cannot be written to the disk.
        Unavailable = "unavailable",
        /// The resolution did not end within 12 seconds, or the search of the query log within 10
        /// seconds.
        Timeout = "timeout",
        /// A defect of the server interrupted the work.
        Internal = "internal",
    }
}

impl ControlError {
    /// Returns the code of the error.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NotARequest(_) => ErrorCode::NotARequest,
            Self::Busy | Self::Overloaded | Self::TooManyChecks | Self::Postponed(_) => {
                ErrorCode::Busy
            }
            Self::ShuttingDown => ErrorCode::ShuttingDown,
            Self::Disconnected => ErrorCode::Disconnected,
            Self::InvalidName(_)
            | Self::UnknownType(_)
            | Self::PauseTooLong { .. }
            | Self::LifetimeOutOfBounds { .. }
            | Self::SwitchRefused(_)
            | Self::InvalidEdit(_)
            | Self::BackupRefused(_)
            | Self::InvalidQuery => ErrorCode::InvalidValue,
            Self::UnknownClient(_)
            | Self::UnknownListener(_)
            | Self::UnknownClientInScope(_)
            | Self::UnknownGroup(_)
            | Self::NoSuchPause
            | Self::NoSuchGrant
            | Self::UnknownRequest(_)
            | Self::UnknownList(_)
            | Self::UnknownRevision(_)
            | Self::UnknownTable(_)
            | Self::NoNegativeAnchor(_) => ErrorCode::NotFound,
            Self::NothingFiltered | Self::NoLists | Self::NoQueryLog => ErrorCode::NotConfigured,
            Self::OtherRevision(_) | Self::FileRefused(_) => ErrorCode::Conflict,
            Self::TakeOverRefused
            | Self::ClientWithoutAddress(_)
            | Self::NoProbation
            | Self::NoRestoreWaits
            | Self::PolicyRefused(_) => ErrorCode::NotPossible,
            Self::AccessKeys(_) => ErrorCode::Forbidden,
            Self::TooManyNegativeAnchors(_) => ErrorCode::LimitReached,
            Self::ConfigurationRefused(_) => ErrorCode::ConfigurationRefused,
            Self::ListNotFetched(_)
            | Self::ListUnusable { .. }
            | Self::RevisionUnusable(_)
            | Self::NotResolved
            | Self::BackupFailed(_)
            | Self::QueryLog(_) => ErrorCode::Unavailable,
            Self::ResolutionTimeout => ErrorCode::Timeout,
            Self::Interrupted(_) => ErrorCode::Internal,
            Self::Access(fault) => fault.code(),
            Self::Log(fault) => fault.code(),
            Self::Pool(fault) => fault.code(),
            Self::Connect(fault) => of_connect(fault),
            Self::Renewal(RenewalRefusal::Off) => ErrorCode::NotConfigured,
            Self::Renewal(RenewalRefusal::TooMany(_)) => ErrorCode::LimitReached,
            Self::Zone(fault) => fault.code(),
        }
    }

    /// Returns the next step for the user, if the message does not state it.
    pub const fn next(&self) -> Option<&'static str> {
        Some(match self {
            Self::Busy | Self::TooManyChecks | Self::Postponed(_) => "try again",
            Self::UnknownRequest(_) => "see `avocet requests list`",
            Self::UnknownClient(_) => "give --client an address or the name of a [[client]]",
            Self::UnknownListener(_) => "give --listener the name of a [[listener]]",
            Self::UnknownClientInScope(_) => "add a [[client]], or use its address",
            Self::ClientWithoutAddress(_) => "give --client an address",
            Self::ListNotFetched(_) => "see `avocet lists status`",
            Self::TooManyNegativeAnchors(_) => "remove one",
            Self::AccessKeys(_) => "use a user or token with the scope access:write",
            Self::UnknownRevision(_) => "`avocet config history` lists the revisions",
            Self::Access(fault) => return fault.next(),
            Self::Log(fault) => return fault.next(),
            Self::Pool(fault) => return fault.next(),
            Self::Renewal(RenewalRefusal::Off) => "add [acme] with `names`",
            Self::Renewal(RenewalRefusal::TooMany(_)) => "wait an hour: authorities have limits",
            Self::Zone(fault) => return fault.next(),
            Self::NoQueryLog => "set enabled = true in [query-log]",
            _ => return None,
        })
    }
}

const fn of_connect(fault: &ConnectFault) -> ErrorCode {
    match fault {
        ConnectFault::Listener(_) | ConnectFault::Name(_) => ErrorCode::NotFound,
        ConnectFault::Word(_) => ErrorCode::InvalidValue,
        ConnectFault::NoListener(_) | ConnectFault::NoName => ErrorCode::NotConfigured,
        ConnectFault::Unsendable(_) | ConnectFault::Form(_) => ErrorCode::NotPossible,
    }
}

const NOTHING_FILTERED: &str = "nothing is filtered: there are no lists and no rules";
const NOT_RESOLVED: &str = "the server does not resolve it: no rule, or overload";
const TAKE_OVER_REFUSED: &str = "another process is taking over, or the server is shutting down";

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARequest(fault) => write!(f, "not a request: {fault}"),
            Self::Busy => f.write_str("too many control clients at once"),
            Self::ShuttingDown => f.write_str("the server is shutting down"),
            Self::Disconnected => f.write_str("the client is gone"),
            Self::TakeOverRefused => f.write_str(TAKE_OVER_REFUSED),
            Self::InvalidName(fault)
            | Self::PolicyRefused(fault)
            | Self::RevisionUnusable(fault)
            | Self::InvalidEdit(fault)
            | Self::FileRefused(fault) => f.write_str(fault),
            Self::UnknownRevision(number) => write!(f, "there is no revision {number}"),
            Self::OtherRevision(Some(number)) => {
                write!(f, "revision {number} is in force: the configuration has changed meanwhile")
            }
            Self::OtherRevision(None) => f.write_str("there are no revisions"),
            Self::UnknownTable(name) => write!(f, "the configuration has no table {name:?}"),
            Self::AccessKeys(keys) => {
                write!(f, "a change of {keys} needs the right access:write")
            }
            Self::NoProbation => f.write_str("no revision is on probation"),
            Self::SwitchRefused(error) => error.fmt(f),
            Self::ConfigurationRefused(errors) => f.write_str(errors),
            Self::Interrupted(fault) | Self::Postponed(fault) => f.write_str(fault),
            Self::UnknownType(word) => write!(f, "{word:?} is not a record type"),
            Self::PauseTooLong { secs, most_secs } => pause_too_long(f, *secs, *most_secs),
            Self::LifetimeOutOfBounds { most_secs } => {
                write!(f, "expected 1 to {most_secs} seconds (a week, RFC 7646)")
            }
            Self::NothingFiltered => f.write_str(NOTHING_FILTERED),
            Self::UnknownClient(name) => write!(f, "no client has the name {name:?}"),
            Self::UnknownListener(name) => write!(f, "there is no listener `{name}`"),
            Self::UnknownClientInScope(name) => write!(f, "unknown client {name:?}"),
            Self::ClientWithoutAddress(name) => {
                write!(f, "the client {name:?} has no address now")
            }
            Self::UnknownGroup(name) => write!(f, "unknown group {name:?}"),
            Self::NoSuchPause => f.write_str("no such pause"),
            Self::NoSuchGrant => f.write_str("no such grant"),
            Self::UnknownRequest(id) => write!(f, "no request for access has the number {id}"),
            Self::NoLists => f.write_str("no lists configured"),
            Self::UnknownList(name) => write!(f, "unknown list {name:?}"),
            Self::ListNotFetched(name) => write!(f, "{name:?} has not been fetched yet"),
            Self::ListUnusable { name, reason } => {
                write!(f, "the copy of {name:?} cannot be used: {reason}")
            }
            Self::TooManyNegativeAnchors(most) => {
                write!(f, "there are already {most} negative trust anchors")
            }
            Self::NoNegativeAnchor(name) => {
                write!(f, "{name} has no negative trust anchor from `avocet nta`")
            }
            Self::TooManyChecks => f.write_str("another check of the configuration is in progress"),
            Self::Overloaded => f.write_str("the server is too busy to resolve it"),
            Self::ResolutionTimeout => f.write_str("resolution did not finish in time"),
            Self::NotResolved => f.write_str(NOT_RESOLVED),
            Self::InvalidQuery => f.write_str("the query is not valid"),
            Self::Access(fault) => fault.fmt(f),
            Self::Log(fault) => fault.fmt(f),
            Self::Pool(fault) => fault.fmt(f),
            Self::Connect(fault) => fault.fmt(f),
            Self::Renewal(refusal) => refusal.fmt(f),
            Self::Zone(fault) => fault.fmt(f),
            Self::NoRestoreWaits => f.write_str("no backup waits for the next start"),
            Self::NoQueryLog => f.write_str("queries are not logged"),
            Self::QueryLog(reason) => write!(f, "the query log: {reason}"),
            Self::BackupFailed(reason) | Self::BackupRefused(reason) => f.write_str(reason),
        }
    }
}

fn pause_too_long(f: &mut fmt::Formatter<'_>, secs: u64, most_secs: u64) -> fmt::Result {
    write!(
        f,
        "expected 1 to {most_secs} seconds (365 days), or 0 to end the pause or grant, found {secs}"
    )
}

impl std::error::Error for ControlError {}

impl From<Disconnected> for ControlError {
    fn from(_: Disconnected) -> Self {
        Self::Disconnected
    }
}

impl From<AccessFault> for ControlError {
    fn from(fault: AccessFault) -> Self {
        Self::Access(fault)
    }
}

impl From<LogFault> for ControlError {
    fn from(fault: LogFault) -> Self {
        Self::Log(fault)
    }
}

impl From<PoolFault> for ControlError {
    fn from(fault: PoolFault) -> Self {
        Self::Pool(fault)
    }
}

impl From<ConnectFault> for ControlError {
    fn from(fault: ConnectFault) -> Self {
        Self::Connect(fault)
    }
}

impl From<ZoneFault> for ControlError {
    fn from(fault: ZoneFault) -> Self {
        Self::Zone(fault)
    }
}
