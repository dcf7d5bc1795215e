//! The traffic of a worker with servers: queries that are ready to be sent, sockets that are ready
//! to be read, and faults.
//!
//! [`Endpoints`] owns the sockets. This module collects the queries of one list of actions, and the
//! readable sockets of one turn of the event loop. A few system calls then send all queries and
//! receive all replies.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use avocet_config::ports::SourcePorts;
use avocet_io::poll::{Event, Poller};
use avocet_resolver::{Endpoint, EndpointId, HeaderPlace, SocketFault, SocketId, SocketSlot};
use chacha20::ChaCha12Rng;

use super::connection::fault_of;
use super::endpoints::{Endpoints, Query, StreamQuery};
use crate::resolver_report::SocketCounts;
use crate::upstream_tls::UpstreamPeers;

/// The limits on the sockets for queries to servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketLimits {
    /// Number of slots of the pool of each server.
    pub(super) pool_size: u32,
    /// Maximum number of open UDP sockets, and of connections for one query.
    pub(super) open: usize,
}

/// The sockets for queries to servers, with the queries that wait to be sent.
pub(super) struct Upstreams {
    endpoints: Endpoints,
    /// The generator for random ports.
    rng: ChaCha12Rng,
    /// The datagrams to send.
    prepared: Vec<Query>,
    /// The sockets and connections that failed during the current actions.
    faults: Vec<(SocketId, SocketFault)>,
    /// The UDP sockets that can be read.
    readable: Vec<SocketId>,
    is_warming: bool,
}

/// A query of the resolver to a server.
#[derive(Clone, Debug)]
pub(super) struct Outbound {
    /// The socket or connection of the query.
    pub(super) socket: SocketId,
    /// The server.
    pub(super) to: Endpoint,
    /// Whether the socket must get another port first.
    pub(super) renew: bool,
    /// The PROXY header and the message, as a range in the octets of the actions.
    pub(super) octets: Range<usize>,
    /// The number of octets of the PROXY header before the message, and whether the header is
    /// inside or outside TLS.
    pub(super) header: (usize, HeaderPlace),
}

impl Upstreams {
    /// Creates the set without open sockets. `rng` draws the ports.
    pub(super) fn new(
        limits: SocketLimits,
        ports: Arc<SourcePorts>,
        peers: Arc<UpstreamPeers>,
        rng: ChaCha12Rng,
    ) -> Self {
        Self {
            endpoints: Endpoints::new(limits.pool_size, limits.open, ports, peers),
            rng,
            prepared: Vec::new(),
            faults: Vec::new(),
            readable: Vec::new(),
            is_warming: false,
        }
    }

    /// Queues a query on its connection, or prepares it for its UDP socket. The next
    /// [`Upstreams::flush`] sends the datagrams.
    pub(super) fn send(&mut self, poller: &Poller, query: Outbound, octets: &[u8], now_ms: u64) {
        let Self { endpoints, prepared, rng, .. } = self;
        let Outbound { socket, to, renew, octets: range, header } = query;
        let sent = if socket.slot.is_stream() {
            let (len, place) = header;
            let (header, octets) = octets[range].split_at(len);
            let query = StreamQuery { socket, to, header: (header, place), octets };
            endpoints.send_stream(poller, query, now_ms, rng)
        } else {
            prepared.push(Query { socket, range });
            if renew {
                endpoints.close(socket);
            }
            endpoints.prepare(poller, (socket, to.addr), rng)
        };
        if let Err(error) = sent {
            self.faults.push((socket, fault_of(socket, &error)));
        }
    }

    /// Closes a socket or connection, and drops its unsent data, because a socket for another query
    /// may get its identifier.
    pub(super) fn close(&mut self, socket: SocketId) {
        self.endpoints.close(socket);
        self.prepared.retain(|prepared| prepared.socket != socket);
        self.faults.retain(|(faulty, _)| *faulty != socket);
    }

    /// Sets the time for which a connection is kept open while it is idle.
    pub(super) fn keep_idle(&mut self, socket: SocketId, idle_ms: u32) {
        self.endpoints.keep_idle(socket, idle_ms);
    }

    /// Closes all connections that are kept open to a server.
    pub(super) fn forget(&mut self, endpoint: EndpointId) {
        self.endpoints.forget(endpoint);
    }

    /// Sends the prepared datagrams, which are ranges in `octets`.
    pub(super) fn flush(&mut self, octets: &[u8]) {
        if self.prepared.is_empty() {
            return;
        }
        let Self { endpoints, prepared, faults, .. } = self;
        endpoints.send(prepared, octets, |id, fault| faults.push((id, fault)));
        prepared.clear();
    }

    /// Replaces the source ports, and closes the sockets that use other ports. Queries on closed
    /// sockets are repeated from other sockets.
    pub(super) fn change_ports(&mut self, ports: Arc<SourcePorts>) {
        let closed = self.endpoints.change_ports(ports);
        let fault = |slot| match slot {
            SocketSlot::Stream => SocketFault::Closed,
            _ => SocketFault::Withdrawn,
        };
        self.faults.extend(closed.into_iter().map(|id| (id, fault(id.slot))));
    }

    /// Takes the sockets and connections that failed.
    pub(super) fn take_faults(&mut self) -> impl Iterator<Item = (SocketId, SocketFault)> + '_ {
        self.faults.drain(..)
    }

    /// Records that a UDP socket can be read.
    pub(super) fn note_readable(&mut self, id: SocketId) {
        self.readable.push(id);
    }

    /// Receives one datagram from each readable socket, and passes each result to `taken`.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        taken: impl FnMut(SocketId, io::Result<&[u8]>),
    ) {
        if self.readable.is_empty() {
            return;
        }
        self.endpoints.receive(&self.readable, buffer, taken);
        self.readable.clear();
    }

    /// Writes to and reads from a connection, and passes each message to `deliver`. Returns why the
    /// connection ended, if it did.
    pub(super) fn drive_stream(
        &mut self,
        poller: &Poller,
        (id, event): (SocketId, Event),
        now_ms: u64,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Option<SocketFault> {
        let fault = self.endpoints.drive_stream(poller, (id, event), now_ms, deliver);
        fault.or_else(|| self.endpoints.resend(poller, id, now_ms, &mut self.rng))
    }

    /// Handles the QUIC timers that are due. Connections that end are added to the faults.
    pub(super) fn fire_quic(&mut self, now_ms: u64) {
        self.endpoints.fire_quic(now_ms, &mut self.faults);
    }

    /// Sends the waiting QUIC datagrams. Connections that end are added to the faults.
    pub(super) fn flush_quic(&mut self, now_ms: u64) {
        self.endpoints.flush_quic(now_ms, &mut self.faults);
    }

    /// Returns when the next QUIC timer is due, in milliseconds on the monotonic clock.
    pub(super) fn quic_deadline_ms(&self) -> Option<u64> {
        self.endpoints.quic_deadline_ms()
    }

    /// Opens some sockets of the pools in advance.
    pub(super) fn warm(&mut self, poller: &Poller) {
        self.is_warming = self.endpoints.warm(poller, &mut self.rng);
    }

    /// Returns whether there are still sockets to open in advance.
    pub(super) fn is_warming(&self) -> bool {
        self.is_warming
    }

    /// Closes connections that are idle or dead, and returns them.
    pub(super) fn expire(&mut self, poller: &Poller, now_ms: u64) -> Vec<(SocketId, SocketFault)> {
        let mut closed = Vec::new();
        self.endpoints.expire(poller, now_ms, &mut closed);
        self.endpoints.renew_candidates(poller, now_ms, &mut self.rng);
        closed
    }

    /// Counts the open sockets. `is_upstream` returns whether queries are forwarded to a server.
    pub(super) fn counts(&self, is_upstream: impl Fn(EndpointId) -> bool) -> SocketCounts {
        self.endpoints.counts(is_upstream)
    }
}
