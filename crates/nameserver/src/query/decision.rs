//! The decision about a query, and the step that the server takes by it.
//!
//! A [`Decision`] is made where the query path decides, and every [`QueryStep`] that ends a query
//! carries one, also a step that sends nothing. Counters, rate limits and explanations read it and
//! decide nothing again.

use avocet_resolver::EndpointId;
use avocet_wire::header::AD;
use avocet_wire::{Ede, Rcode, Rtype};

use super::asked::Transport;

/// What becomes of a query.
#[derive(Clone, Copy, Debug)]
pub enum QueryStep {
    /// The reply in the buffer is sent.
    Reply(Outgoing),
    /// Nothing is sent.
    Silent(Decision),
    /// The query waits: its question, with the client, is among the misses of the [`Output`].
    ///
    /// [`Output`]: super::Output
    Resolve,
}

/// A reply in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// Length of the message in octets.
    pub len: usize,
    /// Keyed hash of the question; zero where none was read.
    pub hash: u64,
    /// Whether the client has proven its address by a cookie: the rate limit spares it.
    pub is_verified: bool,
    /// Why this reply is given.
    pub decision: Decision,
}

impl Outgoing {
    /// Tells equal replies for the rate limit: the same data, or any denial or error of one sort.
    pub fn kind(&self) -> u64 {
        let rcode = self.decision.rcode;
        if rcode == Rcode::NOERROR { self.hash } else { u64::from(rcode.0) }
    }
}

/// How a query ended, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Revision of the configuration that decided: [`Snapshot::epoch`](crate::snapshot::Snapshot).
    pub revision: u32,
    /// Profile of the client in the policy of that revision; zero where it was not asked.
    pub profile: u16,
    /// Number of the rule, list or policy zone that decided, as the policy counts its
    /// [notes](crate::policy::Policy::notes), from 1; zero where none did.
    pub note: u16,
    /// QTYPE; zero where no question was read.
    pub qtype: Rtype,
    /// RCODE of the reply; NOERROR where none is sent.
    pub rcode: Rcode,
    /// Extended error beside the answer. A reply of the policy has that of its note.
    pub ede: Option<Ede>,
    /// The upstream that answered, where the question was forwarded.
    pub upstream: Option<EndpointId>,
    /// The stage that decided.
    pub stage: Stage,
    /// How the query came.
    pub transport: Transport,
    /// What the caches had.
    pub cache: CacheState,
    /// What validation found.
    pub validated: Validated,
}

/// The size at which a worker can keep a decision for each query.
const _: () = assert!(size_of::<Decision>() <= 32);

impl Decision {
    /// The decision of a stage before the question was looked at.
    pub fn at(stage: Stage, transport: Transport, revision: u32) -> Self {
        Self {
            revision,
            profile: 0,
            note: 0,
            qtype: Rtype(0),
            rcode: Rcode::NOERROR,
            ede: None,
            upstream: None,
            stage,
            transport,
            cache: CacheState::NotAsked,
            validated: Validated::Unknown,
        }
    }

    /// Whether the reply is one that the policy made: it is counted by its note.
    #[inline]
    pub fn is_of_policy(&self) -> bool {
        matches!(self.stage, Stage::Blocked | Stage::Rewritten)
    }
}

/// What the caches had for a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheState {
    /// They were not asked.
    NotAsked,
    /// The answer.
    Hit,
    /// An expired answer.
    Stale,
    /// Nothing of use.
    Miss,
}

/// What validation found about an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validated {
    /// Nothing that the answer shows: it is insecure, or was not validated.
    Unknown,
    /// All of it is secure.
    Secure,
    /// It is bogus: the client gets an error (RFC 4035 §4.3).
    Bogus,
}

impl Validated {
    /// Reads the AD bit of an answer, or the extended error in place of one (RFC 8914 §4.7 to
    /// §4.13).
    #[inline]
    pub(super) fn of(message: &[u8], ede: Option<Ede>) -> Self {
        let is_authentic = message.get(3).is_some_and(|flags| flags & AD as u8 != 0);
        match ede {
            Some(Ede(6..=12)) => Self::Bogus,
            _ if is_authentic => Self::Secure,
            _ => Self::Unknown,
        }
    }
}

/// The stage that ended a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// FORMERR, NOTIMP, BADVERS, or a question that is never answered with data.
    Malformed,
    /// The client's address is not allowed.
    Refused,
    /// No answer: not a query at all, or too short to answer.
    Ignored,
    /// From the packet cache.
    PacketHit,
    /// Expired data, as resolution failed or took long.
    Stale,
    /// Local records.
    Local,
    /// Special names, and cookies asked for without a question.
    Special,
    /// Class CH.
    Chaos,
    /// Assembled from the RRset cache.
    RrsetHit,
    /// Resolved by asking upstream.
    Resolved,
    /// Resolution failed.
    Failed,
    /// A failure remembered (RFC 9520).
    FailureHit,
    /// RD was not set, and it is not in the caches.
    NotRecursive,
    /// Turned away as too much is in flight.
    Shed,
    /// Blocked by a list or a rule.
    Blocked,
    /// Answered by a rule with something else: addresses, a safe form of a search engine.
    Rewritten,
    /// Refused or truncated by a rule's rate limit.
    Limited,
    /// No answer, as a rule says.
    Dropped,
}

/// Names of the stages in metrics, in the order of [`Stage`].
pub const STAGES: [&str; 18] = [
    "malformed",
    "refused",
    "ignored",
    "packet-hit",
    "stale",
    "local",
    "special",
    "chaos",
    "rrset-hit",
    "resolved",
    "failed",
    "failure-hit",
    "not-recursive",
    "shed",
    "blocked",
    "rewritten",
    "limited",
    "dropped",
];
