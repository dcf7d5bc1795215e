//! The sockets and connections to servers.
//!
//! A server that a rule names, such as a forwarder, has a pool of UDP sockets. A slot is one place
//! in this pool. For each query to such a server, the resolver draws a slot and an ID; it also
//! decides when the socket of a slot needs another port. This module opens the sockets, sends
//! queries, and receives replies. UDP ports are drawn at random from [`SourcePorts`].
//!
//! A kept connection serves many queries: over TCP to a server that a rule names, and over TLS,
//! HTTPS or QUIC to any server. Any other socket or connection is for one query, and is closed with
//! it.

mod quic;
mod retiring;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use avocet_config::ports::SourcePorts;
use avocet_io::poll::{Event, Interest, Poller, Trigger};
use avocet_io::upstream::UpstreamSocket;
use avocet_io::uring::{BATCH, SyscallBatch};
use avocet_resolver::{Endpoint, EndpointId, HeaderPlace, SocketFault, SocketId, SocketSlot};
use avocet_session::frame::ReadBuffer;
use avocet_wire::hash::DrawnHashKey;
use chacha20::rand_core::Rng;

use super::connection::{Connection, ConnectionKind, Opener, fault_of};
use super::quic_timers::QuicTimers;
use super::source::open_socket;
use crate::resolver_report::SocketCounts;
use crate::token::Token;
use crate::upstream_tls::UpstreamPeers;

/// Maximum number of sockets that are opened in advance in one turn of the event loop. Each takes
/// about 5 us.
const WARM_AT_ONCE: usize = 8;
/// The sockets and the connection that are kept open to one server.
struct KeptSockets {
    addr: SocketAddr,
    /// Number of slots whose sockets were opened in advance.
    warmed: u32,
    /// The sockets of the slots, up to the last slot that was in use.
    pool: Vec<Option<UpstreamSocket>>,
    stream: Option<Connection>,
    /// A connection in HTTP/3 that may replace the present one.
    candidate: Option<Connection>,
    /// Former connections in HTTP/2, which others have replaced. Each is kept until its last answer
    /// has arrived.
    retiring: Vec<Connection>,
    /// The server of the connections; `None` until the first one is opened.
    to: Option<Endpoint>,
    /// Queries that a former connection has not sent, or that the server has not processed.
    unsent: Vec<Vec<u8>>,
}

/// A socket or connection for one query.
enum SingleSocket {
    Datagram(UpstreamSocket),
    Stream(Connection),
}

/// A query for a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamQuery<'a> {
    /// The connection of the query.
    pub(super) socket: SocketId,
    /// The server.
    pub(super) to: Endpoint,
    /// The PROXY header for a new connection, and whether it is inside or outside TLS. Empty for a
    /// connection that already exists.
    pub(super) header: (&'a [u8], HeaderPlace),
    /// The message.
    pub(super) octets: &'a [u8],
}

/// A query that is sent as a datagram.
#[derive(Clone, Debug)]
pub(super) struct Query {
    /// The socket of the datagram.
    pub(super) socket: SocketId,
    /// The message, as a range in the octets of the current actions.
    pub(super) range: Range<usize>,
}

/// The sockets and connections of a worker to all servers.
pub(super) struct Endpoints {
    /// The kept sockets and connection of each server, indexed by [`EndpointId`].
    kept: Vec<Option<KeptSockets>>,
    /// The sockets and connections for single queries, by their number.
    singles: HashMap<u32, (EndpointId, SingleSocket), DrawnHashKey>,
    pool_size: u16,
    budget: usize,
    ports: Arc<SourcePorts>,
    /// The number of open pool sockets.
    pooled: usize,
    /// The position at which the search for the next socket to close begins: the index of a server,
    /// and a slot of its pool.
    victim: (usize, usize),
    buffer: ReadBuffer,
    /// The batch of system calls; `None` if io_uring is not available.
    batch: Option<SyscallBatch>,
    /// The settings of TLS for each upstream.
    peers: Arc<UpstreamPeers>,
    /// The QUIC connections that have data to send, or a timer.
    quic: QuicTimers,
}

impl Endpoints {
    /// Creates an empty set. Each pool has `pool_size` sockets. At most `budget` UDP sockets and
    /// connections for single queries are open at the same time. They use these ports.
    pub(super) fn new(
        pool_size: u32,
        budget: usize,
        ports: Arc<SourcePorts>,
        peers: Arc<UpstreamPeers>,
    ) -> Self {
        Self {
            kept: Vec::new(),
            singles: HashMap::default(),
            pool_size: pool_size as u16,
            budget,
            ports,
            pooled: 0,
            victim: (0, 0),
            buffer: ReadBuffer::new(),
            batch: SyscallBatch::new(),
            peers,
            quic: QuicTimers::default(),
        }
    }

    /// Opens a UDP socket unless it is open.
    ///
    /// # Errors
    /// Too many sockets are open, or the system refuses this socket.
    pub(super) fn prepare(
        &mut self,
        poller: &Poller,
        (id, addr): (SocketId, SocketAddr),
        rng: &mut impl Rng,
    ) -> io::Result<()> {
        if self.get(id).is_some() {
            return Ok(());
        }
        self.make_room()?;
        let socket = open_socket(addr, &self.ports, rng)?;
        poller.add(&socket, Token::Server(id).pack(), Interest::Read, Trigger::Level)?;
        match id.slot {
            SocketSlot::Pooled(slot) => {
                self.entry(id.endpoint, addr).put(slot, socket);
                self.pooled += 1;
            }
            SocketSlot::Single(number) => {
                self.singles.insert(number, (id.endpoint, SingleSocket::Datagram(socket)));
            }
            SocketSlot::Stream | SocketSlot::SingleStream(_) => {}
        }
        Ok(())
    }

    /// Makes room for another socket. If the budget is used up, closes a socket of a pool. The
    /// outstanding queries of that socket are lost, as datagrams can be in the network.
    fn make_room(&mut self) -> io::Result<()> {
        if self.pooled + self.singles.len() < self.budget {
            return Ok(());
        }
        let (mut server, mut from) = self.victim;
        for _ in 0..=self.kept.len() {
            let is_open = |slot: &usize| {
                let entry = self.kept.get(server).and_then(Option::as_ref);
                entry.is_some_and(|entry| entry.has(*slot))
            };
            if let Some(slot) = (from..usize::from(self.pool_size)).find(is_open) {
                self.victim = (server, slot + 1);
                let slot = SocketSlot::Pooled(slot as u16);
                self.close(SocketId { endpoint: EndpointId(server as u32), slot });
                return Ok(());
            }
            (server, from) = ((server + 1) % self.kept.len().max(1), 0);
        }
        Err(io::ErrorKind::QuotaExceeded.into())
    }

    /// Sends the prepared queries, which are ranges in `octets`, with as few system calls as
    /// possible. Calls `failed` with each socket on which sending failed. A full queue is not a
    /// failure; the datagrams count as lost.
    pub(super) fn send(
        &mut self,
        queries: &[Query],
        octets: &[u8],
        mut failed: impl FnMut(SocketId, SocketFault),
    ) {
        for queries in queries.chunks(BATCH) {
            let Self { kept, singles, batch, .. } = self;
            let mut open = Vec::with_capacity(queries.len());
            open.extend(queries.iter().filter_map(|query| {
                let socket = find(kept, singles, query.socket)?;
                Some((query.socket, socket, &octets[query.range.clone()]))
            }));
            let mut note = |id: SocketId, result: io::Result<usize>| match result {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    failed(id, fault_of(id, &error));
                }
                _ => {}
            };
            if open.len() > 1
                && let Some(ring) = batch
            {
                let messages = open.iter().map(|(_, socket, octets)| (socket.as_fd(), *octets));
                if ring.send(messages, |at, result| note(open[at].0, result)).is_ok() {
                    continue;
                }
                tracing::warn!("io_uring failed; sending with plain system calls from now on");
                *batch = None;
            }
            for (id, socket, octets) in open {
                note(id, socket.send(octets));
            }
        }
    }

    /// Opens some sockets of the pools in advance. Returns `false` when all of them are open.
    pub(super) fn warm(&mut self, poller: &Poller, rng: &mut impl Rng) -> bool {
        let size = u32::from(self.pool_size);
        if self.pooled + self.singles.len() + WARM_AT_ONCE > self.budget {
            return false;
        }
        let cold = self.kept.iter_mut().enumerate().find_map(|(number, entry)| {
            let entry = entry.as_mut().filter(|entry| entry.warmed < size)?;
            Some((EndpointId(number as u32), entry))
        });
        let Some((endpoint, entry)) = cold else { return false };
        for _ in 0..WARM_AT_ONCE {
            let socket = entry.warmed;
            if socket >= size {
                break;
            }
            entry.warmed += 1;
            if entry.has(socket as usize) {
                continue;
            }
            let id = SocketId { endpoint, slot: SocketSlot::Pooled(socket as u16) };
            match entry.open(poller, id, &self.ports, rng) {
                Ok(()) => self.pooled += 1,
                // The socket is opened later, when its slot is drawn.
                Err(_) => entry.warmed = size,
            }
        }
        true
    }

    /// Replaces the set from which the source ports of UDP sockets are drawn. Closes the UDP
    /// sockets and the QUIC connections with a port that is not in the new set; TCP connections
    /// stay open. Returns the IDs of the closed ones, except connections that were only candidates.
    pub(super) fn change_ports(&mut self, ports: Arc<SourcePorts>) -> Vec<SocketId> {
        let is_left = |socket: &UpstreamSocket| {
            socket.local_addr().is_ok_and(|local| !ports.contains(local.port()))
        };
        let (mut closed, mut streams) = (Vec::new(), Vec::new());
        for (number, entry) in self.kept.iter_mut().enumerate() {
            let Some(entry) = entry else { continue };
            if let Some(mut stream) = entry.stream.take_if(|stream| stream.is_off(&ports)) {
                let endpoint = EndpointId(number as u32);
                let id = SocketId { endpoint, slot: SocketSlot::Stream };
                self.quic.forget(id, &mut stream);
                streams.push(id);
            }
            if let Some(mut candidate) = entry.candidate.take_if(|one| one.is_off(&ports)) {
                let endpoint = EndpointId(number as u32);
                self.quic.forget(SocketId { endpoint, slot: SocketSlot::Stream }, &mut candidate);
            }
            for (slot, place) in entry.pool.iter_mut().enumerate() {
                if place.take_if(|socket| is_left(socket)).is_some() {
                    let slot = SocketSlot::Pooled(slot as u16);
                    closed.push(SocketId { endpoint: EndpointId(number as u32), slot });
                    // With no slot counted as opened, the sockets are opened in advance again.
                    entry.warmed = 0;
                }
            }
        }
        self.pooled -= closed.len();
        let singles = self.singles.extract_if(|_, (_, single)| match single {
            SingleSocket::Datagram(socket) => is_left(socket),
            SingleSocket::Stream(stream) => stream.is_off(&ports),
        });
        for (number, (endpoint, single)) in singles {
            let slot = match &single {
                SingleSocket::Datagram(_) => SocketSlot::Single(number),
                SingleSocket::Stream(_) => SocketSlot::SingleStream(number),
            };
            let id = SocketId { endpoint, slot };
            if let SingleSocket::Stream(mut stream) = single {
                self.quic.forget(id, &mut stream);
            }
            closed.push(id);
        }
        closed.append(&mut streams);
        self.ports = ports;
        closed
    }

    /// Receives one datagram from each socket with as few system calls as possible. Calls `taken`
    /// with each result, except for sockets that were closed in the meantime or have no datagram.
    pub(super) fn receive(
        &mut self,
        sockets: &[SocketId],
        buffer: &mut [u8],
        mut taken: impl FnMut(SocketId, io::Result<&[u8]>),
    ) {
        for sockets in sockets.chunks(BATCH) {
            let Self { kept, singles, batch, .. } = self;
            let mut open = Vec::with_capacity(sockets.len());
            open.extend(sockets.iter().filter_map(|&id| Some((id, find(kept, singles, id)?))));
            let mut take = |from: SocketId, result: io::Result<&[u8]>| match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => taken(from, result),
            };
            if open.len() > 1
                && let Some(ring) = batch
            {
                let from = open.iter().map(|(_, socket)| socket.as_fd());
                if ring.recv(from, |at, result| take(open[at].0, result)).is_ok() {
                    continue;
                }
                tracing::warn!("io_uring failed; receiving with plain system calls from now on");
                *batch = None;
            }
            for (from, socket) in open {
                let received = socket.recv(buffer);
                take(from, received.map(|len| &buffer[..len]));
            }
        }
    }

    /// Closes a UDP socket of a pool, or a socket or connection for one query. A closed socket or
    /// connection is no longer watched by the poller.
    pub(super) fn close(&mut self, id: SocketId) {
        match id.slot {
            SocketSlot::Pooled(slot) => {
                if let Some(Some(entry)) = self.kept.get_mut(id.endpoint.0 as usize) {
                    let closed = entry.pool.get_mut(usize::from(slot)).and_then(Option::take);
                    self.pooled -= usize::from(closed.is_some());
                }
            }
            SocketSlot::Single(number) | SocketSlot::SingleStream(number) => {
                let closed = self.singles.remove(&number);
                if let Some((_, SingleSocket::Stream(mut stream))) = closed {
                    self.quic.forget(id, &mut stream);
                }
            }
            SocketSlot::Stream => {}
        }
    }

    /// Closes all connections that are kept open to a server.
    pub(super) fn forget(&mut self, endpoint: EndpointId) {
        let id = SocketId { endpoint, slot: SocketSlot::Stream };
        self.drop_kept(id);
        quic::drop_candidate(&mut self.kept, &mut self.quic, id);
        if let Some(entry) = self.kept.get_mut(endpoint.0 as usize).and_then(Option::take) {
            self.pooled -= entry.pool.iter().flatten().count();
        }
    }

    /// Queues a message on a connection. Opens the connection if it does not exist.
    ///
    /// # Errors
    /// Too many connections are open, the system refuses this connection, or the server accepts no
    /// more queries on the connection.
    pub(super) fn send_stream(
        &mut self,
        poller: &Poller,
        query: StreamQuery<'_>,
        now_ms: u64,
        rng: &mut impl Rng,
    ) -> io::Result<()> {
        let StreamQuery { socket: id, to, header, octets } = query;
        if let Some(number) = id.slot.single() {
            self.make_room()?;
            let Self { peers, ports, .. } = self;
            let mut stream = Opener { poller, peers, ports, rng, now_ms }.open(id, to)?;
            stream.begin_with(header);
            stream.push(poller, id, (octets, now_ms))?;
            self.quic.note(id, &mut stream);
            self.singles.insert(number, (id.endpoint, SingleSocket::Stream(stream)));
            return Ok(());
        }
        let is_new = self.kept.get(id.endpoint.0 as usize).is_none_or(Option::is_none);
        let pool_size = u32::from(self.pool_size);
        let entry = self.entry(id.endpoint, to.addr);
        if is_new {
            // A server whose first query uses TCP needs no pool of UDP sockets.
            entry.warmed = pool_size;
        }
        entry.to = Some(to);
        if entry.candidate.is_some() {
            self.promote(id);
        }
        self.retire(id);
        let stream = self.entry(id.endpoint, to.addr).stream.take();
        let Self { peers, ports, .. } = self;
        let mut stream = match stream {
            Some(stream) => stream,
            None => Opener { poller, peers, ports, rng, now_ms }.open(id, to)?,
        };
        // A connection on which the server accepts no more queries is closed.
        if let Err(error) = stream.push(poller, id, (octets, now_ms)) {
            self.quic.forget(id, &mut stream);
            return Err(error);
        }
        self.quic.note(id, &mut stream);
        self.entry(id.endpoint, to.addr).stream = Some(stream);
        Ok(())
    }

    /// Removes a kept connection that has ended. Connections for single queries are closed by the
    /// resolver.
    fn drop_kept(&mut self, id: SocketId) {
        if let Some(Some(entry)) = self.kept.get_mut(id.endpoint.0 as usize)
            && id.slot == SocketSlot::Stream
            && let Some(mut stream) = entry.stream.take()
        {
            self.quic.forget(id, &mut stream);
        }
    }

    /// Writes to and reads from a connection, and passes each message to `deliver`. Returns the
    /// fault if the connection ended.
    pub(super) fn drive_stream(
        &mut self,
        poller: &Poller,
        (id, event): (SocketId, Event),
        now_ms: u64,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Option<SocketFault> {
        self.drive_candidate(id, now_ms);
        let retired = self.drive_retiring(poller, (id, event), (now_ms, &mut *deliver));
        let Self { kept, singles, buffer, quic, .. } = self;
        let Some(stream) = find_stream(kept, singles, id) else { return retired };
        let fault = stream.drive(poller, (id, event), buffer, (now_ms, deliver));
        match fault {
            None => {
                quic.note(id, stream);
                self.retire(id);
            }
            Some(_) => self.drop_kept(id),
        }
        fault.or(retired)
    }

    /// Sets the time for which a kept connection to a server stays open while it is idle.
    pub(super) fn keep_idle(&mut self, id: SocketId, idle_ms: u32) {
        let entry = self.kept.get_mut(id.endpoint.0 as usize).and_then(Option::as_mut);
        if let Some(stream) = entry.and_then(|entry| entry.stream.as_mut()) {
            stream.keep_idle(idle_ms);
        }
    }

    /// Closes connections that are idle or dead, and adds them to `closed`. Called about twice a
    /// second.
    pub(super) fn expire(
        &mut self,
        poller: &Poller,
        now_ms: u64,
        closed: &mut Vec<(SocketId, SocketFault)>,
    ) {
        for (number, entry) in self.kept.iter_mut().enumerate() {
            let Some(stream) = entry.as_mut().and_then(|entry| entry.stream.as_mut()) else {
                continue;
            };
            let id = SocketId { endpoint: EndpointId(number as u32), slot: SocketSlot::Stream };
            let refilled = stream.refill(poller, id);
            self.quic.note(id, stream);
            let fault = stream.end_at(now_ms).or(refilled.err().map(|_| SocketFault::Closed));
            let Some(fault) = fault else { continue };
            if let Some(mut stream) = entry.as_mut().and_then(|entry| entry.stream.take()) {
                stream.close();
                self.quic.forget(id, &mut stream);
            }
            closed.push((id, fault));
        }
        for (number, (endpoint, single)) in &self.singles {
            if let SingleSocket::Stream(stream) = single
                && let Some(fault @ SocketFault::Tls(_)) = stream.end_at(now_ms)
            {
                let slot = SocketSlot::SingleStream(*number);
                closed.push((SocketId { endpoint: *endpoint, slot }, fault));
            }
        }
    }

    /// Counts open sockets and connections. `is_upstream` returns whether queries are forwarded to
    /// a server.
    pub(super) fn counts(&self, is_upstream: impl Fn(EndpointId) -> bool) -> SocketCounts {
        let mut counts = SocketCounts { pooled: self.pooled as u64, ..SocketCounts::default() };
        for entry in self.kept.iter().flatten() {
            let kind = entry.stream.as_ref().map(Connection::kind);
            counts.streams += u64::from(kind == Some(ConnectionKind::Tcp));
            counts.tls += u64::from(kind == Some(ConnectionKind::Tls));
            counts.quic += u64::from(kind == Some(ConnectionKind::Quic));
        }
        for (endpoint, _) in self.singles.values() {
            let kind =
                if is_upstream(*endpoint) { &mut counts.fresh } else { &mut counts.authorities };
            *kind += 1;
        }
        counts
    }

    fn get(&self, id: SocketId) -> Option<&UpstreamSocket> {
        find(&self.kept, &self.singles, id)
    }

    fn entry(&mut self, endpoint: EndpointId, addr: SocketAddr) -> &mut KeptSockets {
        let number = endpoint.0 as usize;
        if self.kept.len() <= number {
            self.kept.resize_with(number + 1, || None);
        }
        self.kept[number].get_or_insert_with(|| KeptSockets {
            addr,
            warmed: 0,
            pool: Vec::new(),
            stream: None,
            candidate: None,
            retiring: Vec::new(),
            to: None,
            unsent: Vec::new(),
        })
    }
}

/// Returns the UDP socket with this identifier, if it is open.
#[inline]
fn find<'s>(
    kept: &'s [Option<KeptSockets>],
    singles: &'s HashMap<u32, (EndpointId, SingleSocket), DrawnHashKey>,
    id: SocketId,
) -> Option<&'s UpstreamSocket> {
    match id.slot {
        SocketSlot::Pooled(slot) => {
            kept.get(id.endpoint.0 as usize)?.as_ref()?.pool.get(usize::from(slot))?.as_ref()
        }
        SocketSlot::Single(number) => match singles.get(&number)? {
            (endpoint, SingleSocket::Datagram(socket)) if *endpoint == id.endpoint => Some(socket),
            _ => None,
        },
        SocketSlot::Stream | SocketSlot::SingleStream(_) => None,
    }
}

/// Returns the connection with this identifier, if it is open.
fn find_stream<'s>(
    kept: &'s mut [Option<KeptSockets>],
    singles: &'s mut HashMap<u32, (EndpointId, SingleSocket), DrawnHashKey>,
    id: SocketId,
) -> Option<&'s mut Connection> {
    match id.slot.single() {
        Some(number) => match singles.get_mut(&number)? {
            (endpoint, SingleSocket::Stream(stream)) if *endpoint == id.endpoint => Some(stream),
            _ => None,
        },
        None => kept.get_mut(id.endpoint.0 as usize)?.as_mut()?.stream.as_mut(),
    }
}

impl KeptSockets {
    fn open(
        &mut self,
        poller: &Poller,
        id: SocketId,
        ports: &SourcePorts,
        rng: &mut impl Rng,
    ) -> io::Result<()> {
        let SocketSlot::Pooled(slot) = id.slot else { return Ok(()) };
        let socket = open_socket(self.addr, ports, rng)?;
        poller.add(&socket, Token::Server(id).pack(), Interest::Read, Trigger::Level)?;
        self.put(slot, socket);
        Ok(())
    }

    /// Returns whether a slot of the pool has an open socket.
    fn has(&self, slot: usize) -> bool {
        self.pool.get(slot).is_some_and(Option::is_some)
    }

    /// Puts a socket in its slot of the pool.
    fn put(&mut self, slot: u16, socket: UpstreamSocket) {
        let slot = usize::from(slot);
        if self.pool.len() <= slot {
            self.pool.resize_with(slot + 1, || None);
        }
        self.pool[slot] = Some(socket);
    }
}

#[cfg(test)]
mod tests;
