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
    /// A subordinate question starts. The deeper steps that follow belong to it.
    Seek {
        /// The purpose of the subordinate question.
        why: Why,
        /// The name of the subordinate question.
        name: Name,
        /// The type of the subordinate question.
        rtype: Rtype,
    },
    /// The addresses of a server were resolved; the number of addresses.
    Addresses(usize),
    /// Data was found in the cache.
    Cached {
        /// The name.
        name: Name,
        /// The type.
        rtype: Rtype,
        /// The kind of data.
        find: Find,
        /// The remaining TTL.
        ttl_secs: u32,
        /// The security status.
        security: Security,
    },
    /// The resolution continues at this zone cut.
    Cut {
        /// The zone.
        zone: Name,
        /// The number of server names; for a configured zone, of addresses.
        servers: usize,
        /// The number of known addresses.
        addresses: usize,
    },
    /// A query was sent.
    Sent {
        /// The server.
        server: SocketAddr,
        /// The zone for which the server was queried; `None` for a forwarder.
        zone: Option<Name>,
        /// The QNAME; `None` for the QNAME of the question, or the current end of its aliases.
        name: Option<Name>,
        /// The QTYPE.
        rtype: Rtype,
        /// The transport of the query.
        carrier: Carrier,
        /// Whether the query has an OPT record.
        with_edns: bool,
        /// Whether a header of the PROXY protocol came before the query.
        with_proxy_header: bool,
    },
    /// The copy of the root zone replied instead of the root servers.
    LocalRoot {
        /// The name.
        name: Name,
        /// The type.
        rtype: Rtype,
    },
    /// An alias led to a name that this server answers itself.
    Own {
        /// The name.
        name: Name,
        /// The type.
        rtype: Rtype,
    },
    /// An equal query was in flight for another question: its response serves both.
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
    /// No response arrived within the timeout; a late one is still accepted.
    Silent {
        /// The server.
        server: SocketAddr,
        /// The timeout.
        after_ms: u32,
    },
    /// The network rejected a query, or its connection broke.
    Unreachable(SocketAddr),
    /// TLS to a server failed.
    Tls(SocketAddr, TlsFault),
    /// The evaluation of the response.
    Taken(Taken),
    /// No server sent a usable response.
    NoReply(&'static str),
    /// An alias leads to this name.
    Alias(Name),
    /// Keys of a zone were verified, or failed verification.
    Chain {
        /// The zone.
        zone: Name,
        /// Key tags of the DS records or trust anchors.
        vouched: Vec<u16>,
        /// Key tags of the keys.
        keys: Vec<u16>,
        /// The reason why the keys are not secure; `None` if they are.
        fault: Option<Reason>,
    },
    /// The end of the chain of trust at a zone was cached.
    KnownChain {
        /// The zone.
        zone: Name,
        /// The reason why the zone has no usable keys; `None` if it has.
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
        /// The status.
        verdict: Verdict,
        /// The reason why the answer is bogus.
        fault: Option<Reason>,
    },
    /// A limit was reached.
    Limit(&'static str),
    /// The question ended with an answer.
    Answered {
        /// RCODE.
        rcode: Rcode,
        /// Whether the whole answer is validated.
        authentic: bool,
    },
    /// The question failed.
    Failed {
        /// The code of the extended error for clients.
        ede: u16,
        /// The text.
        text: &'static str,
    },
}

/// The purpose of a subordinate question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The root's servers.
    Priming,
    /// The address of a name server.
    Servers,
    /// The chain of trust.
    Trust,
}

/// The kind of cached data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Find {
    /// Records of the type, or an alias.
    Records,
    /// NODATA.
    Nodata,
    /// NXDOMAIN for the name or an ancestor.
    Nxdomain,
    /// An NSEC or NSEC3 range that denies the name (RFC 8198).
    Gap,
}

/// The kind of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// A message with this RCODE.
    Message(Rcode),
    /// Truncated: the query is repeated over TCP.
    Truncated,
    /// The question has a different letter case: the query is repeated over TCP.
    OtherCase,
    /// The client cookie is not ours: the query is repeated over TCP.
    OtherCookie,
    /// Malformed.
    Malformed,
    /// BADCOOKIE.
    BadCookie,
    /// The server may not support EDNS: the query is repeated without EDNS.
    WithoutEdns(Rcode),
}

/// The evaluation of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// An answer, a negative response or an alias.
    Answer,
    /// A referral to this zone.
    Referral(Name),
    /// Data from a server that does not serve the zone: a last resort.
    Hearsay,
    /// The server does not serve the zone.
    Lame,
    /// Data without the signatures of a signed zone: a last resort.
    Unsigned,
    /// An error.
    Error(Rcode),
    /// Unusable.
    Unusable,
}
