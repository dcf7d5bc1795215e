//! A QUIC connection to a server, on a UDP socket of its own with a random port.
//!
//! ```text
//! push, drive, fire -- changed -- flush: datagrams leave, the timer is set
//! ```
//! Datagrams are sent once in a turn of the event loop, so that several queries of the turn share a
//! datagram.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use avocet_io::poll::{Interest, Poller, Trigger};
use avocet_io::upstream::UpstreamSocket;
use avocet_resolver::{SocketFault, SocketId, TlsFault};
use avocet_session::quic::client::{QuicError, QuicFault};
use avocet_session::quic::upstream::QuicUpstream;

use super::{Vitals, tls_fault};
use crate::token::Token;
use crate::upstream_tls::UpstreamPeer;

/// Maximum number of datagrams that are read at once. The poller reports the remaining datagrams
/// again.
const MAX_DATAGRAMS: usize = 64;
/// Number of octets of the buffer for a datagram. Datagrams on usual paths are shorter.
const DATAGRAM_ROOM: usize = 2_048;
/// Size of the receive buffer that the system keeps, in octets: the datagrams of a turn of the
/// event loop.
const RECEIVE_BUFFER: usize = 256 << 10;
/// The time without any datagram after a query, after which the server counts as lost. It may have
/// lost the state of the connection, or may be down. During this time, the query is sent several
/// times.
const UNHEARD: Duration = Duration::from_millis(600);
/// The number of round-trip times that replaces [`UNHEARD`] for servers that are far away.
const UNHEARD_RTTS: u32 = 6;

/// A connection of QUIC to a server.
pub(in super::super) struct QuicConnection {
    socket: UpstreamSocket,
    session: QuicUpstream,
    server: QuicPeer,
    vitals: Vitals,
    /// The time at which the first query since the last received datagram was sent; `None` if there
    /// was none.
    unheard: Option<Instant>,
    /// Whether there may be datagrams to send, or a new time for the timer.
    pub(in super::super) is_changed: bool,
    /// The time for which the timer is set, in milliseconds on the monotonic clock; `None` without
    /// a timer.
    pub(in super::super) armed_ms: Option<u64>,
}

/// The server of a QUIC connection.
pub(super) struct QuicPeer {
    /// The settings of the server.
    pub(super) peer: Arc<UpstreamPeer>,
    /// The address of the server in the plan.
    pub(super) addr: SocketAddr,
    /// The purpose of the connection.
    pub(super) role: QuicRole,
}

/// The purpose of a QUIC connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QuicRole {
    /// The connection is for queries to an upstream that uses QUIC only.
    Upstream,
    /// The connection is HTTP/3 to an upstream that also uses HTTP/2. If it fails, the queries are
    /// sent again over HTTP/2.
    Alternative,
}

impl QuicConnection {
    /// Begins a connection.
    pub(super) fn open(
        socket: UpstreamSocket,
        session: QuicUpstream,
        server: QuicPeer,
        now_ms: u64,
    ) -> Self {
        // Without this buffer, the system keeps only a few datagrams, and the server must send the
        // others again.
        let _ = socket.keep_octets(RECEIVE_BUFFER);
        Self {
            socket,
            session,
            server,
            vitals: Vitals::new(now_ms),
            unheard: None,
            is_changed: false,
            armed_ms: None,
        }
    }

    /// Adds the socket to the poller.
    ///
    /// # Errors
    /// The poller reports an error.
    pub(super) fn watch(&self, poller: &Poller, id: SocketId) -> io::Result<()> {
        poller.add(&self.socket, Token::Server(id).pack(), Interest::Read, Trigger::Level)
    }

    /// Queues a message.
    ///
    /// # Errors
    /// The server accepts no more queries on this connection.
    pub(super) fn push(&mut self, octets: &[u8], now_ms: u64) -> io::Result<()> {
        if self.session.is_draining() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.vitals.asked(now_ms);
        self.vitals.owed += 1;
        if self.session.push(octets) {
            self.unheard.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    /// Reads datagrams, and passes each message to `deliver`. Returns the fault if the connection
    /// ended.
    pub(in super::super) fn drive(
        &mut self,
        now_ms: u64,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Option<SocketFault> {
        let (now, mut buffer) = (Instant::now(), [0; DATAGRAM_ROOM]);
        for _ in 0..MAX_DATAGRAMS {
            let octets = match self.socket.recv(&mut buffer) {
                Ok(len) => &buffer[..len],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Some(self.socket_fault(&error, now_ms)),
            };
            let Self { session, vitals, unheard, .. } = self;
            let is_ours = session.receive(now, octets, &mut |message| {
                vitals.heard(now_ms);
                deliver(message);
            });
            if is_ours {
                *unheard = None;
            }
        }
        if let Some(failure) = self.session.take_failure() {
            self.warn(io::Error::other(failure), now_ms);
        }
        self.ended(now_ms)
    }

    /// Logs a failure, unless HTTP/2 replaces the connection.
    fn warn(&self, error: io::Error, now_ms: u64) {
        let QuicPeer { peer, addr, role } = &self.server;
        if *role == QuicRole::Upstream {
            peer.warn(*addr, &error, now_ms);
        }
    }

    /// Returns the fault of the queries on this connection, from the fault of the connection. If
    /// HTTP/2 replaces the connection, the connection counts only as closed.
    fn fault(&self, fault: SocketFault, now_ms: u64) -> SocketFault {
        let QuicPeer { peer, addr, role } = &self.server;
        match role {
            QuicRole::Upstream => fault,
            QuicRole::Alternative => {
                tracing::debug!(upstream = %addr, ?fault, "HTTP/3 does not work");
                peer.note_failed_alternative(*addr, now_ms);
                SocketFault::Closed
            }
        }
    }

    /// Reports whether the handshake is complete and the connection is open.
    pub(in super::super) fn is_ready(&self) -> bool {
        !self.session.is_handshaking()
            && !self.session.is_draining()
            && self.session.ended().is_none()
    }

    /// Reports whether a query was not answered yet.
    pub(super) fn is_owed(&self) -> bool {
        self.session.is_owed()
    }

    /// Handles the timers that are due. Returns the fault if the connection ended.
    pub(in super::super) fn fire(&mut self, now_ms: u64) -> Option<SocketFault> {
        let now = Instant::now();
        self.session.fire(now);
        if self.unheard_until().is_some_and(|until| until <= now) {
            return Some(self.fault(SocketFault::Closed, now_ms));
        }
        self.ended(now_ms)
    }

    /// Returns the time at which the server counts as lost if no datagram arrives; `None` if no
    /// query waits.
    fn unheard_until(&self) -> Option<Instant> {
        let patience = UNHEARD.max(self.session.rtt() * UNHEARD_RTTS);
        self.unheard.map(|since| since + patience)
    }

    /// Sends the waiting datagrams. Returns when the next timer is due, in milliseconds on the
    /// monotonic clock.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(in super::super) fn flush(&mut self, now_ms: u64) -> Result<Option<u64>, SocketFault> {
        let now = Instant::now();
        let Self { session, socket, .. } = self;
        let mut failure = None;
        while let Some(octets) = session.transmit(now) {
            match socket.send(octets) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => failure = Some(error),
                Ok(_) => {}
            }
        }
        if let Some(error) = failure {
            return Err(self.socket_fault(&error, now_ms));
        }
        let next = [self.session.next_deadline(), self.unheard_until()].into_iter().flatten().min();
        // The two clocks may differ by a fraction of a millisecond.
        let after = |at: Instant| at.saturating_duration_since(now).as_millis() as u64 + 1;
        Ok(next.map(|at| now_ms + after(at)))
    }

    /// Returns the fault that an error of the socket means for the queries.
    fn socket_fault(&self, error: &io::Error, now_ms: u64) -> SocketFault {
        let fault = match self.vitals.has_answered {
            true => SocketFault::Closed,
            false if avocet_io::process::is_shortage(error) => SocketFault::Shortage,
            false => SocketFault::Unreachable,
        };
        self.fault(fault, now_ms)
    }

    /// Returns the fault if the connection has ended, and logs a failure of TLS.
    fn ended(&self, now_ms: u64) -> Option<SocketFault> {
        let error = self.session.ended()?;
        let fault = match error {
            _ if self.vitals.has_answered => SocketFault::Closed,
            error => fault_of(error),
        };
        let is_violation = matches!(error, QuicError::Violation | QuicError::Excess);
        if is_violation || matches!(fault, SocketFault::Tls(_)) {
            self.warn(io::Error::other(error.clone()), now_ms);
        }
        let QuicPeer { peer, addr, role } = &self.server;
        if *role == QuicRole::Alternative && self.vitals.has_answered && !is_violation {
            peer.note_worked_alternative(*addr);
            return Some(fault);
        }
        Some(self.fault(fault, now_ms))
    }

    /// Returns why the connection must end, if it is idle or dead; `None` if it may continue.
    pub(super) fn end_at(&self, now_ms: u64) -> Option<SocketFault> {
        if self.session.is_handshaking() && self.vitals.is_slow(now_ms) {
            self.warn(io::Error::from(io::ErrorKind::TimedOut), now_ms);
            return Some(self.fault(SocketFault::Tls(TlsFault::Slow), now_ms));
        }
        if self.vitals.is_dead(now_ms) {
            return Some(self.fault(SocketFault::Closed, now_ms));
        }
        if !self.vitals.is_over(now_ms) {
            return None;
        }
        let QuicPeer { peer, addr, role } = &self.server;
        if *role == QuicRole::Alternative && self.vitals.has_answered {
            peer.note_worked_alternative(*addr);
        }
        Some(SocketFault::Closed)
    }

    /// Counts a period of about half a second, after which the server may again send some data that
    /// is no response.
    pub(super) fn refill(&mut self) {
        self.session.refill();
    }

    /// Returns the local port.
    pub(super) fn port(&self) -> u16 {
        self.socket.local_addr().map_or(0, |local| local.port())
    }
}

/// A connection that is dropped announces to the server that no more data follows.
impl Drop for QuicConnection {
    fn drop(&mut self) {
        let now = Instant::now();
        if self.session.ended().is_none() {
            self.session.close(now);
        }
        while let Some(octets) = self.session.transmit(now) {
            let _ = self.socket.send(octets);
        }
    }
}

/// Returns the fault that queries get if the connection ended before its first answer.
fn fault_of(error: &QuicError) -> SocketFault {
    match error.fault() {
        QuicFault::Certificate(error) => SocketFault::Tls(tls_fault(error)),
        QuicFault::Alert => SocketFault::Tls(TlsFault::Alert),
        QuicFault::Protocol => SocketFault::Tls(TlsFault::Protocol),
        QuicFault::TimedOut => SocketFault::Tls(TlsFault::Slow),
        QuicFault::Unreachable => SocketFault::Unreachable,
        QuicFault::Closed | QuicFault::Query => SocketFault::Closed,
    }
}
