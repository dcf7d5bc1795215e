//! The QUIC connections of a worker. They connect the UDP sockets, the query path and
//! [`QuicServer`].
//!
//! A datagram belongs to the worker that has its connection. The kernel chooses the worker by the
//! addresses of both ends. After a client has changed its address, its datagrams arrive at another
//! worker, which sends them to the owner through its mailbox.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use avocet_io::Peer;
use avocet_io::poll::Poller;
use avocet_io::udp::{Datagram, LateReplies, UdpListener};
use avocet_nameserver::query::Client;
use avocet_nameserver::query::asked::{Entrance, Transport};
use avocet_nameserver::query::miss::{StreamRoute, Way};
use avocet_session::oblivious::{ObliviousFault, OpenedQuery, ProxyFault};
use avocet_session::quic::{
    Admission, Envelope, Newcomer, QuicAnswer, QuicDatagram, QuicHost, QuicPath, QuicPatience,
    QuicProtocol, QuicQuery, QuicRoute, QuicServer, QuicService, Room, Whose,
};

use super::accept::Door;
use super::device::claims;
use super::streams::{Patience, Streams};
use crate::connections::ConnectionLimits;
use crate::mailbox::{ForwardedDatagram, Letter};
use crate::state::Shared;
use crate::token::Token;
use crate::values::{Answer, Answered, StreamReply, Time};

/// The bit of a route's slot that distinguishes QUIC connections from TCP connections.
const QUIC_PLACE: u32 = 1 << 31;

/// The QUIC connections of one worker, with their sockets.
pub(super) struct Quic {
    index: u16,
    /// The state of the connections; `None` if no address has QUIC.
    server: Option<QuicServer>,
    /// The listeners. After a new process has taken over the sockets of an old process, there are
    /// several sets of listeners in the same order.
    listeners: Vec<UdpListener>,
    out: QuicOut,
    /// One moment on two clocks: on the clock of the QUIC state machine, and in microseconds on the
    /// clock of the server.
    origin: (Instant, u64),
}

/// The output of QUIC datagrams.
struct QuicOut {
    /// The queues of replies, for each address with QUIC.
    queues: Vec<LateReplies>,
    /// For each address with QUIC, its index among the addresses on which the server listens.
    entrances: Vec<u16>,
}

impl QuicOut {
    fn send(&mut self, path: &QuicPath, octets: &[u8]) {
        let place = self.entrances.iter().position(|one| *one == path.entrance);
        if let Some(queue) = place.and_then(|place| self.queues.get_mut(place)) {
            queue.queue(&Peer::at(path.peer, path.local_ip), octets);
        }
    }
}

/// The outputs of QUIC other than queries: datagrams, and closed connections.
struct QuicExit<'e> {
    shared: &'e Shared,
    out: &'e mut QuicOut,
}

impl QuicHost for QuicExit<'_> {
    fn ended(&mut self, ip: IpAddr) {
        self.shared.connections.close(ip);
    }

    fn send(&mut self, path: &QuicPath, octets: &[u8]) {
        self.out.send(path, octets);
    }
}

/// The parts of the worker that QUIC uses while datagrams arrive.
pub(super) struct QuicTurn<'t, A> {
    pub(super) index: u16,
    pub(super) shared: &'t Shared,
    pub(super) streams: &'t mut Streams,
    pub(super) most_streams: usize,
    pub(super) answer: &'t mut A,
}

/// The parts of the worker that QUIC uses while datagrams arrive, with the output of datagrams.
struct QuicEntry<'q, 't, A> {
    turn: &'q mut QuicTurn<'t, A>,
    out: &'q mut QuicOut,
}

impl<A> QuicHost for QuicEntry<'_, '_, A> {
    fn ended(&mut self, ip: IpAddr) {
        self.turn.shared.connections.close(ip);
    }

    fn send(&mut self, path: &QuicPath, octets: &[u8]) {
        self.out.send(path, octets);
    }
}

impl<A: Answer> QuicService for QuicEntry<'_, '_, A> {
    fn admit(&mut self, newcomer: &Newcomer) -> Admission {
        let QuicTurn { index, shared, streams, most_streams, .. } = &mut *self.turn;
        let Newcomer { ip, entrance, open, room } = *newcomer;
        let (state, metrics) = (shared.snapshot(), &shared.metrics[usize::from(*index)]);
        let listener = shared.tls.quic_at(Entrance(entrance));
        let Some(listener) = listener.filter(|_| state.allow.admits(Entrance(entrance), ip)) else {
            metrics.quic_refused.add(1);
            return Admission::Refused;
        };
        let limits = ConnectionLimits::of(&state.config.server.tcp);
        let mut door = Door { index: *index, shared, streams, most: *most_streams, others: open };
        match door.admit(ip, limits) {
            Ok(()) => Admission::Admitted(listener),
            Err(whose) if room == Room::Unknown => Admission::Crowded(whose),
            Err(Whose::Network(_)) if door.admit_over_limit(ip, limits) => {
                Admission::Admitted(listener)
            }
            Err(_) => {
                metrics.quic_rejected.add(1);
                Admission::Refused
            }
        }
    }

    fn answer(&mut self, query: &QuicQuery<'_>, message: &[u8]) -> QuicAnswer<'_> {
        let QuicRoute { slot, generation, request } = query.route;
        let slot = slot | QUIC_PLACE;
        let route = StreamRoute { worker: self.turn.index, slot, generation, request };
        let mut device = None;
        let client = Client {
            ip: query.ip,
            transport: match (query.protocol, query.envelope) {
                (QuicProtocol::Doq, _) => Transport::Quic,
                (QuicProtocol::H3, Envelope::None) => Transport::Https,
                (QuicProtocol::H3, Envelope::Oblivious) => Transport::Odoh,
            },
            is_tls12: false,
            entrance: Entrance(query.entrance),
            claims: claims(&mut device, query.facts, query.word),
            route: Way::Stream(route),
        };
        match self.turn.answer.answer(message, &client) {
            // Zone transfers are possible only over TCP and TLS.
            Answered::Now(reply) | Answered::Transfer(reply, _) => QuicAnswer::Now(reply),
            Answered::Later => QuicAnswer::Later,
            Answered::Never => QuicAnswer::Never,
        }
    }

    fn open(&mut self, octets: &[u8]) -> Result<OpenedQuery, ObliviousFault> {
        self.turn.answer.open(octets)
    }

    fn forward(
        &mut self,
        route: QuicRoute,
        ip: IpAddr,
        parameters: &[u8],
        octets: &[u8],
    ) -> Result<(), ProxyFault> {
        let QuicRoute { slot, generation, request } = route;
        let slot = slot | QUIC_PLACE;
        let route = StreamRoute { worker: self.turn.index, slot, generation, request };
        self.turn.answer.forward(route, ip, parameters, octets)
    }

    fn oblivious_configs(&mut self) -> Option<Arc<[u8]>> {
        self.turn.answer.oblivious_configs()
    }

    fn begin_share(&mut self) -> bool {
        self.turn.answer.begin_share()
    }

    fn has_time(&self) -> bool {
        self.turn.answer.has_time()
    }
}

impl Quic {
    /// Creates the QUIC part of a worker. Its sockets are added to the poller. `entrances` has the
    /// index of each address with QUIC among the addresses on which the server listens.
    ///
    /// # Errors
    /// The kernel does not report the address of a socket.
    pub(super) fn new(
        (index, seed): (u16, [u8; 32]),
        shared: &Shared,
        listeners: Vec<UdpListener>,
        entrances: Vec<u16>,
        poller: &mut Poller,
    ) -> io::Result<Self> {
        for (number, listener) in listeners.iter().enumerate() {
            poller.watch(listener, Token::Quic(number as u16).pack());
        }
        let settings = entrances.iter().find_map(|one| shared.tls.quic_at(Entrance(*one)));
        let server = settings.map(|one| QuicServer::new(shared.tls.quic_keys(), index, &one, seed));
        let sending = listeners.iter().take(entrances.len());
        let queues = sending.map(UdpListener::late_replies).collect::<io::Result<_>>()?;
        let origin = (Instant::now(), shared.name_server.clock.now().micros());
        Ok(Self { index, server, listeners, out: QuicOut { queues, entrances }, origin })
    }

    fn instant(&self, time: Time) -> Instant {
        self.origin.0 + Duration::from_micros(time.now.micros().saturating_sub(self.origin.1))
    }

    /// Returns the number of sockets.
    pub(super) fn listeners(&self) -> u16 {
        self.listeners.len() as u16
    }

    /// Returns the number of open connections.
    pub(super) fn open(&self) -> usize {
        self.server.as_ref().map_or(0, QuicServer::open)
    }

    /// Receives one batch of datagrams, and passes their queries to `turn`. Returns the number of
    /// datagrams.
    ///
    /// # Errors
    /// Receiving fails for a reason other than an empty queue.
    pub(super) fn receive(
        &mut self,
        number: u16,
        time: Time,
        turn: &mut QuicTurn<'_, impl Answer>,
    ) -> io::Result<usize> {
        let now = self.instant(time);
        let Self { index, server, listeners, out, .. } = self;
        let sockets = out.entrances.len().max(1);
        let entrance = out.entrances.get(usize::from(number) % sockets).copied();
        let (Some(server), Some(entrance), Some(listener)) =
            (server, entrance, listeners.get_mut(usize::from(number)))
        else {
            return Ok(0);
        };
        let batch = listener.serve(&mut |datagram: Datagram<'_>, _: &mut [u8]| {
            let Datagram { bytes: octets, peer, truncated } = datagram;
            let path = QuicPath { entrance, peer: peer.addr(), local_ip: peer.local_ip() };
            if !truncated && !forward(turn.shared, *index, &path, octets) {
                let datagram = QuicDatagram { path, octets };
                server.receive(now, &datagram, &mut QuicEntry { turn: &mut *turn, out: &mut *out });
            }
            None
        })?;
        Ok(batch.received)
    }

    /// Processes a datagram that another worker has received.
    pub(super) fn take(
        &mut self,
        datagram: &ForwardedDatagram,
        time: Time,
        turn: &mut QuicTurn<'_, impl Answer>,
    ) {
        let now = self.instant(time);
        let Self { server: Some(server), out, .. } = self else { return };
        let datagram = QuicDatagram { path: datagram.path, octets: &datagram.octets };
        server.receive(now, &datagram, &mut QuicEntry { turn, out });
    }

    /// Reports whether [`Self::drive`] must be called now.
    pub(super) fn is_due(&self, time: Time) -> bool {
        let Some(server) = &self.server else { return false };
        let now = self.instant(time);
        server.has_work() || server.next_deadline().is_some_and(|at| at <= now)
    }

    /// Begins handshakes, handles timers, and continues with connections that have more work.
    pub(super) fn drive(&mut self, time: Time, turn: &mut QuicTurn<'_, impl Answer>) {
        let now = self.instant(time);
        let Self { server: Some(server), out, .. } = self else { return };
        let mut entry = QuicEntry { turn, out };
        server.catch_up(now, &mut entry);
        server.accept(now, &mut entry);
        server.fire(now, &mut entry);
    }

    /// Returns the milliseconds until [`Self::drive`] must be called; `None` if it need not be
    /// called.
    pub(super) fn deadline_ms(&self, time: Time) -> Option<u64> {
        let server = self.server.as_ref()?;
        if server.has_work() {
            return Some(0);
        }
        let left = server.next_deadline()?.saturating_duration_since(self.instant(time));
        Some(left.as_micros().div_ceil(1_000) as u64)
    }

    /// Sends the reply to an earlier query. Returns whether the route belongs to a QUIC connection.
    pub(super) fn reply(&mut self, reply: &StreamReply<'_>, time: Time) -> bool {
        let StreamRoute { slot, generation, request, .. } = reply.route;
        if slot & QUIC_PLACE == 0 {
            return false;
        }
        let now = self.instant(time);
        if let Some(server) = &mut self.server {
            let route = QuicRoute { slot: slot & !QUIC_PLACE, generation, request };
            server.reply(now, route, reply.message);
        }
        true
    }

    /// Sends the datagrams of this turn of the event loop. Returns the number of datagrams that the
    /// kernel did not accept. They count as lost.
    pub(super) fn flush(&mut self, shared: &Shared, time: Time) -> usize {
        let now = self.instant(time);
        let Self { server: Some(server), out, .. } = self else { return 0 };
        server.flush(now, &mut QuicExit { shared, out });
        out.queues.iter_mut().map(|queue| queue.flush().dropped).sum()
    }

    /// Closes connections that are idle or slow for too long, and publishes their number.
    pub(super) fn sweep(&mut self, shared: &Shared, patience: Patience, time: Time) {
        let now = self.instant(time);
        let Self { server: Some(server), out, index, .. } = self else { return };
        let patience = QuicPatience {
            idle: Duration::from_millis(patience.idle_ms),
            read: Duration::from_millis(patience.read_ms),
        };
        server.sweep(now, patience, &mut QuicExit { shared, out });
        let metrics = &shared.metrics[usize::from(*index)];
        let counts = server.counts();
        metrics.quic_open.set(server.open() as u64);
        let handshakes = [counts.completed, counts.failed, counts.retried];
        metrics.quic_handshakes.iter().zip(handshakes).for_each(|(one, count)| one.set(count));
        metrics.early_handshakes[1].set(counts.early);
        let ends = [counts.violations, counts.excesses];
        metrics.quic_ends.iter().zip(ends).for_each(|(one, count)| one.set(count));
    }

    /// Closes the connection that was idle longest, and returns its client's address.
    pub(super) fn evict(&mut self, shared: &Shared, whose: Whose, time: Time) -> Option<IpAddr> {
        let now = self.instant(time);
        let Self { server: Some(server), out, .. } = self else { return None };
        server.close_idle(now, whose, &mut QuicExit { shared, out })
    }

    /// Closes all connections.
    pub(super) fn close_all(&mut self, shared: &Shared, time: Time) {
        let now = self.instant(time);
        let Self { server: Some(server), out, .. } = self else { return };
        server.close_all(now, &mut QuicExit { shared, out });
    }

    /// Stops listening. Ends each connection as soon as its queries are answered.
    pub(super) fn finish(&mut self, shared: &Shared, poller: &mut Poller, time: Time) {
        let now = self.instant(time);
        for listener in &self.listeners {
            poller.unwatch(listener);
        }
        let Self { server: Some(server), out, .. } = self else { return };
        server.finish(now, &mut QuicExit { shared, out });
    }
}

/// Sends a datagram to the worker that has its connection. Returns `false` if this is the same
/// worker. If the mailbox is full, the datagram is dropped, as it could be in the network.
fn forward(shared: &Shared, index: u16, path: &QuicPath, octets: &[u8]) -> bool {
    let owner = shared.tls.quic_keys().owner(octets).filter(|owner| *owner != index);
    let Some(mailbox) = owner.and_then(|owner| shared.mailboxes.get(usize::from(owner))) else {
        return false;
    };
    let datagram = ForwardedDatagram { path: *path, octets: octets.into() };
    let _ = mailbox.send(Letter::Datagram(Box::new(datagram)));
    true
}
