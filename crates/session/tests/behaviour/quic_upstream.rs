//! Tests of QUIC connections to upstreams, in memory and in virtual time, with hostile servers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use avocet_session::certificate::{
    ALPN_DOQ, ALPN_H3, Certificate, CertificateChoice, Tickets, listener,
};
use avocet_session::http::{HttpMethod, HttpTarget};
use avocet_session::quic::QuicProtocol;
use avocet_session::quic::client::{QuicError, QuicSettings};
use avocet_session::quic::upstream::QuicUpstream;
use avocet_session::trust::{Trust, client};
use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ServerConfig, Side, StreamId, TransportConfig, VarInt,
};

const CERTIFICATE: [&str; 2] = [
    include_str!("../../../cli/tests/operation/certificates/one.pem"),
    include_str!("../../../cli/tests/operation/certificates/one.key"),
];
/// Maximum number of datagrams in a run.
const MAX_STEPS: usize = 20_000;
/// The error codes DOQ_PROTOCOL_ERROR and DOQ_EXCESSIVE_LOAD.
const PROTOCOL_ERROR: u64 = 2;
const EXCESSIVE_LOAD: u64 = 4;

/// A query for `a. A` with this ID, and with EDNS.
fn query(id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let header = [high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    let opt = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
    [&header[..], b"\x01a\x00\x00\x01\x00\x01", &opt].concat()
}

/// The response to the query with this ID, without records.
fn reply(id: u16) -> Vec<u8> {
    let mut octets = query(id);
    octets[2] |= 0x80;
    octets
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

fn stream(number: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, number)
}

/// A client, and a server whose actions the test chooses.
struct Pair {
    now: Instant,
    client: QuicUpstream,
    endpoint: Endpoint,
    server: Option<(ConnectionHandle, Connection)>,
    /// The messages that the client has delivered.
    delivered: Vec<Vec<u8>>,
    /// The reason why the server's end of the connection is over.
    ended: Option<ConnectionError>,
    /// Number of datagrams of the server.
    sent: usize,
}

impl Pair {
    fn doq(transport: TransportConfig) -> Self {
        Self::new(QuicProtocol::Doq, transport)
    }

    fn new(protocol: QuicProtocol, mut transport: TransportConfig) -> Self {
        let (alpn, target) = match protocol {
            QuicProtocol::Doq => (ALPN_DOQ, None),
            QuicProtocol::H3 => {
                let (authority, path) = ("dns.example".into(), "/dns-query".into());
                (ALPN_H3, Some(HttpTarget { authority, path, method: HttpMethod::Post }))
            }
        };
        let [chain, key] = CERTIFICATE;
        let one = Certificate::read(chain.as_bytes(), key.as_bytes(), &[]).unwrap();
        let shown = Arc::new(CertificateChoice::new(&[one]));
        let tls = listener(shown, &Tickets::draw().unwrap(), &[alpn], None).unwrap();
        let crypto = Arc::new(QuicServerConfig::try_from(tls).unwrap());
        let mut config = ServerConfig::with_crypto(crypto);
        transport.mtu_discovery_config(None);
        config.transport_config(Arc::new(transport));
        let endpoint_config = Arc::new(EndpointConfig::default());
        let endpoint = Endpoint::new(endpoint_config, Some(Arc::new(config)), false, Some([2; 32]));
        let trust = client(Trust::Nobody, &[alpn]).unwrap();
        let settings = QuicSettings::new(trust, protocol).unwrap();
        let (now, at) = (Instant::now(), "192.0.2.1:853".parse().unwrap());
        let client = QuicUpstream::connect(&settings, at, ("dns.example", target), now).unwrap();
        let (server, delivered, ended) = (None, Vec::new(), None);
        Self { now, client, endpoint, server, delivered, ended, sent: 0 }
    }

    fn connected(protocol: QuicProtocol) -> Self {
        let mut pair = Self::new(protocol, TransportConfig::default());
        pair.run();
        assert!(!pair.client.is_handshaking());
        pair
    }

    /// Exchanges datagrams until there are none, while no time passes.
    fn run(&mut self) {
        for _ in 0..MAX_STEPS {
            if !self.client_sends() && !self.server_sends() {
                return;
            }
        }
        panic!("the two ends do not come to rest");
    }

    /// Lets time pass and fires all timers.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.run();
            let timers = [
                self.client.next_deadline(),
                self.server.as_mut().and_then(|(_, server)| server.poll_timeout()),
            ];
            let Some(at) = timers.into_iter().flatten().min().filter(|at| *at < end) else { break };
            self.now = self.now.max(at);
            self.client.fire(self.now);
            if let Some((_, server)) = &mut self.server {
                server.handle_timeout(self.now);
            }
        }
        self.now = end;
    }

    fn client_sends(&mut self) -> bool {
        let Self { now, client, endpoint, server, .. } = self;
        let Some(octets) = client.transmit(*now) else { return false };
        let (from, mut buffer): (SocketAddr, _) = ("198.51.100.7:40000".parse().unwrap(), vec![]);
        match endpoint.handle(*now, from, None, None, BytesMut::from(octets), &mut buffer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                *server = Some(endpoint.accept(incoming, *now, &mut buffer, None).unwrap());
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                server.as_mut().unwrap().1.handle_event(event);
            }
            _ => {}
        }
        self.process();
        true
    }

    fn process(&mut self) {
        let Self { endpoint, server, ended, .. } = self;
        let Some((handle, server)) = server else { return };
        while let Some(event) = server.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(*handle, event) {
                server.handle_event(event);
            }
        }
        while let Some(event) = server.poll() {
            if let Event::ConnectionLost { reason } = event {
                *ended = Some(reason);
            }
        }
        while server.streams().accept(Dir::Bi).is_some() {}
    }

    fn server_sends(&mut self) -> bool {
        let Some((_, server)) = &mut self.server else { return false };
        let mut octets = Vec::new();
        if server.poll_transmit(self.now, 1, &mut octets).is_none() {
            return false;
        }
        self.sent += 1;
        self.client
            .receive(self.now, &octets, &mut |message| self.delivered.push(message.to_vec()));
        self.process();
        true
    }

    fn server(&mut self) -> &mut Connection {
        &mut self.server.as_mut().unwrap().1
    }

    /// Reads a query to its end.
    fn read(&mut self, number: u64) -> Vec<u8> {
        let mut octets = Vec::new();
        let mut stream = self.server().recv_stream(stream(number));
        let mut chunks = stream.read(true).unwrap();
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            octets.extend_from_slice(&chunk.bytes);
        }
        let _ = chunks.finalize();
        octets
    }

    /// Sends octets on the stream of a query, as far as flow control permits. Returns their number.
    fn write(&mut self, number: u64, octets: &[u8]) -> usize {
        let mut parts = [Bytes::copy_from_slice(octets)];
        let mut stream = self.server().send_stream(stream(number));
        stream.write_chunks(&mut parts).map_or(0, |written| written.bytes)
    }

    /// Responds to a query.
    fn respond(&mut self, number: u64, octets: &[u8]) {
        assert_eq!(self.write(number, octets), octets.len());
        self.server().send_stream(stream(number)).finish().unwrap();
        self.run();
    }

    /// Returns the error code with which the client has ended the connection.
    fn closed_for(&self) -> Option<u64> {
        match &self.ended {
            Some(ConnectionError::ApplicationClosed(close)) => Some(close.error_code.into()),
            _ => None,
        }
    }
}

#[test]
fn queries_leave_without_their_ids_and_responses_come_back_with_them_in_any_order() {
    let mut pair = Pair::doq(TransportConfig::default());
    // Queries wait for the handshake.
    (1..=3).for_each(|id| assert!(!pair.client.push(&query(id))));
    pair.run();
    for number in 0..3 {
        assert_eq!(pair.read(number), framed(&query(0)));
    }
    for number in [2, 0, 1] {
        pair.respond(number, &framed(&reply(0)));
    }
    assert_eq!(pair.delivered, [reply(3), reply(1), reply(2)]);
    assert!(pair.client.push(&query(4)));
    pair.run();
    pair.respond(3, &framed(&reply(0)));
    assert!(!pair.client.is_owed());
}

#[test]
fn violations_end_the_connection_and_nothing_of_them_is_delivered() {
    let good = framed(&reply(0));
    for octets in [
        framed(&query(1)),
        [&good[..], &good[..]].concat(),
        [&good[..], &[0]].concat(),
        good[..good.len() - 1].to_vec(),
        vec![0],
    ] {
        let mut pair = Pair::connected(QuicProtocol::Doq);
        pair.client.push(&query(7));
        pair.run();
        pair.respond(0, &octets);
        assert!(pair.delivered.is_empty(), "{octets:?}");
        assert!(matches!(pair.client.ended(), Some(QuicError::Violation)), "{octets:?}");
        assert_eq!(pair.closed_for(), Some(PROTOCOL_ERROR), "{octets:?}");
        // Nothing more is sent on it.
        pair.client.push(&query(8));
        pair.run();
        assert!(pair.delivered.is_empty());
    }
}

#[test]
fn a_stream_without_a_message_is_a_failure_of_one_query() {
    let mut pair = Pair::connected(QuicProtocol::Doq);
    (1..=4).for_each(|id| {
        pair.client.push(&query(id));
    });
    pair.run();
    pair.server().send_stream(stream(0)).reset(VarInt::from_u32(5)).unwrap();
    pair.respond(1, &[]);
    pair.respond(2, &framed(&[0; 11]));
    pair.respond(3, &framed(&reply(0)));
    let rcodes: Vec<_> =
        pair.delivered.iter().map(|message| (message[1], message[3] & 15)).collect();
    assert_eq!(rcodes, [(1, 2), (2, 2), (3, 2), (4, 0)]);
    let text = b"the server ended the query with error code 5";
    assert!(pair.delivered[0].windows(text.len()).any(|part| part == text));
    assert!(pair.client.ended().is_none());
}

#[test]
fn responses_without_end_are_not_kept() {
    let mut pair = Pair::connected(QuicProtocol::Doq);
    (0..100).for_each(|id| {
        pair.client.push(&query(id));
    });
    pair.run();
    let mut octets = vec![7; 65_000];
    octets[..2].fill(0xff);
    for number in 0..100 {
        for part in octets.chunks(10_000) {
            pair.write(number, part);
            pair.pass(Duration::from_millis(100));
        }
        if pair.client.ended().is_some() {
            break;
        }
    }
    assert!(matches!(pair.client.ended(), Some(QuicError::Excess)));
    assert_eq!(pair.closed_for(), Some(EXCESSIVE_LOAD));
    assert!(pair.delivered.is_empty());
}

#[test]
fn datagrams_that_are_no_response_end_the_connection() {
    let mut pair = Pair::connected(QuicProtocol::Doq);
    for _ in 0..4_000 {
        pair.server().ping();
        pair.run();
        if pair.client.ended().is_some() {
            break;
        }
    }
    assert!(matches!(pair.client.ended(), Some(QuicError::Excess)), "{}", pair.sent);
    assert!((1_000..3_000).contains(&pair.sent), "{}", pair.sent);
}

#[test]
fn garbage_is_no_handshake_and_ends_nothing() {
    let mut pair = Pair::doq(TransportConfig::default());
    pair.client.push(&query(1));
    let mut octets = vec![0; 1_200];
    for seed in 0u32..500 {
        octets.iter_mut().enumerate().for_each(|(at, octet)| {
            *octet = (seed.wrapping_mul(2_654_435_761).wrapping_add(at as u32 * 97) >> 7) as u8;
        });
        // A long header of version 1, and a short one.
        octets[..5].copy_from_slice(&[0xc0 | seed as u8 & 0x3f, 0, 0, 0, 1]);
        octets[0] = if seed % 2 == 0 { octets[0] } else { 0x40 | seed as u8 & 0x3f };
        let datagram = &octets[..(seed as usize * 7) % 1_200];
        assert!(!pair.client.receive(pair.now, datagram, &mut |_| panic!()));
    }
    pair.run();
    assert!(!pair.client.is_handshaking());
    pair.respond(0, &framed(&reply(0)));
    assert_eq!(pair.delivered, [reply(1)]);
}

#[test]
fn queries_that_get_no_stream_wait_and_are_bounded() {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(1));
    let mut pair = Pair::doq(transport);
    let mut long = query(1);
    long.resize(60_000, 0);
    // These queries are not sent now, and the last of them do not fit into the queue.
    (0..100).for_each(|_| assert!(!pair.client.push(&long)));
    assert!(!pair.client.push(&query(2)));
    pair.run();
    assert!(!pair.client.push(&query(2)));
    // All queries are given up.
    (0..25).for_each(|_| pair.client.refill());
    assert!(!pair.client.is_owed());
    pair.run();
    pair.client.push(&query(3));
    pair.pass(Duration::from_secs(1));
    // The server learns that the first stream was cancelled, and permits another one.
    pair.read(0);
    let _ = pair.server().send_stream(stream(0)).reset(VarInt::from_u32(3));
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.read(1), framed(&query(0)));
    pair.respond(1, &framed(&reply(0)));
    assert_eq!(pair.delivered, [reply(3)]);
}

#[test]
fn a_window_of_few_octets_holds_a_query_back_and_loses_none() {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(5)).receive_window(VarInt::from_u32(7));
    let mut pair = Pair::doq(transport);
    pair.client.push(&query(1));
    let mut octets = Vec::new();
    for _ in 0..20 {
        pair.pass(Duration::from_millis(100));
        let Some((_, server)) = &mut pair.server else { continue };
        let mut stream = server.recv_stream(stream(0));
        let Ok(mut chunks) = stream.read(true) else { continue };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            octets.extend_from_slice(&chunk.bytes);
        }
        let _ = chunks.finalize();
    }
    assert_eq!(octets, framed(&query(0)));
    pair.respond(0, &framed(&reply(0)));
    assert_eq!(pair.delivered, [reply(1)]);
}

/// A response of HTTP/3 with this status, media type and body.
fn response(status: u8, body: &[u8]) -> Vec<u8> {
    // HEADERS with an indexed status and `application/dns-message`, and DATA.
    let head = [1, 4, 0, 0, 0xc0 | status, 0xc0 | 44, 0, body.len() as u8];
    [&head[..], body].concat()
}

/// Opens a unidirectional stream of the server.
fn open(pair: &mut Pair, octets: &[u8]) {
    let id = pair.server().streams().open(Dir::Uni).unwrap();
    let part = Bytes::copy_from_slice(octets);
    pair.server().send_stream(id).write_chunks(&mut [part]).unwrap();
    pair.run();
}

#[test]
fn requests_in_http3_have_their_responses_and_failures() {
    let mut pair = Pair::connected(QuicProtocol::H3);
    open(&mut pair, &[0, 4, 0]);
    open(&mut pair, &[0x21, 1, 2, 3]);
    (1..=4).for_each(|id| {
        pair.client.push(&query(id));
    });
    pair.run();
    assert!(pair.read(0).ends_with(&query(0)));
    pair.respond(0, &response(25, &reply(0)));
    // 404, an unfinished frame, and another ID, which HTTP permits.
    pair.respond(1, &response(27, &reply(0)));
    pair.respond(2, &response(25, &reply(0))[..20]);
    pair.respond(3, &response(25, &reply(9)));
    let rcodes: Vec<_> =
        pair.delivered.iter().map(|message| (message[1], message[3] & 15)).collect();
    assert_eq!(rcodes, [(1, 0), (2, 2), (3, 2), (4, 0)]);
    assert!(pair.client.ended().is_none() && !pair.client.is_draining());
    // GOAWAY.
    let control = StreamId::new(Side::Server, Dir::Uni, 0);
    pair.server()
        .send_stream(control)
        .write_chunks(&mut [Bytes::from_static(&[7, 1, 16])])
        .unwrap();
    pair.run();
    assert!(pair.client.is_draining());
}

#[test]
fn an_alternative_ends_with_the_first_query_that_has_no_response() {
    // 404, an unfinished frame, and an error code.
    for wrong in [response(27, &reply(0)), response(25, &reply(0))[..20].to_vec(), vec![]] {
        let mut pair = Pair::connected(QuicProtocol::H3);
        pair.client = pair.client.as_alternative();
        (1..=3).for_each(|id| assert!(pair.client.push(&query(id))));
        pair.run();
        pair.respond(0, &response(25, &reply(0)));
        if wrong.is_empty() {
            pair.server().send_stream(stream(1)).reset(VarInt::from_u32(0x102)).unwrap();
            pair.run();
        } else {
            pair.respond(1, &wrong);
        }
        // The other queries are sent again over another connection.
        assert_eq!(pair.delivered, [reply(1)], "{wrong:?}");
        assert!(matches!(pair.client.ended(), Some(QuicError::Violation)), "{wrong:?}");
    }
}

#[test]
fn requests_that_a_server_has_not_processed_are_left_to_another_connection() {
    // REQUEST_REJECTED, and GOAWAY before the second request.
    for is_rejected in [true, false] {
        let mut pair = Pair::connected(QuicProtocol::H3);
        (1..=2).for_each(|id| assert!(pair.client.push(&query(id))));
        pair.run();
        if is_rejected {
            pair.server().send_stream(stream(1)).reset(VarInt::from_u32(0x10b)).unwrap();
            pair.run();
        } else {
            open(&mut pair, &[0, 4, 0, 7, 1, 4]);
        }
        assert!(matches!(pair.client.ended(), Some(QuicError::Refused)), "{is_rejected}");
        assert!(pair.delivered.is_empty() && pair.client.take_failure().is_none());
        assert_eq!(pair.closed_for(), Some(0x100));
    }
    // Queries that wait for a stream get none after GOAWAY, and the query before it is answered.
    for waiting in [0, 1] {
        let mut transport = TransportConfig::default();
        transport.max_concurrent_bidi_streams(VarInt::from_u32(1));
        let mut pair = Pair::new(QuicProtocol::H3, transport);
        (0..=waiting).for_each(|id| assert!(!pair.client.push(&query(id))));
        pair.run();
        open(&mut pair, &[0, 4, 0, 7, 1, 4]);
        assert!(pair.client.is_draining());
        assert_eq!(pair.client.ended().is_some(), waiting > 0);
        if waiting == 0 {
            pair.respond(0, &response(25, &reply(0)));
            assert_eq!(pair.delivered, [reply(0)]);
            assert!(!pair.client.push(&query(5)));
            pair.run();
            assert!(pair.delivered.len() == 1);
        }
    }
}

#[test]
fn violations_of_http3_end_the_connection() {
    for (octets, code) in [
        (&[1, 0][..], 0x103),
        (&[0, 0x21, 0], 0x10a),
        (&[0, 4, 0, 4, 0], 0x105),
        (&[2, 0x3f, 0xe1, 0x1f], 0x201),
    ] {
        let mut pair = Pair::connected(QuicProtocol::H3);
        open(&mut pair, octets);
        assert!(matches!(pair.client.ended(), Some(QuicError::Violation)), "{octets:?}");
        assert_eq!(pair.closed_for(), Some(code), "{octets:?}");
    }
    let mut pair = Pair::connected(QuicProtocol::H3);
    pair.client.push(&query(1));
    pair.run();
    // A push in a response.
    pair.respond(0, &[5, 1, 0]);
    assert!(matches!(pair.client.ended(), Some(QuicError::Violation)));
}

/// Draws numbers that are the same in each run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    /// Changes, cuts or repeats some octets.
    fn mutated(&mut self, octets: &[u8]) -> Vec<u8> {
        let mut out = octets.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(out.len().max(1));
            match self.below(5) {
                _ if out.is_empty() => {}
                0 => out[at] ^= 1 << self.below(8),
                1 => out[at] = self.below(256) as u8,
                2 => out.truncate(at),
                3 => out.insert(at, self.below(256) as u8),
                _ => out.extend_from_slice(&octets[at.min(octets.len())..]),
            }
        }
        out
    }
}

/// Arbitrary octets on streams: each query has at most one response, with its own ID.
#[test]
fn mutated_responses_cost_at_most_their_connection() {
    const ROUNDS: usize = 2_000;
    for (protocol, whole) in
        [(QuicProtocol::Doq, framed(&reply(0))), (QuicProtocol::H3, response(25, &reply(0)))]
    {
        let mut draws = Draws(0x9e37_79b9_7f4a_7c15);
        let mut pair = Pair::connected(protocol);
        let (mut number, mut ends, mut answers) = (0, 0, 0);
        for round in 0..ROUNDS {
            if pair.client.ended().is_some() {
                (pair, number, ends) = (Pair::connected(protocol), 0, ends + 1);
            }
            let id = round as u16 + 1;
            pair.client.push(&query(id));
            pair.run();
            let octets = draws.mutated(&whole);
            let (first, rest) = octets.split_at(draws.below(octets.len() + 1));
            pair.write(number, first);
            pair.run();
            if pair.client.ended().is_none() {
                pair.write(number, rest);
                let _ = pair.server().send_stream(stream(number)).finish();
                pair.run();
            }
            let delivered = std::mem::take(&mut pair.delivered);
            assert!(delivered.len() <= 1, "{octets:?}");
            assert!(delivered.iter().all(|message| message[..2] == id.to_be_bytes()));
            answers += delivered.len();
            pair.read(number);
            number += 1;
        }
        assert!(ends > 20 && answers > 200, "{ends} ends, {answers} answers");
    }
}

/// Arbitrary octets on the unidirectional streams of HTTP/3.
#[test]
fn mutated_control_streams_cost_at_most_their_connection() {
    let mut draws = Draws(0x2545_f491_4f6c_dd1d);
    let specimens =
        [&[0, 4, 4, 6, 0x40, 0xff, 0x21, 7, 1, 0][..], &[2, 0x20], &[3, 0x44], &[0x40, 0x21, 9]];
    let mut ends = 0;
    for round in 0..600 {
        let mut pair = Pair::connected(QuicProtocol::H3);
        for _ in 0..=draws.below(4) {
            let specimen = specimens[draws.below(specimens.len())];
            let octets = draws.mutated(specimen);
            if pair.client.ended().is_none() && !octets.is_empty() {
                open(&mut pair, &octets);
            }
        }
        if pair.client.ended().is_some() {
            ends += 1;
            continue;
        }
        if pair.client.is_draining() {
            continue;
        }
        // The connection still answers.
        pair.client.push(&query(round));
        pair.run();
        pair.respond(0, &response(25, &reply(0)));
        assert_eq!(pair.delivered, [reply(round)]);
    }
    assert!((100..500).contains(&ends), "{ends}");
}
