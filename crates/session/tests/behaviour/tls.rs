//! Tests of sessions with TLS between two ends in memory, without sockets.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use avocet_session::certificate::{
    ALPN_DOT, Absence, Certificate, CertificateChoice, ClientAuthority, Tickets, listener,
};
use avocet_session::frame::{ReadBuffer, ReadState, WriteState};
use avocet_session::http::Replies;
use avocet_session::proof::{ClientProof, HandshakeFacts};
use avocet_session::session::{ClientSession, ServerSession, Session};
use avocet_session::tls::{MAX_HANDSHAKE, Side, provider};
use avocet_session::trust::{Trust, authorities, client, client_showing, pin};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, HandshakeKind, NamedGroup, ProtocolVersion, RootCertStore, ServerConfig,
    SupportedProtocolVersion, version,
};

/// Certificates for 127.0.0.1 and their keys, used only by tests.
const ONE: [&str; 2] = [
    include_str!("../../../cli/tests/operation/certificates/one.pem"),
    include_str!("../../../cli/tests/operation/certificates/one.key"),
];
const TWO: [&str; 2] = [
    include_str!("../../../cli/tests/operation/certificates/two.pem"),
    include_str!("../../../cli/tests/operation/certificates/two.key"),
];

/// Octets of unread replies beyond which the server stops reading.
const MAX_UNREAD: usize = 256 << 10;

/// One direction of a stream: octets that were written but not read.
#[derive(Default)]
struct Pipe {
    octets: Vec<u8>,
    /// Maximum number of octets per read and per write; 0 for no limit.
    step: usize,
    /// Number of octets that the pipe still accepts.
    room: Option<usize>,
    is_closed: bool,
    reads: usize,
    writes: usize,
}

/// An end of a stream: the pipe to read from, and the one to write to.
struct End<'p>(&'p mut Pipe, &'p mut Pipe);

impl Read for End<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let pipe = &mut *self.0;
        pipe.reads += 1;
        if pipe.octets.is_empty() {
            return if pipe.is_closed { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let step = if pipe.step == 0 { usize::MAX } else { pipe.step };
        let taken = pipe.octets.len().min(room.len()).min(step);
        room[..taken].copy_from_slice(&pipe.octets[..taken]);
        pipe.octets.drain(..taken);
        Ok(taken)
    }
}

impl Write for End<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let pipe = &mut *self.1;
        pipe.writes += 1;
        let step = if pipe.step == 0 { usize::MAX } else { pipe.step };
        let taken = octets.len().min(step).min(pipe.room.unwrap_or(usize::MAX));
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        pipe.room = pipe.room.map(|room| room - taken);
        pipe.octets.extend_from_slice(&octets[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn certificate([chain, key]: [&str; 2], names: &[&str]) -> Certificate {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    Certificate::read(chain.as_bytes(), key.as_bytes(), &names).unwrap()
}

fn server_config() -> Arc<ServerConfig> {
    let shown = CertificateChoice::new(&[certificate(ONE, &[])]);
    listener(Arc::new(shown), &Tickets::draw().unwrap(), &[ALPN_DOT], None).unwrap()
}

fn client_config(versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for [chain, _] in [ONE, TWO] {
        roots.add(CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()).unwrap();
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN_DOT.to_vec()];
    Arc::new(config)
}

/// A direction of a connection.
#[derive(Clone, Copy)]
enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// A client and a server that answers each query with its own octets.
struct World {
    client: ClientSession,
    server: ServerSession,
    /// From the client to the server.
    up: Pipe,
    /// From the server to the client.
    down: Pipe,
    buffer: ReadBuffer,
    /// The replies that the client got.
    replies: Vec<Vec<u8>>,
    /// Number of queries after which the server stops reading once.
    stop_after: usize,
    /// The facts about the client from the TLS handshake, as delivered with the last query.
    told: Option<HandshakeFacts>,
}

impl World {
    fn new(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        Self {
            client: ClientSession::connect(client, name).unwrap(),
            server: ServerSession::accept(server).unwrap(),
            up: Pipe::default(),
            down: Pipe::default(),
            buffer: ReadBuffer::new(),
            replies: Vec::new(),
            stop_after: usize::MAX,
            told: None,
        }
    }

    fn of(versions: &[&'static SupportedProtocolVersion]) -> Self {
        Self::new(&server_config(), &client_config(versions))
    }

    fn pipe(&mut self, direction: Direction) -> &mut Pipe {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Lets the client write and read once.
    fn client_turn(&mut self) -> io::Result<ReadState> {
        let Self { client, up, down, buffer, replies, .. } = self;
        client.write(&mut End(down, up))?;
        let state = client.read(&mut End(down, up), buffer, &mut |reply, _| {
            replies.push(reply.to_vec());
            ControlFlow::Continue(())
        })?;
        client.write(&mut End(down, up))?;
        Ok(state)
    }

    /// Lets the server read and write once.
    fn server_turn(&mut self) -> io::Result<ReadState> {
        let Self { server, up, down, buffer, stop_after, told, .. } = self;
        let state = server.read(&mut End(up, down), buffer, &mut |query, replies| {
            *told = replies.facts().cloned();
            replies.push(query);
            *stop_after = stop_after.wrapping_sub(1);
            if *stop_after == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        server.write(&mut End(up, down))?;
        Ok(state)
    }

    /// Lets client and server read and write in turn until no octets remain.
    fn run(&mut self) {
        let mut idle = 0;
        while idle < 3 {
            self.client_turn().unwrap();
            let state = self.server_turn().unwrap();
            let is_idle = self.up.octets.is_empty()
                && self.down.octets.is_empty()
                && matches!(state, ReadState::Drained | ReadState::Closed)
                && self.server.is_empty()
                && self.client.is_empty();
            idle = if is_idle { idle + 1 } else { 0 };
        }
    }

    /// Sends the queries and checks the replies.
    fn ask(&mut self, queries: &[Vec<u8>]) {
        queries.iter().for_each(|query| self.client.push(query));
        self.run();
        assert_eq!(self.replies, queries);
        self.replies.clear();
    }
}

fn messages(lens: &[usize]) -> Vec<Vec<u8>> {
    let message = |(i, &len): (usize, &usize)| (0..len).map(|j| (i * 31 + j) as u8).collect();
    lens.iter().enumerate().map(message).collect()
}

fn state<S: Side>(session: &Session<S>) -> &rustls::CommonState {
    session.tls().unwrap().state()
}

#[test]
fn both_versions_are_spoken_and_the_newest_key_exchange_comes_first() {
    for (versions, expected) in [
        (&[&version::TLS13][..], ProtocolVersion::TLSv1_3),
        (&[&version::TLS12], ProtocolVersion::TLSv1_2),
    ] {
        let mut world = World::of(versions);
        world.ask(&messages(&[40, 17, 300]));
        assert_eq!(state(&world.server).protocol_version(), Some(expected));
        assert_eq!(state(&world.client).alpn_protocol(), Some(ALPN_DOT));
        let group = state(&world.server).negotiated_key_exchange_group().unwrap().name();
        let hybrid = expected == ProtocolVersion::TLSv1_3;
        assert_eq!(group == NamedGroup::X25519MLKEM768, hybrid, "{group:?}");
    }
}

#[test]
fn everything_pipelined_takes_one_read_and_one_write() {
    let mut world = World::of(&[&version::TLS13]);
    world.ask(&messages(&[40]));
    let queries = messages(&[40; 100]);
    queries.iter().for_each(|query| world.client.push(query));
    world.client_turn().unwrap();
    (world.up.reads, world.down.writes) = (0, 0);
    world.server_turn().unwrap();
    assert_eq!((world.up.reads, world.down.writes), (1, 1));
    world.client_turn().unwrap();
    assert_eq!(world.replies, queries);
}

#[test]
fn queries_come_one_octet_at_a_time() {
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        let mut world = World::of(versions);
        (world.up.step, world.down.step) = (1, 1);
        world.ask(&messages(&[40, 0, 300]));
        assert!(!world.server.is_partial());
    }
}

#[test]
fn queries_come_one_octet_in_each_record() {
    let mut world = World::of(&[&version::TLS13]);
    world.ask(&messages(&[40]));
    let mut raw = rustls_client();
    let mut server = ServerSession::accept(&server_config()).unwrap();
    let (mut up, mut down) = (Pipe::default(), Pipe::default());
    let mut buffer = ReadBuffer::new();
    let mut queries = 0;
    for octet in b"\0\x03abc\0\x02de".iter().copied().map(Some).chain([None; 8]) {
        // rustls makes one record of each write.
        if let Some(octet) = octet {
            raw.writer().write_all(&[octet]).unwrap();
        }
        while raw.wants_write() {
            raw.write_tls(&mut up.octets).unwrap();
        }
        let result = server.read(&mut End(&mut up, &mut down), &mut buffer, &mut |query, _| {
            assert_eq!(query, [&b"abc"[..], b"de"][queries]);
            queries += 1;
            ControlFlow::Continue(())
        });
        result.unwrap();
        server.write(&mut End(&mut up, &mut down)).unwrap();
        if !down.octets.is_empty() {
            raw.read_tls(&mut &down.octets[..]).unwrap();
            down.octets.clear();
            raw.process_new_packets().unwrap();
        }
    }
    assert_eq!(queries, 2);
}

fn rustls_client() -> rustls::ClientConnection {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    rustls::ClientConnection::new(client_config(&[&version::TLS13]), name).unwrap()
}

#[test]
fn the_longest_messages_cross_records_and_reads() {
    for step in [0, 1000, 20_000] {
        let mut world = World::of(&[&version::TLS13]);
        (world.up.step, world.down.step) = (step, step);
        world.ask(&messages(&[65_535, 1, 65_535, 16_384, 40]));
    }
}

#[test]
fn what_was_read_after_a_stop_is_delivered_later_without_loss() {
    for stop_after in [1, 7, 99] {
        let mut world = World::of(&[&version::TLS13]);
        world.ask(&messages(&[40]));
        world.stop_after = stop_after;
        world.ask(&messages(&[400; 100]));
    }
}

#[test]
fn a_client_that_reads_slowly_gets_everything() {
    let mut world = World::of(&[&version::TLS13]);
    world.ask(&messages(&[40]));
    let queries = messages(&[5_000; 20]);
    queries.iter().for_each(|query| world.client.push(query));
    world.down.room = Some(100);
    while world.replies.len() < queries.len() {
        world.client_turn().unwrap();
        world.server_turn().unwrap();
        assert!(!world.server.is_over(200_000));
        world.down.room = Some(777);
    }
    assert_eq!(world.replies, queries);
}

/// Sends `start` and then queries over TLS, but reads no reply, until the server accepts no more.
/// Returns how many octets the server then holds. Each reply has 60,000 octets.
fn unread(mut server: ServerSession, start: &[u8], queries: impl Fn(u32) -> Vec<u8>) -> usize {
    let (mut client, mut buffer) = (rustls_client(), ReadBuffer::new());
    let (mut up, mut down) = (Pipe::default(), Pipe::default());
    while client.is_handshaking() || server.is_handshaking() {
        client.write_tls(&mut End(&mut down, &mut up)).unwrap();
        let stream = &mut End(&mut up, &mut down);
        server.read(stream, &mut buffer, &mut |_, _| ControlFlow::Continue(())).unwrap();
        server.write(stream).unwrap();
        if client.wants_read() && client.read_tls(&mut End(&mut down, &mut up)).is_ok() {
            client.process_new_packets().unwrap();
        }
    }
    client.writer().write_all(start).unwrap();
    down.room = Some(0);
    for turn in 0..100 {
        if server.is_over(MAX_UNREAD) {
            return server.unsent();
        }
        client.writer().write_all(&queries(turn)).unwrap();
        while client.wants_write() {
            client.write_tls(&mut End(&mut down, &mut up)).unwrap();
        }
        let stream = &mut End(&mut up, &mut down);
        let deliver = &mut |_: &[u8], replies: &mut Replies<'_>| {
            replies.push(&[7; 60_000]);
            let is_over = replies.is_over(MAX_UNREAD);
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        server.read(stream, &mut buffer, deliver).unwrap();
        assert_eq!(server.write(stream).unwrap(), WriteState::Blocked);
    }
    panic!("{} octets wait, and the server still reads", server.unsent());
}

#[test]
fn a_client_that_reads_nothing_is_not_read_from() {
    const GET: &[u8] = b"GET /dns-query?dns=AAAA HTTP/1.1\r\nHost: x\r\n\r\n";
    const IN_PATH: &[u8] = b"\x82\x87\x44\x13/dns-query?dns=AAAA";
    let config = server_config();
    let https = || ServerSession::accept_https(&config, 0).unwrap();
    // Three queries arrive together, twice. In the second round, the second query exceeds the
    // limit.
    let frames = b"\0\x03abc".repeat(3);
    let in_tls = unread(ServerSession::accept(&config).unwrap(), b"", |_| frames.clone());
    let in_one = unread(https(), b"", |_| GET.repeat(3));
    // The client permits responses of 2^30 octets by its flow-control windows.
    let start = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\x40\0\0\0"[..],
        b"\0\0\x04\x08\0\0\0\0\0\x3f\0\0\0",
    ];
    let in_two = unread(https(), &start.concat(), |turn| {
        let request = |n: u32| {
            let id = 6 * turn + 2 * n + 1;
            [&[0, 0, IN_PATH.len() as u8, 1, 5][..], &id.to_be_bytes(), IN_PATH].concat()
        };
        (0..3).flat_map(request).collect()
    });
    for held in [in_tls, in_one, in_two] {
        assert!((5 * 60_000..5 * 60_000 + 2_000).contains(&held), "{held}");
    }
}

#[test]
fn a_session_is_resumed_with_a_ticket() {
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        let (server, client) = (server_config(), client_config(versions));
        for expected in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
            let mut world = World::new(&server, &client);
            world.ask(&messages(&[40]));
            assert_eq!(world.server.handshake(), Some(expected));
        }
    }
}

/// The configuration of a server that asks clients for certificates of the issuer of [`TWO`].
fn asking_config(absence: Absence) -> Arc<ServerConfig> {
    let shown = Arc::new(CertificateChoice::new(&[certificate(ONE, &["*.wild.example"])]));
    let roots = Arc::new(authorities(TWO[0].as_bytes()).unwrap());
    let clients = ClientAuthority { roots, absence };
    listener(shown, &Tickets::draw().unwrap(), &[ALPN_DOT], Some(&clients)).unwrap()
}

#[test]
fn the_first_query_tells_the_device_also_after_resumption() {
    let server = asking_config(Absence::Accepted);
    let shown = certificate(TWO, &[]);
    let der = CertificateDer::from_pem_slice(TWO[0].as_bytes()).unwrap();
    let proof = ClientProof::of(&der).unwrap();
    assert_eq!(proof.pin, pin(&der).unwrap());
    assert_eq!(proof.names, ["avocet test two"]);
    let with = client_showing(Trust::Nobody, Some(&shown), &[ALPN_DOT]).unwrap();
    let without = client(Trust::Nobody, &[ALPN_DOT]).unwrap();
    for (config, proof) in [(&with, Some(proof)), (&without, None)] {
        for (name, word) in [("Ana.wild.example", Some(&b"ana"[..])), ("127.0.0.1", None)] {
            for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
                let mut world = World::new(&server, config);
                let name = ServerName::try_from(name).unwrap();
                world.client = ClientSession::connect(config, name).unwrap();
                world.ask(&messages(&[40]));
                assert_eq!(world.server.handshake(), Some(kind));
                let told = world.told.as_ref();
                assert_eq!(told.and_then(|told| told.proof.as_ref()), proof.as_ref());
                assert_eq!(told.and_then(|told| told.word.as_deref()), word);
            }
        }
    }
}

#[test]
fn a_client_without_the_right_certificate_is_refused_where_one_is_required() {
    let server = asking_config(Absence::Refused);
    let ends = |config: &Arc<ClientConfig>| {
        let mut world = World::new(&server, config);
        world.client.push(b"query");
        (0..10).any(|_| {
            // The client may receive the alert.
            let _ = world.client_turn();
            world.server_turn().is_err()
        })
    };
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        assert!(ends(&client_config(versions)), "{versions:?}");
    }
    let of = |shown| client_showing(Trust::Nobody, Some(&shown), &[ALPN_DOT]).unwrap();
    assert!(ends(&of(certificate(ONE, &[]))));
    assert!(!ends(&of(certificate(TWO, &[]))));
}

#[test]
fn a_certificate_is_chosen_by_name_and_the_first_otherwise() {
    let shown = CertificateChoice::new(&[
        certificate(ONE, &["dns.example"]),
        certificate(TWO, &["other.example", "*.wild.example"]),
    ]);
    let config = listener(Arc::new(shown), &Tickets::draw().unwrap(), &[], None).unwrap();
    let der = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    for (name, expected) in [
        ("dns.example", ONE[0]),
        ("OTHER.example", TWO[0]),
        ("x.wild.example", TWO[0]),
        ("x.y.wild.example", ONE[0]),
        ("unknown.example", ONE[0]),
        ("127.0.0.1", ONE[0]),
    ] {
        let client = client(Trust::Nobody, &[]).unwrap();
        let name = ServerName::try_from(name).unwrap();
        let mut world = World::new(&config, &client);
        world.client = ClientSession::connect(&client, name.clone()).unwrap();
        world.ask(&messages(&[40]));
        assert_eq!(
            state(&world.client).peer_certificates(),
            Some(&[der(expected)][..]),
            "{name:?}"
        );
    }
}

/// The connection is cut at each octet of each direction. No end panics, no message is invented,
/// and the session reports the end.
#[test]
fn a_connection_may_end_at_each_octet_of_the_handshake() {
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        let (server, client) = (server_config(), client_config(versions));
        for cut_pipe in [Direction::Up, Direction::Down] {
            let mut cut = 0;
            loop {
                let mut world = World::new(&server, &client);
                world.client.push(b"query");
                world.pipe(cut_pipe).room = Some(cut);
                if !ends_early(&mut world, cut_pipe) {
                    break;
                }
                cut += 1;
            }
            assert!(cut > 200, "{cut} octets");
        }
    }
}

/// Runs until the direction is cut, closes the direction, and returns whether the reply is missing.
fn ends_early(world: &mut World, cut: Direction) -> bool {
    for _ in 0..12 {
        let (client, server) = (world.client_turn(), world.server_turn());
        assert!(client.is_ok() && server.is_ok());
    }
    world.pipe(cut).is_closed = true;
    let ended = match cut {
        Direction::Up => world.server_turn(),
        Direction::Down => world.client_turn(),
    };
    assert_eq!(ended.unwrap(), ReadState::Closed);
    let mut nowhere = Pipe::default();
    world.server.close(&mut End(&mut Pipe::default(), &mut nowhere));
    assert!(world.replies.iter().all(|reply| reply == b"query"));
    world.replies.is_empty()
}

#[test]
fn octets_that_are_not_tls_get_an_alert_and_end_the_session() {
    let query = b"\0\x1d\0\x09\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
    for octets in [&query[..], b"GET / HTTP/1.1\r\n\r\n", &[0x16, 3, 1, 0xff, 0xff], &[0x80; 300]] {
        let mut server = ServerSession::accept(&server_config()).unwrap();
        let (mut up, mut down) = (Pipe::default(), Pipe::default());
        up.octets.extend_from_slice(octets);
        let result =
            server.read(&mut End(&mut up, &mut down), &mut ReadBuffer::new(), &mut |_, _| {
                panic!("no query came");
            });
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidData, "{octets:?}");
        assert_eq!(down.octets.first(), Some(&21), "an alert: {:?}", down.octets);
        server.close(&mut End(&mut up, &mut down));
    }
}

#[test]
fn a_handshake_without_end_is_given_up() {
    let mut server = ServerSession::accept(&server_config()).unwrap();
    let (mut up, mut down) = (Pipe::default(), Pipe::default());
    let mut buffer = ReadBuffer::new();
    let mut sent = 0;
    // A ClientHello of 60 kB, in records of 1 kB.
    let mut record = vec![22, 3, 1, 4, 0, 1, 0, 0xf0, 0];
    record.resize(5 + 1024, 0);
    loop {
        up.octets.extend_from_slice(&record);
        sent += record.len();
        record[5..9].fill(0);
        let result = server
            .read(&mut End(&mut up, &mut down), &mut buffer, &mut |_, _| ControlFlow::Continue(()));
        if result.is_err() {
            break;
        }
    }
    assert!(sent <= MAX_HANDSHAKE + record.len(), "{sent}");
}

#[test]
fn the_end_is_announced_and_noticed() {
    let mut world = World::of(&[&version::TLS13]);
    world.ask(&messages(&[40]));
    world.server.close(&mut End(&mut world.up, &mut world.down));
    assert_eq!(world.client_turn().unwrap(), ReadState::Closed);
    let mut world = World::of(&[&version::TLS13]);
    world.client.push(b"last");
    world.run();
    world.client.close(&mut End(&mut world.down, &mut world.up));
    assert_eq!(world.server_turn().unwrap(), ReadState::Closed);
    assert_eq!(
        world.server.write(&mut End(&mut world.up, &mut world.down)).unwrap(),
        WriteState::Drained
    );
}

#[test]
fn a_key_of_another_certificate_and_a_text_without_one_are_named() {
    let read = |chain: &str, key: &str| {
        Certificate::read(chain.as_bytes(), key.as_bytes(), &[]).map(|_| ()).unwrap_err()
    };
    assert_eq!(read(ONE[0], TWO[1]).to_string(), "the private key is that of another certificate");
    let missing = read(ONE[0], ONE[0]);
    assert!(missing.is_of_key() && missing.to_string().starts_with("no private key in PEM form"));
    let missing = read("", ONE[1]);
    assert!(!missing.is_of_key() && missing.to_string().starts_with("no certificate in PEM form"));
}

#[test]
fn a_client_trusts_authorities_or_keys_and_nobody_else() {
    let der = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    let roots = |text: &str| {
        let mut store = RootCertStore::empty();
        store.add(der(text)).unwrap();
        Trust::Authorities(store)
    };
    let other = "dns.example";
    for (trust, name, expected) in [
        (roots(ONE[0]), "127.0.0.1", None),
        (roots(ONE[0]), other, Some("NotValidForName")),
        (roots(TWO[0]), "127.0.0.1", Some("UnknownIssuer")),
        (Trust::Pins(vec![[0; 32], pin(&der(ONE[0])).unwrap()]), other, None),
        (Trust::Pins(vec![pin(&der(TWO[0])).unwrap()]), "127.0.0.1", Some("")),
        (Trust::Nobody, other, None),
    ] {
        let config = client(trust, &[ALPN_DOT]).unwrap();
        let mut world = World::new(&server_config(), &config);
        let name = ServerName::try_from(name).unwrap();
        world.client = ClientSession::connect(&config, name).unwrap();
        world.client.push(b"query");
        let error = (0..6).find_map(|_| {
            let error = world.client_turn().err();
            let _ = world.server_turn();
            error
        });
        match (error, expected) {
            (None, None) => assert_eq!(world.replies, [b"query"]),
            (Some(error), Some(expected)) => {
                assert!(format!("{error:?}").contains(expected), "{error:?}");
                assert!(world.replies.is_empty());
            }
            (error, expected) => panic!("{error:?}, expected {expected:?}"),
        }
    }
}
