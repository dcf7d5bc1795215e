//! Recursion: from the root, or the nearest known zone cut, down to the servers that know a name
//! (RFC 1034 §5.3.3).
//!
//! A question that no rule forwards becomes a [`Walk`]: an `async` function without a runtime,
//! polled by the resolver whenever what it asked for is there (see `channel`). All that a question
//! causes (its aliases, addresses of name servers, keys) is asked for within its walk, one thing
//! after another, so that one set of counters bounds the whole.
//!
//! ```text
//! resolve  aliases from name to name          ┐
//! descend  zone cut to zone cut, minimised    │ cache ── look-ups, stores
//! ask      the servers of a cut, one by one   ┘ fetch ── one question to servers
//!                                                    (resolver/fetch.rs)
//! ```

pub(crate) mod addresses;
pub(crate) mod ask;
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
pub(crate) mod loss;
pub(crate) mod part;
pub(crate) mod resolve;
pub(crate) mod rrset;
pub(crate) mod server;
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
use avocet_wire::{NameBuf, Rtype};

use crate::bound::Bound;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::recursion::Recursion;
use crate::trace::Trace;
use crate::validation::Chain;
use channel::{DriverEnd, Io, Moment, Note, Request, Response};
use descend::Seen;
use fetch::{Candidate, Fetched, Inquiry, NotFetched};
use resolve::Resolution;
use rrset::{Name, Rrset, Signed};

type Resolving = Pin<Box<dyn Future<Output = Result<Resolution, Failure>> + Send>>;

/// A question on its way.
pub(crate) struct Walk {
    future: Resolving,
    line: DriverEnd,
    /// The fetch whose end it waits for.
    pub(crate) waits_for: Option<u32>,
    /// What was asked ahead of need.
    pub(crate) ahead: Vec<Ahead>,
}

/// A fetch whose reply a walk will want, and the reply once it is there.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) inquiry: Inquiry,
    pub(crate) fetch: u32,
    pub(crate) result: Option<Result<Arc<Fetched>, NotFetched>>,
}

/// How far a walk came when it was polled.
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

    /// Lets it go on with the response to what it asked for; none at first.
    pub(crate) fn step(&mut self, response: Option<Response>, moment: Moment) -> WalkStep {
        self.line.supply(response, moment);
        match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => WalkStep::Done(result),
            Poll::Pending => match self.line.take_request() {
                Some(request) => WalkStep::Asks(request),
                // It waits for nothing: a fault of ours, which ends this question alone.
                None => WalkStep::Done(Err(Failure::Unusable)),
            },
        }
    }

    /// Lends its trace.
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

/// What a walk is for.
#[derive(Clone, Debug)]
pub(crate) struct WalkQuestion {
    pub(crate) qname: Name,
    pub(crate) qtype: Rtype,
    pub(crate) checking_disabled: bool,
    /// What the cache has of the question itself is passed over.
    pub(crate) anew: bool,
    /// Does the client want them?
    pub(crate) signatures: Signed,
    /// Drawn at random: what else is left to chance follows from it.
    pub(crate) luck: u64,
}

/// The state of a walk.
#[derive(Debug)]
pub(crate) struct Walker {
    pub(crate) io: Io,
    bound: Arc<Bound>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) checking_disabled: bool,
    pub(crate) is_priming: bool,
    /// Look-ups of servers that brought no address.
    pub(crate) failed_servers: u32,
    /// Servers of zones that kept silent, and how many queries they were sent.
    pub(crate) silences: Vec<Silence>,
    /// What referrals said of DS records, by the zone that they led to.
    pub(crate) referrals: HashMap<Name, Vec<Rrset>>,
    /// What came of shortened names that servers were asked for: none is asked for twice.
    pub(crate) shortened: HashMap<Name, Seen>,
    /// Zones whose keys were asked for ahead of need.
    pub(crate) keys_ahead: Vec<Name>,
    /// Ends of chains of trust that hold for this question alone.
    pub(crate) chains: HashMap<Name, Chain>,
    /// NSEC and NSEC3 RRsets of replies, which may prove where zones are cut.
    pub(crate) proofs: Vec<Rrset>,
    /// Servers that left out the signatures of a zone that is signed.
    pub(crate) unsigned: Vec<(Name, SocketAddr)>,
    /// Of servers that are asked in their order, one that answered in place of those before it.
    pub(crate) relied_on: Option<SocketAddr>,
    /// Servers whose answer to a question did not verify.
    pub(crate) distrusted: Vec<(Name, Rtype, SocketAddr)>,
    /// The question itself is asked of servers, whatever the cache has.
    pub(crate) asks_anew: bool,
    /// What the cache had did not verify.
    pub(crate) passes_over_cache: bool,
    /// Names that were hashed for proofs: none is hashed twice for one zone after another.
    pub(crate) hashes: Hashes,
    /// What validation has cost so far.
    pub(crate) budget: Budget,
    /// How long the last denial of DS records holds, or the last records that lead to no keys of
    /// use.
    pub(crate) insecure_secs: u32,
    /// Whether a limit of this question, or a lack of our own, kept something from being asked for.
    pub(crate) reached_limit: bool,
    /// Whom the servers of zones named for reports of errors.
    pub(crate) agents: HashMap<Name, NameBuf>,
    luck: u64,
}

/// Servers of a zone that did not answer.
#[derive(Debug)]
pub(crate) struct Silence {
    pub(crate) zone: Name,
    pub(crate) servers: Vec<Candidate>,
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

    /// A number that nobody can predict.
    pub(crate) fn draw(&mut self) -> u64 {
        // SplitMix64: the seed is drawn at random for each question.
        self.luck = self.luck.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.luck ^ (self.luck >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    /// Only built for plans that recurse.
    pub(crate) fn recursion(&self) -> &Recursion {
        static NONE: Recursion = Recursion::NONE;
        self.bound.plan.recursion.as_ref().unwrap_or(&NONE)
    }
}
