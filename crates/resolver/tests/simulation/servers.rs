//! Servers that lack an ability, fail or are slow, and the strategies that choose among servers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use avocet_resolver::{Plan, SocketId, SocketSlot, Strategy, Transport};
use avocet_testkit::{Faults, Query, Response};
use avocet_wire::{Ede, FoldedName, Rcode};

use crate::world::{START_MS, Tcp, World, address, any_address, plan, rule, settings};

fn fails(rcode: Rcode) -> impl FnMut(&Query) -> Vec<(u64, Vec<u8>)> {
    move |query| vec![(0, Response::to(query).rcode(rcode).octets())]
}

fn world_of(strategy: Strategy, servers: &[u8]) -> World {
    let mut rule = rule(".", servers);
    rule.strategy = strategy;
    let mut world = World::new(1, Faults::NONE, plan(vec![rule]));
    servers.iter().for_each(|&server| world.serve(server, any_address));
    world
}

#[test]
fn servers_without_edns_are_asked_without_it_from_then_on() {
    for (rcode, with_opt) in [
        (Rcode::FORMERR, false),
        (Rcode::FORMERR, true),
        (Rcode::NOTIMP, false),
        (Rcode::BADVERS, true),
    ] {
        let mut world = World::simple(move |query| match query.edns {
            None => any_address(query),
            Some(_) if with_opt => vec![(0, Response::to(query).rcode(rcode).octets())],
            Some(_) => vec![(0, Response::to(query).rcode(rcode).without_edns().octets())],
        });
        for host in 0..10 {
            assert_eq!(world.resolve(&format!("h{host}.example. A")).rcode(), Rcode::NOERROR);
        }
        assert_eq!(world.sent.len(), 11, "{rcode} {with_opt}");
    }
}

#[test]
fn servers_that_drop_edns_or_answer_it_with_a_bare_header_are_asked_without_it() {
    let bare = |query: &Query| {
        vec![(0, Response::to(query).rcode(Rcode::FORMERR).octets()[..12].to_vec())]
    };
    let bare = move |query: &Query| {
        bare(query)
            .into_iter()
            .map(|(after, mut octets)| {
                octets[4..12].fill(0);
                (after, octets)
            })
            .collect::<Vec<_>>()
    };
    for (drops, learning) in [(true, 9), (false, 6)] {
        let mut world = World::simple(move |query| match query.edns {
            None => any_address(query),
            Some(_) if drops => Vec::new(),
            Some(_) => bare(query),
        });
        for host in 0..3 {
            assert_eq!(world.resolve(&format!("l{host}.example. A")).rcode(), Rcode::NOERROR);
        }
        assert!(world.sent.len() <= learning, "{}", world.sent.len());
        let learning = world.sent.len();
        for host in 0..10 {
            assert_eq!(world.resolve(&format!("h{host}.example. A")).rcode(), Rcode::NOERROR);
        }
        assert_eq!(world.sent.len(), learning + 10);
    }
}

#[test]
fn one_odd_name_does_not_take_edns_from_all_others() {
    let mut world = World::simple(|query| match query.edns {
        Some(_) if query.qname == "odd.example." => {
            vec![(0, Response::to(query).rcode(Rcode::FORMERR).octets())]
        }
        _ => any_address(query),
    });
    for what in ["a.example. A", "odd.example. A", "b.example. A"] {
        assert_eq!(world.resolve(what).rcode(), Rcode::NOERROR);
    }
    let with_edns: Vec<_> = world.sent.iter().map(|sent| sent.query.edns.is_some()).collect();
    assert_eq!(with_edns, [true, true, false, true]);
}

#[test]
fn truncated_answers_are_fetched_by_tcp() {
    let mut world = World::simple(|query| match query.over_tcp {
        false => vec![(0, Response::to(query).truncated().octets())],
        true => any_address(query),
    });
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    assert!(answer.resolved.source.unwrap().over_tcp);
    assert_eq!(world.sent.len(), 2);
}

/// Returns a reply without question to the query of a reply.
fn without_question(mut octets: Vec<u8>) -> Vec<u8> {
    octets[4..6].fill(0);
    octets.truncate(12);
    octets[10..12].fill(0);
    octets
}

#[test]
fn a_truncated_reply_may_lack_the_question() {
    let mut world = World::simple(|query| match query.over_tcp {
        false => vec![(0, without_question(Response::to(query).truncated().octets()))],
        true => any_address(query),
    });
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    assert!(answer.resolved.source.unwrap().over_tcp);
    // Without TC, such a reply is not used.
    let mut world =
        World::simple(|query| vec![(0, without_question(Response::to(query).octets()))]);
    assert_eq!(world.resolve("www.example. A").rcode(), Rcode::SERVFAIL);
}

#[test]
fn the_first_of_two_opt_records_counts() {
    let mut world = World::simple(|query| {
        let mut replies = any_address(query);
        if query.edns.is_some() {
            for (_, octets) in &mut replies {
                octets.extend_from_slice(b"\0\0\x29\x10\0\x01\0\0\0\0\0");
                octets[11] += 1;
            }
        }
        replies
    });
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    assert_eq!(world.sent.len(), 1);
    assert!(world.sent[0].query.edns.is_some());
}

#[test]
fn where_tcp_fails_another_server_is_asked() {
    for tcp in [Tcp::Refused, Tcp::Closes, Tcp::Silent] {
        let mut world = world_of(Strategy::Ordered, &[1, 2]);
        world.serve(1, |query| vec![(0, Response::to(query).truncated().octets())]);
        world.server(1).tcp = tcp;
        let answer = world.resolve("www.example. A");
        answer.check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
        assert!(answer.at_ms - START_MS <= 1_200, "{tcp:?}: {}", answer.at_ms - START_MS);
        assert!(world.sent_to(1) <= 3);
    }
    let mut world = World::simple(|query| vec![(0, Response::to(query).truncated().octets())]);
    world.server(1).tcp = Tcp::Refused;
    let answer = world.resolve("www.example. A");
    assert_eq!((answer.rcode(), answer.ede()), (Rcode::SERVFAIL, Some(Ede::NETWORK_ERROR.0)));
}

#[test]
fn a_reply_truncated_over_tcp_is_not_used_and_the_next_server_is_asked() {
    fn truncated(query: &Query) -> Vec<(u64, Vec<u8>)> {
        vec![(0, Response::to(query).answer("www.example. 300 A 192.0.2.66").truncated().octets())]
    }
    let mut world = world_of(Strategy::Ordered, &[1, 2]);
    world.serve(1, truncated);
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    assert_eq!((world.sent_to(1), world.sent_to(2)), (2, 1));
    let mut world = World::simple(truncated);
    let answer = world.resolve("www.example. A");
    assert_eq!((answer.rcode(), answer.ede()), (Rcode::SERVFAIL, Some(Ede::INVALID_DATA.0)));
    let at = avocet_cache::ReadAt { now: (world.net.now_ms / 1000) as u32, stale_window: 0 };
    let owner = avocet_testkit::name("www.example.");
    let key =
        avocet_cache::RrsetKey { owner: FoldedName::new(&owner).unwrap(), rtype: 1, class: 1 };
    assert!(
        world.rrsets.lookup(&key, at, &mut vec![0; 70_000]).is_none(),
        "half an RRset is not kept"
    );
}

#[test]
fn upstreams_that_all_drop_queries_with_edns_are_asked_without_and_that_is_learnt() {
    for count in 1..=4 {
        let places: Vec<u8> = (1..=count).collect();
        let mut world = world_of(Strategy::Ordered, &places);
        for place in places {
            world.serve(
                place,
                |query| if query.edns.is_none() { any_address(query) } else { Vec::new() },
            );
        }
        for host in 0..4 {
            assert_eq!(
                world.resolve(&format!("l{host}.example. A")).rcode(),
                Rcode::NOERROR,
                "{count} upstreams"
            );
        }
        let learning = world.sent.len();
        assert!(learning <= 20, "{learning} queries with {count} upstreams");
        for host in 0..10 {
            assert_eq!(world.resolve(&format!("h{host}.example. A")).rcode(), Rcode::NOERROR);
        }
        assert_eq!(world.sent.len(), learning + 10, "{count} upstreams");
    }
}

#[test]
fn upstreams_that_answer_nothing_are_asked_8_times_at_most() {
    for count in 1..=7 {
        let places: Vec<u8> = (1..=count).collect();
        for (strategy, was_alive) in [
            (Strategy::Ordered, false),
            (Strategy::Fastest, false),
            (Strategy::RoundRobin, false),
            (Strategy::Ordered, true),
            (Strategy::Fastest, true),
        ] {
            let mut world = world_of(strategy, &places);
            if was_alive {
                world.resolve("warm.example. A");
                world.sent.clear();
            }
            for &place in &places {
                world.serve(place, |_| Vec::new());
            }
            assert_eq!(world.resolve("www.example. A").rcode(), Rcode::SERVFAIL);
            let sent = world.sent.len();
            assert!(sent <= 8, "{sent} queries to {count} upstreams, alive before: {was_alive}");
        }
    }
}

#[test]
fn an_upstream_by_tcp_is_never_sent_a_datagram() {
    let mut tcp = rule(".", &[1]);
    tcp.upstreams[0].transport = Transport::Tcp;
    let mut world = World::new(1, Faults::NONE, plan(vec![tcp]));
    world.serve(1, any_address);
    world
        .resolve("www.example. A")
        .check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    assert!(world.sent.iter().all(|sent| sent.is_by_tcp()));
}

#[test]
fn a_server_that_always_wants_another_cookie_is_asked_three_times() {
    let mut world = World::simple(|query| {
        let mut cookie = query.cookie.clone().unwrap();
        cookie.truncate(8);
        cookie.extend(b"server01");
        vec![(0, Response::to(query).rcode(Rcode::BADCOOKIE).cookie(&cookie).octets())]
    });
    world.resolve("www.example. A").check(Rcode::SERVFAIL, &[]);
    assert_eq!(world.sent.len(), 3);
    assert_eq!(world.sent[1].query.cookie.as_ref().unwrap()[8..], *b"server01");
    assert!(world.sent[2].query.over_tcp);
}

#[test]
fn a_server_cookie_is_learnt_and_sent() {
    let mut world = World::simple(|query| {
        let cookie = query.cookie.clone().unwrap();
        match cookie.len() {
            8 => {
                let cookie = [&cookie[..], b"server01"].concat();
                vec![(0, Response::to(query).rcode(Rcode::BADCOOKIE).cookie(&cookie).octets())]
            }
            _ => vec![(0, address(query).cookie(&cookie).octets())],
        }
    });
    for host in 0..5 {
        assert_eq!(world.resolve(&format!("h{host}.example. A")).rcode(), Rcode::NOERROR);
    }
    assert_eq!(world.sent.len(), 6);
}

#[test]
fn a_failure_never_beats_an_answer() {
    for rcode in [Rcode::SERVFAIL, Rcode::REFUSED, Rcode::NOTIMP, Rcode(9)] {
        for strategy in [Strategy::Ordered, Strategy::Race(2), Strategy::Fastest] {
            let mut world = world_of(strategy, &[1, 2]);
            world.serve(1, fails(rcode));
            world.serve(2, |query| vec![(30, address(query).octets())]);
            let answer = world.resolve("www.example. A");
            answer.check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
        }
    }
}

#[test]
fn where_all_fail_the_client_learns_servfail_and_why() {
    for (rcode, ede) in [
        (Rcode::SERVFAIL, Ede::NO_REACHABLE_AUTHORITY),
        (Rcode::REFUSED, Ede::NO_REACHABLE_AUTHORITY),
    ] {
        let mut world = world_of(Strategy::Ordered, &[1, 2, 3]);
        (1..=3).for_each(|server| world.serve(server, fails(rcode)));
        let answer = world.resolve("www.example. A");
        assert_eq!((answer.rcode(), answer.ede()), (Rcode::SERVFAIL, Some(ede.0)));
        assert_eq!(world.sent.len(), 3 + 2, "one query each, and two in lower case");
    }
    let mut world = World::simple(|query| {
        vec![(0, Response::to(query).rcode(Rcode::SERVFAIL).ede(9).octets())]
    });
    assert_eq!(world.resolve("www.example. A").ede(), Some(9), "the upstream's own");
}

#[test]
fn a_failed_question_is_not_tried_again_for_a_while() {
    let mut world = World::simple(fails(Rcode::SERVFAIL));
    world.resolve("www.example. A");
    let again = world.resolve("www.example. A");
    assert_eq!((again.rcode(), again.ede()), (Rcode::SERVFAIL, Some(Ede::CACHED_ERROR.0)));
    assert_eq!(world.sent.len(), 2, "in mixed case and in lower case");
    world.serve(1, any_address);
    world.run(START_MS + 6_000);
    assert_eq!(world.resolve("www.example. A").rcode(), Rcode::NOERROR);
    assert_eq!(world.resolve("www.example. A").rcode(), Rcode::NOERROR);
}

#[test]
fn round_robin_asks_each_in_its_turn() {
    let mut world = world_of(Strategy::RoundRobin, &[1, 2, 3]);
    for host in 0..30 {
        world.resolve(&format!("h{host}.example. A"));
    }
    assert_eq!([world.sent_to(1), world.sent_to(2), world.sent_to(3)], [10, 10, 10]);
}

#[test]
fn the_fastest_is_found_and_found_again_when_it_changes() {
    let slow = Rc::new(Cell::new(1));
    let mut world = world_of(Strategy::Fastest, &[1, 2]);
    for server in [1, 2] {
        let slow = Rc::clone(&slow);
        world.serve(server, move |query| {
            vec![(if slow.get() == server { 100 } else { 0 }, address(query).octets())]
        });
    }
    for host in 0..100 {
        world.resolve(&format!("a{host}.example. A"));
    }
    assert!(world.sent_to(2) > 90, "{}", world.sent_to(2));
    slow.set(2);
    let before = world.sent_to(1);
    for host in 0..100 {
        world.resolve(&format!("b{host}.example. A"));
    }
    assert!(world.sent_to(1) - before > 90, "{}", world.sent_to(1) - before);
}

#[test]
fn others_than_the_fastest_are_tried_now_and_then() {
    let mut world = world_of(Strategy::Fastest, &[1, 2]);
    world.serve(2, |query| vec![(40, address(query).octets())]);
    for host in 0..2000 {
        let answer = world.resolve(&format!("a{host}.example. A"));
        assert!(answer.at_ms <= world.net.now_ms && answer.rcode() == Rcode::NOERROR);
    }
    let explored = world.sent_to(2);
    assert!((10..80).contains(&explored), "one of 64: {explored}");
    let late = world.resolver.counters().late as usize;
    assert!(
        late == explored || late + 1 == explored,
        "all but the first went beside another: {late} of {explored}"
    );
}

#[test]
fn a_race_takes_the_first_answer_and_drops_the_others() {
    let mut world = world_of(Strategy::Race(3), &[1, 2, 3]);
    world.serve(1, |query| vec![(50, address(query).octets())]);
    world.serve(2, fails(Rcode::SERVFAIL));
    world.serve(3, |query| vec![(10, address(query).octets())]);
    let answer = world.resolve("www.example. A");
    assert_eq!(answer.at_ms - START_MS, 30);
    assert_eq!((world.sent.len(), world.resolver.counters().late), (3, 1));
}

#[test]
fn a_forged_port_unreachable_changes_nothing_and_a_true_one_goes_on_at_once() {
    let mut world = world_of(Strategy::Ordered, &[1, 2]);
    world.server(1).unreachable = true;
    world.ask("www.example. A");
    let sent = world.sent[0].socket;
    for slot in (0..4096).map(SocketSlot::Pooled).filter(|slot| *slot != sent.slot) {
        world.socket_error(SocketId { slot, ..sent });
    }
    assert_eq!(world.sent.len(), 1);
    world.settle();
    assert_eq!(
        world.answers[0].at_ms - START_MS,
        40,
        "20 ms for the error, 20 for the other server"
    );
}

#[test]
fn a_new_plan_keeps_what_is_known_and_loses_no_question() {
    let mut world = world_of(Strategy::Ordered, &[1, 2]);
    world.resolve("warm.example. A");
    let waiter = world.ask("www.example. A");
    world.reload(plan(vec![rule(".", &[2, 3])]));
    world.serve(3, any_address);
    assert!(world.forgotten.is_empty(), "a query is outstanding there");
    world.settle();
    world.answer_to(waiter).check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    assert_eq!(world.forgotten.len(), 1);
    let known: HashMap<_, _> =
        world.resolver.upstreams().map(|u| (u.endpoint.addr, u.counters.queries)).collect();
    assert_eq!(known.len(), 2);
    let third = Plan::new(vec![rule(".", &[1])], settings()).unwrap();
    world.reload(third.into());
    assert_eq!(world.forgotten.len(), 3);
    assert_eq!(world.resolve("other.example. A").rcode(), Rcode::NOERROR);
    let reports: Vec<_> =
        world.resolver.upstreams().map(|u| (u.rtt_ms, u.counters.queries)).collect();
    assert_eq!(reports, [(Some(20), 1)], "begun anew");
}

#[test]
fn what_an_older_plan_finds_is_for_those_who_wait_and_no_cache_keeps_it() {
    let mut world = world_of(Strategy::Ordered, &[1]);
    let (old, failing) = (world.ask("www.corp. A"), world.ask("x.corp. A"));
    let mut fail = fails(Rcode::SERVFAIL);
    world.serve(1, move |query| {
        if query.qname.starts_with(['x', 'X']) { fail(query) } else { any_address(query) }
    });
    world.serve(2, any_address);
    world.reload(plan(vec![rule(".", &[1]), rule("corp.", &[2])]));
    let new = world.ask("www.corp. A");
    world.settle();
    assert_eq!(
        (world.sent_to(1), world.sent_to(2)),
        (2, 1),
        "who asks now does not wait for the old server"
    );
    assert_eq!(
        (world.answer_to(old).resolved.ttl_secs, world.answer_to(new).resolved.ttl_secs),
        (0, 300)
    );
    assert_eq!(world.answer_to(failing).rcode(), Rcode::SERVFAIL);
    assert_eq!(world.resolve("x.corp. A").rcode(), Rcode::NOERROR, "the failure is not remembered");
}

#[test]
fn what_is_known_of_a_server_outlives_a_reload() {
    let mut world = world_of(Strategy::Ordered, &[1]);
    world.resolve("warm.example. A");
    world.reload(plan(vec![rule(".", &[2, 1]), rule("corp.", &[1])]));
    let first =
        world.resolver.upstreams().find(|u| u.endpoint.addr == crate::world::addr(1)).unwrap();
    assert_eq!((first.rtt_ms, first.counters.queries), (Some(20), 1));
}

#[test]
fn a_server_that_is_back_is_asked_again() {
    let alive = Rc::new(Cell::new(true));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let mut world = world_of(Strategy::Ordered, &[1, 2]);
    let (is_alive, log) = (Rc::clone(&alive), Rc::clone(&seen));
    world.serve(1, move |query| {
        log.borrow_mut().push(query.qname.clone());
        if is_alive.get() { any_address(query) } else { Vec::new() }
    });
    alive.set(false);
    let mut slow = 0;
    for host in 0..200 {
        let before = world.net.now_ms;
        let answer = world.resolve(&format!("a{host}.example. A"));
        slow += usize::from(answer.at_ms - before > 100);
        world.run(before + 100);
    }
    assert!(slow <= 6, "the breaker keeps clients from a dead server: {slow}");
    let probes = seen.borrow().len();
    assert!((7..20).contains(&probes), "{probes}");
    alive.set(true);
    let before = world.sent_to(1);
    for host in 0..700 {
        let now = world.net.now_ms;
        world.resolve(&format!("b{host}.example. A"));
        world.run(now + 100);
    }
    assert!(world.sent_to(1) - before > 30, "{}", world.sent_to(1) - before);
}
