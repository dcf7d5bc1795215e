//! The resolver of one thread: its interface and its parts.
//!
//! A question passes through the files below in this order. `submit` takes it. By forwarding,
//! `forward` begins an exchange and judges its replies; by recursion, `walk` polls the walk and
//! `fetch` has an exchange for each of its inquiries. For both, `choose` draws a server, `send`
//! asks it, `reply` takes what comes back and `timer` what does not. `end` answers the clients.

mod choose;
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
use crate::exchange::endpoint::{Endpoint, EndpointId};
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
    /// No rule applies to the question.
    NoRule,
}

/// A question that was in flight when its resolver failed: see [`Resolver::abandon`].
#[derive(Debug)]
pub struct Abandoned<W> {
    /// As of [`Ask`](crate::Ask).
    pub question: QuestionBuf,
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

/// What is known of an upstream, for reports.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamReport<'a> {
    /// Its number.
    pub id: EndpointId,
    /// Where it is.
    pub endpoint: Endpoint,
    /// Whether it is asked.
    pub state: BreakerState,
    /// Its smoothed round-trip time; none before the first reply.
    pub rtt_ms: Option<u32>,
    /// Queries that are waited for.
    pub outstanding: u32,
    /// Counts.
    pub counters: &'a UpstreamCounters,
}

/// The resolver of one thread. `W` is a waiting client, which the resolver only hands back.
///
/// The caller is the driver: it passes events in with the time, and executes the [`Action`]s that
/// come out. Events are questions ([`Resolver::submit`]), messages from servers
/// ([`Resolver::received`]), errors of sockets ([`Resolver::failed`]) and time
/// ([`Resolver::tick`]).
///
/// ```
/// use avocet_cache::{FailureCache, RrsetCache, TtlBounds};
/// use avocet_resolver::{
///     Action, Actions, Ask, Context, EcsPolicy, Endpoint, Plan, Resolver, Settings, Strategy,
///     Transport, ZoneRule,
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
///     strategy: Strategy::Ordered,
///     case_randomisation: false,
///     ecs: EcsPolicy::Strip,
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
    /// Traces of questions that failed.
    kept: Kept,
    /// Traces that were asked for, and not taken yet.
    traced: Vec<Traced>,
    /// When a failure was noted last; successes within its memory take it back.
    last_failure_secs: Option<u32>,

    // Memory that is used anew for each reply.
    reply: Reply,
    gathered: Gathered,
    /// Where the chain of aliases in the last reply to a task ends.
    chain_end: FoldedNameBuf,
    assembler: Assembler,
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
        self.forget_unplanned(actions);
    }

    /// Forgets keys of zones and gaps between names: they are asked for anew.
    pub fn forget_proofs(&mut self) {
        self.keys = KeyCache::default();
        self.gaps = Gaps::default();
    }

    fn bind(&mut self, plan: Arc<Plan>) {
        self.exchanges.servers.unplan();
        // By recursion no server is pinned, but for those of sets.
        let is_pinned = plan.recursion.is_none() || plan.has_sets();
        let servers = &mut self.exchanges.servers;
        let mut pin = |number: &u16| servers.pin(plan.upstreams[usize::from(*number)]);
        let rules = if is_pinned { plan.rules() } else { &[] };
        let servers = rules.iter().map(|rule| rule.upstreams.iter().map(&mut pin).collect());
        let servers = servers.collect();
        self.bound = Arc::new(Bound { plan, servers });
    }

    /// Forgets servers that no plan names, no query waits for, and no task in flight may ask.
    fn forget_unplanned(&mut self, actions: &mut Actions<W>) {
        for endpoint in self.exchanges.servers.unplanned() {
            let mut bound = self.tasks.by_age().filter_map(|at| self.tasks[at].bound.as_deref());
            if !bound.any(|bound| bound.names(endpoint)) {
                self.exchanges.servers.forget(endpoint);
                actions.list.push(Action::Forget { endpoint });
            }
        }
    }

    /// Of how many hundredths of its time of late the thread was busy. With none to spare,
    /// questions of those zones and clients are turned away that take most of it (S28).
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
            counters: &pinned.counters,
        })
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
        self.exchanges.timers.next_ms()
    }
}
