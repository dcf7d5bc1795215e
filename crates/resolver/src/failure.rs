//! Why a question has no answer.

use avocet_wire::Ede;

/// Why a task has no answer so far. Later variants say more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Failure {
    /// Nobody answered.
    Silence,
    /// A network error at each attempt.
    Network,
    /// What came could not be used.
    Unusable,
    /// REFUSED.
    Refused,
    /// SERVFAIL, with the upstream's own extended error if it gave one.
    Servfail(Option<u16>),
    /// No server is known for a zone, or none of those may be asked.
    NoServers,
    /// The servers of a zone do not serve it.
    Lame,
    /// Aliases in a circle, or too many of them.
    Aliases,
    /// Too many servers of a zone have no address.
    TooManyServers,
    /// Too many referrals for one name.
    TooManyReferrals,
    /// The RRset has more records than are taken, whoever is asked.
    TooManyRecords,
    /// Servers give data that is not as its type says.
    Malformed,
    /// The question costs too many queries, or too many octets of replies.
    TooManyQueries,
    /// Too many queries are under way at a zone or its servers.
    Crowded,
    /// Validation failed, with the extended error that says why.
    Bogus(u16),
    /// No rule for a name that an alias leads to.
    NoRule,
    /// A root key sentinel asks for what is not so (RFC 8509).
    Sentinel,
}

impl Failure {
    /// The error that clients are told.
    pub(crate) fn ede(self) -> (Ede, &'static str) {
        match self {
            Self::Silence => (Ede::NO_REACHABLE_AUTHORITY, "no upstream answered in time"),
            Self::Network => (Ede::NETWORK_ERROR, "no upstream could be reached"),
            Self::Unusable => (Ede::INVALID_DATA, "no upstream sent a usable response"),
            Self::Refused => (Ede::NO_REACHABLE_AUTHORITY, "the upstreams refused the query"),
            Self::Servfail(None) => {
                (Ede::NO_REACHABLE_AUTHORITY, "the upstreams answered SERVFAIL")
            }
            Self::Servfail(Some(code)) => (Ede(code), "reported by upstream"),
            Self::Aliases => (Ede::OTHER, "CNAME loop or chain too long"),
            Self::NoServers => (Ede::NO_REACHABLE_AUTHORITY, "no name server of the zone is known"),
            Self::Lame => (Ede::NO_REACHABLE_AUTHORITY, "the name servers of the zone are lame"),
            Self::TooManyServers => {
                (Ede::NO_REACHABLE_AUTHORITY, "too many servers without an address")
            }
            Self::TooManyReferrals => (Ede::OTHER, "too many referrals"),
            Self::TooManyRecords => (Ede::OTHER, "the answer has too many records"),
            Self::Malformed => (Ede::INVALID_DATA, "the data of the answer is malformed"),
            Self::TooManyQueries => (Ede::OTHER, "too many queries needed for one question"),
            Self::Crowded => (Ede::NETWORK_ERROR, "too many queries in flight to the zone"),
            Self::Bogus(code) => (Ede(code), Ede(code).meaning()),
            Self::Sentinel => (Ede::OTHER, "root key sentinel test failed"),
            Self::NoRule => (Ede::NOT_AUTHORITATIVE, "no forwarding rule for this name"),
        }
    }
}
