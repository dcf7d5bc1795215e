//! Tests of QUIC between a server and clients in memory, in virtual time, with faults of the
//! network and hostile clients.

mod early;
mod world;

use std::time::Duration;

use avocet_session::http::HttpMethod;
use avocet_session::quic::client::{QuicClient, QuicSettings};
use avocet_session::quic::{DoqError, QuicProtocol};
use quinn_proto::{Dir, TransportConfig};

use world::{Faults, Kind, PATIENCE, World, code, framed, query};

const A: &str = "198.51.100.7:40000";

/// Maximum number of octets that a connection may hold, including the last message.
const HELD_OF_CONNECTION: usize = 400 << 10;

#[test]
fn queries_are_answered_at_once_late_and_never() {
    let mut world = World::new(1);
    let one = world.connected(A);
    let client = &mut world.clients[one];
    let echo: Vec<_> = (0..50).map(|number| client.ask(&query(Kind::Echo, number))).collect();
    let large = client.ask(&query(Kind::Large, 0));
    let later = client.ask(&query(Kind::Later, 9));
    let never = client.ask(&query(Kind::Never, 0));
    world.run();
    let client = &world.clients[one];
    for (number, id) in echo.iter().enumerate() {
        let expected = framed(&query(Kind::Echo, number as u8));
        assert_eq!(client.replies[&id.index()], Ok(expected));
    }
    assert_eq!(client.replies[&large.index()], Ok(framed(&[7; 65_535])));
    assert_eq!(client.replies[&never.index()], Err(DoqError::Unspecified as u64));
    assert!(!client.replies.contains_key(&later.index()));
    world.reply_late();
    world.run();
    let expected = framed(&query(Kind::Later, 9));
    assert_eq!(world.clients[one].replies[&later.index()], Ok(expected));
    assert_eq!(world.server.held(), 0);
}

#[test]
fn connections_take_turns_when_their_queries_take_long() {
    let mut world = World::new(1);
    let clients = [A, "198.51.100.8:40000", "198.51.100.9:40000"].map(|addr| world.connected(addr));
    (world.host.most_of_turn, world.host.most_of_share) = (4, 2);
    let mut ask = |client: usize, count: u8| -> Vec<_> {
        (0..count).map(|number| world.clients[client].ask(&query(Kind::Echo, number))).collect()
    };
    let asked = [ask(clients[0], 60), ask(clients[1], 60), ask(clients[2], 2)];
    world.run();
    for (client, ids) in clients.iter().zip(&asked) {
        let replies = &world.clients[*client].replies;
        assert!(ids.iter().all(|id| replies[&id.index()].is_ok()));
    }
    assert_eq!(world.host.order.len(), 122, "each query is answered once");
    let last_of = |slot| world.host.order.iter().rposition(|one| *one == slot).unwrap();
    let order = &world.host.order;
    assert!(last_of(2) < 40, "a short connection waits for few of the others: {order:?}");
    assert!(last_of(0).abs_diff(last_of(1)) <= 10, "the others share the time: {order:?}");
}

#[test]
fn loss_duplicates_and_reordering_change_no_answer() {
    for seed in 1..=20 {
        let mut world = World::new(seed);
        world.faults = Faults { loss: 10, duplicates: 10, reordered: 20 };
        let one = world.connect(A);
        world.pass(Duration::from_secs(4));
        assert!(world.clients[one].is_connected, "seed {seed}: {:?}", world.clients[one].ended);
        let client = &mut world.clients[one];
        let ids: Vec<_> = (0..30).map(|number| client.ask(&query(Kind::Echo, number))).collect();
        let large = client.ask(&query(Kind::Large, 0));
        world.pass(Duration::from_secs(15));
        let client = &world.clients[one];
        for (number, id) in ids.iter().enumerate() {
            let expected = framed(&query(Kind::Echo, number as u8));
            assert_eq!(client.replies.get(&id.index()), Some(&Ok(expected)), "seed {seed}");
        }
        assert_eq!(client.replies.get(&large.index()), Some(&Ok(framed(&[7; 65_535]))));
        assert_eq!(world.host.answered, 31, "seed {seed}: each query is answered once");
    }
}

#[test]
fn a_query_may_arrive_by_single_octets_and_have_65535() {
    let mut world = World::new(1);
    let one = world.connected(A);
    let octets = framed(&query(Kind::Echo, 1));
    let id = world.clients[one].write(&octets[..1]);
    world.run();
    for octet in &octets[1..] {
        world.clients[one].go_on(id, &[*octet]);
        world.run();
    }
    assert_eq!(world.host.answered, 0, "the stream has not ended");
    world.clients[one].finish(id);
    world.run();
    assert_eq!(world.clients[one].replies[&id.index()], Ok(octets));

    let mut long = vec![0; 65_535];
    long[12] = Kind::Echo as u8;
    let (octets, mut sent) = (framed(&long), 0);
    let id = world.clients[one].connection.streams().open(Dir::Bi).unwrap();
    while sent < octets.len() {
        let mut stream = world.clients[one].connection.send_stream(id);
        sent += stream.write(&octets[sent..]).unwrap_or(0);
        world.run();
    }
    world.clients[one].finish(id);
    world.run();
    assert_eq!(world.clients[one].replies[&id.index()], Ok(octets));
    assert_eq!(world.server.held(), 0);
}

#[test]
fn violations_of_the_protocol_end_the_connection() {
    let keepalive = {
        let header = [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        let opt = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4, 0, 11, 0, 0];
        [&header[..], b"\x01a\x00\x00\x01\x00\x01", &opt].concat()
    };
    let mut other_id = query(Kind::Echo, 0);
    other_id[1] = 1;
    let whole = framed(&query(Kind::Echo, 0));
    for octets in [
        framed(&other_id),
        framed(&keepalive),
        framed(b"short"),
        whole[..whole.len() - 1].to_vec(),
        [&whole[..], &whole[..]].concat(),
        vec![0],
        Vec::new(),
    ] {
        let mut world = World::new(1);
        let one = world.connected(A);
        let id = world.clients[one].write(&octets);
        world.clients[one].finish(id);
        world.run();
        let reason = world.clients[one].closed_for();
        assert_eq!(reason, Some(DoqError::Protocol as u64), "{octets:?}");
        assert_eq!(world.server.counts().violations, 1);
        world.check_empty();
    }
}

/// Another process may receive the acknowledgements.
#[test]
fn a_server_that_ends_closes_connections_without_an_acknowledgement_of_their_responses() {
    let mut world = World::new(1);
    let one = world.connected(A);
    let id = world.clients[one].ask(&query(Kind::Echo, 1));
    let waiting = world.connected("198.51.100.8:40000");
    world.clients[waiting].ask(&query(Kind::Later, 1));
    world.run();
    world.client_datagrams = 0;
    world.server.finish(world.now, &mut world.host);
    world.run();
    assert!(world.clients[one].replies[&id.index()].is_ok());
    assert_eq!(world.clients[one].closed_for(), Some(0));
    assert_eq!(world.clients[waiting].closed_for(), None, "it waits for an answer");
    world.server.close_all(world.now, &mut world.host);
    world.run();
    assert_eq!(world.clients[waiting].closed_for(), Some(0));
}

#[test]
fn a_query_comes_from_the_present_address_of_its_client() {
    let mut world = World::new(1);
    let one = world.connected(A);
    for addr in [A, "203.0.113.7:40000"] {
        world.clients[one].addr = addr.parse().unwrap();
        let id = world.clients[one].ask(&query(Kind::Echo, 1));
        world.pass(Duration::from_secs(1));
        assert!(world.clients[one].replies[&id.index()].is_ok(), "{addr}");
        assert_eq!(world.host.asked_from, Some(world.clients[one].addr.ip()));
    }
}

#[test]
fn a_client_may_open_no_stream_without_a_direction_back() {
    let mut world = World::new(1);
    let one = world.connected(A);
    assert!(world.clients[one].connection.streams().open(Dir::Uni).is_none());
}

/// A client stops after each possible number of datagrams.
#[test]
fn a_client_that_is_gone_at_any_point_of_the_handshake_leaves_nothing() {
    for datagrams in 0..12 {
        let mut world = World::new(1);
        world.client_datagrams = datagrams;
        let one = world.connect(A);
        world.run();
        if world.clients[one].is_connected {
            world.clients[one].ask(&query(Kind::Large, 0));
        }
        world.pass(PATIENCE.idle + Duration::from_secs(20));
        world.check_empty();
        let counts = world.server.counts();
        let admitted = world.host.admitted as u64;
        assert_eq!(counts.completed + counts.failed, admitted, "after {datagrams}");
    }
}

#[test]
fn a_client_may_close_at_any_point() {
    for steps in 0..8 {
        let mut world = World::new(1);
        let one = world.connect(A);
        world.pass(Duration::from_millis(5 * steps));
        let now = world.now;
        world.clients[one].connection.close(now, code(0), bytes::Bytes::new());
        world.pass(Duration::from_secs(30));
        world.check_empty();
    }
}

#[test]
fn a_client_gets_at_most_three_times_its_octets_before_it_has_proven_its_address() {
    let mut world = World::new(1);
    let one = world.connect(A);
    let (mut given, mut taken) = (0, 0);
    for datagram in world.first_flight(one) {
        given += datagram.len();
        let addr = world.clients[one].addr;
        world.deliver_to_server(addr, &datagram);
        taken += world.take_sent().iter().map(|(_, octets)| octets.len()).sum::<usize>();
        assert!(taken <= 3 * given, "{taken} octets for {given}");
    }
    assert!(taken > 0);
    // The server repeats its datagrams up to the limit.
    for _ in 0..40 {
        world.now += Duration::from_millis(200);
        let Some(at) = world.server.next_deadline() else { break };
        world.now = world.now.max(at);
        let now = world.now;
        world.server.fire(now, &mut world.host);
        taken += world.take_sent().iter().map(|(_, octets)| octets.len()).sum::<usize>();
    }
    assert!(taken <= 3 * given, "{taken} octets for {given}");
}

#[test]
fn many_handshakes_in_the_name_of_others_need_a_proof() {
    let mut world = World::new(1);
    for number in 0..300 {
        let addr = format!("198.51.{}.{}:4000", 100 + number / 250, number % 250);
        let one = world.connect(&addr);
        let addr = world.clients[one].addr;
        for datagram in world.first_flight(one) {
            world.deliver_to_server(addr, &datagram);
        }
        let _ = world.take_sent();
    }
    let counts = world.server.counts();
    assert!(counts.retried >= 200, "{counts:?}");
    assert!(world.server.open() <= 80, "{}", world.server.open());
    // A client that proves its address can connect meanwhile.
    world.clients.clear();
    let one = world.connect("203.0.113.9:4000");
    world.pass(Duration::from_secs(2));
    assert!(world.clients[one].is_connected);
    world.pass(Duration::from_secs(10));
    world.clients[one].ask(&query(Kind::Echo, 0));
    world.run();
    assert_eq!(world.clients[one].replies.len(), 1);
    assert_eq!(world.counted(), 1, "the others are forgotten");
}

#[test]
fn handshakes_from_many_addresses_of_one_ipv6_network_need_a_proof() {
    for (site, most) in [(false, 8), (true, 32)] {
        let mut world = World::new(1);
        for number in 0..50 {
            let link = if site { number } else { 1 };
            let one = world.connect(&format!("[2001:db8:1:{link}::{}]:4000", number + 1));
            let addr = world.clients[one].addr;
            for datagram in world.first_flight(one) {
                world.deliver_to_server(addr, &datagram);
            }
            let _ = world.take_sent();
        }
        assert_eq!(world.server.open(), most);
        let retried = world.server.counts().retried;
        assert!(retried >= 50 - most as u64, "{retried}");
    }
}

#[test]
fn one_address_cannot_be_used_up_by_others() {
    let mut world = World::new(1);
    world.host.most = 5;
    for port in 0..50 {
        let one = world.connect(&format!("198.51.100.7:{}", 1000 + port));
        let addr = world.clients[one].addr;
        for datagram in world.first_flight(one) {
            world.deliver_to_server(addr, &datagram);
        }
        let _ = world.take_sent();
    }
    assert!(world.counted() <= 3, "{}", world.counted());
    world.clients.clear();
    let one = world.connect(A);
    world.pass(Duration::from_secs(2));
    assert!(world.clients[one].is_connected);
}

#[test]
fn a_client_at_its_limit_loses_its_longest_idle_connection() {
    let mut world = World::new(1);
    world.host.most = 3;
    let first = world.connected("198.51.100.7:1001");
    for port in 2..=4 {
        world.pass(Duration::from_secs(1));
        world.connected(&format!("198.51.100.7:100{port}"));
    }
    assert_eq!(world.counted(), 3);
    assert_eq!(world.clients[first].closed_for(), Some(DoqError::None as u64));
}

#[test]
fn a_client_that_may_not_connect_gets_no_datagram() {
    let mut world = World::new(1);
    world.host.is_closed = true;
    let one = world.connect(A);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.clients[one].received, 0);
    world.check_empty();
}

#[test]
fn incomplete_queries_are_bounded_and_end_in_time() {
    let mut world = World::new(1);
    let one = world.connected(A);
    // On each stream, the client announces the longest message and does not send all of it.
    let mut ids = Vec::new();
    while let Some(id) = world.clients[one].connection.streams().open(Dir::Bi) {
        ids.push(id);
    }
    assert!(ids.len() <= 100);
    let octets = [&[0xff, 0xff][..], &[0; 60_000]].concat();
    let mut sent = vec![0; ids.len()];
    for _ in 0..40 {
        for (id, sent) in ids.iter().zip(&mut sent) {
            let mut stream = world.clients[one].connection.send_stream(*id);
            *sent += stream.write(&octets[*sent..]).unwrap_or(0);
        }
        world.run();
        assert!(world.server.held() <= HELD_OF_CONNECTION, "{}", world.server.held());
        if world.clients[one].ended.is_some() {
            break;
        }
    }
    assert_eq!(world.clients[one].closed_for(), Some(DoqError::ExcessiveLoad as u64));
    world.check_empty();

    let two = world.connected("198.51.100.8:4000");
    let id = world.clients[two].write(&[0, 14, 0]);
    world.pass(PATIENCE.read + Duration::from_secs(2));
    assert_eq!(world.server.held(), 0, "the query took too long");
    assert_eq!(world.clients[two].replies[&id.index()], Err(DoqError::ExcessiveLoad as u64));
}

#[test]
fn cancelled_queries_return_their_memory() {
    let mut world = World::new(1);
    let one = world.connected(A);
    for round in 0..20 {
        let client = &mut world.clients[one];
        let reading = client.write(&[&[0xff, 0xff][..], &[0; 5_000]].concat());
        let waiting = client.ask(&query(Kind::Later, round));
        world.run();
        assert!(world.server.held() >= 5_000);
        let client = &mut world.clients[one];
        client.connection.send_stream(reading).reset(code(3)).unwrap();
        client.connection.recv_stream(waiting).stop(code(3)).unwrap();
        world.run();
        assert_eq!(world.server.held(), 0);
    }
    // The replies to these queries come later, and are dropped.
    world.reply_late();
    world.run();
    assert!(world.clients[one].ended.is_none());
    let id = world.clients[one].ask(&query(Kind::Echo, 1));
    world.run();
    assert_eq!(world.clients[one].replies[&id.index()], Ok(framed(&query(Kind::Echo, 1))));
}

#[test]
fn a_client_that_takes_no_responses_is_bounded() {
    let mut world = World::new(1);
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(code(1)).receive_window(code(1));
    let one = world.connect_with(A, transport);
    world.run();
    world.clients[one].reads = false;
    for number in 0..90 {
        world.clients[one].ask(&query(Kind::Large, number));
    }
    world.run();
    assert!(world.server.held() <= HELD_OF_CONNECTION, "{}", world.server.held());
    assert!(world.server.held() > 0);
    world.pass(PATIENCE.read + Duration::from_secs(2));
    assert_eq!(world.server.held(), 0, "what waits too long is dropped");
}

#[test]
fn a_late_reply_never_reaches_another_connection() {
    let mut world = World::new(1);
    let one = world.connected(A);
    world.clients[one].ask(&query(Kind::Later, 1));
    world.run();
    let late = std::mem::take(&mut world.host.later);
    let now = world.now;
    world.clients[one].connection.close(now, code(0), bytes::Bytes::new());
    world.pass(Duration::from_secs(20));
    world.check_empty();
    // The next connection has the same index and the same stream ID.
    let two = world.connected("198.51.100.8:4000");
    let id = world.clients[two].ask(&query(Kind::Later, 2));
    world.run();
    assert_eq!(late[0].0.slot, world.host.later[0].0.slot);
    for (route, message) in late {
        world.server.reply(world.now, route, &message);
    }
    world.run();
    assert!(!world.clients[two].replies.contains_key(&id.index()));
    world.reply_late();
    world.run();
    assert_eq!(world.clients[two].replies[&id.index()], Ok(framed(&query(Kind::Later, 2))));
}

#[test]
fn datagrams_without_queries_have_a_limit() {
    let mut world = World::new(1);
    let one = world.connected(A);
    let mut pings = 0;
    while world.clients[one].ended.is_none() && pings < 3_000 {
        world.clients[one].connection.ping();
        world.run();
        pings += 1;
    }
    assert_eq!(world.clients[one].closed_for(), Some(DoqError::ExcessiveLoad as u64));
    assert!(pings < 1_000, "{pings}");
    world.check_empty();

    // Queries refill the budget.
    let two = world.connected("198.51.100.8:4000");
    for number in 0..2_000 {
        world.clients[two].ask(&query(Kind::Echo, number as u8));
        world.run();
    }
    assert_eq!(world.clients[two].replies.len(), 2_000);
}

#[test]
fn a_client_keeps_its_connection_when_its_address_changes() {
    let mut world = World::new(1);
    let one = world.connected(A);
    world.clients[one].ask(&query(Kind::Echo, 1));
    world.run();
    world.clients[one].addr = "203.0.113.77:7".parse().unwrap();
    world.clients[one].ask(&query(Kind::Echo, 2));
    world.run();
    assert_eq!(world.clients[one].replies.len(), 2);
    assert_eq!(world.counted(), 1);
}

#[test]
fn idle_connections_end_and_pings_do_not_keep_them() {
    let mut world = World::new(1);
    let one = world.connected(A);
    for _ in 0..5 {
        world.pass(PATIENCE.idle / 4);
        world.clients[one].connection.ping();
    }
    world.pass(Duration::from_secs(1));
    assert_eq!(world.clients[one].closed_for(), Some(DoqError::None as u64));
    world.check_empty();
}

#[test]
fn a_server_that_ends_answers_what_waits() {
    let mut world = World::new(1);
    let idle = world.connected(A);
    let waiting = world.connected("198.51.100.8:4000");
    let id = world.clients[waiting].ask(&query(Kind::Later, 5));
    world.run();
    let now = world.now;
    world.server.finish(now, &mut world.host);
    world.run();
    assert_eq!(world.clients[idle].closed_for(), Some(DoqError::None as u64));
    assert_eq!(world.server.open(), 1);
    world.reply_late();
    world.run();
    assert_eq!(world.clients[waiting].replies[&id.index()], Ok(framed(&query(Kind::Later, 5))));
    world.pass(Duration::from_secs(2));
    world.check_empty();
}

/// Datagrams of unknown clients: random octets, and the first datagrams of a client with changed
/// octets.
#[test]
fn mutated_datagrams_do_no_harm() {
    let mut world = World::new(7);
    let good = world.connected(A);
    let mut random = 0x1234_5678_9abc_def1_u64;
    let mut draw = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit as u64) as usize
    };
    for round in 0..300 {
        let one = world.connect(&format!("203.0.113.5:{}", 1_000 + round));
        let addr = world.clients[one].addr;
        let flight = world.first_flight(one);
        world.clients.pop();
        for mut datagram in flight {
            for _ in 0..1 + draw(4) {
                let at = draw(datagram.len());
                datagram[at] = draw(256) as u8;
            }
            datagram.truncate(datagram.len() - draw(8));
            world.deliver_to_server(addr, &datagram);
            let noise: Vec<u8> = (0..draw(1_400)).map(|_| draw(256) as u8).collect();
            world.deliver_to_server(addr, &noise);
        }
        world.run();
    }
    assert!(world.server.held() == 0);
    world.clients[good].ask(&query(Kind::Echo, 1));
    world.run();
    assert_eq!(world.clients[good].replies.len(), 1);
    world.pass(Duration::from_secs(60));
    world.check_empty();
}

/// The client of this crate with the server of this crate, without a simulated network.
#[test]
fn the_client_of_this_crate_asks_and_reads() {
    let mut world = World::new(1);
    let settings = QuicSettings::new(world.trust.clone(), QuicProtocol::Doq).unwrap();
    let (server, addr) = ("192.0.2.1:853".parse().unwrap(), A.parse().unwrap());
    let mut client = QuicClient::connect(&settings, server, "dns.example", world.now).unwrap();
    let (mut asked, mut replies) = (0, Vec::new());
    for _ in 0..200 {
        let mut datagrams = Vec::new();
        while let Some(octets) = client.transmit(world.now) {
            datagrams.push(octets.to_vec());
        }
        datagrams.iter().for_each(|octets| world.deliver_to_server(addr, octets));
        for (_, octets) in world.take_sent() {
            client.receive(world.now, server, &octets);
        }
        while client.may_ask() && asked < 150 {
            let kind = if asked % 50 == 0 { Kind::Never } else { Kind::Echo };
            assert!(client.ask(&query(kind, asked as u8)).is_some());
            asked += 1;
        }
        world.now += Duration::from_millis(1);
        client.fire(world.now);
        replies.extend(std::iter::from_fn(|| client.next_reply()));
    }
    assert_eq!((asked, replies.len()), (150, 150));
    let failed = replies.iter().filter(|reply| reply.result.is_err()).count();
    assert_eq!(failed, 3);
}

/// Writes octets on a new unidirectional stream.
fn write_uni(world: &mut World, client: usize, octets: &[u8]) -> quinn_proto::StreamId {
    let connection = &mut world.clients[client].connection;
    let id = connection.streams().open(Dir::Uni).unwrap();
    connection.send_stream(id).write(octets).unwrap();
    id
}

#[test]
fn the_client_of_this_crate_asks_over_http3() {
    let mut world = World::serving(QuicProtocol::H3, 1);
    let settings = QuicSettings::new(world.trust.clone(), QuicProtocol::H3).unwrap();
    let (server, addr) = ("192.0.2.1:443".parse().unwrap(), A.parse().unwrap());
    let mut client = QuicClient::connect(&settings, server, "dns.example", world.now).unwrap();
    let (mut asked, mut replies) = (0_u8, Vec::new());
    for _ in 0..200 {
        let mut datagrams = Vec::new();
        while let Some(octets) = client.transmit(world.now) {
            datagrams.push(octets.to_vec());
        }
        datagrams.iter().for_each(|octets| world.deliver_to_server(addr, octets));
        for (_, octets) in world.take_sent() {
            client.receive(world.now, server, &octets);
        }
        while client.may_ask() && asked < 100 {
            let method = if asked % 2 == 0 { HttpMethod::Get } else { HttpMethod::Post };
            let path = if asked % 10 == 9 { "/elsewhere" } else { "/dns-query" };
            let message = query(Kind::Echo, asked);
            assert!(client.ask_http(("dns.example", path), &message, method).is_some());
            asked += 1;
        }
        world.now += Duration::from_millis(1);
        client.fire(world.now);
        replies.extend(std::iter::from_fn(|| client.next_reply()));
    }
    assert_eq!((asked, replies.len()), (100, 100));
    for reply in replies {
        match reply.result {
            Ok(message) => assert_eq!(message, query(Kind::Echo, reply.request as u8)),
            Err(error) => {
                assert_eq!(reply.request % 10, 9);
                assert!(error.to_string().contains("404"), "{error}");
            }
        }
    }
}

/// The control stream of HTTP/3: the type of the stream, and settings.
const SETTINGS: [u8; 3] = [0, 4, 0];

#[test]
fn violations_of_http3_end_the_connection_with_their_error() {
    for (uni, bi, expected) in [
        (&[&SETTINGS[..], &SETTINGS][..], &b""[..], 0x103),
        (&[&[0, 0x21, 0]], b"", 0x10a),
        (&[&[1]], b"", 0x103),
        (&[&SETTINGS, &[2, 0x3f, 0xe1, 0x1f]], b"", 0x201),
        (&[&SETTINGS], b"\x00\x01x", 0x105),
        (&[&SETTINGS], b"\x01\x03\x00\x00\x80", 0x200),
        (&[&SETTINGS], b"\x04\x00", 0x105),
    ] {
        let mut world = World::serving(QuicProtocol::H3, 1);
        let one = world.connected(A);
        for octets in uni {
            write_uni(&mut world, one, octets);
        }
        if !bi.is_empty() {
            world.clients[one].write(bi);
        }
        world.run();
        assert_eq!(world.clients[one].closed_for(), Some(expected), "{uni:?} {bi:?}");
        assert_eq!(world.server.counts().violations, 1);
        world.check_empty();
    }
}

#[test]
fn the_control_stream_must_not_end_and_others_have_no_meaning() {
    let mut world = World::serving(QuicProtocol::H3, 1);
    let one = world.connected(A);
    // The client opens more streams than permitted at a time, but the server stops each of them
    // before the next.
    for _ in 0..50 {
        write_uni(&mut world, one, &[0x21, 1, 2, 3]);
        world.run();
    }
    assert!(world.clients[one].ended.is_none());
    let control = write_uni(&mut world, one, &SETTINGS);
    world.run();
    world.clients[one].finish(control);
    world.run();
    assert_eq!(world.clients[one].closed_for(), Some(0x104));
    world.check_empty();
}

#[test]
fn a_malformed_request_ends_its_stream_only() {
    let mut world = World::serving(QuicProtocol::H3, 1);
    let one = world.connected(A);
    // A header block without fields, and a request that ends in a frame.
    for octets in [&b"\x01\x02\x00\x00"[..], b"\x01\x20\x00"] {
        let id = world.clients[one].write(octets);
        world.clients[one].finish(id);
        world.run();
        assert_eq!(world.clients[one].replies[&id.index()], Err(0x10e));
    }
    assert!(world.clients[one].ended.is_none());
    assert_eq!(world.server.held(), 0);
}
