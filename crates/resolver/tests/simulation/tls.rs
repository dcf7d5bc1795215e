//! Upstreams with TLS. The driver owns the connections, and the resolver handles their failures.

use avocet_resolver::{Endpoint, PeerId, SocketFault, SocketSlot, Strategy, TlsFault, Transport};
use avocet_testkit::Faults;
use avocet_wire::{Ede, Rcode};

use super::world::{START_MS, Tcp, World, addr, address, any_address, plan, rule};

const ANSWER: &[&str] = &["answer www.example. 300 A 192.0.2.80"];

/// Returns a world with these upstreams with TLS, which answer.
fn world(strategy: Strategy, servers: &[u8]) -> World {
    let mut rule = rule(".", servers);
    rule.strategy = strategy;
    for upstream in &mut rule.upstreams {
        upstream.transport = Transport::Tls(PeerId(7));
    }
    let mut world = World::new(1, Faults::NONE, plan(vec![rule]));
    servers.iter().for_each(|server| world.serve(*server, any_address));
    world
}

fn one() -> World {
    world(Strategy::Ordered, &[1])
}

fn slots(world: &World) -> Vec<SocketSlot> {
    world.sent.iter().map(|sent| sent.socket.slot).collect()
}

#[test]
fn queries_share_one_connection_are_padded_and_have_no_cookie() {
    let mut world = one();
    let waiters: Vec<u32> = (0..50).map(|host| world.ask(&format!("h{host}.example. A"))).collect();
    world.settle();
    assert!(waiters.iter().all(|waiter| world.answer_to(*waiter).rcode() == Rcode::NOERROR));
    assert_eq!(slots(&world), [SocketSlot::Stream; 50]);
    for sent in &world.sent {
        assert_eq!((sent.query.octets.len() % 128, sent.query.cookie.is_some()), (0, false));
    }
}

#[test]
fn a_failure_of_tls_is_told_and_nothing_is_sent_without_it() {
    for fault in TlsFault::ALL {
        let mut world = one();
        world.server(1).tcp = Tcp::Tls(fault);
        let answer = world.resolve("www.example. A");
        assert_eq!(answer.rcode(), Rcode::SERVFAIL, "{fault:?}");
        let (code, text) = answer.resolved.ede.unwrap();
        assert_eq!((code, text), (Ede::NETWORK_ERROR, fault.text()));
        assert!(world.sent.iter().all(|sent| sent.is_by_tcp()) && !world.sent.is_empty());
        let upstream = world.resolver.upstreams().next().unwrap();
        assert_eq!(upstream.tls_fault, Some(fault));
        assert!(upstream.counters.tls_faults[fault as usize] > 0);
        world.server(1).tcp = Tcp::Works;
        world.run(world.net.now_ms + 120_000);
        world.resolve("www.example. A").check(Rcode::NOERROR, ANSWER);
        assert_eq!(world.resolver.upstreams().next().unwrap().tls_fault, None);
    }
}

#[test]
fn another_upstream_answers_where_tls_fails() {
    for strategy in [Strategy::Ordered, Strategy::Race(2), Strategy::Fastest, Strategy::RoundRobin]
    {
        let mut world = world(strategy, &[1, 2]);
        world.server(1).tcp = Tcp::Tls(TlsFault::Name);
        for host in 0..20 {
            let answer = world.resolve(&format!("h{host}.example. A"));
            assert_eq!(answer.rcode(), Rcode::NOERROR, "{strategy:?}");
        }
    }
}

#[test]
fn no_answer_is_lost_to_a_server_that_closes_after_each() {
    let mut world = one();
    world.server(1).tcp = Tcp::ClosesAfterAnswer;
    let waiters: Vec<u32> = (0..50).map(|host| world.ask(&format!("h{host}.example. A"))).collect();
    world.settle();
    for waiter in waiters {
        assert_eq!(world.answer_to(waiter).rcode(), Rcode::NOERROR);
    }
    world.sent.clear();
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, ANSWER);
    assert!(matches!(slots(&world)[..], [SocketSlot::SingleStream(_)]), "its own connection");
}

#[test]
fn queries_in_flight_are_asked_again_where_the_connection_breaks() {
    let mut world = one();
    world.resolve("first.example. A");
    let waiters: Vec<u32> = (0..20).map(|host| world.ask(&format!("h{host}.example. A"))).collect();
    let connection = world.sent[0].socket;
    world.fail(connection, SocketFault::Closed);
    world.settle();
    for waiter in waiters {
        assert_eq!(world.answer_to(waiter).rcode(), Rcode::NOERROR);
    }
    assert_eq!(world.sent.len(), 1 + 2 * 20);
}

#[test]
fn a_silent_connection_is_left_for_another_that_answers() {
    let mut world = one();
    world.resolve("first.example. A");
    // The kept connection no longer transports data, but a new connection works.
    world.server(1).tcp = Tcp::Silent;
    let waiter = world.ask("www.example. A");
    world.run(START_MS + 500);
    world.server(1).tcp = Tcp::Works;
    world.settle();
    world.answer_to(waiter).check(Rcode::NOERROR, ANSWER);
    assert!(matches!(slots(&world)[..], [.., SocketSlot::Stream, SocketSlot::SingleStream(_)]));
}

#[test]
fn one_stalled_answer_holds_up_no_other() {
    let mut world = one();
    world.serve(1, |query| {
        let after = if query.question.starts_with(b"\x05stall") { 900 } else { 0 };
        vec![(after, address(query).octets())]
    });
    let stalled = world.ask("stall.example. A");
    for host in 0..20 {
        let waiter = world.ask(&format!("h{host}.example. A"));
        world.run(world.net.now_ms + 30);
        assert_eq!(world.answer_to(waiter).rcode(), Rcode::NOERROR);
    }
    world.settle();
    assert_eq!(world.answer_to(stalled).rcode(), Rcode::NOERROR);
    assert_eq!(slots(&world), [SocketSlot::Stream; 21]);
}

/// The timeout is in units of 100 milliseconds (RFC 7828 §3.1).
#[test]
fn the_server_says_how_long_an_idle_connection_is_kept() {
    let mut world = one();
    world.serve(1, |query| vec![(0, address(query).keepalive(300).octets())]);
    world.resolve("www.example. A");
    assert_eq!(world.kept_idle, [(world.sent[0].socket, 30_000)]);
}

#[test]
fn another_identity_at_the_same_address_is_another_server() {
    let mut world = one();
    world.resolve("www.example. A");
    let mut other = rule(".", &[1]);
    other.upstreams[0].transport = Transport::Tls(PeerId(8));
    world.reload(plan(vec![other]));
    world.resolve("other.example. A");
    let ids: Vec<_> = world.sent.iter().map(|sent| sent.socket.endpoint).collect();
    assert_ne!(ids[0], ids[1]);
    assert_eq!(world.forgotten, [ids[0]], "its connection is closed");
}

/// Returns a world with an upstream with TLS, and an upstream without TLS as a reserve.
fn reserved(strategy: Strategy) -> World {
    let mut rule = rule(".", &[1]);
    rule.strategy = strategy;
    rule.upstreams[0].transport = Transport::Tls(PeerId(7));
    rule.reserves.push(Endpoint { addr: addr(2), transport: Transport::Udp });
    let mut world = World::new(1, Faults::NONE, plan(vec![rule]));
    [1, 2].into_iter().for_each(|server| world.serve(server, any_address));
    world
}

const STRATEGIES: [Strategy; 4] =
    [Strategy::Ordered, Strategy::Race(2), Strategy::Fastest, Strategy::RoundRobin];

#[test]
fn a_reserve_gets_no_query_while_another_answers() {
    for strategy in STRATEGIES {
        let mut world = reserved(strategy);
        for host in 0..200 {
            let answer = world.resolve(&format!("h{host}.example. A"));
            assert_eq!(answer.rcode(), Rcode::NOERROR);
        }
        assert!(world.sent.iter().all(|sent| sent.to == addr(1)), "{strategy:?}");
    }
}

#[test]
fn a_reserve_answers_where_the_others_fail_until_they_are_back() {
    for strategy in STRATEGIES {
        for tcp in [Tcp::Refused, Tcp::Silent, Tcp::Closes, Tcp::Tls(TlsFault::Issuer)] {
            let mut world = reserved(strategy);
            world.server(1).tcp = tcp;
            for host in 0..20 {
                let answer = world.resolve(&format!("h{host}.example. A"));
                assert_eq!(answer.rcode(), Rcode::NOERROR, "{strategy:?} {tcp:?}");
                assert!(answer.at_ms - START_MS < 30_000, "the dead one is left alone");
            }
            world.server(1).tcp = Tcp::Works;
            world.run(world.net.now_ms + 120_000);
            if tcp == Tcp::Silent {
                // The driver closes a dead connection.
                world.fail(world.sent[0].socket, SocketFault::Closed);
            }
            world.resolve("probe.example. A");
            world.sent.clear();
            for host in 0..20 {
                world.resolve(&format!("later{host}.example. A"));
            }
            assert!(world.sent.iter().all(|sent| sent.to == addr(1)), "{strategy:?} {tcp:?}");
        }
    }
}
