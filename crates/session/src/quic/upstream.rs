//! A connection to an upstream: queries of many clients in, responses out (RFC 9250, RFC 9114).
//!
//! ```text
//! push -- waiting -- [stream permitted] -- open -- response: delivered with the ID of the query
//!                                               \- stream ended without one: SERVFAIL
//!                                               |- not processed: the connection ends
//!                                               \- too old: cancelled
//! ```
//! Each query has a stream of its own, so a slow response delays no other. Each datagram of the
//! server costs budget, which queries, responses and time refill. So the server cannot send without
//! limit.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use avocet_wire::MAX_MESSAGE;

use super::client::{QuicClient, QuicError, QuicReply, QuicSettings};
use crate::http::HttpTarget;
use crate::http::answer::{is_response, servfail};
use crate::http::h3::H3Error;

/// Maximum number of concurrent streams, even if the server permits more.
const MAX_STREAMS: usize = 500;
/// Maximum number of octets of queries that wait for a stream. Further queries are dropped, as
/// datagrams are in a full queue.
const MAX_WAITING: usize = 1 << 20;
/// Number of calls of [`QuicUpstream::refill`] after which a query is given up.
const MAX_AGE: u8 = 20;
/// Number of datagrams that the server may send before the first response, and the maximum budget
/// that it may save.
const MAX_BUDGET: u32 = 2_000;
/// Increase of the budget per query, for its acknowledgements: the client may send the query twice.
const QUERY_REFILL: u32 = 2;
/// Increase of the budget per response, in addition to one per [`DATAGRAM`] octets of the response.
const RESPONSE_REFILL: u32 = 4;
/// Number of octets of a response for which the server may send one datagram, even if half of the
/// datagrams are lost.
const DATAGRAM: usize = 500;
/// Increase of the budget per call of [`QuicUpstream::refill`].
const TIME_REFILL: u32 = 50;
/// Number of octets of the header of a DNS message, and of the ID in it.
const HEADER_LEN: usize = 12;
const ID_LEN: usize = 2;

/// A connection to an upstream.
pub struct QuicUpstream {
    client: QuicClient,
    server: SocketAddr,
    /// The target of queries in HTTP/3; `None` for DNS over QUIC.
    target: Option<HttpTarget>,
    /// Whether the caller can send the queries over another connection if one of them fails here.
    is_alternative: bool,
    waiting: VecDeque<SentQuery>,
    waiting_octets: usize,
    /// Queries without a response, by stream.
    open: HashMap<u64, SentQuery>,
    budget: u32,
    /// The reason why the last unsuccessful query has no response.
    failure: Option<QuicError>,
}

/// A query without a response. It was sent, or waits for a stream.
struct SentQuery {
    octets: Box<[u8]>,
    age: u8,
}

impl QuicUpstream {
    /// Begins a connection to a server with this name in its certificate.
    ///
    /// # Errors
    /// The address or name cannot be used.
    pub fn connect(
        settings: &QuicSettings,
        server: SocketAddr,
        (name, target): (&str, Option<HttpTarget>),
        now: Instant,
    ) -> Result<Self, QuicError> {
        Ok(Self {
            client: QuicClient::connect(settings, server, name, now)?,
            server,
            target,
            is_alternative: false,
            waiting: VecDeque::new(),
            waiting_octets: 0,
            open: HashMap::new(),
            budget: MAX_BUDGET,
            failure: None,
        })
    }

    /// Marks the connection as an alternative: the caller can send its queries over another
    /// connection, so any query without a response ends this one.
    #[must_use]
    pub fn as_alternative(mut self) -> Self {
        self.is_alternative = true;
        self
    }

    /// Queues a query. Drops the query if its header is incomplete or the queue is full. Returns
    /// whether the query is sent now. If not, it waits for a stream or for flow control.
    pub fn push(&mut self, query: &[u8]) -> bool {
        let is_message = (HEADER_LEN..=MAX_MESSAGE).contains(&query.len());
        if !is_message || self.waiting_octets + query.len() > MAX_WAITING {
            return false;
        }
        self.waiting_octets += query.len();
        self.waiting.push_back(SentQuery { octets: query.into(), age: 0 });
        self.send_waiting();
        self.waiting.is_empty() && !self.client.is_blocked()
    }

    /// Sends as many of the waiting queries as the server permits.
    fn send_waiting(&mut self) {
        if self.client.is_draining() {
            return;
        }
        while !self.waiting.is_empty() && self.open.len() < MAX_STREAMS && self.client.may_ask() {
            let Some(query) = self.waiting.pop_front() else { return };
            self.waiting_octets -= query.octets.len();
            // The ID is 0 (RFC 9250 §4.2.1, RFC 8484 §4.1).
            let mut message = query.octets.to_vec();
            message[..ID_LEN].fill(0);
            let stream = match &self.target {
                None => self.client.ask(&message),
                Some(HttpTarget { authority, path, method }) => {
                    self.client.ask_http((authority, path), &message, *method)
                }
            };
            self.budget = (self.budget + QUERY_REFILL).min(MAX_BUDGET);
            let Some(stream) = stream else { return };
            self.open.insert(stream, query);
        }
    }

    /// Takes a datagram of the server, and passes each response that is complete to `deliver`.
    /// Returns whether the datagram belongs to the connection.
    pub fn receive(
        &mut self,
        now: Instant,
        octets: &[u8],
        deliver: &mut impl FnMut(&[u8]),
    ) -> bool {
        if self.client.ended().is_some() {
            return false;
        }
        let is_ours = self.client.receive(now, self.server, octets);
        while let Some(reply) = self.client.next_reply() {
            self.finish(reply, now, deliver);
        }
        match self.budget.checked_sub(1) {
            Some(budget) => self.budget = budget,
            None => self.client.give_up(now),
        }
        self.send_waiting();
        // The server accepts no further queries on this connection. If a query waits, or was not
        // accepted, the connection ends, and the caller sends the query again over another
        // connection (RFC 9114 §5.2).
        let is_refused = |stream: &u64| self.client.is_refused(*stream);
        if self.client.is_draining()
            && (!self.waiting.is_empty() || self.open.keys().any(is_refused))
        {
            self.client.leave(now);
        }
        is_ours
    }

    fn finish(&mut self, reply: QuicReply, now: Instant, deliver: &mut impl FnMut(&[u8])) {
        let QuicReply { request, result } = reply;
        let Some(query) = self.open.remove(&request) else { return };
        let error = match result {
            Ok(message) if message.len() < HEADER_LEN => QuicError::Malformed,
            Ok(mut message) => {
                let added = RESPONSE_REFILL + (message.len() / DATAGRAM) as u32;
                self.budget = (self.budget + added).min(MAX_BUDGET);
                // HTTP permits that the ID of the response differs.
                if message[..ID_LEN] != [0; ID_LEN] && self.target.is_none() {
                    QuicError::Violation
                } else if is_response(&message, &query.octets) {
                    message[..ID_LEN].copy_from_slice(&query.octets[..ID_LEN]);
                    return deliver(&message);
                } else {
                    QuicError::MediaType
                }
            }
            Err(error) => error,
        };
        /// The error code for a query that was not processed (RFC 9114 §4.1.1).
        const REJECTED: u64 = H3Error::RequestRejected as u64;
        // The caller sends the queries again over another connection.
        if self.target.is_some() && matches!(error, QuicError::NoReply(REJECTED)) {
            return self.client.leave(now);
        }
        if self.is_alternative || matches!(error, QuicError::Violation) {
            // A violation ends the connection (RFC 9250 §4.3.3). On an alternative, any error ends
            // the connection.
            self.client.violate(now);
        } else if let Some(message) = servfail(&query.octets, &error.to_string()) {
            deliver(&message);
        }
        self.failure = Some(error);
    }

    /// Handles the timers that are due.
    pub fn fire(&mut self, now: Instant) {
        self.client.fire(now);
    }

    /// Returns the time at which [`Self::fire`] is due.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.client.next_deadline()
    }

    /// Returns the next datagram to send.
    pub fn transmit(&mut self, now: Instant) -> Option<&[u8]> {
        self.client.transmit(now)
    }

    /// Refills the budget of the server and gives up queries that have waited too long. Called
    /// about every half second.
    pub fn refill(&mut self) {
        self.budget = (self.budget + TIME_REFILL).min(MAX_BUDGET);
        let is_old = |query: &mut SentQuery| {
            query.age = query.age.saturating_add(1);
            query.age > MAX_AGE
        };
        let Self { client, open, waiting, waiting_octets, .. } = self;
        for (stream, _) in open.extract_if(|_, query| is_old(query)) {
            client.cancel(stream);
        }
        waiting.retain_mut(|query| {
            let is_old = is_old(query);
            *waiting_octets -= if is_old { query.octets.len() } else { 0 };
            !is_old
        });
        self.send_waiting();
    }

    /// Ends the connection, and tells the server that no more data follows.
    pub fn close(&mut self, now: Instant) {
        self.client.close(now);
    }

    /// Returns and clears the reason why a query had no DNS message as response.
    pub fn take_failure(&mut self) -> Option<QuicError> {
        self.failure.take()
    }

    /// Returns the reason why the connection has ended; `None` while it is open.
    pub fn ended(&self) -> Option<&QuicError> {
        self.client.ended()
    }

    /// Returns whether further queries need another connection, because the server answers none on
    /// this one.
    pub fn is_draining(&self) -> bool {
        self.client.is_draining()
    }

    /// Reports whether the handshake is incomplete.
    pub fn is_handshaking(&self) -> bool {
        !self.client.is_connected()
    }

    /// Reports whether a query still waits for its response.
    pub fn is_owed(&self) -> bool {
        !self.open.is_empty() || !self.waiting.is_empty()
    }

    /// Returns the smoothed round-trip time.
    pub fn rtt(&self) -> Duration {
        self.client.rtt()
    }
}
