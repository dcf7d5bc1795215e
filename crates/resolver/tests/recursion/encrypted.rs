//! Unilateral probing of authoritative servers over TLS (RFC 9539): once a server has answered over
//! TLS, queries to it are encrypted. No client waits for TLS.

use std::net::IpAddr;

use avocet_resolver::{Recursion, SocketFault, SocketId};
use avocet_wire::Rcode;

use crate::world::{TlsPort, World, authority, recursion};

const ROOT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const TEST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

/// Returns a world with the root at .1, and with test. at .2, which has the names a. to j.
fn world(recursion: Recursion) -> World {
    let mut world = World::new(recursion);
    let down = ["au test. 86400 NS ns.test.", "ad ns.test. 86400 A 192.0.2.2"];
    world.serve(1, authority(".", &[("*test. A", &down)]));
    world.serve(2, names());
    world
}

fn names() -> crate::world::Script {
    let names: Vec<(String, String)> = ('a'..='j')
        .map(|name| (format!("{name}.test. A"), format!("an {name}.test. 60 A 198.51.100.1")))
        .collect();
    let records: Vec<[&str; 1]> = names.iter().map(|(_, record)| [record.as_str()]).collect();
    let answers: Vec<(&str, &[&str])> = names
        .iter()
        .zip(&records)
        .map(|((question, _), records)| (question.as_str(), &records[..]))
        .collect();
    authority("test.", &answers)
}

fn encrypting() -> Recursion {
    Recursion { encrypt: true, ..recursion() }
}

/// Resolves names, and returns the queries.
fn resolve(world: &mut World, names: &str) -> Vec<String> {
    world.take_sent();
    for name in names.chars() {
        let answer = world.resolve(&format!("{name}.test. A"));
        assert_eq!(answer.rcode, Rcode::NOERROR, "{name}");
    }
    world.take_sent()
}

fn connection(world: &World) -> SocketId {
    *world.tls_open.keys().next().expect("there is a connection")
}

#[test]
fn queries_leave_encrypted_once_a_connection_has_answered() {
    let mut world = world(encrypting());
    world.tls.insert(TEST, TlsPort::Answers(0));
    assert_eq!(resolve(&mut world, "a"), ["1: a.test. A", "2: a.test. A"], "nothing is known");
    assert_eq!(
        resolve(&mut world, "b"),
        ["2: b.test. A", "2: b.test. A by TLS"],
        "the server answers, so that it is probed"
    );
    assert_eq!(resolve(&mut world, "cd"), ["2: c.test. A by TLS", "2: d.test. A by TLS"]);
    let counters = world.counters();
    assert_eq!((counters.probes_succeeded, counters.probes_failed), (1, 0));
    assert_eq!(counters.sent_encrypted, 2, "the copy of a plain query hides nothing");
}

#[test]
fn without_the_setting_no_server_is_probed() {
    let mut world = world(recursion());
    world.tls.insert(TEST, TlsPort::Answers(0));
    assert!(!resolve(&mut world, "abcd").iter().any(|sent| sent.ends_with("TLS")));
}

#[test]
fn while_a_handshake_takes_its_time_queries_leave_in_plain_and_no_client_waits() {
    let mut world = world(encrypting());
    world.tls.insert(TEST, TlsPort::Answers(2_000));
    resolve(&mut world, "a");
    let mut took_ms = Vec::new();
    for name in ["b", "c"] {
        let client = IpAddr::from([198, 51, 100, 9]);
        let waiter = world.submit(&format!("{name}.test. A"), client).unwrap();
        world.run_for(1_000);
        took_ms.push(world.answer_to(waiter).expect("an answer").took_ms);
    }
    assert_eq!(took_ms, [took_ms[0]; 2]);
    let expected = ["2: b.test. A", "2: b.test. A by TLS", "2: c.test. A"];
    assert_eq!(world.take_sent(), expected);
    world.run_for(2_000);
    assert_eq!(resolve(&mut world, "d"), ["2: d.test. A by TLS"]);
}

#[test]
fn a_dead_port_costs_one_connection_a_day_and_no_time() {
    let [mut plain, mut encrypting] = [world(recursion()), world(encrypting())];
    for name in "abcdef".chars() {
        let what = format!("{name}.test. A");
        assert_eq!(encrypting.resolve(&what).took_ms, plain.resolve(&what).took_ms, "{name}");
    }
    let by_tls =
        |world: &mut World| world.take_sent().iter().filter(|sent| sent.ends_with("TLS")).count();
    assert_eq!(by_tls(&mut encrypting), 1);
    assert_eq!(encrypting.counters().probes_failed, 1);
    encrypting.pass(86_300);
    resolve(&mut encrypting, "g");
    assert_eq!(by_tls(&mut encrypting), 0);
    encrypting.pass(200);
    assert!(resolve(&mut encrypting, "h").contains(&"2: h.test. A by TLS".to_owned()));
}

#[test]
fn a_silent_port_costs_no_time_and_is_given_up_with_its_connection() {
    let [mut plain, mut encrypting] = [world(recursion()), world(encrypting())];
    encrypting.tls.insert(TEST, TlsPort::Silent);
    for name in "abcd".chars() {
        let what = format!("{name}.test. A");
        assert_eq!(encrypting.resolve(&what).took_ms, plain.resolve(&what).took_ms, "{name}");
    }
    let socket = connection(&encrypting);
    encrypting.end_tls(socket, SocketFault::Tls(avocet_resolver::TlsFault::Slow));
    assert_eq!(encrypting.counters().probes_failed, 1);
    encrypting.tls.insert(TEST, TlsPort::Answers(0));
    assert_eq!(resolve(&mut encrypting, "e"), ["2: e.test. A"]);
}

#[test]
fn a_server_that_falls_silent_over_tls_is_asked_in_plain_as_soon_as_a_datagram_would_be_repeated() {
    let mut world = world(encrypting());
    world.tls.insert(TEST, TlsPort::Answers(0));
    resolve(&mut world, "abc");
    world.tls.insert(TEST, TlsPort::Silent);
    let answer = world.resolve("d.test. A");
    assert_eq!(answer.rcode, Rcode::NOERROR);
    assert!(answer.took_ms <= 400, "the wait for a datagram: {} ms", answer.took_ms);
    assert_eq!(world.take_sent(), ["2: d.test. A by TLS", "2: d.test. A"]);
    assert_eq!(resolve(&mut world, "e"), ["2: e.test. A"], "it is still silent");
    let socket = connection(&world);
    world.end_tls(socket, SocketFault::Closed);
    assert_eq!(resolve(&mut world, "f"), ["2: f.test. A"], "not at once again");
    world.tls.insert(TEST, TlsPort::Answers(0));
    world.pass(61);
    resolve(&mut world, "g");
    assert_eq!(resolve(&mut world, "h"), ["2: h.test. A by TLS"], "it has worked before");
}

#[test]
fn queries_of_a_lost_connection_leave_in_plain_at_once() {
    let mut world = world(encrypting());
    world.tls.insert(TEST, TlsPort::Answers(0));
    resolve(&mut world, "abc");
    world.tls.insert(TEST, TlsPort::Silent);
    let waiter = world.submit("d.test. A", IpAddr::from([198, 51, 100, 9])).unwrap();
    let socket = connection(&world);
    world.end_tls(socket, SocketFault::Closed);
    world.run();
    assert_eq!(world.answer_to(waiter).unwrap().rcode, Rcode::NOERROR);
    assert_eq!(world.take_sent(), ["2: d.test. A by TLS", "2: d.test. A"]);
}

#[test]
fn a_resolver_on_the_port_is_no_authority() {
    let mut world = world(encrypting());
    world.tls.insert(TEST, TlsPort::Refuses);
    resolve(&mut world, "ab");
    assert!(world.tls_open.is_empty());
    assert_eq!(world.counters().probes_failed, 1);
    assert_eq!(resolve(&mut world, "cd"), ["2: c.test. A", "2: d.test. A"]);
}

#[test]
fn a_server_that_refuses_a_zone_over_tls_is_asked_for_it_in_plain() {
    let mut world = world(encrypting());
    world.tls.insert(TEST, TlsPort::Answers(0));
    resolve(&mut world, "abc");
    world.tls.insert(TEST, TlsPort::Refuses);
    assert_eq!(resolve(&mut world, "d"), ["2: d.test. A by TLS", "2: d.test. A"]);
    assert_eq!(resolve(&mut world, "e"), ["2: e.test. A"]);
    world.tls.insert(ROOT, TlsPort::Answers(0));
    assert_eq!(world.counters().lame, 0, "the plain server serves the zone");
}

#[test]
fn a_server_that_has_never_answered_is_not_probed() {
    let mut world = world(encrypting());
    world.tls.insert(TEST, TlsPort::Answers(0));
    world.serve(2, Box::new(|_| None));
    assert_eq!(world.resolve("a.test. A").rcode, Rcode::SERVFAIL);
    let sent = world.take_sent();
    assert!(sent.len() > 2 && !sent.iter().any(|sent| sent.ends_with("TLS")), "{sent:?}");
}
