//! A connection to a server: TCP with or without TLS, or QUIC.

mod quic;
mod stream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use avocet_config::ports::SourcePorts;
use avocet_io::poll::{Event, Poller};
use avocet_io::process;
use avocet_resolver::{
    Endpoint, HeaderPlace, SocketFault, SocketId, SocketSlot, TlsFault, Transport,
};
use avocet_session::frame::ReadBuffer;
use chacha20::rand_core::Rng;
use rustls::{CertificateError, Error};

use super::source::open_socket;
use crate::upstream_tls::{UnknownPeer, UpstreamPeer, UpstreamPeers};
use quic::{QuicConnection, QuicPeer, QuicRole};
use stream::StreamConnection;

/// Milliseconds without traffic after which a kept connection is closed, unless the server states
/// another time.
const IDLE_MS: u64 = 20_000;
/// Milliseconds without a message after a query, after which a kept connection counts as dead. This
/// is longer than the wait for a reply, and much shorter than the timeout of the system.
pub(super) const SILENT_MS: u64 = 6_000;
/// Maximum duration of a handshake, in milliseconds.
const HANDSHAKE_MS: u64 = 3_000;

/// Maximum number of messages of a server on one connection beyond the number of queries. More
/// messages would take time of the worker without an answer to any query.
const MAX_SURPLUS: u32 = 8;

/// A connection to a server.
pub(super) enum Connection {
    /// The connection is over TCP.
    Stream(Box<StreamConnection>),
    /// The connection is over QUIC.
    Quic(Box<QuicConnection>),
}

/// The parameters for opening a connection.
pub(super) struct Opener<'o, R> {
    /// The poller that watches the socket of the connection.
    pub(super) poller: &'o Poller,
    /// The settings of TLS for each upstream.
    pub(super) peers: &'o UpstreamPeers,
    /// The ports that UDP sockets may use.
    pub(super) ports: &'o SourcePorts,
    /// The generator that draws one of these ports.
    pub(super) rng: &'o mut R,
    /// The present time, in milliseconds on the monotonic clock.
    pub(super) now_ms: u64,
}

impl<R: Rng> Opener<'_, R> {
    /// Opens a connection.
    ///
    /// # Errors
    /// The system reports an error, or there are no settings for the server.
    pub(super) fn open(&mut self, id: SocketId, to: Endpoint) -> io::Result<Connection> {
        let Self { poller, peers, ports, rng, now_ms } = self;
        let peer = match to.transport.peer() {
            None => None,
            Some(peer) => Some(peers.at(peer).ok_or_else(|| io::Error::other(UnknownPeer))?),
        };
        match (to.transport, peer) {
            (Transport::Quic(_) | Transport::H3(_), Some(peer)) => {
                let session = peer.quic(to.addr, Instant::now())?;
                let socket = open_socket(to.addr, ports, *rng)?;
                let server = QuicPeer { peer, addr: to.addr, role: QuicRole::Upstream };
                let connection = QuicConnection::open(socket, session, server, *now_ms);
                connection.watch(poller, id)?;
                Ok(Connection::Quic(Box::new(connection)))
            }
            (_, peer) => StreamConnection::open(poller, (id, to.addr), peer, *now_ms)
                .map(|connection| Connection::Stream(Box::new(connection))),
        }
    }
}

impl<R: Rng> Opener<'_, R> {
    /// Opens a connection in HTTP/3 to a server that is queried in HTTP/2.
    ///
    /// # Errors
    /// The system reports an error.
    pub(super) fn open_alternative(
        &mut self,
        id: SocketId,
        wanted: WantedAlternative,
    ) -> io::Result<Connection> {
        let Self { poller, ports, rng, now_ms, .. } = self;
        let WantedAlternative { peer, addr, target } = wanted;
        let session = peer.alternative_at(target, Instant::now())?;
        let socket = open_socket(target, ports, *rng)?;
        let server = QuicPeer { peer, addr, role: QuicRole::Alternative };
        let connection = QuicConnection::open(socket, session, server, *now_ms);
        connection.watch(poller, id)?;
        Ok(Connection::Quic(Box::new(connection)))
    }
}

/// A request to try HTTP/3 at a server that is queried in HTTP/2.
pub(super) struct WantedAlternative {
    peer: Arc<UpstreamPeer>,
    /// The address of HTTP/2.
    addr: SocketAddr,
    /// The address of HTTP/3.
    target: SocketAddr,
}

impl Connection {
    /// Returns the address at which HTTP/3 must be tried; `None` if the server announces none, or
    /// if this connection is not busy enough.
    pub(super) fn alternative(&self, now_ms: u64) -> Option<WantedAlternative> {
        match self {
            Self::Stream(stream) => stream.alternative(now_ms),
            Self::Quic(_) => None,
        }
    }

    /// Reports whether no further query can be sent, while responses are outstanding. A QUIC
    /// connection ends at once in this case.
    pub(super) fn is_draining(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.is_draining(),
            Self::Quic(_) => false,
        }
    }

    /// Takes the queries that the server did not process before it announced the end of the
    /// connection.
    pub(super) fn take_unprocessed(&mut self) -> Vec<Vec<u8>> {
        match self {
            Self::Stream(stream) => stream.take_unprocessed(),
            Self::Quic(_) => Vec::new(),
        }
    }

    /// Reports whether a query on the connection was not answered yet.
    pub(super) fn is_owed(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.is_owed(),
            Self::Quic(quic) => quic.is_owed(),
        }
    }

    /// Sends a PROXY protocol header before all other data. A QUIC connection never has such a
    /// header.
    pub(super) fn begin_with(&mut self, header: (&[u8], HeaderPlace)) {
        if let Self::Stream(stream) = self {
            stream.begin_with(header);
        }
    }

    /// Queues a message.
    ///
    /// # Errors
    /// The poller reports an error, or the server accepts no more queries on this connection.
    pub(super) fn push(
        &mut self,
        poller: &Poller,
        id: SocketId,
        (octets, now_ms): (&[u8], u64),
    ) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.push(poller, id, (octets, now_ms)),
            Self::Quic(quic) => quic.push(octets, now_ms),
        }
    }

    /// Reads from the connection and, over TCP, writes to it. Passes each message to `deliver`.
    /// Returns the fault if the connection ended.
    pub(super) fn drive(
        &mut self,
        poller: &Poller,
        (id, event): (SocketId, Event),
        buffer: &mut ReadBuffer,
        (now_ms, deliver): (u64, &mut impl FnMut(&[u8])),
    ) -> Option<SocketFault> {
        match self {
            Self::Stream(stream) => stream.drive(poller, (id, event), buffer, (now_ms, deliver)),
            Self::Quic(quic) => quic.drive(now_ms, deliver),
        }
    }

    /// Returns the connection if it is a QUIC connection, which also has timers.
    pub(super) fn as_quic(&mut self) -> Option<&mut QuicConnection> {
        match self {
            Self::Stream(_) => None,
            Self::Quic(quic) => Some(quic),
        }
    }

    /// Sets the time for which the connection is kept open while it is idle, as the server has
    /// stated. Does nothing for QUIC, which negotiates the idle time itself.
    pub(super) fn keep_idle(&mut self, idle_ms: u32) {
        if let Self::Stream(stream) = self {
            stream.keep_idle(idle_ms);
        }
    }

    /// Returns why the connection must end, if it is idle or dead; `None` if it may continue.
    pub(super) fn end_at(&self, now_ms: u64) -> Option<SocketFault> {
        match self {
            Self::Stream(stream) => stream.end_at(now_ms),
            Self::Quic(quic) => quic.end_at(now_ms),
        }
    }

    /// Counts a period of about half a second, after which the server may again send some data that
    /// is no response, and waiting queries may be sent.
    ///
    /// # Errors
    /// The poller reports an error.
    pub(super) fn refill(&mut self, poller: &Poller, id: SocketId) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.refill(poller, id),
            Self::Quic(quic) => {
                quic.refill();
                Ok(())
            }
        }
    }

    /// Returns the kind of the connection, for metrics.
    pub(super) fn kind(&self) -> ConnectionKind {
        match self {
            Self::Quic(_) => ConnectionKind::Quic,
            Self::Stream(stream) if stream.is_encrypted() => ConnectionKind::Tls,
            Self::Stream(_) => ConnectionKind::Tcp,
        }
    }

    /// Returns whether the connection uses a UDP port that is not among `ports`.
    pub(super) fn is_off(&self, ports: &SourcePorts) -> bool {
        matches!(self, Self::Quic(quic) if !ports.contains(quic.port()))
    }

    /// Announces to the server that no more data follows. A QUIC connection does so when it is
    /// dropped.
    pub(super) fn close(&mut self) {
        if let Self::Stream(stream) = self {
            stream.close();
        }
    }
}

/// The kind of a connection, for metrics.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionKind {
    /// TCP without TLS.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// QUIC.
    Quic,
}

/// The times of a connection, in milliseconds on the monotonic clock.
struct Vitals {
    opened_ms: u64,
    active_ms: u64,
    idle_ms: u64,
    /// The time at which the first query since the last received message was sent; `None` if there
    /// was none.
    asked_ms: Option<u64>,
    /// Approximate number of queries without an answer. The resolver may have given up some of
    /// them.
    owed: u32,
    has_answered: bool,
    /// Number of messages that the server has sent.
    answers: u64,
    /// Number of messages that the server sent without a query.
    surplus: u32,
}

impl Vitals {
    fn new(now_ms: u64) -> Self {
        Self {
            opened_ms: now_ms,
            active_ms: now_ms,
            idle_ms: IDLE_MS,
            asked_ms: None,
            owed: 0,
            has_answered: false,
            answers: 0,
            surplus: 0,
        }
    }

    /// Records that a query was sent.
    fn asked(&mut self, now_ms: u64) {
        self.active_ms = now_ms;
        self.asked_ms.get_or_insert(now_ms);
    }

    /// Records that a message of the server arrived.
    fn heard(&mut self, now_ms: u64) {
        (self.active_ms, self.asked_ms) = (now_ms, None);
        self.surplus += u32::from(self.owed == 0);
        self.owed = self.owed.saturating_sub(1);
        self.has_answered = true;
        self.answers += 1;
    }

    /// Reports whether the server has sent too many messages without a query.
    fn is_flooded(&self) -> bool {
        self.surplus > MAX_SURPLUS
    }

    /// Reports whether the handshake is incomplete and has taken too long.
    fn is_slow(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.opened_ms) > HANDSHAKE_MS
    }

    /// Reports whether the connection counts as dead, because a query had no answer for too long.
    fn is_dead(&self, now_ms: u64) -> bool {
        self.asked_ms.is_some_and(|asked| now_ms.saturating_sub(asked) > SILENT_MS)
    }

    /// Reports whether the connection is idle or dead.
    fn is_over(&self, now_ms: u64) -> bool {
        let since = |moment: u64| now_ms.saturating_sub(moment);
        let is_idle = self.owed == 0 && since(self.active_ms) > self.idle_ms
            || since(self.active_ms) > IDLE_MS.max(self.idle_ms);
        self.is_dead(now_ms) || is_idle
    }
}

/// Returns the fault that an error on a socket or connection means for its queries.
pub(super) fn fault_of(id: SocketId, error: &io::Error) -> SocketFault {
    let source = error.get_ref();
    if let Some(error) = source.and_then(|source| source.downcast_ref::<Error>()) {
        return SocketFault::Tls(tls_fault(error));
    }
    if source.is_some_and(|source| source.is::<UnknownPeer>()) {
        return SocketFault::Tls(TlsFault::Unset);
    }
    match id.slot {
        SocketSlot::Stream if error.kind() == io::ErrorKind::ConnectionRefused => {
            SocketFault::Unreachable
        }
        _ if process::is_shortage(error) => SocketFault::Shortage,
        // The connection may have been closed while it was idle.
        SocketSlot::Stream => SocketFault::Closed,
        _ => SocketFault::Unreachable,
    }
}

/// Returns the TLS fault that an error means.
fn tls_fault(error: &Error) -> TlsFault {
    use CertificateError::*;
    match error {
        Error::InvalidCertificate(fault) => match fault {
            NotValidForName | NotValidForNameContext { .. } => TlsFault::Name,
            UnknownIssuer => TlsFault::Issuer,
            Expired | ExpiredContext { .. } => TlsFault::Expired,
            NotValidYet | NotValidYetContext { .. } => TlsFault::Early,
            ApplicationVerificationFailure => TlsFault::Pin,
            _ => TlsFault::Certificate,
        },
        Error::NoCertificatesPresented | Error::UnsupportedNameType => TlsFault::Certificate,
        Error::AlertReceived(_) => TlsFault::Alert,
        _ => TlsFault::Protocol,
    }
}
