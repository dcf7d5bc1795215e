//! The event loop of a worker.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use avocet_io::poll::{Event, Events, Poller};
use avocet_io::udp::BATCH;
use avocet_nameserver::close::Ended;
use avocet_nameserver::datagrams::Datagrams;
use avocet_nameserver::metrics::WorkerMetrics;
use avocet_nameserver::query::{Decision, Outgoing, QueryStep, Stage};
use avocet_resolver::SocketId;
use avocet_wire::{Rcode, Rtype};

use crate::allowance::Allowance;
use crate::busy::{Busy, QUEUE};
use crate::frames::Frames;
use crate::intake::{Intake, Pace, Patience};
use crate::load::{LoadSample, LoadSamples};
use crate::mailbox::{ForwardedDatagram, LateUpdate, Letter, Mailbox};
use crate::outbox::Outbox;
use crate::resolution::{QueryPath, Resolution};
use crate::setup::{Listeners, Setup, WorkerRings};
use crate::state::Shared;
use crate::state::oblivious::KnownTarget;
use crate::token::Token;
use crate::values::{Deliver, LateStep, StreamReply, Time, WorkerTurn};

/// Maximum number of kernel events per turn of the event loop.
const EVENTS: usize = 256;
/// Maximum number of batches of datagrams that are answered for one listener in one turn of the
/// event loop.
const MAX_BATCHES: usize = 16;
/// Microseconds after which no further batch of a listener is answered in this turn of the event
/// loop, because other listeners, connections and servers wait. A thousand cached answers take one
/// or two thousand microseconds.
const DATAGRAMS_US: u64 = 5_000;
/// Number of datagrams in a batch below which the socket counts as empty. The poller must then
/// report the socket again.
const SMALL_BATCH: usize = 8;
/// Milliseconds between two sweeps. A sweep handles timeouts of connections, and publishes reports.
const SWEEP_MS: u64 = 500;
/// Milliseconds between passes of the event loop of an idle worker while it opens sockets in
/// advance.
const WARMING_MS: u64 = 1;
/// Maximum number of milliseconds that an ending worker waits for queries in flight.
const DRAIN_MS: u64 = 6_000;
/// Milliseconds between two checks for connections that have timed out, while a worker is ending.
/// QUIC connections that had a query in flight end at such a check.
const DRAIN_SWEEP_MS: u64 = 100;
/// Maximum idle time of client connections while a worker is ending, in milliseconds.
const DRAIN_IDLE_MS: u64 = 1_000;

/// A worker of the server.
pub(crate) struct Worker {
    index: u16,
    shared: Arc<Shared>,
    poller: Poller,
    intake: Intake,
    resolution: Resolution,
    outbox: Outbox,
    time: Time,
    quic_allowance: Allowance,
    target: KnownTarget,
    /// Whether this turn of the event loop left queries for the next turn.
    is_cut_short: bool,
    busy: Busy,
    load: LoadSamples,
    /// Messages that were taken from the mailbox and were not processed yet.
    letters: Vec<Letter>,
    swept_ms: u64,
    /// The time at which the worker began to drain, in milliseconds; `None` before that.
    draining_since: Option<u64>,
}

/// The receiver of late results: passes them to the outbox, and replies for connections to the
/// intake.
struct LatePath<'w> {
    outbox: &'w mut Outbox,
    intake: &'w mut Intake,
    time: Time,
}

impl Deliver for LatePath<'_> {
    fn deliver(&mut self, late: LateStep<'_>) {
        if let Some(reply) = self.outbox.send(late) {
            self.intake.reply(&reply, self.time);
        }
    }
}

impl Worker {
    /// The token of the mailbox's waker.
    pub(crate) const MAILBOX_TOKEN: u64 = 0;

    /// Creates a worker. Its sockets are added to the poller.
    ///
    /// # Errors
    /// The poller cannot watch a socket.
    pub(crate) fn new(
        setup: &Setup,
        shared: Arc<Shared>,
        mut poller: Poller,
        listeners: Listeners,
    ) -> io::Result<Self> {
        let outbox = Outbox::new(setup.index, shared.clone(), &listeners)?;
        Ok(Self {
            index: setup.index,
            intake: Intake::new(setup, shared.clone(), listeners, &mut poller)?,
            resolution: Resolution::new(setup, shared.clone()),
            outbox,
            time: Time::read(&shared.name_server.clock),
            poller,
            quic_allowance: Allowance::default(),
            target: KnownTarget::default(),
            is_cut_short: false,
            busy: Busy::default(),
            load: LoadSamples::default(),
            letters: Vec::new(),
            swept_ms: 0,
            draining_since: None,
            shared,
        })
    }

    /// Sets the worker's ends of its ring buffers for the query log, dnstap and traces.
    pub(crate) fn with_rings(mut self, rings: WorkerRings) -> Self {
        self.resolution.set_rings(rings);
        self
    }

    /// Runs the worker until it has drained.
    ///
    /// # Errors
    /// The poller fails.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        // If the last turn of the event loop ended in a panic, it may have received the event of
        // the mailbox without reading the messages.
        self.read_letters();
        self.submit_misses();
        loop {
            let timeout_ms = self.timeout_ms();
            self.poller.wait(&mut events, Some(timeout_ms))?;
            self.begin_turn();
            let began = self.time.now;
            let mut has_new = false;
            for event in events.iter() {
                match Token::unpack(event.token()) {
                    Token::Mailbox => self.read_letters(),
                    Token::Datagrams(number) => self.serve_datagrams(number, DATAGRAMS_US),
                    // Connections are read after the last event, because events may still report
                    // connections with queries.
                    Token::Accept(_) | Token::Header(_) => has_new = true,
                    Token::Quic(number) => self.serve_quic(number),
                    Token::Stream(slot) => self.intake.note_readable(slot),
                    Token::Server(id) if id.slot.is_stream() => self.drive_server(id, event),
                    Token::Server(id) => self.resolution.note_readable(id),
                }
            }
            if has_new {
                self.begin_connections(&events);
            }
            self.serve_streams();
            self.drive_quic();
            self.end_turn();
            let is_cut_short = std::mem::take(&mut self.is_cut_short);
            let is_behind = is_cut_short || self.resolution.is_behind();
            self.metrics().cut_short.add(u64::from(is_behind));
            if let Some(percent) = self.busy.note(began, self.shared.name_server.clock.now()) {
                self.resolution.note_busy(percent);
            }
            if self.has_drained() {
                self.intake.close_all(self.time);
                return Ok(());
            }
        }
    }

    fn metrics(&self) -> &WorkerMetrics {
        self.outbox.metrics()
    }

    /// Returns the part `Resolution` of the worker, with the other parts that it uses in this turn
    /// of the event loop.
    fn resolving(&mut self) -> (&mut Resolution, WorkerTurn<'_, LatePath<'_>>) {
        let Self { poller, intake, resolution, outbox, time, .. } = self;
        (
            resolution,
            WorkerTurn { poller, time: *time, late: LatePath { outbox, intake, time: *time } },
        )
    }

    fn begin_turn(&mut self) {
        #[cfg(test)]
        crate::fault::planted(&crate::fault::IN_TURN);
        self.time = Time::read(&self.shared.name_server.clock);
        self.quic_allowance.renew();
        self.target.follow(&self.shared.oblivious);
        self.resolution.begin_turn(self.time);
    }

    fn now_us(&self) -> u64 {
        self.shared.name_server.clock.now().micros()
    }

    /// Answers the datagrams at a listener. Begins no further batch after `most_us` microseconds.
    fn serve_datagrams(&mut self, number: u16, most_us: u64) {
        let began_us = self.time.now.micros();
        let Self { shared, intake, resolution, outbox, time, is_cut_short, .. } = self;
        let entrance = intake.entrance(number);
        let mut waiting = 0;
        for _ in 0..MAX_BATCHES {
            let QueryPath { cx, newer, misses, seen, .. } = resolution.lend(*time);
            let metrics = outbox.metrics();
            let has_proxies = false;
            let service = Datagrams {
                cx,
                newer,
                metrics,
                listener: number,
                entrance,
                misses,
                seen,
                has_proxies,
            };
            let batch = match intake.receive(number, &mut served(service)) {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::warn!(%error, "cannot receive datagrams");
                    break;
                }
            };
            waiting += batch.received;
            if batch.received > 0 {
                let after = Time::read(&shared.name_server.clock);
                outbox.note_batch(&batch, after.now.micros().saturating_sub(time.now.micros()));
                *time = after;
            }
            if batch.received < SMALL_BATCH {
                break;
            }
            if time.now.micros() - began_us > most_us {
                // If the batch is full, more datagrams may be waiting.
                waiting = if batch.received == BATCH { waiting.max(QUEUE) } else { waiting };
                *is_cut_short = true;
                break;
            }
        }
        self.busy.note_queue(waiting);
        self.submit_misses();
    }

    /// Answers the queries in the QUIC datagrams at a listener.
    fn serve_quic(&mut self, number: u16) {
        self.quic_allowance.begin(self.now_us());
        for _ in 0..MAX_BATCHES {
            let Self { intake, resolution, outbox, time, quic_allowance: allowance, .. } = self;
            let (path, metrics) = (resolution.lend(*time), outbox.metrics());
            let (target, proxied) = (self.target.get(), &self.shared.proxied);
            let mut frames = Frames { path, metrics, target, proxied, allowance };
            let received = match intake.receive_quic(number, *time, &mut frames) {
                Ok(received) => received,
                Err(error) => {
                    tracing::warn!(%error, "cannot receive datagrams");
                    break;
                }
            };
            if received < SMALL_BATCH {
                break;
            }
        }
        self.quic_allowance.take(self.now_us());
        self.submit_misses();
    }

    /// Begins QUIC handshakes, handles timers of QUIC, and answers queries that earlier turns of
    /// the event loop have left.
    fn drive_quic(&mut self) {
        if !self.intake.is_quic_due(self.time) {
            return;
        }
        self.serve_with_allowance(|intake, time, frames| intake.drive_quic(time, frames));
    }

    /// Calls `serve` with an allowance of time for queries, and then submits for resolution the
    /// queries that no cache could answer.
    fn serve_with_allowance(&mut self, serve: impl FnOnce(&mut Intake, Time, &mut Frames<'_>)) {
        let mut allowance = Allowance::default();
        allowance.begin(self.now_us());
        let Self { intake, resolution, outbox, time, .. } = self;
        let (path, metrics) = (resolution.lend(*time), outbox.metrics());
        let (target, proxied) = (self.target.get(), &self.shared.proxied);
        let mut frames = Frames { path, metrics, target, proxied, allowance: &mut allowance };
        serve(intake, *time, &mut frames);
        self.is_cut_short |= !allowance.begin_share();
        self.submit_misses();
    }

    /// Answers the queries in a QUIC datagram that arrived at another worker.
    fn take_datagram(&mut self, datagram: &ForwardedDatagram) {
        self.quic_allowance.begin(self.now_us());
        let Self { intake, resolution, outbox, time, quic_allowance: allowance, .. } = self;
        let (path, metrics) = (resolution.lend(*time), outbox.metrics());
        let (target, proxied) = (self.target.get(), &self.shared.proxied);
        let mut frames = Frames { path, metrics, target, proxied, allowance };
        intake.take_datagram(datagram, *time, &mut frames);
        self.submit_misses();
    }

    /// Accepts connections, and reads the headers of proxies. Both may close another connection to
    /// make room.
    fn begin_connections(&mut self, events: &Events) {
        for event in events.iter() {
            match Token::unpack(event.token()) {
                Token::Accept(number) => self.accept(number),
                Token::Header(slot) => self.read_header(slot),
                _ => {}
            }
        }
    }

    fn accept(&mut self, number: u16) {
        let Self { poller, intake, resolution, time, .. } = self;
        intake.accept(poller, resolution.state(), number, *time);
    }

    /// Reads the PROXY header of a connection from a proxy.
    fn read_header(&mut self, slot: u32) {
        let Self { poller, intake, resolution, time, .. } = self;
        intake.read_header(poller, resolution.state(), slot, *time);
    }

    /// Answers the queries on the connections of clients. Connections with cheap queries and
    /// connections with expensive queries ([`Pace`]) each have their own time in a turn of the
    /// event loop, so that clients with cheap queries do not wait for clients with expensive ones.
    fn serve_streams(&mut self) {
        for pace in Pace::ALL {
            if !self.intake.has_unread() {
                return;
            }
            self.serve_with_allowance(|intake, time, frames| {
                intake.read_waiting(pace, time.millis(), frames);
            });
        }
    }

    fn drive_server(&mut self, id: SocketId, event: Event) {
        let (resolution, mut turn) = self.resolving();
        resolution.drive_stream(id, event, &mut turn);
    }

    fn submit_misses(&mut self) {
        let (resolution, mut turn) = self.resolving();
        resolution.submit_misses(&mut turn);
    }

    /// Processes the messages that a panic left unprocessed, and then the messages in the mailbox.
    fn read_letters(&mut self) {
        self.read_taken_letters();
        self.shared.mailboxes[usize::from(self.index)].take(&mut self.letters);
        self.letters.reverse();
        self.read_taken_letters();
        let (resolution, mut turn) = self.resolving();
        resolution.act(&mut turn);
    }

    fn read_taken_letters(&mut self) {
        while let Some(letter) = self.letters.pop() {
            match letter {
                Letter::Miss(miss) => {
                    let (resolution, mut turn) = self.resolving();
                    resolution.submit(*miss, &mut turn);
                }
                Letter::Answer(route, octets) => {
                    self.intake.reply(&StreamReply { route, message: &octets }, self.time);
                }
                Letter::Updated(late) => self.finish_update(*late),
                Letter::Trace(order) => self.resolution.trace(*order, self.time),
                Letter::Kept(order) => self.resolution.show_kept(&order),
                Letter::MakeRoom(ip) => {
                    self.intake.make_room(self.resolution.state(), ip, self.time);
                }
                Letter::Datagram(datagram) => self.take_datagram(&datagram),
                Letter::Identified => {
                    let time = self.time;
                    let (resolution, mut turn) = self.resolving();
                    resolution.refresh(time);
                    resolution.resume_held(&mut turn);
                }
                Letter::Drain => self.begin_draining(),
            }
        }
    }

    /// Counts and sends the reply to an update.
    fn finish_update(&mut self, late: LateUpdate) {
        let Self { intake, resolution, outbox, time, .. } = self;
        let QueryPath { cx, .. } = resolution.lend(*time);
        let LateUpdate { waiter, mut message, rcode } = late;
        let stage = if rcode == Rcode::REFUSED { Stage::Refused } else { Stage::Hosted };
        let at = Decision::at(stage, waiter.asked.transport, cx.state.revision);
        let decision = Decision { qtype: Rtype::SOA, rcode, ..at };
        let outgoing = Outgoing { len: message.len(), hash: 0, is_verified: true, decision };
        let (step, message) = (QueryStep::Reply(outgoing), &mut message[..]);
        let (ended, route) = (Ended::waiting(&waiter, 0), &waiter.route);
        let late = LateStep { ended, route, step, message, cx: &cx };
        if let Some(reply) = outbox.send(late) {
            intake.reply(&reply, *time);
        }
    }

    /// Does the work at the end of a turn of the event loop: timers, queued messages and sweeps.
    fn end_turn(&mut self) {
        let (resolution, mut turn) = self.resolving();
        resolution.end_turn(&mut turn);
        self.outbox.flush();
        self.intake.write(&self.poller, self.time);
        self.resolution.warm(&self.poller);
        if self.time.millis() >= self.swept_ms + self.sweep_ms() {
            self.swept_ms = self.time.millis();
            self.sweep();
        }
    }

    fn sweep_ms(&self) -> u64 {
        if self.draining_since.is_some() { DRAIN_SWEEP_MS } else { SWEEP_MS }
    }

    /// Ends connections that have timed out, and publishes reports. Called about twice a second.
    fn sweep(&mut self) {
        let patience = self.patience();
        self.intake.sweep(&self.poller, patience, self.time);
        self.metrics().turned_at_secs.set(u64::from(self.time.now.secs()));
        self.publish_load();
        let (resolution, mut turn) = self.resolving();
        resolution.sweep(&mut turn);
    }

    /// Publishes the load of the last seconds.
    fn publish_load(&mut self) {
        let sample = LoadSample::read(self.time.now, self.outbox.metrics());
        let place = &self.shared.loads[usize::from(self.index)];
        *place.lock().unwrap_or_else(PoisonError::into_inner) = self.load.note(sample);
    }

    fn timeout_ms(&mut self) -> u32 {
        let deadline_ms = self.resolution.next_deadline();
        if self.intake.has_unread() || self.resolution.is_behind() {
            return 0;
        }
        let now_ms = self.time.millis();
        let sweep = (self.swept_ms + self.sweep_ms()).saturating_sub(now_ms);
        let deadline = deadline_ms.map_or(SWEEP_MS, |at| at.saturating_sub(now_ms));
        let warming = if self.resolution.is_warming() { WARMING_MS } else { SWEEP_MS };
        let quic = self.intake.quic_deadline_ms(self.time).unwrap_or(SWEEP_MS);
        sweep.min(deadline).min(warming).min(quic) as u32
    }

    fn patience(&self) -> Patience {
        let tcp = &self.resolution.state().config.server.tcp;
        let idle_ms =
            if self.draining_since.is_some() { DRAIN_IDLE_MS } else { tcp.idle.as_millis() as u64 };
        Patience { idle_ms, read_ms: tcp.read.as_millis() as u64 }
    }

    /// Stops taking queries. Queries that the kernel already holds are answered first, unless
    /// another process serves the same sockets now.
    fn begin_draining(&mut self) {
        if self.draining_since.is_some() {
            return;
        }
        self.draining_since = Some(self.time.millis());
        for number in 0..self.intake.datagram_listeners() {
            self.serve_datagrams(number, u64::MAX);
        }
        for number in 0..self.intake.quic_listeners() {
            self.serve_quic(number);
        }
        self.intake.stop_listening(&mut self.poller, self.time);
    }

    /// Returns whether this worker drains and no worker waits for anything any more, or draining
    /// has taken too long. Another worker may still send messages to this worker while it reads
    /// from a connection, but only before that other worker counts as quiet.
    fn has_drained(&self) -> bool {
        let Some(since) = self.draining_since else { return false };
        let is_quiet = self.resolution.in_flight() == 0 && self.intake.open_streams() == 0;
        let flag = &self.shared.quiet[usize::from(self.index)];
        if flag.swap(is_quiet, Ordering::AcqRel) != is_quiet {
            self.shared.mailboxes.iter().for_each(Mailbox::wake);
        }
        let all_quiet =
            is_quiet && self.shared.quiet.iter().all(|quiet| quiet.load(Ordering::Acquire));
        let mailbox = &self.shared.mailboxes[usize::from(self.index)];
        all_quiet && mailbox.is_empty() || self.time.millis() >= since + DRAIN_MS
    }

    /// Rebuilds the parts that a panic in [`Worker::run`] may have left inconsistent. Listeners and
    /// connections stay, and so do the queries that wait.
    pub(crate) fn recover(&mut self) {
        self.metrics().panics.add(1);
        let (resolution, mut turn) = self.resolving();
        resolution.recover(&mut turn);
    }
}

/// Returns the service that answers the datagrams of a listener.
#[cfg(not(test))]
#[inline]
fn served(datagrams: Datagrams<'_>) -> Datagrams<'_> {
    datagrams
}

/// Returns the service that answers the datagrams of a listener. It panics if a test has planted a
/// fault.
#[cfg(test)]
fn served(datagrams: Datagrams<'_>) -> crate::faulty::Faulty<'_> {
    crate::faulty::Faulty(datagrams)
}
