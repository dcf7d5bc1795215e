//! TCP connections of clients, plain (RFC 7766), with TLS (RFC 7858) or HTTPS (RFC 8484): queries
//! are pipelined, replies are sent in the order in which they are ready, and everything that a
//! client can make the server store is limited.
//!
//! One read takes all queries that have arrived, and one write sends all replies that are ready. If
//! a client has too many queries in flight or unread replies, the server does not read from it
//! until the number is lower.

use std::io;
use std::net::{IpAddr, TcpStream};
use std::ops::ControlFlow;

use avocet_io::poll::{Interest, Poller, Trigger};
use avocet_nameserver::query::Client;
use avocet_nameserver::query::asked::{Entrance, Transport};
use avocet_nameserver::query::miss::{StreamRoute, Way};
use avocet_nameserver::transfers::TransferRest;
use avocet_policy::client::DeviceClaims;
use avocet_session::frame::{ReadBuffer, ReadState, WriteState};
use avocet_session::http::HttpEnd;
use avocet_session::network::{ClientNetwork, NetworkCounts};
use avocet_session::quic::Whose;
use avocet_session::session::ServerSession;
use avocet_wire::header::HEADER_LEN;
use rustls::HandshakeKind;

use super::device::{ConnectionDevice, claims};
use super::requests;
use super::unread::{Pace, Unread};
use crate::token::Token;
use crate::values::{Answer, Answered};

/// Maximum number of queries of one connection that wait for the network.
const MAX_IN_FLIGHT: u16 = 128;
/// Number of octets of unread replies beyond which the server stops reading from a client.
const MAX_UNREAD: usize = 256 << 10;
/// Milliseconds after which the reply to a query counts as lost. Every query is answered within
/// five seconds, so a connection that still waits is closed, and the client can repeat the query.
const LOST_MS: u64 = 15_000;
/// Number of octets of unread replies at which the connection is closed.
const MAX_HELD: usize = 1 << 20;
/// Maximum number of consecutive reads of one connection, so that other connections do not have to
/// wait, even if the queries of this connection take little time.
const MAX_READS: usize = 4;

/// Maximum number of octets of a transfer that wait until the client reads them. Further messages
/// are made later.
const MAX_AHEAD: usize = 64 << 10;
/// Maximum number of messages of a transfer that are made in one turn of the event loop. They take
/// up to 0.1 ms, in which other clients wait.
const MAX_MESSAGES: usize = 4;
/// Milliseconds after which a transfer is aborted, even if the client still reads slowly.
const TRANSFER_MS: u64 = 3_600_000;
/// Maximum number of milliseconds from the start of a connection with TLS to the end of the
/// handshake.
const HANDSHAKE_MS: u64 = 5_000;
/// Maximum number of connections with an incomplete handshake that are read in one turn of the
/// event loop. A step of a handshake takes up to 0.3 ms, in which a hundred queries could be
/// answered.
const MAX_HANDSHAKES: u32 = 8;

/// Time limits of connections in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Maximum idle time without a query in flight, in milliseconds.
    pub(crate) idle_ms: u64,
    /// Maximum time for a query that has begun to arrive, and for a response that waits for the
    /// HTTP/2 window of the client, in milliseconds.
    pub(crate) read_ms: u64,
}

/// The client of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamClient {
    /// The address of the client.
    pub(crate) ip: IpAddr,
    /// The address to which the client connected.
    pub(crate) entrance: Entrance,
}

/// A request for which the server waits for the client: for the rest of its body, or until the
/// client takes the response.
#[derive(Clone, Copy)]
struct OwedRequest {
    request: u32,
    since_ms: u64,
}

struct Connection {
    stream: TcpStream,
    client: StreamClient,
    session: ServerSession,
    /// The time at which the connection began, in milliseconds; `None` after the handshake.
    handshake_since_ms: Option<u64>,
    in_flight: u16,
    /// The last time that octets of replies were sent, or that a query arrived while no replies
    /// waited for the client to read. Data that TLS and HTTP send without a query does not count.
    active_ms: u64,
    /// The number of replies at the last call of [`Self::write`], and whether octets of them are
    /// still to be sent.
    replied: u32,
    sends_replies: bool,
    /// The oldest request for which the server waits for the client while other requests continue,
    /// and the time at which the wait began.
    owed: Option<OwedRequest>,
    /// The time at which the first part of an incomplete frame arrived, in milliseconds.
    piece_since_ms: Option<u64>,
    /// Whether the server cannot write until the client reads.
    blocked: bool,
    /// Whether reading has stopped because of a limit. The session may still contain complete
    /// frames.
    paused: bool,
    /// The [`Pace`] of the connection when it was last read.
    pace: Pace,
    /// Whether the client sends no more data. Its queries in flight are still answered.
    half_closed: bool,
    /// The events for which the connection is registered with the poller.
    registered: Option<Interest>,
    /// The rest of a transfer. The worker reads no queries of this connection until the transfer is
    /// complete.
    transfer: Option<RunningTransfer>,
    /// The identities that the client sent and proved in the handshake.
    device: Option<Box<ConnectionDevice>>,
}

/// A transfer that is being sent on a connection.
struct RunningTransfer {
    rest: Box<TransferRest>,
    since_ms: u64,
}

#[derive(Default)]
struct StreamSlot {
    generation: u32,
    connection: Option<Connection>,
}

/// All client connections of a worker.
pub(crate) struct Streams {
    worker: u16,
    slots: Vec<StreamSlot>,
    free: Vec<u32>,
    buffer: ReadBuffer,
    unread: Unread,
    /// The slots of connections with replies, which are written at the end of the turn of the event
    /// loop.
    dirty: Vec<u32>,
    open: usize,
    /// The number of connections with TLS, including those with HTTPS.
    encrypted: usize,
    https: usize,
    /// The numbers of connections that HTTP has ended, in the order of
    /// [`HTTPS_ENDS`](avocet_nameserver::metrics::HTTPS_ENDS).
    https_ends: [u64; 2],
    /// The number of connections with an incomplete handshake, for each client and network.
    handshaking: NetworkCounts,
    /// The number of handshake steps that may still be taken in this turn of the event loop.
    handshakes_left: u32,
    /// The numbers of handshakes since the start, in the order of
    /// [`HANDSHAKES`](avocet_nameserver::metrics::HANDSHAKES).
    handshakes: [u64; 3],
    /// The number of complete handshakes of clients with early data.
    early: u64,
}

impl Streams {
    /// Creates the connections of a worker, without any connection yet.
    pub(crate) fn new(worker: u16) -> Self {
        Self {
            worker,
            slots: Vec::new(),
            free: Vec::new(),
            buffer: ReadBuffer::new(),
            unread: Unread::default(),
            dirty: Vec::new(),
            open: 0,
            encrypted: 0,
            https: 0,
            https_ends: [0; 2],
            handshaking: NetworkCounts::default(),
            handshakes_left: MAX_HANDSHAKES,
            handshakes: [0; 3],
            early: 0,
        }
    }

    /// Returns the number of open connections with TLS.
    pub(crate) fn encrypted(&self) -> usize {
        self.encrypted
    }

    /// Returns the number of open connections with HTTPS.
    pub(crate) fn https(&self) -> usize {
        self.https
    }

    /// Returns the numbers of connections that HTTP has ended since the start.
    pub(crate) fn https_ends(&self) -> [u64; 2] {
        self.https_ends
    }

    /// Returns the numbers of handshakes since the start.
    pub(crate) fn handshakes(&self) -> [u64; 3] {
        self.handshakes
    }

    /// Returns the number of complete handshakes of clients with early data since the start.
    pub(crate) fn early(&self) -> u64 {
        self.early
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Adds a connection that was counted already.
    ///
    /// # Errors
    /// The poller cannot watch the connection.
    pub(crate) fn insert(
        &mut self,
        poller: &Poller,
        (stream, session): (TcpStream, ServerSession),
        client: StreamClient,
        now_ms: u64,
    ) -> io::Result<()> {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if let Err(error) =
            poller.add(&stream, Token::Stream(slot).pack(), Interest::Read, Trigger::Level)
        {
            self.free.extend((slot < self.slots.len() as u32).then_some(slot));
            return Err(error);
        }
        if slot as usize == self.slots.len() {
            self.slots.push(StreamSlot::default());
        }
        let is_handshaking = session.is_handshaking();
        if is_handshaking {
            self.encrypted += 1;
            self.https += usize::from(session.is_http());
            self.handshaking.add(client.ip);
        }
        self.slots[slot as usize].connection = Some(Connection {
            stream,
            client,
            session,
            handshake_since_ms: is_handshaking.then_some(now_ms),
            in_flight: 0,
            active_ms: now_ms,
            replied: 0,
            sends_replies: false,
            owed: None,
            piece_since_ms: None,
            blocked: false,
            paused: false,
            pace: Pace::Prompt,
            half_closed: false,
            registered: Some(Interest::Read),
            transfer: None,
            device: None,
        });
        self.open += 1;
        Ok(())
    }

    /// Records that a connection can be read.
    pub(crate) fn note_readable(&mut self, slot: u32) {
        self.unread.push(slot, Pace::Prompt);
    }

    /// Returns whether connections wait to be read.
    pub(crate) fn has_unread(&self) -> bool {
        self.unread.len() > 0
    }

    /// Reads the waiting connections with this [`Pace`], until `answer` has no time left. The
    /// remaining connections come first in the next turn of the event loop. Adds the addresses of
    /// clients whose connections ended to `ended`.
    pub(crate) fn read_waiting(
        &mut self,
        pace: Pace,
        now_ms: u64,
        answer: &mut impl Answer,
        ended: &mut Vec<IpAddr>,
    ) {
        while answer.begin_share()
            && let Some(slot) = self.unread.pop(pace)
        {
            ended.extend(self.read(slot, now_ms, answer));
        }
    }

    /// Reads the queries that have arrived in a slot and passes them to `answer`. Returns the
    /// client's address if the connection ended.
    fn read(&mut self, slot: u32, now_ms: u64, answer: &mut impl Answer) -> Option<IpAddr> {
        let Self { worker, slots, buffer, handshakes_left, .. } = self;
        let StreamSlot { generation, connection } = slots.get_mut(slot as usize)?;
        let connection = connection.as_mut()?;
        let route = StreamRoute { worker: *worker, slot, generation: *generation, request: 0 };
        let StreamClient { ip, entrance } = connection.client;
        if connection.handshake_since_ms.is_some() {
            // The poller reports the connection again in the next turn of the event loop.
            *handshakes_left = handshakes_left.checked_sub(1)?;
        }
        let transport = connection.transport();
        let (claims, route) = (DeviceClaims::NONE, Way::Stream(route));
        let client = Client { ip, transport, is_tls12: false, entrance, claims, route };
        match connection.read(buffer, now_ms, &client, answer) {
            Ok(ReadState::Closed) => connection.half_closed = true,
            Ok(_) => {}
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    tracing::debug!(client = %ip, "TLS: {error}");
                }
                return self.close(slot);
            }
        }
        if let Some(kind) = connection.ended_handshake() {
            connection.active_ms = now_ms;
            let place = usize::from(kind == HandshakeKind::Resumed);
            self.handshakes[place] += 1;
            self.early += u64::from(connection.session.is_early());
            self.handshaking.remove(ip);
        }
        self.dirty.push(slot);
        None
    }

    /// Closes the oldest connection with an incomplete handshake of a client, or of its network, if
    /// there are `most` of them.
    pub(crate) fn close_handshake(
        &mut self,
        ip: IpAddr,
        most: impl Fn(ClientNetwork) -> usize,
    ) -> Option<IpAddr> {
        let crowd = self.handshaking.full(ip, most)?;
        let begun = self.slots.iter().enumerate().filter_map(|(at, slot)| {
            let in_crowd = slot.connection.as_ref().filter(|one| crowd.includes(one.client.ip));
            let connection = in_crowd?;
            Some((connection.handshake_since_ms?, at as u32))
        });
        let (_, slot) = begun.min()?;
        self.close(slot)
    }

    /// Appends a late reply, if the slot still contains the connection on which the query arrived.
    pub(crate) fn answer_late(&mut self, route: StreamRoute, message: &[u8]) {
        let Some(slot) = self.slots.get_mut(route.slot as usize) else { return };
        if slot.generation != route.generation {
            return;
        }
        if let Some(connection) = &mut slot.connection {
            connection.in_flight = connection.in_flight.saturating_sub(1);
            if connection.session.is_over(MAX_HELD) {
                // The client keeps sending queries without reading replies, so the connection is
                // closed.
                connection.half_closed = true;
            } else {
                connection.session.push_late(route.request, message);
            }
            self.dirty.push(route.slot);
        }
    }

    /// Writes the replies of this turn of the event loop. Connections that can be read again
    /// without an event of the poller wait for the next turn. Adds the addresses of clients whose
    /// connections ended to `ended`.
    pub(crate) fn flush(
        &mut self,
        poller: &Poller,
        (now_ms, wall_secs): (u64, u64),
        ended: &mut Vec<IpAddr>,
    ) {
        self.handshakes_left = MAX_HANDSHAKES;
        let mut dirty = std::mem::take(&mut self.dirty);
        for slot in dirty.drain(..) {
            let connection =
                self.slots.get_mut(slot as usize).and_then(|slot| slot.connection.as_mut());
            let Some(connection) = connection else { continue };
            let written = connection.write_all(now_ms, wall_secs);
            connection.half_closed |= connection.session.has_ended();
            // A client that neither reads nor sends data is no longer there.
            let over = connection.half_closed && (connection.is_quiet() || connection.blocked);
            if written.is_err() || over {
                ended.extend(self.close(slot));
                continue;
            }
            if connection.has_more_to_send() {
                // The connection goes to the end of its queue, after the connections that already
                // wait there.
                self.unread.push(slot, Pace::Prompt);
                continue;
            }
            if connection.paused && !connection.is_full() {
                connection.paused = false;
                self.unread.push(slot, connection.pace);
            }
            if connection.register(slot, poller).is_err() {
                ended.extend(self.close(slot));
            }
        }
        self.dirty = dirty;
    }

    /// Closes connections that have been idle or slow for too long. Called about twice a second.
    pub(crate) fn expire(&mut self, now_ms: u64, patience: Patience, ended: &mut Vec<IpAddr>) {
        for slot in 0..self.slots.len() as u32 {
            let Some(connection) = &mut self.slots[slot as usize].connection else { continue };
            if connection.is_expired(now_ms, patience) {
                ended.extend(self.close(slot));
            } else {
                connection.session.refill();
            }
        }
    }

    /// Announces to clients that their connections end soon, if the protocol permits that.
    pub(crate) fn announce_end(&mut self) {
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if let Some(connection) = slot.connection.as_mut().filter(|one| one.session.is_http()) {
                connection.session.announce_end();
                self.dirty.push(at as u32);
            }
        }
    }

    /// Closes all connections with TLS. Adds the addresses of their clients to `ended`.
    pub(crate) fn close_encrypted(&mut self, ended: &mut Vec<IpAddr>) {
        for slot in 0..self.slots.len() as u32 {
            let connection = self.slots[slot as usize].connection.as_ref();
            if connection.is_some_and(|connection| connection.session.is_encrypted()) {
                ended.extend(self.close(slot));
            }
        }
    }

    /// Closes all connections.
    pub(crate) fn close_all(&mut self) {
        for slot in 0..self.slots.len() as u32 {
            self.close(slot);
        }
    }

    /// Closes the connection that was idle longest, to make room, and returns its client. A
    /// connection with unread queries is closed only if no other connection is idle. Returns `None`
    /// if no connection is idle.
    pub(crate) fn evict(&mut self, whose: Whose) -> Option<IpAddr> {
        let Self { slots, unread, .. } = self;
        let idle = slots.iter().enumerate().filter_map(|(at, slot)| {
            let (connection, at) = (slot.connection.as_ref()?, at as u32);
            let is_candidate = connection.is_quiet() && whose.includes(connection.client.ip);
            let has_queries = connection.paused || unread.has(at);
            is_candidate.then_some((has_queries, connection.active_ms, at))
        });
        let (_, _, slot) = idle.min()?;
        self.close(slot)
    }

    fn close(&mut self, slot: u32) -> Option<IpAddr> {
        let entry = self.slots.get_mut(slot as usize)?;
        let mut connection = entry.connection.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        let ip = connection.client.ip;
        if connection.session.is_encrypted() {
            self.encrypted -= 1;
            if let Some(fault) = connection.session.http_fault() {
                self.https_ends[usize::from(fault == HttpEnd::Excess)] += 1;
            }
            self.https -= usize::from(connection.session.is_http());
            connection.session.close(&mut connection.stream);
        }
        if connection.handshake_since_ms.is_some() {
            self.handshakes[2] += 1;
            self.handshaking.remove(ip);
        }
        // When the descriptor is closed, the poller no longer watches it.
        self.free.push(slot);
        self.open -= 1;
        Some(ip)
    }
}

impl Connection {
    fn is_full(&self) -> bool {
        self.in_flight >= MAX_IN_FLIGHT
            || self.transfer.is_some()
            || self.session.is_over(MAX_UNREAD)
            || self.session.must_wait()
    }

    fn transport(&self) -> Transport {
        match self.session.is_encrypted() {
            true if self.session.is_http() => Transport::Https,
            true => Transport::Tls,
            false => Transport::Tcp,
        }
    }

    /// Returns the kind of the handshake when it is complete; `None` on later calls.
    fn ended_handshake(&mut self) -> Option<HandshakeKind> {
        self.handshake_since_ms?;
        if self.session.is_handshaking() {
            return None;
        }
        self.handshake_since_ms = None;
        self.session.handshake()
    }

    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        now_ms: u64,
        client: &Client<'_>,
        answer: &mut impl Answer,
    ) -> io::Result<ReadState> {
        if self.is_full() {
            self.paused = true;
            self.piece_since_ms = None;
            return Ok(ReadState::Stopped);
        }
        let Self { stream, session, in_flight, active_ms, blocked, transfer, device, .. } = self;
        let (mut state, mut client, mut has_query) = (ReadState::Drained, *client, false);
        let (is_framed, mut is_faulty) = (!matches!(client.transport, Transport::Https), false);
        self.pace = Pace::Prompt;
        let pace = &mut self.pace;
        for _ in 0..MAX_READS {
            state = session.read(stream, buffer, &mut |frame, replies| {
                if is_framed && frame.len() < HEADER_LEN {
                    is_faulty = true;
                    return ControlFlow::Break(());
                }
                // Queries of a client that never reads must not keep the connection open.
                if !*blocked {
                    *active_ms = now_ms;
                }
                has_query = true;
                if let Way::Stream(route) = &mut client.route {
                    route.request = replies.request();
                }
                let claims = claims(device, replies.facts(), replies.word());
                let is_tls12 = replies.facts().is_some_and(|facts| facts.is_tls12);
                let client = Client { claims, is_tls12, ..client };
                match requests::answer(frame, replies, &client, answer) {
                    // A reply always fits into a frame.
                    Some(Answered::Now(message)) => replies.push(message),
                    Some(Answered::Transfer(first, rest)) => {
                        replies.push(first);
                        *in_flight += 1;
                        *transfer = Some(RunningTransfer { rest, since_ms: now_ms });
                    }
                    Some(Answered::Later) => *in_flight += 1,
                    Some(Answered::Never) => replies.refuse(),
                    None => {}
                }
                if !answer.has_time() {
                    *pace = Pace::Slow;
                    return ControlFlow::Break(());
                }
                let full = *in_flight >= MAX_IN_FLIGHT
                    || transfer.is_some()
                    || replies.is_over(MAX_UNREAD);
                if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if state != ReadState::More {
                break;
            }
        }
        if is_faulty {
            return Ok(self.end_of_queries());
        }
        self.paused = state == ReadState::Stopped;
        // The client is not considered slow while the server does not read.
        let is_waiting = !self.paused && self.session.is_partial();
        let since_ms = self.piece_since_ms.filter(|_| !has_query).unwrap_or(now_ms);
        self.piece_since_ms = is_waiting.then_some(since_ms);
        Ok(state)
    }

    /// Ends the reading from a client after a message without a header: the message is no query,
    /// and more of them may follow without end. Queries in flight are still answered.
    fn end_of_queries(&mut self) -> ReadState {
        tracing::debug!(client = %self.client.ip, "a message without a header");
        self.piece_since_ms = None;
        ReadState::Closed
    }

    fn is_quiet(&self) -> bool {
        self.in_flight == 0 && self.session.is_empty()
    }

    /// Writes all waiting replies, and the next messages of a transfer.
    fn write_all(&mut self, now_ms: u64, wall_secs: u64) -> io::Result<()> {
        self.write(now_ms)?;
        let Self { session, transfer, in_flight, .. } = self;
        let Some(running) = transfer else { return Ok(()) };
        if session.is_over(MAX_AHEAD) {
            return Ok(());
        }
        for _ in 0..MAX_MESSAGES {
            let Some(message) = running.rest.next(wall_secs) else {
                let is_whole = running.rest.is_whole();
                (*transfer, *in_flight) = (None, in_flight.saturating_sub(1));
                // If the transfer is incomplete, the connection is closed, because the client would
                // wait for the end of the transfer.
                return if is_whole {
                    self.write(now_ms)
                } else {
                    Err(io::ErrorKind::Other.into())
                };
            };
            session.push_late(0, message);
        }
        self.write(now_ms)
    }

    /// Returns whether further messages of a transfer can be sent without waiting for the client.
    fn has_more_to_send(&self) -> bool {
        self.transfer.is_some() && !self.blocked
    }

    /// Writes all waiting replies in one call.
    fn write(&mut self, now_ms: u64) -> io::Result<()> {
        self.note_owed(now_ms);
        if self.session.is_empty() {
            return Ok(());
        }
        let (before, replied) = (self.session.unsent(), self.session.replied());
        self.sends_replies |= replied != self.replied;
        self.replied = replied;
        self.blocked = self.session.write(&mut self.stream)? == WriteState::Blocked;
        if self.sends_replies && (!self.blocked || self.session.unsent() < before) {
            self.active_ms = now_ms;
        }
        self.sends_replies &= self.blocked;
        Ok(())
    }

    /// Records the time since which the oldest request waits for the client.
    fn note_owed(&mut self, now_ms: u64) {
        let request = self.session.oldest_owed();
        let known = self.owed.filter(|owed| Some(owed.request) == request);
        self.owed =
            known.or_else(|| request.map(|request| OwedRequest { request, since_ms: now_ms }));
    }

    /// Registers the connection for other events with the poller, if the events have changed.
    fn register(&mut self, slot: u32, poller: &Poller) -> io::Result<()> {
        let wanted = match (self.paused || self.half_closed, self.blocked) {
            (false, false) => Some(Interest::Read),
            (false, true) => Some(Interest::ReadWrite),
            (true, true) => Some(Interest::Write),
            (true, false) => None,
        };
        let token = Token::Stream(slot).pack();
        match (self.registered, wanted) {
            (Some(before), Some(now)) if before == now => return Ok(()),
            (Some(_), Some(now)) => poller.modify(&self.stream, token, now, Trigger::Level)?,
            (None, Some(now)) => poller.add(&self.stream, token, now, Trigger::Level)?,
            (Some(_), None) => poller.remove(&self.stream)?,
            (None, None) => return Ok(()),
        }
        self.registered = wanted;
        Ok(())
    }

    fn is_expired(&self, now_ms: u64, patience: Patience) -> bool {
        let late = |since: u64, limit: u64| now_ms.saturating_sub(since) > limit;
        let slow_query = self.piece_since_ms.is_some_and(|since| late(since, patience.read_ms));
        let quiet_ms =
            if self.in_flight == 0 { patience.idle_ms } else { patience.idle_ms.max(LOST_MS) };
        let slow_request = self.owed.is_some_and(|owed| late(owed.since_ms, patience.read_ms));
        let slow_handshake = self.handshake_since_ms.is_some_and(|since| late(since, HANDSHAKE_MS));
        let long_transfer =
            self.transfer.as_ref().is_some_and(|one| late(one.since_ms, TRANSFER_MS));
        let is_slow = slow_query || slow_request || slow_handshake;
        is_slow || long_transfer || late(self.active_ms, quiet_ms)
    }
}

#[cfg(test)]
mod tests;
