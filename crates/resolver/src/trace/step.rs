//! The steps that a trace is made of.

use std::net::SocketAddr;

use avocet_cache::Security;
use avocet_dnssec::{Reason, Verdict};
use avocet_wire::{Rcode, Rtype};

use crate::iterate::rrset::Name;

/// Something that happened while a question was resolved. Names are folded, in wire form.
#[derive(Clone, Debug)]
pub enum Step {
    /// Something has to be found first; the deeper steps that follow are for this.
    Seek {
        /// What for.
        why: Why,
        /// What is looked for.
        name: Name,
        /// Its type.
        rtype: Rtype,
    },
    /// The addresses of a server were looked for, and so many found.
    Addresses(usize),
    /// The cache had it.
    Cached {
        /// Where.
        name: Name,
        /// The type that was looked for.
        rtype: Rtype,
        /// What it had.
        find: Find,
        /// What is left of its time.
        ttl_secs: u32,
        /// What is known of its security.
        security: Security,
    },
    /// The search goes down from this zone cut.
    Cut {
        /// The zone.
        zone: Name,
        /// Its servers by name; of a configured zone, by address.
        servers: usize,
        /// How many addresses of them are known.
        addresses: usize,
    },
    /// A query was sent.
    Sent {
        /// To whom.
        server: SocketAddr,
        /// As a server of which zone; none: as a forwarder.
        zone: Option<Name>,
        /// For which name; none: for the question's, or what its aliases led to.
        name: Option<Name>,
        /// For which type.
        rtype: Rtype,
        /// Over TCP.
        over_tcp: bool,
        /// With an OPT record.
        with_edns: bool,
    },
    /// The copy of the root zone says what its servers would.
    LocalRoot {
        /// For which name.
        name: Name,
        /// For which type.
        rtype: Rtype,
    },
    /// An alias led to a name that this server answers by itself.
    Own {
        /// The name.
        name: Name,
        /// For which type.
        rtype: Rtype,
    },
    /// An equal query was under way for another question: its reply serves both.
    Joined,
    /// A reply came that belongs to a query.
    Replied {
        /// From whom.
        server: SocketAddr,
        /// Since its query was sent.
        rtt_ms: u32,
        /// What it was, or was found to be.
        reaction: Reaction,
    },
    /// No reply came in the time that was given; one that comes later is still taken.
    Silent {
        /// From whom.
        server: SocketAddr,
        /// How long it was waited for.
        after_ms: u32,
    },
    /// The network refused a query, or its connection broke.
    Unreachable(SocketAddr),
    /// What the reply was taken for.
    Taken(Taken),
    /// None of the servers gave a reply of use.
    NoReply(&'static str),
    /// The answer leads on to another name.
    Alias(Name),
    /// Keys of a zone were verified, or found wanting.
    Chain {
        /// The zone.
        zone: Name,
        /// Key tags of those that vouch for its keys: of DS records or the trust anchor.
        vouched: Vec<u16>,
        /// Key tags of its keys.
        keys: Vec<u16>,
        /// Why they are not secure; none: they are.
        fault: Option<Reason>,
    },
    /// The keys of a zone, or why it has none, were known.
    KnownChain {
        /// The zone.
        zone: Name,
        /// Why it has none that count; none: it has.
        fault: Option<Reason>,
    },
    /// Data or a denial was validated.
    Judged {
        /// Whose.
        name: Name,
        /// Its type.
        rtype: Rtype,
        /// Signer, key tag and algorithm of its first signature.
        signature: Option<(Name, u16, u8)>,
        /// Its status.
        verdict: Verdict,
        /// Why it is bogus.
        fault: Option<Reason>,
    },
    /// A limit was reached.
    Limit(&'static str),
    /// The end: an answer.
    Answered {
        /// RCODE.
        rcode: Rcode,
        /// All of it is validated.
        authentic: bool,
    },
    /// The end: none.
    Failed {
        /// The extended error that clients are told.
        ede: u16,
        /// Its text.
        text: &'static str,
    },
}

/// What something is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The root's servers.
    Priming,
    /// The address of a name server.
    Servers,
    /// The chain of trust.
    Trust,
}

/// What the cache had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Find {
    /// Records of the type, or an alias.
    Records,
    /// That there are none of the type.
    Nodata,
    /// That the name, or one above it, does not exist.
    Nxdomain,
    /// A gap that the zone proves, which denies it (RFC 8198).
    Gap,
}

/// What a reply was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// A message with this RCODE.
    Message(Rcode),
    /// Truncated: asked again by TCP.
    Truncated,
    /// The question came back in other letters: TCP settles it.
    OtherCase,
    /// It cannot be read.
    Malformed,
    /// BADCOOKIE.
    BadCookie,
    /// The server may not know EDNS: asked again without.
    WithoutEdns(Rcode),
}

/// What a reply was taken for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// An answer, a denial or an alias.
    Answer,
    /// A referral to this zone.
    Referral(Name),
    /// The word of a server that does not serve the zone: taken for want of better.
    Hearsay,
    /// The server does not serve the zone.
    Lame,
    /// Without the signatures of a zone that is signed: taken for want of better.
    Unsigned,
    /// An error.
    Error(Rcode),
    /// Nothing of use.
    Unusable,
}
