//! The event loop: a single thread that sends for all flows and receives all answers.

use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use avocet_io::poll::{Events, Interest, Trigger};
use avocet_io::signals::Signals;

use super::flow::Flow;
use super::lane::{Carrier, Connections, Handed, Kit, Lane, LaneTransport, Watched, Way};
use crate::encrypted::{QuicTarget, TlsTarget};
use crate::machine;

/// Maximum number of sockets that are read in each pass of the event loop without polling first.
/// With few sockets, polling costs more than an unsuccessful read.
const FEW_LANES: usize = 8;

/// Maximum number of sockets that are polled outside the epoll set.
const BESIDE_MAX: usize = 64;

/// Maximum number of events that one wait returns.
const EVENTS: usize = 1024;

/// Maximum number of consecutive batches of one flow. The limit ensures that a flow behind its
/// schedule does not delay reading.
const MAX_BATCHES: usize = 4;

/// Interval between searches for timed-out queries.
const SWEEP_EVERY_NS: u64 = 5_000_000;

/// Time for which duplicates are awaited after the last answer.
const LINGER_NS: u64 = 100_000_000;

/// Time for which a full socket is skipped.
const BLOCKED_NS: u64 = 50_000;

/// Time before a due query during which the thread polls instead of sleeping. A sleep ends late,
/// because the kernel takes time to wake a thread, and a late query would count against the server.
/// A machine with one core sleeps instead: the server needs the core.
const POLLED_NS: u64 = 150_000;

/// The poller's token for signals. The token of a lane is its index.
const SIGNALS: u64 = u64::MAX;

/// An interval of a run that is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    /// Nanoseconds from the start of the run to the start and the end of the interval.
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

/// An observer of a run.
pub(crate) trait Watch {
    /// Called at the end of an interval, while its latencies are still separate. Breaking ends the
    /// run.
    fn interval(&mut self, interval: Interval, flows: &[Flow]) -> ControlFlow<()>;
}

/// The lanes of all flows, each the transport of one client, and their event loop.
pub(crate) struct Driver {
    flows: Vec<Flow>,
    lanes: Vec<ClientLane>,
    /// The index of the first lane of each flow.
    first: Vec<usize>,
    kit: Kit,
    events: Events,
    /// Tokens of the last wait, kept to reuse the memory.
    ready: Vec<u64>,
    swept_ns: u64,
    signals: Option<Signals>,
    interrupted: bool,
    /// Whether a socket accepted no datagram in the last pass of the event loop.
    blocked: bool,
    /// Time before a due query during which the thread polls instead of sleeping.
    polled_ns: u64,
}

struct ClientLane {
    lane: Lane,
    flow: usize,
    client: usize,
}

/// The destination, the source addresses and the transport.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) server: std::net::SocketAddr,
    pub(crate) carrier: Carrier,
    /// The source addresses, which clients use in turn. If there are none, the system chooses.
    pub(crate) sources: Vec<IpAddr>,
    /// How the server is reached over TLS.
    pub(crate) tls: Option<TlsTarget>,
    /// How the server is reached over QUIC.
    pub(crate) quic: Option<QuicTarget>,
    pub(crate) connections: Connections,
}

impl Driver {
    /// Opens the sockets of all flows. `signals` can end a run early, if given.
    pub(crate) fn open(
        flows: Vec<Flow>,
        route: &Route,
        signals: Option<Signals>,
    ) -> io::Result<Self> {
        let mut kit = Kit::new()?;
        if let Some(signals) = &signals {
            kit.poller.add(signals, SIGNALS, Interest::Read, Trigger::Level)?;
        }
        let total: usize = flows.iter().map(|flow| flow.clients().0).sum();
        let watched = if total <= BESIDE_MAX { Watched::Beside } else { Watched::InSet };
        let (mut lanes, mut first) = (Vec::new(), Vec::new());
        for (number, flow) in flows.iter().enumerate() {
            first.push(lanes.len());
            let (asking, again) = flow.clients();
            for client in 0..asking + again {
                let is_first = client < asking || route.carrier.is_stream();
                let carrier = if is_first { route.carrier } else { Carrier::Tcp };
                let token = lanes.len();
                let source = route.sources.get(token % route.sources.len().max(1)).copied();
                let Route { server, ref tls, ref quic, connections, .. } = *route;
                let (tls, quic) = (tls.clone(), quic.clone());
                let way = Way { server, source, tls, quic, connections };
                let lane = Lane::open(&mut kit, carrier, way, token as u64, watched)?;
                lanes.push(ClientLane { lane, flow: number, client });
            }
        }
        let events = Events::with_capacity(EVENTS);
        Ok(Self {
            flows,
            lanes,
            first,
            kit,
            events,
            ready: Vec::with_capacity(EVENTS),
            swept_ns: 0,
            signals,
            interrupted: false,
            blocked: false,
            polled_ns: polled_ns(),
        })
    }

    pub(crate) fn flows(&self) -> &[Flow] {
        &self.flows
    }

    pub(crate) fn flows_mut(&mut self) -> &mut [Flow] {
        &mut self.flows
    }

    pub(crate) fn into_flows(self) -> (Vec<Flow>, Option<Signals>) {
        (self.flows, self.signals)
    }

    /// Reports whether a signal ended the run.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    fn now_ns(&self) -> u64 {
        self.kit.now_ns()
    }

    /// Sends for `duration` or until all queries were sent, then waits for the answers. Returns the
    /// sending time in nanoseconds.
    pub(crate) fn run(
        &mut self,
        duration: Duration,
        every: Duration,
        watch: &mut impl Watch,
    ) -> io::Result<u64> {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let (duration, every) = (nanos(duration), nanos(every));
        let start = self.now_ns();
        self.flows.iter_mut().for_each(|flow| flow.start(start));
        let mut interval = start;
        let mut asking = true;
        let mut asked_ns = 0;
        let mut is_cut = false;
        loop {
            let now = self.now_ns();
            let is_over = now - start >= duration
                || self.flows.iter().all(Flow::is_done)
                || self.interrupted
                || is_cut;
            if asking && is_over {
                self.flows.iter_mut().for_each(Flow::stop);
                (asking, asked_ns) = (false, now - start);
            }
            let waits = self.flows.iter().any(|flow| flow.in_flight() > 0);
            let has_ended = !asking && !waits;
            if now - interval >= every || has_ended {
                let ended = Interval { from_ns: interval - start, to_ns: now - start };
                is_cut |= watch.interval(ended, &self.flows).is_break();
                self.flows.iter_mut().for_each(|flow| flow.tally.close_interval());
                interval = now;
            }
            if has_ended {
                self.linger(now + LINGER_NS)?;
                return Ok(asked_ns);
            }
            self.turn(interval + every)?;
        }
    }

    /// Continues to receive after the last answer, in order to detect duplicate answers.
    fn linger(&mut self, until_ns: u64) -> io::Result<()> {
        while self.now_ns() < until_ns && !self.interrupted {
            self.turn(until_ns)?;
        }
        self.flows.iter_mut().for_each(|flow| flow.tally.close_interval());
        Ok(())
    }

    fn turn(&mut self, until_ns: u64) -> io::Result<()> {
        self.blocked = false;
        let sent = self.send_due();
        let mut heard = 0;
        if self.lanes.len() <= FEW_LANES {
            for number in 0..self.lanes.len() {
                heard += self.receive(number);
            }
        } else {
            self.kit.poller.wait_precisely(&mut self.events, Duration::ZERO)?;
            heard += self.receive_ready();
        }
        let now = self.now_ns();
        if now - self.swept_ns >= SWEEP_EVERY_NS {
            self.sweep(now);
        }
        if sent == 0 && heard == 0 {
            self.wait(now, until_ns)?;
        }
        Ok(())
    }

    /// Sleeps until an event arrives or a query is due soon.
    fn wait(&mut self, now_ns: u64, until_ns: u64) -> io::Result<()> {
        let due = self.flows.iter().filter_map(|flow| flow.next_due(now_ns));
        let due = due.min().unwrap_or(u64::MAX);
        let is_close = due.saturating_sub(now_ns) < self.polled_ns;
        if is_close && !self.blocked {
            return Ok(());
        }
        let due = due.saturating_sub(self.polled_ns);
        let mut until = due.min(until_ns).min(now_ns + SWEEP_EVERY_NS);
        if self.blocked {
            until = until.max(now_ns + BLOCKED_NS);
        }
        let timeout = Duration::from_nanos(until.saturating_sub(now_ns));
        self.kit.poller.wait_precisely(&mut self.events, timeout)?;
        self.receive_ready();
        Ok(())
    }

    fn send_due(&mut self) -> usize {
        let mut sent = 0;
        for number in 0..self.flows.len() {
            for _ in 0..MAX_BATCHES {
                let now = self.now_ns();
                let Some(taken) = self.send_by_next(number, now) else { break };
                sent += taken;
                if taken == 0 {
                    self.blocked = true;
                    break;
                }
            }
            let (asking, again) = self.flows[number].clients();
            for client in asking..asking + again {
                if !self.flows[number].has_retries() {
                    break;
                }
                let now = self.now_ns();
                let flow = &mut self.flows[number];
                let place = &mut self.lanes[self.first[number] + client];
                let handed = place
                    .lane
                    .send(&mut self.kit, now, &mut |out| flow.compose_retry(client, now, out));
                sent += handed.sent;
            }
        }
        sent
    }

    /// Lets the next client that is not busy send. Returns the number of queries that it sent, or
    /// `None` if none is due.
    #[inline]
    fn send_by_next(&mut self, flow: usize, now_ns: u64) -> Option<usize> {
        for _ in 0..self.flows[flow].clients().0 {
            let client = self.flows[flow].turn(now_ns)?;
            let handed = self.send(flow, client, now_ns);
            if !handed.busy {
                return Some(handed.sent);
            }
        }
        Some(0)
    }

    #[inline]
    fn send(&mut self, flow: usize, client: usize, now_ns: u64) -> Handed {
        let place = &mut self.lanes[self.first[flow] + client];
        let flow = &mut self.flows[flow];
        let handed =
            place.lane.send(&mut self.kit, now_ns, &mut |out| flow.compose(client, now_ns, out));
        for _ in handed.sent..handed.composed {
            flow.unsend(client);
        }
        flow.tally.counts.errors += u64::from(handed.failed);
        handed
    }

    fn receive_ready(&mut self) -> usize {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        // The token of the signals is not the index of a lane. Every sweep checks the signals.
        ready.extend(self.events.iter().map(|event| event.token()));
        let heard = ready.iter().map(|token| self.receive(*token as usize)).sum();
        self.ready = ready;
        heard
    }

    /// Gives up timed-out queries, and checks whether the run must end.
    fn sweep(&mut self, now_ns: u64) {
        self.swept_ns = now_ns;
        self.flows.iter_mut().for_each(|flow| flow.sweep(now_ns));
        let signal = self.signals.as_ref().and_then(|signals| signals.next().ok().flatten());
        self.interrupted |= signal.is_some();
    }

    #[inline]
    fn receive(&mut self, number: usize) -> usize {
        let Some(place) = self.lanes.get_mut(number) else { return 0 };
        let (flow, client) = (&mut self.flows[place.flow], place.client);
        let heard = place
            .lane
            .receive(&mut self.kit, &mut |now, message| flow.receive(client, now, message));
        flow.tally.counts.errors += u64::from(heard.failed);
        if let Some(handshake) = heard.handshake {
            flow.tally.counts.handshake(handshake);
        }
        if heard.closed {
            flow.disconnected(client);
        }
        heard.messages
    }
}

/// Returns the time before a due query during which this machine polls.
fn polled_ns() -> u64 {
    if machine::cores() > 1 { POLLED_NS } else { 0 }
}
