//! Resolution: the part of a worker that finds the answers to queries.
//!
//! A query is answered in one of two ways:
//!
//! ```text
//! lend     -> query path -> step                                 at once
//!                        -> miss -> submit -> its owner's resolver
//! act      <- actions of the resolver: send, close, finish ...
//!          -> upstreams                  queries to servers
//!          -> query path -> LateStep                             later
//! ```
//!
//! - **At once**: [`Resolution::lend`] lends the query path with the state in force to the intake,
//!   which passes queries to the path and gets the resulting steps.
//! - **Later**: a query that must wait (a *miss*) is queued. [`Resolution::submit_misses`] sends
//!   each miss to the worker that the hash of its question determines, so that one resolver has all
//!   clients that wait for a name. [`Resolution::act`] executes the actions of the resolver, and
//!   passes each finished query on as a [`LateStep`](super::values::LateStep).
//!
//! The resolver does no I/O: [`upstreams`] has the sockets for queries to servers. Events are
//! letters (messages of other workers), readable sockets and the passing of time. Every call that
//! may end a query takes a [`WorkerTurn`]. In this module, a client is only a value: a [`Waiter`]
//! with a route for its reply. Resolution neither sends replies to clients nor counts their
//! queries.

mod act;
mod connection;
mod endpoints;
mod held;
mod quic_timers;
mod recover;
mod share;
mod source;
mod submit;
mod traces;
mod upstreams;

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use avocet_io::poll::{Event, Poller};
use avocet_io::udp::BATCH;
use avocet_nameserver::datagrams::Newer;
use avocet_nameserver::metrics::WorkerMetrics;
use avocet_nameserver::query::miss::{Miss, Waiter};
use avocet_nameserver::query::scratch::Scratch;
use avocet_nameserver::query::{QueryContext, Seen};
use avocet_nameserver::snapshot::Snapshot;
use avocet_resolver::{Actions, Context, Handing, Resolver, SocketFault, SocketId};
use avocet_wire::MAX_MESSAGE;
use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use super::allowance::Allowance;
use super::values::{Deliver, Time, WorkerTurn};
use crate::resolver_report::{ResolverReport, UpstreamReport, logged};
use crate::setup::{Setup, WorkerRings};
use crate::state::Shared;
use act::ActionBatch;
use held::HeldQueries;
use share::Shares;
use traces::TraceOrders;
use upstreams::{SocketLimits, Upstreams};

/// The part of one worker that finds the answers to queries; see the module.
pub(crate) struct Resolution {
    index: u16,
    shared: Arc<Shared>,
    /// The snapshot in force in this worker.
    state: Arc<Snapshot>,
    revision: u64,
    /// The number of times that proofs had been removed from the caches when this worker last
    /// removed its own proofs.
    forgotten: u64,
    scratch: Scratch,
    /// The results of reading ahead in a batch (to prefetch cache lines), one for each datagram.
    seen: Box<[Seen; BATCH]>,
    /// The buffer for one complete message: a reply over TCP, a late reply, or a reply of a server.
    message: Box<[u8]>,
    /// Queries that must wait for resolution and were not submitted yet.
    misses: Vec<Miss>,
    resolver: Resolver<Box<Waiter>>,
    /// When a timer of the resolver is due, in milliseconds, as of the last call of
    /// [`Resolution::next_deadline`]. A timer that was set since then waits for the next turn of
    /// the event loop.
    timer_due_ms: u64,
    shares: Shares,
    /// Requests of control clients for traces.
    wanted: TraceOrders,
    /// The queries that are held until their clients are identified.
    held: HeldQueries,
    actions: Actions<Box<Waiter>>,
    spare_actions: Actions<Box<Waiter>>,
    /// Actions that the last turn of the event loop did not execute.
    backlog: Option<ActionBatch>,
    /// The time that actions may take in this turn of the event loop.
    allowance: Allowance,
    upstreams: Upstreams,
    limits: SocketLimits,
    rng: ChaCha12Rng,
}

/// The query path of a worker. `Resolution` lends it to the intake while the intake reads queries.
pub(crate) struct QueryPath<'w> {
    /// The state in force.
    pub(crate) cx: QueryContext<'w>,
    /// The check for a snapshot that came into force during the turn of the event loop.
    pub(crate) newer: Newer,
    /// The queries that must wait for resolution.
    pub(crate) misses: &'w mut Vec<Miss>,
    /// The results of reading ahead in a batch (to prefetch cache lines), one for each datagram.
    pub(crate) seen: &'w mut [Seen; BATCH],
    /// The buffer for a reply over TCP.
    pub(crate) message: &'w mut [u8],
}

impl Resolution {
    /// Creates the resolution of a worker, with nothing in flight.
    pub(crate) fn new(setup: &Setup, shared: Arc<Shared>) -> Self {
        let state = shared.snapshot();
        let limits = SocketLimits { pool_size: setup.pool_size, open: setup.upstream_sockets };
        let mut rng = ChaCha12Rng::from_seed(setup.seed);
        let (seed, shares_key) = (secret(&mut rng), secret(&mut rng));
        let mut resolver = Resolver::new(state.plan.clone(), seed, limits.pool_size as usize);
        resolver.hand_traces_over(handing(&state));
        let resolution = Self {
            index: setup.index,
            revision: shared.name_server.revision(),
            forgotten: shared.name_server.forgotten(),
            scratch: Scratch::of(usize::from(setup.index)),
            seen: Box::new([Seen::NOTHING; BATCH]),
            message: vec![0; MAX_MESSAGE].into_boxed_slice(),
            misses: Vec::new(),
            resolver,
            timer_due_ms: 0,
            shares: Shares::new(shares_key),
            wanted: TraceOrders::default(),
            held: HeldQueries::default(),
            actions: Actions::default(),
            spare_actions: Actions::default(),
            backlog: None,
            allowance: Allowance::default(),
            upstreams: Upstreams::new(
                limits,
                state.ports.clone(),
                shared.upstream_peers.clone(),
                port_draws(&mut rng),
            ),
            limits,
            rng,
            state,
            shared,
        };
        resolution.report_upstreams();
        resolution
    }

    /// Sets the worker's ends of its ring buffers for the query log, dnstap and traces.
    pub(crate) fn set_rings(&mut self, rings: WorkerRings) {
        self.scratch.set_log(Some(rings.log));
        self.scratch.set_tap(Some(rings.tap));
        self.scratch.traces().set_sender(Some(rings.trace));
    }

    /// Refills the time that actions and held queries may take, at the start of a turn of the event
    /// loop.
    pub(crate) fn begin_turn(&mut self, time: Time) {
        self.allowance.renew();
        self.held.renew();
        self.refresh(time);
    }

    /// Changes to the snapshot in force if it is a new one, and forgets proofs if this was
    /// requested.
    pub(crate) fn refresh(&mut self, time: Time) {
        let forgotten = self.shared.name_server.forgotten();
        if forgotten != self.forgotten {
            self.forgotten = forgotten;
            self.resolver.forget_proofs();
        }
        let revision = self.shared.name_server.revision();
        if revision != self.revision {
            self.revision = revision;
            let before = std::mem::replace(&mut self.state, self.shared.snapshot());
            self.resolver.hand_traces_over(handing(&self.state));
            if !Arc::ptr_eq(&before.plan, &self.state.plan) {
                // Queries in flight keep the old plan until they complete.
                self.resolver.replace_plan(self.state.plan.clone(), &mut self.actions);
                self.report_upstreams();
            }
            if !Arc::ptr_eq(&before.ports, &self.state.ports) {
                self.upstreams.change_ports(self.state.ports.clone());
                self.report_faults(time);
            }
        }
    }

    /// Returns the snapshot that this worker uses.
    pub(crate) fn state(&self) -> &Snapshot {
        &self.state
    }

    /// Lends the query path to the caller.
    #[inline]
    pub(crate) fn lend(&mut self, time: Time) -> QueryPath<'_> {
        let Self { shared, state, revision, scratch, misses, seen, message, .. } = self;
        QueryPath {
            cx: QueryContext {
                shared: &shared.name_server,
                state,
                now: time.now,
                wall_secs: time.wall_secs,
                scratch,
            },
            newer: Newer { known: *revision, state: None },
            misses,
            seen,
            message,
        }
    }

    fn query_context(&self, time: Time) -> QueryContext<'_> {
        let Self { shared, state, scratch, .. } = self;
        let Time { now, wall_secs } = time;
        QueryContext { shared: &shared.name_server, state, now, wall_secs, scratch }
    }

    /// Records that a UDP socket for a server can be read.
    pub(crate) fn note_readable(&mut self, id: SocketId) {
        self.upstreams.note_readable(id);
    }

    /// Writes to and reads from a connection to a server.
    pub(crate) fn drive_stream<D: Deliver>(
        &mut self,
        id: SocketId,
        event: Event,
        turn: &mut WorkerTurn<'_, D>,
    ) {
        let Self { resolver, shared, actions, upstreams, .. } = self;
        let (poller, time) = (turn.poller, turn.time);
        let fault = upstreams.drive_stream(poller, (id, event), time.millis(), &mut |message| {
            resolver.received(id, message, &mut context(shared, actions, time));
        });
        if let Some(fault) = fault {
            resolver.failed(id, fault, &mut context(shared, actions, time));
        }
        self.act(turn);
    }

    /// Does the work at the end of a turn of the event loop: reads the replies of servers, and
    /// handles timers.
    pub(crate) fn end_turn<D: Deliver>(&mut self, turn: &mut WorkerTurn<'_, D>) {
        if self.held.is_behind() {
            self.resume_held(turn);
        }
        self.receive_replies(turn.time);
        if self.timer_due_ms <= turn.time.millis() {
            let Self { resolver, shared, actions, .. } = self;
            resolver.tick(&mut context(shared, actions, turn.time));
        }
        self.act(turn);
        self.deliver_traces();
        self.drive_quic(turn);
    }

    /// Handles the timers of QUIC connections to servers, and sends their datagrams. This is done
    /// once in a turn of the event loop, so that several queries of the turn share a datagram.
    fn drive_quic<D: Deliver>(&mut self, turn: &mut WorkerTurn<'_, D>) {
        /// Maximum number of rounds in one turn of the event loop. In each round, connections fail,
        /// and their queries are sent to other servers.
        const MAX_PASSES: usize = 4;
        let now_ms = turn.time.millis();
        self.upstreams.fire_quic(now_ms);
        for _ in 0..MAX_PASSES {
            self.upstreams.flush_quic(now_ms);
            self.report_faults(turn.time);
            if self.actions.list.is_empty() {
                return;
            }
            self.act(turn);
        }
    }

    /// Reads one datagram from each readable socket. The poller reports the sockets with more
    /// datagrams again.
    fn receive_replies(&mut self, time: Time) {
        let Self { resolver, shared, actions, message, upstreams, .. } = self;
        upstreams.receive(message, |id, received| {
            let mut cx = context(shared, actions, time);
            match received {
                Ok(octets) => resolver.received(id, octets, &mut cx),
                Err(_) => resolver.failed(id, SocketFault::Unreachable, &mut cx),
            }
        });
    }

    /// Opens some sockets for servers in advance.
    pub(crate) fn warm(&mut self, poller: &Poller) {
        self.upstreams.warm(poller);
    }

    /// Closes idle connections to servers, and publishes the counts of the resolver.
    pub(crate) fn sweep<D: Deliver>(&mut self, turn: &mut WorkerTurn<'_, D>) {
        for (id, fault) in self.upstreams.expire(turn.poller, turn.time.millis()) {
            let Self { resolver, shared, actions, .. } = self;
            resolver.failed(id, fault, &mut context(shared, actions, turn.time));
        }
        self.report();
        self.act(turn);
        self.resume_held(turn);
        self.drive_quic(turn);
    }

    /// Publishes the upstreams, and gives them their numbers in the query log. Upstreams of earlier
    /// plans keep theirs, because queries to them may be in flight.
    fn report_upstreams(&self) {
        self.report();
        let upstreams = self.resolver.upstreams();
        self.scratch.log_upstreams(upstreams.map(|upstream| {
            let text = logged(upstream.endpoint.transport, upstream.endpoint.addr);
            (upstream.id, self.shared.logged_upstreams.number(text))
        }));
    }

    fn report(&self) {
        let planned: HashSet<_> = self.resolver.upstreams().map(|upstream| upstream.id).collect();
        let upstreams = self.resolver.upstreams().map(|upstream| UpstreamReport {
            id: upstream.id,
            addr: upstream.endpoint.addr,
            transport: upstream.endpoint.transport,
            tls_fault: upstream.tls_fault,
            counters: *upstream.counters,
            breaker: upstream.state,
        });
        let report = ResolverReport {
            counters: *self.resolver.counters(),
            upstreams: upstreams.collect(),
            sockets: self.upstreams.counts(|endpoint| planned.contains(&endpoint)),
        };
        let place = &self.shared.resolver_reports[usize::from(self.index)];
        *place.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// Returns when a timer of the resolver or of a QUIC connection is due, in milliseconds on the
    /// monotonic clock. Keeps the former for [`Resolution::end_turn`], because finding it takes a
    /// search.
    pub(crate) fn next_deadline(&mut self) -> Option<u64> {
        let timer_ms = self.resolver.next_deadline();
        self.timer_due_ms = timer_ms.unwrap_or(u64::MAX);
        [timer_ms, self.upstreams.quic_deadline_ms()].into_iter().flatten().min()
    }

    /// Returns whether there are still sockets to open in advance.
    pub(crate) fn is_warming(&self) -> bool {
        self.upstreams.is_warming()
    }

    /// Returns the number of questions in flight and of held queries. The result is at least one if
    /// actions wait.
    pub(crate) fn in_flight(&self) -> usize {
        self.resolver.in_flight() + self.held.len() + usize::from(self.is_behind())
    }

    /// Records the percentage of time for which the worker was busy.
    pub(crate) fn note_busy(&mut self, percent: u32) {
        self.resolver.note_busy(percent);
    }

    fn metrics(&self) -> &WorkerMetrics {
        &self.shared.metrics[usize::from(self.index)]
    }
}

/// Returns whether the resolver must pass traces on, because they are exported.
fn handing(state: &Snapshot) -> Handing {
    if state.traced.is_some() { Handing::On } else { Handing::Off }
}

/// Returns the generator for random ports, seeded from the worker's generator.
fn port_draws(rng: &mut ChaCha12Rng) -> ChaCha12Rng {
    ChaCha12Rng::from_seed(secret(rng))
}

fn secret(rng: &mut ChaCha12Rng) -> [u8; 32] {
    let mut secret = [0; 32];
    rng.fill_bytes(&mut secret);
    secret
}

/// Returns the context that the resolver needs for one call.
fn context<'a>(
    shared: &'a Shared,
    actions: &'a mut Actions<Box<Waiter>>,
    time: Time,
) -> Context<'a, Box<Waiter>> {
    let (rrsets, failures) = (&shared.name_server.rrsets, &shared.name_server.failures);
    Context { now_ms: time.millis(), wall_secs: time.wall_secs, rrsets, failures, actions }
}
