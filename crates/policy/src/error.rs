//! Errors in the values of rules, clients and switches.

use avocet_wire::name::NameError;
use avocet_wire::text::TextError;
use thiserror::Error;

use crate::rule::{Fault, SERVER_FORM, ServerFault};

/// An error in the values of rules, clients and switches. The text is a clause about the value.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PolicyError {
    /// A rule, client or group has no name.
    #[error("the name is missing")]
    NoName,
    /// The name of a client or group is too long. Holds the maximum number of octets.
    #[error("the name is longer than {0} octets")]
    LongName(usize),
    /// Two groups or two clients have the same name. Contains `group` or `client`.
    #[error("duplicate {0} name")]
    DuplicateName(&'static str),
    /// There is no list with this name.
    #[error("there is no list `{0}`")]
    UnknownList(String),
    /// There is no group with this name.
    #[error("there is no group `{0}`")]
    UnknownGroup(String),
    /// The text does not identify a client.
    #[error("`{text}` is {source}")]
    ClientId {
        /// The text that identifies no client.
        text: String,
        /// The problem.
        source: NotAnId,
    },
    /// A member of a group is neither the name nor an identifier of a client.
    #[error("`{text}` is not the name of a client, and {source}")]
    GroupMember {
        /// The member as written in the configuration.
        text: String,
        /// The reason why the text is not an identifier.
        source: NotAnId,
    },
    /// Another client has the same identifier. Holds the name of that client.
    #[error("client `{0}` has it too")]
    ClaimedTwice(String),
    /// There are too many lists. Holds the limit.
    #[error("more than {0}; merge several sources into one list")]
    TooManyLists(usize),
    /// There are too many groups or clients. Holds the limit.
    #[error("more than {0}")]
    TooMany(usize),
    /// Too many profiles are needed to distinguish clients by groups, clients and rules. Holds the
    /// limit.
    #[error("more than {0} client profiles; test groups instead of addresses in rules")]
    TooManyProfiles(usize),
    /// There are too many pauses or grants. Holds the limit.
    #[error("there are already {0}")]
    TooManySwitches(usize),
    /// A domain name is not a valid internationalised name (UTS 46).
    #[error("it is not a valid internationalised name")]
    InternationalisedName,
    /// The text is not a domain name.
    #[error(transparent)]
    NameText(#[from] TextError),
    /// The wire form is not a domain name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A name that may have private addresses is invalid.
    #[error("`{name}`: {source}")]
    RebindingException {
        /// The name.
        name: String,
        /// The problem.
        source: Box<Self>,
    },
    /// There is no time zone with this name.
    #[error(
        "there is no time zone `{name}`{}{}",
        if advice.is_some() { ": " } else { "" },
        advice.as_deref().unwrap_or_default()
    )]
    UnknownTimeZone {
        /// The name.
        name: String,
        /// A suggestion of similar names.
        advice: Option<String>,
    },
    /// A regular expression is too long. Holds the maximum number of octets.
    #[error("the pattern is longer than {0} octets")]
    LongPattern(usize),
    /// A regular expression needs too much memory.
    #[error("the pattern is too large when compiled")]
    LargePattern,
    /// The regular expressions of all rules together need too much memory. Holds the limit in MiB.
    #[error("the patterns of all rules together are larger than {0} MiB when compiled")]
    TooManyPatterns(usize),
    /// A regular expression is malformed. Holds the reason that its parser gives, in one line.
    #[error("{0}")]
    PatternSyntax(String),
    /// The action of a rule does not use these settings.
    #[error("{} no meaning for this action", stray(.0))]
    StraySettings(Vec<&'static str>),
    /// Several settings of an action are invalid.
    #[error("{}", joined(.0))]
    Several(Vec<Self>),
    /// The tag of an action is missing or too long. Holds the maximum number of octets.
    #[error("`tag` needs a word of at most {0} octets")]
    Tag(usize),
    /// A blocking rule has addresses in `to`, but its kind of block does not use them.
    #[error("`to` needs `answer = \"addresses\"`")]
    UnusedAddresses,
    /// An action has too few or too many values in `to`.
    #[error("`to` needs 1 to {most} {what}")]
    TargetCount {
        /// The kind of value, in the plural.
        what: &'static str,
        /// Maximum number of values.
        most: usize,
    },
    /// A redirection has no target.
    #[error("`to` needs addresses or a name")]
    NoTarget,
    /// The text is not an address.
    #[error("`{0}` is not an address")]
    NotAnAddress(String),
    /// The text is neither a server nor a zone with servers.
    #[error(
        "`{0}` is neither {SERVER_FORM} nor the zone of a [[forward]] over UDP, without \
             discover = \"strict\" and proxy-protocol"
    )]
    NotAServer(String),
    /// No server can have the address.
    #[error("`{text}` {source}")]
    Server {
        /// The address.
        text: String,
        /// The problem.
        source: ServerFault,
    },
    /// A TTL is too long. Holds the limit in seconds.
    #[error("a TTL is at most {0} seconds")]
    LongTtl(u32),
    /// The action on TTLs has no bound.
    #[error("`ttl` needs `min-secs` or `max-secs`")]
    NoTtlBound,
    /// The lower bound of TTLs is greater than the upper bound.
    #[error("`min-secs` is greater than `max-secs`")]
    CrossedTtlBounds,
    /// A rate limit has no rate.
    #[error("`rate-limit` needs `rps`")]
    NoRate,
    /// A rate limit is out of bounds. Holds the highest rate.
    #[error("`rps` and `burst` are from 1 to {0}")]
    RateOutOfBounds(u32),
    /// The condition of a rule cannot be parsed or compiled.
    #[error("column {}\n{}", .fault.column(.when), .fault.shown(.when))]
    Condition {
        /// The condition.
        when: String,
        /// The problem and its position in the condition.
        #[source]
        fault: Fault,
    },
    /// A rule tests the answer, but its action takes effect before there is an answer.
    #[error("this action applies to the question, but the condition tests the answer")]
    TooEarly,
    /// There are too many rules. Holds the limit.
    #[error("more than {0} rules")]
    TooManyRules(usize),
    /// All rules together have too many conditions of one kind.
    #[error("all rules together have more than {most} {what}")]
    RulesTooLarge {
        /// The kind of condition, in the plural.
        what: &'static str,
        /// The limit.
        most: usize,
    },
}

/// The text identifies no client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "neither an address, a network, a MAC address, a host name, `id:WORD`, `certificate:NAME` nor \
     `pin:` with SHA-256 of a key in base64"
)]
pub struct NotAnId;

fn stray(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let verb = if names.len() == 1 { "has" } else { "have" };
    format!("{} {verb}", quoted.join(", "))
}

fn joined(errors: &[PolicyError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
