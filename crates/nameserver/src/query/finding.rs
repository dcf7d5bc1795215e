//! What a stage of the query path has for a question.
//!
//! A stage returns a finding to the path and calls no other stage. The path decides what follows.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use avocet_resolver::EndpointId;
use avocet_wire::{Ede, Rcode};

use super::alias::Alias;
use super::decision::{CacheState, Stage};
use super::respond::Draft;
use super::ttl::Terms;

/// What a stage has for a question. Where a rule or a list speaks, `note` is its number
/// ([`Decision::note`](super::decision::Decision::note)); else it is zero.
pub(super) enum Finding {
    /// The stage has nothing: the next one is asked.
    Nothing,
    /// The policy lets the question or the answer pass, on these terms.
    Pass(Terms),
    /// The answer is in the buffer.
    Answer(Offer),
    /// The answer is that of the last target of these aliases.
    Aliases {
        /// The aliases, the first one of the name that was asked for.
        aliases: Vec<Alias>,
        /// Who says so.
        note: u16,
    },
    /// The question is for these servers only.
    Forward {
        /// The servers of a rule.
        servers: Arc<[SocketAddr]>,
        /// Who says so.
        note: u16,
    },
    /// The query gets no answer.
    Silence {
        /// Who says so.
        note: u16,
    },
}

/// An answer of a stage: the draft in the buffer, and what the decision records of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// The message.
    pub(super) draft: Draft,
    /// The stage that gives it.
    pub(super) stage: Stage,
    /// What the caches had.
    pub(super) cache: CacheState,
    /// The upstream that gave it.
    pub(super) upstream: Option<EndpointId>,
    /// How the packet cache may keep it, if it does not yet.
    pub(super) lifetime: Lifetime,
    /// What it rests on.
    pub(super) basis: Basis,
}

/// What an answer that this network or its policy made rests on, besides these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Basis {
    /// The question alone.
    Question,
    /// An answer of other servers, which it is given in place of.
    Answer,
}

impl Offer {
    /// An answer that this server makes, and no cache keeps.
    pub(super) fn made(stage: Stage, draft: Draft) -> Self {
        let (cache, lifetime) = (CacheState::NotAsked, Lifetime::Unkept);
        Self { draft, stage, cache, upstream: None, lifetime, basis: Basis::Question }
    }
}

/// How the packet cache may keep an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lifetime {
    /// Not at all, or it is kept already.
    Unkept,
    /// For this many seconds, with TTLs that stay as they are.
    Fixed(NonZeroU32),
    /// For this many seconds, with TTLs that count down.
    Counting(NonZeroU32),
}

/// An answer of other servers, from the network or from a cache, before the policy has judged it.
#[derive(Clone, Copy, Debug)]
pub struct Obtained<'a> {
    /// RCODE; SERVFAIL if resolution failed.
    pub rcode: Rcode,
    /// The message in the form of the packet cache; empty if there is none.
    pub message: &'a [u8],
    /// Offsets of its TTL fields.
    pub ttl_offsets: &'a [u16],
    /// The seconds for which others may get it. None: it is for this client alone, or is kept
    /// already, and no least TTL of a rule changes that.
    pub kept_for: Option<NonZeroU32>,
    /// The extended error for clients.
    pub ede: Option<(Ede, &'static str)>,
    /// The stage that gives it: [`Stage::Resolved`], [`Stage::RrsetHit`], [`Stage::Stale`] if it
    /// is expired, or how resolution failed.
    pub stage: Stage,
    /// The upstream that gave it.
    pub upstream: Option<EndpointId>,
}

impl Obtained<'_> {
    /// A failure, for which the client gets SERVFAIL with this extended error.
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

    /// The stage of what resolution has brought: an answer, or a failure with this extended error.
    pub fn stage_of(rcode: Rcode, ede: Option<(Ede, &'static str)>) -> Stage {
        match ede {
            _ if rcode != Rcode::SERVFAIL => Stage::Resolved,
            Some((Ede::CACHED_ERROR, _)) => Stage::FailureHit,
            _ => Stage::Failed,
        }
    }

    /// What the caches had, for the decision.
    fn cache(&self) -> CacheState {
        match self.stage {
            Stage::RrsetHit => CacheState::Hit,
            Stage::Stale => CacheState::Stale,
            _ => CacheState::Miss,
        }
    }

    /// Offers a draft that was made from this answer.
    pub(super) fn offer(&self, draft: Draft) -> Offer {
        let Self { stage, upstream, .. } = *self;
        let (lifetime, basis) = (Lifetime::Unkept, Basis::Answer);
        Offer { draft, stage, cache: self.cache(), upstream, lifetime, basis }
    }
}
