//! The steps of a trace.

use std::net::SocketAddr;

use avocet_cache::Security;
use avocet_dnssec::{Reason, Verdict};
use avocet_wire::{Rcode, Rtype};

use crate::exchange::endpoint::{Carrier, TlsFault};
use crate::iterate::rrset::Name;

/// An event during the resolution of a question. Names are folded, in wire format.
#[derive(Clone, Debug)]
pub enum Step {
    /// A subordinate question starts. The deeper steps after this step belong to it.
    Seek {
        /// The purpose of the subordinate question.
        why: Why,
        /// The name of the subordinate question.
        name: Name,
        /// The type of the subordinate question.
        rtype: Rtype,
    },
    /// The addresses of a server were looked up. Holds the number of addresses that were found.
    Addresses(usize),
    /// Data was found in the cache.
    Cached {
        /// The owner of the data.
        name: Name,
        /// The type of the data.
        rtype: Rtype,
        /// The kind of data.
        find: Find,
        /// The remaining TTL, in seconds.
        ttl_secs: u32,
        /// The security status of the data.
        security: Security,
    },
    /// The resolution continues at this zone cut.
    Cut {
        /// The zone.
        zone: Name,
        /// The number of names of servers; for a configured zone, the number of their addresses.
        servers: usize,
        /// The number of known addresses of servers.
        addresses: usize,
    },
    /// A query was sent.
    Sent {
        /// The server.
        server: SocketAddr,
        /// The zone for which the server was queried; `None` for a forwarder.
        zone: Option<Name>,
        /// The QNAME of the query; `None` if it is the QNAME of the question, or the name to which
        /// its aliases have led so far.
        name: Option<Name>,
        /// The QTYPE of the query.
        rtype: Rtype,
        /// The transport of the query.
        carrier: Carrier,
        /// Whether the query has an OPT record.
        with_edns: bool,
        /// Whether a header of the PROXY protocol came before the query.
        with_proxy_header: bool,
    },
    /// The local copy of the root zone replied instead of a root server.
    LocalRoot {
        /// The QNAME to which the local copy of the root zone replied.
        name: Name,
        /// The QTYPE to which the local copy of the root zone replied.
        rtype: Rtype,
    },
    /// An alias led to a name that this server answers itself.
    Own {
        /// The name to which the alias led.
        name: Name,
        /// The queried type.
        rtype: Rtype,
    },
    /// An equal query was already in flight for another question. Its response serves both
    /// questions.
    Joined,
    /// A matching response arrived.
    Replied {
        /// The server.
        server: SocketAddr,
        /// The round-trip time.
        rtt_ms: u32,
        /// The kind of response.
        reaction: Reaction,
    },
    /// No response arrived within the timeout. A late response is still accepted.
    Silent {
        /// The server.
        server: SocketAddr,
        /// The timeout, in ms.
        after_ms: u32,
    },
    /// The network reported that this server is unreachable, or its connection broke.
    Unreachable(SocketAddr),
    /// TLS to this server failed.
    Tls(SocketAddr, TlsFault),
    /// The response was evaluated, with this result.
    Taken(Taken),
    /// No server sent a usable response. Holds the reason.
    NoReply(&'static str),
    /// An alias leads to this name.
    Alias(Name),
    /// Keys of a zone were verified, or failed verification.
    Chain {
        /// The zone.
        zone: Name,
        /// The key tags of the DS records or trust anchors that authenticate the keys.
        vouched: Vec<u16>,
        /// The key tags of the zone's keys.
        keys: Vec<u16>,
        /// The reason why the keys are not secure; `None` if they are secure.
        fault: Option<Reason>,
    },
    /// The keys of a zone, or the reason why it has no usable keys, were found in the cache.
    KnownChain {
        /// The zone.
        zone: Name,
        /// The reason why the zone has no usable keys; `None` if it has usable keys.
        fault: Option<Reason>,
    },
    /// Data or a denial was validated.
    Judged {
        /// The owner.
        name: Name,
        /// The type.
        rtype: Rtype,
        /// Signer, key tag and algorithm of the first signature.
        signature: Option<(Name, u16, u8)>,
        /// The security status.
        verdict: Verdict,
        /// The reason why the data is not secure; `None` if it is secure.
        fault: Option<Reason>,
    },
    /// A limit was reached. Holds its description.
    Limit(&'static str),
    /// The question ended with an answer.
    Answered {
        /// The RCODE.
        rcode: Rcode,
        /// Whether the whole answer is validated.
        authentic: bool,
    },
    /// The question failed.
    Failed {
        /// The code of the extended error for clients.
        ede: u16,
        /// The text of the extended error.
        text: &'static str,
    },
}

/// The purpose for which a subordinate question is resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The servers of the root zone must be found.
    Priming,
    /// The addresses of a name server must be found.
    Servers,
    /// Keys or DS records are needed for the chain of trust.
    Trust,
}

/// The kind of cached data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Find {
    /// Records of the type, or an alias in their place.
    Records,
    /// A NODATA response.
    Nodata,
    /// An NXDOMAIN response for the name or for an ancestor.
    Nxdomain,
    /// An NSEC or NSEC3 range that denies the name (RFC 8198).
    Gap,
}

/// The classification of a response before its evaluation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// The response is a message with this RCODE.
    Message(Rcode),
    /// The response is truncated, so the query is repeated over TCP.
    Truncated,
    /// The question in the response has other letter case, so the query is repeated over TCP.
    OtherCase,
    /// The client cookie in the response is not ours, so the query is repeated over TCP.
    OtherCookie,
    /// The response is malformed.
    Malformed,
    /// The response has the RCODE BADCOOKIE.
    BadCookie,
    /// The response suggests that the server rejects cookies, so the query is repeated without a
    /// cookie. Holds the RCODE.
    WithoutCookie(Rcode),
    /// The response suggests that the server does not support EDNS, so the query is repeated
    /// without EDNS. Holds the RCODE.
    WithoutEdns(Rcode),
}

/// The result of evaluating a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The response has an answer, a denial or an alias.
    Answer,
    /// The response is a referral to this zone.
    Referral(Name),
    /// The response has data from a server that does not serve the zone. It is used only as a last
    /// resort.
    Hearsay,
    /// The server does not serve the zone.
    Lame,
    /// The response has data without the signatures of a signed zone. It is used only as a last
    /// resort.
    Unsigned,
    /// The response has this RCODE, which is an error.
    Error(Rcode),
    /// The response is unusable.
    Unusable,
}
