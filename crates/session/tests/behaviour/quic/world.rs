//! A server, clients, and a network between them, in memory and in virtual time.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use avocet_session::certificate::{
    ALPN_DOQ, ALPN_H3, Certificate, CertificateChoice, EarlyTransport, Tickets, listener,
};
use avocet_session::network::ClientNetwork;
use avocet_session::quic::{
    Admission, Newcomer, QuicAnswer, QuicDatagram, QuicHost, QuicKeys, QuicListener, QuicPath,
    QuicPatience, QuicProtocol, QuicQuery, QuicRoute, QuicServer, QuicService, Room, Whose,
};
use avocet_session::trust::{Trust, client};
use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId, TransportConfig, VarInt,
};

const CERTIFICATE: [&str; 2] = [
    include_str!("../../../../cli/tests/operation/certificates/one.pem"),
    include_str!("../../../../cli/tests/operation/certificates/one.key"),
];
/// The index of the listening address.
pub(super) const ENTRANCE: u16 = 3;
/// Time limits of connections.
pub(super) const PATIENCE: QuicPatience =
    QuicPatience { idle: Duration::from_secs(20), read: Duration::from_secs(3) };
/// Time between two calls of `sweep`.
const SWEEP: Duration = Duration::from_millis(500);
/// The time that a datagram needs from one end to the other.
const DELAY: Duration = Duration::from_millis(10);
/// Maximum number of datagrams in a run.
const MAX_STEPS: usize = 100_000;

/// A query that requests this kind of answer. The message has a header of 12 octets, the kind, and
/// a number.
pub(super) fn query(kind: Kind, number: u8) -> Vec<u8> {
    let mut message = vec![0; 14];
    (message[12], message[13]) = (kind as u8, number);
    message
}

/// Returns a message after its length.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// How the host answers a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The answer is the query itself.
    Echo = 1,
    /// The answer has 65,535 octets.
    Large = 2,
    /// The answer comes when the test calls `reply_late`.
    Later = 3,
    /// There is no answer.
    Never = 4,
}

/// The caller of the server.
pub(super) struct Host {
    pub(super) listener: QuicListener,
    /// Open connections by client, as the host counts them.
    pub(super) open: HashMap<IpAddr, usize>,
    pub(super) admitted: usize,
    /// Maximum number of connections of a client.
    pub(super) most: usize,
    pub(super) is_closed: bool,
    pub(super) later: Vec<(QuicRoute, Vec<u8>)>,
    pub(super) answered: usize,
    /// Maximum number of queries in one pass of the event loop, and of one connection in it.
    pub(super) most_of_turn: usize,
    pub(super) most_of_share: usize,
    turn_left: usize,
    share_left: usize,
    /// The slots of the queries in the order of their answers.
    pub(super) order: Vec<u32>,
    /// The address of the client of the last query.
    pub(super) asked_from: Option<IpAddr>,
    reply: Vec<u8>,
    sent: Vec<(SocketAddr, Vec<u8>)>,
}

impl QuicHost for Host {
    fn ended(&mut self, ip: IpAddr) {
        let count = self.open.get_mut(&ip).expect("a client that was admitted");
        *count = count.checked_sub(1).expect("a connection that was admitted");
    }

    fn send(&mut self, path: &QuicPath, octets: &[u8]) {
        assert_eq!(path.entrance, ENTRANCE);
        self.sent.push((path.peer, octets.to_vec()));
    }
}

impl QuicService for Host {
    fn admit(&mut self, newcomer: &Newcomer) -> Admission {
        let count = self.open.entry(newcomer.ip).or_default();
        if self.is_closed {
            return Admission::Refused;
        }
        if *count >= self.most {
            return match newcomer.room {
                Room::Unknown => {
                    let network = ClientNetwork::Address(newcomer.ip);
                    Admission::Crowded(Whose::Network(network))
                }
                Room::Final => Admission::Refused,
            };
        }
        *count += 1;
        self.admitted += 1;
        Admission::Admitted(self.listener.clone())
    }

    fn answer(&mut self, query: &QuicQuery<'_>, message: &[u8]) -> QuicAnswer<'_> {
        self.answered += 1;
        self.turn_left = self.turn_left.checked_sub(1).expect("time in this turn");
        self.share_left = self.share_left.checked_sub(1).expect("time in this share");
        self.order.push(query.route.slot);
        self.asked_from = Some(query.ip);
        match message.get(12) {
            Some(&kind) if kind == Kind::Large as u8 => self.reply = vec![7; 65_535],
            Some(&kind) if kind == Kind::Later as u8 => {
                self.later.push((query.route, message.to_vec()));
                return QuicAnswer::Later;
            }
            Some(&kind) if kind == Kind::Never as u8 => return QuicAnswer::Never,
            _ => self.reply = message.to_vec(),
        }
        QuicAnswer::Now(&self.reply)
    }

    fn begin_share(&mut self) -> bool {
        self.share_left = self.most_of_share;
        self.turn_left > 0
    }

    fn has_time(&self) -> bool {
        self.turn_left > 0 && self.share_left > 0
    }
}

/// How often the network damages datagrams, each in percent.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Faults {
    pub(super) loss: u64,
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
}

/// A client that can misuse its streams.
pub(super) struct Client {
    pub(super) addr: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) connection: Connection,
    pub(super) is_connected: bool,
    pub(super) ended: Option<ConnectionError>,
    /// Data that has arrived on each stream that is not over.
    pub(super) partial: BTreeMap<u64, Vec<u8>>,
    pub(super) replies: BTreeMap<u64, Result<Vec<u8>, u64>>,
    /// Whether the client reads responses.
    pub(super) reads: bool,
    /// Number of octets to and from the server.
    pub(super) sent: usize,
    pub(super) received: usize,
}

impl Client {
    /// Opens a stream and writes octets.
    pub(super) fn write(&mut self, octets: &[u8]) -> StreamId {
        let id = self.connection.streams().open(Dir::Bi).expect("a stream");
        self.go_on(id, octets);
        id
    }

    pub(super) fn go_on(&mut self, id: StreamId, octets: &[u8]) {
        let mut stream = self.connection.send_stream(id);
        let written = stream.write_chunks(&mut [Bytes::copy_from_slice(octets)]).unwrap();
        assert_eq!(written.bytes, octets.len());
    }

    pub(super) fn finish(&mut self, id: StreamId) {
        self.connection.send_stream(id).finish().unwrap();
    }

    /// Sends a whole query.
    pub(super) fn ask(&mut self, message: &[u8]) -> StreamId {
        let id = self.write(&framed(message));
        self.finish(id);
        id
    }

    /// Returns the error code with which the server has closed the connection.
    pub(super) fn closed_for(&self) -> Option<u64> {
        match &self.ended {
            Some(ConnectionError::ApplicationClosed(close)) => Some(close.error_code.into()),
            _ => None,
        }
    }

    fn process(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.ended = Some(reason),
                Event::Stream(StreamEvent::Readable { id }) if self.reads => self.read(id),
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    let _ = self.connection.send_stream(id).reset(error_code);
                }
                _ => {}
            }
        }
    }

    pub(super) fn read(&mut self, id: StreamId) {
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let octets = self.partial.entry(id.index()).or_default();
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => octets.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    self.replies.insert(id.index(), Ok(octets.clone()));
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(code)) => {
                    self.replies.insert(id.index(), Err(code.into()));
                    break;
                }
            }
        }
        let _ = chunks.finalize();
    }
}

struct Packet {
    /// The client that has sent the datagram; `None` for the server.
    from: Option<usize>,
    peer: SocketAddr,
    octets: Vec<u8>,
}

/// The server, its clients, and the network.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) server: QuicServer,
    pub(super) host: Host,
    pub(super) clients: Vec<Client>,
    wire: BTreeMap<(Instant, u64), Packet>,
    pub(super) faults: Faults,
    random: u64,
    sequence: u64,
    swept: Instant,
    /// Number of datagrams that clients may still send before all of them stop.
    pub(super) client_datagrams: usize,
    pub(super) trust: Arc<rustls::ClientConfig>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self::serving(QuicProtocol::Doq, seed)
    }

    pub(super) fn serving(protocol: QuicProtocol, seed: u64) -> Self {
        Self::with_tickets(protocol, &Tickets::draw().unwrap(), seed)
    }

    /// Creates a world with a server and clients that support early data.
    pub(super) fn early() -> Self {
        let tickets = Tickets::draw().unwrap().with_early_data(EarlyTransport::Quic);
        let mut world = Self::with_tickets(QuicProtocol::Doq, &tickets, 1);
        let mut trust = (*world.trust).clone();
        trust.enable_early_data = true;
        world.trust = Arc::new(trust);
        world
    }

    fn with_tickets(protocol: QuicProtocol, tickets: &Tickets, seed: u64) -> Self {
        let alpn = if protocol == QuicProtocol::H3 { ALPN_H3 } else { ALPN_DOQ };
        let [chain, key] = CERTIFICATE;
        let one = Certificate::read(chain.as_bytes(), key.as_bytes(), &[]).unwrap();
        let shown = Arc::new(CertificateChoice::new(&[one]));
        let tls = listener(shown, tickets, &[alpn], None).unwrap();
        let keys = QuicKeys::draw().unwrap();
        let listener = QuicListener::new(tls, &keys, (protocol, PATIENCE.idle)).unwrap();
        let now = Instant::now();
        let host = Host {
            listener: listener.clone(),
            open: HashMap::new(),
            admitted: 0,
            most: 100,
            is_closed: false,
            later: Vec::new(),
            answered: 0,
            most_of_turn: usize::MAX,
            most_of_share: usize::MAX,
            turn_left: usize::MAX,
            share_left: usize::MAX,
            order: Vec::new(),
            asked_from: None,
            reply: Vec::new(),
            sent: Vec::new(),
        };
        Self {
            now,
            server: QuicServer::new(&keys, 0, &listener, [1; 32]),
            host,
            clients: Vec::new(),
            wire: BTreeMap::new(),
            faults: Faults::default(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            sequence: 0,
            swept: now,
            client_datagrams: usize::MAX,
            trust: client(Trust::Nobody, &[alpn]).unwrap(),
        }
    }

    /// Adds a client at an address that begins to connect.
    pub(super) fn connect(&mut self, addr: &str) -> usize {
        self.connect_with(addr, TransportConfig::default())
    }

    pub(super) fn connect_with(&mut self, addr: &str, mut transport: TransportConfig) -> usize {
        transport.mtu_discovery_config(None);
        let crypto = QuicClientConfig::try_from(self.trust.clone()).unwrap();
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        let endpoint_config = Arc::new(EndpointConfig::default());
        let mut endpoint = Endpoint::new(endpoint_config, None, false, Some([2; 32]));
        let server = "192.0.2.1:853".parse().unwrap();
        let connected = endpoint.connect(self.now, config, server, "dns.example");
        let (handle, connection) = connected.unwrap();
        self.clients.push(Client {
            addr: addr.parse().unwrap(),
            endpoint,
            handle,
            connection,
            is_connected: false,
            ended: None,
            partial: BTreeMap::new(),
            replies: BTreeMap::new(),
            reads: true,
            sent: 0,
            received: 0,
        });
        self.clients.len() - 1
    }

    /// Adds a client whose handshake is complete.
    pub(super) fn connected(&mut self, addr: &str) -> usize {
        let client = self.connect(addr);
        self.run();
        assert!(self.clients[client].is_connected, "{:?}", self.clients[client].ended);
        client
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % 100 < percent
    }

    fn put(&mut self, from: Option<usize>, peer: SocketAddr, octets: Vec<u8>) {
        if self.chance(self.faults.loss) {
            return;
        }
        let copies = 1 + usize::from(self.chance(self.faults.duplicates));
        for _ in 0..copies {
            let extra = if self.chance(self.faults.reordered) { 3 * DELAY } else { Duration::ZERO };
            self.sequence += 1;
            let packet = Packet { from, peer, octets: octets.clone() };
            self.wire.insert((self.now + DELAY + extra, self.sequence), packet);
        }
    }

    /// Collects the datagrams that all ends have to send.
    fn collect(&mut self) {
        let Self { server, host, now, .. } = self;
        host.turn_left = host.most_of_turn;
        server.catch_up(*now, host);
        server.accept(*now, host);
        server.fire(*now, host);
        server.flush(*now, host);
        for (peer, octets) in std::mem::take(&mut self.host.sent) {
            self.put(None, peer, octets);
        }
        for number in 0..self.clients.len() {
            let mut buffer = Vec::new();
            loop {
                buffer.clear();
                let client = &mut self.clients[number];
                if client.connection.poll_transmit(self.now, 1, &mut buffer).is_none() {
                    break;
                }
                let addr = client.addr;
                if let Some(left) = self.client_datagrams.checked_sub(1) {
                    self.client_datagrams = left;
                    client.sent += buffer.len();
                    self.put(Some(number), addr, buffer.clone());
                }
            }
            self.clients[number].process();
        }
    }

    /// Runs until no datagram is on its way.
    pub(super) fn run(&mut self) {
        for _ in 0..MAX_STEPS {
            self.collect();
            let Some(((at, _), packet)) = self.wire.pop_first() else {
                if !self.server.has_work() {
                    return;
                }
                continue;
            };
            self.now = self.now.max(at);
            self.deliver(packet);
        }
        panic!("the network does not come to rest");
    }

    /// Lets this time pass and fires all timers.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..MAX_STEPS {
            self.collect();
            let timers = self.clients.iter_mut().filter_map(|one| one.connection.poll_timeout());
            let next = timers.chain(self.server.next_deadline()).min();
            let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
            let sweep = self.swept + SWEEP;
            let at = [next, arrival, Some(sweep)].into_iter().flatten().min().unwrap();
            if at > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(at);
            if arrival.is_some_and(|arrival| arrival <= self.now) {
                let (_, packet) = self.wire.pop_first().unwrap();
                self.deliver(packet);
            }
            let now = self.now;
            for client in &mut self.clients {
                if client.connection.poll_timeout().is_some_and(|at| at <= now) {
                    client.connection.handle_timeout(now);
                    client.process();
                }
            }
            if now >= sweep {
                self.swept = now;
                self.server.sweep(now, PATIENCE, &mut self.host);
            }
        }
        panic!("time does not pass");
    }

    fn deliver(&mut self, packet: Packet) {
        let Packet { from, peer, octets } = packet;
        match from {
            Some(_) => self.deliver_to_server(peer, &octets),
            None => self.deliver_to_client(peer, &octets),
        }
    }

    /// Gives a client a datagram.
    pub(super) fn deliver_to_client(&mut self, peer: SocketAddr, octets: &[u8]) {
        let Some(client) = self.clients.iter_mut().find(|client| client.addr == peer) else {
            return;
        };
        client.received += octets.len();
        let (server, mut buffer) = ("192.0.2.1:853".parse().unwrap(), Vec::new());
        let data = BytesMut::from(octets);
        let event = client.endpoint.handle(self.now, server, None, None, data, &mut buffer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            client.connection.handle_event(event);
        }
        client.process();
    }

    /// Gives the server a datagram.
    pub(super) fn deliver_to_server(&mut self, peer: SocketAddr, octets: &[u8]) {
        let path = QuicPath { entrance: ENTRANCE, peer, local_ip: None };
        self.host.turn_left = self.host.most_of_turn;
        self.server.receive(self.now, &QuicDatagram { path, octets }, &mut self.host);
    }

    /// Takes the datagrams that the server has sent since the last call, without the network.
    pub(super) fn take_sent(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let Self { server, host, now, .. } = self;
        server.accept(*now, host);
        server.flush(*now, host);
        std::mem::take(&mut self.host.sent)
    }

    /// Returns the datagrams with which a client begins a connection.
    pub(super) fn first_flight(&mut self, client: usize) -> Vec<Vec<u8>> {
        let (mut flight, now) = (Vec::new(), self.now);
        let connection = &mut self.clients[client].connection;
        let mut buffer = Vec::new();
        while connection.poll_transmit(now, 1, &mut buffer).is_some() {
            flight.push(std::mem::take(&mut buffer));
        }
        flight
    }

    /// Sends the replies that were postponed.
    pub(super) fn reply_late(&mut self) {
        for (route, message) in std::mem::take(&mut self.host.later) {
            self.server.reply(self.now, route, &message);
        }
    }

    /// Returns the number of connections that the host counts.
    pub(super) fn counted(&self) -> usize {
        self.host.open.values().sum()
    }

    /// Checks that the server keeps no state of any client.
    pub(super) fn check_empty(&self) {
        assert_eq!((self.server.open(), self.server.held(), self.counted()), (0, 0, 0));
    }
}

/// Returns this number as an error code.
pub(super) fn code(number: u32) -> VarInt {
    VarInt::from_u32(number)
}
