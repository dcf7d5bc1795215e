//! The resolver of one thread: its interface and its parts.
//!
//! A question passes through the files below in this order. `submit` takes it. Without recursion,
//! `forward` begins an exchange with the upstreams and evaluates its replies. With recursion, the
//! question becomes a walk (an `async` function, see `iterate`): `walk` runs it, and `fetch` begins
//! an exchange for each query that it requests. For both, `choose` chooses a server, `send` queries
//! it, `reply` handles the reply and `timer` a missing reply. `encrypted` handles queries of walks
//! over TLS to servers that prove no identity. `end` answers the clients.

mod choose;
mod encrypted;
mod end;
mod fetch;
mod forward;
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
use avocet_wire::{FoldedNameBuf, QuestionBuf};
use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use crate::action::{Action, Actions, AskedFor};
use crate::answer::Gathered;
use crate::assemble::Assembler;
use crate::bound::Bound;
use crate::exchange::Exchanges;
use crate::exchange::breaker::BreakerState;
use crate::exchange::endpoint::{Endpoint, EndpointId, TlsFault};
use crate::exchange::server::Servers;
use crate::iterate::fetches::Fetches;
use crate::iterate::gaps::Gaps;
use crate::iterate::key_cache::KeyCache;
use crate::iterate::load::Loads;
use crate::metrics::{Counters, UpstreamCounters};
use crate::plan::Plan;
use crate::read::Reply;
use crate::task::Tasks;
use crate::trace::{Kept, Traced};

pub use traced::Handing;

/// Maximum number of sockets in the pool of an upstream, per worker (RFC 5452 §9.2).
pub const MAX_POOL: usize = 4096;

/// The environment of an event: the time, the caches, and the list of actions.
pub struct Context<'a, W> {
    /// The time of a monotonic clock, in ms. The caches use its seconds.
    pub now_ms: u64,
    /// Seconds since 1970, for the validity of signatures.
    pub wall_secs: u64,
    /// The cache of RRsets.
    pub rrsets: &'a RrsetCache,
    /// The cache of failures.
    pub failures: &'a FailureCache,
    /// The list that receives the actions.
    pub actions: &'a mut Actions<W>,
}

impl<W> Context<'_, W> {
    fn now_secs(&self) -> u32 {
        (self.now_ms / 1000) as u32
    }
}

/// The result of submitting a question.
#[derive(Debug)]
pub enum Submitted<W> {
    /// The question is being resolved. [`Action::Finish`] follows later.
    Started,
    /// The question waits for an equal question that is already being resolved.
    Joined,
    /// The answer is ready: [`Action::Finish`] is among the actions.
    Answered,
    /// The question was rejected.
    Shed {
        /// The reason.
        reason: Shed,
        /// The waiter that was passed in.
        waiter: Option<W>,
    },
}

/// The reason why a question was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shed {
    /// The limit on questions in flight is reached, and none of these is old enough to be replaced.
    Tasks,
    /// The limit on waiting clients is reached, for this question or in total.
    Waiters,
    /// The limit on actions that wait to be executed is reached.
    Actions,
    /// The zone has reached its limit on inquiries in flight, or it uses most of the time of an
    /// overloaded thread.
    Zone,
    /// The client's network uses most of the time of an overloaded thread.
    Client,
    /// No forwarding rule applies to the question, and recursion is off.
    NoRule,
}

/// A question that was in flight when its resolver failed with a panic: see [`Resolver::abandon`].
#[derive(Debug)]
pub struct Abandoned<W> {
    /// The question; see [`Ask`](crate::Ask).
    pub question: QuestionBuf,
    /// The hash; see [`Ask`](crate::Ask).
    pub hash: u64,
    /// The DO bit; see [`Ask`](crate::Ask).
    pub dnssec_ok: bool,
    /// The CD bit; see [`Ask`](crate::Ask).
    pub checking_disabled: bool,
    /// The client subnet; empty if the forwarding rule sends none. See [`Ask`](crate::Ask).
    pub ecs: Vec<u8>,
    /// The waiting clients.
    pub waiters: Vec<W>,
}

/// The state of an upstream, for reports.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamReport<'a> {
    /// The identifier of the upstream.
    pub id: EndpointId,
    /// The address and transport.
    pub endpoint: Endpoint,
    /// The state of the circuit breaker.
    pub state: BreakerState,
    /// The smoothed round-trip time; `None` before the first reply.
    pub rtt_ms: Option<u32>,
    /// Outstanding queries.
    pub outstanding: u32,
    /// The reason why TLS failed; `None` if a reply has arrived since.
    pub tls_fault: Option<TlsFault>,
    /// The counters.
    pub counters: &'a UpstreamCounters,
}

/// The resolver of one thread. `W` is a waiting client, which the resolver only returns.
///
/// The caller is the driver: it passes events in with the time, and executes the [`Action`]s that
/// come out. Events are questions ([`Resolver::submit`]), messages from servers
/// ([`Resolver::received`]), errors of sockets ([`Resolver::failed`]) and time
/// ([`Resolver::tick`]).
///
/// ```
/// use avocet_cache::{FailureCache, RrsetCache, TtlBounds};
/// use avocet_resolver::{
///     Action, Actions, Ask, Context, EcsPolicy, Endpoint, Introduction, Plan, Resolver, Settings,
///     Strategy, Transport, ZoneRule,
/// };
/// use avocet_wire::Question;
///
/// // All names are forwarded to one server.
/// let ttl = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3_600 };
/// let rule = ZoneRule {
///     zone: [0].into(),
///     exception: false,
///     upstreams: vec![Endpoint {
///         addr: ([192, 0, 2, 1], 53).into(),
///         transport: Transport::Udp,
///     }],
///     reserves: Vec::new(),
///     strategy: Strategy::Ordered,
///     case_randomisation: false,
///     ecs: EcsPolicy::Strip,
///     introduction: Introduction::None,
///     timeout_ms: (50, 2_000),
/// };
/// let settings =
///     Settings { minimal: true, stale_client_ms: 1_800, in_flight: 64, waiters: 256, ttl };
/// let plan = Plan::new(vec![rule], settings).expect("a valid rule");
///
/// let rrsets = RrsetCache::new(1 << 20, 0, ttl, [1; 16]).expect("enough memory");
/// let failures = FailureCache::new(1 << 20, [2; 16]).expect("enough memory");
/// let mut resolver = Resolver::new(plan.into(), [3; 32], 16);
/// let mut actions = Actions::default();
///
/// // A client queries the address of `a.example.`: the action is a query to the server.
/// let ask = Ask {
///     question: Question::new(b"\x01a\x07example\x00\x00\x01\x00\x01").expect("a question"),
///     hash: 4,
///     dnssec_ok: false,
///     checking_disabled: false,
///     ecs: &[],
///     client: None,
///     introduced: None,
///     stale_available: false,
///     servers: &[],
/// };
/// let (now_ms, wall_secs) = (30_000, 1_700_000_000);
/// let mut cx = Context {
///     now_ms,
///     wall_secs,
///     rrsets: &rrsets,
///     failures: &failures,
///     actions: &mut actions,
/// };
/// resolver.submit(&ask, Some("client"), &mut cx);
/// assert!(matches!(cx.actions.list[..], [Action::Send { .. }]));
///
/// // No response arrives: each timeout causes a retry, until the question fails.
/// while !cx.actions.list.iter().any(|action| matches!(action, Action::Finish { .. })) {
///     cx.now_ms = resolver.next_deadline().expect("a question in flight");
///     resolver.tick(&mut cx);
/// }
/// assert_eq!(cx.actions.waiters, ["client"]);
/// ```
pub struct Resolver<W> {
    bound: Arc<Bound>,
    tasks: Tasks<W>,
    fetches: Fetches,
    exchanges: Exchanges,
    waiters: usize,
    reports: report::Reports,
    loads: Loads,
    keys: KeyCache,
    gaps: Gaps,
    counters: Counters,
    /// The traces of recently failed questions.
    kept: Kept,
    /// Requested traces that are complete and were not taken yet.
    traced: Vec<Traced>,
    handing: Handing,
    /// The second of the last failure. A success soon after it removes the failure from the cache.
    last_failure_secs: Option<u32>,

    // The fields from here on are buffers that are reused for each reply.
    reply: Reply,
    gathered: Gathered,
    /// The end of the chain of aliases in the last reply to a task.
    chain_end: FoldedNameBuf,
    assembler: Assembler,
    found: Box<[u8]>,
}

impl<W> Resolver<W> {
    /// Creates a resolver with this plan. `seed` must come from the system's random source and be
    /// used once. Each upstream gets a pool of `pool_size` sockets, rounded down to a power of two.
    /// For example, 4096 sockets give 12 unpredictable bits.
    #[must_use]
    pub fn new(plan: Arc<Plan>, seed: [u8; 32], pool_size: usize) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let mut cookie_secret = [0; 16];
        rng.fill_bytes(&mut cookie_secret);
        // The secret is used for two purposes, neither of which reveals it.
        let mut loads_key = [0; 32];
        loads_key[..16].copy_from_slice(&cookie_secret);
        let in_flight = plan.settings.in_flight;
        let pool_size = 1 << pool_size.clamp(1, MAX_POOL).ilog2();
        let mut resolver = Self {
            bound: Arc::new(Bound { plan: Arc::clone(&plan), servers: Vec::new() }),
            tasks: Tasks::new(in_flight),
            fetches: Fetches::default(),
            exchanges: Exchanges::new(Servers::new(cookie_secret, pool_size), in_flight, rng),
            waiters: 0,
            reports: report::Reports::default(),
            loads: Loads::new(HashKey::new(loads_key)),
            keys: KeyCache::default(),
            gaps: Gaps::default(),
            counters: Counters::default(),
            kept: Kept::default(),
            traced: Vec::new(),
            handing: Handing::Off,
            last_failure_secs: None,
            reply: Reply::default(),
            gathered: Gathered::default(),
            chain_end: FoldedNameBuf::ROOT,
            assembler: Assembler::default(),
            found: vec![0; avocet_cache::MAX_PAYLOAD_BYTES].into(),
        };
        resolver.bind(plan);
        resolver
    }

    /// Returns all questions in flight, after a panic left this resolver in an unknown state. The
    /// resolver must not be used again.
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

    /// Puts another plan in force. The records of upstreams that are in both plans are kept. A
    /// question in flight keeps the plan with which it began.
    pub fn replace_plan(&mut self, plan: Arc<Plan>, actions: &mut Actions<W>) {
        self.bind(plan);
        // The trust anchors of the new plan may be different.
        self.forget_proofs();
        self.forget_unplanned(actions);
    }

    /// Discards cached keys of zones and NSEC ranges, so that they are fetched again.
    pub fn forget_proofs(&mut self) {
        self.keys = KeyCache::default();
        self.gaps = Gaps::default();
    }

    fn bind(&mut self, plan: Arc<Plan>) {
        self.exchanges.servers.unplan();
        // With recursion, the servers of rules are only pinned if there are server sets.
        let is_pinned = plan.recursion.is_none() || plan.has_sets();
        let servers = &mut self.exchanges.servers;
        let mut pin = |number: &u16| servers.pin(plan.upstreams[usize::from(*number)]);
        let rules = if is_pinned { plan.rules() } else { &[] };
        let servers = rules.iter().map(|rule| rule.upstreams.iter().map(&mut pin).collect());
        let servers = servers.collect();
        self.bound = Arc::new(Bound { plan, servers });
    }

    /// Forgets servers that are in no plan, have no outstanding query, and serve no task in flight.
    fn forget_unplanned(&mut self, actions: &mut Actions<W>) {
        for endpoint in self.exchanges.servers.unplanned() {
            let mut bound = self.tasks.by_age().filter_map(|at| self.tasks[at].bound.as_deref());
            if !bound.any(|bound| bound.names(endpoint)) {
                self.exchanges.servers.forget(endpoint);
                actions.list.push(Action::Forget { endpoint });
            }
        }
    }

    /// Records the percentage of recent time for which the thread was busy. When it is overloaded,
    /// questions of the zones and clients that use most of its time are rejected (S28 in
    /// tests/SECURITY.md).
    pub fn note_busy(&mut self, percent: u32) {
        self.loads.note_busy(percent);
    }

    /// Returns all servers that the plan in force forwards to.
    pub fn upstreams(&self) -> impl Iterator<Item = UpstreamReport<'_>> {
        self.exchanges.servers.planned().map(|(id, server, pinned)| UpstreamReport {
            id,
            endpoint: server.endpoint,
            state: server.breaker.state(),
            rtt_ms: server.rtt.smoothed_ms(),
            outstanding: server.outstanding,
            tls_fault: pinned.tls_fault,
            counters: &pinned.counters,
        })
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the number of questions in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.tasks.len()
    }

    /// Returns how many more questions may begin before earlier questions must be ended to make
    /// room.
    #[must_use]
    pub fn room(&self) -> usize {
        self.bound.plan.settings.in_flight.saturating_sub(self.tasks.len())
    }

    /// Returns the number of waiting clients.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiters
    }

    /// Returns when to call [`Resolver::tick`] next, in ms; `None` while nothing is in flight.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.exchanges.timers.next_ms()
    }
}
