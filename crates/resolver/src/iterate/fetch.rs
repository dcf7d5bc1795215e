//! An inquiry, which is one question to the servers of one zone, and its result.

use avocet_wire::header::{AA, RA};
use avocet_wire::{Class, QuestionBuf, Rcode, Rtype};

use super::rrset::Name;
use crate::exchange::endpoint::{Endpoint, Strategy, TlsFault};
use crate::read::Reply;

/// Maximum number of servers of one inquiry: one bit each in the sets of an exchange.
pub(crate) const MAX_CANDIDATES: usize = 32;

/// The way in which the servers of a zone are queried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Manner {
    /// Whether the servers recurse.
    pub(crate) recursion_desired: bool,
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
    pub(crate) strategy: Strategy,
    pub(crate) case_randomisation: bool,
    pub(crate) timeout_ms: (u32, u32),
    /// Whether the zone is known to be signed: without EDNS there are no signatures, and the reply
    /// is useless.
    pub(crate) is_signed: bool,
}

impl Manner {
    /// The way in which a local copy of a zone is queried.
    pub(crate) const OF_COPY: Self = Self {
        recursion_desired: false,
        dnssec_ok: true,
        checking_disabled: false,
        strategy: Strategy::Fastest,
        case_randomisation: false,
        timeout_ms: (0, 0),
        is_signed: true,
    };
}

/// A question to the servers of a zone.
#[derive(Clone, Debug)]
pub(crate) struct Inquiry {
    pub(crate) zone: Name,
    pub(crate) qname: Name,
    pub(crate) qtype: Rtype,
    pub(crate) servers: Vec<Endpoint>,
    pub(crate) manner: Manner,
    pub(crate) patience: Patience,
    /// Whether the configuration names the servers.
    pub(crate) are_listed: bool,
    /// Whether the data is for a client. Look-ups of servers get fewer retries.
    pub(crate) is_of_client: bool,
    pub(crate) letters: Letters,
    /// Queries that these servers left unanswered before.
    pub(crate) unanswered: u32,
}

/// The letter case of names in queries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Letters {
    /// The case is random, if the server preserves it.
    #[default]
    Random,
    /// Lower case, after all servers returned errors for mixed case.
    Lower,
}

/// The part of a name in the query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    Whole,
    /// The query has only the last labels of the name.
    Part,
}

/// The patience with silent servers, from the least to the most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Patience {
    /// Like [`Patience::OneRound`], but a server that has answered before gets two queries: the
    /// name is shortened, and some servers answer only for the whole name (RFC 9156 §3 step 6e).
    Shortened,
    /// Each server is queried once, because addresses of other servers can be looked up.
    OneRound,
    /// Like [`Patience::OneRound`] if none of the servers ever answered: their addresses may be
    /// wrong.
    WhileKnown,
    /// Servers are queried up to the limits.
    All,
}

impl Inquiry {
    /// Returns the question.
    pub(crate) fn question(&self) -> QuestionBuf {
        QuestionBuf::new(self.qname.view(), self.qtype, Class::IN)
    }

    /// Returns whether both ask the same question of the same zone.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.qtype == other.qtype && self.qname == other.qname && self.zone == other.zone
    }

    /// Returns whether both inquiries send the same question to the same servers. The more patient
    /// one serves both.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.qtype == other.qtype
            && self.qname == other.qname
            && self.zone == other.zone
            && self.manner == other.manner
            && self.letters == other.letters
            && self.servers == other.servers
    }
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) reply: Reply,
    pub(crate) rcode: Rcode,
    pub(crate) flags: u16,
    pub(crate) server: Endpoint,
    /// Whether the reply is an error that may be due to mixed case.
    pub(crate) may_mind_case: bool,
}

impl Fetched {
    pub(crate) fn is_authoritative(&self) -> bool {
        self.flags & AA != 0
    }

    /// Returns whether the reply has NSEC or NSEC3 records.
    pub(crate) fn has_proof(&self) -> bool {
        self.reply.has_proof()
    }

    pub(crate) fn offers_recursion(&self) -> bool {
        self.flags & RA != 0
    }
}

/// The reason why there is no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotFetched {
    /// No server replied; this number of queries was sent.
    Silence(u32),
    /// This host lacked sockets, so that no query left.
    Unsent,
    /// The network reported that the servers are unreachable.
    Unreachable,
    /// TLS to a server failed.
    Tls(TlsFault),
    /// The received message was no usable reply.
    Unusable,
    /// No server may be queried.
    NoServers,
    /// The question has reached its limit of queries.
    Exhausted,
    /// The zone, or all its servers, have reached their limit of inquiries in flight.
    Crowded,
}
