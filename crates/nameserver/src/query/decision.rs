//! The decision about a query, and the resulting step of the query path.
//!
//! A [`Decision`] is made where the query path decides. Every [`QueryStep`] that ends a query
//! carries one, including steps that send nothing. Counters, rate limits and explanations read the
//! decision and never decide again.

use avocet_resolver::EndpointId;
use avocet_wire::header::AD;
use avocet_wire::{Ede, Rcode, Rtype};

use super::asked::Transport;

/// The result of the query path for one query.
#[derive(Clone, Copy, Debug)]
pub enum QueryStep {
    /// The reply in the buffer must be sent.
    Reply(Outgoing),
    /// The query ends without a reply.
    Silent(Decision),
    /// The query must wait for other servers. Its question, with the client, is in `misses` of the
    /// [`Output`].
    ///
    /// [`Output`]: super::Output
    Resolve,
}

/// A reply in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// Length of the message in octets.
    pub len: usize,
    /// Keyed hash of the question; zero if none was read.
    pub hash: u64,
    /// Whether a cookie proves the client's address, so that the rate limit does not apply.
    pub is_verified: bool,
    /// The reason for this reply.
    pub decision: Decision,
}

/// The way in which a query ends, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Revision of the state that decided: [`Snapshot::revision`](crate::snapshot::Snapshot).
    pub revision: u32,
    /// Profile of the client in the policy of that revision; zero if no policy was evaluated.
    pub profile: u16,
    /// Index of the note (the reason) of the deciding rule, list or policy zone among the
    /// [notes](crate::policy::Policy::notes) of the policy, from 1; zero if there is none.
    pub note: u16,
    /// QTYPE; zero if no question was read.
    pub qtype: Rtype,
    /// RCODE of the reply; NOERROR if no reply is sent.
    pub rcode: Rcode,
    /// Extended error of the answer. If `None` and the policy made the reply, the reply has the
    /// extended error of the note.
    pub ede: Option<Ede>,
    /// The upstream that answered a forwarded question.
    pub upstream: Option<EndpointId>,
    /// The stage that decided.
    pub stage: Stage,
    /// The transport of the query.
    pub transport: Transport,
    /// The result of the search in the caches.
    pub cache: CacheState,
    /// The result of validation.
    pub validated: Validated,
    /// Whether the deciding rule or list was counted earlier, when it led to another name.
    pub is_counted: bool,
}

/// A decision must be small, because a worker writes one for each query.
const _: () = assert!(size_of::<Decision>() <= 32);

impl Decision {
    /// Creates the decision of a stage that runs before the question is read.
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
            is_counted: false,
        }
    }

    /// Returns whether the policy made the reply and has not yet counted its rule or list.
    #[inline]
    pub fn is_of_policy(&self) -> bool {
        matches!(self.stage, Stage::Blocked | Stage::Rewritten) && !self.is_counted
    }
}

/// The result of the search in the caches for a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheState {
    /// The caches were not searched.
    NotAsked,
    /// The caches had the answer.
    Hit,
    /// The caches had an expired answer.
    Stale,
    /// The caches had no usable answer.
    Miss,
}

/// The result of validation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validated {
    /// The answer is insecure, or was not validated.
    Unknown,
    /// All of the answer is secure.
    Secure,
    /// The answer is bogus: the client gets an error (RFC 4035 §4.3).
    Bogus,
}

impl Validated {
    /// Returns the result of validation. For an answer, the AD bit determines the result; for a
    /// failure, the extended error does (RFC 8914 §4.7 to §4.13).
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
    /// The query was answered with FORMERR, NOTIMP or BADVERS, or has a question that is never
    /// answered with data.
    Malformed,
    /// The client's address is not allowed.
    Refused,
    /// The message got no answer, because it is not a query or is too short.
    Ignored,
    /// The packet cache answered.
    PacketHit,
    /// Expired data answered, because resolution failed or took long.
    Stale,
    /// Local records answered.
    Local,
    /// A special name answered, or a query had a cookie but no question.
    Special,
    /// A question of class CH, about the server itself.
    Chaos,
    /// The answer was assembled from the RRset cache.
    RrsetHit,
    /// The network answered.
    Resolved,
    /// Resolution failed.
    Failed,
    /// A cached failure answered (RFC 9520).
    FailureHit,
    /// The query did not set RD, and the caches have no answer.
    NotRecursive,
    /// The question was rejected, because too many queries are in flight.
    Shed,
    /// A list or a rule blocked the query.
    Blocked,
    /// A rule or a list answered with other data: addresses, or the data of another name.
    Rewritten,
    /// A rule's rate limit refused the query, or a rule or a policy zone truncated its answer.
    Limited,
    /// The policy dropped the query: the client gets no answer.
    Dropped,
    /// Hosted zones answered.
    Hosted,
    /// A pool answered: its addresses depend on the health of their hosts.
    Pool,
}

impl Stage {
    /// All stages in the order of their indices.
    pub const ALL: [Self; STAGES.len()] = [
        Self::Malformed,
        Self::Refused,
        Self::Ignored,
        Self::PacketHit,
        Self::Stale,
        Self::Local,
        Self::Special,
        Self::Chaos,
        Self::RrsetHit,
        Self::Resolved,
        Self::Failed,
        Self::FailureHit,
        Self::NotRecursive,
        Self::Shed,
        Self::Blocked,
        Self::Rewritten,
        Self::Limited,
        Self::Dropped,
        Self::Hosted,
        Self::Pool,
    ];
}

const _: () = {
    let mut at = 0;
    while at < Stage::ALL.len() {
        assert!(Stage::ALL[at] as usize == at);
        at += 1;
    }
};

/// Names of the stages in metrics, in the order of [`Stage`].
pub const STAGES: [&str; 20] = [
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
    "hosted",
    "pool",
];
