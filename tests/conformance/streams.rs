//! Connections: pipelining, order, and clients that hold connections open (S35, F21; RFC 7766, RFC
//! 7828).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use avocet_wire::Rcode;
use avocet_wire::edns::option;

use crate::harness::client::frame;
use crate::harness::{Ask, Reply, Scripted, Setup, Tcp, Udp, http_get, peers, until};

/// Queries written at once.
const PIPELINED: u16 = 1000;
/// Descriptors available to the server.
const FEW_FILES: usize = 96;
/// Connections that are opened: more than there are descriptors.
const MANY_CONNECTIONS: usize = 300;

fn quick() -> Ask {
    Ask::of("quick.example.", "A")
}

#[test]
fn a_later_query_is_answered_before_an_earlier_one_that_waits() {
    let upstream = Scripted::start(|query| match query.qname().as_str() {
        "slow.example." => query.answer().own(60, "A", "192.0.2.2").hold(),
        _ => query.answer().own(60, "A", "192.0.2.1").send(),
    });
    let server = Setup::forwarding_to(upstream.addr).start();
    server.ask(&quick());
    let mut connection = Tcp::to(server.addr);
    let slow = Ask::of("slow.example.", "A").id(1).octets();
    connection
        .send_raw(&[frame(&slow), frame(&quick().id(2).octets())].concat())
        .expect("an open connection");
    assert_eq!(Reply::read(&connection.receive().expect("an answer")).header.id, 2);
    until("the slow query reaches the upstream", || (upstream.held() > 0).then_some(()));
    upstream.release();
    assert_eq!(Reply::read(&connection.receive().expect("an answer")).header.id, 1);
}

fn pipeline(ask: impl Fn(u16) -> Ask) {
    let upstream = Scripted::plain(600);
    let server = Setup::forwarding_to(upstream.addr).start();
    server.ask(&quick());
    let mut connection = Tcp::to(server.addr);
    let all: Vec<u8> = (0..PIPELINED).flat_map(|id| frame(&ask(id).id(id).octets())).collect();
    connection.send_raw(&all).expect("an open connection");
    let mut ids = BTreeSet::new();
    for _ in 0..PIPELINED {
        let reply = Reply::read(&connection.receive().expect("an answer"));
        assert_eq!((reply.rcode, reply.answer.len()), (Rcode::NOERROR, 1));
        assert_eq!(reply.question, ask(reply.header.id).question());
        ids.insert(reply.header.id);
    }
    assert_eq!(ids.len(), usize::from(PIPELINED));
}

#[test]
fn a_thousand_queries_in_one_write_are_all_answered_from_the_cache() {
    pipeline(|_| quick());
}

#[test]
fn a_thousand_queries_in_one_write_are_all_answered_through_the_upstream() {
    pipeline(|number| Ask::of(&format!("n{number}.example."), "A"));
}

#[test]
fn queries_before_the_end_of_a_stream_are_answered() {
    let upstream = Scripted::plain(600);
    let server = Setup::forwarding_to(upstream.addr).start();
    let mut connection = Tcp::to(server.addr);
    connection.send(&Ask::of("last.example.", "A").octets()).expect("an open connection");
    connection.end_sending();
    assert!(connection.receive().is_some());
    assert!(connection.ends());
}

#[test]
fn a_client_at_its_limit_gets_the_place_of_an_idle_connection() {
    let server = Setup::plain().http().server("tcp-connections-per-client = 5").start();
    let chaos = Ask::of("version.bind.", "TXT").class(avocet_wire::Class::CH);
    let mut open: Vec<Tcp> = Vec::new();
    for _ in 0..25 {
        let mut next = Tcp::to(server.addr);
        next.ask(&chaos);
        open.push(next);
    }
    until("those over the limit are closed", || {
        let text = http_get(server.http, "/metrics");
        let open = text.lines().find_map(|line| line.strip_prefix("avocet_tcp_connections "))?;
        open.parse::<u32>().is_ok_and(|open| open == 5).then_some(())
    });
    assert!(
        open.last_mut().is_some_and(|last| last.exchange(&chaos.octets()).is_some()),
        "the last one stays"
    );
    assert!(open.first_mut().is_some_and(Tcp::ends), "the one that was idle longest makes room");
}

#[test]
fn a_client_whose_connections_are_all_busy_is_refused_another() {
    let upstream = Scripted::start(|query| query.answer().own(60, "A", "192.0.2.1").hold());
    let keys = "workers = 1\ntcp-connections-per-client = 5";
    let server = Setup::forwarding_to(upstream.addr).server(keys).start();
    let mut open: Vec<Tcp> = (0..5).map(|_| Tcp::to(server.addr)).collect();
    for (number, connection) in open.iter_mut().enumerate() {
        let ask = Ask::of(&format!("b{number}.example."), "A");
        connection.send(&ask.octets()).expect("an open connection");
    }
    until("all wait", || (upstream.held() >= 5).then_some(()));
    assert!(Tcp::to(server.addr).ends(), "the sixth is closed");
    upstream.release();
    assert!(open.iter_mut().all(|connection| connection.receive().is_some()));
    let chaos = Ask::of("version.bind.", "TXT").class(avocet_wire::Class::CH);
    assert!(Tcp::to(server.addr).exchange(&chaos.octets()).is_some(), "now they are idle");
}

#[test]
fn connections_of_clients_that_are_not_allowed_take_no_place() {
    let keys = "allow = [\"127.0.0.2\"]\ntcp-connections = 10\nworkers = 1";
    let server = Setup::plain().listen("0.0.0.0", "127.0.0.1").server(keys).start();
    let chaos = Ask::of("version.bind.", "TXT").class(avocet_wire::Class::CH);
    let mut allowed = Tcp::from(std::net::Ipv4Addr::new(127, 0, 0, 2), server.addr);
    allowed.ask(&chaos);
    let mut strangers: Vec<Tcp> = (0..100).map(|_| Tcp::to(server.addr)).collect();
    assert!(strangers.iter_mut().all(Tcp::ends));
    allowed.ask(&chaos);
}

#[test]
fn idle_connections_make_room_for_those_that_ask() {
    let upstream = Scripted::plain(600);
    let limits = "tcp-connections = 40\ntcp-connections-per-client = 1000";
    let server = Setup::forwarding_to(upstream.addr).server(limits).start();
    server.ask(&quick());
    // Half of them are silent, half have sent part of a query.
    let mut holders: Vec<Tcp> = (0..120).map(|_| Tcp::to(server.addr)).collect();
    for holder in holders.iter_mut().skip(1).step_by(2) {
        let _ = holder.send_raw(&[0]);
    }
    for number in 0..20 {
        assert_eq!(server.ask(&quick()).rcode, Rcode::NOERROR);
        assert_eq!(server.ask_tcp(&quick()).rcode, Rcode::NOERROR);
        assert_eq!(
            server.ask_tcp(&Ask::of(&format!("c{number}.example."), "A")).rcode,
            Rcode::NOERROR
        );
    }
}

#[test]
fn a_query_octet_by_octet_has_an_end() {
    let server = Setup::plain().server("tcp-read-ms = 300\ntcp-idle-ms = 60000").start();
    let mut connection = Tcp::to(server.addr);
    let mut watcher = connection.second_handle();
    let closed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(watcher.ends());
            closed.store(true, Ordering::Relaxed);
        });
        // One octet at a time: never silent, and never complete.
        connection.send_raw(&[0xff, 0xff]).expect("an open connection");
        until("the server closes", || {
            let _ = connection.send_raw(&[0]);
            closed.load(Ordering::Relaxed).then_some(())
        });
    });
}

#[test]
fn a_silent_connection_is_closed_after_the_time_that_keepalive_tells() {
    let server = Setup::plain().server("tcp-idle-ms = 700").start();
    let mut connection = Tcp::to(server.addr);
    let chaos = Ask::of("version.bind.", "TXT").class(avocet_wire::Class::CH).edns(1232);
    let reply = connection.ask(&chaos.clone().option(option::TCP_KEEPALIVE, b""));
    assert_eq!(reply.option(option::TCP_KEEPALIVE), Some(&[0, 7][..]), "units of 100 ms");
    assert_eq!(connection.ask(&chaos).option(option::TCP_KEEPALIVE), None, "not asked for");
    assert!(connection.ends());
    let over_udp = server.ask(&chaos.option(option::TCP_KEEPALIVE, b""));
    assert_eq!(over_udp.option(option::TCP_KEEPALIVE), None);
}

#[test]
fn few_descriptors_and_many_idle_connections_do_not_stop_the_server() {
    if !peers::is_installed("prlimit") {
        return;
    }
    let upstream = Scripted::plain(600);
    let limit = format!("--nofile={FEW_FILES}:{FEW_FILES}");
    let setup = Setup::forwarding_to(upstream.addr).wrapper(&["prlimit", &limit]);
    let server = setup.server("tcp-connections-per-client = 1000").start();
    server.ask(&quick());
    let held: Vec<_> =
        (0..MANY_CONNECTIONS).filter_map(|_| Tcp::try_to(server.addr).ok()).collect();
    assert_eq!(held.len(), MANY_CONNECTIONS);
    for number in 0..10 {
        assert_eq!(server.ask(&quick()).rcode, Rcode::NOERROR);
        assert_eq!(
            server.ask(&Ask::of(&format!("u{number}.example."), "A")).rcode,
            Rcode::NOERROR,
            "u{number}"
        );
        assert_eq!(server.ask_tcp(&quick()).rcode, Rcode::NOERROR);
    }
    drop(held);
    for number in 0..10 {
        assert_eq!(
            server.ask_tcp(&Ask::of(&format!("t{number}.example."), "A")).rcode,
            Rcode::NOERROR
        );
    }
    // The server keeps serving UDP throughout.
    let client = Udp::to(server.addr);
    assert_eq!(client.ask(&quick()).rcode, Rcode::NOERROR);
}
