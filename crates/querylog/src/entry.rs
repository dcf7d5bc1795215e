//! The record of one answer, as a worker writes it.
//!
//! A [`RawEntry`] borrows all data that is longer than a few octets. The worker copies this data
//! only once, into its [ring](crate::ring()). The thread that takes a record out completes it to an
//! [`Entry`]. Numbers represent everything that has a name, such as a rule. The writer of the log
//! translates them through [`Labels`], once for each number and revision, so that no text is
//! handled while a query is answered. The writer also makes the summary of the answer: the worker
//! only copies the first octets of the answer section.

use std::net::IpAddr;

/// Maximum number of octets of the answer section that an entry holds. The worker copies them
/// without parsing. They suffice for an alias, and four IPv4 addresses or two IPv6 addresses.
pub const MAX_ANSWER_OCTETS: usize = 96;
/// Maximum number of lists in an entry. If a name is on more lists, the entry has the first of
/// them.
pub const MAX_ENTRY_LISTS: usize = 15;

/// The record of one answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// The fields that have a fixed size.
    pub facts: Facts,
    /// QNAME in uncompressed wire form, as in the query or folded. Empty if no question was read.
    pub qname: &'a [u8],
    /// The identifiers of the lists that contain the name, as [`Label::List`]. At most
    /// [`MAX_ENTRY_LISTS`] are kept.
    pub lists: &'a [u16],
    /// The octets of the reply after its question, of which at most [`MAX_ANSWER_OCTETS`] are kept.
    /// Empty if there is no answer section.
    pub answer: &'a [u8],
}

/// The part of an [`Entry`] with a fixed size.
///
/// Most numbers identify something that has a text; see [`Label`]. Such an identifier is valid only
/// within one revision of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Time of the answer in microseconds since the epoch.
    pub time_us: u64,
    /// Address of the client.
    pub client: IpAddr,
    /// Time from the query to the answer in microseconds.
    pub response_delay_us: u32,
    /// Round-trip time of the upstream that answered, in microseconds; zero if no upstream was
    /// queried.
    pub upstream_rtt_us: u32,
    /// Revision of the configuration that decided the answer.
    pub revision: u32,
    /// Identifier of the client's set of groups, as [`Label::Groups`].
    pub profile: u16,
    /// Identifier of the client's name, as [`Label::Device`]; zero if the client has no name.
    pub device: u16,
    /// Number that identifies the client's device; see [`RawFacts::device`].
    pub known_as: u64,
    /// Identifier of the listener, as [`Label::Listener`]; zero if the listener has no name.
    pub listener: u16,
    /// Identifier of the upstream that answered, as [`Label::Upstream`]; zero if no upstream was
    /// queried.
    pub upstream: u16,
    /// Identifier of the rule or list that decided the answer, as [`Label::Rule`]; zero if neither
    /// decided.
    pub rule: u16,
    /// QTYPE.
    pub qtype: u16,
    /// QCLASS.
    pub qclass: u16,
    /// The second 16 bits of the reply's header: QR to RCODE (RFC 1035 §4.1.1).
    pub flags: u16,
    /// RCODE, including its upper bits from OPT (RFC 6891 §6.1.3).
    pub rcode: u16,
    /// INFO-CODE of the extended error (RFC 8914); [`NO_EDE`] if there is none.
    pub ede: u16,
    /// ANCOUNT of the reply.
    pub answer_count: u16,
    /// Number of octets of the query.
    pub query_size: u16,
    /// Number of octets of the reply; zero if no reply was sent.
    pub response_size: u16,
    /// Identifier of the stage of the query path that decided the answer, as [`Label::Stage`].
    pub stage: u8,
    /// Identifier of the transport, as [`Label::Transport`].
    pub transport: u8,
    /// Identifier of the state of the caches, as [`Label::Cache`].
    pub cache: u8,
    /// Identifier of the result of validation, as [`Label::Validation`].
    pub validation: u8,
    /// The outcome of the query.
    pub outcome: Outcome,
    /// How much the log may show of the client and its question.
    pub privacy: Privacy,
}

/// The record of one answer, as a worker pushes it to a ring. It borrows the messages.
#[derive(Clone, Copy, Debug)]
pub struct RawEntry<'a> {
    /// Address of the client.
    pub client: &'a IpAddr,
    /// The question in wire form, in any letter case; empty if no question was read.
    pub question: &'a [u8],
    /// The reply; empty if no reply was sent. At most [`MAX_ANSWER_OCTETS`] octets after the
    /// question are kept.
    pub reply: &'a [u8],
}

/// The fields of a [`RawEntry`] that have a fixed size. The thread that takes the entry out of the
/// ring computes the other [`Facts`].
#[derive(Clone, Copy, Debug)]
pub struct RawFacts {
    /// Time of the answer in microseconds since the epoch. Only 56 bits are kept.
    pub time_us: u64,
    /// Time from the query to the answer in microseconds.
    pub response_delay_us: u32,
    /// Round-trip time of the upstream that answered, in milliseconds; zero if no upstream was
    /// queried.
    pub upstream_rtt_ms: u32,
    /// The number of the configuration and lists that decided, counted from 1 since the start.
    pub revision: u32,
    /// Identifier of the client's set of groups in the worker's configuration.
    pub profile: u16,
    /// Number that identifies the client's device, independent of its address; zero if the device
    /// is not known.
    pub device: u64,
    /// Identifier of the listener, as [`Label::Listener`].
    pub listener: u16,
    /// Number of the upstream, as [`Label::Upstream`]; zero if no upstream was queried.
    pub upstream: u16,
    /// Identifier of the rule or list that decided the answer, as [`Label::Rule`]; zero if neither
    /// decided.
    pub rule: u16,
    /// RCODE, including its upper bits from OPT (RFC 6891 §6.1.3).
    pub rcode: u16,
    /// INFO-CODE of the extended error (RFC 8914); [`NO_EDE`] if there is none.
    pub ede: u16,
    /// Number of octets of the query.
    pub query_size: u16,
    /// Identifier of the stage of the query path that decided the answer, as [`Label::Stage`].
    pub stage: u8,
    /// Identifier of the transport, as [`Label::Transport`].
    pub transport: u8,
    /// Identifier of the state of the caches, as [`Label::Cache`].
    pub cache: u8,
    /// Identifier of the result of validation, as [`Label::Validation`].
    pub validation: u8,
}

/// The value of [`Facts::ede`] if there is no extended error. The IANA registry reserves this code
/// for private use.
pub const NO_EDE: u16 = u16::MAX;

/// The outcome of a query. Overviews, retention and filters distinguish only these few outcomes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// The query was answered with data or a denial, from an upstream or from a cache.
    Answered = 0,
    /// The query was answered from local records or special names.
    Local = 1,
    /// The query was blocked by a rule or list.
    Blocked = 2,
    /// The query was answered with different data, by a rule.
    Rewritten = 3,
    /// The query was refused, because the client is not allowed or a rate limit was exceeded.
    Refused = 4,
    /// No reply was sent.
    Dropped = 5,
    /// Resolution failed.
    Failed = 6,
    /// The query was malformed, or is of a kind that is not implemented.
    Malformed = 7,
}

/// The names of the outcomes, in the order of [`Outcome`].
pub const OUTCOMES: [&str; 8] =
    ["answered", "local", "blocked", "rewritten", "refused", "dropped", "failed", "malformed"];

impl Outcome {
    /// All outcomes in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Answered,
        Self::Local,
        Self::Blocked,
        Self::Rewritten,
        Self::Refused,
        Self::Dropped,
        Self::Failed,
        Self::Malformed,
    ];

    /// Returns the outcome with this name from [`OUTCOMES`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        OUTCOMES.iter().position(|outcome| *outcome == name).map(|index| Self::ALL[index])
    }

    /// Returns the name of the outcome.
    #[must_use]
    pub fn name(self) -> &'static str {
        OUTCOMES[self as usize]
    }
}

impl Facts {
    /// Returns the facts of an answered query for an A record. All other facts have default values.
    #[must_use]
    pub const fn of(time_us: u64, client: IpAddr) -> Self {
        Self {
            time_us,
            client,
            response_delay_us: 0,
            upstream_rtt_us: 0,
            revision: 0,
            profile: 0,
            device: 0,
            known_as: 0,
            listener: 0,
            upstream: 0,
            rule: 0,
            qtype: 1,
            qclass: 1,
            flags: 0,
            rcode: 0,
            ede: NO_EDE,
            answer_count: 0,
            query_size: 0,
            response_size: 0,
            stage: 0,
            transport: 0,
            cache: 0,
            validation: 0,
            outcome: Outcome::Answered,
            privacy: Privacy::Full,
        }
    }
}

/// How much the log shows of a client and its questions. Answers to clients with the setting `off`
/// are not logged at all.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Privacy {
    /// The log shows all details.
    #[default]
    Full = 0,
    /// The address is shortened to /24 or /56, and the client's name is omitted.
    Truncated = 1,
    /// The address is encrypted (ipcrypt-deterministic), and the client's name is omitted.
    Pseudonym = 2,
    /// The entry has neither the QNAME nor the answer, but the query is counted.
    NoNames = 3,
}

/// The kind of an identifier in [`Facts`] that has a text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Label {
    /// A stage of the query path, such as the packet cache.
    Stage = 0,
    /// A transport, such as `udp`.
    Transport = 1,
    /// A state of the caches, such as `hit`.
    Cache = 2,
    /// A result of validation, such as `secure`.
    Validation = 3,
    /// A listener.
    Listener = 4,
    /// The name of a client.
    Device = 5,
    /// An upstream.
    Upstream = 6,
    /// A rule.
    Rule = 7,
    /// The groups of a client, which have any number of texts.
    Groups = 8,
    /// A block list.
    List = 9,
}

/// A source of the texts that belong to numbers.
///
/// Only the thread of the writer calls this trait. The writer calls it once for each number and
/// revision, and keeps the texts for some time. For a revision that is no longer known, there are
/// no texts.
pub trait Labels {
    /// Calls `found` with the text that `number` has as a label of this kind in this revision.
    /// Calls `found` for each text of [`Label::Groups`], which may have any number of texts.
    fn texts(&self, revision: u32, label: Label, number: u16, found: &mut dyn FnMut(&str));
}
