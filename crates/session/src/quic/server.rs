//! The QUIC connections of a worker: passes datagrams to connections, and sends the datagrams of
//! connections.
//!
//! ```text
//!             datagram
//!    known /     |  first of a client                      \ unknown: stateless reset
//!  connection    |  many handshakes? Retry, until the address is proven
//!                v
//!             waiting --- a few each turn ---> QuicService::admit --> connection
//! ```
//! A handshake costs as much as a hundred answers, so only a few begin in one turn: a pass of the
//! worker's event loop. A client that has not proven its address gets at most three times the
//! octets that it sent (RFC 9000 §8.1).

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, Endpoint, Incoming, Transmit};

use super::connection::{QuicConnection, Turn};
use super::doq::DoqError;
use super::keys::QuicKeys;
use super::listener::QuicListener;
use super::service::{
    Admission, Newcomer, QuicDatagram, QuicHost, QuicPath, QuicPatience, QuicRoute, QuicService,
    Room, Whose,
};
use crate::certificate;
use crate::network::{ClientNetwork, NetworkCounts};

/// Maximum number of handshakes that a worker begins in one pass of its event loop.
const MAX_HANDSHAKES: usize = 8;
/// Maximum number of connection attempts that wait for their handshakes. Clients of further
/// attempts must prove their address first. If a client has done so already, its attempt is
/// dropped, and it repeats its datagram.
const MAX_WAITING: usize = 256;
/// Number of incomplete handshakes of a worker at which new clients must prove their address.
const CROWDED: usize = 64;
/// Maximum number of datagrams that a connection sends in one pass of the event loop, so that other
/// connections are not delayed.
const MAX_DATAGRAMS: usize = 32;
/// Maximum number of timers that are handled in one pass of the event loop.
const MAX_TIMERS: usize = 256;

/// Returns the number of incomplete handshakes of an address, or of a network of IPv6 addresses, at
/// which further clients must prove their address. Anyone can send datagrams from a false address,
/// but nobody can complete a handshake from one.
const fn crowded_at(network: ClientNetwork) -> usize {
    match network {
        ClientNetwork::Address(_) => 2,
        ClientNetwork::Link(_) => 8,
        ClientNetwork::Site(_) => 32,
    }
}
/// Maximum number of octets of incomplete queries and of responses that clients have not read, of
/// all connections of a worker. Above it, connections that add more are closed.
const MAX_HELD: usize = 64 << 20;

/// Numbers of events since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QuicCounts {
    /// Complete handshakes.
    pub completed: u64,
    /// Complete handshakes of clients that sent queries before the end of the handshake.
    pub early: u64,
    /// Handshakes that failed or took too long.
    pub failed: u64,
    /// Clients that had to prove their address first.
    pub retried: u64,
    /// Connections that the server ended because the client violated the protocol.
    pub violations: u64,
    /// Connections that the server ended because the client caused too much work or sent too much.
    pub excesses: u64,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<QuicConnection>>,
}

/// A connection attempt whose handshake has not begun.
struct Attempt {
    incoming: Incoming,
    entrance: u16,
    /// Number of octets that the client has sent.
    octets: usize,
}

/// The connections of a worker.
pub struct QuicServer {
    endpoint: Endpoint,
    /// The connections. The index is the handle of the connection in the endpoint.
    slots: Vec<Slot>,
    waiting: VecDeque<Attempt>,
    /// The times at which connections need attention, the earliest first. A connection's entry is
    /// never later than its own earliest timer.
    deadlines: BTreeSet<(Instant, u32)>,
    /// Connections that may have datagrams to send.
    dirty: Vec<u32>,
    /// Connections with queries that earlier passes of the event loop have left. Each occurs once,
    /// and the first has waited longest.
    behind: VecDeque<u32>,
    /// Number of incomplete handshakes of each client and network.
    handshaking: NetworkCounts,
    /// Number of all incomplete handshakes.
    half_open: usize,
    open: usize,
    held: usize,
    counts: QuicCounts,
    /// The buffer for a datagram to send.
    buffer: Vec<u8>,
}

impl QuicServer {
    /// Creates the server of a worker without connections. Any listener of the server may be the
    /// `listener`. `seed` comes from the system's random source.
    pub fn new(keys: &QuicKeys, worker: u16, listener: &QuicListener, seed: [u8; 32]) -> Self {
        let config = keys.endpoint(worker);
        Self {
            endpoint: Endpoint::new(config, Some(listener.config()), false, Some(seed)),
            slots: Vec::new(),
            waiting: VecDeque::new(),
            deadlines: BTreeSet::new(),
            dirty: Vec::new(),
            behind: VecDeque::new(),
            handshaking: NetworkCounts::default(),
            half_open: 0,
            open: 0,
            held: 0,
            counts: QuicCounts::default(),
            buffer: Vec::new(),
        }
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Returns the numbers of events since the start.
    pub fn counts(&self) -> QuicCounts {
        self.counts
    }

    /// Returns the number of octets of incomplete queries and of responses that clients have not
    /// read.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Reports whether there is work without a datagram or a timer that would cause it.
    pub fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.dirty.is_empty() || !self.behind.is_empty()
    }

    /// Returns the time at which [`Self::fire`] is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Handles a datagram.
    pub fn receive(
        &mut self,
        now: Instant,
        datagram: &QuicDatagram<'_>,
        host: &mut impl QuicService,
    ) {
        let QuicDatagram { path, octets } = datagram;
        self.buffer.clear();
        let data = BytesMut::from(*octets);
        let Self { endpoint, buffer, .. } = self;
        match endpoint.handle(now, path.peer, path.local_ip, None, data, buffer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                self.deliver(now, (handle, datagram), event, host);
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let octets = octets.len();
                self.meet(Attempt { incoming, entrance: path.entrance, octets }, host);
            }
            Some(DatagramEvent::Response(transmit)) => {
                send(&transmit, path.entrance, &self.buffer, host);
            }
            None => {
                // The endpoint may keep the datagram until the handshake begins.
                let is_of = |one: &&mut Attempt| one.incoming.remote_address() == path.peer;
                if let Some(waiting) = self.waiting.iter_mut().find(is_of) {
                    waiting.octets += octets.len();
                }
            }
        }
    }

    /// Passes a datagram to its connection.
    fn deliver(
        &mut self,
        now: Instant,
        (handle, datagram): (ConnectionHandle, &QuicDatagram<'_>),
        event: ConnectionEvent,
        host: &mut impl QuicService,
    ) {
        let slot = handle.0 as u32;
        let Some(connection) = connection_at(&mut self.slots, slot) else { return };
        // A connection belongs to one listening address. Datagrams to another one are dropped.
        if connection.entrance != datagram.path.entrance {
            return;
        }
        if connection.count_datagram(datagram.octets.len()) {
            connection.inner.handle_event(event);
            connection.note_word();
        } else {
            self.counts.excesses += u64::from(!connection.has_ended);
            connection.close(now, DoqError::ExcessiveLoad);
        }
        self.process(now, slot, host);
    }

    /// Queues a connection attempt, or demands that the client prove its address.
    fn meet(&mut self, attempt: Attempt, host: &mut impl QuicHost) {
        let Attempt { incoming, entrance, octets } = attempt;
        let ip = incoming.remote_address().ip();
        let crowded = self.half_open + self.waiting.len() >= CROWDED
            || self.handshaking.full(ip, crowded_at).is_some();
        if crowded && !incoming.remote_address_validated() && incoming.may_retry() {
            self.buffer.clear();
            if let Ok(transmit) = self.endpoint.retry(incoming, &mut self.buffer) {
                self.counts.retried += 1;
                send(&transmit, entrance, &self.buffer, host);
            }
        } else if self.waiting.len() >= MAX_WAITING {
            self.endpoint.ignore(incoming);
        } else {
            self.waiting.push_back(Attempt { incoming, entrance, octets });
        }
    }

    /// Begins handshakes with waiting clients, up to the limit of one pass of the event loop.
    pub fn accept(&mut self, now: Instant, host: &mut impl QuicService) {
        for _ in 0..MAX_HANDSHAKES {
            let Some(attempt) = self.waiting.pop_front() else { return };
            let (ip, entrance) = (attempt.incoming.remote_address().ip(), attempt.entrance);
            let newcomer = Newcomer { ip, entrance, open: self.open, room: Room::Unknown };
            match self.admit(now, newcomer, host) {
                Some(listener) => self.begin(now, attempt, &listener, host),
                None => self.endpoint.ignore(attempt.incoming),
            }
        }
    }

    fn admit(
        &mut self,
        now: Instant,
        newcomer: Newcomer,
        host: &mut impl QuicService,
    ) -> Option<QuicListener> {
        let whose = match host.admit(&newcomer) {
            Admission::Admitted(listener) => return Some(listener),
            Admission::Crowded(whose) => whose,
            Admission::Refused => return None,
        };
        self.close_idle(now, whose, host);
        match host.admit(&Newcomer { open: self.open, room: Room::Final, ..newcomer }) {
            Admission::Admitted(listener) => Some(listener),
            _ => None,
        }
    }

    fn begin(
        &mut self,
        now: Instant,
        attempt: Attempt,
        listener: &QuicListener,
        host: &mut impl QuicService,
    ) {
        let Attempt { incoming, entrance, octets } = attempt;
        let ip = incoming.remote_address().ip();
        let is_proven = incoming.remote_address_validated();
        self.buffer.clear();
        let Self { endpoint, buffer, .. } = self;
        match endpoint.accept(incoming, now, buffer, Some(listener.config())) {
            Ok((handle, inner)) => {
                let slot = handle.0;
                if self.slots.len() <= slot {
                    self.slots.resize_with(slot + 1, Slot::default);
                }
                // The endpoint may reuse the handle of a connection that is over.
                self.free(slot as u32);
                let mut connection =
                    QuicConnection::new(inner, (listener.protocol(), entrance), now);
                if !is_proven {
                    connection.limit_to(octets);
                }
                self.slots[slot].connection = Some(Box::new(connection));
                self.open += 1;
                self.half_open += 1;
                self.handshaking.add(ip);
                self.process(now, slot as u32, host);
            }
            Err(error) => {
                // The device identifier must not be used for the next client.
                drop(certificate::take_word());
                self.counts.failed += 1;
                host.ended(ip);
                if let Some(transmit) = error.response {
                    send(&transmit, entrance, &self.buffer, host);
                }
            }
        }
    }

    /// Continues with the connections that have unprocessed data, until no time is left. Each
    /// connection has a share of the time.
    pub fn catch_up(&mut self, now: Instant, host: &mut impl QuicService) {
        for _ in 0..self.behind.len() {
            if !host.begin_share() {
                return;
            }
            let Some(slot) = self.behind.pop_front() else { return };
            if let Some(connection) = connection_at(&mut self.slots, slot) {
                connection.is_behind = false;
                self.process(now, slot, host);
            }
        }
    }

    /// Processes the events of a connection, and notes that it may have datagrams to send. A
    /// connection with unprocessed data stays in the queue.
    fn process(&mut self, now: Instant, slot: u32, host: &mut impl QuicService) {
        let Some(place) = self.slots.get_mut(slot as usize) else { return };
        let Some(connection) = place.connection.as_deref_mut() else { return };
        let route = QuicRoute { slot, generation: place.generation, request: 0 };
        let held = connection.held();
        pass_events(&mut self.endpoint, slot, connection);
        let was_behind = connection.is_behind;
        let progress = connection.process(&mut Turn { now, route, host });
        if connection.is_behind && !was_behind {
            self.behind.push_back(slot);
        }
        self.held = self.held + connection.held() - held;
        if self.held > MAX_HELD && connection.held() > held {
            connection.close(now, DoqError::ExcessiveLoad);
        }
        let ip = connection.ip;
        if progress.has_connected {
            self.counts.completed += 1;
            self.counts.early += u64::from(progress.has_early);
            self.forget_handshake(ip);
        }
        self.note_end(slot, host);
        self.soil(slot);
    }

    /// Reports the end of a closed connection to the caller, although datagrams may still be on
    /// their way.
    fn note_end(&mut self, slot: u32, host: &mut impl QuicHost) {
        let Some(connection) = connection_at(&mut self.slots, slot) else { return };
        if connection.has_ended || !connection.inner.is_closed() {
            return;
        }
        connection.has_ended = true;
        let (ip, reason) = (connection.ip, connection.ended_for());
        self.held -= connection.drop_requests();
        self.counts.violations += u64::from(reason == Some(DoqError::Protocol));
        self.counts.excesses += u64::from(reason == Some(DoqError::ExcessiveLoad));
        let was_handshaking = connection.handshake_since.take().is_some();
        self.open -= 1;
        if was_handshaking {
            self.counts.failed += 1;
            self.forget_handshake(ip);
        }
        host.ended(ip);
    }

    fn forget_handshake(&mut self, ip: IpAddr) {
        self.half_open -= 1;
        self.handshaking.remove(ip);
    }

    fn soil(&mut self, slot: u32) {
        let Some(connection) = connection_at(&mut self.slots, slot) else { return };
        if !connection.is_dirty {
            connection.is_dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Sends the reply to an earlier query, if its connection still exists. An empty reply ends the
    /// stream of the query.
    pub fn reply(&mut self, now: Instant, route: QuicRoute, reply: &[u8]) {
        let Some(place) = self.slots.get_mut(route.slot as usize) else { return };
        if place.generation != route.generation {
            return;
        }
        let Some(connection) = place.connection.as_deref_mut() else { return };
        let held = connection.held();
        connection.reply(route.request, reply, now);
        self.held = self.held + connection.held() - held;
        self.soil(route.slot);
    }

    /// Handles the timers that are due.
    pub fn fire(&mut self, now: Instant, host: &mut impl QuicService) {
        for _ in 0..MAX_TIMERS {
            let Some(&(at, slot)) = self.deadlines.first() else { return };
            if at > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(connection) = connection_at(&mut self.slots, slot) else { continue };
            connection.deadline = None;
            connection.inner.handle_timeout(now);
            self.process(now, slot, host);
        }
    }

    /// Sends the datagrams that connections have produced in this pass of the event loop.
    pub fn flush(&mut self, now: Instant, host: &mut impl QuicHost) {
        for slot in std::mem::take(&mut self.dirty) {
            let Some(connection) = connection_at(&mut self.slots, slot) else { continue };
            connection.is_dirty = false;
            let mut has_more = true;
            for _ in 0..MAX_DATAGRAMS {
                self.buffer.clear();
                let transmit = connection.inner.poll_transmit(now, 1, &mut self.buffer);
                let Some(transmit) = transmit else {
                    has_more = false;
                    break;
                };
                if connection.may_send(transmit.size) {
                    send(&transmit, connection.entrance, &self.buffer, host);
                }
            }
            pass_events(&mut self.endpoint, slot, connection);
            self.note_end(slot, host);
            if has_more {
                self.soil(slot);
            }
            self.settle(slot);
        }
    }

    /// Removes a connection that is over, or records when it next needs attention.
    fn settle(&mut self, slot: u32) {
        let Some(connection) = connection_at(&mut self.slots, slot) else { return };
        if connection.inner.is_drained() {
            return self.free(slot);
        }
        let Some(at) = connection.inner.poll_timeout() else { return };
        // An entry that is too early costs only a check, after which it is set again. Each datagram
        // moves most timers to a later time, so later times are not recorded at once.
        if connection.deadline.is_none_or(|before| at < before) {
            if let Some(before) = connection.deadline.replace(at) {
                self.deadlines.remove(&(before, slot));
            }
            self.deadlines.insert((at, slot));
        }
    }

    /// Frees a place in the table. Replies to queries of the old connection have another generation
    /// and are dropped.
    fn free(&mut self, slot: u32) {
        let Some(place) = self.slots.get_mut(slot as usize) else { return };
        let Some(connection) = place.connection.take() else { return };
        place.generation = place.generation.wrapping_add(1);
        if let Some(at) = connection.deadline {
            self.deadlines.remove(&(at, slot));
        }
        if connection.is_behind {
            self.behind.retain(|behind| *behind != slot);
        }
    }

    /// Ends connections that were idle or slow for too long. Called about twice a second.
    pub fn sweep(&mut self, now: Instant, patience: QuicPatience, host: &mut impl QuicHost) {
        for slot in 0..self.slots.len() as u32 {
            let Some(connection) = connection_at(&mut self.slots, slot) else { continue };
            if connection.has_ended {
                continue;
            }
            let held = connection.held();
            let has_changed = connection.sweep(now, patience);
            self.held = self.held + connection.held() - held;
            if has_changed {
                self.note_end(slot, host);
                self.soil(slot);
            }
        }
    }

    /// Closes the connection that was idle longest, and returns the address of its client; `None`
    /// if no connection is idle.
    pub fn close_idle(
        &mut self,
        now: Instant,
        whose: Whose,
        host: &mut impl QuicHost,
    ) -> Option<IpAddr> {
        let idle = self.slots.iter().enumerate().filter_map(|(at, slot)| {
            let connection = slot.connection.as_deref()?;
            let is_candidate =
                whose.includes(connection.ip) && connection.is_quiet() && !connection.has_ended;
            is_candidate.then_some((connection.active, at as u32))
        });
        let (_, slot) = idle.min()?;
        let connection = connection_at(&mut self.slots, slot)?;
        let ip = connection.ip;
        connection.close(now, DoqError::None);
        self.note_end(slot, host);
        self.soil(slot);
        Some(ip)
    }

    /// Closes all connections.
    pub fn close_all(&mut self, now: Instant, host: &mut impl QuicHost) {
        for slot in 0..self.slots.len() as u32 {
            let connection = connection_at(&mut self.slots, slot);
            if let Some(connection) = connection.filter(|connection| !connection.has_ended) {
                connection.close(now, DoqError::None);
                self.note_end(slot, host);
                self.soil(slot);
            }
        }
    }

    /// Closes each connection as soon as it has no open query.
    pub fn finish(&mut self, now: Instant, host: &mut impl QuicHost) {
        for Attempt { incoming, .. } in std::mem::take(&mut self.waiting) {
            self.endpoint.ignore(incoming);
        }
        for slot in 0..self.slots.len() as u32 {
            if let Some(connection) = connection_at(&mut self.slots, slot) {
                connection.finish(now);
                self.note_end(slot, host);
                self.soil(slot);
            }
        }
    }
}

fn connection_at(slots: &mut [Slot], slot: u32) -> Option<&mut QuicConnection> {
    slots.get_mut(slot as usize)?.connection.as_deref_mut()
}

/// Passes events between the endpoint and one of its connections.
fn pass_events(endpoint: &mut Endpoint, slot: u32, connection: &mut QuicConnection) {
    while let Some(event) = connection.inner.poll_endpoint_events() {
        if let Some(event) = endpoint.handle_event(ConnectionHandle(slot as usize), event) {
            connection.inner.handle_event(event);
        }
    }
}

fn send(transmit: &Transmit, entrance: u16, octets: &[u8], host: &mut impl QuicHost) {
    let Transmit { destination, src_ip, size, .. } = *transmit;
    let path = QuicPath { entrance, peer: destination, local_ip: src_ip };
    host.send(&path, &octets[..size]);
}
