//! Transport of messages to and from the server: one lane per client.
//!
//! Each transport implements [`LaneTransport`].

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::time::Instant;

use avocet_io::client::{BATCH, Batches, ClientSocket};
use avocet_io::poll::{Interest, Poller, Trigger};
use avocet_io::tcp;
use avocet_session::frame::{ReadBuffer, ReadState, WriteState};
use avocet_session::session::ClientSession;
use rustls::HandshakeKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quic::QuicLane;
use crate::ask::MAX_QUERY;
use crate::encrypted::{QuicTarget, TlsTarget};

/// Number of octets queued on a connection above which no further queries are added.
const MAX_UNWRITTEN: usize = 64 << 10;

/// Delay before a failed connection is retried. The delay protects a dead server from a flood of
/// connections.
pub(super) const RECONNECT_AFTER_NS: u64 = 50_000_000;

/// Time after which a connection for a single query is given up. It is longer than the usual
/// timeout.
pub(super) const ANSWER_AFTER_NS: u64 = 5_000_000_000;

/// Maximum number of consecutive reads of one lane. The limit prevents a busy lane from starving
/// the others.
pub(super) const MAX_READS: usize = 8;

/// The transport of queries.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// DNS over UDP
    Udp,
    /// DNS over TCP, one connection for each client
    Tcp,
    /// DNS over TLS
    Tls,
    /// DNS over HTTPS, in HTTP/2
    Https,
    /// DNS over QUIC, one connection for each client
    Quic,
    /// DNS over HTTPS, in HTTP/3
    H3,
}

impl Carrier {
    /// Reports whether queries travel on connections.
    pub(crate) const fn is_stream(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Reports whether the connections use QUIC.
    pub(crate) const fn is_quic(self) -> bool {
        matches!(self, Self::Quic | Self::H3)
    }

    /// Reports whether the transport is encrypted, so that the server proves its name.
    pub(crate) const fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::Https | Self::Quic | Self::H3)
    }
}

/// How long clients keep a connection over TCP or an encrypted transport.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Connections {
    /// For the whole run; queries do not wait for the responses to earlier ones
    Kept,
    /// For one query; encrypted transports make a full handshake each time
    New,
    /// For one query; encrypted transports resume an earlier TLS session
    Resumed,
}

/// Resources shared by all lanes of a thread.
pub(crate) struct Kit {
    pub(crate) poller: Poller,
    pub(super) clock: Instant,
    batches: Batches,
    frames: ReadBuffer,
}

impl Kit {
    pub(crate) fn new() -> io::Result<Self> {
        let poller = Poller::new()?;
        Ok(Self {
            poller,
            clock: Instant::now(),
            batches: Batches::new(),
            frames: ReadBuffer::new(),
        })
    }

    /// Returns the number of nanoseconds since the lanes were opened.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        nanos_since(self.clock)
    }
}

#[inline]
pub(super) fn nanos_since(start: Instant) -> u64 {
    // An integer of 64 bits can hold 584 years in nanoseconds.
    start.elapsed().as_nanos() as u64
}

/// The result of sending a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handed {
    /// Number of queries that were composed.
    pub(crate) composed: usize,
    /// Number of composed queries that the socket accepted.
    pub(crate) sent: usize,
    /// Whether the system reported an error.
    pub(crate) failed: bool,
    /// Whether the lane accepts no further query until the current one is answered.
    pub(crate) busy: bool,
}

/// The result of a TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    Full,
    Resumed,
    /// The connection ended during the handshake.
    Failed,
}

/// The result of reading a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) messages: usize,
    /// Whether the system reported an error.
    pub(crate) failed: bool,
    /// Whether a connection was closed, which loses its queries in flight.
    pub(crate) closed: bool,
    /// The handshake that has just ended, if any.
    pub(crate) handshake: Option<Handshake>,
}

/// The connection of one client to the server.
pub(crate) trait LaneTransport {
    /// Composes up to a batch of queries and sends them. `compose` returns `None` after the last
    /// one.
    fn send(
        &mut self,
        kit: &mut Kit,
        now_ns: u64,
        compose: &mut impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Handed;

    /// Delivers received messages, each with the time at which it was read.
    fn receive(&mut self, kit: &mut Kit, deliver: &mut impl FnMut(u64, &[u8])) -> Heard;
}

/// A lane of any transport. The dispatch to the transport happens once per batch, not per query.
pub(crate) enum Lane {
    Udp(ClientSocket),
    Tcp(Box<Connection>),
    Quic(Box<QuicLane>),
}

impl Lane {
    /// Opens the lane of one client and adds it to the poller under `token`.
    pub(crate) fn open(
        kit: &mut Kit,
        carrier: Carrier,
        way: Way,
        token: u64,
        watched: Watched,
    ) -> io::Result<Self> {
        match carrier {
            Carrier::Udp => {
                let socket = ClientSocket::connect(way.server, way.source)?;
                match watched {
                    Watched::Beside => kit.poller.watch(&socket, token),
                    Watched::InSet => {
                        kit.poller.add(&socket, token, Interest::Read, Trigger::Level)?
                    }
                }
                Ok(Self::Udp(socket))
            }
            Carrier::Tcp | Carrier::Tls | Carrier::Https => {
                Ok(Self::Tcp(Box::new(Connection::new(way, token))))
            }
            Carrier::Quic | Carrier::H3 => {
                let target = way.quic.clone().ok_or(io::ErrorKind::InvalidInput)?;
                Ok(Self::Quic(Box::new(QuicLane::new(way, target, token))))
            }
        }
    }
}

/// The source and the destination of a lane, and the settings of its connections.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) server: SocketAddr,
    pub(crate) source: Option<IpAddr>,
    /// The server's TLS settings; `None` without TLS.
    pub(crate) tls: Option<TlsTarget>,
    /// The server's QUIC settings; `None` without QUIC.
    pub(crate) quic: Option<QuicTarget>,
    pub(crate) connections: Connections,
}

/// The way in which datagram sockets are polled. A few sockets are polled outside the epoll set,
/// which is cheaper. Many are polled within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    Beside,
    InSet,
}

impl LaneTransport for Lane {
    #[inline]
    fn send(
        &mut self,
        kit: &mut Kit,
        now_ns: u64,
        compose: &mut impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Handed {
        match self {
            Self::Udp(socket) => socket.send(kit, now_ns, compose),
            Self::Tcp(connection) => connection.send(kit, now_ns, compose),
            Self::Quic(connection) => connection.send(kit, now_ns, compose),
        }
    }

    #[inline]
    fn receive(&mut self, kit: &mut Kit, deliver: &mut impl FnMut(u64, &[u8])) -> Heard {
        match self {
            Self::Udp(socket) => socket.receive(kit, deliver),
            Self::Tcp(connection) => connection.receive(kit, deliver),
            Self::Quic(connection) => connection.receive(kit, deliver),
        }
    }
}

impl LaneTransport for ClientSocket {
    #[inline]
    fn send(
        &mut self,
        kit: &mut Kit,
        _: u64,
        compose: &mut impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Handed {
        let mut composed = 0;
        while composed < BATCH
            && let Some(len) = compose(kit.batches.message(composed))
        {
            kit.batches.set_len(composed, len);
            composed += 1;
        }
        if composed == 0 {
            return Handed::default();
        }
        match kit.batches.send(self, composed) {
            Ok(sent) => Handed { composed, sent, ..Handed::default() },
            Err(_) => Handed { composed, failed: true, ..Handed::default() },
        }
    }

    #[inline]
    fn receive(&mut self, kit: &mut Kit, deliver: &mut impl FnMut(u64, &[u8])) -> Heard {
        let mut heard = Heard::default();
        for _ in 0..MAX_READS {
            let Ok(count) = kit.batches.receive(self) else {
                return Heard { failed: true, ..heard };
            };
            let now_ns = if count > 0 { kit.now_ns() } else { 0 };
            for i in 0..count {
                deliver(now_ns, kit.batches.received(i));
            }
            heard.messages += count;
            if count < BATCH {
                break;
            }
        }
        heard
    }
}

/// A connection. It is opened when there is something to send, and opened again after the server
/// closed it.
pub(crate) struct Connection {
    way: Way,
    token: u64,
    stream: Option<TcpStream>,
    session: ClientSession,
    waits_to_write: bool,
    connect_not_before_ns: u64,
    /// Whether the handshake was counted.
    is_ready: bool,
    /// The time at which the connection for a single query accepted the query; `None` once the
    /// query is answered.
    asked_ns: Option<u64>,
}

impl Connection {
    fn new(way: Way, token: u64) -> Self {
        Self {
            way,
            token,
            stream: None,
            session: ClientSession::plain(),
            waits_to_write: false,
            connect_not_before_ns: 0,
            is_ready: false,
            asked_ns: None,
        }
    }

    fn connect(&mut self, kit: &Kit, now_ns: u64) -> io::Result<()> {
        self.connect_not_before_ns = now_ns + RECONNECT_AFTER_NS;
        let source = self.way.source.map(|source| SocketAddr::new(source, 0));
        let session = match &self.way.tls {
            Some(tls) => tls.session()?,
            None => ClientSession::plain(),
        };
        let stream = tcp::connect(self.way.server, source)?;
        kit.poller.add(&stream, self.token, Interest::ReadWrite, Trigger::Level)?;
        self.waits_to_write = true;
        (self.stream, self.session) = (Some(stream), session);
        Ok(())
    }

    /// Drops the connection and all partially read or written data.
    fn close(&mut self) {
        self.stream = None;
        self.session = ClientSession::plain();
        (self.waits_to_write, self.is_ready, self.asked_ns) = (false, false, None);
    }

    /// Ends the connection after its only answer. Another connection may begin immediately.
    fn end(&mut self) {
        if let Some(stream) = &mut self.stream {
            self.session.close(stream);
        }
        self.close();
        self.connect_not_before_ns = 0;
    }

    fn write(&mut self, kit: &Kit) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let blocked = self.session.write(stream)? == WriteState::Blocked;
        if blocked != self.waits_to_write {
            let interest = if blocked { Interest::ReadWrite } else { Interest::Read };
            kit.poller.modify(stream, self.token, interest, Trigger::Level)?;
            self.waits_to_write = blocked;
        }
        Ok(())
    }

    /// Returns the result of a handshake once, after the handshake has ended.
    fn ended_handshake(&mut self) -> Option<Handshake> {
        if self.is_ready || self.session.is_handshaking() {
            return None;
        }
        self.is_ready = true;
        self.session.handshake().map(|kind| match kind {
            HandshakeKind::Resumed => Handshake::Resumed,
            _ => Handshake::Full,
        })
    }

    /// Closes a connection that has failed, or that the server has closed.
    fn lose(&mut self, heard: Heard) -> Heard {
        let failed = self.session.is_handshaking().then_some(Handshake::Failed);
        self.close();
        Heard { closed: true, handshake: heard.handshake.or(failed), ..heard }
    }
}

impl LaneTransport for Connection {
    fn send(
        &mut self,
        kit: &mut Kit,
        now_ns: u64,
        compose: &mut impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Handed {
        let is_kept = self.way.connections == Connections::Kept;
        match self.asked_ns {
            Some(asked_ns) if now_ns.saturating_sub(asked_ns) < ANSWER_AFTER_NS => {
                return Handed { busy: true, ..Handed::default() };
            }
            Some(_) => self.close(),
            None => {}
        }
        if self.stream.is_none()
            && (now_ns < self.connect_not_before_ns || self.connect(kit, now_ns).is_err())
        {
            return Handed::default();
        }
        let mut composed = 0;
        let mut query = [0; MAX_QUERY];
        let most = if is_kept { BATCH } else { 1 };
        while composed < most
            && !self.session.is_over(MAX_UNWRITTEN)
            && let Some(len) = compose(&mut query)
        {
            self.session.push(query.get(..len).unwrap_or_default());
            composed += 1;
        }
        self.asked_ns = (!is_kept && composed > 0).then_some(now_ns);
        // The next read reports the error and the lost queries.
        let failed = self.write(kit).is_err();
        Handed { composed, sent: composed, failed, busy: false }
    }

    fn receive(&mut self, kit: &mut Kit, deliver: &mut impl FnMut(u64, &[u8])) -> Heard {
        let mut heard = Heard::default();
        if self.waits_to_write && self.write(kit).is_err() {
            return self.lose(Heard { failed: true, ..heard });
        }
        for _ in 0..MAX_READS {
            let Some(stream) = &mut self.stream else { return heard };
            let clock = kit.clock;
            let state = self.session.read(stream, &mut kit.frames, &mut |message, _| {
                heard.messages += 1;
                deliver(nanos_since(clock), message);
                ControlFlow::Continue(())
            });
            heard.handshake = heard.handshake.or(self.ended_handshake());
            if heard.messages > 0 && self.asked_ns.is_some() {
                self.end();
                return heard;
            }
            match state {
                Ok(ReadState::More) => {}
                Ok(ReadState::Drained | ReadState::Stopped) => break,
                Ok(ReadState::Closed) => return self.lose(heard),
                Err(_) => return self.lose(Heard { failed: true, ..heard }),
            }
        }
        if let Some(stream) = &self.stream {
            // Without this, a delayed acknowledgement would slow down a server that uses Nagle's
            // algorithm.
            let _ = tcp::acknowledge_at_once(stream);
        }
        // The TLS handshake has messages that must be sent even without a query.
        if !self.session.is_empty() && self.write(kit).is_err() {
            return self.lose(Heard { failed: true, ..heard });
        }
        heard
    }
}
