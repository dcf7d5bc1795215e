//! The server's end of a connection: the queries on its streams, and the bounds on its memory.
//!
//! ```text
//! stream opened -> Reading -> end of the stream: answered -> response written, at once or in parts
//!                           \                  \-> Waiting -> QuicServer::reply -> the same
//!                            \-> Early, until the handshake is complete -> answered
//! ```
//! A query that is complete in one piece and answered at once has no [`Request`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{
    Connection as Inner, Dir, Event, Side, StreamEvent, StreamId, VarInt, WriteError,
};
use rustls::pki_types::CertificateDer;

use super::arrived::{Arrived, Cancelled};
use super::doq::{DoqError, DoqQuery, framed, query_of};
use super::h3::{H3State, StreamFault};
use super::listener::QuicProtocol;
use super::query::{CompleteQuery, IncompleteQuery, QueryState, Reached, Request, Violation};
use super::service::{Envelope, QuicAnswer, QuicPatience, QuicQuery, QuicRoute, QuicService};

use crate::certificate;
use crate::early::may_answer;
use crate::http::form::{Media, RequestContent, ResponseForm, Status};
use crate::http::h3::{self, H3Error};
use crate::oblivious::OpenedQuery;
use crate::proof::HandshakeFacts;

/// Maximum number of octets of a connection's incomplete queries and of its responses that the
/// client has not read.
const MAX_HELD: usize = 256 << 10;
/// Number of octets that may be sent for each octet from a client that has not proven its address
/// (RFC 9000 §8.1).
const AMPLIFICATION: usize = 3;
/// Number of datagrams without a query that a client may send before the first response.
const FIRST_BUDGET: u32 = 400;
/// Maximum budget that a client may save.
const MAX_BUDGET: u32 = 2_000;
/// Increase of the budget per response, in addition to one per [`ACKNOWLEDGED`] octets.
const BUDGET_OF_RESPONSE: u32 = 4;
/// Number of octets of a response for which a client sends at most one acknowledging datagram.
const ACKNOWLEDGED: usize = 1_000;
/// Decrease of the budget for an oblivious query that cannot be answered: the attempt to decrypt it
/// has caused work.
const BUDGET_OF_REFUSAL: u32 = 4;
/// Increase of the budget in each half second.
const BUDGET_OF_TIME: u32 = 10;
/// Maximum duration of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Time after the last response at which a connection that is to end closes without an
/// acknowledgement: another process may have the server's sockets and receive the acknowledgement.
const LEAVING: Duration = Duration::from_millis(100);
/// The time after which the reply to a query counts as lost.
const LOST: Duration = Duration::from_secs(15);

/// Arguments for the handling of a connection's events.
pub(super) struct Turn<'t, H> {
    pub(super) now: Instant,
    /// The route to this connection. Its field `request` is set for each query.
    pub(super) route: QuicRoute,
    pub(super) host: &'t mut H,
}

/// What the events of a connection change in the server.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) has_connected: bool,
    /// Whether the client of a handshake that is now complete has sent early data.
    pub(super) has_early: bool,
}

/// The server's end of a connection.
pub(super) struct QuicConnection {
    pub(super) inner: Inner,
    /// The address of the client, for which the connection is counted.
    pub(super) ip: IpAddr,
    pub(super) entrance: u16,
    /// The start of the connection, while its handshake is incomplete.
    pub(super) handshake_since: Option<Instant>,
    /// The last time that a query was completed or a response was written.
    pub(super) active: Instant,
    /// The time at which the server's table of timers has an entry for the connection.
    pub(super) deadline: Option<Instant>,
    /// Whether the connection is in the list of connections with datagrams to send.
    pub(super) is_dirty: bool,
    /// Whether events remain because no time was left for queries in this pass of the event loop.
    pub(super) is_behind: bool,
    /// Whether the client has opened streams that are not accepted yet.
    has_newcomers: bool,
    /// Whether the connection has ended. Its state remains until datagrams that are still on their
    /// way have arrived.
    pub(super) has_ended: bool,
    /// Whether the connection ends once it has no open query.
    is_finishing: bool,
    /// The reason why the server has closed the connection.
    closed_for: Option<DoqError>,
    requests: Vec<Request>,
    /// The state of HTTP/3; `None` in DNS over QUIC.
    http: Option<Box<H3State>>,
    held: usize,
    budget: u32,
    /// Number of octets that may still be sent before the client has proven its address; `None`
    /// once it has.
    allowance: Option<usize>,
    /// The device identifier in the requested server name, until the handshake is complete.
    word: Option<Box<[u8]>>,
    /// Facts about the client and its device from the TLS handshake.
    facts: Option<Arc<HandshakeFacts>>,
    /// Whether the client has sent a query before the end of the handshake.
    is_early: bool,
    /// Whether queries wait for the end of the handshake.
    has_waiting: bool,
}

impl QuicConnection {
    pub(super) fn new(
        inner: Inner,
        (protocol, entrance): (QuicProtocol, u16),
        now: Instant,
    ) -> Self {
        Self {
            ip: inner.remote_address().ip(),
            inner,
            entrance,
            handshake_since: Some(now),
            active: now,
            deadline: None,
            is_dirty: false,
            is_behind: false,
            has_newcomers: false,
            has_ended: false,
            is_finishing: false,
            closed_for: None,
            requests: Vec::new(),
            http: (protocol == QuicProtocol::H3).then(Box::default),
            held: 0,
            budget: FIRST_BUDGET,
            allowance: None,
            word: certificate::take_word(),
            facts: None,
            is_early: false,
            has_waiting: false,
        }
    }

    /// Stores the device identifier in the requested server name, if the last datagram has
    /// completed the ClientHello.
    pub(super) fn note_word(&mut self) {
        if self.handshake_since.is_some() {
            self.word = certificate::take_word().or(self.word.take());
        }
    }

    /// Reads the facts about the client and its device from the TLS handshake. Closes the
    /// connection if the certificate of the client has expired.
    fn note_facts(&mut self, now: Instant) {
        let shown = self.inner.crypto_session().peer_identity();
        let shown = shown.and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
        let first = shown.as_ref().and_then(|chain| chain.first());
        match HandshakeFacts::new(first, self.word.clone(), None) {
            Ok(facts) => self.facts = facts,
            Err(_) => self.close(now, DoqError::Unspecified),
        }
    }

    /// Returns the number of octets of incomplete queries and of responses that the client has not
    /// read.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Reports whether no query is open and no event remains from an earlier pass of the event
    /// loop.
    pub(super) fn is_quiet(&self) -> bool {
        self.requests.is_empty() && !self.is_behind
    }

    /// Reports whether no query is open and the client has acknowledged all responses.
    fn is_done(&mut self) -> bool {
        // The server never ends its control stream of HTTP/3.
        let endless = usize::from(self.http.is_some());
        self.is_quiet() && self.inner.streams().send_streams() <= endless
    }

    /// Limits the number of octets that are sent to the client until it has proven its address. The
    /// client has sent `octets`.
    pub(super) fn limit_to(&mut self, octets: usize) {
        self.allowance = Some(octets * AMPLIFICATION);
    }

    /// Reports whether a datagram may be sent. The state machine of QUIC also enforces the limit,
    /// but its last datagram may exceed it. A datagram that may not be sent is lost, as in the
    /// network.
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

    /// Processes the events since the last call, until the connection's share of time is used up.
    pub(super) fn process(&mut self, turn: &mut Turn<'_, impl QuicService>) -> Progress {
        let mut progress = Progress::default();
        // Connections with unprocessed events continue in the order of the server's queue.
        if self.is_behind {
            return progress;
        }
        self.is_behind = !turn.host.begin_share();
        self.answer_waiting(turn);
        self.accept_queries(turn);
        while !self.is_behind
            && let Some(event) = self.inner.poll()
        {
            match event {
                Event::Connected => {
                    progress.has_connected = self.handshake_since.take().is_some();
                    self.allowance = None;
                    self.active = turn.now;
                    self.note_facts(turn.now);
                    self.word = None;
                    progress.has_early = self.is_early;
                    if self.inner.is_closed() {
                        continue;
                    }
                    self.answer_waiting(turn);
                    if let Some(http) = &mut self.http {
                        http.begin(&mut self.inner);
                    }
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

    /// Reads the streams that the client has opened with queries.
    fn accept_queries(&mut self, turn: &mut Turn<'_, impl QuicService>) {
        while self.has_newcomers && !self.is_behind && !self.inner.is_closed() {
            match self.inner.streams().accept(Dir::Bi) {
                Some(id) => self.read(id, turn),
                None => self.has_newcomers = false,
            }
        }
    }

    fn stream_event(&mut self, event: StreamEvent, turn: &mut Turn<'_, impl QuicService>) {
        match event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                self.has_newcomers = true;
                self.accept_queries(turn);
            }
            StreamEvent::Opened { dir: Dir::Uni } => {
                while let Some(id) = self.inner.streams().accept(Dir::Uni) {
                    self.budget = self.budget.saturating_sub(1);
                    self.read_uni(id, turn.now);
                }
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.read_uni(id, turn.now),
            StreamEvent::Readable { id } => self.read(id, turn),
            StreamEvent::Writable { id } => self.send_rest(id, turn.now),
            StreamEvent::Stopped { id, .. } => self.forget(id, DoqError::Cancelled),
            _ => {}
        }
    }

    /// Ends the connection for this reason.
    pub(super) fn close(&mut self, now: Instant, reason: DoqError) {
        if !self.inner.is_closed() {
            self.closed_for = Some(reason);
            self.inner.close(now, self.code(reason), Bytes::new());
        }
    }

    /// Returns the error code for a reason in DNS over QUIC or in HTTP/3.
    fn code(&self, reason: DoqError) -> VarInt {
        VarInt::from_u32(match (&self.http, reason) {
            (None, reason) => reason as u32,
            (Some(_), DoqError::None) => H3Error::None as u32,
            (Some(_), DoqError::Internal) => H3Error::Internal as u32,
            (Some(_), DoqError::Protocol) => H3Error::Protocol as u32,
            (Some(_), DoqError::Cancelled | DoqError::Unspecified) => H3Error::Cancelled as u32,
            (Some(_), DoqError::ExcessiveLoad) => H3Error::ExcessiveLoad as u32,
        })
    }

    /// Ends the connection for a violation of HTTP/3.
    fn violate(&mut self, now: Instant, error: H3Error) {
        if !self.inner.is_closed() {
            self.closed_for = Some(match error {
                H3Error::ExcessiveLoad => DoqError::ExcessiveLoad,
                _ => DoqError::Protocol,
            });
            self.inner.close(now, VarInt::from_u32(error as u32), Bytes::new());
        }
    }

    /// Reads a unidirectional stream of the client in HTTP/3.
    fn read_uni(&mut self, id: StreamId, now: Instant) {
        let arrived = Arrived::read(&mut self.inner, id);
        let Some(http) = &mut self.http else { return self.close(now, DoqError::Protocol) };
        let fault = match arrived {
            Ok(None) => return,
            Ok(Some(arrived)) => http.take(id, &arrived),
            Err(Cancelled) => http.take(id, &Arrived { pieces: Vec::new(), has_ended: true }),
        };
        match fault {
            Ok(()) => {}
            Err(StreamFault::Unknown) => {
                let code = VarInt::from_u32(H3Error::StreamCreation as u32);
                let _ = self.inner.recv_stream(id).stop(code);
            }
            Err(StreamFault::Connection(error)) => self.violate(now, error),
        }
    }

    /// Returns the reason why the server closed the connection; `None` if it did not.
    pub(super) fn ended_for(&self) -> Option<DoqError> {
        self.closed_for
    }

    /// Forgets all queries. Returns the number of their octets.
    pub(super) fn drop_requests(&mut self) -> usize {
        self.requests = Vec::new();
        std::mem::take(&mut self.held)
    }

    /// Ends the connection as soon as it has no open query. Another process may have the server's
    /// sockets and receive all further datagrams of the client, so acknowledgements of responses
    /// that were sent are not awaited.
    pub(super) fn finish(&mut self, now: Instant) {
        self.is_finishing = true;
        if let Some(http) = &mut self.http {
            http.go_away(&mut self.inner);
        }
        if self.is_quiet() {
            self.close(now, DoqError::None);
        }
    }

    /// Reads the data that has arrived on a stream.
    fn read(&mut self, id: StreamId, turn: &mut Turn<'_, impl QuicService>) {
        let arrived = match Arrived::read(&mut self.inner, id) {
            Ok(Some(arrived)) => arrived,
            Ok(None) => return,
            Err(Cancelled) => return self.forget(id, DoqError::Cancelled),
        };
        match self.take(id, &arrived, turn) {
            Err(Violation::Doq) => self.close(turn.now, DoqError::Protocol),
            Err(Violation::Connection(error)) => self.violate(turn.now, error),
            Err(Violation::Stream) => {
                self.budget = self.budget.saturating_sub(1);
                let code = VarInt::from_u32(H3Error::Message as u32);
                let _ = self.inner.recv_stream(id).stop(code);
                let _ = self.inner.send_stream(id).reset(code);
            }
            Ok(()) if self.held > MAX_HELD => self.close(turn.now, DoqError::ExcessiveLoad),
            Ok(()) => {}
        }
    }

    fn take(
        &mut self,
        id: StreamId,
        arrived: &Arrived,
        turn: &mut Turn<'_, impl QuicService>,
    ) -> Result<(), Violation> {
        // 32 bits suffice for the queries of a connection that lasts for years.
        let index = u32::try_from(id.index()).map_err(|_| Violation::Doq)?;
        let place = self.requests.iter().position(|one| one.index == index);
        if let (None, None, true, [whole]) =
            (&self.http, place, arrived.has_ended, arrived.pieces.as_slice())
        {
            let (message, form) = (query_of(whole)?, ResponseForm::MESSAGE);
            let envelope = Envelope::None;
            self.receive(id, CompleteQuery { message, form, word: None, envelope }, turn);
            return Ok(());
        }
        let mut request = match place {
            Some(place) => self.requests.swap_remove(place),
            None => {
                Request { index, since: turn.now, state: QueryState::Reading(self.reading(index)) }
            }
        };
        self.held -= request.state.held();
        // In every other state, the client has already ended its side of the stream.
        let QueryState::Reading(reading) = &mut request.state else { return Err(Violation::Doq) };
        match reading.take(arrived)? {
            Reached::More => {
                self.held += reading.held();
                self.requests.push(request);
            }
            Reached::Query(message, extent) => {
                let (word, form) =
                    (reading.take_word(), ResponseForm { extent, media: reading.media() });
                let (message, word) = (message.as_slice(), word.as_deref());
                let query = CompleteQuery { message, form, word, envelope: Envelope::None };
                self.handle(id, query, turn);
            }
            Reached::Reject(status) => {
                self.reject(id, status, turn.now);
                // Data after the end of the query is not read.
                let code = self.code(DoqError::None);
                let _ = self.inner.recv_stream(id).stop(code);
            }
        }
        Ok(())
    }

    /// Returns the state of a query before any of its octets have arrived.
    fn reading(&mut self, index: u32) -> IncompleteQuery {
        match &mut self.http {
            None => IncompleteQuery::Doq(DoqQuery::default()),
            Some(http) => {
                http.note_request(index);
                IncompleteQuery::H3(Box::default())
            }
        }
    }

    /// Answers a request without a query.
    fn reject(&mut self, id: StreamId, status: Status, now: Instant) {
        self.budget = self.budget.saturating_sub(1);
        let response = h3::response(status, &[], &ResponseForm::MESSAGE);
        self.send(id, Bytes::from(response), now);
    }

    /// Handles a complete request: decrypts an oblivious query before it is answered.
    fn handle(
        &mut self,
        id: StreamId,
        query: CompleteQuery<'_>,
        turn: &mut Turn<'_, impl QuicService>,
    ) {
        match query.form.media.content() {
            RequestContent::Query => return self.receive(id, query, turn),
            RequestContent::Configs => match turn.host.oblivious_configs() {
                None => self.reject(id, Status::NotFound, turn.now),
                Some(configs) => {
                    self.budget = self.budget.saturating_sub(1);
                    let response = h3::response(Status::Ok, &configs, &query.form);
                    self.send(id, Bytes::from(response), turn.now);
                }
            },
            RequestContent::Proxied => self.forward(id, query, turn),
            RequestContent::Oblivious => match turn.host.open(query.message) {
                Ok(OpenedQuery { query: message, seal }) => {
                    let media = Media::Oblivious(Some(Arc::new(seal)));
                    let form = ResponseForm { media, ..query.form };
                    let (message, envelope) = (message.as_slice(), Envelope::Oblivious);
                    let word = query.word;
                    return self.answer(id, CompleteQuery { message, form, word, envelope }, turn);
                }
                Err(fault) => {
                    self.budget = self.budget.saturating_sub(BUDGET_OF_REFUSAL);
                    self.reject(id, Status::NotOpened(fault), turn.now);
                }
            },
        }
        self.is_behind = !turn.host.has_time();
    }

    /// Forwards an oblivious query for another server.
    fn forward(
        &mut self,
        id: StreamId,
        query: CompleteQuery<'_>,
        turn: &mut Turn<'_, impl QuicService>,
    ) {
        let CompleteQuery { message, form, word, .. } = query;
        let (index, ip) = (id.index() as u32, self.inner.remote_address().ip());
        let route = QuicRoute { request: index, ..turn.route };
        match turn.host.forward(route, ip, word.unwrap_or_default(), message) {
            Ok(()) => {
                self.active = turn.now;
                let state = QueryState::Waiting(form);
                self.requests.push(Request { index, since: turn.now, state });
            }
            Err(fault) => self.reject(id, Status::of_proxy(fault), turn.now),
        }
    }

    /// Answers a query, unless it must wait for the end of the handshake.
    fn receive(
        &mut self,
        id: StreamId,
        query: CompleteQuery<'_>,
        turn: &mut Turn<'_, impl QuicService>,
    ) {
        if self.handshake_since.is_none() {
            return self.answer(id, query, turn);
        }
        if !self.is_early {
            self.is_early = true;
            self.note_facts(turn.now);
        }
        if self.inner.is_closed() {
            return;
        }
        if may_answer(query.message) {
            return self.answer(id, query, turn);
        }
        self.has_waiting = true;
        self.held += query.message.len();
        let state = QueryState::Early(query.message.to_vec());
        self.requests.push(Request { index: id.index() as u32, since: turn.now, state });
    }

    /// Answers the queries that had to wait for the end of the handshake. Only DNS over QUIC has
    /// early data.
    fn answer_waiting(&mut self, turn: &mut Turn<'_, impl QuicService>) {
        let is_early = |one: &Request| matches!(one.state, QueryState::Early(_));
        while self.has_waiting && !self.is_behind && self.handshake_since.is_none() {
            let Some(place) = self.requests.iter().position(is_early) else {
                self.has_waiting = false;
                return;
            };
            let request = self.requests.swap_remove(place);
            self.held -= request.state.held();
            let QueryState::Early(message) = request.state else { return };
            let id = StreamId::new(Side::Client, Dir::Bi, request.index.into());
            let (form, envelope) = (ResponseForm::MESSAGE, Envelope::None);
            self.answer(id, CompleteQuery { message: &message, form, word: None, envelope }, turn);
        }
    }

    fn answer(
        &mut self,
        id: StreamId,
        query: CompleteQuery<'_>,
        turn: &mut Turn<'_, impl QuicService>,
    ) {
        self.active = turn.now;
        let index = id.index() as u32;
        let route = QuicRoute { request: index, ..turn.route };
        let protocol = if self.http.is_some() { QuicProtocol::H3 } else { QuicProtocol::Doq };
        let CompleteQuery { message, form, word, envelope } = query;
        // The client may have changed its address since the handshake (RFC 9000 §9).
        let ip = self.inner.remote_address().ip();
        let (entrance, facts) = (self.entrance, self.facts.as_deref());
        let query = QuicQuery { route, ip, entrance, protocol, envelope, word, facts };
        match turn.host.answer(&query, message) {
            QuicAnswer::Now(reply) => {
                let response = self.response(reply, &form);
                self.respond(id, response, turn.now);
            }
            QuicAnswer::Later => {
                let state = QueryState::Waiting(form);
                self.requests.push(Request { index, since: turn.now, state });
            }
            QuicAnswer::Never => self.reset(id, DoqError::Unspecified),
        }
        self.is_behind = !turn.host.has_time();
    }

    /// Returns the octets of a response, in the form of the protocol.
    fn response(&self, reply: &[u8], form: &ResponseForm) -> Option<Vec<u8>> {
        match self.http {
            None => framed(reply),
            Some(_) => {
                let (status, reply) = form.media.answered(reply);
                Some(h3::response(status, reply, form))
            }
        }
    }

    /// Sends the reply to an earlier query. An empty reply ends the stream of the query.
    pub(super) fn reply(&mut self, index: u32, reply: &[u8], now: Instant) {
        let is_it =
            |one: &Request| one.index == index && matches!(one.state, QueryState::Waiting(_));
        let Some(place) = self.requests.iter().position(is_it) else { return };
        let QueryState::Waiting(form) = self.requests.swap_remove(place).state else { return };
        let id = StreamId::new(Side::Client, Dir::Bi, index.into());
        if reply.is_empty() {
            self.reset(id, DoqError::Unspecified);
        } else {
            self.respond(id, self.response(reply, &form), now);
        }
    }

    fn respond(&mut self, id: StreamId, response: Option<Vec<u8>>, now: Instant) {
        let Some(response) = response else { return self.reset(id, DoqError::Internal) };
        let allowed = BUDGET_OF_RESPONSE + (response.len() / ACKNOWLEDGED) as u32;
        self.budget = (self.budget + allowed).min(MAX_BUDGET);
        self.active = now;
        self.send(id, Bytes::from(response), now);
    }

    /// Sends octets, and buffers those that the client does not accept yet.
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
                // The client has cancelled the response.
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

    /// Continues a response after the client has enlarged the flow-control window.
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

    /// Ends the sending side of the stream, without the rest of the response.
    fn reset(&mut self, id: StreamId, reason: DoqError) {
        let code = self.code(reason);
        let _ = self.inner.send_stream(id).reset(code);
    }

    /// Ends both sides of a stream and forgets its query. A later reply to this query is dropped.
    fn forget(&mut self, id: StreamId, reason: DoqError) {
        let place = self.requests.iter().position(|one| u64::from(one.index) == id.index());
        if let Some(place) = place {
            let request = self.requests.swap_remove(place);
            self.held -= request.state.held();
        }
        let code = self.code(reason);
        let _ = self.inner.recv_stream(id).stop(code);
        self.reset(id, reason);
    }

    /// Ends queries that have taken too long, and allows the client more datagrams. Called about
    /// twice a second. Returns whether something was ended.
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
            QueryState::Reading(_) | QueryState::Early(_) | QueryState::Sending(_) => {
                late(one.since, patience.read)
            }
            QueryState::Waiting(_) => late(one.since, LOST),
        };
        let before = self.requests.len();
        while let Some(one) = self.requests.iter().find(|one| slow(one)) {
            let id = StreamId::new(Side::Client, Dir::Bi, one.index.into());
            self.forget(id, DoqError::ExcessiveLoad);
        }
        self.requests.len() < before
    }
}
