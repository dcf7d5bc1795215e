//! A lane over QUIC (RFC 9250) or HTTP/3 (RFC 9114): the connection of one client, with a stream
//! for each query.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use avocet_io::client::BATCH;
use avocet_io::poll::{Interest, Trigger};
use avocet_session::quic::client::QuicClient;

use super::lane::{
    ANSWER_AFTER_NS, Connections, Handed, Handshake, Heard, Kit, LaneTransport, MAX_READS,
    RECONNECT_AFTER_NS, Way, nanos_since,
};
use crate::ask::MAX_QUERY;
use crate::encrypted::QuicTarget;

/// Room for a datagram in octets, which is more than any path carries.
const DATAGRAM_ROOM: usize = 4096;
/// Maximum number of datagrams of one lane in a pass of the event loop.
const MAX_DATAGRAMS: usize = MAX_READS * BATCH;

/// The connection of one client, opened when there is something to send.
pub(crate) struct QuicLane {
    way: Way,
    target: QuicTarget,
    token: u64,
    open: Option<OpenConnection>,
    connect_not_before_ns: u64,
}

struct OpenConnection {
    socket: UdpSocket,
    client: QuicClient,
    /// The message ID of each query by its stream. On the wire, the ID is 0 in QUIC and HTTP.
    ids: HashMap<u64, [u8; 2]>,
    /// Whether the handshake is complete, and was counted.
    is_ready: bool,
    /// The time at which the connection for a single query accepted the query.
    asked_ns: Option<u64>,
}

impl QuicLane {
    /// Creates the lane without a connection.
    pub(super) fn new(way: Way, target: QuicTarget, token: u64) -> Self {
        Self { way, target, token, open: None, connect_not_before_ns: 0 }
    }

    fn connect(&mut self, kit: &Kit, now_ns: u64) -> io::Result<()> {
        self.connect_not_before_ns = now_ns + RECONNECT_AFTER_NS;
        let socket = UdpSocket::bind(SocketAddr::new(self.source(), 0))?;
        socket.set_nonblocking(true)?;
        socket.connect(self.way.server)?;
        kit.poller.add(&socket, self.token, Interest::Read, Trigger::Level)?;
        let client = self.target.session(self.way.server)?;
        let ids = HashMap::new();
        self.open = Some(OpenConnection { socket, client, ids, is_ready: false, asked_ns: None });
        Ok(())
    }

    fn source(&self) -> IpAddr {
        let any = match self.way.server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        self.way.source.unwrap_or(any)
    }

    /// Drops a connection that has failed, or that the server has closed.
    fn lose(&mut self, heard: Heard) -> Heard {
        let is_ready = self.open.take().is_some_and(|open| open.is_ready);
        let failed = (!is_ready).then_some(Handshake::Failed);
        Heard { closed: true, handshake: heard.handshake.or(failed), ..heard }
    }
}

impl OpenConnection {
    /// Sends the datagrams that the connection has ready.
    fn flush(&mut self) -> io::Result<()> {
        let now = Instant::now();
        self.client.fire(now);
        for _ in 0..MAX_DATAGRAMS {
            let Some(octets) = self.client.transmit(now) else { break };
            match self.socket.send(octets) {
                // A datagram that does not fit into the socket's queue is lost, like a datagram
                // that the network drops.
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Receives the datagrams that have arrived.
    fn receive(&mut self, server: SocketAddr) -> io::Result<()> {
        let (mut buffer, now) = ([0; DATAGRAM_ROOM], Instant::now());
        for _ in 0..MAX_DATAGRAMS {
            match self.socket.recv(&mut buffer) {
                Ok(len) => {
                    self.client.receive(now, server, buffer.get(..len).unwrap_or_default());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl LaneTransport for QuicLane {
    fn send(
        &mut self,
        kit: &mut Kit,
        now_ns: u64,
        compose: &mut impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Handed {
        if self.open.is_none()
            && (now_ns < self.connect_not_before_ns || self.connect(kit, now_ns).is_err())
        {
            return Handed::default();
        }
        let is_kept = self.way.connections == Connections::Kept;
        let Some(open) = &mut self.open else { return Handed::default() };
        if let Some(asked_ns) = open.asked_ns {
            if now_ns.saturating_sub(asked_ns) < ANSWER_AFTER_NS {
                return Handed { busy: true, ..Handed::default() };
            }
            self.open = None;
            return Handed::default();
        }
        let (mut composed, mut query) = (0, [0; MAX_QUERY]);
        let most = if is_kept { BATCH } else { 1 };
        while composed < most
            && open.client.may_ask()
            && let Some(len) = compose(&mut query)
        {
            let message = query.get_mut(..len).unwrap_or_default();
            let id = message.first_chunk().copied().unwrap_or_default();
            message.iter_mut().take(2).for_each(|octet| *octet = 0);
            if let Some(stream) = self.target.ask(&mut open.client, message) {
                open.ids.insert(stream, id);
            }
            composed += 1;
        }
        open.asked_ns = (!is_kept && composed > 0).then_some(now_ns);
        let busy = composed == 0 && !open.client.may_ask();
        let failed = open.flush().is_err();
        Handed { composed, sent: composed, failed, busy }
    }

    fn receive(&mut self, kit: &mut Kit, deliver: &mut impl FnMut(u64, &[u8])) -> Heard {
        let mut heard = Heard::default();
        let Some(open) = &mut self.open else { return heard };
        if open.receive(self.way.server).is_err() {
            return self.lose(Heard { failed: true, ..heard });
        }
        if !open.is_ready && open.client.is_connected() {
            open.is_ready = true;
            heard.handshake = Some(Handshake::Full);
        }
        let now_ns = nanos_since(kit.clock);
        while let Some(reply) = open.client.next_reply() {
            let id = open.ids.remove(&reply.request).unwrap_or_default();
            if let Ok(mut octets) = reply.result {
                octets.iter_mut().zip(id).for_each(|(octet, id)| *octet = id);
                deliver(now_ns, &octets);
                heard.messages += 1;
            }
        }
        if heard.messages > 0 && open.asked_ns.is_some() {
            open.client.close(Instant::now());
            let _ = open.flush();
            (self.open, self.connect_not_before_ns) = (None, 0);
            return heard;
        }
        if open.client.ended().is_some() {
            return self.lose(heard);
        }
        if open.flush().is_err() {
            return self.lose(Heard { failed: true, ..heard });
        }
        heard
    }
}
