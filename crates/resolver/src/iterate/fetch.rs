//! An inquiry, which is one question to the servers of one zone, and its result.

use avocet_wire::header::{AA, RA};
use avocet_wire::{Class, QuestionBuf, Rcode, Rtype};

use super::rrset::Name;
use crate::exchange::endpoint::{Endpoint, Strategy, TlsFault};
use crate::read::Reply;

/// Maximum number of servers of one inquiry. The sets of an exchange have one bit for each server.
pub(crate) const MAX_CANDIDATES: usize = 32;

/// The settings for queries to the servers of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Manner {
    /// Whether the servers are recursive resolvers.
    pub(crate) recursion_desired: bool,
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
    pub(crate) strategy: Strategy,
    pub(crate) case_randomisation: bool,
    pub(crate) timeout_ms: (u32, u32),
    /// Whether the zone is known to be signed. If so, queries need EDNS: replies without it have no
    /// signatures and are useless.
    pub(crate) is_signed: bool,
}

impl Manner {
    /// The settings for queries to the local copy of a zone.
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
    /// Whether the servers come from the configuration.
    pub(crate) are_listed: bool,
    /// Whether the data is part of a client's answer. The replies to shortened names are not.
    pub(crate) is_of_client: bool,
    pub(crate) letters: Letters,
    /// Number of earlier queries that these servers did not answer.
    pub(crate) unanswered: u32,
}

/// The letter case of names in queries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Letters {
    /// The letter case is random, unless the server is known not to preserve it.
    #[default]
    Random,
    /// All letters are in lower case, because all servers returned errors for mixed case.
    Lower,
}

/// The part of the name that is in the query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    Whole,
    /// The query has only the last labels of the name.
    Part,
}

/// The patience with servers that do not answer. Later variants query such servers more often.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Patience {
    /// Each server is queried once, and a server that has answered before twice. The name is
    /// shortened, and some servers answer only for the complete name (RFC 9156 §3 step 6e).
    Shortened,
    /// Each server is queried once, because addresses of other servers can be looked up.
    OneRound,
    /// If none of the servers has ever answered, each is queried once, because the addresses may be
    /// wrong. Otherwise like [`Patience::All`].
    WhileKnown,
    /// Servers are queried until a limit of the question is reached.
    All,
}

impl Inquiry {
    /// Returns the question.
    pub(crate) fn question(&self) -> QuestionBuf {
        QuestionBuf::new(self.qname.view(), self.qtype, Class::IN)
    }

    /// Returns whether the reply is useless without signatures, so that the query must have EDNS.
    pub(crate) fn needs_signatures(&self) -> bool {
        self.manner.is_signed || matches!(self.qtype, Rtype::DS | Rtype::DNSKEY)
    }

    /// Returns whether both inquiries are the same question to the same zone.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.qtype == other.qtype && self.qname == other.qname && self.zone == other.zone
    }

    /// Returns whether both inquiries send the same question to the same servers. If so, the more
    /// patient inquiry can serve both.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.qtype == other.qtype
            && self.qname == other.qname
            && self.zone == other.zone
            && self.manner == other.manner
            && self.letters == other.letters
            && self.servers == other.servers
    }
}

/// A reply to an inquiry, with the server that sent it.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) reply: Reply,
    pub(crate) rcode: Rcode,
    pub(crate) flags: u16,
    pub(crate) server: Endpoint,
    /// Whether the reply is an error that mixed letter case may have caused.
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
    /// No server replied. Holds the number of queries that were sent.
    Silence(u32),
    /// No query was sent, because this host had no free sockets.
    Unsent,
    /// The network reported that the servers are unreachable.
    Unreachable,
    /// TLS to a server failed.
    Tls(TlsFault),
    /// The received message was no usable reply.
    Unusable,
    /// There is no server that may be queried.
    NoServers,
    /// The question has reached its limit on queries.
    Exhausted,
    /// The zone, or each of its servers, has reached its limit on inquiries in flight.
    Crowded,
}
