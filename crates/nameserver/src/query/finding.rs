//! The result of one stage of the query path.
//!
//! A stage returns a finding to the path and calls no other stage. The path decides how to
//! continue.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use avocet_resolver::EndpointId;
use avocet_wire::{Ede, Rcode};

use super::alias::Alias;
use super::decision::{CacheState, Stage};
use super::respond::Draft;
use super::ttl::Terms;

/// The result of a stage. If a rule or a list decided, `note` is the index of its reason
/// ([`Decision::note`](super::decision::Decision::note)); otherwise it is zero.
pub(super) enum Finding {
    /// No result: the next stage follows.
    Nothing,
    /// The policy allows the question or the answer, on these terms.
    Pass(Terms),
    /// The answer is in the buffer.
    Answer(Offer),
    /// The client gets these aliases and the answer for their last target.
    Aliases {
        /// The aliases, starting with the alias at the QNAME.
        aliases: Vec<Alias>,
        /// The deciding rule or list.
        note: u16,
    },
    /// The question is forwarded to these servers only.
    Forward {
        /// The servers of a rule.
        servers: Arc<[SocketAddr]>,
        /// The deciding rule or list.
        note: u16,
    },
    /// The query gets no answer.
    Silence {
        /// The deciding rule or list.
        note: u16,
    },
}

/// An answer of a stage: the draft in the buffer, with the data for the decision.
///
/// The type is not `Copy`, so that a finding whose offer is taken has nothing left to drop.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// The draft in the buffer.
    pub(super) draft: Draft,
    /// The rule, list or policy zone that decided; zero if there is none. For an answer that the
    /// policy made, it equals [`Draft::note`].
    pub(super) note: u16,
    /// The stage that made the answer.
    pub(super) stage: Stage,
    /// The result of the search in the caches.
    pub(super) cache: CacheState,
    /// The upstream that gave the answer.
    pub(super) upstream: Option<EndpointId>,
    /// Whether and how the packet cache may store the answer.
    pub(super) lifetime: Lifetime,
    /// The data on which the answer depends.
    pub(super) basis: Basis,
    /// Whether the policy gives this answer to each such query of the same profile.
    pub(super) is_of_profile: bool,
}

/// The data on which an answer of this server or its policy depends, in addition to the policy and
/// the local names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Basis {
    /// The answer depends on the question alone.
    Question,
    /// The answer depends on the question and on the settings of DNS64.
    Translation,
    /// The policy replaces an answer of other servers.
    Answer,
    /// The answer has data for the last target of aliases of the policy. The rule or list of the
    /// aliases is already counted.
    Alias,
}

impl Offer {
    /// Returns an answer that this server makes and that is not cached.
    pub(super) fn made(stage: Stage, draft: Draft) -> Self {
        let (cache, lifetime) = (CacheState::NotAsked, Lifetime::Unkept);
        let (note, basis) = (draft.note, Basis::Question);
        let (upstream, is_of_profile) = (None, false);
        Self { draft, note, stage, cache, upstream, lifetime, basis, is_of_profile }
    }

    /// Returns this answer with the note of the deciding rule or list, which did not make the
    /// answer. A note of zero changes nothing.
    pub(super) fn decided_by(self, note: u16) -> Self {
        Self { note: if note == 0 { self.note } else { note }, ..self }
    }

    /// Returns this answer as the end of an alias chain; `draft` has the aliases and the answer. If
    /// the policy made one of the aliases, the stage becomes [`Stage::Rewritten`], but a failure
    /// keeps its stage.
    pub(super) fn behind(self, draft: Draft) -> Self {
        let offer = Self { draft, ..self };
        let is_failure = matches!(
            self.stage,
            Stage::Failed | Stage::FailureHit | Stage::Shed | Stage::NotRecursive
        );
        match draft.note {
            0 => offer,
            note if is_failure => Self { note, basis: Basis::Alias, ..offer },
            note => Self { note, stage: Stage::Rewritten, basis: Basis::Alias, ..offer },
        }
    }
}

/// The conditions under which the packet cache may store an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lifetime {
    /// The answer is not stored, or is already stored.
    Unkept,
    /// The answer is stored for this many seconds, with constant TTLs.
    Fixed(NonZeroU32),
    /// The answer is stored for this many seconds, with TTLs that count down.
    Counting(NonZeroU32),
}

/// An answer of other servers, from the network or from a cache, before the policy has evaluated
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Obtained<'a> {
    /// RCODE; SERVFAIL if resolution failed.
    pub rcode: Rcode,
    /// The message in the form of the packet cache; empty if there is no message.
    pub message: &'a [u8],
    /// Offsets of the message's TTL fields.
    pub ttl_offsets: &'a [u16],
    /// The seconds for which the answer may be cached for other clients. `None` if the answer is
    /// for this client alone or is already cached, even if a rule sets a lowest TTL.
    pub kept_for: Option<NonZeroU32>,
    /// The extended error for clients.
    pub ede: Option<(Ede, &'static str)>,
    /// The stage that gave the answer: [`Stage::Resolved`], [`Stage::RrsetHit`], [`Stage::Stale`]
    /// for expired data, or the kind of failure.
    pub stage: Stage,
    /// The upstream that gave the answer.
    pub upstream: Option<EndpointId>,
}

impl Obtained<'_> {
    /// Returns a failure: the client gets SERVFAIL with this extended error.
    pub fn failure(stage: Stage, ede: (Ede, &'static str)) -> Self {
        Self {
            rcode: Rcode::SERVFAIL,
            message: &[],
            ttl_offsets: &[],
            kept_for: None,
            ede: Some(ede),
            stage,
            upstream: None,
        }
    }

    /// Returns the stage that counts a resolved query: an answer, or a failure with this extended
    /// error.
    pub fn stage_of(rcode: Rcode, ede: Option<(Ede, &'static str)>) -> Stage {
        match ede {
            _ if rcode != Rcode::SERVFAIL => Stage::Resolved,
            Some((Ede::CACHED_ERROR, _)) => Stage::FailureHit,
            _ => Stage::Failed,
        }
    }

    /// Returns the result of the search in the caches, for the decision.
    fn cache(&self) -> CacheState {
        match self.stage {
            Stage::RrsetHit => CacheState::Hit,
            Stage::Stale => CacheState::Stale,
            _ => CacheState::Miss,
        }
    }

    /// Returns the offer (draft and data for the decision) for a draft that was made from this
    /// answer of other servers.
    pub(super) fn offer(&self, draft: Draft) -> Offer {
        let Self { stage, upstream, .. } = *self;
        let (lifetime, basis) = (Lifetime::Unkept, Basis::Answer);
        let offer = Offer {
            draft: Draft { note: 0, ..draft },
            note: 0,
            stage,
            cache: self.cache(),
            upstream,
            lifetime,
            basis,
            is_of_profile: false,
        };
        offer.behind(draft)
    }
}
