//! A worker: one thread, one event loop, all that its clients and upstreams need.
//!
//! ```text
//! wait -> datagrams -> answered at once, in the same batch
//!      -> streams   -> answered at once, in one write      \ what waits: to the resolver of the
//!      -> upstream replies -> resolver -> late answers     / worker that owns the name
//! ```
//! Nothing blocks and nothing is shared but the caches, which are read without locks. A name is
//! always resolved by the worker that its hash belongs to, so all who wait for it meet there.

mod busy;
#[path = "resolution/endpoints.rs"]
mod endpoints;
pub(crate) mod fault;
#[cfg(test)]
mod faulty;
#[path = "resolution/share.rs"]
mod share;
#[path = "resolution/source.rs"]
mod source;
#[path = "intake/streams.rs"]
mod streams;
mod token;
#[path = "resolution/traces.rs"]
pub(crate) mod traces;
mod turn;

use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use avocet_io::poll::{Events, Interest, Poller, Trigger};
use avocet_io::tcp::TcpListener;
use avocet_io::udp::{BATCH, UdpListener};
use avocet_nameserver::clock::Moment;
use avocet_nameserver::close::{Delivery, close};
use avocet_nameserver::datagrams::{Datagrams, Newer};
use avocet_nameserver::metrics::WorkerMetrics;
use avocet_nameserver::query::asked::{Entrance, Transport};
use avocet_nameserver::query::miss::{Miss, Waiter, Way};
use avocet_nameserver::query::scratch::Scratch;
use avocet_nameserver::query::{
    self, Client, Decision, Incoming, Output, QueryContext, QueryStep, Seen, Stage,
};
use avocet_nameserver::snapshot::Snapshot;
use avocet_resolver::{Actions, Resolver, SocketFault, SocketId};
use avocet_wire::MAX_MESSAGE;
use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use crate::connections::{ConnectionLimits, Crowded};
use crate::mailbox::Letter;
use crate::state::Shared;
use busy::Busy;
use endpoints::Endpoints;
use fault::contained;
use share::Shares;
use streams::{Answered, Patience, StreamClient, Streams, Whose};
use token::Token;
use traces::TraceOrders;

/// Events taken from the kernel in one turn.
const EVENTS: usize = 256;
/// Batches of datagrams served from one listener in one turn.
const MAX_BATCHES: usize = 16;
/// Connections taken from one listener in one turn.
const MAX_ACCEPTS: usize = 64;
/// Below so many datagrams in a batch the queue is taken to be empty, and the poller is asked.
const SMALL_BATCH: usize = 8;
/// Milliseconds between looks at timeouts of connections.
const SWEEP_MS: u64 = 500;
/// Milliseconds between turns of an idle worker while it opens sockets ahead of need.
const WARMING_MS: u64 = 1;
/// How long a worker that ends waits for what is in flight, in milliseconds.
const DRAIN_MS: u64 = 6_000;
/// How long connections of clients may be idle while a worker ends.
const DRAIN_IDLE_MS: u64 = 1_000;

/// The sockets on which a worker is asked.
#[derive(Default)]
pub(crate) struct Listeners {
    /// One for each address.
    pub(crate) datagrams: Vec<UdpListener>,
    /// One for each address.
    pub(crate) streams: Vec<TcpListener>,
}

/// The worker that resolves a question with this hash.
pub(crate) fn owner_of(hash: u64, workers: usize) -> usize {
    // The highest bits are those of the question alone.
    ((hash >> 48) % workers as u64) as usize
}

/// Returns the entrance of the listener with this number.
fn entrance(listener: u16, addresses: usize) -> Entrance {
    Entrance((usize::from(listener) % addresses) as u16)
}

/// One of the server's workers.
pub(crate) struct Worker {
    index: u16,
    shared: Arc<Shared>,
    state: Arc<Snapshot>,
    revision: u64,
    forgotten: u64,
    now: Moment,
    wall_secs: u64,
    poller: Poller,
    listeners: Listeners,
    /// How many addresses are listened on. A worker with sockets left over from a take-over has
    /// them again and again, in the same order.
    addresses: usize,
    /// Sizes of the pools and of all sockets towards upstreams.
    sockets: (u32, usize),
    streams: Streams,
    most_streams: usize,
    endpoints: Endpoints,
    /// Sockets and connections from which queries could not be sent, of the actions being done.
    faults: Vec<(SocketId, SocketFault)>,
    resolver: Resolver<Waiter>,
    shares: Shares,
    /// Traces that control clients wait for.
    wanted: TraceOrders,
    busy: Busy,
    actions: Actions<Waiter>,
    spare_actions: Actions<Waiter>,
    rng: ChaCha12Rng,
    /// Datagrams whose sockets are open, by their place in the octets of the actions being done.
    prepared: Vec<(SocketId, Range<usize>)>,
    /// UDP sockets towards servers that have something to read.
    readable: Vec<SocketId>,
    /// Sockets towards upstreams are still being opened ahead of need.
    is_warming: bool,
    /// Queries of this turn that must wait.
    misses: Vec<Miss>,
    letters: Vec<Letter>,
    /// Connections that may be read again.
    resume: Vec<u32>,
    /// Listeners of which no connections are taken until the next sweep.
    resting: Vec<u16>,
    scratch: Scratch,
    /// Keys of the questions of a batch.
    seen: Box<[Seen; BATCH]>,
    /// A whole message: answers over TCP, late answers, upstream replies.
    buffer: Box<[u8]>,
    swept_ms: u64,
    /// When draining began.
    draining_since: Option<u64>,
}

/// What a worker is started with.
pub(crate) struct Setup {
    /// Its number.
    pub(crate) index: u16,
    /// Slots of the pool towards each upstream.
    pub(crate) pool_size: u32,
    /// UDP sockets towards upstreams that it may have open.
    pub(crate) upstream_sockets: usize,
    /// Connections of clients for which there are descriptors.
    pub(crate) most_streams: usize,
    /// Seed of its random numbers, from the system's source.
    pub(crate) seed: [u8; 32],
}

impl Worker {
    /// The token of the mailbox's waker.
    pub(crate) const MAILBOX_TOKEN: u64 = 0;

    /// A worker that watches its sockets.
    pub(crate) fn new(
        setup: Setup,
        shared: Arc<Shared>,
        mut poller: Poller,
        listeners: Listeners,
    ) -> io::Result<Self> {
        for (number, listener) in listeners.datagrams.iter().enumerate() {
            poller.watch(listener, Token::Datagrams(number as u16).pack());
        }
        for (number, listener) in listeners.streams.iter().enumerate() {
            poller.add(
                listener,
                Token::Accept(number as u16).pack(),
                Interest::Read,
                Trigger::Level,
            )?;
        }
        let state = shared.snapshot();
        let mut rng = ChaCha12Rng::from_seed(setup.seed);
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let mut shares_key = [0; 32];
        rng.fill_bytes(&mut shares_key);
        let resolver = Resolver::new(state.plan.clone(), seed, setup.pool_size as usize);
        let endpoints =
            Endpoints::new(setup.pool_size, setup.upstream_sockets, state.ports.clone());
        Ok(Self {
            index: setup.index,
            revision: shared.name_server.revision(),
            forgotten: shared.name_server.forgotten(),
            now: shared.name_server.clock.now(),
            wall_secs: shared.name_server.clock.wall_secs(shared.name_server.clock.now()),
            addresses: state.config.server.addresses().len(),
            state,
            poller,
            listeners,
            sockets: (setup.pool_size, setup.upstream_sockets),
            streams: Streams::new(setup.index),
            most_streams: setup.most_streams,
            endpoints,
            faults: Vec::new(),
            resolver,
            shares: Shares::new(shares_key),
            wanted: TraceOrders::default(),
            busy: Busy::default(),
            actions: Actions::default(),
            spare_actions: Actions::default(),
            rng,
            prepared: Vec::new(),
            readable: Vec::new(),
            is_warming: false,
            misses: Vec::new(),
            letters: Vec::new(),
            resume: Vec::new(),
            resting: Vec::new(),
            scratch: Scratch::of(usize::from(setup.index)),
            seen: Box::new([Seen::NOTHING; BATCH]),
            buffer: vec![0; MAX_MESSAGE].into_boxed_slice(),
            swept_ms: 0,
            draining_since: None,
            shared,
        })
    }

    /// Runs until it has drained.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        // A turn that ended in a panic may have been told of letters and not have read them.
        self.read_letters();
        self.submit_misses();
        loop {
            self.poller.wait(&mut events, Some(self.timeout_ms()))?;
            self.begin_turn();
            let began = self.now;
            self.resume_streams();
            for event in events.iter() {
                match Token::unpack(event.token()) {
                    Token::Mailbox => self.read_letters(),
                    Token::Datagrams(number) => self.serve_datagrams(number),
                    Token::Accept(number) => self.accept(number),
                    Token::Stream(slot) => self.serve_stream(slot),
                    Token::Server(id) if id.slot.is_stream() => self.drive_server(id, event),
                    Token::Server(id) => self.readable.push(id),
                }
            }
            self.end_turn();
            if let Some(percent) = self.busy.note(began, self.shared.name_server.clock.now()) {
                self.resolver.note_busy(percent);
            }
            if self.has_drained() {
                return Ok(());
            }
        }
    }

    fn metrics(&self) -> &WorkerMetrics {
        &self.shared.metrics[usize::from(self.index)]
    }

    fn begin_turn(&mut self) {
        #[cfg(test)]
        fault::planted(&fault::IN_TURN);
        self.now = self.shared.name_server.clock.now();
        self.wall_secs = self.shared.name_server.clock.wall_secs(self.now);
        let forgotten = self.shared.name_server.forgotten();
        if forgotten != self.forgotten {
            self.forgotten = forgotten;
            self.resolver.forget_proofs();
        }
        let revision = self.shared.name_server.revision();
        if revision != self.revision {
            self.revision = revision;
            let before = std::mem::replace(&mut self.state, self.shared.snapshot());
            if !Arc::ptr_eq(&before.plan, &self.state.plan) {
                self.replace_plan();
            }
            if !Arc::ptr_eq(&before.ports, &self.state.ports) {
                self.replace_ports();
            }
        }
    }

    /// Answers what has arrived at a UDP listener.
    fn serve_datagrams(&mut self, number: u16) {
        let Self {
            index,
            shared,
            state,
            wall_secs,
            listeners,
            misses,
            scratch,
            seen,
            revision,
            addresses,
            ..
        } = self;
        let entrance = entrance(number, *addresses);
        let metrics = &shared.metrics[usize::from(*index)];
        let Some(listener) = listeners.datagrams.get_mut(usize::from(number)) else { return };
        let mut waiting = 0;
        for _ in 0..MAX_BATCHES {
            let cx = QueryContext {
                shared: &shared.name_server,
                state,
                now: self.now,
                wall_secs: *wall_secs,
                scratch,
            };
            let newer = Newer { known: *revision, state: None };
            let batch = listener.serve(&mut served(Datagrams {
                cx,
                newer,
                metrics,
                listener: number,
                entrance,
                misses,
                seen,
            }));
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::warn!(%error, "cannot receive datagrams");
                    break;
                }
            };
            waiting += batch.received;
            if batch.received > 0 {
                let after = shared.name_server.clock.now();
                let took = after.micros().saturating_sub(self.now.micros());
                metrics.hit_latency.record(took, batch.sent as u64);
                metrics.batches.add(1);
                metrics.replies_dropped.add(batch.dropped as u64);
                self.now = after;
                *wall_secs = shared.name_server.clock.wall_secs(after);
            }
            if batch.received < SMALL_BATCH {
                break;
            }
        }
        self.busy.note_queue(waiting);
        self.submit_misses();
    }

    /// Takes connections in, within the limits.
    fn accept(&mut self, number: u16) {
        for accepted in 0..MAX_ACCEPTS {
            let Some(listener) = self.listeners.streams.get(usize::from(number)) else { return };
            let (stream, ip) = match listener.accept() {
                Ok(Some((stream, addr))) => (stream, addr.ip()),
                Ok(None) => return,
                // Without descriptors accept(2) fails before it looks whether somebody waits: if
                // so, we are called again.
                Err(_) if accepted > 0 => return,
                Err(error) => {
                    // Out of descriptors: make room by closing an idle connection, once.
                    if !self.evict(Whose::Anyone) {
                        self.rest_from_accepting(number, &error);
                    }
                    return;
                }
            };
            // A connection of a client that is not answered must not take a place from one that is.
            let entrance = entrance(number, self.addresses);
            if !self.state.allow.admits(entrance, ip) {
                self.metrics().tcp_refused.add(1);
                continue;
            }
            let is_open = self.admit(ip) && {
                let client = StreamClient { ip, entrance };
                let inserted = self.streams.insert(&self.poller, stream, client, self.now.millis());
                if inserted.is_err() {
                    self.shared.connections.close(ip);
                }
                inserted.is_ok()
            };
            let metrics = self.metrics();
            if is_open { metrics.tcp_accepted.add(1) } else { metrics.tcp_rejected.add(1) }
        }
    }

    /// With no room to be made, the poller would call for a connection that cannot be taken in
    /// again and again: it is asked no more until the next sweep.
    fn rest_from_accepting(&mut self, number: u16, error: &io::Error) {
        tracing::warn!(%error, "cannot accept connections");
        let listener = self.listeners.streams.get(usize::from(number));
        if listener.is_some_and(|listener| self.poller.remove(listener).is_ok()) {
            self.resting.push(number);
        }
    }

    /// Accepts connections again where that had to rest.
    fn accept_again(&mut self) {
        let Self { resting, listeners, poller, .. } = self;
        resting.retain(|&number| {
            let Some(listener) = listeners.streams.get(usize::from(number)) else { return false };
            poller
                .add(listener, Token::Accept(number).pack(), Interest::Read, Trigger::Level)
                .is_err()
        });
    }

    fn admit(&mut self, ip: IpAddr) -> bool {
        let limits = ConnectionLimits::of(&self.state.config.server.tcp);
        // Of all connections each worker has a share, past which its own idle ones make room: else
        // one that accepts faster could leave nothing to the others, who cannot evict what is not
        // theirs.
        let share = (limits.total / self.shared.mailboxes.len()).min(self.most_streams).max(1);
        match self.shared.connections.open(ip, &limits) {
            Ok(()) => {
                if self.streams.open() >= share {
                    self.evict(Whose::Anyone);
                }
                true
            }
            Err(Crowded::Client) => {
                if self.evict(Whose::Client(ip)) {
                    self.shared.connections.open(ip, &limits).is_ok()
                } else {
                    self.admit_over_limit(ip, limits)
                }
            }
            Err(Crowded::Total) => {
                self.evict(Whose::Anyone) && self.shared.connections.open(ip, &limits).is_ok()
            }
        }
    }

    /// A client at its limit has no idle connection here; the other workers may have one, and are
    /// asked to close it. Until they have, or where they find none, the client is over its limit by
    /// one connection a worker at most.
    fn admit_over_limit(&self, ip: IpAddr, limits: ConnectionLimits) -> bool {
        let others = self.shared.mailboxes.len() - 1;
        let limits = ConnectionLimits { per_client: limits.per_client + others, ..limits };
        let is_open = others > 0 && self.shared.connections.open(ip, &limits).is_ok();
        if is_open {
            let mailboxes = self.shared.mailboxes.iter().enumerate();
            for (_, mailbox) in mailboxes.filter(|(worker, _)| *worker != usize::from(self.index)) {
                // With a mailbox that is full there is more amiss than a connection too many.
                let _ = mailbox.send(Letter::MakeRoom(ip));
            }
        }
        is_open
    }

    /// Closes the longest idle connection of a client that is over its limit, as another worker
    /// took one of its.
    fn make_room(&mut self, ip: IpAddr) {
        let limits = ConnectionLimits::of(&self.state.config.server.tcp);
        if self.shared.connections.of_client(ip) > limits.per_client {
            self.evict(Whose::Client(ip));
        }
    }

    /// Closes the connection that was idle longest. False: none is idle.
    fn evict(&mut self, whose: Whose) -> bool {
        let Some(ip) = self.streams.evict(whose) else { return false };
        self.shared.connections.close(ip);
        self.metrics().tcp_expired.add(1);
        true
    }

    /// Answers what has arrived on a client's connection.
    fn serve_stream(&mut self, slot: u32) {
        let Self {
            index,
            shared,
            state,
            wall_secs,
            now,
            streams,
            misses,
            buffer,
            scratch,
            revision,
            ..
        } = self;
        let metrics = &shared.metrics[usize::from(*index)];
        let cx = QueryContext {
            shared: &shared.name_server,
            state,
            now: *now,
            wall_secs: *wall_secs,
            scratch,
        };
        let mut newer = Newer { known: *revision, state: None };
        let ended = streams.read(slot, now.millis(), &mut |frame, caller, route, writer| {
            let StreamClient { ip, entrance } = caller;
            let client =
                Client { ip, transport: Transport::Tcp, entrance, route: Way::Stream(route) };
            newer.look(&shared.name_server);
            let mut later = None;
            let cx = newer.context(&cx, &mut later);
            let incoming = Incoming { octets: frame, seen: None };
            let step = contained(metrics, || {
                let output = Output { message: &mut *buffer, misses };
                query::answer(cx, incoming, &client, output)
            });
            let failed =
                || QueryStep::Silent(Decision::at(Stage::Failed, Transport::Tcp, cx.state.epoch));
            match close(cx, metrics, &step.unwrap_or_else(failed), ip, buffer) {
                Delivery::Message(len) => {
                    // An answer is never longer than a frame can be.
                    let _ = writer.push(&buffer[..len]);
                    Answered::Now
                }
                Delivery::Nothing => Answered::Never,
                Delivery::Later => Answered::Later,
            }
        });
        if let Some(ip) = ended {
            self.shared.connections.close(ip);
        }
        self.submit_misses();
    }

    fn timeout_ms(&self) -> u32 {
        if !self.resume.is_empty() {
            return 0;
        }
        let now_ms = self.now.millis();
        let sweep = (self.swept_ms + SWEEP_MS).saturating_sub(now_ms);
        let deadline =
            self.resolver.next_deadline().map_or(SWEEP_MS, |at| at.saturating_sub(now_ms));
        let warming = if self.is_warming { WARMING_MS } else { SWEEP_MS };
        sweep.min(deadline).min(warming) as u32
    }

    fn patience(&self) -> Patience {
        let tcp = &self.state.config.server.tcp;
        let idle_ms =
            if self.draining_since.is_some() { DRAIN_IDLE_MS } else { tcp.idle.as_millis() as u64 };
        Patience { idle_ms, read_ms: tcp.read.as_millis() as u64 }
    }
}

/// Returns the service of a listener.
#[cfg(not(test))]
fn served(datagrams: Datagrams<'_>) -> Datagrams<'_> {
    datagrams
}

/// Returns the service of a listener, which panics where a test has planted a fault.
#[cfg(test)]
fn served(datagrams: Datagrams<'_>) -> faulty::Faulty<'_> {
    faulty::Faulty(datagrams)
}
