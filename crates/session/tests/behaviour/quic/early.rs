//! Early data over QUIC: queries of a resumed session before the end of the handshake.

use std::time::Duration;

use super::A;
use super::world::{World, framed};

/// A query with this QTYPE, for `a.`. The server answers it with its own octets.
fn query_of_type(qtype: u8) -> Vec<u8> {
    let header = [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], b"\x01a\0\0", &[qtype, 0, 1]].concat()
}

#[test]
fn early_queries_are_answered_before_the_end_of_the_handshake_and_copies_are_not() {
    let mut world = World::early();
    let one = world.connected(A);
    world.clients[one].ask(&query_of_type(1));
    world.run();
    assert_eq!((world.host.answered, world.server.counts().early), (1, 0));

    let two = world.connect("198.51.100.8:40000");
    assert!(world.clients[two].connection.has_0rtt());
    let client = &mut world.clients[two];
    let [early, transfer] = [1, 252].map(|qtype| client.ask(&query_of_type(qtype)));
    let addr = client.addr;
    let flight = world.first_flight(two);
    for datagram in &flight {
        world.deliver_to_server(addr, datagram);
    }
    let sent = world.take_sent();
    assert_eq!(world.host.answered, 2, "a transfer waits for the end of the handshake");
    let octets = |all: &[Vec<u8>]| all.iter().map(Vec::len).sum::<usize>();
    let replied: Vec<_> = sent.iter().map(|(_, octets)| octets.clone()).collect();
    assert!(octets(&replied) <= 3 * octets(&flight), "the address is not proven");

    // Another host has a copy of the datagrams.
    let copied = "203.0.113.9:40000".parse().unwrap();
    for datagram in &flight {
        world.deliver_to_server(copied, datagram);
    }
    world.take_sent();
    assert_eq!(world.host.answered, 2, "the session can be resumed once");

    for (peer, octets) in sent {
        world.deliver_to_client(peer, &octets);
    }
    world.run();
    let client = &world.clients[two];
    assert!(client.connection.accepted_0rtt());
    for (id, qtype) in [(early, 1), (transfer, 252)] {
        assert_eq!(client.replies[&id.index()], Ok(framed(&query_of_type(qtype))));
    }
    assert_eq!((world.host.answered, world.server.counts().early), (3, 1));
    world.pass(Duration::from_secs(60));
    world.check_empty();
}

#[test]
fn a_server_without_early_data_offers_none() {
    let mut world = World::early();
    let listener = World::new(1).host.listener;
    world.host.listener = listener;
    world.connected(A);
    let two = world.connect("198.51.100.8:40000");
    assert!(!world.clients[two].connection.has_0rtt());
}
