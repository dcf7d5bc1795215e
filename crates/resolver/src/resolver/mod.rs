//! The resolver of one thread: its interface and its parts. What happens to a question is told in
//! the files below, in this order: `submit`, `send`, `reply`, `end`; `timer` for what does not
//! come in time. By recursion it is `submit`, `walk`, `fetch`, `end`.

mod choose;
mod end;
mod fetch;
mod reply;
pub(crate) mod report;
mod send;
mod submit;
mod timer;
mod traced;
mod walk;

use std::sync::Arc;

use avocet_cache::{FailureCache, RrsetCache};
use avocet_wire::hash::HashKey;
use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use crate::action::{Action, Actions, AskedFor};
use crate::answer::Gathered;
use crate::assemble::Assembler;
use crate::attempt::Attempts;
use crate::bound::Bound;
use crate::breaker::BreakerState;
use crate::endpoint::UpstreamSpec;
use crate::ids::UpstreamId;
use crate::iterate::fetches::Fetches;
use crate::iterate::gaps::Gaps;
use crate::iterate::key_cache::KeyCache;
use crate::iterate::load::Loads;
use crate::iterate::loss::Loss;
use crate::iterate::server::Servers;
use crate::metrics::{Counters, UpstreamCounters};
use crate::plan::Plan;
use crate::read::Reply;
use crate::task::Tasks;
use crate::trace::{Kept, Traced};
use crate::upstream::Upstream;
use crate::wheel::Wheel;

/// Most sockets of the pool towards an upstream, in each worker (RFC 5452 §9.2).
pub const MAX_POOL: usize = 4096;

/// What a resolver is given with each event.
pub struct Context<'a, W> {
    /// A monotonic clock in ms; the caches' seconds are a thousandth of it.
    pub now_ms: u64,
    /// Seconds since 1970, by which signatures are judged.
    pub wall_secs: u64,
    /// Where RRsets go.
    pub rrsets: &'a RrsetCache,
    /// Where failures are noted.
    pub failures: &'a FailureCache,
    /// What is to be done.
    pub actions: &'a mut Actions<W>,
}

impl<W> Context<'_, W> {
    fn now_secs(&self) -> u32 {
        (self.now_ms / 1000) as u32
    }
}

/// What became of a question.
#[derive(Debug)]
pub enum Submitted<W> {
    /// It is being resolved; [`Action::Finish`] will come.
    Started,
    /// It waits for the same question that is being resolved already.
    Joined,
    /// [`Action::Finish`] is among the actions.
    Answered,
    /// It was not taken.
    Shed {
        /// Why.
        reason: Shed,
        /// The waiter, as it was given.
        waiter: Option<W>,
    },
}

/// Why a question was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shed {
    /// As many questions as are allowed are in flight, none of them for long.
    Tasks,
    /// As many clients as are allowed wait, for this question or in all.
    Waiters,
    /// As many inquiries as are allowed are under way at the zone, or it takes most of the time of
    /// a thread that has none to spare.
    Zone,
    /// The client's network takes most of the time of a thread that has none to spare.
    Client,
    /// The question is malformed.
    Malformed,
}

/// A question that was in flight when its resolver failed: see [`Resolver::abandon`].
#[derive(Debug)]
pub struct Abandoned<W> {
    /// As of [`Ask`](crate::Ask).
    pub question: Vec<u8>,
    /// As of [`Ask`](crate::Ask).
    pub hash: u64,
    /// As of [`Ask`](crate::Ask).
    pub dnssec_ok: bool,
    /// As of [`Ask`](crate::Ask).
    pub checking_disabled: bool,
    /// As of [`Ask`](crate::Ask); empty where the rule passes none.
    pub ecs: Vec<u8>,
    /// Those that wait for it.
    pub waiters: Vec<W>,
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamFailure {
    /// It could not be made.
    Unreachable,
    /// It was closed or reset, or what came over it was no DNS.
    Closed,
}

/// What is known of an upstream, for reports.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamReport<'a> {
    /// Its number.
    pub id: UpstreamId,
    /// Where it is.
    pub spec: &'a UpstreamSpec,
    /// Whether it is asked.
    pub state: BreakerState,
    /// Its smoothed round-trip time; none before the first reply.
    pub rtt_ms: Option<u32>,
    /// Queries that are waited for.
    pub outstanding: u32,
    /// Counts.
    pub counters: &'a UpstreamCounters,
}

/// See the module. `W` stands for a waiting client; the resolver only hands it back.
pub struct Resolver<W> {
    bound: Arc<Bound>,
    upstreams: Vec<Upstream>,
    /// Places in `upstreams` whose upstream was forgotten.
    vacant: Vec<u16>,
    /// Whose turn it is in the rules that go round.
    turn: u32,
    tasks: Tasks<W>,
    attempts: Attempts,
    waiters: usize,
    wheel: Wheel,
    fetches: Fetches,
    fetch_wheel: Wheel,
    servers: Servers,
    loss: Loss,
    reports: report::Reports,
    loads: Loads,
    keys: KeyCache,
    gaps: Gaps,
    rng: ChaCha12Rng,
    cookie_secret: [u8; 16],
    pool_size: usize,
    counters: Counters,
    /// Traces of questions that failed.
    kept: Kept,
    /// Traces that were asked for, and not taken yet.
    traced: Vec<Traced>,
    /// When a failure was noted last; successes within its memory take it back.
    last_failure_secs: Option<u32>,

    // Memory that is used anew for each reply.
    reply: Reply,
    gathered: Gathered,
    assembler: Assembler,
    question: Vec<u8>,
    found: Box<[u8]>,
}

impl<W> Resolver<W> {
    /// A resolver of this plan. `seed` must come from the system's random source and be used
    /// once. Each upstream gets a pool of `pool_size` sockets: 4096 for 12 unpredictable bits;
    /// rounded down to a power of two.
    #[must_use]
    pub fn new(plan: Arc<Plan>, seed: [u8; 32], pool_size: usize) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let mut cookie_secret = [0; 16];
        rng.fill_bytes(&mut cookie_secret);
        // Neither use tells anybody the secret.
        let mut loads_key = [0; 32];
        loads_key[..16].copy_from_slice(&cookie_secret);
        let in_flight = plan.settings.in_flight;
        let mut resolver = Self {
            bound: Arc::new(Bound { plan: Arc::clone(&plan), ids: Vec::new() }),
            upstreams: Vec::new(),
            vacant: Vec::new(),
            turn: 0,
            tasks: Tasks::new(in_flight),
            attempts: Attempts::new(in_flight),
            waiters: 0,
            wheel: Wheel::new(),
            fetches: Fetches::default(),
            fetch_wheel: Wheel::new(),
            servers: Servers::new(cookie_secret),
            loss: Loss::default(),
            reports: report::Reports::default(),
            loads: Loads::new(HashKey::new(loads_key)),
            keys: KeyCache::default(),
            gaps: Gaps::default(),
            rng,
            cookie_secret,
            pool_size: 1 << pool_size.clamp(1, MAX_POOL).ilog2(),
            counters: Counters::default(),
            kept: Kept::default(),
            traced: Vec::new(),
            last_failure_secs: None,
            reply: Reply::default(),
            gathered: Gathered::default(),
            assembler: Assembler::default(),
            question: Vec::new(),
            found: vec![0; avocet_cache::MAX_PAYLOAD_BYTES].into(),
        };
        resolver.bind(plan);
        resolver
    }

    /// Takes out all that was in flight, after a fault left this resolver in an unknown state. It
    /// is of no further use.
    pub fn abandon(&mut self) -> impl Iterator<Item = Abandoned<W>> {
        self.tasks.take_all().map(|task| {
            let AskedFor { hash, dnssec_ok, checking_disabled, .. } = task.asked_for();
            let waiters = task.waiters.into_iter().map(|waiting| waiting.waiter).collect();
            Abandoned {
                question: task.question,
                hash,
                dnssec_ok,
                checking_disabled,
                ecs: task.ecs,
                waiters,
            }
        })
    }

    /// Takes another plan into force. What is known of upstreams that are in both is kept;
    /// questions in flight end by the plan they began with.
    pub fn replace_plan(&mut self, plan: Arc<Plan>, actions: &mut Actions<W>) {
        self.bind(plan);
        // Other anchors may hold.
        self.forget_proofs();
        for at in 0..self.upstreams.len() {
            self.forget_if_idle(at as u16, actions);
        }
    }

    /// Forgets keys of zones and gaps between names: they are asked for anew.
    pub fn forget_proofs(&mut self) {
        self.keys = KeyCache::default();
        self.gaps = Gaps::default();
    }

    fn bind(&mut self, plan: Arc<Plan>) {
        let is_vacant = |at: usize, vacant: &[u16]| vacant.contains(&(at as u16));
        for upstream in &mut self.upstreams {
            upstream.planned = false;
        }
        let mut ids = Vec::with_capacity(plan.upstreams.len());
        // By recursion servers are known by their addresses alone, but for those of sets.
        let is_by_address = plan.recursion.is_some() && !plan.has_sets();
        let upstreams = if is_by_address { &[] } else { &plan.upstreams[..] };
        for spec in upstreams {
            let known = (0..self.upstreams.len())
                .find(|&at| self.upstreams[at].spec == *spec && !is_vacant(at, &self.vacant));
            let at = known.unwrap_or_else(|| self.add_upstream(*spec));
            self.upstreams[at].planned = true;
            ids.push(at as u16);
        }
        self.bound = Arc::new(Bound { plan, ids });
    }

    fn add_upstream(&mut self, spec: UpstreamSpec) -> usize {
        let upstream = Upstream::new(spec, &self.cookie_secret, self.pool_size);
        if let Some(at) = self.vacant.pop() {
            self.upstreams[usize::from(at)] = upstream;
            return usize::from(at);
        }
        self.upstreams.push(upstream);
        self.upstreams.len() - 1
    }

    /// Forgets an upstream that no plan names and no query waits for.
    fn forget_if_idle(&mut self, at: u16, actions: &mut Actions<W>) {
        let upstream = &self.upstreams[usize::from(at)];
        if !upstream.planned
            && upstream.outstanding == 0
            && !self.vacant.contains(&at)
            && !self.is_bound(at)
        {
            self.vacant.push(at);
            actions.list.push(Action::Forget { upstream: UpstreamId(at) });
        }
    }

    /// Does a task in flight follow a plan that has this upstream?
    fn is_bound(&self, at: u16) -> bool {
        let mut bound = self.tasks.by_age().filter_map(|task| self.tasks[task].bound.as_deref());
        bound.any(|bound| bound.ids.contains(&at))
    }

    /// Of how many hundredths of its time of late the thread was busy. With none to spare,
    /// questions of those zones and clients are turned away that take most of it (S28).
    pub fn note_busy(&mut self, percent: u32) {
        self.loads.note_busy(percent);
    }

    /// Where an upstream is. None if there is none of this number.
    #[must_use]
    pub fn upstream(&self, id: UpstreamId) -> Option<&UpstreamSpec> {
        self.upstreams.get(usize::from(id.0)).map(|upstream| &upstream.spec)
    }

    /// All upstreams of the plan in force.
    pub fn upstreams(&self) -> impl Iterator<Item = UpstreamReport<'_>> {
        self.upstreams.iter().enumerate().filter(|(_, upstream)| upstream.planned).map(
            |(at, upstream)| UpstreamReport {
                id: UpstreamId(at as u16),
                spec: &upstream.spec,
                state: upstream.breaker.state(),
                rtt_ms: upstream.rtt.smoothed_ms(),
                outstanding: upstream.outstanding,
                counters: &upstream.counters,
            },
        )
    }

    /// Counts.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Questions in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.tasks.len()
    }

    /// Questions that may still begin before others have to give way.
    #[must_use]
    pub fn room(&self) -> usize {
        self.bound.plan.settings.in_flight.saturating_sub(self.tasks.len())
    }

    /// Waiting clients.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiters
    }

    /// When [`Resolver::tick`] is to be called next, in ms; none while nothing is in flight.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        [self.wheel.next_ms(), self.fetch_wheel.next_ms()].into_iter().flatten().min()
    }
}
