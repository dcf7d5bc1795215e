//! Recursion: resolves a question, starting at the root or the nearest known zone cut and ending at
//! the servers of the name (RFC 1034 §5.3.3).
//!
//! # What a walk is
//!
//! With recursion, each question becomes a [`Walk`], even if a rule forwards its name: an `async`
//! function that starts with the client's question and returns a [`Resolution`] or a [`Failure`].
//! Everything that the question causes happens in its walk, one step after another: aliases,
//! addresses of name servers, DS and DNSKEY records. Therefore the code reads in the order of the
//! algorithm, and one set of limits covers the whole; a referral or an alias never starts with
//! fresh limits.
//!
//! ```text
//! translate   DNS64, if it is configured
//!   resolve   aliases, from name to name
//!     own data; cache; `synthesis`: NSEC and NSEC3 ranges
//!     descend   zone cut by zone cut, with minimised names
//!       cut       the nearest known delegation
//!       ask       the servers of a cut until one is useful  -> `classify`, `part`
//!         addresses   name servers without glue             -> descend, one level deeper
//!     validate  each RRset and each denial of the part
//!       trust     DS and DNSKEY down to the zone's keys     -> descend
//! ```
//!
//! # How it is driven
//!
//! A walk has no runtime, no waker, no clock and no socket. It sends a [`Request`] through its
//! [`channel`] and is pending. The resolver (`resolver/walk.rs`) serves the request, from a cache
//! at once or from the network later, and polls the walk with the [`Response`]. A [`Note`] is a
//! message that needs no response, such as data to cache. So a walk is deterministic: the driver
//! determines time, randomness and the order of events, and a test can drive a walk without a
//! network.
//!
//! Walks do not share state and never wait for each other, so they cannot deadlock. They share work
//! in two places: equal queries to the same servers that are in flight are one *fetch* (`fetches`),
//! and all other results are shared through the caches. A walk requests one thing at a time; for
//! data that it will certainly need later, such as the keys of the zones on the way,
//! [`Note::Ahead`] starts the fetch early.
//!
//! # Cuts
//!
//! A [`cut::Cut`] is a zone with its servers. The walk starts at the nearest cut that the cache or
//! the configuration knows, and follows referrals from there; each must lead further down towards
//! the name. Delegations and glue are cached apart from answers ([`rrset::Side`]): they only serve
//! to find servers and never reach a client. The parent's NS RRset alone decides which servers are
//! queried, so that a zone cannot extend its own delegation. Stub zones and forwarding rules are
//! cuts with configured servers; the copy of the root zone replies in place of the root servers.
//! All these cuts use the same code.
//!
//! # Chain of trust
//!
//! Data is validated after it was found, part by part (`validate`). The keys for an RRset come from
//! the chain of trust, which starts at the closest anchor and proceeds by DS records, or ends at
//! the proof that there are none (`trust`). The parent decides where zones are cut; a signer name
//! or a referral is only a hint. Ends of chains are cached for all walks, whether secure, insecure
//! or, briefly, bogus (`key_cache`). If data is bogus, the walk queries other servers of the zone
//! before it fails, unless the chain itself is broken.
//!
//! # Denial
//!
//! A negative response is data like any other ([`rrset::Denial`]): it has a proof, a security
//! status and a lifetime. Validated NSEC and NSEC3 records are kept as ranges (`gaps`), and later
//! walks answer from them without a query (`synthesis`, RFC 8198). A denial of a minimised name
//! counts for names below it only with a proof, because some servers deny empty non-terminals.
//!
//! # Limits
//!
//! An attacker can control zones on the way, so each loop has a bound: aliases, referrals,
//! minimised names, servers per cut, nesting of look-ups ([`frame::Frame`], which also prevents
//! cycles) and failed look-ups of servers. Validation draws on one [`Budget`] for the whole
//! question. The number of queries and octets per question, and the load on one zone or server, are
//! counted by the resolver (`resolver/fetch.rs`, `load`). A limit ends the question with a failure
//! that says so; such a failure says nothing about the zone and is not cached as bogus.
//!
//! # What it is not
//!
//! A walk neither chooses among the addresses of a cut nor retries: it passes all candidates to a
//! fetch, which measures, races and times out servers. It applies no policy, writes no message and
//! knows no client. Questions that clients have in common are joined before there is a walk.

pub(crate) mod addresses;
pub(crate) mod ask;
pub(crate) mod cached;
pub(crate) mod channel;
pub(crate) mod classify;
pub(crate) mod cut;
pub(crate) mod descend;
pub(crate) mod fetch;
pub(crate) mod fetches;
pub(crate) mod frame;
pub(crate) mod gaps;
pub(crate) mod key_cache;
pub(crate) mod load;
pub(crate) mod part;
pub(crate) mod resolve;
pub(crate) mod rrset;
pub(crate) mod signed;
pub(crate) mod synthesis;
mod told;
pub(crate) mod translate;
pub(crate) mod trust;
pub(crate) mod validate;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use avocet_dnssec::{Budget, Hashes};
use avocet_wire::{FoldedNameBuf, Rtype};

use crate::bound::Bound;
use crate::exchange::endpoint::Endpoint;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::recursion::Recursion;
use crate::trace::Trace;
use crate::validation::Chain;
use channel::{DriverEnd, Io, Moment, Note, Request, Response};
use descend::Seen;
use fetch::{Fetched, Inquiry, NotFetched};
use resolve::Resolution;
use rrset::{Name, Rrset, Signed};

type Resolving = Pin<Box<dyn Future<Output = Result<Resolution, Failure>> + Send>>;

/// A question that recursion resolves, with the progress of the resolution.
pub(crate) struct Walk {
    future: Resolving,
    line: DriverEnd,
    /// The index of the fetch for which the walk waits; `None` if it waits for none.
    pub(crate) waits_for: Option<u32>,
    /// The fetches that were started before the walk needs them.
    pub(crate) ahead: Vec<Ahead>,
}

/// A fetch that was started before the walk needs it, and the result of the fetch.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) inquiry: Inquiry,
    pub(crate) fetch: u32,
    pub(crate) result: Option<Result<Arc<Fetched>, NotFetched>>,
}

/// The result of continuing a walk (the recursive resolution of one question).
pub(crate) enum WalkStep {
    Done(Result<Resolution, Failure>),
    Asks(Request),
}

impl Walk {
    pub(crate) fn new(bound: Arc<Bound>, asked: WalkQuestion, trace: Trace) -> Self {
        let line = DriverEnd::default();
        line.with_trace(|own| *own = trace);
        let validates = asked.signatures == Signed::Yes && asked.checking_disabled;
        let dns64 = bound.plan.dns64().filter(|_| !validates).cloned();
        let walker = Walker::new(line.io(), bound, &asked);
        let future = Box::pin(walker.resolve(asked.qname, asked.qtype, dns64));
        Self { future, line, waits_for: None, ahead: Vec::new() }
    }

    /// Continues the walk with the response to its last request; `None` starts the walk.
    pub(crate) fn step(&mut self, response: Option<Response>, moment: Moment) -> WalkStep {
        self.line.supply(response, moment);
        match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => WalkStep::Done(result),
            Poll::Pending => match self.line.take_request() {
                Some(request) => WalkStep::Asks(request),
                // The walk waits although it sent no request. This is a bug, which must end only
                // this question.
                None => WalkStep::Done(Err(Failure::Unusable)),
            },
        }
    }

    /// Gives access to the trace of the walk.
    pub(crate) fn with_trace<R>(&self, act: impl FnOnce(&mut Trace) -> R) -> R {
        self.line.with_trace(act)
    }

    pub(crate) fn take_notes(&self) -> Vec<Note> {
        self.line.take_notes()
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("waits_for", &self.waits_for).finish_non_exhaustive()
    }
}

/// The question of a client, as recursion resolves it.
#[derive(Clone, Debug)]
pub(crate) struct WalkQuestion {
    pub(crate) qname: Name,
    pub(crate) qtype: Rtype,
    pub(crate) checking_disabled: bool,
    /// Whether to query servers even if the answer to the question itself is cached.
    pub(crate) anew: bool,
    /// Whether the client requests DNSSEC records.
    pub(crate) signatures: Signed,
    /// The seed of all random choices of the walk.
    pub(crate) luck: u64,
}

/// The state of a walk, which resolves one question by recursion.
#[derive(Debug)]
pub(crate) struct Walker {
    pub(crate) io: Io,
    bound: Arc<Bound>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) checking_disabled: bool,
    pub(crate) is_priming: bool,
    /// Number of look-ups of name servers that yielded no address.
    pub(crate) failed_servers: u32,
    /// Servers of zones that did not answer, with the number of queries that were sent to them.
    pub(crate) silences: Vec<Silence>,
    /// The DS records and proofs that were in referrals, by the delegated zone.
    pub(crate) referrals: HashMap<Name, Vec<Rrset>>,
    /// The results of queries for minimised names: each name is queried only once.
    pub(crate) shortened: HashMap<Name, Seen>,
    /// Zones for which keys were fetched before they were needed.
    pub(crate) keys_ahead: Vec<Name>,
    /// Zones that signed records of the question, so that their keys will be needed.
    signers: Vec<Name>,
    /// The keys of zones, or the reasons why zones have none, if the result is valid for this
    /// question only.
    pub(crate) chains: HashMap<Name, Chain>,
    /// NSEC and NSEC3 RRsets from replies, which may prove where zone cuts are.
    pub(crate) proofs: Vec<Rrset>,
    /// Servers that omitted the signatures of a signed zone.
    pub(crate) unsigned: Vec<(Name, Endpoint)>,
    /// If servers are queried in a fixed order: the server that answered after all servers before
    /// it had failed.
    pub(crate) relied_on: Option<SocketAddr>,
    /// Servers whose answer failed validation, with the question of the answer.
    pub(crate) distrusted: Vec<(Name, Rtype, SocketAddr)>,
    /// Whether the cache is ignored for the question itself.
    pub(crate) asks_anew: bool,
    /// Whether the cache is ignored because cached data failed validation.
    pub(crate) passes_over_cache: bool,
    /// Hashes of names for NSEC3 proofs. They are kept, so that no name is hashed twice with the
    /// same parameters.
    pub(crate) hashes: Hashes,
    /// The remaining budget of validation.
    pub(crate) budget: Budget,
    /// Seconds for which the last denial of DS records, or the last DS RRset without a supported
    /// algorithm, is valid.
    pub(crate) insecure_secs: u32,
    /// Whether a query was not sent because of a limit of this question or of this server.
    pub(crate) reached_limit: bool,
    /// The reporting agents of zones.
    pub(crate) agents: HashMap<Name, FoldedNameBuf>,
    luck: u64,
}

/// Servers of a zone that did not answer, and the number of queries sent to them.
#[derive(Debug)]
pub(crate) struct Silence {
    pub(crate) zone: Name,
    pub(crate) servers: Vec<Endpoint>,
    pub(crate) sends: u32,
}

impl Walker {
    fn new(io: Io, bound: Arc<Bound>, asked: &WalkQuestion) -> Self {
        let plan = Arc::clone(&bound.plan);
        Self {
            io,
            bound,
            plan,
            checking_disabled: asked.checking_disabled,
            is_priming: false,
            failed_servers: 0,
            silences: Vec::new(),
            referrals: HashMap::new(),
            shortened: HashMap::new(),
            keys_ahead: Vec::new(),
            signers: Vec::new(),
            chains: HashMap::new(),
            proofs: Vec::new(),
            unsigned: Vec::new(),
            relied_on: None,
            distrusted: Vec::new(),
            asks_anew: asked.anew,
            passes_over_cache: false,
            hashes: Hashes::default(),
            budget: Budget::default(),
            insecure_secs: 0,
            reached_limit: false,
            agents: HashMap::new(),
            luck: asked.luck,
        }
    }

    /// Draws an unpredictable number.
    pub(crate) fn draw(&mut self) -> u64 {
        // The generator is SplitMix64. Each question has a random seed.
        self.luck = self.luck.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.luck ^ (self.luck >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    /// Returns the settings of recursion; without recursion (as with DNS64 alone), settings with
    /// all features off.
    pub(crate) fn recursion(&self) -> &Recursion {
        static NONE: Recursion = Recursion::NONE;
        self.bound.plan.recursion.as_deref().unwrap_or(&NONE)
    }
}
