//! Upstreams that get the client of each query, in a header of the PROXY protocol.

use std::net::IpAddr;

use avocet_cache::FailureKey;
use avocet_resolver::{
    HeaderPlace, Introduction, PeerId, SocketSlot, Strategy, Transport, ZoneRule,
};
use avocet_testkit::{Faults, Response, question};
use avocet_wire::proxy::{self, ProxiedBy};
use avocet_wire::{Question, Rcode};

use super::world::{Tcp, World, plan, rule};

fn client(last: u8) -> IpAddr {
    IpAddr::from([198, 51, 100, last])
}

fn header(client: Option<IpAddr>, by: ProxiedBy) -> Vec<u8> {
    let mut out = Vec::new();
    proxy::write(&mut out, client, by);
    out
}

fn introducing(zone: &str, server: u8) -> ZoneRule {
    let introduction = Introduction::ProxyHeader(HeaderPlace::InsideTls);
    ZoneRule { introduction, ..rule(zone, &[server]) }
}

/// Makes a server send a different address in each answer, so that two clients cannot get the same
/// address by chance.
fn serve_each(world: &mut World, server: u8) {
    let mut count = 0;
    world.serve(server, move |query| {
        count += 1;
        let record = format!("{} 300 A 192.0.2.{count}", query.qname);
        vec![(20, Response::to(query).answer(&record).octets())]
    });
}

fn world(rules: Vec<ZoneRule>) -> World {
    World::new(1, Faults::NONE, plan(rules))
}

/// Submits a question of a client.
fn ask_for(world: &mut World, client: Option<IpAddr>, what: &str) -> u32 {
    world.introduced = client;
    world.ask(what)
}

#[test]
fn each_client_has_its_own_query_and_answer() {
    let mut world = world(vec![introducing(".", 1)]);
    serve_each(&mut world, 1);
    let asked: Vec<u32> =
        (0..20).map(|at| ask_for(&mut world, Some(client(at)), "www.example. A")).collect();
    let again = ask_for(&mut world, Some(client(0)), "www.example. A");
    let expected: Vec<_> =
        (0..20).map(|at| header(Some(client(at)), ProxiedBy::Datagram)).collect();
    assert_eq!(
        world.headers, expected,
        "one each: the second question of a client joins its first"
    );
    world.settle();
    let mut answers: Vec<_> = asked.iter().map(|at| world.answer_to(*at).records).collect();
    assert_eq!(answers[0], world.answer_to(again).records);
    answers.sort();
    answers.dedup();
    assert_eq!(answers.len(), 20);
    for waiter in asked {
        assert_eq!(world.answer_to(waiter).resolved.ttl_secs, 0, "it is not kept");
    }
    assert_eq!(world.rrsets.stats().entries, 0);
    assert!(world.sent.iter().all(|sent| sent.query.cookie.is_none()));
}

#[test]
fn a_question_without_a_client_is_one_of_this_server() {
    let mut world = world(vec![introducing(".", 1)]);
    serve_each(&mut world, 1);
    let waiter = ask_for(&mut world, None, "www.example. A");
    world.settle();
    assert_eq!(world.headers, [header(None, ProxiedBy::Datagram)]);
    assert_eq!(world.answer_to(waiter).resolved.ttl_secs, 0);
    assert_eq!(world.rrsets.stats().entries, 0);
}

#[test]
fn a_failure_for_one_client_is_no_failure_for_others() {
    let mut world = world(vec![introducing(".", 1)]);
    world.serve(1, |query| vec![(0, Response::to(query).rcode(Rcode::SERVFAIL).octets())]);
    let failed = ask_for(&mut world, Some(client(1)), "www.example. A");
    world.settle();
    assert_eq!(world.answer_to(failed).rcode(), Rcode::SERVFAIL);
    let question = question("www.example. A");
    let question = Question::new(&question).unwrap();
    let now = (world.net.now_ms / 1000) as u32;
    let key = FailureKey { question, checking_disabled: false };
    assert!(world.failures.lookup(&key, now).is_none());
    serve_each(&mut world, 1);
    let other = ask_for(&mut world, Some(client(2)), "www.example. A");
    world.settle();
    assert_eq!(world.answer_to(other).rcode(), Rcode::NOERROR);
}

#[test]
fn a_connection_carries_the_queries_of_one_client() {
    for transport in [Transport::Tcp, Transport::Tls(PeerId(7)), Transport::Https(PeerId(7))] {
        let mut rule = introducing(".", 1);
        rule.upstreams[0].transport = transport;
        let mut world = world(vec![rule]);
        serve_each(&mut world, 1);
        for at in 0..100 {
            ask_for(&mut world, Some(client(at)), "www.example. A");
        }
        world.settle();
        let mut sockets: Vec<_> = world.sent.iter().map(|sent| sent.socket).collect();
        assert!(sockets.iter().all(|one| matches!(one.slot, SocketSlot::SingleStream(_))));
        sockets.sort_by_key(|one| one.slot.single());
        sockets.dedup();
        assert_eq!(sockets.len(), 100, "{transport:?}");
        let expected: Vec<_> =
            (0..100).map(|at| header(Some(client(at)), ProxiedBy::Stream)).collect();
        assert_eq!(world.headers, expected);
        assert_eq!(world.answers.len(), 100);
    }
}

#[test]
fn a_truncated_answer_is_asked_for_over_a_connection_with_the_same_client() {
    let mut world = world(vec![introducing(".", 1)]);
    world.serve(1, |query| {
        let response = Response::to(query);
        let response = match query.over_tcp {
            true => response.answer("www.example. 300 A 192.0.2.1"),
            false => response.truncated(),
        };
        vec![(0, response.octets())]
    });
    let waiter = ask_for(&mut world, Some(client(1)), "www.example. A");
    world.settle();
    assert_eq!(world.answer_to(waiter).rcode(), Rcode::NOERROR);
    let both = [ProxiedBy::Datagram, ProxiedBy::Stream];
    assert_eq!(world.headers, both.map(|by| header(Some(client(1)), by)));
    assert!(matches!(world.sent[1].socket.slot, SocketSlot::SingleStream(_)));
}

#[test]
fn a_race_names_the_client_to_each_and_a_broken_connection_is_replaced() {
    let mut rule = introducing(".", 1);
    rule.upstreams = super::world::rule(".", &[1, 2]).upstreams;
    rule.strategy = Strategy::Race(2);
    let mut world = world(vec![rule]);
    (1..=2).for_each(|server| serve_each(&mut world, server));
    for server in [1, 2] {
        world.server(server).tcp = Tcp::Closes;
    }
    let waiter = ask_for(&mut world, Some(client(1)), "www.example. A");
    world.settle();
    assert_eq!(world.answer_to(waiter).rcode(), Rcode::NOERROR);
    assert_eq!(world.headers, vec![header(Some(client(1)), ProxiedBy::Datagram); 2]);
}

/// Returns a world in which `www.example.` is an alias. Its server does not get the client, but the
/// server of the alias's target does.
fn aliased(in_flight: usize) -> World {
    let mut settings = super::world::settings();
    settings.in_flight = in_flight;
    let rules = vec![rule(".", &[1]), introducing("test.", 2)];
    let plan = avocet_resolver::Plan::new(rules, settings).unwrap();
    let mut world = World::new(1, Faults::NONE, plan.into());
    world.serve(1, |query| {
        vec![(20, Response::to(query).answer("www.example. 300 CNAME edge.test.").octets())]
    });
    serve_each(&mut world, 2);
    world
}

#[test]
fn clients_that_share_an_alias_part_where_servers_learn_them() {
    let mut world = aliased(4096);
    let asked: Vec<u32> =
        (0..10).map(|at| ask_for(&mut world, Some(client(at % 5)), "www.example. A")).collect();
    world.settle();
    assert_eq!((world.sent_to(1), world.sent_to(2)), (1, 5));
    let mut answers: Vec<_> = asked.iter().map(|at| world.answer_to(*at).records).collect();
    assert!(answers.iter().all(|records| records[0] == "answer www.example. 300 CNAME edge.test."));
    assert!((0..5).all(|at| answers[at] == answers[at + 5]), "one client, one answer");
    answers.sort();
    answers.dedup();
    assert_eq!(answers.len(), 5);
    for waiter in asked {
        assert_eq!(world.answer_to(waiter).resolved.ttl_secs, 0);
    }
    assert_eq!(world.rrsets.stats().entries, 1, "the alias, which is for all");
    let headers = world.headers.iter().filter(|header| !header.is_empty());
    let mut found: Vec<_> = headers.cloned().collect();
    found.sort();
    let expected: Vec<_> = (0..5).map(|at| header(Some(client(at)), ProxiedBy::Datagram)).collect();
    assert_eq!(found, expected);
    assert_eq!((world.resolver.in_flight(), world.resolver.waiting()), (0, 0));
}

#[test]
fn clients_without_room_for_their_part_fail_and_nothing_is_remembered_of_that() {
    // There is room for the shared question and for two of the questions into which it is split.
    let mut world = aliased(3);
    let asked: Vec<u32> =
        (0..5).map(|at| ask_for(&mut world, Some(client(at)), "www.example. A")).collect();
    world.settle();
    let answered =
        |rcode| asked.iter().filter(|waiter| world.answer_to(**waiter).rcode() == rcode).count();
    assert_eq!((answered(Rcode::NOERROR), answered(Rcode::SERVFAIL)), (2, 3));
    assert_eq!((world.resolver.in_flight(), world.resolver.waiting()), (0, 0));
    let again = ask_for(&mut world, Some(client(4)), "www.example. A");
    world.settle();
    assert_eq!(world.answer_to(again).rcode(), Rcode::NOERROR);
}

#[test]
fn what_other_servers_add_to_the_answer_for_a_client_is_still_for_all() {
    let mut world = world(vec![introducing(".", 1), rule("test.", &[2])]);
    world.serve(1, |query| {
        vec![(20, Response::to(query).answer("www.example. 300 CNAME edge.test.").octets())]
    });
    world.serve(2, |query| {
        vec![(20, Response::to(query).answer("edge.test. 300 A 192.0.2.9").octets())]
    });
    let waiter = ask_for(&mut world, Some(client(1)), "www.example. A");
    world.settle();
    let answer = world.answer_to(waiter);
    assert_eq!((answer.records.len(), answer.resolved.ttl_secs), (2, 0));
    assert_eq!(world.headers, [header(Some(client(1)), ProxiedBy::Datagram), Vec::new()]);
    assert_eq!(world.rrsets.stats().entries, 1, "the address");
}
