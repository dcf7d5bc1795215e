//! Failures of resolution.

use avocet_wire::Ede;

use crate::exchange::endpoint::TlsFault;

/// The reason why a task has no answer yet. Later variants are more specific than earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Failure {
    /// No server answered.
    Silence,
    /// Each attempt ended with a network error.
    Network,
    /// TLS to an upstream failed.
    Tls(TlsFault),
    /// The responses were not usable.
    Unusable,
    /// The servers answered with REFUSED.
    Refused,
    /// A server answered with SERVFAIL. Holds the code of its extended error, if it gave one.
    Servfail(Option<u16>),
    /// A zone has no known server, or no server that may be queried.
    NoServers,
    /// The servers of a zone do not serve it.
    Lame,
    /// Aliases form a loop, or there are too many of them.
    Aliases,
    /// Too many servers of a zone have no address.
    TooManyServers,
    /// There were too many referrals for one name.
    TooManyReferrals,
    /// An RRset has more records than are accepted.
    TooManyRecords,
    /// The data of a record does not match its type.
    Malformed,
    /// The question requires too many queries, or too many octets of responses.
    TooManyQueries,
    /// Too many queries are in flight for a zone or its servers.
    Crowded,
    /// Validation failed. Holds the code of the extended error for the reason.
    Bogus(u16),
    /// An alias leads to a name for which no rule applies.
    NoRule,
    /// The test of a root key sentinel failed (RFC 8509).
    Sentinel,
}

impl Failure {
    /// Returns the extended error for clients.
    pub(crate) fn ede(self) -> (Ede, &'static str) {
        match self {
            Self::Silence => (Ede::NO_REACHABLE_AUTHORITY, "no upstream answered in time"),
            Self::Network => (Ede::NETWORK_ERROR, "no upstream could be reached"),
            Self::Tls(fault) => (Ede::NETWORK_ERROR, fault.text()),
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
