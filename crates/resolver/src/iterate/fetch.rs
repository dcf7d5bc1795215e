//! One question to the servers of one zone: what is asked, of whom, and what came.

use avocet_wire::header::{AA, RA};
use avocet_wire::view::RecordSection;
use avocet_wire::{Class, QuestionBuf, Rcode, Rtype};

use super::rrset::Name;
use crate::exchange::endpoint::{Endpoint, Strategy};
use crate::read::Reply;

/// Most servers of one inquiry: one bit each in the sets of an exchange.
pub(crate) const MAX_CANDIDATES: usize = 32;

/// How the servers of a zone are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Manner {
    /// They recurse for us.
    pub(crate) recursion_desired: bool,
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
    pub(crate) strategy: Strategy,
    pub(crate) case_randomisation: bool,
    pub(crate) timeout_ms: (u32, u32),
    /// The zone is known to be signed: without EDNS there are no signatures, and what comes is of
    /// no use.
    pub(crate) is_signed: bool,
}

impl Manner {
    /// How a copy of a zone is asked that is at hand.
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

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Inquiry {
    pub(crate) zone: Name,
    pub(crate) qname: Name,
    pub(crate) qtype: Rtype,
    pub(crate) servers: Vec<Endpoint>,
    pub(crate) manner: Manner,
    pub(crate) patience: Patience,
    /// Are the servers those of the configuration?
    pub(crate) are_listed: bool,
    /// Does a client want to know of the name? What is looked up to find servers costs no more than
    /// it must.
    pub(crate) is_of_client: bool,
    pub(crate) letters: Letters,
    /// Queries that these servers left unanswered before.
    pub(crate) unanswered: u32,
}

/// The case of the letters of names that servers are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Letters {
    /// Drawn at random where the server keeps it.
    #[default]
    Random,
    /// Lower case, after all servers gave errors to mixed case.
    Lower,
}

/// How much of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    Whole,
    /// Its last labels.
    Part,
}

/// How long servers are asked that do not answer: from the least patience to the most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Patience {
    /// As [`Patience::OneRound`], and one that has answered before is asked twice: the name is
    /// shortened, and some servers answer none but whole ones (RFC 9156 §3 step 6e).
    Shortened,
    /// Each once: there are others, whose addresses are still to be found.
    OneRound,
    /// As [`Patience::OneRound`] if none of them ever answered: their addresses may be wrong.
    WhileKnown,
    /// As long as the limits allow.
    All,
}

impl Inquiry {
    /// Returns the question.
    pub(crate) fn question(&self) -> QuestionBuf {
        QuestionBuf::new(self.qname.view(), self.qtype, Class::IN)
    }

    /// Is it the same question to the same zone?
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.qtype == other.qtype && self.qname == other.qname && self.zone == other.zone
    }

    /// Would the same be asked of the same servers? The more patient inquiry serves both.
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
    /// It is an error that the server may give to mixed case alone.
    pub(crate) may_mind_case: bool,
}

impl Fetched {
    pub(crate) fn is_authoritative(&self) -> bool {
        self.flags & AA != 0
    }

    /// Are there NSEC or NSEC3 records beside it?
    pub(crate) fn has_proof(&self) -> bool {
        let mut authority = self.reply.section(RecordSection::Authority);
        authority.any(|record| matches!(record.rtype, Rtype::NSEC | Rtype::NSEC3))
    }

    pub(crate) fn offers_recursion(&self) -> bool {
        self.flags & RA != 0
    }
}

/// Why there is no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotFetched {
    /// None of the servers answered so many queries.
    Silence(u32),
    /// No query left, for want of sockets of our own.
    Unsent,
    /// The network said that they cannot be reached.
    Unreachable,
    /// What came was no reply.
    Unusable,
    /// There is none that may be asked.
    NoServers,
    /// As many queries were sent as one question may cost.
    Exhausted,
    /// As many inquiries as are allowed are under way at the zone, or at all its servers.
    Crowded,
}
