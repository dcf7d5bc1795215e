//! The intake: the part of a worker that receives queries.
//!
//! It owns the sockets that clients reach: UDP sockets, listeners for connections, and the
//! connections. It passes the octets of each query on, together with the client and the entrance
//! (the address that the client reached). It does not depend on how queries are answered or
//! resolved:
//!
//! ```text
//! datagrams  -- batch, by recvmmsg --> Service: a reply in the batch, or none for now
//! connection -- frames of one read --> Answer:  Now(reply) | Later | Never
//! QUIC       -- query of a stream  --> the same
//! ```
//!
//! The service that answers queries is an argument of each call. The intake could thus also run in
//! a thread that has only the query path. A late reply comes back as a [`StreamReply`] with a
//! route. If the connection no longer exists, the reply is dropped.
//!
//! The intake enforces the bounds on connections: the number, per client and in total
//! ([`accept`]); the time they may be idle, and how much each may have in flight or leave unread
//! ([`streams`]).

mod accept;
mod device;
mod headers;
mod quic;
mod requests;
mod streams;
mod unread;

use std::net::IpAddr;
use std::sync::Arc;
use std::{io, mem};

use avocet_config::{OpenAddress, Protocol};
use avocet_io::poll::{Interest, Poller, Trigger};
use avocet_io::udp::{Batch, Service, UdpListener};
use avocet_nameserver::metrics::WorkerMetrics;
use avocet_nameserver::query::asked::Entrance;
use avocet_session::session::ServerSession;

use super::token::Token;
use super::values::{Answer, StreamReply, Time};
use crate::mailbox::ForwardedDatagram;
use crate::setup::{Listeners, Setup};
use crate::state::Shared;
use headers::Headers;
use quic::{Quic, QuicTurn};
pub(crate) use streams::Patience;
use streams::Streams;
pub(crate) use unread::Pace;

/// The intake of one worker.
pub(crate) struct Intake {
    index: u16,
    shared: Arc<Shared>,
    listeners: Listeners,
    /// For each listener of TCP, the index of its address among the addresses on which the server
    /// listens. After a new process has taken over the sockets of an old process, a worker may have
    /// several listeners for each address, in sets that have the same order.
    stream_entrances: Vec<u16>,
    /// The number of addresses without TLS. These addresses come first.
    plain_addresses: usize,
    /// The protocol that is served at each address.
    protocols: Box<[Protocol]>,
    /// The port of HTTP/3 for each address with HTTPS; 0 for an address without HTTP/3.
    h3_ports: Box<[u16]>,
    /// Connections of proxies that wait for their PROXY header.
    headers: Headers,
    streams: Streams,
    quic: Quic,
    /// Maximum number of connections of this worker, as the limit on file descriptors of the
    /// process permits.
    most_streams: usize,
    /// Listeners that accept no connections for up to half a second.
    resting: Vec<u16>,
    /// The number of changes of the authorities of client certificates that were followed.
    authority_changes: u64,
}

impl Intake {
    /// Creates the intake of a worker. Its listeners are added to the poller.
    ///
    /// # Errors
    /// The poller cannot watch a listener.
    pub(crate) fn new(
        setup: &Setup,
        shared: Arc<Shared>,
        mut listeners: Listeners,
        poller: &mut Poller,
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
        let open = shared.snapshot().config.server.open_addresses();
        let protocols: Box<[Protocol]> = open.iter().map(|one| one.protocol).collect();
        let numbers = |serves: fn(Protocol) -> bool| -> Vec<u16> {
            let all = protocols.iter().enumerate().filter(|(_, one)| serves(**one));
            all.map(|(number, _)| number as u16).collect()
        };
        let sockets = mem::take(&mut listeners.quic);
        let with_quic = numbers(Protocol::uses_quic);
        let seat = (setup.index, setup.quic_seed);
        Ok(Self {
            index: setup.index,
            quic: Quic::new(seat, &shared, sockets, with_quic, poller)?,
            stream_entrances: numbers(Protocol::uses_streams),
            protocols,
            h3_ports: open.iter().map(|one| h3_port(one, &open)).collect(),
            plain_addresses: shared.snapshot().config.server.datagram_addresses(),
            authority_changes: shared.tls.authority_changes(),
            shared,
            listeners,
            headers: Headers::default(),
            streams: Streams::new(setup.index),
            most_streams: setup.most_streams,
            resting: Vec::new(),
        })
    }

    /// Returns the number of UDP listeners.
    pub(crate) fn datagram_listeners(&self) -> u16 {
        self.listeners.datagrams.len() as u16
    }

    /// Returns the entrance (the address that clients reach) of the UDP listener with this index.
    pub(crate) fn entrance(&self, listener: u16) -> Entrance {
        Entrance((usize::from(listener) % self.plain_addresses) as u16)
    }

    /// Returns the entrance (the address that clients reach) of the TCP listener with this index.
    fn stream_entrance(&self, listener: u16) -> Entrance {
        let place = usize::from(listener) % self.stream_entrances.len().max(1);
        Entrance(self.stream_entrances.get(place).copied().unwrap_or_default())
    }

    /// Returns the session for a new connection at a listening address; `None` if there is no
    /// certificate for this address.
    fn session(&self, entrance: Entrance) -> Option<ServerSession> {
        if usize::from(entrance.0) < self.plain_addresses {
            return Some(ServerSession::plain());
        }
        let tls = self.shared.tls.at(entrance)?;
        match self.protocols.get(usize::from(entrance.0)) {
            Some(Protocol::Https) => ServerSession::accept_https(&tls, self.h3_port(entrance)).ok(),
            _ => ServerSession::accept(&tls).ok(),
        }
    }

    /// Returns the port of HTTP/3 that is announced to clients at an address with HTTPS; 0 if none
    /// is announced.
    fn h3_port(&self, entrance: Entrance) -> u16 {
        match self.h3_ports.get(usize::from(entrance.0)) {
            // The socket stays open when a reload turns HTTP/3 off.
            Some(port) if self.shared.snapshot().config.server.h3 => *port,
            _ => 0,
        }
    }

    /// Returns the session for the connection of a client that the access list does not allow. The
    /// client may be an authority that checks a proof (RFC 8737). Queries on the connection are
    /// refused, as usual for such a client.
    fn session_of_authority(&self, entrance: Entrance) -> Option<ServerSession> {
        let is_encrypted = usize::from(entrance.0) >= self.plain_addresses;
        let tls = self.shared.tls.for_authorities().filter(|_| is_encrypted)?;
        ServerSession::accept(&tls).ok()
    }

    /// Receives one batch of datagrams, passes it to the service, and sends the replies. Returns
    /// the default value if there is no listener with this index.
    ///
    /// # Errors
    /// Receiving fails for a reason other than an empty queue.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        listener: u16,
        service: &mut impl Service,
    ) -> io::Result<Batch> {
        match self.listeners.datagrams.get_mut(usize::from(listener)) {
            Some(listener) => listener.serve(service),
            None => Ok(Batch::default()),
        }
    }

    /// Records that a connection can be read.
    pub(crate) fn note_readable(&mut self, slot: u32) {
        self.streams.note_readable(slot);
    }

    /// Returns whether a connection must be read without waiting for the poller.
    pub(crate) fn has_unread(&self) -> bool {
        self.streams.has_unread()
    }

    /// Reads the queries on the waiting connections with this [`Pace`], and passes them to `answer`
    /// until there is no time left in this turn of the event loop.
    pub(crate) fn read_waiting(&mut self, pace: Pace, now_ms: u64, answer: &mut impl Answer) {
        let mut ended = Vec::new();
        self.streams.read_waiting(pace, now_ms, answer, &mut ended);
        self.forget_connections(&ended);
    }

    /// Appends a late reply to the output of its connection, if the connection still exists.
    pub(crate) fn reply(&mut self, reply: &StreamReply<'_>, time: Time) {
        if !self.quic.reply(reply, time) {
            self.streams.answer_late(reply.route, reply.message);
        }
    }

    /// Returns the part for QUIC, and the parts of the worker that it uses while datagrams arrive.
    fn entering<'t, A>(&'t mut self, answer: &'t mut A) -> (&'t mut Quic, QuicTurn<'t, A>) {
        let Self { index, shared, streams, most_streams, quic, .. } = self;
        let (index, most_streams) = (*index, *most_streams);
        (quic, QuicTurn { index, shared, streams, most_streams, answer })
    }

    /// Returns the number of listeners of QUIC.
    pub(crate) fn quic_listeners(&self) -> u16 {
        self.quic.listeners()
    }

    /// Receives one batch of QUIC datagrams, and passes their queries to `answer`. Returns the
    /// number of datagrams.
    ///
    /// # Errors
    /// Receiving fails for a reason other than an empty queue.
    pub(crate) fn receive_quic(
        &mut self,
        number: u16,
        time: Time,
        answer: &mut impl Answer,
    ) -> io::Result<usize> {
        let (quic, mut turn) = self.entering(answer);
        quic.receive(number, time, &mut turn)
    }

    /// Processes a QUIC datagram that another worker has received.
    pub(crate) fn take_datagram(
        &mut self,
        datagram: &ForwardedDatagram,
        time: Time,
        answer: &mut impl Answer,
    ) {
        let (quic, mut turn) = self.entering(answer);
        quic.take(datagram, time, &mut turn);
    }

    /// Reports whether [`Self::drive_quic`] must be called now.
    pub(crate) fn is_quic_due(&self, time: Time) -> bool {
        self.quic.is_due(time)
    }

    /// Begins handshakes of QUIC, and handles its timers.
    pub(crate) fn drive_quic(&mut self, time: Time, answer: &mut impl Answer) {
        let (quic, mut turn) = self.entering(answer);
        quic.drive(time, &mut turn);
    }

    /// Returns the milliseconds until [`Self::drive_quic`] must be called; `None` if it need not be
    /// called.
    pub(crate) fn quic_deadline_ms(&self, time: Time) -> Option<u64> {
        self.quic.deadline_ms(time)
    }

    /// Writes the replies of this turn of the event loop to their connections.
    pub(crate) fn write(&mut self, poller: &Poller, time: Time) {
        let mut ended = Vec::new();
        self.streams.flush(poller, (time.millis(), time.wall_secs), &mut ended);
        self.forget_connections(&ended);
        let dropped = self.quic.flush(&self.shared, time);
        self.metrics().replies_dropped.add(dropped as u64);
    }

    /// Closes connections that have been idle or slow for too long, accepts connections again at
    /// listeners that had to pause, and publishes counts.
    pub(crate) fn sweep(&mut self, poller: &Poller, patience: Patience, time: Time) {
        self.accept_again(poller);
        let mut ended = Vec::new();
        let changes = self.shared.tls.authority_changes();
        if mem::replace(&mut self.authority_changes, changes) != changes {
            self.quic.close_all(&self.shared, time);
            self.streams.close_encrypted(&mut ended);
        }
        self.quic.sweep(&self.shared, patience, time);
        self.streams.expire(time.millis(), patience, &mut ended);
        let late = self.headers.expire(time.millis(), patience.read_ms);
        self.forget_connections(&ended);
        let overflows = self.listeners.datagrams.iter().map(UdpListener::overflows).sum();
        let metrics = self.metrics();
        metrics.proxy_headers_refused.add(late as u64);
        metrics.tcp_expired.add(ended.len() as u64);
        metrics.tcp_open.set(self.streams.open() as u64);
        metrics.tls_open.set(self.streams.encrypted() as u64);
        metrics.https_open.set(self.streams.https() as u64);
        for (counter, count) in metrics.tls_handshakes.iter().zip(self.streams.handshakes()) {
            counter.set(count);
        }
        metrics.early_handshakes[0].set(self.streams.early());
        for (counter, count) in metrics.https_ends.iter().zip(self.streams.https_ends()) {
            counter.set(count);
        }
        metrics.overflows.set(overflows);
    }

    /// Stops listening. Connections remain open, and the UDP sockets still send late replies.
    pub(crate) fn stop_listening(&mut self, poller: &mut Poller, time: Time) {
        // The responses must leave before the connections end.
        self.quic.flush(&self.shared, time);
        self.quic.finish(&self.shared, poller, time);
        self.streams.announce_end();
        for listener in self.listeners.streams.drain(..) {
            // If another process takes over, it has a copy of the listener, so that closing this
            // one ends no connection.
            let _ = poller.remove(&listener);
        }
        for listener in &self.listeners.datagrams {
            poller.unwatch(listener);
        }
    }

    /// Closes the connections that are still open when the worker ends, and tells their clients.
    pub(crate) fn close_all(&mut self, time: Time) {
        self.streams.close_all();
        self.quic.close_all(&self.shared, time);
        self.quic.flush(&self.shared, time);
    }

    /// Returns the number of open connections.
    pub(crate) fn open_streams(&self) -> usize {
        self.streams.open() + self.headers.open() + self.quic.open()
    }

    fn forget_connections(&self, ended: &[IpAddr]) {
        for &ip in ended {
            self.shared.connections.close(ip);
        }
    }

    fn metrics(&self) -> &WorkerMetrics {
        &self.shared.metrics[usize::from(self.index)]
    }
}

/// Returns the port of HTTP/3 at the same address; 0 for none.
fn h3_port(one: &OpenAddress, all: &[OpenAddress]) -> u16 {
    let is_h3 =
        |other: &OpenAddress| (other.address, other.protocol) == (one.address, Protocol::H3);
    if all.iter().any(is_h3) { one.address.port() } else { 0 }
}
