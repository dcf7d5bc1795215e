//! Tests of the share of a worker's time that one client can take from others.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::server::{PATIENCE, Server, Site, ask_patiently, query, udp_client};
use crate::upstream::Upstream;

/// Connections of the client.
const CONNECTIONS: usize = 8;
/// Most cheap queries, if the expensive ones are never answered.
const MAX_ROUNDS: usize = 100_000;
/// Queries on each of them, fewer than may be in flight.
const QUERIES: usize = 100;

/// A list whose patterns use up the work that a name may cause.
fn hostile() -> String {
    (0..80).map(|number| format!("aaa[a-z.]{{0,{}}}[0-9]\n", 100 + number)).collect()
}

/// A name in a zone that the list makes expensive. No other server is asked for one in `invalid`.
fn expensive(number: usize, zone: &str) -> String {
    let label = "a".repeat(60);
    format!("q{number}.{label}.{label}.{label}.{zone}")
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Reads replies with this RCODE to the end of the connection, and counts them.
fn count_replies(mut stream: TcpStream, rcode: u8, replies: &AtomicUsize) {
    let mut len = [0; 2];
    for _ in 0..QUERIES {
        stream.read_exact(&mut len).unwrap();
        let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[3] & 0xf, rcode);
        replies.fetch_add(1, Ordering::SeqCst);
    }
}

/// A server with one worker and the list.
fn with_hostile_list(upstream: SocketAddr) -> (Site, Server) {
    let site = Site::new();
    fs::write(site.directory.join("evil.txt"), hostile()).unwrap();
    let list = "[[list]]\nname = \"evil\"\nfile = \"evil.txt\"\nformat = \"pihole-regex\"\n";
    site.configure(upstream, "workers = 1", list);
    let server = site.start();
    (site, server)
}

/// Sends cheap queries until all replies of the others have arrived. Between two cheap answers,
/// fewer than half of these replies may arrive: a turn of the worker's event loop has a time limit,
/// so it cannot answer all the others.
fn stays_prompt(cheap: impl Fn(), replies: &AtomicUsize, total: usize) {
    let (mut before, mut rounds) = (replies.load(Ordering::SeqCst), 0);
    while before < total {
        assert!(rounds < MAX_ROUNDS, "{before} of {total}");
        cheap();
        let now = replies.load(Ordering::SeqCst);
        assert!(now - before < total / 2, "{} of {total} in one round", now - before);
        (before, rounds) = (now, rounds + 1);
    }
    assert!(rounds > 2, "{rounds} rounds");
}

#[test]
fn datagrams_do_not_wait_for_the_expensive_queries_of_connections() {
    let upstream = Upstream::start();
    let (site, server) = with_hostile_list(upstream.addr);
    let client = udp_client();
    let cheap = || drop(ask_patiently(&client, site.dns, "www.example"));
    cheap();
    let (replies, total) = (AtomicUsize::new(0), CONNECTIONS * QUERIES);
    thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(site.dns).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let queries: Vec<_> = (0..QUERIES)
                .flat_map(|number| {
                    framed(&query(7, &expensive(connection * QUERIES + number, "invalid")))
                })
                .collect();
            stream.write_all(&queries).unwrap();
            let replies = &replies;
            scope.spawn(move || count_replies(stream, 0, replies));
        }
        stays_prompt(cheap, &replies, total);
    });
    let cut_short = site.metric("avocet_list_lookups_cut_short_total");
    assert!(cut_short > total as f64 / 2.0, "{cut_short}: the queries are cheap");
    assert!(site.metric("avocet_turns_cut_short_total") > 0.0);
    server.stop();
}

/// Answers `www.example` at once, and all other questions together, once this many have come: each
/// with an alias that is expensive.
fn answer_together(socket: &UdpSocket, questions: usize) {
    const HEADER: usize = 12;
    let (mut waiting, mut octets) = (HashMap::new(), [0; 4_096]);
    while waiting.len() < questions {
        let (len, from) = socket.recv_from(&mut octets).unwrap();
        let labels = octets[HEADER..len].iter().position(|octet| *octet == 0).unwrap();
        let end = HEADER + labels + 5;
        let mut reply = octets[..end].to_vec();
        reply[2..HEADER].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0]);
        let name = octets[HEADER..end].to_ascii_lowercase();
        let number = waiting.len();
        let alias = query(0, &expensive(number, "example"))[HEADER..].to_vec();
        let alias = &alias[..alias.len() - 4];
        if name.starts_with(b"\x03www") {
            reply[7] = 1;
            reply.extend(b"\xc0\x0c\0\x01\0\x01\0\0\x01\x2c\0\x04\xc0\0\x02\x4d");
            socket.send_to(&reply, from).unwrap();
            continue;
        }
        reply.extend(b"\xc0\x0c\0\x05\0\x01\0\0\x01\x2c");
        reply.extend((alias.len() as u16).to_be_bytes());
        reply.extend(alias);
        reply.extend(alias);
        reply.extend(b"\0\x01\0\x01\0\0\x01\x2c\0\x04\xc0\0\x02\x4d");
        waiting.insert(name, (reply, from));
    }
    for (reply, from) in waiting.values() {
        socket.send_to(reply, from).unwrap();
    }
}

#[test]
fn datagrams_do_not_wait_for_expensive_answers_of_upstreams() {
    let upstream = crate::server::udp_socket();
    upstream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (site, server) = with_hostile_list(upstream.local_addr().unwrap());
    let client = udp_client();
    let replies = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| answer_together(&upstream, QUERIES));
        let cheap = || drop(ask_patiently(&client, site.dns, "www.example"));
        cheap();
        let mut stream = TcpStream::connect(site.dns).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let queries: Vec<_> = (0..QUERIES)
            .flat_map(|number| framed(&query(7, &format!("w{number}.example"))))
            .collect();
        stream.write_all(&queries).unwrap();
        scope.spawn(|| count_replies(stream, 0, &replies));
        stays_prompt(cheap, &replies, QUERIES);
    });
    assert!(site.metric("avocet_list_lookups_cut_short_total") > QUERIES as f64 / 2.0);
    server.stop();
}
