//! The columns of the log. The head, the segments, the search and the export all use this table.
//!
//! There are three kinds: integers, texts and sets of texts. Each text is stored once in a block or
//! row group, and all columns refer to it by number.

/// A column with integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Int {
    /// Time of the answer in microseconds since the epoch.
    Time = 0,
    /// Revision of the configuration.
    Revision = 1,
    /// The second 16 bits of the reply's header: its flags and RCODE.
    Flags = 2,
    /// The code of the extended error; may be null.
    Ede = 3,
    /// Time from the query to the answer in microseconds.
    Delay = 4,
    /// Round-trip time to the upstream in microseconds; may be null.
    Rtt = 5,
    /// Number of octets of the query.
    QuerySize = 6,
    /// Number of octets of the reply.
    ResponseSize = 7,
    /// ANCOUNT of the reply.
    AnswerCount = 8,
}

/// A column with texts. An empty text means that the entry has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Text {
    /// Address of the client.
    Client = 0,
    /// Name of the client.
    Device = 1,
    /// Transport.
    Transport = 2,
    /// Listener.
    Listener = 3,
    /// QNAME in presentation format, in lower case.
    Qname = 4,
    /// QTYPE.
    Qtype = 5,
    /// QCLASS.
    Qclass = 6,
    /// RCODE.
    Rcode = 7,
    /// Stage of the query path that decided the answer.
    Stage = 8,
    /// Outcome.
    Outcome = 9,
    /// Rule or list that decided the answer.
    Rule = 10,
    /// Upstream that answered.
    Upstream = 11,
    /// The state of the caches: how they were used.
    Cache = 12,
    /// The result of validation.
    Validation = 13,
    /// The last alias and the first addresses of the answer.
    Answer = 14,
}

/// A column with sets of texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Set {
    /// Groups of the client.
    Groups = 0,
    /// Lists that contain the name.
    Lists = 1,
}

/// Number of columns of each kind.
pub(crate) const INTS: usize = 9;
pub(crate) const TEXTS: usize = 15;
pub(crate) const SETS: usize = 2;

/// The integer that means null in a column of integers.
pub(crate) const NULL: i64 = i64::MIN;

/// Names of the columns with integers, in the order of [`Int`].
pub const INT_NAMES: [&str; INTS] = [
    "time",
    "revision",
    "response_flags",
    "ede",
    "response_delay_us",
    "upstream_rtt_us",
    "query_size",
    "response_size",
    "response_ancount",
];
/// Names of the columns with texts, in the order of [`Text`].
pub const TEXT_NAMES: [&str; TEXTS] = [
    "client_address",
    "client_name",
    "transport",
    "listener",
    "qname",
    "qtype",
    "qclass",
    "rcode",
    "stage",
    "outcome",
    "rule",
    "upstream",
    "cache",
    "dnssec",
    "answer",
];
/// Names of the columns with sets, in the order of [`Set`].
pub const SET_NAMES: [&str; SETS] = ["client_groups", "lists"];

impl Int {
    /// All columns with integers.
    pub const ALL: [Self; INTS] = [
        Self::Time,
        Self::Revision,
        Self::Flags,
        Self::Ede,
        Self::Delay,
        Self::Rtt,
        Self::QuerySize,
        Self::ResponseSize,
        Self::AnswerCount,
    ];

    pub(crate) fn may_be_null(self) -> bool {
        matches!(self, Self::Ede | Self::Rtt)
    }
}

impl Text {
    /// All columns with texts.
    pub const ALL: [Self; TEXTS] = [
        Self::Client,
        Self::Device,
        Self::Transport,
        Self::Listener,
        Self::Qname,
        Self::Qtype,
        Self::Qclass,
        Self::Rcode,
        Self::Stage,
        Self::Outcome,
        Self::Rule,
        Self::Upstream,
        Self::Cache,
        Self::Validation,
        Self::Answer,
    ];
}

impl Set {
    /// All columns with sets.
    pub const ALL: [Self; SETS] = [Self::Groups, Self::Lists];
}
