//! Failures of servers, networks and clocks during recursion: the answers, and the number of
//! queries.

use avocet_resolver::{Endpoint, Plan, Strategy, Transport, ZoneRule};
use avocet_testkit::{Faults, Query, Response};
use avocet_wire::Rcode;
use avocet_wire::header::AA;

use crate::attacks::rule;
use crate::dns64::dns64;
use crate::world::{World, authority, recursion, settings};

/// Returns a world with the root, and with test. at these servers, which have an address for every
/// name.
fn world(faults: Faults, servers: &[u8]) -> World {
    let mut world = World::with_faults(recursion(), faults);
    let mut down: Vec<String> =
        servers.iter().map(|last| format!("au test. 86400 NS ns{last}.test.")).collect();
    down.extend(servers.iter().map(|last| format!("ad ns{last}.test. 86400 A 192.0.2.{last}")));
    let down: Vec<&str> = down.iter().map(String::as_str).collect();
    world.serve(1, authority(".", &[("*test. A", &down)]));
    for &last in servers {
        world.serve(last, Box::new(|query| Some(any(query))));
    }
    world
}

fn any(query: &Query) -> Response {
    Response::to(query).flags(AA).answer(&format!("{} 60 A 198.51.100.1", query.qname))
}

#[track_caller]
fn check_loss(percent: u32, names: u32, fewest: u32, most_queries: usize) {
    let mut world = world(Faults::loss(percent), &[2, 3]);
    let answered = (0..names)
        .filter(|number| {
            let answer = world.resolve(&format!("n{number}.test. A"));
            assert!(answer.took_ms <= 10_000, "{} ms", answer.took_ms);
            answer.rcode == Rcode::NOERROR
        })
        .count() as u32;
    assert!(answered >= fewest, "{answered} of {names} with {percent} % lost");
    let sent = world.take_sent().len();
    assert!(sent <= most_queries, "{sent} queries with {percent} % lost");
}

#[test]
fn with_a_tenth_or_a_third_of_all_datagrams_lost_every_name_is_found() {
    check_loss(10, 200, 200, 2 * 201);
    check_loss(30, 200, 200, 4 * 201);
}

#[test]
fn where_all_servers_are_silent_clients_learn_so_in_time_and_cached_names_stay() {
    let mut world = world(Faults::NONE, &[2, 3]);
    world.resolve("warm.test. A");
    for last in [1, 2, 3] {
        world.serve(last, Box::new(|_| None));
    }
    for number in 0..10 {
        let answer = world.resolve(&format!("dead{number}.test. A"));
        assert_eq!(answer.rcode, Rcode::SERVFAIL);
        assert!(matches!(answer.ede, Some(22 | 23)) && answer.took_ms <= 5_000, "{answer:?}");
    }
    let answer = world.resolve("warm.test. A");
    assert_eq!((answer.rcode, answer.took_ms), (Rcode::NOERROR, 0));
}

#[test]
fn servers_that_are_back_are_found_at_once() {
    let mut world = world(Faults::NONE, &[2, 3]);
    world.resolve("warm.test. A");
    for last in [2, 3] {
        world.serve(last, Box::new(|_| None));
    }
    for number in 0..10 {
        assert_eq!(world.resolve(&format!("dead{number}.test. A")).rcode, Rcode::SERVFAIL);
    }
    for last in [2, 3] {
        world.serve(last, Box::new(|query| Some(any(query))));
    }
    let answer = world.resolve("back.test. A");
    assert_eq!(answer.rcode, Rcode::NOERROR);
    assert!(answer.took_ms <= 2_000, "{} ms", answer.took_ms);
}

#[test]
fn slow_reordered_and_duplicated_replies_answer_each_question_once() {
    let mut world = world(Faults { loss: 0, duplicate: 20, delay_ms: 250, jitter_ms: 200 }, &[2]);
    for number in 0..100 {
        // The world itself checks that there is one answer to each question.
        assert_eq!(world.resolve(&format!("n{number}.test. A")).rcode, Rcode::NOERROR);
    }
}

#[test]
fn where_all_is_truncated_and_tcp_fails_another_server_is_asked() {
    let mut world = world(Faults::NONE, &[2, 3]);
    world.serve(2, Box::new(|query| (!query.over_tcp).then(|| any(query).truncated())));
    for number in 0..10 {
        let answer = world.resolve(&format!("n{number}.test. A"));
        assert_eq!(answer.rcode, Rcode::NOERROR);
        assert!(answer.took_ms <= 5_000, "{} ms", answer.took_ms);
    }
}

#[test]
fn a_reply_truncated_over_tcp_is_not_used_and_another_server_is_asked() {
    let mut world = world(Faults::NONE, &[2, 3]);
    let half = |query: &Query| {
        Response::to(query).flags(AA).answer(&format!("{} 60 A 203.0.113.66", query.qname))
    };
    world.serve(2, Box::new(move |query| Some(half(query).truncated())));
    for number in 0..10 {
        let name = format!("n{number}.test.");
        let whole = format!("answer {name} 60 A 198.51.100.1");
        world.resolve(&format!("{name} A")).check(Rcode::NOERROR, &[&whole]);
    }
    world.serve(3, Box::new(move |query| Some(half(query).truncated())));
    let answer = world.resolve("half.test. A");
    assert_eq!((answer.rcode, &answer.records[..]), (Rcode::SERVFAIL, &[][..]));
}

/// That these servers do not answer queries with EDNS shows nothing about the network, although
/// they answer queries without EDNS.
#[test]
fn servers_that_drop_queries_with_edns_are_no_loss_of_the_network() {
    let mut world = world(Faults::NONE, &[2, 3]);
    for last in [2, 3] {
        world
            .serve(last, Box::new(|query| query.edns.is_none().then(|| any(query).without_edns())));
    }
    for number in 0..12 {
        let answer = world.resolve(&format!("n{number}.test. A"));
        let sent = world.take_sent().len();
        assert!(answer.rcode == Rcode::NOERROR && sent <= 9, "{sent} queries, {answer:?}");
    }
    assert_eq!(world.resolve("last.test. A").rcode, Rcode::NOERROR);
    assert_eq!(world.take_sent().len(), 1, "and nothing is sent twice");
}

#[test]
fn servers_of_a_rule_that_answer_nothing_are_asked_8_times_at_most() {
    for count in 1..=7 {
        for was_alive in [false, true] {
            let upstreams = (2..2 + count)
                .map(|last| Endpoint {
                    addr: ([192, 0, 2, last], 53).into(),
                    transport: Transport::Udp,
                })
                .collect();
            let rule = ZoneRule { upstreams, ..rule(".", 2) };
            let plan = Plan::new(vec![rule], settings()).unwrap().with_recursion(recursion());
            let mut world = World::with_plan(7, plan);
            for last in 2..2 + count {
                world.serve(last, Box::new(|query| Some(any(query))));
            }
            if was_alive {
                world.resolve("warm.test. A");
            }
            world.silence();
            world.take_sent();
            let answer = world.resolve("www.test. A");
            assert!(answer.rcode == Rcode::SERVFAIL && answer.took_ms <= 5_000, "{answer:?}");
            let sent = world.take_sent().len();
            assert!(sent <= 8, "{sent} queries to {count} servers, alive before: {was_alive}");
        }
    }
}

#[test]
fn a_server_without_edns_costs_one_query_more_and_is_remembered() {
    for rcode in [Rcode::FORMERR, Rcode::NOTIMP] {
        let mut world = world(Faults::NONE, &[2]);
        let plain = move |query: &Query| {
            Some(if query.edns.is_some() {
                Response::to(query).without_edns().rcode(rcode)
            } else {
                any(query).without_edns()
            })
        };
        world.serve(2, Box::new(plain));
        assert_eq!(world.resolve("a.test. A").rcode, Rcode::NOERROR);
        let first = world.take_sent();
        assert!(first.len() <= 3, "{first:?}");
        let mut further = 0;
        for number in 0..10 {
            assert_eq!(world.resolve(&format!("n{number}.test. A")).rcode, Rcode::NOERROR);
            further += world.take_sent().len();
        }
        assert!(further <= 12, "{rcode}: {further} queries for ten names");
    }
}

#[test]
fn a_server_that_drops_queries_with_edns_is_asked_without() {
    let mut world = world(Faults::NONE, &[2]);
    world.serve(2, Box::new(|query| query.edns.is_none().then(|| any(query).without_edns())));
    let answer = world.resolve("a.test. A");
    assert_eq!(answer.rcode, Rcode::NOERROR);
    assert!(answer.took_ms <= 5_000, "{} ms", answer.took_ms);
}

#[test]
fn a_server_that_drops_questions_with_upper_case_letters_is_asked_without() {
    let mut world = world(Faults::NONE, &[2]);
    let is_lower = |query: &Query| !query.question.iter().any(u8::is_ascii_uppercase);
    world.serve(2, Box::new(move |query| is_lower(query).then(|| any(query))));
    let answer = world.resolve("a-name-with-many-letters.test. A");
    assert_eq!(answer.rcode, Rcode::NOERROR);
    assert!(answer.took_ms <= 5_000, "{} ms", answer.took_ms);
}

/// The forwarder sends the aliases one by one, so that each costs a query.
#[test]
fn where_the_first_forwarder_is_slow_one_question_goes_on_at_the_next() {
    let upstream =
        |last| Endpoint { addr: ([192, 0, 2, last], 53).into(), transport: Transport::Udp };
    let both = ZoneRule { upstreams: [8, 9].map(upstream).to_vec(), ..rule(".", 8) };
    let plan = Plan::new(vec![both], settings()).unwrap().with_dns64(dns64());
    let mut world = World::with_plan(7, plan);
    for last in [8, 9] {
        let chain = |query: &Query| {
            let number: u32 = query.qname[1..query.qname.len() - 6].parse().unwrap();
            let data = if number < 8 {
                format!("CNAME n{}.test.", number + 1)
            } else {
                "AAAA 2001:db8::1".to_owned()
            };
            Some(Response::to(query).answer(&format!("{} 60 {data}", query.qname)))
        };
        world.serve(last, Box::new(chain));
    }
    world.slow.insert([192, 0, 2, 8].into(), 3_000);
    let answer = world.resolve("n0.test. AAAA");
    assert_eq!((answer.rcode, answer.records.len()), (Rcode::NOERROR, 9));
    assert!(answer.took_ms <= 1_500, "{} ms", answer.took_ms);
    let slow = world.take_sent().iter().filter(|sent| sent.starts_with("8:")).count();
    assert!(slow <= 2, "{slow} queries to the slow one");
}

#[test]
fn a_walk_asks_a_forwarder_in_reserve_only_where_the_other_is_silent() {
    let upstream =
        |last| Endpoint { addr: ([192, 0, 2, last], 53).into(), transport: Transport::Udp };
    for strategy in [Strategy::Ordered, Strategy::Fastest, Strategy::Race(2)] {
        let rule = ZoneRule { reserves: vec![upstream(9)], strategy, ..rule(".", 8) };
        let plan = Plan::new(vec![rule], settings()).unwrap().with_dns64(dns64());
        let mut world = World::with_plan(7, plan);
        let found = |query: &Query| {
            Some(Response::to(query).answer(&format!("{} 60 AAAA 2001:db8::1", query.qname)))
        };
        for last in [8, 9] {
            world.serve(last, Box::new(found));
        }
        for host in 0..50 {
            assert_eq!(world.resolve(&format!("h{host}.test. AAAA")).rcode, Rcode::NOERROR);
        }
        let sent = world.take_sent();
        assert!(sent.iter().all(|sent| sent.starts_with("8:")), "{strategy:?} {sent:?}");
        world.serve(8, Box::new(|_| None));
        for host in 0..10 {
            assert_eq!(world.resolve(&format!("x{host}.test. AAAA")).rcode, Rcode::NOERROR);
        }
        assert!(world.take_sent().iter().any(|sent| sent.starts_with("9:")), "{strategy:?}");
    }
}

/// This host lacks file descriptors or buffers.
#[test]
fn what_cannot_be_sent_for_want_of_our_own_is_sent_later_and_no_server_is_blamed() {
    let mut world = world(Faults::NONE, &[2]);
    world.serve(2, Box::new(|query| Some(any(query))));
    world.resolve("a.test. A");
    world.take_sent();
    world.short_of = 10;
    let answer = world.resolve("b.test. A");
    assert_eq!(answer.rcode, Rcode::NOERROR);
    assert!((500..1_000).contains(&answer.took_ms), "{} ms", answer.took_ms);
    assert_eq!(world.take_sent().len(), 1);
    world.short_of = 1_000;
    assert_eq!(world.resolve("c.test. A").rcode, Rcode::SERVFAIL);
    world.short_of = 0;
    let answer = world.resolve("d.test. A");
    assert!(answer.rcode == Rcode::NOERROR && answer.took_ms <= 20, "{answer:?}");
}

#[test]
fn a_server_that_was_only_late_is_asked_with_edns_again() {
    let mut world = world(Faults::NONE, &[2]);
    let mut lost = 0;
    let script = move |query: &Query| {
        lost += 1;
        (lost > 2)
            .then(|| if query.edns.is_some() { any(query) } else { any(query).without_edns() })
    };
    world.serve(2, Box::new(script));
    assert_eq!(world.resolve("a.test. A").rcode, Rcode::NOERROR);
    world.take_sent();
    assert_eq!(world.resolve("b.test. A").rcode, Rcode::NOERROR);
    assert!(
        world.sent.iter().all(|sent| Query::read(&sent.octets, false).edns.is_some()),
        "{:?}",
        world.sent
    );
}

#[test]
fn one_living_root_server_of_the_hints_is_enough_and_none_means_servfail_in_time() {
    use std::net::IpAddr;
    let mut hints = recursion().hints;
    hints[0].addresses = (1..=13).map(|last| IpAddr::from([192, 0, 2, 100 + last])).collect();
    let mut dead = World::new(avocet_resolver::Recursion {
        hints: hints.clone(),
        priming: true,
        ..recursion()
    });
    let answer = dead.resolve("www.test. A");
    assert_eq!(answer.rcode, Rcode::SERVFAIL);
    assert!(matches!(answer.ede, Some(22 | 23)) && answer.took_ms <= 5_000, "{answer:?}");
    let mut world = World::new(avocet_resolver::Recursion { hints, priming: true, ..recursion() });
    world.serve(107, authority(".", &[("www.test. A", &["an www.test. 60 A 198.51.100.1"])]));
    let mut tries = 0;
    while world.resolve("www.test. A").rcode != Rcode::NOERROR {
        tries += 1;
        assert!(tries <= 2, "one of the hints lives");
        world.pass(6);
    }
}

/// TTLs do not depend on the wall clock.
#[test]
fn a_wall_clock_that_steps_changes_no_ttl() {
    let mut world = world(Faults::NONE, &[2]);
    world.wall_secs = 1_800_000_000;
    world.resolve("a.test. A");
    for wall_secs in [1_800_000_000 - 86_400, 1_800_000_000 + 30 * 86_400, 0] {
        world.wall_secs = wall_secs;
        world.resolve("a.test. A").check(Rcode::NOERROR, &["answer a.test. 60 A 198.51.100.1"]);
    }
    assert_eq!(world.take_sent().len(), 2, "nothing expired");
}
