//! The rules for accepting connections of clients, and for closing connections to make room.

use std::io;
use std::net::{IpAddr, TcpStream};

use avocet_io::poll::{Interest, Poller, Trigger};
use avocet_nameserver::snapshot::Snapshot;
use avocet_session::quic::Whose;

use super::Intake;
use super::headers::{HeaderState, WaitingConnection};
use super::streams::{StreamClient, Streams};
use crate::connections::{ConnectionLimits, Crowded};
use crate::mailbox::Letter;
use crate::state::Shared;
use crate::token::Token;
use crate::values::Time;

/// Maximum number of connections accepted from one listener in one turn of the event loop.
const MAX_ACCEPTS: usize = 64;

impl Intake {
    /// Accepts connections, within the limits.
    pub(crate) fn accept(&mut self, poller: &Poller, state: &Snapshot, number: u16, time: Time) {
        for accepted in 0..MAX_ACCEPTS {
            let Some(listener) = self.listeners.streams.get(usize::from(number)) else { return };
            let (stream, ip) = match listener.accept() {
                Ok(Some((stream, addr))) => (stream, addr.ip()),
                Ok(None) => return,
                // Without free file descriptors, accept(2) fails even if no client waits. If a
                // client waits, the poller reports it again.
                Err(_) if accepted > 0 => return,
                Err(error) => {
                    // There are no free file descriptors. Closing one idle connection makes room.
                    if !self.door().evict(Whose::Anyone) {
                        self.rest_from_accepting(poller, number, &error);
                    }
                    return;
                }
            };
            let client = StreamClient { ip, entrance: self.stream_entrance(number) };
            if state.proxies.include(client.entrance, ip) {
                self.await_header(poller, state, (stream, client), time);
            } else {
                self.begin(poller, state, (stream, client), time);
            }
        }
    }

    /// Begins the connection of a client, within the limits.
    fn begin(
        &mut self,
        poller: &Poller,
        state: &Snapshot,
        (stream, client): (TcpStream, StreamClient),
        time: Time,
    ) {
        let StreamClient { ip, entrance } = client;
        // A client that gets no answers must not prevent the connection of a client that does.
        let session = match state.allow.admits(entrance, ip) {
            true => self.session(entrance),
            false => self.session_of_authority(entrance),
        };
        let limits = ConnectionLimits::of(&state.config.server.tcp);
        let Some(session) = session else {
            self.metrics().tcp_refused.add(1);
            return;
        };
        let is_open = self.admit(ip, limits, time) && {
            self.limit_handshakes(ip, limits);
            let inserted = self.streams.insert(poller, (stream, session), client, time.millis());
            if inserted.is_err() {
                self.shared.connections.close(ip);
            }
            inserted.is_ok()
        };
        let metrics = self.metrics();
        if is_open { metrics.tcp_accepted.add(1) } else { metrics.tcp_rejected.add(1) }
    }

    /// Begins the connection of a client behind a proxy if the PROXY header has already arrived.
    /// Otherwise, waits for the header.
    fn await_header(
        &mut self,
        poller: &Poller,
        state: &Snapshot,
        (stream, proxy): (TcpStream, StreamClient),
        time: Time,
    ) {
        let mut waiting = WaitingConnection::new(stream, proxy, time.millis());
        match waiting.read() {
            HeaderState::Named(client) => self.begin(poller, state, (waiting.stream, client), time),
            HeaderState::Waiting => {
                let most = self.most_streams.min(state.config.server.tcp.connections);
                let refused = self.headers.insert(poller, waiting, most);
                self.metrics().proxy_headers_refused.add(refused as u64);
            }
            HeaderState::Refused => self.metrics().proxy_headers_refused.add(1),
        }
    }

    /// Reads the octets that have arrived on the connection of a proxy.
    pub(crate) fn read_header(&mut self, poller: &Poller, state: &Snapshot, slot: u32, time: Time) {
        let Some(found) = self.headers.read(poller, slot) else { return };
        match found {
            Some((stream, client)) => self.begin(poller, state, (stream, client), time),
            None => self.metrics().proxy_headers_refused.add(1),
        }
    }

    /// Stops accepting connections at a listener for up to half a second. Without room for a
    /// connection, the poller would otherwise report the same waiting connection in each turn of
    /// the event loop.
    fn rest_from_accepting(&mut self, poller: &Poller, number: u16, error: &io::Error) {
        tracing::warn!(%error, "cannot accept connections");
        let listener = self.listeners.streams.get(usize::from(number));
        if listener.is_some_and(|listener| poller.remove(listener).is_ok()) {
            self.resting.push(number);
        }
    }

    /// Accepts connections again at listeners that had to pause.
    pub(super) fn accept_again(&mut self, poller: &Poller) {
        let Self { resting, listeners, .. } = self;
        resting.retain(|&number| {
            let Some(listener) = listeners.streams.get(usize::from(number)) else { return false };
            poller
                .add(listener, Token::Accept(number).pack(), Interest::Read, Trigger::Level)
                .is_err()
        });
    }

    /// Counts a connection of a client. If the limits require it, closes another connection first.
    fn admit(&mut self, ip: IpAddr, limits: ConnectionLimits, time: Time) -> bool {
        let whose = match self.door().admit(ip, limits) {
            Ok(()) => return true,
            Err(whose) => whose,
        };
        if self.quic.evict(&self.shared, whose, time).is_some() {
            return self.shared.connections.open(ip, &limits).is_ok();
        }
        whose != Whose::Anyone && self.door().admit_over_limit(ip, limits)
    }

    fn door(&mut self) -> Door<'_> {
        let Self { index, shared, headers, streams, most_streams, quic, .. } = self;
        Door {
            index: *index,
            shared,
            streams,
            most: *most_streams,
            others: quic.open() + headers.open(),
        }
    }

    /// Closes a connection of a client or network that exceeds its limit: the connection that was
    /// idle longest. Another worker has accepted a further connection of this client.
    pub(crate) fn make_room(&mut self, state: &Snapshot, ip: IpAddr, time: Time) {
        let limits = ConnectionLimits::of(&state.config.server.tcp);
        let Some(network) = self.shared.connections.excess(ip, &limits) else { return };
        if !self.door().evict(Whose::Network(network)) {
            self.quic.evict(&self.shared, Whose::Network(network), time);
        }
    }

    /// Limits incomplete handshakes of a client and of its networks. If half of the permitted
    /// connections are in a handshake, closes the oldest of these.
    fn limit_handshakes(&mut self, ip: IpAddr, limits: ConnectionLimits) {
        let most = |network| limits.in_handshake(network);
        if let Some(ip) = self.streams.close_handshake(ip, most) {
            self.shared.connections.close(ip);
            self.metrics().tcp_expired.add(1);
        }
    }
}

/// The limits on the number of connections. Connections of TCP and QUIC are counted together.
pub(super) struct Door<'d> {
    pub(super) index: u16,
    pub(super) shared: &'d Shared,
    pub(super) streams: &'d mut Streams,
    /// Maximum number of connections of this worker, as the limit on file descriptors of the
    /// process permits.
    pub(super) most: usize,
    /// Number of open QUIC connections, and of connections that wait for a PROXY header.
    pub(super) others: usize,
}

impl Door<'_> {
    /// Counts a connection of a client. If the limits require it, closes an idle TCP connection
    /// first. If no TCP connection is idle, returns which client's connection must be closed first.
    pub(super) fn admit(&mut self, ip: IpAddr, limits: ConnectionLimits) -> Result<(), Whose> {
        // Each worker has a share of all connections. If a worker exceeds its share, it closes its
        // own idle connections. Otherwise, a worker that accepts connections faster could use the
        // whole limit, because other workers cannot close its connections.
        let share = (limits.total / self.shared.mailboxes.len()).min(self.most).max(1);
        let whose = match self.shared.connections.open(ip, &limits) {
            Ok(()) => {
                if self.streams.open() + self.others >= share {
                    self.evict(Whose::Anyone);
                }
                return Ok(());
            }
            Err(Crowded::Network(network)) => Whose::Network(network),
            Err(Crowded::Total) => Whose::Anyone,
        };
        let has_room = self.evict(whose) && self.shared.connections.open(ip, &limits).is_ok();
        if has_room { Ok(()) } else { Err(whose) }
    }

    /// Admits a client at its limit, or at the limit of its network, that has no idle connection in
    /// this worker, and asks the other workers to close a connection of this client or network.
    /// Until another worker has done so, or if none can, the limit is exceeded by at most one
    /// connection per worker.
    pub(super) fn admit_over_limit(&self, ip: IpAddr, limits: ConnectionLimits) -> bool {
        let others = self.shared.mailboxes.len() - 1;
        let limits = ConnectionLimits { excess: others, ..limits };
        let is_open = others > 0 && self.shared.connections.open(ip, &limits).is_ok();
        if is_open {
            let mailboxes = self.shared.mailboxes.iter().enumerate();
            for (_, mailbox) in mailboxes.filter(|(worker, _)| *worker != usize::from(self.index)) {
                // If the mailbox is full, the limit is exceeded by one connection, which is
                // acceptable.
                let _ = mailbox.send(Letter::MakeRoom(ip));
            }
        }
        is_open
    }

    /// Closes the TCP connection that was idle longest. Returns `false` if none is idle.
    pub(super) fn evict(&mut self, whose: Whose) -> bool {
        let Some(ip) = self.streams.evict(whose) else { return false };
        self.shared.connections.close(ip);
        self.shared.metrics[usize::from(self.index)].tcp_expired.add(1);
        true
    }
}
