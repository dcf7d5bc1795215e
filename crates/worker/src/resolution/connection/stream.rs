//! A connection to a server over TCP, with or without TLS.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;

use avocet_io::poll::{Event, Interest, Poller, Trigger};
use avocet_resolver::{HeaderPlace, SocketFault, SocketId, TlsFault};
use avocet_session::frame::{ReadBuffer, ReadState, WriteState};
use avocet_session::session::ClientSession;

use super::{Vitals, WantedAlternative, fault_of};
use crate::token::Token;
use crate::upstream_tls::UpstreamPeer;

/// Shortest and longest idle time that a server may state (RFC 7828), in milliseconds. They are
/// limited because a connection also takes a file descriptor of this host.
const SAID_IDLE_MS: (u32, u32) = (1_000, 120_000);
/// Maximum number of octets that wait to be sent. Further queries are dropped, as datagrams are if
/// a queue is full.
const MAX_UNSENT: usize = 1 << 20;
/// Number of answers over HTTP/2 after which a handshake for HTTP/3 is worthwhile.
const MANY_ANSWERS: u64 = 8;

/// A connection to a server over TCP.
pub(in super::super) struct StreamConnection {
    tcp: TcpStream,
    /// The part of the PROXY header before TLS that was not sent yet.
    header: Vec<u8>,
    session: ClientSession,
    /// The server; `None` without TLS.
    peer: Option<(Arc<UpstreamPeer>, SocketAddr)>,
    interest: Interest,
    vitals: Vitals,
}

impl StreamConnection {
    /// Opens a connection.
    ///
    /// # Errors
    /// The system or TLS reports an error.
    pub(super) fn open(
        poller: &Poller,
        (id, addr): (SocketId, SocketAddr),
        peer: Option<Arc<UpstreamPeer>>,
        now_ms: u64,
    ) -> io::Result<Self> {
        let session = match &peer {
            None => ClientSession::plain(),
            Some(peer) => peer.session(addr)?,
        };
        let peer = peer.map(|peer| (peer, addr));
        let tcp = avocet_io::tcp::connect(addr, None)?;
        poller.add(&tcp, Token::Server(id).pack(), Interest::ReadWrite, Trigger::Level)?;
        Ok(Self {
            tcp,
            header: Vec::new(),
            session,
            peer,
            interest: Interest::ReadWrite,
            vitals: Vitals::new(now_ms),
        })
    }

    /// Sends a PROXY protocol header before all other data.
    pub(super) fn begin_with(&mut self, (header, place): (&[u8], HeaderPlace)) {
        match place {
            HeaderPlace::InsideTls => self.session.begin_with(header),
            HeaderPlace::OutsideTls => self.header = header.to_vec(),
        }
    }

    /// Writes the PROXY header. Returns whether it is written completely.
    fn write_header(&mut self) -> io::Result<bool> {
        while !self.header.is_empty() {
            match self.tcp.write(&self.header) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => drop(self.header.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Queues a message.
    ///
    /// # Errors
    /// The poller reports an error.
    pub(super) fn push(
        &mut self,
        poller: &Poller,
        id: SocketId,
        (octets, now_ms): (&[u8], u64),
    ) -> io::Result<()> {
        self.vitals.asked(now_ms);
        if self.session.is_over(MAX_UNSENT) {
            return Ok(());
        }
        self.vitals.owed += 1;
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

    /// Writes to and reads from the connection, and passes each message to `deliver`. Returns the
    /// fault if the connection ended.
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
        if let Some(error) = self.tcp.take_error()? {
            return Err(error);
        }
        if !self.write_header()? {
            return Ok(ReadState::Drained);
        }
        let Self { tcp, session, peer, vitals, .. } = self;
        // Reading may end the connection, so the waiting data is written first.
        if event.is_writable() {
            session.write(tcp)?;
        }
        let state = session.read(tcp, buffer, &mut |message, _| {
            vitals.heard(now_ms);
            if vitals.is_flooded() {
                return ControlFlow::Break(());
            }
            deliver(message);
            ControlFlow::Continue(())
        })?;
        if vitals.is_flooded() {
            let server = tcp.peer_addr().map_or_else(|_| String::new(), |addr| addr.to_string());
            tracing::debug!(server, "more messages than queries end the connection");
            return Err(io::Error::other("more messages than queries"));
        }
        if let Some(said) = session.take_alternative()
            && let Some((peer, addr)) = peer
        {
            peer.note_alternative(*addr, said, now_ms);
        }
        if let Some(failure) = session.take_http_failure()
            && let Some((peer, addr)) = peer
        {
            peer.warn(*addr, &io::Error::other(failure), now_ms);
        }
        // A step of the handshake may need an answer, and queries can be sent after the handshake.
        let written = session.write(tcp)?;
        let interest = match written {
            WriteState::Drained => Interest::Read,
            WriteState::Blocked => Interest::ReadWrite,
        };
        self.watch(poller, Token::unpack(event.token()), interest)?;
        Ok(state)
    }

    /// Returns the fault that an error means for the queries, and logs a failure of TLS.
    fn fault(&self, id: SocketId, error: &io::Error, now_ms: u64) -> SocketFault {
        match (fault_of(id, error), &self.peer) {
            // The certificate was accepted before, so the connection counts only as closed.
            (SocketFault::Tls(_), _) if self.vitals.has_answered => SocketFault::Closed,
            (fault @ SocketFault::Tls(_), Some((peer, addr))) => {
                peer.warn(*addr, error, now_ms);
                fault
            }
            (fault, _) => fault,
        }
    }

    /// Returns the address at which HTTP/3 must be tried; `None` if the server announces none, or
    /// if this connection is not busy enough.
    pub(super) fn alternative(&self, now_ms: u64) -> Option<WantedAlternative> {
        let (peer, addr) = self.peer.as_ref().filter(|_| self.vitals.answers >= MANY_ANSWERS)?;
        let target = peer.alternative(*addr, now_ms)?;
        Some(WantedAlternative { peer: peer.clone(), addr: *addr, target })
    }

    /// Reports whether no further query can be sent, while responses are outstanding.
    pub(super) fn is_draining(&self) -> bool {
        self.session.is_draining()
    }

    /// Takes the queries that the server did not process before it announced the end of the
    /// connection.
    pub(super) fn take_unprocessed(&mut self) -> Vec<Vec<u8>> {
        self.session.take_unprocessed()
    }

    /// Reports whether a query on the connection was not answered yet.
    pub(super) fn is_owed(&self) -> bool {
        self.session.is_owed()
    }

    /// Sets the time for which the connection is kept open while it is idle, as the server has
    /// stated.
    pub(super) fn keep_idle(&mut self, idle_ms: u32) {
        let (shortest, longest) = SAID_IDLE_MS;
        self.vitals.idle_ms = idle_ms.clamp(shortest, longest).into();
    }

    /// Returns why the connection must end, if it is idle or dead; `None` if it may continue.
    pub(super) fn end_at(&self, now_ms: u64) -> Option<SocketFault> {
        if self.session.is_handshaking() && self.vitals.is_slow(now_ms) {
            let fault = SocketFault::Tls(TlsFault::Slow);
            if let Some((peer, addr)) = &self.peer {
                peer.warn(*addr, &io::Error::from(io::ErrorKind::TimedOut), now_ms);
            }
            return Some(fault);
        }
        self.vitals.is_over(now_ms).then_some(SocketFault::Closed)
    }

    /// Counts a period of about half a second, after which the server may again send some data that
    /// is no response, and waiting queries may be sent.
    ///
    /// # Errors
    /// The poller reports an error.
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

    /// Announces to the server that no more data follows.
    pub(super) fn close(&mut self) {
        self.session.close(&mut self.tcp);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use avocet_io::poll::Events;
    use avocet_resolver::{EndpointId, SocketSlot};

    use super::*;
    use crate::resolution::connection::MAX_SURPLUS;

    /// Sends the messages and waits for the end of the connection.
    fn serve(messages: Vec<u8>) -> (SocketAddr, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The client may close the connection before it has read everything.
            let _ = stream.write_all(&messages);
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        (addr, server)
    }

    /// Sends two queries to a server that sends these messages. Returns the number of delivered
    /// messages, and why the connection ended.
    fn exchange(messages: Vec<u8>, expected: u32) -> (u32, Option<SocketFault>) {
        let (addr, server) = serve(messages);
        let id = SocketId { endpoint: EndpointId(0), slot: SocketSlot::Stream };
        let mut poller = Poller::new().unwrap();
        let mut connection = StreamConnection::open(&poller, (id, addr), None, 0).unwrap();
        for _ in 0..2 {
            connection.push(&poller, id, (b"query", 0)).unwrap();
        }
        let (mut delivered, mut ended) = (0, None);
        let (mut buffer, mut events) = (ReadBuffer::new(), Events::with_capacity(8));
        while ended.is_none() && delivered < expected {
            poller.wait(&mut events, None).unwrap();
            for event in events.iter() {
                let deliver = &mut |_: &[u8]| delivered += 1;
                ended = connection.drive(&poller, (id, event), &mut buffer, (0, deliver));
            }
        }
        drop(connection);
        server.join().unwrap();
        (delivered, ended)
    }

    #[test]
    fn a_server_that_sends_messages_without_end_loses_the_connection() {
        let allowed = 2 + MAX_SURPLUS;
        for message in [&[0, 0][..], &[0, 3, 1, 2, 3]] {
            let (delivered, ended) = exchange(message.repeat(1 << 20), u32::MAX);
            assert_eq!((delivered, ended), (allowed, Some(SocketFault::Closed)));
            let few = message.repeat(allowed as usize);
            assert_eq!(exchange(few, allowed), (allowed, None));
        }
    }
}
