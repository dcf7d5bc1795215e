//! One connection to a server, with or without TLS.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;

use avocet_io::poll::{Event, Interest, Poller, Trigger};
use avocet_io::process;
use avocet_resolver::{Endpoint, SocketFault, SocketId, SocketSlot, TlsFault, Transport};
use avocet_session::frame::{ReadBuffer, ReadState, WriteState};
use avocet_session::session::ClientSession;
use rustls::{CertificateError, Error};

use crate::upstream_tls::{UnknownPeer, UpstreamPeer, UpstreamPeers};
use crate::worker::token::Token;

/// Milliseconds without traffic after which a kept connection is closed, unless the server says
/// otherwise.
const IDLE_MS: u64 = 20_000;
/// Shortest and longest such time of a server (RFC 7828), in milliseconds: a connection takes a
/// descriptor here as well.
const SAID_IDLE_MS: (u32, u32) = (1_000, 120_000);
/// Milliseconds without a message after a query, after which a kept connection is dead: longer than
/// the wait for a reply, and far shorter than the timeout of the system.
pub(super) const SILENT_MS: u64 = 6_000;
/// Most milliseconds of a handshake.
const HANDSHAKE_MS: u64 = 3_000;
/// Most octets that wait to be sent. Queries beyond them are lost like datagrams of a full queue.
const MAX_UNSENT: usize = 1 << 20;

/// A connection to a server.
pub(super) struct Connection {
    tcp: TcpStream,
    session: ClientSession,
    /// `None` without TLS.
    peer: Option<(Arc<UpstreamPeer>, SocketAddr)>,
    interest: Interest,
    opened_ms: u64,
    active_ms: u64,
    idle_ms: u64,
    /// When the first query after the last received message was sent.
    asked_ms: Option<u64>,
    /// Queries without an answer, about: the resolver may have given some up.
    owed: u32,
    has_answered: bool,
}

impl Connection {
    /// Opens a connection.
    ///
    /// # Errors
    /// Those of the system, and that of a server without settings.
    pub(super) fn open(
        poller: &Poller,
        (id, to): (SocketId, Endpoint),
        peers: &UpstreamPeers,
        now_ms: u64,
    ) -> io::Result<Self> {
        let (session, peer) = match to.transport {
            Transport::Udp | Transport::Tcp => (ClientSession::plain(), None),
            Transport::Tls(peer) | Transport::Https(peer) => {
                let peer = peers.at(peer).ok_or_else(|| io::Error::other(UnknownPeer))?;
                (peer.session()?, Some((peer, to.addr)))
            }
        };
        let tcp = avocet_io::tcp::connect(to.addr, None)?;
        poller.add(&tcp, Token::Server(id).pack(), Interest::ReadWrite, Trigger::Level)?;
        Ok(Self {
            tcp,
            session,
            peer,
            interest: Interest::ReadWrite,
            opened_ms: now_ms,
            active_ms: now_ms,
            idle_ms: IDLE_MS,
            asked_ms: None,
            owed: 0,
            has_answered: false,
        })
    }

    /// Queues a message.
    ///
    /// # Errors
    /// Those of the poller.
    pub(super) fn push(
        &mut self,
        poller: &Poller,
        id: SocketId,
        (octets, now_ms): (&[u8], u64),
    ) -> io::Result<()> {
        self.active_ms = now_ms;
        self.asked_ms.get_or_insert(now_ms);
        if self.session.is_over(MAX_UNSENT) {
            return Ok(());
        }
        self.owed += 1;
        self.session.push(octets);
        self.watch(poller, Token::Server(id), Interest::ReadWrite)
    }

    fn watch(&mut self, poller: &Poller, token: Token, interest: Interest) -> io::Result<()> {
        if self.interest != interest {
            self.interest = interest;
            poller.modify(&self.tcp, token.pack(), interest, Trigger::Level)?;
        }
        Ok(())
    }

    /// Writes and reads, and passes each message to `deliver`. Returns the fault if the connection
    /// ended.
    pub(super) fn drive(
        &mut self,
        poller: &Poller,
        (id, event): (SocketId, Event),
        buffer: &mut ReadBuffer,
        (now_ms, deliver): (u64, &mut impl FnMut(&[u8])),
    ) -> Option<SocketFault> {
        match self.exchange(poller, event, buffer, (now_ms, deliver)) {
            Ok(ReadState::Closed) => Some(SocketFault::Closed),
            Ok(_) => None,
            Err(error) => Some(self.fault(id, &error, now_ms)),
        }
    }

    fn exchange(
        &mut self,
        poller: &Poller,
        event: Event,
        buffer: &mut ReadBuffer,
        (now_ms, deliver): (u64, &mut impl FnMut(&[u8])),
    ) -> io::Result<ReadState> {
        let Self { tcp, session, peer, active_ms, asked_ms, owed, has_answered, .. } = self;
        if let Some(error) = tcp.take_error()? {
            return Err(error);
        }
        // What is read may end the connection: what waits is written before.
        if event.is_writable() {
            session.write(tcp)?;
        }
        let state = session.read(tcp, buffer, &mut |message, _| {
            (*active_ms, *asked_ms) = (now_ms, None);
            *owed = owed.saturating_sub(1);
            *has_answered = true;
            deliver(message);
            ControlFlow::Continue(())
        })?;
        if let Some(failure) = session.take_http_failure()
            && let Some((peer, addr)) = peer
        {
            peer.warn(*addr, &io::Error::other(failure), now_ms);
        }
        // A step of the handshake has an answer, and its end lets queries go.
        let written = session.write(tcp)?;
        let interest = match written {
            WriteState::Drained => Interest::Read,
            WriteState::Blocked => Interest::ReadWrite,
        };
        self.watch(poller, Token::unpack(event.token()), interest)?;
        Ok(state)
    }

    /// Returns the meaning of an error, and logs a failure of TLS.
    fn fault(&self, id: SocketId, error: &io::Error, now_ms: u64) -> SocketFault {
        match (fault_of(id, error), &self.peer) {
            // Certificates were accepted: the connection breaks like any other.
            (SocketFault::Tls(_), _) if self.has_answered => SocketFault::Closed,
            (fault @ SocketFault::Tls(_), Some((peer, addr))) => {
                peer.warn(*addr, error, now_ms);
                fault
            }
            (fault, _) => fault,
        }
    }

    /// Keeps the connection for as long as the server says.
    pub(super) fn keep_idle(&mut self, idle_ms: u32) {
        let (shortest, longest) = SAID_IDLE_MS;
        self.idle_ms = idle_ms.clamp(shortest, longest).into();
    }

    /// Returns why the connection must end, if it must: it is idle or dead.
    pub(super) fn end_at(&self, now_ms: u64) -> Option<SocketFault> {
        let since = |moment: u64| now_ms.saturating_sub(moment);
        if self.session.is_handshaking() && since(self.opened_ms) > HANDSHAKE_MS {
            let fault = SocketFault::Tls(TlsFault::Slow);
            if let Some((peer, addr)) = &self.peer {
                peer.warn(*addr, &io::Error::from(io::ErrorKind::TimedOut), now_ms);
            }
            return Some(fault);
        }
        let is_dead = self.asked_ms.is_some_and(|asked| since(asked) > SILENT_MS);
        let is_idle = self.owed == 0 && since(self.active_ms) > self.idle_ms
            || since(self.active_ms) > IDLE_MS.max(self.idle_ms);
        (is_dead || is_idle).then_some(SocketFault::Closed)
    }

    /// Counts time, about half a second, which may let queries go that waited.
    ///
    /// # Errors
    /// Those of the poller.
    pub(super) fn refill(&mut self, poller: &Poller, id: SocketId) -> io::Result<()> {
        self.session.refill();
        if self.session.is_empty() {
            return Ok(());
        }
        self.watch(poller, Token::Server(id), Interest::ReadWrite)
    }

    /// Reports whether the connection has TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.session.is_encrypted()
    }

    /// Tells the server that nothing follows.
    pub(super) fn close(&mut self) {
        self.session.close(&mut self.tcp);
    }
}

/// Returns the meaning of an error on a socket or connection for its queries.
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
        // The connection may have been closed while it was idle.
        SocketSlot::Stream => SocketFault::Closed,
        _ if process::is_shortage(error) => SocketFault::Shortage,
        _ => SocketFault::Unreachable,
    }
}

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
