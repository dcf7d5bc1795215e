//! A connection of a client: the queries on its streams, and the bounds on what it makes the server
//! keep.
//!
//! ```text
//! stream opened -> Reading -> end of the stream: answered -> response written, at once or in parts
//!                                             \-> Waiting -> QuicServer::reply -> the same
//! ```
//! A query that is complete in one piece and answered at once has no [`Request`].

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{
    Connection as Inner, Dir, Event, ReadError, Side, StreamEvent, StreamId, VarInt, WriteError,
};

use super::doq::{DoqError, DoqQuery, DoqViolation, framed, query_of};
use super::server::{QuicAnswer, QuicPatience, QuicQuery, QuicRoute, QuicService};

/// Octets of incomplete queries of a connection, and of its responses that wait for the client.
const MAX_HELD: usize = 256 << 10;
/// Octets sent for each octet of a client that has not proven its address (RFC 9000 §8.1).
const AMPLIFICATION: usize = 3;
/// Datagrams without a query that a client may send before the first response.
const FIRST_BUDGET: u32 = 400;
/// The most of them that a client may save.
const MAX_BUDGET: u32 = 2_000;
/// Those that each response allows, besides one for each [`ACKNOWLEDGED`] octets.
const BUDGET_OF_RESPONSE: u32 = 4;
/// Octets of a response that a client acknowledges with at most one datagram.
const ACKNOWLEDGED: usize = 1_000;
/// Those that each half second allows.
const BUDGET_OF_TIME: u32 = 10;
/// The time from the start of a connection to the end of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// The time for the last response of a connection that ends. The server may not get the
/// acknowledgement, because another process has its sockets.
const LEAVING: Duration = Duration::from_millis(100);
/// The time after which the reply to a query is lost.
const LOST: Duration = Duration::from_secs(15);

/// A query with state.
struct Request {
    index: u32,
    since: Instant,
    state: QueryState,
}

enum QueryState {
    /// The query is incomplete.
    Reading(DoqQuery),
    /// The reply comes later.
    Waiting,
    /// The rest of the response waits for the client.
    Sending(Bytes),
}

impl QueryState {
    fn held(&self) -> usize {
        match self {
            Self::Reading(query) => query.held(),
            Self::Waiting => 0,
            Self::Sending(rest) => rest.len(),
        }
    }
}

/// The arguments of the events of a connection.
pub(super) struct Turn<'t, H> {
    pub(super) now: Instant,
    /// That of the connection; the request is another one for each query.
    pub(super) route: QuicRoute,
    pub(super) host: &'t mut H,
}

/// What the events of a connection mean to its server.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) has_connected: bool,
}

/// A connection of a client.
pub(super) struct QuicConnection {
    pub(super) inner: Inner,
    /// The address under which it is counted.
    pub(super) ip: IpAddr,
    pub(super) entrance: u16,
    /// When it began, while its handshake is incomplete.
    pub(super) handshake_since: Option<Instant>,
    /// The last time that a query was complete or a response was written.
    pub(super) active: Instant,
    /// When its timer is due in the server's table.
    pub(super) deadline: Option<Instant>,
    /// Whether it is among those with datagrams to send.
    pub(super) is_dirty: bool,
    /// Whether it has ended, and waits for datagrams that are still on their way.
    pub(super) has_ended: bool,
    /// Whether it ends once no query waits.
    is_finishing: bool,
    /// Why the server has closed it.
    closed_for: Option<DoqError>,
    requests: Vec<Request>,
    held: usize,
    budget: u32,
    /// Octets that may be sent before the client has proven its address; `None` after that.
    allowance: Option<usize>,
}

impl QuicConnection {
    pub(super) fn new(inner: Inner, entrance: u16, now: Instant) -> Self {
        Self {
            ip: inner.remote_address().ip(),
            inner,
            entrance,
            handshake_since: Some(now),
            active: now,
            deadline: None,
            is_dirty: false,
            has_ended: false,
            is_finishing: false,
            closed_for: None,
            requests: Vec::new(),
            held: 0,
            budget: FIRST_BUDGET,
            allowance: None,
        }
    }

    /// Returns the octets of incomplete queries and of responses that wait for the client.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Reports whether no query is in progress.
    pub(super) fn is_quiet(&self) -> bool {
        self.requests.is_empty()
    }

    /// Reports whether the client has acknowledged all responses, besides.
    fn is_done(&mut self) -> bool {
        self.is_quiet() && self.inner.streams().send_streams() == 0
    }

    /// Limits what is sent to a client that has not proven its address: `octets` have come from it.
    pub(super) fn limit_to(&mut self, octets: usize) {
        self.allowance = Some(octets * AMPLIFICATION);
    }

    /// Reports whether a datagram may be sent. The state machine itself keeps to the limit, except
    /// for the last datagram; one that is not sent counts as lost.
    pub(super) fn may_send(&mut self, octets: usize) -> bool {
        let Some(left) = &mut self.allowance else { return true };
        let rest = left.checked_sub(octets);
        *left = rest.unwrap_or(*left);
        rest.is_some()
    }

    /// Counts a datagram of this length. Returns `false` if the client has sent too many without a
    /// query.
    pub(super) fn count_datagram(&mut self, octets: usize) -> bool {
        if let Some(left) = &mut self.allowance {
            *left += octets * AMPLIFICATION;
        }
        self.budget = self.budget.saturating_sub(1);
        self.budget > 0
    }

    /// Processes what has happened since the last call.
    pub(super) fn process(&mut self, turn: &mut Turn<'_, impl QuicService>) -> Progress {
        let mut progress = Progress::default();
        while let Some(event) = self.inner.poll() {
            match event {
                Event::Connected => {
                    progress.has_connected = self.handshake_since.take().is_some();
                    self.allowance = None;
                    self.active = turn.now;
                }
                Event::Stream(event) if !self.inner.is_closed() => self.stream_event(event, turn),
                _ => {}
            }
        }
        if self.is_finishing && self.is_done() {
            self.close(turn.now, DoqError::None);
        }
        progress
    }

    fn stream_event(&mut self, event: StreamEvent, turn: &mut Turn<'_, impl QuicService>) {
        match event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                while let Some(id) = self.inner.streams().accept(Dir::Bi) {
                    self.read(id, turn);
                }
            }
            StreamEvent::Readable { id } => self.read(id, turn),
            StreamEvent::Writable { id } => self.send_rest(id, turn.now),
            StreamEvent::Stopped { id, .. } => self.forget(id, DoqError::Cancelled),
            _ => {}
        }
    }

    /// Ends the connection.
    pub(super) fn close(&mut self, now: Instant, reason: DoqError) {
        if !self.inner.is_closed() {
            self.closed_for = Some(reason);
            self.inner.close(now, VarInt::from_u32(reason as u32), Bytes::new());
        }
    }

    /// Returns why the server has closed the connection; `None` if it has not.
    pub(super) fn ended_for(&self) -> Option<DoqError> {
        self.closed_for
    }

    /// Forgets all queries. Returns the octets that they held.
    pub(super) fn drop_requests(&mut self) -> usize {
        self.requests = Vec::new();
        std::mem::take(&mut self.held)
    }

    /// Ends the connection as soon as no query waits.
    pub(super) fn finish(&mut self, now: Instant) {
        self.is_finishing = true;
        if self.is_done() {
            self.close(now, DoqError::None);
        }
    }

    /// Reads what has arrived on a stream.
    fn read(&mut self, id: StreamId, turn: &mut Turn<'_, impl QuicService>) {
        let arrived = match Arrived::read(&mut self.inner, id) {
            Ok(Some(arrived)) => arrived,
            Ok(None) => return,
            Err(Cancelled) => return self.forget(id, DoqError::Cancelled),
        };
        if self.take(id, &arrived, turn).is_err() {
            self.close(turn.now, DoqError::Protocol);
        } else if self.held > MAX_HELD {
            self.close(turn.now, DoqError::ExcessiveLoad);
        }
    }

    fn take(
        &mut self,
        id: StreamId,
        arrived: &Arrived,
        turn: &mut Turn<'_, impl QuicService>,
    ) -> Result<(), DoqViolation> {
        // A stream number of 32 bits lasts for years.
        let index = u32::try_from(id.index()).map_err(|_| DoqViolation)?;
        let place = self.requests.iter().position(|one| one.index == index);
        if let (None, true, [whole]) = (place, arrived.has_ended, arrived.pieces.as_slice()) {
            self.answer(id, query_of(whole)?, turn);
            return Ok(());
        }
        let mut request = match place {
            Some(place) => self.requests.swap_remove(place),
            None => {
                Request { index, since: turn.now, state: QueryState::Reading(DoqQuery::default()) }
            }
        };
        self.held -= request.state.held();
        // The direction of the client has ended in every other state.
        let QueryState::Reading(query) = &mut request.state else { return Err(DoqViolation) };
        for piece in &arrived.pieces {
            query.take(piece)?;
        }
        if arrived.has_ended {
            self.answer(id, query.end()?, turn);
        } else {
            self.held += query.held();
            self.requests.push(request);
        }
        Ok(())
    }

    fn answer(&mut self, id: StreamId, message: &[u8], turn: &mut Turn<'_, impl QuicService>) {
        self.active = turn.now;
        let index = id.index() as u32;
        let route = QuicRoute { request: index, ..turn.route };
        let query = QuicQuery { route, ip: self.ip, entrance: self.entrance };
        match turn.host.answer(&query, message) {
            QuicAnswer::Now(reply) => {
                let response = framed(reply);
                self.respond(id, response, turn.now);
            }
            QuicAnswer::Later => {
                self.requests.push(Request { index, since: turn.now, state: QueryState::Waiting });
            }
            QuicAnswer::Never => self.reset(id, DoqError::Unspecified),
        }
    }

    /// Sends the reply to an earlier query; an empty one ends its stream.
    pub(super) fn reply(&mut self, index: u32, reply: &[u8], now: Instant) {
        let is_it = |one: &Request| one.index == index && matches!(one.state, QueryState::Waiting);
        let Some(place) = self.requests.iter().position(is_it) else { return };
        self.requests.swap_remove(place);
        let id = StreamId::new(Side::Client, Dir::Bi, index.into());
        if reply.is_empty() {
            self.reset(id, DoqError::Unspecified);
        } else {
            self.respond(id, framed(reply), now);
        }
    }

    fn respond(&mut self, id: StreamId, response: Option<Vec<u8>>, now: Instant) {
        let Some(response) = response else { return self.reset(id, DoqError::Internal) };
        let allowed = BUDGET_OF_RESPONSE + (response.len() / ACKNOWLEDGED) as u32;
        self.budget = (self.budget + allowed).min(MAX_BUDGET);
        self.active = now;
        self.send(id, Bytes::from(response), now);
    }

    /// Sends octets, and keeps those that the client does not take yet.
    fn send(&mut self, id: StreamId, octets: Bytes, since: Instant) {
        let mut parts = [octets];
        let mut stream = self.inner.send_stream(id);
        while !parts[0].is_empty() {
            match stream.write_chunks(&mut parts) {
                Ok(written) if written.chunks == 1 => break,
                Ok(_) => {}
                Err(WriteError::Blocked) => {
                    let [rest] = parts;
                    return self.keep(id, rest, since);
                }
                // The client does not want the response.
                Err(_) => return self.reset(id, DoqError::Cancelled),
            }
        }
        let _ = stream.finish();
    }

    fn keep(&mut self, id: StreamId, rest: Bytes, since: Instant) {
        if self.held + rest.len() > MAX_HELD {
            return self.reset(id, DoqError::ExcessiveLoad);
        }
        self.held += rest.len();
        let index = id.index() as u32;
        self.requests.push(Request { index, since, state: QueryState::Sending(rest) });
    }

    /// Continues a response for which the client has room now.
    fn send_rest(&mut self, id: StreamId, now: Instant) {
        let is_it = |one: &Request| {
            u64::from(one.index) == id.index() && matches!(one.state, QueryState::Sending(_))
        };
        let Some(place) = self.requests.iter().position(is_it) else { return };
        let request = self.requests.swap_remove(place);
        if let QueryState::Sending(rest) = request.state {
            self.held -= rest.len();
            self.active = now;
            self.send(id, rest, request.since);
        }
    }

    /// Ends the direction of the response.
    fn reset(&mut self, id: StreamId, reason: DoqError) {
        let _ = self.inner.send_stream(id).reset(VarInt::from_u32(reason as u32));
    }

    /// Ends both directions of a stream and forgets its query. A reply that comes later is dropped.
    fn forget(&mut self, id: StreamId, reason: DoqError) {
        let place = self.requests.iter().position(|one| u64::from(one.index) == id.index());
        if let Some(place) = place {
            let request = self.requests.swap_remove(place);
            self.held -= request.state.held();
        }
        let _ = self.inner.recv_stream(id).stop(VarInt::from_u32(reason as u32));
        self.reset(id, reason);
    }

    /// Ends what has taken too long, and allows the client more datagrams. Called about twice a
    /// second. Returns whether something was ended.
    pub(super) fn sweep(&mut self, now: Instant, patience: QuicPatience) -> bool {
        let late = |since: Instant, limit| now.saturating_duration_since(since) > limit;
        self.budget = (self.budget + BUDGET_OF_TIME).min(MAX_BUDGET);
        let quiet = if self.is_quiet() { patience.idle } else { patience.idle.max(LOST) };
        let is_slow = self.handshake_since.is_some_and(|since| late(since, HANDSHAKE));
        let is_left = self.is_finishing && self.is_quiet() && late(self.active, LEAVING);
        if is_slow || is_left || late(self.active, quiet) {
            self.close(now, DoqError::None);
            return true;
        }
        let slow = |one: &Request| match one.state {
            QueryState::Reading(_) | QueryState::Sending(_) => late(one.since, patience.read),
            QueryState::Waiting => late(one.since, LOST),
        };
        let before = self.requests.len();
        while let Some(one) = self.requests.iter().find(|one| slow(one)) {
            let id = StreamId::new(Side::Client, Dir::Bi, one.index.into());
            self.forget(id, DoqError::ExcessiveLoad);
        }
        self.requests.len() < before
    }
}

/// What has arrived on a stream.
struct Arrived {
    pieces: Vec<Bytes>,
    has_ended: bool,
}

/// The client does not want the response any more.
struct Cancelled;

impl Arrived {
    /// Reads a stream; `None` if it was read to its end or stopped earlier.
    fn read(connection: &mut Inner, id: StreamId) -> Result<Option<Self>, Cancelled> {
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Ok(None) };
        let mut arrived = Self { pieces: Vec::new(), has_ended: false };
        let result = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => arrived.pieces.push(chunk.bytes),
                Ok(None) => {
                    arrived.has_ended = true;
                    break Ok(Some(arrived));
                }
                Err(ReadError::Blocked) => break Ok(Some(arrived)),
                Err(ReadError::Reset(_)) => break Err(Cancelled),
            }
        };
        // The connection is asked for datagrams to send at the end of the turn in any case.
        let _ = chunks.finalize();
        result
    }
}
